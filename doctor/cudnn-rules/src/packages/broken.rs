//! Makes a change by pip or uv meet the requirements of the installed packages, and finds those that it breaks. conda
//! and apt do so themselves.

use std::collections::BTreeSet;

use cudnn_frameworks::{
    Distribution, allows, allows_from, exclude_each_other, normalized, packages_with_requirements, requires_url,
};

use super::change::PackageChange;
use super::contents;
use super::requirement::{package_name, with_known_major, with_specifiers};

impl PackageChange {
    /// Returns this change with the versions that the other packages require, except for requirements that exclude the
    /// wanted versions.
    pub(crate) fn within_requirements(mut self) -> PackageChange {
        if self.installed().all(|wanted| is_exact(wanted)) {
            return self;
        }
        let packages = self.installed_packages();
        let mut required: Vec<String> =
            self.kept_packages(&packages).flat_map(|(_, requirements)| requirements).cloned().collect();
        // An exact version excludes most others.
        required.sort_by_key(|requirement| !requirement.contains("=="));
        for wanted in self.install.iter_mut().chain(&mut self.reinstall) {
            *wanted = narrowed(wanted, &required);
        }
        self
    }

    fn installed_packages(&self) -> Vec<(Distribution, Vec<String>)> {
        self.site.environment().map(|one| packages_with_requirements(&one)).unwrap_or_default()
    }

    /// Returns the packages that the change leaves in place.
    fn kept_packages<'a, T>(
        &'a self,
        packages: &'a [(Distribution, T)],
    ) -> impl Iterator<Item = &'a (Distribution, T)> {
        packages.iter().filter(|(one, _)| !self.remove.contains(&one.name) && !self.installs(&one.name))
    }

    /// Returns the requirements that are not met after the change, although they are met before or their package is
    /// missing: `acme 0.7.0 requires nvidia-cudnn-cu12<9.19`.
    pub(crate) fn broken_requirements(&self) -> BTreeSet<String> {
        let packages = self.installed_packages();
        let kept = self.kept_packages(&packages);
        let is_broken = |requirement: &&String| {
            let name = normalized(package_name(requirement));
            match packages.iter().find(|(other, _)| other.name == name) {
                Some(_) => packages.iter().any(|(other, _)| self.breaks(requirement, other)),
                None => self
                    .installed()
                    .any(|wanted| normalized(package_name(wanted)) == name && excludes(wanted, requirement)),
            }
        };
        let broken = |(package, requirements): &(Distribution, Vec<String>)| {
            let broken = requirements.iter().filter(is_broken);
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
            Some(wanted) => excludes(wanted, requirement),
        }
    }
}

/// Returns whether the version that pip installs does not meet a requirement.
fn excludes(wanted: &str, requirement: &str) -> bool {
    let new = contents::wheel(wanted);
    // The file at a URL differs from the package of the index.
    requires_url(requirement)
        || new.map_or_else(|| exclude_each_other(wanted, requirement), |new| !allows(requirement, &new.version))
}

/// Adds the versions of the compatible requirements of the same package to one without an exact version.
fn narrowed(wanted: &str, required: &[String]) -> String {
    let name = normalized(package_name(wanted));
    let of_package = required.iter().filter(|one| normalized(package_name(one)) == name);
    let versions = of_package.filter_map(|requirement| Some(allows_from(requirement, "0")?.0));
    versions.fold(wanted.to_owned(), |wanted, versions| {
        let required = format!("{name}{versions}");
        if is_exact(&wanted) || exclude_each_other(&with_known_major(&wanted), &required) {
            return wanted;
        }
        let new = versions.split(',').filter(|clause| !wanted.split(',').any(|own| own.ends_with(clause)));
        new.fold(wanted.clone(), |wanted, clause| with_specifiers(&wanted, clause))
    })
}

