//! Tests which directories and packs are accepted: other users must not be able to write to them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "system calls with numbers or local values")]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use common::{
    assert_found, child_dir, entry, get, open, open_with, plans, problem_of, run_child, temporaries, write_pack,
};
use cudnn_store::plans::{Settings, Store};

const NOT_A_DIRECTORY: &str = "is not a directory; set CUDNN_PLANS_DIR to the absolute path";
const NOT_ABSOLUTE: &str = "is not an absolute path; set CUDNN_PLANS_";
const DENIED: &str = " cannot be used: Permission denied (os error 13); grant this user read and write access, or ";
const READ_ONLY: &str = " cannot be used: Read-only file system (os error 30); set CUDNN_PLANS_DIR to ";
const NOT_OWNED: &str =
    "belongs to user 65534, but this process runs as user 0; change the owner to this user with chown, or";

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    unsafe { libc::geteuid() == 0 }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("plans");
    let store = open(&dir);
    store.put(&entry("a")).unwrap();
    for mode in [0o720, 0o702, 0o777, 0o1777, 0o2770] {
        set_mode(&dir, mode);
        let problem = problem_of(&dir);
        let expected =
            format!("is writable by other users (mode {mode:04o}); remove the permission with chmod go-w, or");
        assert!(problem.contains(&expected), "{problem}");
        assert!(get(&store, &entry("a")).unwrap().is_err());
        store.put(&entry("b")).unwrap_err();
    }
    for mode in [0o755, 0o750, 0o711, 0o700] {
        set_mode(&dir, mode);
        assert_found(&open(&dir), &entry("a"));
    }
    assert_eq!(plans(&dir).len(), 1);
}

#[test]
fn only_directories_of_this_user_are_accepted() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("plans");
    std::fs::write(&dir, "").unwrap();
    assert!(problem_of(&dir).contains(NOT_A_DIRECTORY));
    assert!(problem_of(&dir.join("below")).contains(NOT_A_DIRECTORY));
    assert!(problem_of(Path::new("plans")).contains(NOT_ABSOLUTE));
    std::fs::remove_file(&dir).unwrap();
    let path = std::ffi::CString::new(dir.to_str().unwrap()).unwrap();
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    assert!(problem_of(&dir).contains(NOT_A_DIRECTORY));

    // The user may have moved the cache to another disk.
    let real = temporary.path().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = temporary.path().join("link");
    symlink(&real, &link).unwrap();
    open(&link).put(&entry("a")).unwrap();
    assert_eq!(plans(&real).len(), 1);

    if is_root() {
        chown(&real, Some(NOBODY), None).unwrap();
        assert!(problem_of(&real).contains(NOT_OWNED));
        // If root uses another user's HOME, the store must not create directories that this user could not use.
        let problem = open(&real.join("cache/plans")).put(&entry("a")).unwrap_err();
        assert!(problem.contains(NOT_OWNED), "{problem}");
        assert!(!real.join("cache").exists());
    }
}

#[test]
fn a_pack_that_others_can_write_to_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let pack = temporary.path().join("pack");
    let settings = Settings { packs: vec![pack.clone()], ..Settings::default() };
    let problem = || Store::open(&settings).1.remove(0);
    assert!(problem().contains(" cannot be used: "));
    write_pack(&pack, [entry("a")]);
    for mode in [0o644, 0o444, 0o600] {
        set_mode(&pack, mode);
        assert_found(&open_with(&settings), &entry("a"));
    }
    let store = open_with(&settings);
    for mode in [0o664, 0o646] {
        set_mode(&pack, mode);
        assert!(problem().contains(&format!("is writable by other users (mode {mode:04o}); remove the permission")));
        assert!(get(&store, &entry("a")).unwrap().is_err());
    }
    set_mode(&pack, 0o644);
    // Container volumes use symbolic links.
    symlink(&pack, temporary.path().join("link")).unwrap();
    open_with(&Settings { packs: vec![temporary.path().join("link")], ..Settings::default() });
    let (_, problems) = Store::open(&Settings { packs: vec!["pack".into(), "/".into()], ..Settings::default() });
    assert!(problems[0].contains(NOT_ABSOLUTE) && problems[1].contains("/ is not a regular file"), "{problems:?}");
    // Never suggest removing a file that was named by mistake.
    let letter = temporary.path().join("letter");
    std::fs::write(&letter, "a letter").unwrap();
    set_mode(&letter, 0o644);
    let torn = temporary.path().join("torn");
    let whole = std::fs::read(&pack).unwrap();
    std::fs::write(&torn, &whole[..whole.len() - 1]).unwrap();
    set_mode(&torn, 0o644);
    let set_pack = "set CUDNN_PLANS_PACK to the absolute path of a pack that this process can read";
    for (path, advice) in [
        (Path::new("/"), set_pack),
        (Path::new("/dev/zero"), set_pack),
        (Path::new("/nowhere/pack"), set_pack),
        (&letter, set_pack),
        (&torn, "recreate the pack with `cudnn-lab plans pack`"),
    ] {
        let (_, problems) = Store::open(&Settings { packs: vec![path.to_owned()], ..Settings::default() });
        assert!(problems[0].ends_with(&format!("; {advice}")), "{problems:?}");
    }
    if is_root() {
        chown(&pack, Some(NOBODY), None).unwrap();
        assert!(problem().contains(NOT_OWNED));
    }
}

