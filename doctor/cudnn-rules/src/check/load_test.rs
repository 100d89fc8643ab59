//! Turns the result of loading cuDNN in a child process, including crashes, into findings: C001, C003, C050 to C055.
//!
//! The child starts the driver first, because a crash of the driver would otherwise be blamed on cuDNN. It reports
//! steps and failures in messages, because libraries and the convolution print to standard output.

use cudnn_cli::child_report::{ChildStep, Work};
use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_cli::platform::MEMORY_HELP;
use cudnn_cli::programs::doctor_command;
use cudnn_cli::subprocess::{Ended, LACK_OF_MEMORY};
use std::path::PathBuf;

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::Os;
use serde_json::Value;

use super::advice::hook;
use super::finding::{
    CHECK_FAILED, CRASHED, DRIVER_CRASHED, Finding, FindingKind, NO_CONVOLUTION, NO_DRIVER, NO_MEMORY, NOT_LOADED,
    NOT_TESTED, Severity,
};
use super::{foreign_library, installation, remedies};
use crate::remedy::{Action, Remedy};
use crate::system::DRIVER_HELP;

/// Limits of the notes with the last stderr lines of a crashed child.
const MAX_STDERR_LINES: usize = 3;
const MAX_STDERR_CHARS: usize = 400;

const NOT_LOADED_NOTE: &str = "cuDNN was not loaded; only its files were checked";

/// The key of a failure that the child reports. The values are the constants below.
pub const FAILURE: &str = "failure";
/// A library could not be loaded.
pub const LOAD: &str = "load";
/// The version check failed.
pub const VERSION_CHECK: &str = "version check";
/// The engines could not be registered.
pub const ENGINES: &str = "engines";
/// The convolution failed.
pub const CONVOLUTION: &str = "convolution";
/// A CUDA library could not be loaded.
pub const CUDA: &str = "library of CUDA";
/// The driver could not be started.
pub const DRIVER: &str = "driver";
/// The key of the CUDA release that the driver reports.
pub const CUDA_VERSION: &str = "CUDA version";
/// The key of the child's last message, without which a library that exits with status 0 would look like success.
pub const FINISHED: &str = "finished";

/// The result of the load test.
#[derive(Default)]
pub struct LoadTest {
    pub(super) findings: Vec<Finding>,
    /// The lines that the convolution printed.
    pub convolution: Vec<String>,
    /// The CUDA release (major, minor) that the started driver reports.
    pub(super) cuda: Option<(u32, u32)>,
    pub(super) unusable_cuda: Vec<Unusable>,
}

/// A CUDA library that ld.so finds but fails to load.
pub(super) struct Unusable {
    pub(super) file: PathBuf,
    /// The reason, phrased to follow the file name.
    pub(super) reason: String,
}

/// The optional parts of the load test.
#[derive(Clone)]
pub struct Parts {
    /// Runs the convolution.
    pub convolution: bool,
    /// Starts the driver. Requires a driver library that ld.so can load.
    pub driver: bool,
    /// Makes cuDNN register the engines. Requires undamaged engine dependencies.
    pub engines: bool,
    /// Loads these files, which cuDNN would open by name as CUDA libraries.
    pub cuda: Vec<PathBuf>,
}

impl LoadTest {
    /// Returns the result of a test that could not run.
    pub fn not_made(message: &str, help: impl Into<Remedy>) -> LoadTest {
        let finding = Finding::new(NOT_TESTED, message).note(NOT_LOADED_NOTE).remedy(help);
        LoadTest { findings: vec![finding], ..LoadTest::default() }
    }
}

/// Returns the result of a child process that loaded this installation.
pub fn result(ended: &Ended, installation: &InstallationReport, parts: &Parts) -> LoadTest {
    let mut test = LoadTest {
        findings: ended.messages.iter().filter_map(|message| parse_failure(message, installation)).collect(),
        convolution: ended.stdout.lines().filter(|_| parts.convolution).map(str::to_owned).collect(),
        cuda: ended.messages.iter().find_map(|message| serde_json::from_value(message.get(CUDA_VERSION)?.clone()).ok()),
        unusable_cuda: ended.messages.iter().filter_map(|message| parse_unusable(message, parts)).collect(),
    };
    // The failure of the driver is reported once, although every library linked to the driver fails. If the driver is
    // missing or damaged, the parent has reported it.
    let mut is_driver_reported = !parts.driver;
    let is_of_driver = |finding: &Finding| finding.kind.code == NO_DRIVER.code;
    test.findings.retain(|finding| !is_of_driver(finding) || !std::mem::replace(&mut is_driver_reported, true));
    let how = match ended.end.failure() {
        None if ended.messages.iter().any(|message| message.get(FINISHED).is_some()) => return test,
        None => "was ended by a library, with status 0".to_owned(),
        Some(failure) => failure,
    };
    match crashed_cuda(ended, &how, parts) {
        Some(unusable) => test.unusable_cuda.push(unusable),
        None => test.findings.push(crash(ended, &how, installation)),
    }
    test
}

/// Returns the CUDA library that made the child crash or hang, except for a lack of memory.
fn crashed_cuda(ended: &Ended, how: &str, parts: &Parts) -> Option<Unusable> {
    let step = ended.step.as_ref().filter(|step| step.work == Work::LoadCuda && ended.lack_of_memory.is_none())?;
    let file = parts.cuda.iter().find(|file| step.text.ends_with(&file.printable()))?;
    Some(Unusable { file: file.clone(), reason: format!("cannot be loaded: a child process {how}{}", ended.during()) })
}

