//! Lists what a step removes, to request the user's consent.

use std::collections::BTreeSet;

use cudnn_cli::escape::Printable;
use cudnn_rules::drop_in::command::DropInCommand;
use cudnn_rules::packages::restore_python;
use cudnn_rules::remedy::Action;

/// Describes the items that an action removes, except packages that it installs again in any version.
pub(crate) fn removed_by(action: &Action) -> Vec<String> {
    let mut removed: Vec<String> = match action {
        Action::Remove { paths, .. } => paths.iter().map(|path| path.printable()).collect(),
        Action::Packages(change) => {
            let packages = change.remove.iter().filter(|name| !change.installs(name)).cloned();
            // The doctor itself removes these records.
            packages.chain(change.records_aside().iter().map(|aside| aside.before().printable())).collect()
        }
        Action::Python(root) => {
            let stale = restore_python(root).map(|missing| missing.stale).unwrap_or_default();
            stale.iter().map(|path| path.printable()).collect()
        }
        Action::DropIn { command: DropInCommand::Uninstall, dir } => {
            vec![format!("the drop-in in {}", dir.printable())]
        }
        Action::DropIn { .. } | Action::Permit { .. } | Action::Link { .. } => Vec::new(),
        Action::Ldconfig | Action::CreateDir(_) | Action::Variable(_) | Action::Inspect(_) => Vec::new(),
    };
    let mut seen = BTreeSet::new();
    removed.retain(|one| seen.insert(one.clone()));
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_rules::packages::{PackageChange, Site};

    fn removed(change: impl FnOnce(PackageChange) -> PackageChange, site: Site) -> Vec<String> {
        removed_by(&Action::Packages(change(PackageChange::of(site))))
    }

    #[test]
    fn a_package_is_removed_unless_the_step_installs_it_again() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        for site in [Site::System, Site::Environment("/nowhere".into())] {
            let swap = |change: PackageChange| change.remove(names(&["x-cu12"])).install(names(&["x-cu13"]));
            assert_eq!(removed(swap, site.clone()), ["x-cu12"]);
            let alone = |change: PackageChange| change.remove(names(&["x", "y", "x"]));
            assert_eq!(removed(alone, site.clone()), ["x", "y"]);
            let again = |change: PackageChange| change.remove(names(&["x", "x"])).install(names(&["x>=2"]));
            assert_eq!(removed(again, site.clone()), [""; 0]);
            let files = |change: PackageChange| change.remove(names(&["x"])).reinstall(names(&["x==2"]));
            assert_eq!(removed(files, site), [""; 0]);
        }
    }
}
