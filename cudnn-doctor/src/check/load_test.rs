//! cuDNN loaded in a child process, so that a crash there is a finding here. The child reports each failure as one line
//! of JSON; every other line on its output belongs to the convolution, or to a library that prints.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use cudnn_backend::gpu::{self, Gpu, NoGpu};
use cudnn_loader::preload::VERSION_CHECKS;
use cudnn_loader::{Error, LoadError, LoadErrorKind, Options, cudnnGetLastErrorString, cudnnStatus_t};
use cudnn_probe::InstallationReport;
use serde_json::{Value, json};

use super::finding::{CHECK_FAILED, CRASHED, Finding, Help, NO_CONVOLUTION, NO_DRIVER, NOT_LOADED};
use super::fix_commands;
use crate::demo;
use crate::escape::Printable;
use crate::output::document_line;
use crate::subprocess::{self, ChildOutput};

/// The subcommand with which the doctor starts itself for this.
pub(crate) const COMMAND: &str = "internal-load";

/// A first start with a cold disk takes seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The number of last lines of a crashed child that become notes.
const MAX_STDERR_LINES: usize = 3;

type VersionCheck = unsafe extern "C" fn() -> cudnnStatus_t;

/// The prefix of the help that the demo prints.
const HELP_PREFIX: &str = "help: ";

/// The keys of the child's reports.
const FAILURE: &str = "failure";
const LOAD: &str = "load";
const VERSION_CHECK: &str = "version check";
const CONVOLUTION: &str = "convolution";
const DRIVER: &str = "driver";
/// The key of the child's last line. A library may end the child with status 0 before.
const FINISHED: &str = "finished";

/// The result of the test.
#[derive(Default)]
pub(super) struct LoadTest {
    pub(super) findings: Vec<Finding>,
    /// The output of the convolution, line by line.
    pub(super) convolution: Vec<String>,
}

/// Loads the cuDNN in this directory in a child process, starts the driver there if its library is one that ld.so can
/// load, and runs the convolution if asked to.
pub(super) fn load(report: &InstallationReport, convolution: bool, has_driver: bool) -> LoadTest {
    // The child has another working directory.
    let dir = std::path::absolute(&report.dir).unwrap_or_else(|_| report.dir.clone());
    let mut arguments = vec![OsStr::new(COMMAND)];
    if convolution {
        arguments.push(OsStr::new("--gpu"));
    }
    if has_driver {
        arguments.push(OsStr::new("--driver"));
    }
    arguments.extend([OsStr::new("--"), dir.as_os_str()]);
    match subprocess::run(&arguments, TIMEOUT) {
        Ok(child) => result(&child, report, convolution),
        Err(error) => {
            let message = format!("the doctor cannot start a child process to load cuDNN: {error}");
            LoadTest { findings: vec![Finding::new(NOT_LOADED, message)], convolution: Vec::new() }
        }
    }
}

fn result(child: &ChildOutput, installation: &InstallationReport, convolution: bool) -> LoadTest {
    let mut test = LoadTest::default();
    let mut is_finished = false;
    for line in child.stdout.lines() {
        match serde_json::from_str::<Value>(line).ok().filter(Value::is_object) {
            Some(report) if report.get(FINISHED).is_some() => is_finished = true,
            Some(report) => test.findings.extend(parse_failure(&report, installation)),
            None if convolution => test.convolution.push(line.to_owned()),
            None => {}
        }
    }
    test.findings.extend(crash(child, installation, is_finished));
    test
}

fn crash(child: &ChildOutput, report: &InstallationReport, is_finished: bool) -> Option<Finding> {
    let how = match child.status {
        None => format!("did not finish within {} s", TIMEOUT.as_secs()),
        Some(status) if status.success() && is_finished => return None,
        Some(status) if status.success() => "was ended by a library, with status 0".to_owned(),
        Some(status) => match status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("failed with {status}"),
        },
    };
    let lines: Vec<&str> = child.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(MAX_STDERR_LINES)..).unwrap_or_default();
    Some(
        Finding::new(CRASHED, format!("a child process that loaded the cuDNN in {} {how}", report.dir.printable()))
            .notes(last.iter().map(|line| format!("its stderr: {line}")))
            .help(fix_commands::reinstall(report)),
    )
}

