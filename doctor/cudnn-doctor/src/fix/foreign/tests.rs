#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use cudnn_os::rights::is_root;

#[test]
fn only_locks_may_be_writable_for_all() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    if !is_root() {
        return;
    }
    for (name, is_lock) in [(".lock", true), ("x", false)] {
        let file = dir.path().join(name);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        assert_eq!(changed_below(vec![dir.path().to_owned()]).is_none(), is_lock, "{name}");
    }
}

#[test]
fn too_many_files_are_no_file_of_another_user() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), "").unwrap();
    std::fs::write(dir.path().join("y"), "").unwrap();
    let examined = |max| changed_among(vec![dir.path().to_owned()], max);
    if is_root() {
        assert_eq!(examined(2), None);
        assert_eq!(examined(1), Some(Distrust::TooMany(canonicalize(dir.path()).unwrap())));
    } else {
        assert!(matches!(examined(2), Some(Distrust::Changeable(_))));
    }
}
