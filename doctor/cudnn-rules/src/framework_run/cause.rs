//! Finds the first cause of a failed step in text written by frameworks, cuDNN or ld.so.

use std::sync::LazyLock;

use cudnn_cli::escape::text_without_colors;
use cudnn_cli::subprocess::Ended;
use cudnn_loader::logging::{LogEntry, LogSeverity, parse};
use cudnn_probe::Version;
use serde::Deserialize;

use super::step::{RunStep, StepOutcome, shortened};

/// The number of final stderr lines of a crashed child to show as notes.
const MAX_LAST_LINES: usize = 3;

const MAX_LINES: usize = 100_000;

/// The script prints this character before the name of a step on stderr.
const STEP_MARK: char = '\x1e';

pub(super) struct StepEvidence {
    /// The errors of the step, innermost first. A text can have several lines.
    pub(super) errors: Vec<String>,
    pub(super) stderr: Vec<String>,
    log: Vec<LogEntry>,
    pub(super) is_crash: bool,
    /// Describes the memory shortage that killed the process.
    pub(super) memory: Option<String>,
}

impl StepEvidence {
    pub(super) fn from_step(
        step: &RunStep,
        ended: &Ended,
        is_crash: bool,
        log: &dyn Fn(u64) -> String,
    ) -> StepEvidence {
        let errors = step.causes.iter().rev().chain([&step.text]).cloned().collect();
        let text = log(step.log_start);
        // The user may have sent the log to stderr.
        let entries = parse(&text).into_iter().chain(parse(&ended.stderr));
        let log = entries.filter(|entry| entry.severity >= LogSeverity::Error && !entry.traceback.is_empty()).collect();
        // Frameworks often report a missing GPU before the step that queries it.
        let is_on_cpu = step.outcome == Some(StepOutcome::Cpu);
        let stderr = if is_on_cpu { lines(&ended.stderr) } else { stderr_of_step(&ended.stderr, &step.name) };
        StepEvidence { errors, stderr, log, is_crash, memory: ended.lack_of_memory.clone() }
    }

    /// Returns the first error in the log. Unsupported engines are normal, so their errors are only a last resort.
    pub(super) fn log_entry(&self) -> Option<String> {
        let is_serious = |entry: &&LogEntry| {
            entry.traceback.iter().any(|reason| !reason.status.starts_with("CUDNN_STATUS_NOT_SUPPORTED"))
        };
        self.log.iter().find(is_serious).or(self.log.first()).map(ToString::to_string)
    }

    pub(super) fn last_lines(&self) -> Vec<String> {
        let start = self.stderr.len().saturating_sub(MAX_LAST_LINES);
        self.stderr.iter().skip(start).map(|line| shortened(line)).collect()
    }
}

/// Returns the stderr lines of a step. If the start of the step was truncated, returns all remaining lines.
fn stderr_of_step(stderr: &str, name: &str) -> Vec<String> {
    let mark = format!("\n{STEP_MARK}{name}\n");
    let part = stderr.rsplit_once(&mark).map_or(stderr, |(_, part)| part);
    lines(part.split(STEP_MARK).next().unwrap_or_default())
}

/// Splits text into nonempty lines, without ld.so's warnings about LD_PRELOAD entries that it ignores.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with(STEP_MARK) && !line.contains("cannot be preloaded"));
    lines.map(text_without_colors).filter(|line| !line.trim().is_empty()).take(MAX_LINES).collect()
}

pub(super) fn status_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_at_checked(text.find("CUDNN_STATUS_")?)?;
    rest.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).next()
}