/// A report from the child.
fn parse_failure(report: &Value, installation: &InstallationReport) -> Option<Finding> {
    let text = |key: &str| report.get(key).and_then(Value::as_str);
    let kind = match text(FAILURE)? {
        LOAD => NOT_LOADED,
        VERSION_CHECK => CHECK_FAILED,
        CONVOLUTION => NO_CONVOLUTION,
        DRIVER => NO_DRIVER,
        _ => return None,
    };
    let notes = report.get("notes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let finding = Finding::new(kind, text("message")?).notes(notes);
    let finding = if kind.code == NO_DRIVER.code {
        finding
    } else {
        finding.note(format!("cuDNN was loaded from {}", installation.dir.printable()))
    };
    if kind.code == CHECK_FAILED.code {
        return Some(finding.help(fix_commands::reinstall(installation)));
    }
    Some(match text("help").filter(|help| !help.is_empty()) {
        Some(help) => finding.help(Help::new(help)),
        None => finding,
    })
}

/// The child process: loads each sub-library and calls its version check, then computes. With a GPU this creates a CUDA
/// context.
pub(crate) fn run_child(dir: &Path, convolution: bool, driver: bool) -> ExitCode {
    load_and_check(dir, convolution, driver);
    document_line(&json!({ FINISHED: true }));
    ExitCode::SUCCESS
}

fn load_and_check(dir: &Path, convolution: bool, driver: bool) {
    if let Err(error) = Options::new().path(dir).load() {
        return report_load_error(&error);
    }
    // Each loads a sub-library and compares its version with graph's.
    for (_, function) in VERSION_CHECKS {
        // SAFETY: the loader's table lists functions of this type.
        match unsafe { function.get::<VersionCheck>() } {
            Ok(check) => {
                // SAFETY: the function has no parameters, and the loader's functions are of one cuDNN.
                let checked = unsafe { Error::check(check(), function.name(), cudnnGetLastErrorString) };
                if let Err(error) = checked {
                    let message = format!("{function} returned {:?}", error.status);
                    let notes = error.text.lines().map(|line| format!("cuDNN's message: {line}")).collect();
                    report_failure(VERSION_CHECK, &message, notes, "");
                }
            }
            // JIT-only installations include graph alone.
            Err(error) if matches!(error.kind(), LoadErrorKind::LibraryMissing) => {}
            Err(error) => report_load_error(&error),
        }
    }
    if driver && let Err(error @ (NoGpu::Start(_) | NoGpu::NoCuInit)) = Gpu::start_driver() {
        report_failure(DRIVER, &format!("the driver does not start: {error}"), Vec::new(), driver_help(&error));
    }
    if convolution && let Err(error) = demo::run_convolution() {
        let text = format!("{error:#}");
        let mut lines = text.lines();
        let message = lines.next().unwrap_or_default();
        let (help, notes): (Vec<&str>, Vec<&str>) =
            lines.map(str::trim).filter(|line| !line.is_empty()).partition(|line| line.starts_with(HELP_PREFIX));
        let help = help.first().and_then(|help| help.strip_prefix(HELP_PREFIX)).unwrap_or(demo::HELP);
        let notes = notes.into_iter().map(|note| note.trim_start_matches("note: ").to_owned()).collect();
        report_failure(CONVOLUTION, message, notes, help);
    }
}

fn driver_help(error: &NoGpu) -> &'static str {
    match error {
        NoGpu::Start(gpu::STUB_LIBRARY) => {
            "this libcuda.so.1 is a stub for linking: remove CUDA's directory `stubs` from LD_LIBRARY_PATH"
        }
        NoGpu::Start(gpu::NO_DEVICE) => {
            "no GPU is visible: start the container with GPU access, and check CUDA_VISIBLE_DEVICES"
        }
        NoGpu::Start(gpu::DRIVER_MISMATCH) => {
            "libcuda.so.1 and the kernel's driver are of different versions: reboot if the driver was just updated, or \
             reinstall it"
        }
        _ => "check that `nvidia-smi` works; if it does not, reinstall the driver, or reboot if it was just updated",
    }
}

fn report_load_error(error: &LoadError) {
    let text = error.to_string();
    let mut notes = Vec::new();
    if let LoadErrorKind::Dlopen { message, .. } = error.kind() {
        notes.push(format!("ld.so's message: {message}"));
    }
    report_failure(LOAD, text.lines().next().unwrap_or_default(), notes, &error.help());
}

fn report_failure(kind: &str, message: &str, notes: Vec<String>, help: &str) {
    document_line(&json!({ FAILURE: kind, "message": message, "notes": notes, "help": help }));
}
