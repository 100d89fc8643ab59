//! Tests the text report of `check`: no repetitions, the additions of `--verbose`, and the selection of `--only`.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_probe::Library;
use serde_json::Value;
use support::{FakeLibrary, FakeNvml, PythonEnvironment, TempDir, Version, copy_fake_set};

const DOCTOR: &str = env!("CARGO_BIN_EXE_cudnn-doctor");
const VERSION: Version = Version::new(9, 19, 0);

/// Enough for six findings and seven steps without pip, where every package needs three lines.
const MAX_LINES: usize = 37;

struct Machine {
    name: &'static str,
    dirs: Vec<TempDir>,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Machine {
    fn command(&self, doctor: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(doctor);
        command.args(arguments).env_clear().env("XDG_DATA_HOME", support::own_release_facts());
        command.envs(self.variables.iter().cloned());
        command
    }

    fn text(&self, doctor: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(doctor, arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        self.text(DOCTOR, arguments)
    }
}

fn set(version: Version) -> TempDir {
    let dir = TempDir::new();
    copy_fake_set(version, dir.path());
    dir
}

fn fake(library: Library) -> FakeLibrary {
    FakeLibrary::new(library, VERSION).with_ptx(8)
}

/// Creates a complete cuDNN with one change, which `CUDNN_LOADER_DIR` selects.
fn changed(name: &'static str, version: Version, change: impl Fn(&TempDir)) -> Machine {
    let dir = set(version);
    change(&dir);
    Machine { name, variables: vec![("CUDNN_LOADER_DIR", dir.path().into())], dirs: vec![dir] }
}

/// Creates an active environment with cuDNN's wheel, and a PyTorch that requires a cuDNN version.
fn environment(name: &'static str, torch_requires: &str) -> Machine {
    let root = TempDir::new();
    let venv = PythonEnvironment::venv(root.path()).pip();
    let path = |library: &Library| format!("nvidia/cudnn/lib/{}", library.file_name());
    let record = Library::ALL.iter().map(|library| format!("{},,\n", path(library))).collect::<String>();
    let wheel = venv.package("nvidia-cudnn-cu12", "9.19.0.56").info("RECORD", &record);
    Library::ALL.iter().fold(wheel, |wheel, library| wheel.cudnn(&path(library), &fake(*library)));
    venv.package("torch", "2.8.0").requires(torch_requires).file("torch/version.py", "cuda = '12.8'\n");
    Machine { name, variables: vec![("VIRTUAL_ENV", root.path().into())], dirs: vec![root] }
}

fn machines() -> Vec<Machine> {
    let gpu = |name, driver, compute_capability| {
        let (dir, nvml) = (set(VERSION), TempDir::new());
        FakeNvml { driver, gpu: "A GPU", compute_capability }.build(nvml.path());
        let variables = vec![("CUDNN_LOADER_DIR", dir.path().into()), ("LD_LIBRARY_PATH", nvml.path().into())];
        Machine { name, dirs: vec![dir, nvml], variables }
    };
    let two = || {
        let (one, other) = (set(VERSION), set(Version::new(9, 10, 2)));
        let path = std::env::join_paths([one.path(), other.path()]).unwrap();
        Machine { name: "two releases", dirs: vec![one, other], variables: vec![("LD_LIBRARY_PATH", path.into())] }
    };
    vec![
        Machine { name: "no cuDNN", dirs: Vec::new(), variables: Vec::new() },
        changed("a library is missing", VERSION, |dir| std::fs::remove_file(dir.file(Library::Ops)).unwrap()),
        changed("a library is truncated", VERSION, |dir| std::fs::write(dir.cleared(Library::Ops), "x").unwrap()),
        changed("libraries of two releases", VERSION, |dir| {
            FakeLibrary::new(Library::Ops, Version::new(9, 10, 2)).with_ptx(8).build(&dir.cleared(Library::Ops));
        }),
        changed("a known issue", Version::new(9, 10, 2), |_| ()),
        gpu("an old GPU", "580.65.06", (6, 1)),
        gpu("an old driver", "450.80.02", (9, 0)),
        two(),
        environment("a wheel off the search path", "nvidia-cudnn-cu12==9.19.0.56"),
        environment("another version than PyTorch requires", "nvidia-cudnn-cu12==9.10.2.21"),
    ]
}

#[test]
fn a_report_is_short_and_prints_every_command_of_the_plan_once() {
    for machine in machines() {
        let (code, text) = machine.run(&["check", "--no-load"]);
        let name = machine.name;
        assert!(matches!(code, Some(1 | 2)), "{name}: {text}");
        assert!(text.lines().any(|line| line.starts_with("cuDNN   ")), "{name}: {text}");
        assert!(!text.contains("= note") && !text.contains("= read more"), "{name}: {text}");
        assert!(text.lines().count() <= MAX_LINES, "{name}: {text}");
        let document: Value = serde_json::from_str(&machine.run(&["check", "--no-load", "--json"]).1).unwrap();
        let steps = document["plan"].as_array().unwrap();
        for command in steps.iter().flat_map(|step| step["commands"].as_array().unwrap()) {
            let command = command.as_str().unwrap();
            let is_command = |line: &&str| line.trim() == command;
            assert_eq!(text.lines().filter(is_command).count(), 1, "{name}: {command}: {text}");
        }
        let last = text.lines().last().unwrap();
        assert!(last.starts_with(|c: char| c.is_ascii_digit()), "{name}: {text}");
        let is_executable = steps.iter().any(|step| step["kind"] != "shell");
        assert_eq!(last.contains("fix --yes --no-load` executes"), is_executable, "{name}: {text}");
        let (_, verbose) = machine.run(&["check", "--no-load", "-v"]);
        for finding in document["findings"].as_array().unwrap() {
            let code = finding["code"].as_str().unwrap();
            assert!(text.contains(&format!("[{code}]: ")), "{name}: {text}");
            assert!(verbose.contains(finding["read_more"].as_str().unwrap()), "{name}: {verbose}");
            assert!(finding["notes"].as_array().unwrap().is_empty() || verbose.contains("= note: "), "{verbose}");
        }
    }
}

#[test]
fn a_finding_names_its_step_and_prints_commands_outside_of_steps() {
    let machine = environment("", "nvidia-cudnn-cu12==9.10.2.21");
    let (_, text) = machine.run(&["check", "--no-load"]);
    let help = text.lines().skip_while(|line| !line.contains("[C073]")).nth(1).unwrap();
    let number = help.rsplit_once("(step ").unwrap().1.trim_end_matches(')');
    let step = text.lines().find(|line| line.trim_start().starts_with(&format!("{number}. "))).unwrap();
    assert!(step.contains("C073"), "{text}");
    // A command that only shows details must not be a step.
    let machine = machines().into_iter().find(|machine| machine.name == "two releases").unwrap();
    let (_, text) = machine.run(&["check", "--no-load"]);
    let look = text.lines().skip_while(|line| !line.contains("[C016]")).nth(2).unwrap();
    assert!(look.ends_with(" list") && look.starts_with("          "), "{text}");
}

#[test]
fn a_repeated_directory_is_abbreviated_in_prose_but_not_in_commands() {
    let machine = environment("", "nvidia-cudnn-cu12==9.10.2.21");
    let root = machine.dirs[0].path().to_str().unwrap();
    let (_, text) = machine.run(&["check", "--no-load", "--verbose"]);
    let introduced = |name: &str| text.lines().any(|line| line.ends_with(&format!("(below: {name})")));
    assert!(introduced("<cudnn>") || introduced("<env>"), "{text}");
    for name in ["<cudnn>", "<env>"] {
        assert_eq!(introduced(name), text.matches(name).count() > 1, "{name}: {text}");
    }
    let commands = text.lines().filter(|line| line.starts_with("       "));
    for command in commands {
        assert!(!command.contains("<env>") && !command.contains("<cudnn>") && !command.contains(" ~"), "{command}");
    }
    assert!(text.lines().any(|line| line.starts_with("       ") && line.contains(root)), "{text}");
}

#[test]
fn only_the_selected_codes_are_reported_and_affect_the_exit_status() {
    let machine = changed("", VERSION, |dir| std::fs::remove_file(dir.file(Library::Ops)).unwrap());
    let codes = |arguments: &[&str]| {
        let (status, text) = machine.run(&[arguments, &["--no-load", "--json"]].concat());
        let document: Value = serde_json::from_str(&text).unwrap();
        let of = |key: &str| document[key].as_array().unwrap().clone();
        let codes: Vec<String> = of("findings").iter().map(|one| one["code"].as_str().unwrap().to_owned()).collect();
        let fixes: Vec<Value> = of("plan").iter().flat_map(|step| step["fixes"].as_array().unwrap().clone()).collect();
        (status, codes, fixes)
    };
    assert!(codes(&["check"]).1.len() > 2);
    let (status, found, _) = codes(&["check", "--only", "c012,C014"]);
    assert_eq!((status, found), (Some(2), vec!["C012".to_owned()]));
    let (status, found, fixes) = codes(&["fix", "--only", "C020"]);
    assert_eq!((status, found, fixes), (Some(1), vec!["C020".to_owned()], vec!["C020".into()]));
    let (status, found, fixes) = codes(&["check", "--only", "C014", "--only", "C016"]);
    assert!(found.is_empty() && fixes.is_empty() && status == Some(0), "{found:?}");
    let wrong = machine.command(DOCTOR, &["check", "--only", "C014,C999"]).output().unwrap();
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(3) && error.contains("C999") && error.contains("check --list"), "{error}");
}

/// Creates a cuDNN that loads slowly and writes this file.
fn leaves_a_file(file: &Path) -> Machine {
    let code = format!(
        "#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void start(void) {{ \
         close(open(\"{}\", O_CREAT | O_WRONLY, 0644)); usleep(900000); }}\n",
        file.display()
    );
    changed("", VERSION, |dir| {
        FakeLibrary::new(Library::Graph, VERSION).with_ptx(8).with_code(&code).build(&dir.cleared(Library::Graph));
    })
}

#[test]
fn cudnn_is_loaded_only_for_codes_that_this_can_show() {
    let dir = TempDir::new();
    let file = dir.path().join("loaded");
    let machine = leaves_a_file(&file);
    for (codes, is_loaded) in [("C014,C012", false), ("C014,C050", true), ("C030", true), ("C020", false)] {
        let _ = std::fs::remove_file(&file);
        machine.run(&["check", "--only", codes]);
        assert_eq!(file.exists(), is_loaded, "{codes}");
    }
}

#[test]
fn list_shows_every_code_and_excludes_other_options() {
    let machine = Machine { name: "", dirs: Vec::new(), variables: Vec::new() };
    let (status, text) = machine.run(&["check", "--list"]);
    assert_eq!(status, Some(0));
    let document: Value = serde_json::from_str(&machine.run(&["check", "--list", "--json"]).1).unwrap();
    let facts: Value = serde_json::from_str(&machine.run(&["facts", "--json"]).1).unwrap();
    assert_eq!(document["checks"], facts["findings"]);
    for check in document["checks"].as_array().unwrap() {
        let word = |key: &str| check[key].as_str().unwrap();
        let is_row = |line: &str| line.contains(word("code")) && line.contains(word("severity"));
        assert!(text.lines().any(|line| is_row(line) && line.contains(word("title"))), "{check}");
    }
    for arguments in [&["check", "--list", "--no-load"][..], &["check", "--only", "C014", "--list"], &["fix", "--list"]]
    {
        assert_eq!(machine.run(arguments).0, Some(3), "{arguments:?}");
    }
}

/// Returns the doctor's output on a terminal at stderr.
fn on_terminal(machine: &Machine, variables: &[(&str, &str)]) -> String {
    let (mut master, mut slave) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: both integers are valid for writes, and the other arguments may be null.
    let opened = unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) };
    assert_eq!(opened, 0);
    // SAFETY: openpty returned these descriptors, and this function is the only owner.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
    let mut command = machine.command(DOCTOR, &["check", "--only", "C050"]);
    command.envs(variables.iter().copied()).stderr(slave).output().unwrap();
    drop(command);
    let mut bytes = Vec::new();
    // On Linux, the last read fails.
    let _ = master.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_spinner_appears_during_long_work_and_is_erased() {
    let dir = TempDir::new();
    let slow = leaves_a_file(&dir.path().join("loaded"));
    let shown = on_terminal(&slow, &[]);
    assert!(shown.contains("loading libraries"), "{shown:?}");
    let longest = shown.split('\r').map(str::len).max().unwrap();
    let mut last = shown.rsplit('\r');
    assert_eq!((last.next(), last.next()), (Some(""), Some(" ".repeat(longest).as_str())), "{shown:?}");
    assert_eq!(on_terminal(&slow, &[("TERM", "dumb")]), "");
    let piped = slow.command(DOCTOR, &["check"]).output().unwrap();
    assert!(piped.stderr.is_empty(), "{piped:?}");
}

#[test]
#[ignore = "measures: prints each report, and with DOCTOR_BEFORE that of an older doctor"]
fn lines_and_words_of_the_reports() {
    let before = std::env::var("DOCTOR_BEFORE").ok();
    for machine in machines() {
        for doctor in before.iter().map(String::as_str).chain([DOCTOR]) {
            let (_, text) = machine.text(doctor, &["check", "--no-load"]);
            let (lines, words) = (text.lines().count(), text.split_whitespace().count());
            println!("### {}: {lines} lines, {words} words\n{text}", machine.name);
        }
    }
}
