//! Tests that the directory stays within the limit and that the least recently used entries are removed first.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use common::{assert_found, entry_of, get, names, only_file, open, open_with, plans, temporaries};
use cudnn_store::plans::{Settings, Store};

const HOUR: Duration = Duration::from_secs(3600);

fn store(dir: &Path) -> Store {
    open_with(&Settings { dir: Some(dir.to_owned()), limit: 10_000, ..Settings::default() })
}

fn put(dir: &Path, key: usize, last_use: SystemTime) -> PathBuf {
    let staging = tempfile::tempdir().unwrap();
    let store = open(staging.path());
    store.put(&entry_of(&format!("{key:02}"), 820)).unwrap();
    let made = only_file(staging.path());
    let file = dir.join(made.file_name().unwrap());
    std::fs::copy(&made, &file).unwrap();
    set_modified(&file, last_use);
    file
}

fn set_modified(file: &Path, time: SystemTime) {
    std::fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

fn last_use(file: &Path) -> SystemTime {
    std::fs::metadata(file).unwrap().modified().unwrap()
}

fn present(store: &Store) -> Vec<usize> {
    let is_present =
        |number: &usize| store.entries().any(|stored| stored.unwrap().entry.key == format!("{number:02}").into_bytes());
    (0..20).filter(is_present).collect()
}

#[test]
fn the_entries_that_were_used_longest_ago_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let now = SystemTime::now();
    // Number 0 is the most recently used entry.
    let files: Vec<_> = (0..10).map(|number| put(dir, number, now - HOUR * (2 + 2 * number as u32))).collect();
    let store = store(dir);
    store.scan().unwrap();
    assert_eq!(plans(dir).len(), 10);
    put(dir, 10, now);
    // The oldest entry was just used, so the next ones are removed, down to 90 % of the limit.
    assert_found(&store, &entry_of("09", 820));
    assert!(last_use(&files[9]) >= now - Duration::from_secs(5));
    store.scan().unwrap();
    assert_eq!(present(&store), [0, 1, 2, 3, 4, 5, 6, 9, 10]);
    let bytes: u64 = store.entries().map(|stored| stored.unwrap().bytes).sum();
    assert!(bytes <= 10_000 * 9 / 10 && bytes > 9000 - 1000, "{bytes}");
}

#[test]
fn a_use_is_recorded_once_an_hour() {
    let temporary = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let store = store(temporary.path());
    let cases =
        [(-10, false), (-3500, false), (-3700, true), (-1_000_000, true), (30, false), (120, true), (1 << 30, true)];
    for (number, (seconds, is_recorded)) in cases.into_iter().enumerate() {
        let age = Duration::from_secs(i64::unsigned_abs(seconds));
        let before = if seconds < 0 { now - age } else { now + age };
        let file = put(temporary.path(), number, before);
        assert_found(&store, &entry_of(&format!("{number:02}"), 820));
        let after = last_use(&file);
        if is_recorded {
            assert!(after >= now - Duration::from_secs(5) && after < now + Duration::from_secs(60), "{seconds}");
        } else {
            assert_eq!(after, before, "{seconds}");
        }
    }
}

#[test]
fn entries_expire_after_the_clock_was_set_back() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let now = SystemTime::now();
    // Ten years in the future, so that newly used entries would appear older.
    let ahead: Vec<_> = (0..9).map(|number| put(dir, number, now + HOUR * (90_000 - number as u32))).collect();
    let abandoned = dir.join("tmp-1-00000000000000aa");
    std::fs::write(&abandoned, "").unwrap();
    set_modified(&abandoned, now + HOUR * 1000);
    let store = store(dir);
    store.scan().unwrap();
    assert_eq!(plans(dir).len(), 9);
    for file in ahead.iter().chain([&abandoned]) {
        let age = last_use(file).duration_since(now - Duration::from_secs(5)).unwrap();
        assert!(age < Duration::from_secs(60), "{}", file.display());
    }
    ahead.iter().for_each(|file| set_modified(file, now - HOUR));
    set_modified(&abandoned, now - HOUR - Duration::from_secs(1));
    for number in 9..12 {
        put(dir, number, now);
    }
    store.scan().unwrap();
    assert_eq!((plans(dir).len(), temporaries(dir).len()), (9, 0));
    let present = present(&store);
    assert!([9, 10, 11].iter().all(|number| present.contains(number)), "{present:?}");

    // Before any file was written, temporary files are not removed.
    let old = temporary.path().join("tmp-1-00000000000000ab");
    std::fs::write(&old, "").unwrap();
    store.scan().unwrap();
    assert_eq!(temporaries(dir).len(), 1);
}

#[test]
fn other_files_are_neither_counted_nor_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let long_ago = SystemTime::now() - HOUR * 1000;
    for name in ["large.bin", "my.plan", "tmp-notes"] {
        std::fs::write(dir.join(name), vec![0; 100_000]).unwrap();
        set_modified(&dir.join(name), long_ago);
    }
    put(dir, 0, long_ago);
    store(dir).scan().unwrap();
    assert_eq!(names(dir, |_| true).len(), 4);
}

#[test]
fn puts_keep_the_directory_within_its_limit() {
    let temporary = tempfile::tempdir().unwrap();
    let store = store(temporary.path());
    for number in 0..100 {
        store.put(&entry_of(&format!("{number:02}"), 820)).unwrap();
    }
    // A background thread removes entries, possibly while the last puts happened.
    let begin = Instant::now();
    let is_kept = || matches!(get(&store, &entry_of("99", 820)), Some(Ok(())));
    while (plans(temporary.path()).len() > 10 || !is_kept()) && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
        // On Windows, a put fails if the thread is removing the same entry at this moment.
        let _ = store.put(&entry_of("99", 820));
    }
    assert!(plans(temporary.path()).len() <= 10, "{}", plans(temporary.path()).len());
    assert!(is_kept());
}
