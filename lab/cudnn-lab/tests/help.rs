//! Tests the help, the manual and the output of all commands.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output, Stdio};

use cudnn_store::plans::{PlanEntry, PlanInfo, Settings, Store};
use support::TempDir;

const LAB: &str = env!("CARGO_BIN_EXE_cudnn-lab");
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures/small.cudnncap");

fn lab(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(LAB).args(arguments).env_clear().output().unwrap();
    (output.status.code(), text(&output))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn pages(manual: &str) -> Vec<String> {
    let pages = manual.lines().filter_map(|line| line.strip_prefix("cudnn\\-lab\\-")?.strip_suffix("(1)"));
    pages.map(|page| page.replace('\\', "")).filter(|page| !page.ends_with("-help")).collect()
}

#[test]
fn the_manual_and_the_completions_have_every_subcommand() {
    let (manual, completions) = (lab(&["man"]).1, lab(&["completions", "bash"]).1);
    for command in ["capture", "replay", "reduce", "emit", "tune", "devices", "errata", "plans"] {
        assert!(manual.contains(command) && completions.contains(command), "{command}");
    }
    let all: Vec<String> = pages(&manual).into_iter().chain(pages(&lab(&["man", "plans"]).1)).collect();
    assert!(all.len() > 12, "{all:?}");
    for page in all {
        let (code, text) = lab(&["man", &page]);
        assert!(code == Some(0) && text.contains(&format!(".TH cudnn-lab-{page} 1")), "{page}: {text}");
    }
    assert_eq!(lab(&["man", "nothing"]).0, Some(3));
    assert!(!manual.contains("internal\\-") && !completions.contains("internal-"), "{manual} {completions}");
    assert!(["internal-replay", "internal-tune"].iter().all(|command| lab(&["man", command]).0 == Some(3)));
}

/// The guide's test runs the examples for captures.
#[test]
fn the_examples_of_devices_plans_and_errata_run() {
    let home = TempDir::new();
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(LAB, bin.join("cudnn-lab")).unwrap();
    std::fs::write(
        home.path().join("my-rules.json"),
        r#"{"errata":1,"rules":[{"name":"n","reason":"r","engines":[1]}]}"#,
    )
    .unwrap();
    let settings = Settings { dir: Some(home.path().join(".cache/cudnn-plans")), ..Settings::default() };
    let about = PlanInfo { device: "NVIDIA H200".into(), cudnn_version: 91_900, ..PlanInfo::default() };
    Store::open(&settings).0.put(&PlanEntry { about, ..PlanEntry::default() }).unwrap();
    let mut count = 0;
    for subcommand in ["devices", "plans", "errata"] {
        let help = lab(&[subcommand, "--help"]).1;
        let lines = help.split("Examples:").nth(1).unwrap_or_default().lines();
        for example in lines.filter_map(|line| line.strip_prefix("  ")).filter(|line| line.starts_with("cudnn-lab")) {
            let example = example.split("  ").next().unwrap_or_default();
            count += 1;
            let mut sh = Command::new("/bin/sh");
            sh.args(["-c", example]).current_dir(home.path()).env_clear();
            let output = sh.env("HOME", home.path()).env("PATH", format!("{}:/bin", bin.display())).output().unwrap();
            // Planning needs the driver's library, and `--here` needs a GPU.
            let needs_driver = example.contains(" --device ") || example.contains(" --here");
            let needs_driver = needs_driver && output.status.code() == Some(3);
            assert!(output.status.success() || needs_driver, "{example}: {output:?}");
            assert!(!text(&output).contains("Usage:"), "{example}: {output:?}");
        }
    }
    assert!(count > 8, "{count}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["capture", "show", CAPTURE],
        &["capture", "show", CAPTURE, "--json"],
        &["devices"],
        &["devices", "h200"],
        &["errata", "list"],
        &["plans", "list"],
        &["man"],
        &["completions", "bash"],
    ] {
        let run = |stdout: Stdio| {
            let mut command = Command::new(LAB);
            let output = command.args(arguments).env_clear().stdout(stdout).stderr(Stdio::piped()).output().unwrap();
            (output.status.code(), text(&output))
        };
        let (code, stderr) = run(std::fs::File::create("/dev/full").unwrap().into());
        assert!(code == Some(3) && stderr.contains("cannot write the output"), "{arguments:?}: {code:?} {stderr}");
        // For a closed pipe, the lab prints no message and exits with the status of SIGPIPE.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, stderr) = run(writer.into());
        assert!(code == Some(141) && !stderr.contains("cannot write"), "{arguments:?}: {code:?} {stderr}");
    }
}
