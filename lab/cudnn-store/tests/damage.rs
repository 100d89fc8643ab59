//! Tests damaged files: they are ignored, reported and removed, and a lookup never returns a wrong entry.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::{assert_found, entry, get, only_file, open, open_with, plans, temporaries, write_pack};
use cudnn_store::plans::{PlanEntry, Settings, Store};
use sha2::{Digest, Sha256};

const OTHER_KEY: &str = "is damaged: it contains a plan with a different key; no action needed";

#[track_caller]
fn assert_replaced(dir: &Path, store: &Store, entry: &PlanEntry, what: &str) -> String {
    let listed: Vec<_> = store.entries().collect();
    assert!(listed.len() == 1 && listed[0].is_err(), "{what}: {listed:?}");
    let Some(Err(problem)) = get(store, entry) else { panic!("{what}: {:?}", get(store, entry)) };
    assert!(problem.contains(dir.to_str().unwrap()), "{what}: {problem}");
    assert!(plans(dir).is_empty(), "{what}: {problem} and it is still there");
    assert!(get(store, entry).is_none(), "{what}");
    store.put(entry).unwrap();
    assert_found(store, entry);
    assert!(temporaries(dir).is_empty(), "{what}");
    problem
}

fn with_checksum(mut content: Vec<u8>) -> Vec<u8> {
    content.truncate(content.len() - 32);
    let checksum = Sha256::digest(&content);
    content.extend(checksum);
    content
}

#[test]
fn an_entry_of_any_other_length_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (store, entry) = (open(dir.path()), entry("a"));
    store.put(&entry).unwrap();
    let file = only_file(dir.path());
    let good = std::fs::read(&file).unwrap();
    for length in 0..good.len() {
        std::fs::write(&file, &good[..length]).unwrap();
        let problem = assert_replaced(dir.path(), &store, &entry, &format!("{length} bytes"));
        assert!(problem.contains(" is damaged: "), "{length}: {problem}");
    }
    std::fs::write(&file, [good.as_slice(), b"\0"].concat()).unwrap();
    assert!(assert_replaced(dir.path(), &store, &entry, "longer").contains("the size does not match the header"));
}

#[test]
fn an_entry_with_any_other_bit_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (store, entry) = (open(dir.path()), entry("a"));
    store.put(&entry).unwrap();
    let file = only_file(dir.path());
    let good = std::fs::read(&file).unwrap();
    for at in 0..good.len() {
        for bit in [0x01, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= bit;
            std::fs::write(&file, bad).unwrap();
            // A newer release may be able to use an entry with a different version.
            if (16..20).contains(&at) && (at, bit) != (16, 1) {
                let problem = get(&store, &entry).unwrap().unwrap_err();
                assert!(problem.contains("which is too new"), "byte {at}: {problem}");
                continue;
            }
            let problem = assert_replaced(dir.path(), &store, &entry, &format!("byte {at}"));
            assert!(problem.contains(" is damaged: "), "{at}: {problem}");
        }
    }
}

#[test]
fn wrong_lengths_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (store, entry) = (open(dir.path()), entry("a"));
    store.put(&entry).unwrap();
    let file = only_file(dir.path());
    let good = std::fs::read(&file).unwrap();
    let about = 40;
    // The position and size of the lengths: of the information, the key, the plan, and the label.
    for (at, size) in [(20, 4), (24, 8), (32, 8), (about + 20, 4)] {
        for length in [0, 1, 2, 255, u64::from(u32::MAX), 1 << 63, u64::MAX, u64::MAX - 39] {
            let mut bad = good.clone();
            bad[at..at + size].copy_from_slice(&length.to_le_bytes()[..size]);
            let bad = with_checksum(bad);
            if bad == good {
                continue;
            }
            std::fs::write(&file, bad).unwrap();
            let problem = assert_replaced(dir.path(), &store, &entry, &format!("{length} at {at}"));
            assert!(problem.contains(" is damaged: "), "{length} at {at}: {problem}");
        }
    }
    // Move a byte from the key to the plan.
    let mut bad = good.clone();
    bad[24] += 1;
    bad[32] -= 1;
    std::fs::write(&file, with_checksum(bad)).unwrap();
    let problem = assert_replaced(dir.path(), &store, &entry, "shifted");
    assert!(problem.contains(OTHER_KEY), "{problem}");
    let mut bad = good;
    bad[about + 24] = 0xff;
    std::fs::write(&file, with_checksum(bad)).unwrap();
    assert!(assert_replaced(dir.path(), &store, &entry, "label").contains("the content is inconsistent"));
}

#[test]
fn entries_with_swapped_file_names_are_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let (store, a, b) = (open(dir.path()), entry("a"), entry("b"));
    store.put(&a).unwrap();
    let of_a = only_file(dir.path());
    let content = std::fs::read(&of_a).unwrap();
    store.clear().unwrap();
    store.put(&b).unwrap();
    std::fs::write(only_file(dir.path()), content).unwrap();
    let problem = assert_replaced(dir.path(), &store, &b, "the entry of another key");
    assert!(problem.contains(OTHER_KEY), "{problem}");
}

