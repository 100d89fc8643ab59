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
use cudnn_store::plans::{Settings, Store, StoreErrorKind, Untrusted};

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
        assert_eq!(problem.kind(), &StoreErrorKind::Untrusted(Untrusted::WritableByOthers { mode }), "{mode:o}");
        assert!(problem.to_string().contains(&format!("mode {mode:04o}")), "{problem}");
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
    assert_eq!(problem_of(&dir).kind(), &StoreErrorKind::Untrusted(Untrusted::NotADirectory));
    assert_eq!(problem_of(&dir.join("below")).kind(), &StoreErrorKind::Untrusted(Untrusted::NotADirectory));
    assert_eq!(problem_of(Path::new("plans")).kind(), &StoreErrorKind::NotAbsolute);
    std::fs::remove_file(&dir).unwrap();
    let path = std::ffi::CString::new(dir.to_str().unwrap()).unwrap();
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    assert_eq!(problem_of(&dir).kind(), &StoreErrorKind::Untrusted(Untrusted::NotADirectory));

    // The user may have moved the cache to another disk.
    let real = temporary.path().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = temporary.path().join("link");
    symlink(&real, &link).unwrap();
    open(&link).put(&entry("a")).unwrap();
    assert_eq!(plans(&real).len(), 1);

    if is_root() {
        chown(&real, Some(NOBODY), None).unwrap();
        assert!(matches!(
            problem_of(&real).kind(),
            StoreErrorKind::Untrusted(Untrusted::NotOwned { owner: NOBODY, user: 0 })
        ));
        // If root uses another user's HOME, the store must not create directories that this user could not use.
        let problem = open(&real.join("cache/plans")).put(&entry("a")).unwrap_err();
        assert!(
            matches!(problem.kind(), StoreErrorKind::Untrusted(Untrusted::NotOwned { owner: NOBODY, user: 0 })),
            "{problem}"
        );
        assert!(!real.join("cache").exists());
    }
}

#[test]
fn a_pack_that_others_can_write_to_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let pack = temporary.path().join("pack");
    let settings = Settings { packs: vec![pack.clone()], ..Settings::default() };
    let kind = || Store::open(&settings).1.first().map(|problem| problem.kind().clone());
    assert_eq!(kind(), Some(StoreErrorKind::System));
    write_pack(&pack, [entry("a")]);
    for mode in [0o644, 0o444, 0o600] {
        set_mode(&pack, mode);
        assert_found(&open_with(&settings), &entry("a"));
    }
    let store = open_with(&settings);
    for mode in [0o664, 0o646] {
        set_mode(&pack, mode);
        assert_eq!(kind(), Some(StoreErrorKind::Untrusted(Untrusted::WritableByOthers { mode })));
        assert!(get(&store, &entry("a")).unwrap().is_err());
    }
    set_mode(&pack, 0o644);
    // Container volumes use symbolic links.
    symlink(&pack, temporary.path().join("link")).unwrap();
    open_with(&Settings { packs: vec![temporary.path().join("link")], ..Settings::default() });
    let (_, problems) = Store::open(&Settings { packs: vec!["pack".into(), "/".into()], ..Settings::default() });
    let kinds: Vec<_> = problems.iter().map(|problem| problem.kind().clone()).collect();
    assert_eq!(kinds, [StoreErrorKind::NotAbsolute, StoreErrorKind::Untrusted(Untrusted::NotAFile)]);
    // Never suggest removing a file that was named by mistake.
    let letter = temporary.path().join("letter");
    std::fs::write(&letter, "a letter").unwrap();
    set_mode(&letter, 0o644);
    let torn = temporary.path().join("torn");
    let whole = std::fs::read(&pack).unwrap();
    std::fs::write(&torn, &whole[..whole.len() - 1]).unwrap();
    set_mode(&torn, 0o644);
    for (path, advice) in [
        (Path::new("/"), "set CUDNN_PLANS_PACK to a pack that this process can read"),
        (Path::new("/dev/zero"), "set CUDNN_PLANS_PACK to a pack that this process can read"),
        (Path::new("/nowhere/pack"), "set CUDNN_PLANS_PACK to a pack that this process can read"),
        (&letter, "set CUDNN_PLANS_PACK to a pack"),
        (&torn, "recreate the pack with `cudnn-lab plans pack`"),
    ] {
        let (_, problems) = Store::open(&Settings { packs: vec![path.to_owned()], ..Settings::default() });
        assert_eq!(problems.first().map(|problem| problem.help()).as_deref(), Some(advice), "{path:?}");
    }
    if is_root() {
        chown(&pack, Some(NOBODY), None).unwrap();
        assert!(matches!(kind(), Some(StoreErrorKind::Untrusted(Untrusted::NotOwned { owner: NOBODY, user: 0 }))));
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
    assert_eq!(problem.kind(), &StoreErrorKind::Denied, "{problem}");
    assert_eq!(open(&dir.join("none/below")).put(&entry("b")).unwrap_err().kind(), &StoreErrorKind::Denied);
    assert!(temporaries(&dir).is_empty());
    assert_eq!(store.scan().unwrap().entries, 1);
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
    assert_eq!(problem.kind(), &StoreErrorKind::Full, "{problem}");
    assert!(problem.to_string().contains("full") && kept.len() > 5, "{problem}, {}", kept.len());
    assert!(temporaries(&dir).is_empty());
    kept.iter().for_each(|entry| assert_found(&store, entry));
    assert_eq!(store.entries().map(Result::unwrap).count(), kept.len());

    mount.make_read_only();
    let problem = store.put(&entry("a")).unwrap_err();
    assert_eq!(problem.kind(), &StoreErrorKind::ReadOnly, "{problem}");
    let other = open(&temporary.path().join("other"));
    assert_eq!(other.put(&entry("a")).unwrap_err().kind(), &StoreErrorKind::ReadOnly);
    kept.iter().for_each(|entry| assert_found(&store, entry));
}