/// Runs as an unprivileged user, because root ignores permissions.
#[test]
fn a_directory_that_cannot_be_written_to_costs_only_the_cache() {
    const TEST: &str = "a_directory_that_cannot_be_written_to_costs_only_the_cache";
    let Some(dir) = child_dir() else {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("plans");
        open(&dir).put(&entry("a")).unwrap();
        let pack = temporary.path().join("pack");
        write_pack(&pack, [entry("packed")]);
        if is_root() {
            for path in [temporary.path(), &dir, &dir.join(&plans(&dir)[0]), &dir.join("CACHEDIR.TAG")] {
                chown(path, Some(NOBODY), None).unwrap();
            }
        }
        set_mode(&dir, 0o500);
        run_child(TEST, &dir);
        return set_mode(&dir, 0o700);
    };
    if is_root() {
        assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
    }
    let pack = dir.with_file_name("pack");
    let store = open_with(&Settings { dir: Some(dir.clone()), packs: vec![pack], ..Settings::default() });
    assert_found(&store, &entry("a"));
    assert_found(&store, &entry("packed"));
    let problem = store.put(&entry("b")).unwrap_err();
    assert!(problem.contains(DENIED), "{problem}");
    assert!(open(&dir.join("none/below")).put(&entry("b")).unwrap_err().contains(DENIED));
    assert!(temporaries(&dir).is_empty());
    store.scan().unwrap();
    assert_eq!(plans(&dir).len(), 1);
}

struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn tmpfs(path: &'a Path, options: &str) -> Option<Self> {
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(path);
        command.output().is_ok_and(|output| output.status.success()).then_some(Mount(path))
    }

    fn make_read_only(&self) {
        let status = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(self.0).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_or_read_only_disk_costs_only_the_cache() {
    let temporary = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::tmpfs(temporary.path(), "size=256k,mode=700") else {
        return eprintln!("no file system can be mounted here");
    };
    let dir = temporary.path().join("plans");
    let store = open(&dir);
    let mut kept = Vec::new();
    let problem = loop {
        let entry = common::entry_of(&kept.len().to_string(), 20_000);
        match store.put(&entry) {
            Ok(()) => kept.push(entry),
            Err(problem) => break problem,
        }
    };
    assert!(problem.contains("(os error 28); free some space, for example with `cudnn-lab plans clear`"), "{problem}");
    assert!(kept.len() > 5, "{problem}, {}", kept.len());
    assert!(temporaries(&dir).is_empty());
    kept.iter().for_each(|entry| assert_found(&store, entry));
    assert_eq!(store.entries().map(Result::unwrap).count(), kept.len());

    mount.make_read_only();
    let problem = store.put(&entry("a")).unwrap_err();
    assert!(problem.contains(READ_ONLY), "{problem}");
    let other = open(&temporary.path().join("other"));
    assert!(other.put(&entry("a")).unwrap_err().contains(READ_ONLY));
    kept.iter().for_each(|entry| assert_found(&store, entry));
}
