//! Tests the normal operation of a store.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;

use std::time::{Duration, Instant};

use common::{assert_found, entry, entry_of, get, names, open, open_with, plans, temporaries, write_pack};
use cudnn_store::plans::{PlanEntry, PlanInfo, PlanLookup, PlanSource, Settings, Store};

#[test]
fn a_stored_entry_is_returned_unchanged() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("cache/plans");
    let store = open(&dir);
    let about = PlanInfo {
        label: "größe 🙂\n".to_owned(),
        device: String::new(),
        cudnn_version: u32::MAX,
        build_time: Duration::from_nanos(1),
        workspace_size: -1,
    };
    let entries = [
        entry("a"),
        PlanEntry { about, ..entry("b") },
        PlanEntry { about: PlanInfo::default(), ..entry("c") },
        PlanEntry { key: Vec::new(), plan: Vec::new(), ..entry("") },
        PlanEntry { key: vec![0xff; 100_000], ..entry_of("d", 3_000_000) },
    ];
    for entry in &entries {
        assert!(get(&store, entry).is_none());
    }
    assert!(!dir.exists(), "a lookup creates nothing");
    for entry in &entries {
        store.put(entry).unwrap();
        assert_found(&store, entry);
    }
    for entry in &entries {
        assert_found(&open(&dir), entry);
    }
    let listed: Vec<_> = store.entries().map(Result::unwrap).collect();
    assert!(listed.is_sorted_by_key(|stored| stored.name.clone()));
    assert_eq!(listed.iter().map(|stored| &stored.name).collect::<Vec<_>>(), plans(&dir).iter().collect::<Vec<_>>());
    for stored in &listed {
        assert!(entries.contains(&stored.entry) && stored.source == PlanSource::Directory && stored.last_use.is_some());
        assert_eq!(stored.bytes, std::fs::metadata(dir.join(&stored.name)).unwrap().len());
    }

    let newer = PlanEntry { plan: b"{}".into(), ..entry("a") };
    store.put(&newer).unwrap();
    assert_found(&store, &newer);
    assert_eq!((plans(&dir).len(), temporaries(&dir).len()), (5, 0));
}

#[test]
fn a_store_without_a_directory_keeps_nothing() {
    let (store, problems) = Store::open(&Settings::default());
    assert!(problems.is_empty() && store.dir().is_none());
    store.put(&entry("a")).unwrap();
    assert!(get(&store, &entry("a")).is_none());
    assert_eq!((store.entries().count(), store.clear().unwrap().entries), (0, 0));
}

#[test]
fn an_entry_that_is_larger_than_the_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { dir: Some(dir.path().to_owned()), limit: 5000, ..Settings::default() };
    let store = open_with(&settings);
    let problem = store.put(&entry_of("large", 5000)).unwrap_err();
    assert!(problem.ends_with("but the limit is 5000; raise CUDNN_PLANS_LIMIT"), "{problem}");
    store.put(&entry_of("small", 4000)).unwrap();
    assert_eq!(plans(dir.path()).len(), 1);
}

#[test]
fn clear_removes_only_files_of_the_store() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("plans");
    let store = open(&dir);
    assert_eq!(store.clear().unwrap().entries, 0, "there is no directory");
    store.put(&entry("a")).unwrap();
    store.put(&entry("b")).unwrap();
    std::fs::write(dir.join("tmp-1-0123456789abcdef"), "").unwrap();
    for other in ["thesis.pdf", "my.plan", "tmp-notes"] {
        std::fs::write(dir.join(other), "").unwrap();
    }
    let cleared = store.clear().unwrap();
    assert_eq!((cleared.entries, cleared.temporaries), (2, 1));
    // The store's thread may have a file open. Before Windows 10 and in Wine, it is visible until it is closed.
    let expected = ["CACHEDIR.TAG", "my.plan", "thesis.pdf", "tmp-notes"];
    let end = Instant::now() + Duration::from_secs(20);
    while names(&dir, |_| true) != expected && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(names(&dir, |_| true), expected);

    // A directory that was not created by a store may contain files with such names.
    store.put(&entry("a")).unwrap();
    std::fs::remove_file(dir.join("CACHEDIR.TAG")).unwrap();
    let problem = store.clear().unwrap_err();
    assert!(problem.contains("is not tagged as a plan store; no files were removed"), "{problem}");
    assert!(problem.contains(dir.to_str().unwrap()), "{problem}");
    assert_found(&store, &entry("a"));
    open(&dir).put(&entry("b")).unwrap();
    assert!(store.clear().is_err());
    for other in ["my.plan", "thesis.pdf", "tmp-notes"] {
        std::fs::remove_file(dir.join(other)).unwrap();
    }
    // On Windows, a put fails while the store's thread has the removed tag open.
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(problem) = open(&dir).put(&entry("b")) {
        assert!(problem.contains("(os error 5)") && Instant::now() < end, "{problem}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(store.clear().unwrap().entries, 2);
}

#[test]
fn a_directory_with_other_data_gets_no_tag() {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join("thesis.pdf"), "text").unwrap();
    std::fs::create_dir(temporary.path().join("empty")).unwrap();
    for (dir, is_tagged) in [("", false), ("empty", true), ("new", true)] {
        let dir = temporary.path().join(dir);
        let store = open(&dir);
        store.put(&entry("a")).unwrap();
        store.put(&entry("b")).unwrap();
        assert_found(&store, &entry("a"));
        assert_eq!(dir.join("CACHEDIR.TAG").exists(), is_tagged, "{}", dir.display());
    }
}

