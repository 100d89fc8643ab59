//! Checks that programs that link cuDNN through cudnn-sys import exactly the DLLs of their features, and can be built
//! without these DLLs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use support::{Child, Library, TempDir, lib_dir, windows};

const RELEASE: &str = windows::RELEASE;

const BINDINGS: &str = include_str!("../../../cudnn-sys/src/generated/version.txt").trim_ascii();

/// Builds the program with these features in a separate target directory, with an optional `CUDNN_SYS_LIB_DIR`.
fn build(features: &str, lib_dir: Option<&Path>) -> (PathBuf, Output) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = root.join("target/linking");
    let output = Command::new(env!("CARGO"))
        .current_dir(&root)
        .args(["build", "--package", "linked-functions", "--features", features])
        .args(["--target", windows::TARGET, "--target-dir"])
        .arg(&target)
        .env("CUDNN_SYS_LIB_DIR", lib_dir.unwrap_or(Path::new("")))
        .output()
        .expect("cargo starts");
    (target.join(windows::TARGET).join("debug/linked-functions.exe"), output)
}

/// Copies the program into a separate directory, because Windows searches for DLLs there first.
fn built(features: &str, lib_dir: Option<&Path>) -> (TempDir, Child) {
    // All sets of features build the same file.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (program, output) = build(features, lib_dir);
    assert!(output.status.success(), "{features}: {}", String::from_utf8_lossy(&output.stderr));
    let imported: Vec<String> =
        windows::imports(&program).into_iter().filter(|name| name.starts_with("cudnn")).collect();
    let feature = |library: &Library| format!("link-{}", library.linux_name().trim_start_matches("libcudnn_"));
    let expected = |library: &&Library| {
        let name = feature(library).trim_end_matches(".so.9").to_owned();
        // `check!`, which the program uses, is in graph.
        features.split(',').any(|feature| match **library {
            Library::Shim => feature == "link-cudnn",
            Library::Graph => feature != "link-cudnn",
            _ => feature == name,
        })
    };
    let mut expected: Vec<&str> = Library::ALL.iter().filter(expected).map(|library| library.windows_name()).collect();
    expected.sort_unstable();
    assert_eq!(imported, expected, "{features}");
    let dir = TempDir::new();
    let copy = dir.path().join("program.exe");
    std::fs::copy(program, &copy).unwrap();
    (dir, windows::child(&copy))
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_program_imports_the_dlls_of_its_features_and_finds_them_on_path_or_in_its_directory() {
    let Some(real) = lib_dir(RELEASE) else { return };
    let on_path = windows::path_list(&[&real]);
    let version = windows::fill_in_release("cudnnGetVersion NUMBER");
    let (version, invalid) = (version.as_str(), "CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002): nullptr == descriptor");
    let created = "cudnnCreateTensorDescriptor CUDNN_STATUS_SUCCESS (0)";
    // All functions of the shim, then the functions of one library, then a function of every library.
    for (features, fragments) in [
        ("link-cudnn", &[version, invalid, created][..]),
        ("link-graph", &[version, invalid]),
        ("link-graph,link-ops,link-cnn,link-adv,link-ext", &[version, invalid, created, "true"]),
    ] {
        let (dir, child) = built(features, None);
        let output = child.env("WINEPATH", &on_path).run(&[]);
        assert_eq!(output.code, Some(0), "{features}: {output:?}");
        for fragment in fragments {
            assert!(output.stdout.contains(fragment), "{features}: {fragment:?} is missing: {output:?}");
        }
        // Without a directory, the build does not check the DLLs.
        assert!(
            output.stdout.starts_with(&format!("version {BINDINGS}\nlib_dir \nlib_version \n")),
            "{features}: {output:?}"
        );
        if features == "link-cudnn" {
            for entry in std::fs::read_dir(&real).unwrap().flatten() {
                std::os::unix::fs::symlink(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
            let beside = windows::child(&dir.path().join("program.exe")).run(&[]);
            assert_eq!(beside.stdout, output.stdout, "{beside:?}");
        }
    }
    // If the DLL is missing, Windows refuses to start the program, without a message.
    let (_dir, child) = built("link-graph", None);
    let output = child.run(&[]);
    assert!(output.code != Some(0) && output.stdout.is_empty(), "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_given_directory_must_contain_the_dlls_and_is_passed_on() {
    let Some(real) = lib_dir(RELEASE) else { return };
    let (_dir, child) = built("link-ops", Some(&real));
    let output = child.env("WINEPATH", windows::path_list(&[&real])).run(&[]);
    let reported =
        windows::fill_in_release(&format!("version {BINDINGS}\nlib_dir {}\nlib_version VERSION\n", real.display()));
    assert!(output.stdout.starts_with(&reported), "{output:?}");
    let failure = |dir: &TempDir| {
        let (_, output) = build("link-graph", Some(dir.path()));
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let dir = TempDir::new();
    let message = failure(&dir);
    for fragment in ["no directory with cudnn_graph64_9.dll to link", "set by CUDNN_SYS_LIB_DIR", "does not exist"] {
        assert!(message.contains(fragment), "{fragment:?} is missing: {message}");
    }
    // A Linux library under that name.
    let Some(linux) = lib_dir("jit-cu12-9.19.0") else { return };
    std::fs::copy(linux.join(Library::Graph.linux_name()), dir.path().join(Library::Graph.windows_name())).unwrap();
    let message = failure(&dir);
    assert!(message.contains("cudnn_graph64_9.dll is built for Linux, but Windows is required"), "{message}");
}