/// The kind of a cause, which determines the help.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum CauseKind {
    /// ld.so cannot find this library. The name is empty if the message does not contain it.
    MissingLibrary(String),
    /// The shim cannot find a sub-library, or the sub-library has the wrong symbols.
    MissingSubLibrary,
    MissingSymbol,
    /// The framework was built for a newer cuDNN: this release, if known.
    OldCudnn(Option<Version>),
    /// Libraries from two releases are loaded.
    Mixed,
    NoKernel,
    NoGpuMemory,
    OldDriver,
    NoGpu,
    /// Python cannot find this module.
    NoModule(String),
    /// This variable hides the GPUs.
    Hidden(String),
    /// The framework was built without CUDA, or the CUDA plugin is missing.
    NoCuda,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) kind: CauseKind,
    pub(super) text: String,
}

/// Substrings that a lowercase line must contain, and the cause they indicate. The first match wins.
type Sign = (Vec<&'static str>, CauseKind);

/// The texts of frameworks, cuDNN and ld.so that indicate a cause.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Signs {
    strong: Vec<Sign>,
    /// Signs of mere consequences. Errors in cuDNN's log are more specific and take precedence over them.
    weak: Vec<Sign>,
}

static SIGNS: LazyLock<Signs> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/signs.json")).unwrap_or_default());

/// Returns the first cause, from the first of these sources: signs in the errors, signs in the output, cuDNN's log,
/// weak signs, the error itself.
pub(super) fn first_cause(evidence: &StepEvidence) -> Cause {
    let printed = || evidence.stderr.iter().map(String::as_str);
    let raised = || evidence.errors.iter().flat_map(|error| error.lines());
    let other = |text: String| Cause { kind: CauseKind::Other, text };
    let logged = || {
        let text = evidence.log_entry()?;
        let kind = kind_of(&text, &SIGNS.strong).or_else(|| kind_of(&text, &SIGNS.weak)).unwrap_or(CauseKind::Other);
        Some(Cause { kind, text })
    };
    let last = || {
        let error = evidence.errors.last().and_then(|error| error.lines().find(|line| !line.trim().is_empty()));
        let crash = evidence.stderr.last().filter(|_| evidence.is_crash);
        match (error, crash) {
            (Some(error), Some(crash)) if error.starts_with("the process ") => format!("{error}: {}", shortened(crash)),
            (error, crash) => error.or(crash.map(String::as_str)).unwrap_or("without a message").trim().to_owned(),
        }
    };
    find(raised(), &SIGNS.strong)
        .or_else(|| evidence.memory.clone().map(other))
        .or_else(|| find(printed(), &SIGNS.strong))
        .or_else(logged)
        .or_else(|| find(raised(), &SIGNS.weak))
        .or_else(|| find(printed(), &SIGNS.weak))
        .unwrap_or_else(|| other(last()))
}

fn find<'a>(mut lines: impl Iterator<Item = &'a str>, signs: &[Sign]) -> Option<Cause> {
    lines.find_map(|line| Some(Cause { kind: kind_of(line, signs)?, text: shortened(line.trim()) }))
}

fn kind_of(line: &str, signs: &[Sign]) -> Option<CauseKind> {
    let small = line.to_ascii_lowercase();
    let (_, kind) = signs.iter().find(|(parts, _)| parts.iter().all(|part| small.contains(part)))?;
    Some(match kind {
        CauseKind::MissingLibrary(_) if small.contains("libcuda.so") || small.contains("libnvidia-ml.so") => {
            CauseKind::NoGpu
        }
        CauseKind::MissingLibrary(_) => {
            let unnamed = if small.contains("cudnn") { "libcudnn.so.9" } else { "" };
            CauseKind::MissingLibrary(missing_library(line).unwrap_or(unnamed).to_owned())
        }
        // For example: `No module named 'torch'`.
        CauseKind::NoModule(_) => CauseKind::NoModule(line.split('\'').nth(1).unwrap_or_default().to_owned()),
        CauseKind::OldCudnn(_) => CauseKind::OldCudnn(built_for(line)),
        CauseKind::Hidden(_) => CauseKind::Hidden(line.split(['=', ' ']).next().unwrap_or_default().to_owned()),
        kind => kind.clone(),
    })
}