#[test]
fn a_pack_comes_before_the_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let (dir, pack) = (temporary.path().join("plans"), temporary.path().join("plans.pack"));
    let packed = [entry("a"), entry("b")];
    write_pack(&pack, packed.clone());
    let store = open_with(&Settings { dir: Some(dir), packs: vec![pack.clone()], ..Settings::default() });
    store.put(&PlanEntry { plan: b"of the directory".into(), ..entry("a") }).unwrap();
    store.put(&entry("c")).unwrap();
    assert_found(&store, &packed[0]);
    assert_found(&store, &entry("c"));
    assert!(matches!(store.get(b"b"), PlanLookup::Found(_, PlanSource::Pack(path)) if path == pack));
    let sources: Vec<_> = store.entries().map(|stored| stored.unwrap().source).collect();
    assert_eq!(sources.iter().filter(|source| **source == PlanSource::Directory).count(), 2);
    assert_eq!(sources.len(), 4);
}

#[cfg(unix)]
#[test]
fn files_of_the_store_are_private_to_the_user() {
    use std::os::unix::fs::PermissionsExt;
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("cache/plans");
    let store = open(&dir);
    store.put(&entry("a")).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&dir), mode(&temporary.path().join("cache"))), (0o700, 0o700));
    assert_eq!(mode(&common::only_file(&dir)), 0o600);
}

#[cfg(target_os = "linux")]
mod side_effects {
    use super::*;

    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> std::ffi::c_int;
        fn pthread_setcancelstate(state: std::ffi::c_int, previous: *mut std::ffi::c_int) -> std::ffi::c_int;
    }

    fn use_store(dir: &std::path::Path) {
        let (store, _) =
            Store::open(&Settings { packs: vec![dir.join("none")], dir: Some(dir.to_owned()), limit: 1 << 30 });
        store.put(&entry("a")).unwrap();
        assert_found(&store, &entry("a"));
        assert!(get(&store, &entry("b")).is_none());
        assert_eq!(store.entries().count(), 1);
        store.scan().unwrap();
    }

    #[test]
    fn errno_is_preserved() {
        let dir = tempfile::tempdir().unwrap();
        // SAFETY: errno belongs to this thread.
        let errno = || unsafe { *libc::__errno_location() };
        let path = dir.path();
        let settings = Settings { packs: vec![path.join("none")], dir: Some(path.to_owned()), limit: 1 << 30 };
        let (store, _) = Store::open(&settings);
        let a = entry("a");
        let operations: [(&str, &dyn Fn()); 6] = [
            ("open", &|| drop(Store::open(&settings))),
            ("put", &|| drop(store.put(&a))),
            ("get", &|| drop(store.get(b"a"))),
            ("get nothing", &|| drop(store.get(b"b"))),
            ("entries", &|| drop(store.entries().next())),
            ("scan", &|| drop(store.scan())),
        ];
        for (name, operation) in operations {
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = 4242 };
            operation();
            assert_eq!(errno(), 4242, "{name}");
        }
    }

    #[test]
    fn cancellation_takes_effect_after_the_call() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let thread = std::thread::spawn(move || {
            // Cancellation takes effect at the next cancellation point. In this thread, only the store could contain
            // one.
            // SAFETY: the thread exists.
            unsafe { pthread_cancel(libc::pthread_self()) };
            use_store(&path);
            let mut previous = 7;
            // SAFETY: the pointer is valid for writes.
            unsafe { pthread_setcancelstate(1, &raw mut previous) };
            previous
        });
        assert_eq!(thread.join().unwrap(), 0, "the thread can be cancelled again");
    }

    #[test]
    fn a_program_may_close_all_descriptors() {
        let test = "side_effects::a_program_may_close_all_descriptors";
        let Some(dir) = common::child_dir() else {
            let dir = tempfile::tempdir().unwrap();
            return common::run_child(test, dir.path());
        };
        let pack = dir.join("pack");
        write_pack(&pack, [entry("packed")]);
        let store = open_with(&Settings { dir: Some(dir), packs: vec![pack], ..Settings::default() });
        for number in 0..20 {
            let entry = entry(&number.to_string());
            store.put(&entry).unwrap();
            // SAFETY: only the first three descriptors are in use.
            unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
            assert_found(&store, &entry);
            assert_found(&store, &common::entry("packed"));
        }
    }
}
