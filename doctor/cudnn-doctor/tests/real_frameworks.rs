//! Installs real frameworks with pip and uv, alone and in pairs, on a machine with a fake GPU. Healthy environments get
//! no warnings or errors, except for known defects of the packages.
//!
//! By default, this tests small pinned frameworks. `CUDNN_TESTS_FRAMEWORKS=all` installs the newest releases of all
//! (weekly; 20 GB of downloads), and `torch,jax` only these.
#![cfg(target_os = "linux")]
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{FakeNvml, TempDir, Wheel, not_run};

const VARIABLE: &str = "CUDNN_TESTS_FRAMEWORKS";

/// A framework with the packages in its documentation, and their CUDA major.
struct Framework {
    name: &'static str,
    cuda_major: u32,
    packages: &'static [&'static str],
}

const fn framework(name: &'static str, cuda_major: u32, packages: &'static [&'static str]) -> Framework {
    Framework { name, cuda_major, packages }
}

const NEWEST: [Framework; 6] = [
    framework("torch", 13, &["torch"]),
    framework("jax", 13, &["jax[cuda13]"]),
    framework("tensorflow", 12, &["tensorflow[and-cuda]"]),
    framework("onnxruntime", 13, &["onnxruntime-gpu[cuda,cudnn]"]),
    framework("ctranslate2", 12, &["ctranslate2", "nvidia-cudnn-cu12", "nvidia-cublas-cu12"]),
    framework("frontend", 13, &["nvidia-cudnn-frontend", "nvidia-cudnn-cu13"]),
];

const PINNED: [Framework; 1] = [framework(
    "frontend",
    13,
    &["nvidia-cudnn-frontend==1.32.0", "nvidia-cudnn-jit-cu13==9.27.0.42", "nvidia-cuda-nvrtc==13.0.88"],
)];

/// Findings with causes in the packages: the framework, the code, and the cause.
const CAUSES: [(&str, &str, &str); 4] = [
    ("onnxruntime", "C020", "its provider has no run path to the wheels"),
    ("onnxruntime", "C074", "its provider has no run path to the wheels: a program calls `preload_dlls`"),
    ("ctranslate2", "C020", "its own shim is found, but the libraries that it opens are not"),
    ("ctranslate2", "C074", "it opens libcublas.so.12 by name"),
];

/// The wheels of a pair for two CUDA majors own the same files, so one framework gets the wrong cuDNN.
const MIXED: [&str; 2] = ["C023", "C071"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installer {
    Pip,
    Uv,
}

fn driver(root: &Path) -> PathBuf {
    let dir = root.join("driver");
    std::fs::create_dir(&dir).unwrap();
    FakeNvml { driver: "580.95.05", gpu: "A GPU", compute_capability: (9, 0) }.build(&dir);
    support::compile("", &["-shared", "-nostdlib"], &dir.join("libcuda.so.1"));
    dir
}

/// Creates an environment with these packages. Returns the installer's reason if they conflict.
fn install(installer: Installer, uv: &Path, env: &Path, packages: &[&str]) -> Result<(), String> {
    let mut make = Command::new(uv);
    make.args(["--quiet", "venv", "--seed"]).arg(env);
    assert!(make.status().unwrap().success());
    let python = env.join("bin/python");
    let mut command = Command::new(match installer {
        Installer::Pip => &python,
        Installer::Uv => uv,
    });
    match installer {
        Installer::Pip => command.args(["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]),
        Installer::Uv => command.args(["--quiet", "pip", "install", "--python"]).arg(&python),
    };
    let output = command.args(packages).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn findings(env: &Path, driver: &Path) -> Vec<(String, String)> {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    doctor.args(["check", "--no-load", "--json"]).env_clear().env("HOME", "/nonexistent");
    doctor.env("VIRTUAL_ENV", env).env("LD_LIBRARY_PATH", driver).env("PATH", env.join("bin"));
    let output = doctor.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let text = |finding: &Value, key: &str| finding.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let all = report.get("findings").and_then(Value::as_array).unwrap_or_else(|| panic!("{report:#}"));
    let is_problem = |finding: &&Value| text(finding, "severity") != "note";
    all.iter().filter(is_problem).map(|finding| (text(finding, "code"), text(finding, "message"))).collect()
}

#[test]
#[ignore = "downloads frameworks"]
fn healthy_environments_have_no_findings() {
    let test = "the frameworks of the package index";
    if cfg!(not(target_arch = "x86_64")) {
        return not_run(test, "the wheels are for x86-64");
    }
    let Some(uv) = Wheel::UV.unpacked().map(|dir| dir.join("bin/uv")) else { return };
    let chosen = std::env::var(VARIABLE).unwrap_or_default();
    let frameworks = if chosen.is_empty() { &PINNED[..] } else { &NEWEST };
    let alone = frameworks.iter().map(|one| vec![one]);
    let pairs = frameworks.iter().enumerate();
    let pairs = pairs.flat_map(|(place, one)| frameworks.iter().skip(place + 1).map(move |other| vec![one, other]));
    let is_wanted = |all: &Vec<&Framework>| {
        ["", "all"].contains(&chosen.as_str()) || all.iter().all(|one| chosen.split(',').any(|name| name == one.name))
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for environment in alone.chain(pairs).filter(is_wanted) {
        let packages: Vec<&str> = environment.iter().flat_map(|one| one.packages).copied().collect();
        let names = environment.iter().map(|one| one.name).collect::<Vec<_>>().join(" and ");
        for installer in [Installer::Uv, Installer::Pip] {
            let root = TempDir::new();
            let env = root.path().join("env");
            if let Err(reason) = install(installer, &uv, &env, &packages) {
                not_run(&names, &format!("{installer:?} cannot install them together: {}", reason.trim()));
                continue;
            }
            count += 1;
            let found = findings(&env, &driver(root.path()));
            let is_mixed = environment.windows(2).any(|pair| pair[0].cuda_major != pair[1].cuda_major);
            let has_cause = |code: &str| {
                is_mixed && MIXED.contains(&code)
                    || CAUSES
                        .iter()
                        .any(|(name, known, _)| *known == code && environment.iter().any(|one| one.name == *name))
            };
            let unexpected: Vec<_> = found.iter().filter(|(code, _)| !has_cause(code)).collect();
            println!("{names} by {installer:?}: {found:?}");
            if !unexpected.is_empty() {
                wrong.push(format!("{names} by {installer:?}: {unexpected:#?}"));
            }
        }
    }
    if count == 0 && chosen.is_empty() {
        return not_run(test, "no installer reached the index");
    }
    assert!(count > 0, "nothing was installed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
