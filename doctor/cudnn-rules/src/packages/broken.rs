//! Finds the installed packages with requirements that a change by pip or uv breaks. conda and apt check this
//! themselves.

use std::collections::BTreeSet;

use cudnn_frameworks::{allows, applies, exclude_each_other, normalized, requirements};

use super::change::PackageChange;
use super::contents;
use super::environment::{PipRecord, records};
use super::requirement::package_name;

impl PackageChange {
    /// Returns the requirements that are met before the change but not afterwards: `acme 0.7.0 requires
    /// nvidia-cudnn-cu12<9.19`.
    pub(crate) fn broken_requirements(&self) -> BTreeSet<String> {
        let installed: Vec<PipRecord> = self.site.package_dirs().iter().flat_map(|dir| records(dir)).collect();
        let kept = installed.iter().filter(|one| !self.remove.contains(&one.name) && !self.installs(&one.name));
        let broken = |record: &PipRecord| {
            let all = requirements(&record.dir).into_iter().filter(|requirement| applies(requirement, None));
            let broken = all.filter(|one| installed.iter().any(|other| self.breaks(one, other)));
            let version = record.version.as_deref().unwrap_or_default();
            let without_marker = |one: &str| one.split(';').next().unwrap_or_default().trim().to_owned();
            broken.map(|one| format!("{} {version} requires {}", record.name, without_marker(&one))).collect::<Vec<_>>()
        };
        kept.flat_map(broken).collect()
    }

    fn breaks(&self, requirement: &str, package: &PipRecord) -> bool {
        let is_it = |other: &str| normalized(package_name(other)) == package.name;
        let meets = |wanted: &str| package.version.as_deref().is_some_and(|version| allows(wanted, version));
        if !is_it(requirement) || !meets(requirement) {
            return false;
        }
        let is_removed = self.remove.iter().any(|name| is_it(name));
        match self.installed().find(|wanted| is_it(wanted)) {
            None => is_removed,
            Some(wanted) if meets(wanted) && !is_removed => false,
            Some(wanted) => contents::wheel(wanted)
                .map_or_else(|| exclude_each_other(wanted, requirement), |new| !allows(requirement, &new.version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::{Pip, Site};

    #[test]
    #[cfg_attr(miri, ignore = "it writes files")]
    fn a_change_breaks_the_requirements_that_it_no_longer_meets() {
        for (requirement, remove, install, is_broken) in [
            ("nvidia-cudnn-cu12==9.18.0.56", &[][..], &["nvidia-cudnn-cu12>=9.19"][..], true),
            ("nvidia_cudnn.cu12<9.19", &[], &["nvidia-cudnn-cu12>=9.19"], true),
            ("nvidia-cudnn-cu12<9.20", &[], &["nvidia-cudnn-cu12>=9.19,<9.20"], false),
            ("nvidia-cudnn-cu12<9.20", &[], &["nvidia-cudnn-cu12"], false),
            ("nvidia-cudnn-cu12<9.20", &["nvidia-cudnn-cu12"], &["nvidia-cudnn-cu12"], true),
            ("nvidia-cudnn-cu12", &["nvidia-cudnn-cu12"], &["nvidia-cudnn-cu13"], true),
            ("nvidia-cudnn-cu12; extra == 'cuda'", &["nvidia-cudnn-cu12"], &[], false),
            ("nvidia-cudnn-cu12; sys_platform == 'never'", &["nvidia-cudnn-cu12"], &[], false),
            ("nvidia-cudnn-cu12<9.18", &[], &["nvidia-cudnn-cu12>=9.19"], false),
            ("another", &["nvidia-cudnn-cu12"], &[], false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in [
                ("acme-0.7.0", format!("Requires-Dist: {requirement}\n")),
                ("nvidia_cudnn_cu12-9.18.0.56", String::new()),
            ] {
                let record = dir.path().join(format!("{name}.dist-info"));
                std::fs::create_dir(&record).unwrap();
                std::fs::write(record.join("METADATA"), format!("Name: x\n{text}")).unwrap();
            }
            let site = Site::Directory { dir: dir.path().to_owned(), pip: Pip::Any, options: Vec::new() };
            let change = PackageChange::of(site).remove(remove.iter().copied()).install(install.iter().copied());
            let expected = is_broken.then(|| format!("acme 0.7.0 requires {}", requirement.split(';').next().unwrap()));
            assert_eq!(change.broken_requirements().into_iter().next(), expected, "{change:?}");
        }
    }
}