#[test]
fn an_entry_of_a_newer_release_stays_until_it_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (store, entry) = (open(dir.path()), entry("a"));
    store.put(&entry).unwrap();
    let file = only_file(dir.path());
    let mut content = std::fs::read(&file).unwrap();
    content[16] = 2;
    std::fs::write(&file, with_checksum(content)).unwrap();
    for _ in 0..2 {
        let problem = get(&store, &entry).unwrap().unwrap_err();
        assert!(problem.contains(" has format 2, which is too new; update cudnn-shim"), "{problem}");
    }
    store.put(&entry).unwrap();
    assert_found(&store, &entry);
}

#[test]
fn unrelated_files_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (store, entry) = (open(dir.path()), entry("a"));
    store.put(&entry).unwrap();
    let file = only_file(dir.path());
    std::fs::write(&file, "a letter").unwrap();
    let problem = assert_replaced(dir.path(), &store, &entry, "a letter");
    assert!(problem.contains("it is not a file of this kind"), "{problem}");
    // A terabyte must not be read.
    std::fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    let problem = assert_replaced(dir.path(), &store, &entry, "huge");
    assert!(problem.contains("but the limit is"), "{problem}");
}

#[cfg(target_os = "linux")]
#[test]
fn only_regular_files_of_this_user_are_entries() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let temporary = tempfile::tempdir().unwrap();
    let (dir, elsewhere) = (temporary.path().join("plans"), temporary.path().join("elsewhere"));
    let (store, entry) = (open(&dir), entry("a"));
    store.put(&entry).unwrap();
    let file = only_file(&dir);
    std::fs::copy(&file, &elsewhere).unwrap();
    let good = std::fs::read(&file).unwrap();
    let remake = |make: &dyn Fn()| {
        std::fs::remove_file(&file).unwrap();
        make();
    };

    remake(&|| symlink(&elsewhere, &file).unwrap());
    assert!(assert_replaced(&dir, &store, &entry, "a link").contains(" is not a regular file; no action needed"));
    assert_eq!(std::fs::read(&elsewhere).unwrap(), good, "the target of a link is not touched");
    remake(&|| symlink(&elsewhere, &file).unwrap());
    store.put(&entry).unwrap();
    assert!(std::fs::symlink_metadata(&file).unwrap().is_file());

    remake(&|| {
        let path = std::ffi::CString::new(file.to_str().unwrap()).unwrap();
        // SAFETY: the path is a C string.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    });
    assert!(assert_replaced(&dir, &store, &entry, "a pipe").contains(" is not a regular file; no action needed"));
    // The path may be too long for the address of a socket, so bind to a short one.
    remake(&|| {
        let address = temporary.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&address).unwrap());
        std::fs::rename(address, &file).unwrap();
    });
    assert!(assert_replaced(&dir, &store, &entry, "a socket").contains(" is not a regular file; no action needed"));
    remake(&|| std::fs::create_dir(&file).unwrap());
    assert!(assert_replaced(&dir, &store, &entry, "a directory").contains(" is not a regular file; no action needed"));
    remake(&|| std::fs::create_dir(&file).unwrap());
    store.put(&entry).unwrap();
    assert_found(&store, &entry);

    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o620)).unwrap();
    let problem = assert_replaced(&dir, &store, &entry, "writable by the group");
    assert!(problem.contains(" is writable by other users (mode 0620); no action needed"), "{problem}");
    if chown(&file, Some(65534), None).is_ok() {
        let problem = assert_replaced(&dir, &store, &entry, "of another user");
        assert!(problem.contains(" belongs to user 65534, but this process runs as user "), "{problem}");
    }

    remake(&|| std::fs::create_dir_all(file.join("full")).unwrap());
    store.put(&entry).unwrap_err();
    assert!(get(&store, &entry).unwrap().is_err() && file.join("full").exists() && temporaries(&dir).is_empty());
}

