//! Runs the commands that the doctor prints on Windows, in cmd, with a fake Python that records the arguments. The
//! commands are for PowerShell, which Wine does not include. cmd interprets them identically, except for PowerShell's
//! call operator.

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Library, PythonEnvironment, TempDir, lib_dir, windows};

const RELEASE: &str = windows::RELEASE;

/// Appends the arguments to the file in `RECORD`, one per line, and an empty line.
const PYTHON: &str = r#"
    #include <windows.h>
    #include <stdio.h>
    int wmain(int count, wchar_t **arguments) {
        FILE *record = _wfopen(_wgetenv(L"RECORD"), L"ab");
        for (int i = 0; i < count; i++) {
            char line[4096];
            WideCharToMultiByte(CP_UTF8, 0, arguments[i], -1, line, sizeof line, 0, 0);
            fprintf(record, "%s\n", line);
        }
        fprintf(record, "\n");
        return 0;
    }"#;

/// Creates a virtual environment with a damaged wheel of cuDNN. Returns the path of its Python.
fn damaged(root: &Path) -> PathBuf {
    let environment = PythonEnvironment::at(root, "Lib/site-packages").pip();
    std::fs::write(root.join("pyvenv.cfg"), "home = C:\\Python312\r\nversion = 3.12.4\r\n").unwrap();
    let python = root.join("Scripts/python.exe");
    std::fs::create_dir_all(root.join("Scripts")).unwrap();
    windows::compile(PYTHON, &["-municode"], &python);
    let mut package = environment.package("nvidia-cudnn-cu13", &windows::fill_in_release("WHEEL"));
    for library in Library::ALL {
        let path = format!("nvidia/cudnn/bin/{}", library.windows_name());
        package = match library {
            Library::Ops => package.file(&path, "<html>"),
            _ => package.link(&path, &lib_dir(RELEASE).unwrap().join(library.windows_name())),
        };
    }
    python
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn printed_pip_commands_pass_the_right_arguments_to_python() {
    if lib_dir(RELEASE).is_none() {
        return;
    }
    let doctor = windows::build("cudnn-doctor", "cudnn-doctor", &[]);
    for name in ["plain", "with space & more", "it (x86) ^up"] {
        let dir = TempDir::new();
        let root = dir.path().join(name);
        let python = windows::path(&damaged(&root));
        let child = || windows::child(&doctor).env("VIRTUAL_ENV", windows::path(&root));
        let output = child().run(&["--json", "check", "--no-load"]);
        let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let findings = report["findings"].as_array().unwrap();
        let wheel = windows::fill_in_release("nvidia-cudnn-cu13==WHEEL");
        for (code, expected) in [
            ("C013", &["install", "--force-reinstall", "--no-deps", &wheel][..]),
            ("C030", &["install", "nvidia-cublas==13.*"]),
            ("C031", &["install", "nvidia-cuda-nvrtc==13.*"]),
        ] {
            let finding = findings.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("{report}"));
            let commands = finding["commands"].as_array().unwrap().iter().filter_map(Value::as_str);
            let line =
                commands.into_iter().find(|line| line.contains(" -m pip ")).unwrap_or_else(|| panic!("{finding}"));
            let arguments = run(dir.path(), line);
            assert!(arguments[0].eq_ignore_ascii_case(&python), "{line}: {arguments:?}");
            assert_eq!(arguments[1..], [&["-I", "-m", "pip"], expected, &[""]].concat(), "{line}");
        }
    }
}

/// Runs a line in cmd. Returns the arguments that the fake Python recorded.
fn run(dir: &Path, line: &str) -> Vec<String> {
    let (record, script) = (dir.join("record"), dir.join("line.cmd"));
    let _ = std::fs::remove_file(&record);
    std::fs::write(&script, format!("@{}\r\n", line.strip_prefix("& ").unwrap_or(line))).unwrap();
    let cmd = windows::child(Path::new("cmd.exe")).env("RECORD", windows::path(&record)).argument("/c");
    let output = cmd.argument(windows::path(&script)).run(&[]);
    let recorded = std::fs::read_to_string(&record).unwrap_or_else(|error| panic!("{error}: {line} {output:?}"));
    recorded.lines().map(str::to_owned).collect()
}