fn is_exact(wanted: &str) -> bool {
    wanted.contains("==") && !wanted.contains('*')
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
            ("nvidia-cudnn-cu12 @ https://h/x.whl", &[], &["nvidia-cudnn-cu12>=9.19"], true),
            ("nvidia-cudnn-cu12 @ https://h/x.whl", &[], &["nvidia-cudnn-cu12"], false),
            ("nvidia-cublas-cu12 @ https://h/x.whl", &[], &["nvidia-cublas-cu12>=12.6"], true),
            ("nvidia-cudnn-cu12<9.18", &[], &["nvidia-cudnn-cu12>=9.19"], false),
            ("another", &["nvidia-cudnn-cu12"], &[], false),
            // The package is missing.
            ("nvidia-cublas-cu12<12.4", &[], &["nvidia-cublas-cu12>=12.6"], true),
            ("nvidia-cublas-cu12<12.4", &[], &["nvidia-cublas-cu12>=12.1"], true),
            ("nvidia-cublas-cu12<12.4", &[], &["nvidia-cublas-cu12>=12.1,<12.4"], false),
            ("nvidia-cublas-cu12<12.4", &[], &["nvidia-cudnn-cu12"], false),
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

    /// Also those of a package that is missing.
    #[test]
    #[cfg_attr(miri, ignore = "it writes files")]
    fn an_installation_stays_within_the_versions_that_other_packages_require() {
        for (required, wanted, expected) in [
            (&["nvidia-cublas-cu12<12.4"][..], "nvidia-cublas-cu12", "nvidia-cublas-cu12<12.4"),
            (&["nvidia_cublas.cu12 (<12.4,>=12.1)"], "nvidia-cublas-cu12", "nvidia-cublas-cu12>=12.1,<12.4"),
            (&["nvidia-cublas-cu12<12.4"], "nvidia-cublas-cu12>=12.1", "nvidia-cublas-cu12>=12.1,<12.4"),
            (&["nvidia-cublas-cu12<12.4"], "nvidia-cublas-cu12==12.1.3.1", "nvidia-cublas-cu12==12.1.3.1"),
            (&["nvidia-cublas-cu12<12.4"], "nvidia-cublas-cu12>=12.6", "nvidia-cublas-cu12>=12.6"),
            (
                &["nvidia-cublas-cu12!=12.2", "nvidia-cublas-cu12==12.1.3.1; sys_platform != 'never'"],
                "nvidia-cublas-cu12",
                "nvidia-cublas-cu12==12.1.3.1",
            ),
            (
                &["nvidia-cublas-cu12<12.4,>=12.1", "nvidia-cublas-cu12>=12.1"],
                "nvidia-cublas-cu12",
                "nvidia-cublas-cu12>=12.1,<12.4",
            ),
            (&["nvidia-cublas-cu12<12.4; sys_platform == 'never'"], "nvidia-cublas-cu12", "nvidia-cublas-cu12"),
            (&["nvidia-cublas-cu12<12.4; extra == 'cuda'"], "nvidia-cublas-cu12", "nvidia-cublas-cu12"),
            // The findings are about cuDNN 9.
            (&["nvidia-cudnn-cu12<9"], "nvidia-cudnn-cu12", "nvidia-cudnn-cu12"),
            (&["nvidia-cudnn-cu12>=10"], "nvidia-cudnn-cu12", "nvidia-cudnn-cu12"),
            (&["nvidia-cudnn-cu12>=10"], "nvidia-cudnn-cu12>=9.18", "nvidia-cudnn-cu12>=9.18"),
            (&["nvidia-cudnn-cu12<9.8"], "nvidia-cudnn-cu12", "nvidia-cudnn-cu12<9.8"),
            (&["nvidia-cudnn-cu12>=8.5", "nvidia-cudnn-cu12<9"], "nvidia-cudnn-cu12", "nvidia-cudnn-cu12>=8.5"),
            (&["jax>=0.5.1", "jax<0.8"], "jax[cuda12]", "jax[cuda12]>=0.5.1,<0.8"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let record = dir.path().join("acme-0.7.0.dist-info");
            std::fs::create_dir(&record).unwrap();
            let lines: String = required.iter().map(|one| format!("Requires-Dist: {one}\n")).collect();
            std::fs::write(record.join("METADATA"), format!("Name: acme\n{lines}")).unwrap();
            let site = Site::Directory { dir: dir.path().to_owned(), pip: Pip::Any, options: Vec::new() };
            let change = PackageChange::of(site).install([wanted]).within_requirements();
            assert_eq!(change.install, [expected], "{required:?}");
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