#[test]
fn a_pack_with_any_other_bit_returns_no_wrong_entry() {
    let temporary = tempfile::tempdir().unwrap();
    let (good_path, bad_path) = (temporary.path().join("good"), temporary.path().join("bad"));
    let entries: Vec<_> = (0..5).map(|number| entry(&number.to_string())).collect();
    let packed = write_pack(&good_path, entries.clone());
    let good = std::fs::read(&good_path).unwrap();
    assert_eq!((packed.entries, packed.bytes), (5, good.len() as u64));
    let settings = Settings { packs: vec![bad_path.clone()], ..Settings::default() };
    let head = 72 + 5 * 48;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        std::fs::write(&bad_path, bad).unwrap();
        let (store, problems) = Store::open(&settings);
        assert_eq!(problems.len(), usize::from(at < head), "byte {at}: {problems:?}");
        let found = entries.iter().map(|entry| get(&store, entry));
        let states: Vec<_> = found.map(|found| found.map(|found| found.is_ok())).collect();
        let expected = if at < head { [0, 0] } else { [4, 1] };
        let count = |state| states.iter().filter(|found| **found == state).count();
        assert_eq!([count(Some(true)), count(Some(false))], expected, "byte {at}: {states:?}");
        let listed: Vec<_> = store.entries().map(|stored| stored.is_ok()).collect();
        assert_eq!(listed.iter().filter(|is_ok| **is_ok).count(), expected[0], "byte {at}");
    }
    for length in 0..good.len() {
        std::fs::write(&bad_path, &good[..length]).unwrap();
        let (_, problems) = Store::open(&settings);
        let expected = if length < head - 5 * 48 { " is not a pack; set " } else { " is damaged: " };
        assert!(problems.len() == 1 && problems[0].contains(expected), "{length}: {problems:?}");
    }
    // The pack is truncated or replaced while it is in use.
    std::fs::write(&bad_path, &good).unwrap();
    let store = open_with(&settings);
    assert_found(&store, &entries[0]);
    std::fs::write(&bad_path, &good[..good.len() / 2]).unwrap();
    assert!(get(&store, &entries[0]).unwrap().is_err());
    assert!(store.entries().count() <= 1);
    write_pack(&bad_path, [entry("x")]);
    assert!(get(&store, &entries[0]).is_none());
    assert_found(&store, &entry("x"));
    std::fs::remove_file(&bad_path).unwrap();
    assert!(get(&store, &entry("x")).unwrap().is_err());
}

#[test]
fn a_pack_with_a_wrong_index_returns_no_wrong_entry() {
    let temporary = tempfile::tempdir().unwrap();
    let pack = temporary.path().join("pack");
    write_pack(&pack, [entry("a"), entry("b")]);
    let good = std::fs::read(&pack).unwrap();
    let settings = Settings { packs: vec![pack.clone()], ..Settings::default() };
    let open_bad = |change: &dyn Fn(&mut [u8])| {
        let mut bad = good.clone();
        change(&mut bad[72..72 + 2 * 48]);
        let checksum = Sha256::digest([&bad[..40], &bad[72..72 + 2 * 48]].concat());
        bad[40..72].copy_from_slice(&checksum);
        std::fs::write(&pack, bad).unwrap();
        open_with(&settings)
    };
    // Each hash refers to the other entry.
    let store = open_bad(&|index| {
        let (one, other) = index.split_at_mut(48);
        one[32..].swap_with_slice(&mut other[32..]);
    });
    for entry in [entry("a"), entry("b")] {
        let problem = get(&store, &entry).unwrap().unwrap_err();
        assert!(problem.ends_with("a different key; recreate the pack with `cudnn-lab plans pack`"), "{problem}");
    }
    assert_eq!(store.entries().filter(Result::is_err).count(), 2);
    for (at, bytes) in [(32, u64::MAX), (32, 1 << 40), (40, u64::MAX), (40, 1 << 40), (40, 1000), (40, 0)] {
        let store = open_bad(&|index| {
            index[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
            index[48 + at..48 + at + 8].copy_from_slice(&bytes.to_le_bytes());
        });
        for entry in [entry("a"), entry("b")] {
            assert!(get(&store, &entry).unwrap().is_err(), "{bytes} at {at}");
        }
    }
}

#[test]
fn a_damaged_entry_of_a_pack_is_built_into_the_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let (dir, pack) = (temporary.path().join("plans"), temporary.path().join("pack"));
    write_pack(&pack, [entry("a")]);
    let mut bytes = std::fs::read(&pack).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let store = open_with(&Settings { dir: Some(dir), packs: vec![pack], ..Settings::default() });
    assert!(get(&store, &entry("a")).unwrap().is_err());
    store.put(&entry("a")).unwrap();
    assert_found(&store, &entry("a"));
}

#[test]
fn the_same_entries_make_the_same_pack() {
    let temporary = tempfile::tempdir().unwrap();
    let (one, other) = (temporary.path().join("one"), temporary.path().join("other"));
    let entries: Vec<_> = (0..50).map(|number| entry(&number.to_string())).collect();
    write_pack(&one, entries.clone());
    std::fs::write(&other, "something old").unwrap();
    write_pack(&other, entries.iter().rev().cloned());
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&other).unwrap());
    let store = open_with(&Settings { packs: vec![one.clone()], ..Settings::default() });
    entries.iter().for_each(|entry| assert_found(&store, entry));
    assert!(get(&store, &entry("50")).is_none());
    assert_eq!(common::names(temporary.path(), |_| true), ["one", "other"]);
    write_pack(&one, []);
    let store = open_with(&Settings { packs: vec![one], ..Settings::default() });
    assert!(get(&store, &entries[0]).is_none() && store.entries().next().is_none());
}

#[test]
fn a_plan_that_is_too_large_for_a_pack_is_named() {
    let mut large = entry("a");
    large.plan = vec![0; 256 << 20];
    let refused = cudnn_store::plans::write_pack(&mut Vec::new(), [entry("b"), large]).unwrap_err().to_string();
    let expected = "the plan of conv_fwd a for NVIDIA H200 has 268435457 bytes, more than 268435456; pack fewer plans";
    assert_eq!(refused, expected);
}
