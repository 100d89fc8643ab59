//! Tests many processes that share a store and are killed or forked at any moment.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "system calls with numbers or local values")]

mod common;

use std::time::{Duration, Instant, SystemTime};

use common::{
    assert_found, child, child_dir, entry, entry_of, get, only_file, open, open_with, run_child, temporaries,
};
use cudnn_store::plans::{PlanEntry, Settings};

const FILE_SIZE_LIMIT: &str = " cannot be used: File too large (os error 27); raise the limit (ulimit -f), or ";

#[test]
fn sixteen_processes_share_an_empty_store() {
    const TEST: &str = "sixteen_processes_share_an_empty_store";
    const ENTRIES: usize = 40;
    let size = |number: usize| number * 700;
    let Some(dir) = child_dir() else {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("cache/plans");
        let children: Vec<_> = (0..16).map(|_| child(TEST, &dir).stdout(std::process::Stdio::null()).spawn()).collect();
        for child in children {
            assert!(child.unwrap().wait().unwrap().success());
        }
        let store = open(&dir);
        (0..ENTRIES).for_each(|number| assert_found(&store, &entry_of(&number.to_string(), size(number))));
        assert_eq!(store.entries().map(Result::unwrap).count(), ENTRIES);
        return assert!(temporaries(&dir).is_empty());
    };
    let store = open(&dir);
    let first = std::process::id() as usize;
    for number in 0..ENTRIES {
        let number = (first + number) % ENTRIES;
        let entry = entry_of(&number.to_string(), size(number));
        match get(&store, &entry) {
            None => store.put(&entry).unwrap(),
            Some(Ok(())) => {}
            Some(Err(problem)) => panic!("{problem}"),
        }
        assert_found(&store, &entry);
    }
}

#[test]
fn a_killed_process_leaves_no_part_of_an_entry() {
    const TEST: &str = "a_killed_process_leaves_no_part_of_an_entry";
    if let Some(dir) = child_dir() {
        let store = open(&dir);
        for count in 0_usize.. {
            store.put(&entry_of(&(count % 4).to_string(), 100_000)).unwrap();
        }
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("plans");
    let store = open(&dir);
    let mut left = 0;
    for round in 0..60_u64 {
        let mut child = child(TEST, &dir).stdout(std::process::Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        while common::child_dir().is_none() && !dir.exists() && begin.elapsed() < Duration::from_secs(20) {}
        std::thread::sleep(Duration::from_micros(3000 + round * 137 % 4000));
        child.kill().unwrap();
        child.wait().unwrap();
        for number in 0..4 {
            let found = get(&store, &entry_of(&number.to_string(), 100_000));
            assert!(matches!(found, None | Some(Ok(()))), "{found:?}");
        }
        store.entries().for_each(|stored| drop(stored.unwrap()));
        left = temporaries(&dir).len();
    }
    assert!(left > 0, "no child was killed while it wrote");
    store.scan().unwrap();
    assert_eq!(temporaries(&dir).len(), left, "another process may still write them");
    for name in temporaries(&dir) {
        let file = std::fs::File::options().write(true).open(dir.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3601)).unwrap();
    }
    store.scan().unwrap();
    assert!(temporaries(&dir).is_empty());
}

#[test]
fn a_write_that_is_cut_at_any_length_changes_nothing() {
    const TEST: &str = "a_write_that_is_cut_at_any_length_changes_nothing";
    let Some(dir) = child_dir() else {
        let temporary = tempfile::tempdir().unwrap();
        return run_child(TEST, &temporary.path().join("plans"));
    };
    let limit_files = |bytes: u64| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    };
    let store = open(&dir);
    let old = entry("a");
    let new = PlanEntry { plan: b"a newer plan, which is longer".into(), ..old.clone() };
    // The tag cannot be truncated either. A store without a tag writes it first.
    limit_files(10);
    assert!(store.put(&old).unwrap_err().contains(FILE_SIZE_LIMIT));
    assert_eq!(common::names(&dir, |_| true).len(), 0);
    limit_files(libc::RLIM_INFINITY);
    store.put(&old).unwrap();
    let size = std::fs::metadata(only_file(&dir)).unwrap().len() + (new.plan.len() - old.plan.len()) as u64;
    for length in 0..size {
        limit_files(length);
        let put = store.put(&new);
        limit_files(libc::RLIM_INFINITY);
        let problem = put.unwrap_err();
        assert!(problem.contains(FILE_SIZE_LIMIT), "{length}: {problem}");
        assert_found(&store, &old);
        assert!(temporaries(&dir).is_empty(), "{length}");
    }
    limit_files(size);
    store.put(&new).unwrap();
    assert_found(&store, &new);
    let mut pending: libc::sigset_t = unsafe { std::mem::zeroed() };
    assert_eq!(unsafe { libc::sigpending(&raw mut pending) }, 0);
    assert_eq!(unsafe { libc::sigismember(&raw const pending, libc::SIGXFSZ) }, 0);
}

/// The children do not have the parent's thread.
#[test]
fn a_process_may_fork_while_entries_are_removed() {
    const TEST: &str = "a_process_may_fork_while_entries_are_removed";
    let Some(dir) = child_dir() else {
        let temporary = tempfile::tempdir().unwrap();
        return run_child(TEST, &temporary.path().join("plans"));
    };
    let settings = Settings { dir: Some(dir.clone()), limit: 200_000, ..Settings::default() };
    let store = open_with(&settings);
    for round in 0..40 {
        // Each put exceeds a sixteenth of the limit, which starts a scan.
        store.put(&entry_of(&round.to_string(), 15_000)).unwrap();
        let child = unsafe { libc::fork() };
        if child == 0 {
            let own = entry_of(&format!("child {round}"), 15_000);
            let is_kept = store.put(&own).is_ok() && !matches!(get(&store, &own), Some(Err(_)));
            let begin = Instant::now();
            let is_bounded = || common::plans(&dir).len() <= 14;
            while !is_bounded() && begin.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
                let _ = store.put(&own);
            }
            unsafe { libc::_exit(i32::from(!is_kept || !is_bounded())) };
        }
        let mut status = 0;
        let begin = Instant::now();
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "round {round}: the child hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "round {round}");
    }
    store.entries().for_each(|stored| drop(stored.unwrap()));
}

/// A daemon closes all descriptors and opens others with the same numbers.
#[test]
fn the_thread_that_removes_entries_closes_no_descriptor_of_the_program() {
    const TEST: &str = "the_thread_that_removes_entries_closes_no_descriptor_of_the_program";
    let Some(dir) = child_dir() else {
        let temporary = tempfile::tempdir().unwrap();
        // Enough files to keep the thread busy for some milliseconds.
        (0..3000).for_each(|number| std::fs::write(temporary.path().join(format!("{number:064}.plan")), "").unwrap());
        return run_child(TEST, temporary.path());
    };
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    for _ in 0..5 {
        // The first put of a store starts the thread.
        open(&dir).put(&entry("a")).unwrap();
        let mut numbers = [0; 8];
        for _ in 0..10 {
            unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
            std::thread::sleep(Duration::from_micros(100));
            numbers = numbers.map(|_| unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) });
        }
        let begin = Instant::now();
        while threads() > before && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        for number in numbers {
            assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "the thread has closed {number}");
        }
    }
}
