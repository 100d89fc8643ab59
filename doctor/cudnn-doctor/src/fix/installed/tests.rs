#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn installed(packages: &[(&str, &str)]) -> InstalledPackages {
    let record = |(name, version): &(&str, &str)| PackageRecord {
        name: (*name).to_owned(),
        version: Some((*version).to_owned()),
        path: "/nowhere".into(),
    };
    by_name("==", packages.iter().map(record))
}

#[test]
fn a_change_of_other_packages_than_the_planned_ones_is_noticed() {
    let before = installed(&[("x", "1"), ("y", "2"), ("z", "3")]);
    let expected = installed(&[("x", "2"), ("y", "2")]);
    for (after, message) in [
        (&[("x", "2"), ("y", "2")][..], None),
        (&[("x", "2.1"), ("y", "2"), ("new", "1")], None),
        (&[("x", "2"), ("y", "4")], Some("y is version 4 instead of 2, although the plan keeps it")),
        (&[("x", "2")], Some("y 2 is no longer installed, although the plan keeps it")),
    ] {
        assert_eq!(installed(after).disturbed(&before, &expected).as_deref(), message, "{after:?}");
    }
}

#[test]
fn a_package_that_a_new_one_requires_may_change() {
    for (requirement, message) in [
        ("Requires-Dist: Y>=2; extra == 'z'\n", None),
        ("Requires-Dist: z\n", Some("y is version 2 instead of 1, although the plan keeps it")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let all = || from_pip([dir.path().to_owned()]);
        let record = |name: &str, text: &str| {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("METADATA"), format!("Name: {name}\n{text}")).unwrap();
        };
        record("x-1.dist-info", "");
        record("y-1.dist-info", "");
        let before = all();
        for old in ["x-1.dist-info", "y-1.dist-info"] {
            std::fs::remove_dir_all(dir.path().join(old)).unwrap();
        }
        record("x-2.dist-info", requirement);
        // A package that names itself with an extra does not allow its own change.
        record("y-2.dist-info", "Requires-Dist: y[all]\n");
        let expected = installed(&[("x", "2"), ("y", "1")]);
        assert_eq!(all().disturbed(&before, &expected).as_deref(), message, "{requirement}");
    }
}

#[test]
fn a_change_without_its_effect_is_noticed() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let before = installed(&[("x", "1"), ("y", "2"), ("y", "3")]);
    let change = || PackageChange::of(Site::Environment("/nowhere".into()));
    for (change, after, expected) in [
        (change().install(names(&["x>=2"])), &[("x", "1")][..], Some("x is version 1 instead of x>=2")),
        (change().install(names(&["x>=2"])), &[("x", "2.1")], None),
        (change().install(names(&["X_z==2"])), &[("x", "1")], Some("x-z is not installed")),
        (change().reinstall(names(&["x==1"])), &[("x", "1")], None),
        (change().remove(names(&["x"])), &[("x", "1")], Some("x is still installed")),
        (change().remove(names(&["x"])), &[], None),
        (change().remove(names(&["y"])), &[("y", "2")], None),
        (change().remove(names(&["y", "y"])), &[("y", "2")], Some("y is still installed")),
        (change().remove(names(&["x"])).install(names(&["x==2"])), &[("x", "2")], None),
    ] {
        let found = installed(after).unmet(&change, &before);
        let is_expected = match (&found, expected) {
            (Some(found), Some(expected)) => found.starts_with(expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_expected, "{change:?} {after:?}: {found:?}");
    }
}
