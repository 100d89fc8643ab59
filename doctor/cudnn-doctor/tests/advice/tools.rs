//! Tests commands of tools that are rare on build machines. A strict stand-in for conda, podman and wsl accepts only
//! the subcommands, options and package names of their manuals, and rejects wrong quotes. If docker or podman is
//! installed, the real tool parses the command.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use cudnn_frameworks::installation::{Installer, Package};
use cudnn_probe::Component;
use cudnn_rules::packages;
use support::{TempDir, not_run};

/// Sources: conda's `conda install --help` and its page on match specifications, docker-run(1), podman-run(1), and
/// `wsl.exe --help`.
const STRICT: &str = r#"#!/usr/bin/env python3
import os, re, sys
tool, args = os.path.basename(sys.argv[0]), sys.argv[1:]
def fail(why):
    sys.exit(f"{tool}: {why}: {args!r}")
FLAGS = {"conda": ["--force-reinstall", "--copy", "--yes", "-y"], "docker": ["--rm", "-it"], "podman": ["--rm", "-it"], "wsl": ["--shutdown"]}
VALUES = {"conda": ["--prefix", "-p", "--name", "-n", "--channel", "-c"], "docker": ["--gpus", "--runtime"], "podman": ["--device"], "wsl": []}
COMMANDS = {"conda": ["install"], "docker": ["run"], "podman": ["run"], "wsl": [None]}
FORMS = {
    "conda": r"([a-z0-9-]+::)?[a-z0-9][a-z0-9._-]*((=|==|>=|<=|>|<)[0-9][0-9A-Za-z.*_+]*)?",
    "docker": r"[a-z0-9./:_-]+", "podman": r"[a-z0-9./:_-]+", "wsl": r"(?!)",
}
VALUE_FORMS = {"--runtime": r"[a-z]+", "--gpus": r"all|[0-9]+|device=[0-9,]+", "--device": r"[a-z.]+/[a-z]+=[a-z0-9:]+|/dev/.+", "--channel": r"[a-z-]+"}
ANSWERS = {"conda": ["--yes", "-y"]}
if tool in ANSWERS and not any(word in ANSWERS[tool] for word in args):
    fail("it would ask, and take the next line that is pasted as the answer")
command = None if COMMANDS[tool] == [None] else (args[:1] or fail("no command"))[0]
if command not in COMMANDS[tool]:
    fail("no such command")
rest, names, i = args if command is None else args[1:], [], 0
while i < len(rest):
    word = rest[i]
    if word in VALUES[tool]:
        i += 1
        if i == len(rest) or not re.fullmatch(VALUE_FORMS.get(word, r"(?s).+"), rest[i]):
            fail(f"a bad value of {word}")
        if word == "--prefix":
            print("prefix", rest[i].encode("utf-8", "surrogateescape").hex())
    elif word.startswith("-"):
        if word not in FLAGS[tool]:
            fail(f"no such option as {word}")
    elif re.fullmatch(FORMS[tool], word):
        names.append(word)
        if tool in ("docker", "podman"):
            break
    else:
        fail(f"a bad name: {word}")
    i += 1
if not names and tool != "wsl":
    fail("nothing to do")
print("names", *names)
"#;

fn tools() -> TempDir {
    let dir = TempDir::new();
    for tool in ["conda", "docker", "podman", "wsl", "sudo"] {
        let script = if tool == "sudo" { "#!/bin/sh\nexec \"$@\"\n" } else { STRICT };
        support::write_program(dir.path().join(tool), script);
    }
    dir
}

/// Returns the arguments as the tool parsed them, or its error message.
fn run(tools: &TempDir, line: &str) -> Result<String, String> {
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh").args(["-c", line]).env("PATH", path).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn conda_accepts_its_commands() {
    let tools = tools();
    for root in [&b"/opt/conda"[..], b"/it's a \"root\" $(touch RUN)", b"/new\nline", b"/\xff\xfe"] {
        let root = Path::new(OsStr::from_bytes(root));
        let conda = Package::new(Installer::Conda, "libcudnn", Some("9.10.1.4"), root);
        let hex: String = root.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let prefix = format!("prefix {hex}\n");
        let commands = |change: Option<packages::PackageChange>| change.unwrap().commands().unwrap();
        for (commands, expected) in [
            (commands(packages::reinstall(&conda)), format!("{prefix}names libcudnn=9.10.1.4\n")),
            (commands(packages::upgrade(&conda, "9.12.0")), format!("{prefix}names libcudnn>=9.12.0\n")),
            (
                commands(packages::install_beside(&conda, Component::Nvrtc, 12, None)),
                format!("{prefix}names cuda-nvrtc cuda-version=12\n"),
            ),
            (
                commands(packages::replace(&[conda], Component::Cudnn, 13)),
                format!("{prefix}names cudnn cuda-version=13\n"),
            ),
        ] {
            let line = cudnn_cli::command::command_line(&commands);
            assert_eq!(run(&tools, &line), Ok(expected), "{line}");
        }
    }
    for wrong in ["conda install -y --frobnicate x", "conda instal -y x", "conda install x", "wsl --halt"] {
        assert!(run(&tools, wrong).is_err(), "{wrong}");
    }
}

/// Tests the commands in backticks in the advice about the driver. `...` represents an image and a program.
#[test]
fn docker_podman_and_wsl_accept_their_commands() {
    let source = include_str!("../../../cudnn-rules/src/check/machine.rs").replace("\\\n", "");
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_command = |text: &&str| ["docker ", "podman ", "wsl "].iter().any(|tool| text.starts_with(tool));
    let lines: Vec<String> =
        source.split('`').filter(is_command).map(|line| line.replace("...", "an/image:latest true")).collect();
    let tools = tools();
    for tool in ["docker", "podman", "wsl"] {
        let lines: Vec<&String> = lines.iter().filter(|line| line.starts_with(tool)).collect();
        assert!(!lines.is_empty(), "{tool}: {source}");
        for line in lines {
            run(&tools, line).unwrap_or_else(|error| panic!("{line}: {error}"));
            if tool == "wsl" || Command::new(tool).arg("--version").output().is_err() {
                not_run(line, &format!("{tool} is not installed; a stand-in has parsed it"));
                continue;
            }
            // The tool parses all options before it prints the help.
            let line = line.replace("an/image:latest true", "--help");
            let output = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
        }
    }
}
