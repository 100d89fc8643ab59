//! Helpers for several tests.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses some of the helpers, and fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cudnn_os::trusted_files::make_readable;
use cudnn_store::plans::{self, Packed, PlanEntry, PlanInfo, PlanLookup, Settings, Store};

pub(crate) fn entry(key: &str) -> PlanEntry {
    let about = PlanInfo {
        label: format!("conv_fwd {key}"),
        device: "NVIDIA H200".to_owned(),
        cudnn_version: 91_900,
        build_time: Duration::from_millis(97),
        workspace_size: 1024,
    };
    PlanEntry { key: key.into(), plan: format!("{{\"plan\": \"{key}\"}}").into(), about }
}

pub(crate) fn entry_of(key: &str, size: usize) -> PlanEntry {
    PlanEntry { plan: vec![b'x'; size], ..entry(key) }
}

pub(crate) fn open(dir: &Path) -> Store {
    open_with(&Settings { dir: Some(dir.to_owned()), ..Settings::default() })
}

pub(crate) fn open_with(settings: &Settings) -> Store {
    let (store, problems) = Store::open(settings);
    assert!(problems.is_empty(), "{problems:?}");
    store
}

pub(crate) fn problem_of(dir: &Path) -> String {
    let (store, mut problems) = Store::open(&Settings { dir: Some(dir.to_owned()), ..Settings::default() });
    assert_eq!((store.dir(), problems.len()), (None, 1), "{problems:?}");
    problems.remove(0)
}

pub(crate) fn get(store: &Store, expected: &PlanEntry) -> Option<Result<(), String>> {
    match store.get(&expected.key) {
        PlanLookup::Missing => None,
        PlanLookup::Found(found, _) if found == *expected => Some(Ok(())),
        PlanLookup::Found(found, source) => panic!("{found:?} from {source:?} instead of {expected:?}"),
        PlanLookup::Unusable(problem) => Some(Err(problem)),
    }
}

#[track_caller]
pub(crate) fn assert_found(store: &Store, expected: &PlanEntry) {
    assert!(matches!(get(store, expected), Some(Ok(()))), "{:?}", get(store, expected));
}

/// Writes a pack that programs accept.
pub(crate) fn write_pack(path: &Path, entries: impl IntoIterator<Item = PlanEntry>) -> Packed {
    let mut file = std::fs::File::create(path).unwrap();
    make_readable(&file).unwrap();
    plans::write_pack(&mut file, entries).unwrap()
}

pub(crate) fn names(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = files.filter(|name| is_wanted(name)).collect();
    names.sort();
    names
}

pub(crate) fn plans(dir: &Path) -> Vec<String> {
    names(dir, |name| name.ends_with(".plan"))
}

pub(crate) fn temporaries(dir: &Path) -> Vec<String> {
    names(dir, |name| name.starts_with("tmp-"))
}

pub(crate) fn only_file(dir: &Path) -> PathBuf {
    let plans = plans(dir);
    assert_eq!(plans.len(), 1, "{plans:?}");
    dir.join(&plans[0])
}

/// The variable with the directory, for child processes of a test.
pub(crate) const CHILD: &str = "PLAN_STORE_TEST_CHILD";

pub(crate) fn child_dir() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Prepares to run the same test in a child process.
pub(crate) fn child(test: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, dir);
    command
}

pub(crate) fn run_child(test: &str, dir: &Path) {
    let output = child(test, dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {}\n{text}", output.status);
}
