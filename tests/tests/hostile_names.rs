//! Uses names that would color a terminal, reorder a line or forge one, in directories, links, the tables of libraries
//! and the records of packages. The doctor, the loader, the log and the drop-in must always escape them.

use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_probe::Library;
use support::{Child, FakeLibrary, Subject, TempDir, Version};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const VERSION: Version = Version::new(9, 19, 0);

/// A part of a name. The line break would start a help line.
const HOSTILE: &str = "x\x1b[31m\x1b]0;t\x07\nhelp: FORGED\u{202e}y\u{2066}\u{9b}z";

/// Asserts that the text contains no terminal control characters and no forged line.
fn assert_safe(what: &str, text: &str) {
    let is_unsafe =
        |c: char| c != '\n' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!text.contains(is_unsafe), "{what}: {text:?}");
    let is_forged = |line: &str| line.trim_start_matches(|c: char| !c.is_ascii_lowercase()).starts_with("help: FORGED");
    assert!(!text.lines().any(is_forged), "{what}: {text}");
    assert!(!text.lines().any(|line| line.contains("Info: help: FORGED")), "{what}: {text}");
}

/// Creates directories with a hostile name that also contain another hostile text.
fn situations(root: &Path) -> Vec<(&'static str, PathBuf)> {
    let dir = |below: &str| {
        let dir = root.join(below).join(HOSTILE);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    };
    let fake = |library| FakeLibrary::new(library, VERSION).with_ptx(8);
    let needed = dir("needed");
    fake(Library::Graph).needing(&format!("lib{HOSTILE}.so")).build(&needed.join("libcudnn_graph.so.9"));
    let ops = dir("ops");
    for library in [Library::Shim, Library::Graph] {
        fake(library).build(&ops.join(library.file_name()));
    }
    fake(Library::Ops).needing(&format!("libcublas{HOSTILE}.so.12")).build(&ops.join("libcudnn_ops.so.9"));
    let soname = dir("soname");
    fake(Library::Graph).with_soname(HOSTILE).build(&soname.join("libcudnn_graph.so.9"));
    let link = dir("link");
    std::os::unix::fs::symlink(HOSTILE, link.join("libcudnn_graph.so.9")).unwrap();
    let text = dir("text");
    std::fs::write(text.join("libcudnn_graph.so.9"), HOSTILE).unwrap();
    let full_name = dir("full");
    std::fs::write(full_name.join(format!("libcudnn_graph.so.9.{HOSTILE}")), "").unwrap();
    let package = dir("package");
    let packages = package.join("lib/python3.12/site-packages");
    let lib = packages.join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&lib).unwrap();
    for name in ["nvidia_cudnn_cu12", "nvidia_cudnn_cu13"] {
        let record = packages.join(format!("{name}{HOSTILE}-9.19.dist-info"));
        std::fs::create_dir(&record).unwrap();
        std::fs::write(record.join("RECORD"), "nvidia/cudnn/lib/libcudnn_graph.so.9,x,1\n").unwrap();
    }
    fake(Library::Graph).build(&lib.join("libcudnn_graph.so.9"));
    fake(Library::Ops).needing("libnowhere.so").build(&lib.join("libcudnn_ops.so.9"));
    vec![
        ("a dependency of graph", needed),
        ("a dependency of ops", ops),
        ("a SONAME", soname),
        ("a link", link),
        ("a text file", text),
        ("a full name", full_name),
        ("two packages", lib),
    ]
}

#[test]
fn hostile_names_are_escaped_in_all_output() {
    let root = TempDir::new();
    let drop_in = support::drop_in_alone();
    for (situation, dir) in situations(root.path()) {
        let library = |library: Library| dir.join(library.file_name()).into_os_string();
        let doctor = |args: &[std::ffi::OsString]| {
            for variable in ["CUDNN_LOADER_DIR", "LD_LIBRARY_PATH"] {
                let mut command = Command::new(support::doctor());
                let output = command.args(args).env_clear().env(variable, &dir).output().unwrap();
                let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                assert_safe(&format!("{situation}: doctor {args:?} with {variable}"), &text.concat());
            }
        };
        let commands: [&[&str]; 8] = [
            &["check"],
            &["check", "--json"],
            &["list", "--deep"],
            &["list", "--json"],
            &["explain"],
            &["env"],
            &["demo", "--offline"],
            &["preload", "--no-context"],
        ];
        for command in commands {
            doctor(&command.iter().map(std::ffi::OsString::from).collect::<Vec<_>>());
        }
        doctor(&["list".into(), dir.clone().into_os_string()]);
        doctor(&["env".into(), dir.clone().into_os_string()]);
        doctor(&["explain".into(), library(Library::Graph)]);
        doctor(&["explain".into(), library(Library::Ops)]);
        doctor(&["log".into(), dir.join(HOSTILE).into_os_string()]);

        // The loader: last errors, the preload report, and the log, where values are arbitrary.
        let logs = TempDir::new();
        let log = logs.path().join("log");
        let child = Child::new(DRIVER, Subject::Loader, &dir).env("CUDNN_LOGLEVEL_DBG", "3");
        let child = child.env("CUDNN_LOGDEST_DBG", &log).env("CUDNN_LOADER_VERBOSE_ERRORS", "1");
        let output = child.run(&["~cudnnGetVersion", "~cudnnCreateTensorDescriptor", "load:", "preload:"]);
        assert_safe(&format!("{situation}: loader"), &(output.stdout + &output.stderr));
        let log = std::fs::read_to_string(logs.path().join("log.loader")).unwrap_or_default();
        assert!(!log.is_empty());
        assert_safe(&format!("{situation}: log"), &log);
        // The drop-in, with a C program that reads errors through cudnnGetLastErrorString.
        let child = Child::new(DRIVER, Subject::Shim, drop_in.path()).env("CUDNN_LOADER_DIR", &dir);
        let output =
            child.env("CUDNN_LOADER_VERBOSE_ERRORS", "1").run(&["cudnnGetVersion", "cudnnCreateTensorDescriptor"]);
        assert!(output.stdout.contains("  | "), "{situation}: {output:#?}");
        assert_safe(&format!("{situation}: drop-in"), &(output.stdout + &output.stderr));
        // The doctor's explanation of that log.
        doctor(&["log".into(), logs.path().join("log.loader").into_os_string()]);
    }
}