fn parse_unusable(report: &Value, parts: &Parts) -> Option<Unusable> {
    if report.get(FAILURE)? != CUDA || report.get(LACK_OF_MEMORY).is_some() {
        return None;
    }
    let file = parts.cuda.get(usize::try_from(report.get("index")?.as_u64()?).ok()?)?;
    Some(Unusable { file: file.clone(), reason: report.get("message")?.as_str()?.to_owned() })
}

/// Reports a child that crashed or hung, depending on its last step.
fn crash(ended: &Ended, how: &str, report: &InstallationReport) -> Finding {
    let (during, notes) = (ended.during(), last_lines(&ended.stderr));
    if ended.step.is_none() && ended.end.has_exited() {
        let message = format!("the doctor cannot run itself in a child process, which {how}");
        let help = "check that the doctor's file is executable, and that no library on LD_PRELOAD terminates it";
        return Finding::new(NOT_TESTED, message).note(NOT_LOADED_NOTE).notes(notes).remedy(help);
    }
    let message = format!("a child process that loaded the cuDNN in {} {how}{during}", report.dir.printable());
    if let Some(reason) = &ended.lack_of_memory {
        return Finding::new(NO_MEMORY, message).note(reason).notes(notes).remedy(MEMORY_HELP);
    }
    if ended.step.as_ref().is_some_and(ChildStep::is_of_driver) {
        let note = "cuDNN was not loaded, because it also opens the driver's library";
        let finding = Finding::new(DRIVER_CRASHED, format!("a child process {how}{during}")).note(note);
        return finding.notes(notes).remedy(DRIVER_HELP);
    }
    if let Some(finding) = foreign_library::damaged(report) {
        return finding.note(message).notes(notes);
    }
    let finding = Finding::new(CRASHED, message).notes(notes);
    if let Some(advice) = hook() {
        return finding.remedy(advice);
    }
    if installation::is_as_installed(report) {
        return finding.note("all cuDNN files match the sha256 recorded by their package").remedy(not_by_cudnn());
    }
    let remedy = repair_files(report);
    if !ended.end.is_hang() {
        return finding.remedy(remedy);
    }
    let text = format!("if this machine is only slow, check with `--timeout 600`; otherwise {}", remedy.text);
    finding.remedy(remedy.with_text(text))
}

/// Repairs the file that is known to be wrong, or reinstalls all files.
fn repair_files(report: &InstallationReport) -> Remedy {
    let unusable = installation::unusable_parts(report).next();
    let unusable = unusable.map(|(part, error)| installation::repair(part, error, report));
    let mixed = || installation::mixed(report).into_iter().find_map(|finding| finding.remedy);
    unusable.or_else(mixed).unwrap_or_else(|| remedies::reinstall(report))
}

/// Returns the help if the cuDNN files are undamaged, so that reinstalling them would not help.
fn not_by_cudnn() -> Remedy {
    if Os::HOST == Os::Windows {
        return "reinstalling cuDNN would not help; check again in a new console, and with `--timeout 600` if this machine \
                is only slow; a virus scanner may keep programs from starting"
            .into();
    }
    let text = "reinstalling cuDNN would not help; check again without LD_LIBRARY_PATH and LD_PRELOAD, and with \
                `--timeout 600` if this machine is only slow; to see which files ld.so loads until then:";
    let doctor = doctor_command(["check"]);
    let words = ["LD_DEBUG=files".into(), doctor.program].into_iter().chain(doctor.arguments);
    Remedy::new(text).action(Action::Inspect(Command::new("env", words)))
}

fn last_lines(stderr: &str) -> Vec<String> {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(MAX_STDERR_LINES)..).unwrap_or_default();
    let omitted = |line: &str| line.chars().count().saturating_sub(MAX_STDERR_CHARS);
    let end = |line: &str| line.chars().skip(omitted(line)).collect::<String>();
    last.iter().map(|line| format!("its stderr: {}", end(line))).collect()
}

fn parse_failure(report: &Value, installation: &InstallationReport) -> Option<Finding> {
    let text = |key: &str| report.get(key).and_then(Value::as_str);
    if let Some(reason) = text(LACK_OF_MEMORY) {
        return Some(Finding::new(NO_MEMORY, text("message")?).note(reason).remedy(MEMORY_HELP));
    }
    let kind = match text(FAILURE)? {
        LOAD => NOT_LOADED,
        VERSION_CHECK => CHECK_FAILED,
        // A cuDNN newer than this doctor may reject the described device and still work.
        ENGINES => FindingKind { severity: Severity::Warning, ..CHECK_FAILED },
        CONVOLUTION => NO_CONVOLUTION,
        DRIVER => NO_DRIVER,
        _ => return None,
    };
    let notes = report.get("notes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let loaded_from = format!("cuDNN was loaded from {}", installation.dir.printable());
    let finding = Finding::new(kind, text("message")?).notes(notes);
    let finding = finding.notes((kind.code != NO_DRIVER.code).then_some(loaded_from));
    let is_of_files = kind.code == CHECK_FAILED.code || kind.code == NOT_LOADED.code;
    let leftovers = || remedies::leftovers(installation).filter(|_| is_of_files);
    let stated = || text("help").filter(|help| !help.is_empty());
    let remedy = leftovers().or_else(|| stated().map(Remedy::new));
    let remedy = remedy.or_else(|| is_of_files.then(|| repair_files(installation)));
    Some(Finding { remedy, ..finding })
}
