//! Finds the user's decisions about system packages: held packages (`apt-mark hold`) stay at their version.

use cudnn_cli::escape::Printable;

use crate::packages::change::PackageChange;
use crate::packages::requirement::package_name;
use crate::packages::{apt, contents};

/// Returns the hold that forbids a change, unless it installs the same version again.
pub(super) fn hold(change: &PackageChange) -> Option<String> {
    let rivals =
        change.installed().filter_map(|wanted| contents::debian_package(wanted)).flat_map(|new| new.debian_rivals());
    let mut removed = change.remove.iter().cloned().chain(rivals).filter(|name| apt::held(name).is_some());
    let is_changed = |name: &str, wanted: &String| apt::held(name).is_some_and(|kept| kept != *wanted);
    let changed = || {
        let mut all = change.installed().map(|wanted| (package_name(wanted), wanted));
        all.find(|(name, wanted)| is_changed(name, wanted)).map(|(name, _)| name.to_owned())
    };
    let name = removed.next().or_else(changed)?.printable();
    Some(format!("{name} is held until you run `apt-mark unhold {name}`"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cudnn_cli::command::command_line;
    use cudnn_frameworks::installation::{Installer, Package};
    use cudnn_probe::Component;
    use cudnn_probe::facts::{Changes, Facts};

    use super::super::forbidding;
    use super::*;
    use crate::check::remedies::by_change;
    use crate::packages::{Site, install_beside, reinstall};
    use crate::plan::advice_of;

    fn with_packages<T>(packages: &[(&str, &str, bool)], run: impl FnOnce() -> T) -> T {
        let mut changes = Changes::default();
        for (name, version, is_held) in packages {
            let wanted = if *is_held { "hold" } else { "install" };
            let paragraph = format!("Package: {name}\nStatus: {wanted} ok installed\nVersion: {version}");
            changes.set_answer("Debian package", name, &paragraph);
            changes.write(Path::new(&format!("/var/lib/dpkg/info/{name}.list")), "");
        }
        Facts::default().after(changes).within(run)
    }

    #[test]
    fn a_held_package_keeps_its_version() {
        let change = || PackageChange::of(Site::System);
        for (change, is_forbidden) in [
            (change().install(["libcudnn9-cuda-12>=9.19.0"]), true),
            (change().install(["libcudnn9-cuda-12=9.19.0.56-1"]), true),
            (change().remove(["libcudnn9-cuda-12"]), true),
            (change().reinstall(["libcudnn9-cuda-12=9.19.0.56-1"]), true),
            (change().reinstall(["libcudnn9-cuda-12=9.18.0.56-1"]), false),
            // The package contains the same files.
            (change().install(["libcudnn9-cuda-13"]), true),
            (change().install(["libcublas-12-9"]), false),
        ] {
            for is_held in [false, true] {
                let found = with_packages(&[("libcudnn9-cuda-12", "9.18.0.56-1", is_held)], || {
                    (forbidding(&change), advice_of(&by_change("change it:", change.clone())))
                });
                let expected = "libcudnn9-cuda-12 is held until you run `apt-mark unhold libcudnn9-cuda-12`".to_owned();
                let is_forbidden = is_held && is_forbidden;
                assert_eq!(found.0, is_forbidden.then_some(expected.clone()), "{change:?}");
                assert_eq!(found.1.text.contains(&expected), is_forbidden, "{:?}", found.1);
                assert_eq!(found.1.commands.is_empty(), is_forbidden, "{:?}", found.1);
            }
        }
    }

    #[test]
    #[cfg(all(test, target_os = "linux"))]
    fn a_package_that_is_installed_again_stays_held() {
        let commands = |is_held| {
            let packages = [("libcudnn9-cuda-12", "9.18.0.56-1", is_held), ("libcublas-12-0", "12.0.2-1", is_held)];
            with_packages(&packages, || {
                let package = Package::new(Installer::Dpkg, "libcudnn9-cuda-12", Some("9.18.0.56-1"), "/");
                let mut change = reinstall(&package)?;
                change.merge(&install_beside(&package, Component::Cublas, 12, Some(0))?);
                Some(command_line(&change.commands()?))
            })
        };
        let again = "apt-get install -y --reinstall libcudnn9-cuda-12=9.18.0.56-1 libcublas-12-0";
        assert_eq!(commands(false).as_deref(), Some(again));
        let held = format!("{again}=12.0.2-1 && apt-mark hold libcudnn9-cuda-12 libcublas-12-0");
        assert_eq!(commands(true).as_deref(), Some(held.as_str()));
    }
}