/// Returns whether a driver problem explains why the framework uses the CPU. CUDA describes a missing driver as
/// insufficient.
pub(super) fn is_about_gpu(cause: &Cause, has_driver_library: bool) -> bool {
    match cause.kind {
        CauseKind::NoGpu | CauseKind::Other => true,
        CauseKind::OldDriver => !has_driver_library && cause.text.contains("insufficient"),
        _ => false,
    }
}

/// Extracts the library from ld.so's message: `libcudnn.so.9: cannot open shared object file`.
fn missing_library(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(": cannot open shared object file")?;
    let name = before.rsplit([' ', '\'', '"', '(', '/']).next()?;
    (name.starts_with("lib") && name.contains(".so")).then_some(name)
}

/// Returns the release the framework was built for, which follows `against` or `compiled with`.
fn built_for(line: &str) -> Option<Version> {
    let sentence = ["against version ", "against (", "compiled with: "];
    let (_, rest) = sentence.iter().find_map(|before| line.split_once(before))?;
    let is_of_version = |c: &char| c.is_ascii_digit() || ". ,".contains(*c);
    let text: String = rest.chars().take_while(is_of_version).filter(|c| *c != ' ').collect();
    let text = text.replace(',', ".");
    let text = text.trim_end_matches('.');
    text.parse().map(Version::from_number).ok().or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_lines_between_its_beginning_and_the_next() {
        let stderr = "a\n\n\x1eimport\nb\n\n\x1edevice\n\x1b[1;31mc\x1b[m\n\x1b[2Jd\n\n\x1ernn\n\
                      ERROR: ld.so: object '/nope.so' from LD_PRELOAD cannot be preloaded: ignored.\ne\n";
        assert_eq!(stderr_of_step(stderr, "device"), ["c", "d"]);
        assert_eq!(stderr_of_step(stderr, "rnn"), ["e"]);
        assert_eq!(stderr_of_step("lost\n", "rnn"), ["lost"]);
    }

    #[test]
    fn known_sentences_are_understood() {
        let old = |version: &str| CauseKind::OldCudnn(version.parse().ok());
        let library = |name: &str| CauseKind::MissingLibrary(name.to_owned());
        for (line, expected) in [
            (
                "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 10, 2) but found runtime \
                 version (9, 1, 0). PyTorch already comes bundled with cuDNN.",
                old("9.10.2"),
            ),
            (
                "E external/local_xla/cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.1.0 but source was compiled with: \
                 9.3.0.  CuDNN library needs to have matching major version",
                old("9.3.0"),
            ),
            ("Found cuDNN version 8700, but JAX was built against version 8800, which is newer.", old("8.8.0")),
            ("Found cuDNN version 90100, but JAX was built against version 91002, which is newer.", old("9.10.2")),
            (
                "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
                library("libcudnn.so.9"),
            ),
            (
                "Failed to load library libonnxruntime_providers_cuda.so with error: libcublasLt.so.12: cannot open \
                 shared object file: No such file or directory",
                library("libcublasLt.so.12"),
            ),
            ("Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9}", CauseKind::MissingSubLibrary),
            ("Invalid handle. Cannot load symbol cudnnGetVersion", CauseKind::MissingSubLibrary),
            ("Could not load library libcudnn_graph.so.9. Error: libcudnn_graph.so.9", CauseKind::MissingSubLibrary),
            ("CUDA error: no kernel image is available for execution on the device", CauseKind::NoKernel),
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", CauseKind::NoGpuMemory),
            ("The NVIDIA driver on your system is too old (found version 12080).", CauseKind::OldDriver),
            ("ModuleNotFoundError: No module named 'torch'", CauseKind::NoModule("torch".into())),
        ] {
            assert_eq!(kind_of(line, &SIGNS.strong), Some(expected), "{line}");
        }
        assert_eq!(kind_of("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", &SIGNS.strong), None);
    }
}
