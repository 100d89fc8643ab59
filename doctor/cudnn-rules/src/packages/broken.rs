//! Finds the installed packages with requirements that a change by pip or uv breaks. conda and apt check this
//! themselves.

use std::collections::BTreeSet;

use cudnn_frameworks::{Distribution, allows, exclude_each_other, normalized, packages_with_requirements};

use super::change::PackageChange;
use super::contents;
use super::requirement::package_name;

impl PackageChange {
    /// Returns the requirements that are met before the change but not afterwards: `acme 0.7.0 requires
    /// nvidia-cudnn-cu12<9.19`.
    pub(crate) fn broken_requirements(&self) -> BTreeSet<String> {
        let packages = self.site.environment().map(|one| packages_with_requirements(&one)).unwrap_or_default();
        let kept = packages.iter().filter(|(one, _)| !self.remove.contains(&one.name) && !self.installs(&one.name));
        let broken = |(package, requirements): &(Distribution, Vec<String>)| {
            let broken = requirements.iter().filter(|one| packages.iter().any(|(other, _)| self.breaks(one, other)));
            let without_marker = |one: &String| one.split(';').next().unwrap_or_default().trim().to_owned();
            let text = |one| format!("{} {} requires {}", package.name, package.version, without_marker(one));
            broken.map(text).collect::<Vec<_>>()
        };
        kept.flat_map(broken).collect()
    }

    /// Returns whether this package meets a requirement now, and not after the change.
    fn breaks(&self, requirement: &str, package: &Distribution) -> bool {
        let is_it = |other: &str| normalized(package_name(other)) == package.name;
        let meets = |wanted: &str| allows(wanted, &package.version);
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
    use cudnn_probe::facts::{Changes, Facts};

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

    /// Packages of the user, and extras that other packages request.
    #[test]
    #[cfg(all(test, target_os = "linux"))]
    fn a_change_breaks_requirements_of_all_packages_that_python_imports() {
        let dir = tempfile::tempdir().unwrap();
        let record = |place: &str, name: &str, text: &str| {
            let record = dir.path().join(format!("{place}/lib/python3.12/site-packages/{name}.dist-info"));
            std::fs::create_dir_all(&record).unwrap();
            std::fs::write(record.join("METADATA"), format!("Name: x\n{text}")).unwrap();
        };
        record("env", "nvidia_cudnn_cu12-9.18.0.56", "");
        record("env", "acme-0.7.0", "Requires-Dist: nvidia-cudnn-cu12<9.19; extra == 'cuda'\n");
        record(
            "env",
            "all-1",
            "Requires-Dist: Acme[Cuda]; extra == 'gpu'\nRequires-Dist: nvidia-cudnn-cu12<9; extra == 'x'\n",
        );
        record("user", "mine-1", "Requires-Dist: nvidia-cudnn-cu12<9.20\nRequires-Dist: all[gpu]\n");
        std::fs::create_dir_all(dir.path().join("env/bin")).unwrap();
        let site = Site::Environment(dir.path().join("env"));
        let change = PackageChange::of(site).install(["nvidia-cudnn-cu12>=9.20".to_owned()]);
        let by_user = "mine 1 requires nvidia-cudnn-cu12<9.20";
        for (no_user, expected) in
            [(None, &["acme 0.7.0 requires nvidia-cudnn-cu12<9.19", by_user][..]), (Some("1".into()), &[])]
        {
            let mut changes = Changes::default();
            changes.set_variable("PYTHONUSERBASE", Some(dir.path().join("user").into()));
            changes.set_variable("PYTHONNOUSERSITE", no_user);
            let found = Facts::recorder().after(changes).within(|| change.broken_requirements());
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    }
}
