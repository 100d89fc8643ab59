//! Runs the loader and the drop-in under ThreadSanitizer, in programs with many threads in all parts of the loader.
//! Needs a nightly Rust with source, which `.ci/run` installs.
//!
//! cuDNN is a fake library here. The real one is not instrumented, so ThreadSanitizer would report false races in it.
//! Such a report waits for ld.so's lock, which another thread may hold.

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Child, FakeLibrary, Library, TempDir, Version, not_run};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the packages and the standard library with ThreadSanitizer. Returns `None` without a nightly Rust.
fn build(test: &str) -> Option<PathBuf> {
    let nightly = |args: &[&str]| Command::new("rustup").args(["run", "nightly"]).args(args).output();
    let source = nightly(&["rustc", "--print", "sysroot"]).ok().filter(|output| output.status.success());
    let has_source = source.is_some_and(|output| {
        Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib/src/rust/library").exists()
    });
    if !has_source {
        not_run(test, "a nightly Rust with rust-src is not installed");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = root.join("target/tsan");
    let built = Command::new("rustup")
        .args(["run", "nightly", "cargo", "build", "--quiet", "-Zbuild-std", "--target", TARGET])
        .args(["--package", "cudnn-tests", "--bin", "driver", "--package", "cudnn-shim", "--lib", "--target-dir"])
        .arg(&target)
        .current_dir(&root)
        // The program contains the run-time library, which the drop-in also uses.
        .env("RUSTFLAGS", "-Zsanitizer=thread -Clink-arg=-rdynamic")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(target.join(TARGET).join("debug"))
}

/// Runs the driver's stress test on this cuDNN, through the loader and then through the drop-in.
fn check(built: &Path, cudnn: &Path, seconds: u32) {
    let logs = TempDir::new();
    let stress = format!("stress:{seconds},{}", logs.path().join("log").display());
    let drop_in = built.join("libcudnn.so");
    let drop_in = drop_in.to_str().unwrap();
    for args in [&[stress.as_str()][..], &["--shim", drop_in, &stress]] {
        for verbose in ["0", "1"] {
            let output = Child::bare(built.join("driver"))
                .env("CUDNN_LOADER_DIR", cudnn)
                .env("CUDNN_LOADER_VERBOSE_ERRORS", verbose)
                .env("TSAN_OPTIONS", "exitcode=66 second_deadlock_stack=1")
                .run(args);
            assert_eq!(output.returned("stress"), Some("done"), "{args:?}: {output:#?}");
            assert_eq!(output.code, Some(0), "{args:?}: {}", output.stderr);
            assert!(!output.stderr.contains("ThreadSanitizer"), "{args:?}: {}", output.stderr);
        }
    }
}

#[test]
#[ignore = "needs a nightly Rust with its source"]
fn threads_in_all_parts_of_the_loader_do_not_race() {
    let Some(built) = build("threads_in_all_parts_of_the_loader_do_not_race") else { return };
    // A complete fake, and a fake with a missing library, so that calls fail.
    let dir = TempDir::new();
    for library in [Library::Graph, Library::Ops, Library::Cnn, Library::Adv] {
        FakeLibrary::new(library, Version::new(9, 19, 0)).build(&dir.file(library));
    }
    check(&built, dir.path(), 3);
    std::fs::remove_file(dir.file(Library::Adv)).unwrap();
    check(&built, dir.path(), 3);
}
