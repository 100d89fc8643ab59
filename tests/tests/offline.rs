//! Tests the test suite: on a machine without a network, every test reports that it did not run, only the first test
//! waits for pip, and no temporary directory is left.

use std::path::Path;
use std::sync::OnceLock;

use support::{Child, ChildOutput, OFFLINE_VARIABLE, TempDir};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

/// An empty cache, and a `python3` that records when it is started and fails.
struct Offline {
    cache: TempDir,
    python: TempDir,
}

impl Offline {
    fn new() -> Offline {
        let offline = Offline { cache: TempDir::new(), python: TempDir::new() };
        let script = "#!/bin/sh\necho start >> \"${0%/*}/starts\"\nexit 1\n";
        support::write_program(offline.python.path().join("python3"), script);
        offline
    }

    fn run(&self, args: &[&str]) -> ChildOutput {
        Child::bare(DRIVER)
            .env("PATH", "/usr/bin:/bin")
            .env("PYTHON", self.python.path().join("python3"))
            .env(cudnn_fetch::CACHE_VARIABLE, self.cache.path())
            .env(OFFLINE_VARIABLE, "skip")
            .run(args)
    }

    fn pip_starts(&self) -> usize {
        std::fs::read_to_string(self.python.path().join("starts")).unwrap_or_default().lines().count()
    }
}

#[test]
fn a_release_that_cannot_be_fetched_is_tried_once_and_every_test_reports_that_it_did_not_run() {
    let offline = Offline::new();
    let output = offline.run(&["release:jit-cu12-9.19.0", "release:jit-cu13-9.27.0", "release:jit-cu12-9.19.0"]);
    assert_eq!(output.stdout, "release = none\n".repeat(3), "{output:#?}");
    assert_eq!(output.stderr.matches("NOT RUN: main: ").count(), 3, "{output:#?}");
    assert_eq!(offline.pip_starts(), 1, "{output:#?}");
    // The next test program shares the cache, so it does not try again.
    let output = offline.run(&["release:jit-cu12-9.19.0"]);
    assert_eq!((output.stdout.as_str(), offline.pip_starts()), ("release = none\n", 1), "{output:#?}");
    // An old failure expires.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60 * 60);
    std::fs::File::open(offline.cache.path().join(".tests-offline")).unwrap().set_modified(long_ago).unwrap();
    offline.run(&["release:jit-cu12-9.19.0"]);
    assert_eq!(offline.pip_starts(), 2);
}

#[test]
fn without_the_variable_a_release_that_cannot_be_fetched_fails_the_test() {
    let offline = Offline::new();
    let output = offline.run(&["release:jit-cu12-9.19.0"]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let strict = Child::bare(DRIVER)
        .env("PYTHON", offline.python.path().join("python3"))
        .env(cudnn_fetch::CACHE_VARIABLE, offline.cache.path())
        .run(&["release:jit-cu12-9.19.0"]);
    assert_eq!(strict.code, Some(101), "{strict:#?}");
    assert!(strict.stderr.contains("main needs a release of cuDNN: "), "{strict:#?}");
    // The cached failure is ignored.
    assert_eq!(offline.pip_starts(), 2);
}

#[test]
fn the_temporary_directory_of_a_static_is_removed_at_the_end() {
    static SHARED: OnceLock<TempDir> = OnceLock::new();
    let variable = "CUDNN_TESTS_SHARED";
    if let Some(file) = std::env::var_os(variable) {
        return std::fs::write(file, SHARED.get_or_init(TempDir::new).path().to_str().unwrap()).unwrap();
    }
    let dir = TempDir::new();
    let file = dir.path().join("shared");
    let this = std::env::current_exe().unwrap();
    let test = "the_temporary_directory_of_a_static_is_removed_at_the_end";
    let output = Child::bare(this).env(variable, &file).run(&["--exact", test]);
    let shared = std::fs::read_to_string(&file).unwrap();
    assert!(shared.contains("cudnn-tests-") && !Path::new(&shared).exists(), "{output:#?}");
    assert!(dir.path().exists());
}
