//! Measures the cost of commands in processes and reads, which are independent of the machine's load.
#![cfg(target_os = "linux")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use support::{FakeNvml, PythonEnvironment, TempDir, Version, copy_fake_set, lib_dir};

/// Returns the number of processes of a command. A preloaded library writes a line in each.
fn processes(arguments: &[&str], library_path: &Path) -> usize {
    let dir = TempDir::new();
    let (counter, lines) = (dir.path().join("counter.so"), dir.path().join("lines"));
    let code = format!(
        "int open(const char *, int, ...); long write(int, const void *, unsigned long);\n\
         __attribute__((constructor)) static void count(void) {{ write(open(\"{}\", 02101, 0600), \"x\\n\", 2); }}\n",
        lines.display()
    );
    support::compile(&code, &["-shared", "-fPIC", "-w"], &counter);
    let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"))
        .args(arguments)
        .env_clear()
        .envs([("LD_PRELOAD", counter.as_path()), ("LD_LIBRARY_PATH", library_path)])
        .output()
        .unwrap();
    assert!(!output.stdout.is_empty(), "{output:?}");
    std::fs::read_to_string(lines).unwrap().lines().count()
}

#[test]
fn a_child_process_queries_nvml_only_if_it_exists() {
    let dir = TempDir::new();
    copy_fake_set(Version::new(9, 19, 0), dir.path());
    for command in [&["check", "--no-load"][..], &["frameworks"]] {
        assert_eq!(processes(command, dir.path()), 1, "{command:?}");
    }
    FakeNvml { driver: "580.65.06", gpu: "A GPU", compute_capability: (9, 0) }.build(dir.path());
    for command in [&["check", "--no-load"][..], &["frameworks"]] {
        assert_eq!(processes(command, dir.path()), 2, "{command:?}");
    }
    assert_eq!(processes(&["list"], dir.path()), 1);
}

/// Returns the number of read calls of a command and of their bytes, as counted by the kernel.
fn reads(arguments: &[&str], environment: &Path) -> (u64, u64) {
    let output = Command::new("/bin/sh")
        .args(["-c", "\"$@\" > /dev/null; cat /proc/$$/io", "sh", env!("CARGO_BIN_EXE_cudnn-doctor")])
        .args(arguments)
        .env_clear()
        .env("VIRTUAL_ENV", environment)
        .output()
        .unwrap();
    let counted = String::from_utf8(output.stdout).unwrap();
    let count = |name: &str| {
        let line = counted.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {counted}")).parse::<u64>().unwrap()
    };
    (count("syscr"), count("rchar"))
}

#[test]
fn the_files_of_a_real_cudnn_are_read_in_few_calls() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    let root = TempDir::new();
    let venv = PythonEnvironment::venv(root.path());
    let libraries = venv.import_dir().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(libraries.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(dir, libraries).unwrap();
    for (command, max_calls, max_bytes) in [(&["list"][..], 300, 2 << 20), (&["check", "--no-load"], 1000, 6 << 20)] {
        let (calls, bytes) = reads(command, venv.root());
        println!("{command:?}: {bytes} bytes in {calls} calls");
        assert!(calls < max_calls && bytes < max_bytes, "{command:?}: {bytes} bytes in {calls} calls");
    }
}
