//! Checks that the features of cudnn-sys link the right libraries from a directory with the layout of a wheel, and also
//! graph if the program uses it, as `check!` does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cudnn_loader::Version;
use cudnn_probe::Library;
use support::{FakeLibrary, TempDir, dynamic_entries, lib_dir, root};

const FEATURES: [(&str, Library); 6] = [
    ("link-cudnn", Library::Shim),
    ("link-graph", Library::Graph),
    ("link-ops", Library::Ops),
    ("link-cnn", Library::Cnn),
    ("link-adv", Library::Adv),
    ("link-ext", Library::Ext),
];

const BINDINGS: &str = include_str!("../../cudnn-sys/src/generated/version.txt").trim_ascii();

enum LibDir<'a> {
    Variable(&'a Path),
    VirtualEnvironment(&'a Path),
}

/// Builds the program with these features in a separate target directory. The profile compiles cudnn-probe, on which
/// the build script depends, faster than `dev`.
fn build(features: &str, lib_dir: LibDir<'_>) -> (PathBuf, Output) {
    let target = root().join("target/linking");
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root())
        .args(["build", "--profile", "source", "--package", "linked-functions", "--features", features])
        .args(["--target", support::TARGET, "--target-dir"])
        .arg(&target);
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "CUDNN_LOADER_DIR", "CUDNN_SYS_LIB_DIR"] {
        command.env_remove(variable);
    }
    match lib_dir {
        LibDir::Variable(dir) => command.env("CUDNN_SYS_LIB_DIR", dir),
        LibDir::VirtualEnvironment(root) => command.env("VIRTUAL_ENV", root),
    };
    let output = command.output().expect("cargo starts");
    (target.join(support::TARGET).join("source/linked-functions"), output)
}

/// Returns the cuDNN libraries among the program's NEEDED entries.
fn needed(program: &Path) -> Vec<String> {
    dynamic_entries(program, "NEEDED").into_iter().filter(|name| name.contains("libcudnn")).collect()
}

#[test]
fn every_feature_links_its_library_and_the_dependencies_of_check() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = TempDir::links_to(&real);
    for library in [Library::Ops, Library::Cnn, Library::Adv, Library::Ext] {
        let mut fake = FakeLibrary::new(library, Version::new(9, 19, 0));
        for needed in library.dependencies() {
            fake = fake.needing(needed.file_name());
        }
        fake.build(&dir.file(library));
    }
    for (feature, library) in FEATURES {
        let (program, output) = build(feature, LibDir::Variable(dir.path()));
        assert!(output.status.success(), "{feature}: {}", String::from_utf8_lossy(&output.stderr));
        let mut expected = vec![library.file_name()];
        if matches!(library, Library::Ops | Library::Cnn | Library::Adv) {
            expected.push(Library::Graph.file_name());
        }
        let mut needed = needed(&program);
        needed.sort_by_key(|name| *name == Library::Graph.file_name());
        assert_eq!(needed, expected, "{feature}");
        let output = Command::new(&program).env("LD_LIBRARY_PATH", dir.path()).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{feature}: {output:?}");
        let reported = format!("version {BINDINGS}\nlib_dir {}\nlib_version 9.19.0\n", dir.path().display());
        assert!(text.starts_with(&reported), "{feature}: {text}");
        if matches!(library, Library::Graph | Library::Shim) {
            assert!(text.contains("cudnnGetVersion 91900"), "{feature}: {text}");
            let error =
                "cudnnBackendFinalize returned CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002): nullptr == descriptor";
            assert!(text.contains(error), "{feature}: {text}");
        }
    }
    let (program, output) = build("link-graph,link-cnn", LibDir::Variable(dir.path()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut both = needed(&program);
    both.sort();
    assert_eq!(both, ["libcudnn_cnn.so.9", "libcudnn_graph.so.9"]);
    // Without the variable, the build script finds the library of the active virtual environment.
    let venv = TempDir::new();
    let wheel = venv.path().join("lib/python3.12/site-packages/nvidia/cudnn/lib");
    std::fs::create_dir_all(wheel.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(dir.path(), &wheel).unwrap();
    let (program, output) = build("link-graph", LibDir::VirtualEnvironment(venv.path()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(needed(&program), ["libcudnn_graph.so.9"]);
    // A library for a different architecture is rejected, and the message names it.
    let foreign = TempDir::new();
    let mut bytes = std::fs::read(dir.file(Library::Graph)).unwrap();
    bytes[18] = support::FOREIGN.1;
    std::fs::write(foreign.file(Library::Graph), bytes).unwrap();
    let (_, output) = build("link-graph", LibDir::Variable(foreign.path()));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains(&format!("is built for {}", support::FOREIGN.0)) && text.contains("set by CUDNN_SYS_LIB_DIR"),
        "{text}"
    );
    // Without a library, the build fails and lists where it searched.
    let empty = TempDir::new();
    let (_, output) = build("link-graph", LibDir::Variable(empty.path()));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for fragment in [
        "no directory with libcudnn_graph.so.9",
        &empty.path().display().to_string(),
        "help: set CUDNN_SYS_LIB_DIR to the absolute path of a directory that contains it for Linux on",
    ] {
        assert!(text.contains(fragment), "{fragment:?} is missing: {text}");
    }
    let (_, output) = build("link-graph", LibDir::Variable(Path::new("relative")));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("\"relative\" (set by CUDNN_SYS_LIB_DIR) is a relative path"), "{text}");
    let (_, output) = build("link-graph", LibDir::VirtualEnvironment(empty.path()));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // pip on this machine cannot install libraries for a different architecture.
    let help = if support::cross_target().is_empty() {
        "help: install cuDNN (`pip install"
    } else {
        "help: set CUDNN_SYS_LIB_DIR to a directory with a cuDNN for"
    };
    assert!(output.status.success() || text.contains(help), "{text}");
    // cargo sets this variable for build scripts to its own directories.
    assert!(!text.contains("(LD_LIBRARY_PATH)"), "{text}");
}
