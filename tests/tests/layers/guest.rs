//! Tests that layers disturb no program: invalid arguments, constructors of libraries, and forks.

use std::path::Path;
use std::sync::OnceLock;

use cudnn_store::captures::{Capture, Record};
use support::{
    Child, ChildOutput, TempDir, Version, c_compiler, client, copy_fake_set, drop_in, errata_for_all_releases, lib_dir,
    root, run_compiler, tuned_for_all_releases,
};

const JIT: &str = "jit-cu12-9.19.0";
const LAYERS: [&str; 9] = [
    "",
    "capture",
    "errata",
    "explain",
    "plans",
    "trace",
    "tuned",
    "validate",
    "explain,validate,errata,tuned,capture,plans,trace",
];

fn guest() -> Option<&'static TempDir> {
    static GUEST: OnceLock<Option<TempDir>> = OnceLock::new();
    let compiled = GUEST.get_or_init(|| {
        let dir = client("guest.c", &drop_in().join("lib"), &["-lpthread", "-rdynamic"])?;
        let compile = |source: &str, flag: &str, library: &str| {
            let mut compiler = c_compiler();
            compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", flag, "-I"]).arg(root().join("dist"));
            let include = lib_dir("jit-cu13-9.27.0").unwrap().join("../include");
            compiler.arg("-I").arg(include).arg("-isystem").arg(root().join("headers/cuda"));
            compiler.arg(root().join("tests").join(source)).arg("-o").arg(dir.path().join(library));
            run_compiler(&mut compiler);
        };
        compile("clients/guest.c", "-DPLUGIN", "plugin.so");
        compile("layers/gate.c", "-O1", "libcudnn_layer_gate.so");
        Some(dir)
    });
    compiled.as_ref()
}

fn run(guest: &TempDir, cudnn: &Path, layers: &str, arguments: &[&str]) -> (ChildOutput, TempDir) {
    let dir = TempDir::new();
    let file = |name: &str| dir.path().join(name);
    let output = Child::bare(guest.path().join("client"))
        .env("LD_LIBRARY_PATH", drop_in().join("lib"))
        .env("CUDNN_LOADER_DIR", cudnn)
        .env("CUDNN_LAYER_PATH", guest.path())
        .env("CUDNN_LAYERS", layers)
        .env("CUDNN_CAPTURE", file("app.cudnncap"))
        .env("CUDNN_ERRATA", errata_for_all_releases(dir.path()))
        .env("CUDNN_TUNED", tuned_for_all_releases(dir.path()))
        .env("CUDNN_PLANS_DIR", file("plans"))
        .env("CUDNN_TRACE", file("trace.json"))
        .env("CUDNN_EXPLAIN_OUTPUT", file("explain.txt"))
        .env("CUDNN_VALIDATE", file("validate.txt"))
        .run(arguments);
    assert!(!output.stderr.contains(" is off: "), "{layers}: {output:#?}");
    (output, dir)
}

#[test]
fn calls_with_invalid_elements_return_what_they_return_without_layers() {
    let (Some(guest), Some(cudnn)) = (guest(), lib_dir(JIT)) else { return };
    let (without, _) = run(guest, &cudnn, "", &["refused"]);
    assert_eq!((without.code, without.stderr.as_str()), (Some(0), ""), "{without:#?}");
    assert!(without.stdout.contains("finalized: 2000"), "{without:#?}");
    for layers in LAYERS {
        let (with, _) = run(guest, &cudnn, layers, &["refused"]);
        assert_eq!((with.code, &with.stdout), (Some(0), &without.stdout), "{layers}: {with:#?}");
    }
}

/// The constructor runs with ld.so's lock, while a thread of the program makes the same call.
#[test]
fn a_constructor_of_a_library_may_call_cudnn_while_another_thread_does() {
    let Some(guest) = guest() else { return };
    let cudnn = TempDir::new();
    copy_fake_set(Version::new(9, 19, 0), cudnn.path());
    let plugin = format!("constructor:{}", guest.path().join("plugin.so").display());
    let (without, _) = run(guest, cudnn.path(), "", &[&plugin]);
    assert!(without.code == Some(0) && without.stdout.contains("opened: 1"), "{without:#?}");
    for layers in LAYERS {
        let (with, _) = run(guest, cudnn.path(), layers, &[&plugin]);
        assert_eq!((with.code, &with.stdout), (Some(0), &without.stdout), "{layers}: {with:#?}");
    }
}

#[test]
fn a_child_never_waits_for_a_thread_of_its_parent_that_is_in_a_layer() {
    let test = "a_child_never_waits_for_a_thread_of_its_parent_that_is_in_a_layer";
    if support::is_emulated(test, "an emulator may hang when a process with several threads forks") {
        return;
    }
    let Some(guest) = guest() else { return };
    let cudnn = TempDir::new();
    copy_fake_set(Version::new(9, 19, 0), cudnn.path());
    let [without, with] = ["gate", "capture,gate"].map(|layers| run(guest, cudnn.path(), layers, &["fork"]).0);
    assert_eq!(without.code, Some(0), "{without:#?}");
    assert_eq!((with.code, &with.stdout), (Some(0), &without.stdout), "{with:#?}");
}

#[test]
fn a_child_of_a_system_call_writes_a_capture_of_its_own() {
    let test = "a_child_of_a_system_call_writes_a_capture_of_its_own";
    if support::is_emulated(test, "an emulator does not clear pages in child processes") {
        return;
    }
    let (Some(guest), Some(cudnn)) = (guest(), lib_dir(JIT)) else { return };
    let (output, dir) = run(guest, &cudnn, "capture", &["raw-fork"]);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let mut values: Vec<Vec<String>> = Vec::new();
    let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "cudnncap")) {
        let capture = Capture::read(&file).unwrap();
        assert!(capture.problems.is_empty(), "{}: {:?}", file.display(), capture.problems);
        let value = |record| match record {
            Record::Failure(failure) => failure.attribute.and_then(|(_, _, _, value)| value),
            _ => None,
        };
        values.push(capture.records.into_iter().filter_map(value).collect());
    }
    values.sort();
    assert_eq!(
        values,
        [["0100000000000000", "0200000000000000"].map(String::from).to_vec(), vec!["0300000000000000".into()]]
    );
}
