//! Finds the first cause of a failed step in the text that frameworks, cuDNN or ld.so wrote during it.

use cudnn_loader::logging::{Entry, Severity, parse};
use cudnn_probe::Version;

use super::child::Log;
use super::step::{Outcome, Step, shortened};
use crate::subprocess::Ended;

/// The number of last lines of a crashed child that become notes.
const MAX_LAST_LINES: usize = 3;

/// The number of lines of stderr that are examined.
const MAX_LINES: usize = 100_000;

/// The character that a line of the child's stderr begins with if a step begins there.
const STEP_MARK: char = '\x1e';

/// The evidence of one step.
pub(super) struct Evidence {
    /// The errors of the step, the innermost first; each is one text of maybe several lines.
    pub(super) errors: Vec<String>,
    /// The lines of stderr that it wrote.
    pub(super) stderr: Vec<String>,
    /// The errors in its part of cuDNN's log.
    log: Vec<Entry>,
    /// The process ended during the step.
    pub(super) is_crash: bool,
    /// The lack of memory that explains its end.
    pub(super) memory: Option<String>,
}

impl Evidence {
    pub(super) fn of_step(step: &Step, ended: &Ended, is_crash: bool, log: &Log) -> Evidence {
        let errors = step.causes.iter().rev().chain([&step.text]).cloned().collect();
        let text = log.text_from(step.log_start);
        // The user may have sent the log to stderr.
        let entries = parse(&text).into_iter().chain(parse(&ended.stderr));
        let log = entries.filter(|entry| entry.severity >= Severity::Error && !entry.traceback.is_empty()).collect();
        // That there is no GPU is often printed before the first question for it.
        let is_on_cpu = step.outcome == Some(Outcome::Cpu);
        let stderr = if is_on_cpu { lines(&ended.stderr) } else { stderr_of_step(&ended.stderr, &step.name) };
        Evidence { errors, stderr, log, is_crash, memory: ended.lack_of_memory.clone() }
    }

    /// The first error in the log. That an engine does not support something is normal: such an entry counts only if
    /// there is no other.
    pub(super) fn log_entry(&self) -> Option<String> {
        let is_serious = |entry: &&Entry| {
            entry.traceback.iter().any(|reason| !reason.status.starts_with("CUDNN_STATUS_NOT_SUPPORTED"))
        };
        self.log.iter().find(is_serious).or(self.log.first()).map(ToString::to_string)
    }

    /// The last lines of stderr.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let start = self.stderr.len().saturating_sub(MAX_LAST_LINES);
        self.stderr.iter().skip(start).map(|line| shortened(line)).collect()
    }
}

/// The lines of a step. If its beginning is lost in a flood of text: all lines that are left.
fn stderr_of_step(stderr: &str, name: &str) -> Vec<String> {
    let mark = format!("\n{STEP_MARK}{name}\n");
    let part = stderr.rsplit_once(&mark).map_or(stderr, |(_, part)| part);
    // The next step begins here.
    lines(part.split(STEP_MARK).next().unwrap_or_default())
}

/// The lines with text. ld.so goes on without what LD_PRELOAD names and it cannot load.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with(STEP_MARK) && !line.contains("cannot be preloaded"));
    lines.map(without_colours).filter(|line| !line.trim().is_empty()).take(MAX_LINES).collect()
}

/// The line without the sequences that colour it: `ESC [ 1 ; 31 m`.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m') {
            Some(rest) => plain.push_str(rest),
            None => plain.extend(["\x1b[", part]),
        }
    }
    plain
}

/// The name of the first status of cuDNN in a text.
pub(super) fn status_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_at_checked(text.find("CUDNN_STATUS_")?)?;
    rest.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).next()
}

/// The kind of a cause, which decides the help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// ld.so does not find this library. Empty if the message names none.
    MissingLibrary(String),
    /// cuDNN's shim does not find a sub-library, or one has the wrong symbols.
    MissingSubLibrary,
    /// A library lacks a symbol.
    MissingSymbol,
    /// The framework was built for a newer cuDNN than the loaded one.
    OldCudnn(Option<Version>),
    /// Libraries of two releases are loaded.
    Mixed,
    /// The framework has no code for the GPU.
    NoKernel,
    /// The GPU's memory is full.
    NoGpuMemory,
    /// The driver is too old for the framework's CUDA.
    OldDriver,
    /// The GPU or the driver is missing.
    NoGpu,
    /// Python does not find this module.
    NoModule(String),
    /// This variable hides the GPUs.
    Hidden(String),
    /// The framework was built without CUDA, or its CUDA plugin is missing.
    NoCuda,
    /// Anything else.
    Other,
}

/// The first cause of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) kind: Kind,
    /// A line of somebody's text.
    pub(super) text: String,
}

/// What a line must contain, in small letters, and the kind of its cause. The first match counts.
const SIGNS: &[(&[&str], Kind)] = &[
    (&["hides the gpus"], Kind::Hidden(String::new())),
    (&["no module named"], Kind::NoModule(String::new())),
    (&["cannot open shared object file"], Kind::MissingLibrary(String::new())),
    (&["unable to load any of {"], Kind::MissingSubLibrary),
    (&["could not load library", "libcudnn"], Kind::MissingSubLibrary),
    (&["cannot load symbol cudnn"], Kind::MissingSubLibrary),
    (&["could not load symbol cudnn"], Kind::MissingSubLibrary),
    (&["undefined symbol"], Kind::MissingSymbol),
    (&["version `", "' not found"], Kind::MissingSymbol),
    (&["was compiled", "against (", "found runtime version ("], Kind::OldCudnn(None)),
    (&["loaded runtime cudnn library:", "compiled with:"], Kind::OldCudnn(None)),
    (&["found cudnn version", "was built against version"], Kind::OldCudnn(None)),
    (&["outdated cudnn installation found"], Kind::OldCudnn(None)),
    (&["cudnn_status_sublibrary_version_mismatch"], Kind::Mixed),
    (&["cudnn_status_version_mismatch"], Kind::Mixed),
    (&["no kernel image is available"], Kind::NoKernel),
    (&["is not compatible with the current pytorch installation"], Kind::NoKernel),
    (&["cuda", "out of memory"], Kind::NoGpuMemory),
    (&["resource_exhausted", "memory"], Kind::NoGpuMemory),
    (&["cudaerrormemoryallocation"], Kind::NoGpuMemory),
    (&["driver on your system is too old"], Kind::OldDriver),
    (&["cuda driver version is insufficient"], Kind::OldDriver),
    (&["cuda_error_unsupported_ptx_version"], Kind::OldDriver),
    (&["cuda-enabled jaxlib is not installed"], Kind::NoCuda),
    (&["is built without cuda"], Kind::NoCuda),
    (&["not compiled with cuda support"], Kind::NoCuda),
    (&["torch not compiled with cuda enabled"], Kind::NoCuda),
];

/// The same, for lines that name a consequence: cuDNN's log knows more.
const WEAK_SIGNS: &[(&[&str], Kind)] = &[
    (&["found no nvidia driver"], Kind::NoGpu),
    (&["no cuda-capable device is detected"], Kind::NoGpu),
    (&["could not find cuda drivers"], Kind::NoGpu),
    (&["cuda_error_no_device"], Kind::NoGpu),
    (&["failed call to cuinit"], Kind::NoGpu),
    (&["no cuda gpus are available"], Kind::NoGpu),
    (&["unable to load cudnn"], Kind::MissingLibrary(String::new())),
    (&["cannot dlopen some gpu libraries"], Kind::MissingLibrary(String::new())),
    (&["cudnn_status_sublibrary_loading_failed"], Kind::MissingSubLibrary),
    (&["failed to create cudaexecutionprovider"], Kind::Other),
    (&["cudnn_status_"], Kind::Other),
    (&["dnn library initialization failed"], Kind::Other),
    (&["dnn library is not found"], Kind::Other),
];

/// The first cause: a line that names one, first in the errors, then in what was printed; then the first error in cuDNN's
/// log; then what names a consequence; at last the error itself.
pub(super) fn first_cause(evidence: &Evidence) -> Cause {
    let printed = || evidence.stderr.iter().map(String::as_str);
    let raised = || evidence.errors.iter().flat_map(|error| error.lines());
    let other = |text: String| Cause { kind: Kind::Other, text };
    let logged = || {
        let text = evidence.log_entry()?;
        let kind = kind_of(&text, SIGNS).or_else(|| kind_of(&text, WEAK_SIGNS)).unwrap_or(Kind::Other);
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
    find(raised(), SIGNS)
        .or_else(|| evidence.memory.clone().map(other))
        .or_else(|| find(printed(), SIGNS))
        .or_else(logged)
        .or_else(|| find(raised(), WEAK_SIGNS))
        .or_else(|| find(printed(), WEAK_SIGNS))
        .unwrap_or_else(|| other(last()))
}

/// The first line with a sign.
fn find<'a>(mut lines: impl Iterator<Item = &'a str>, signs: &[(&[&str], Kind)]) -> Option<Cause> {
    lines.find_map(|line| Some(Cause { kind: kind_of(line, signs)?, text: shortened(line.trim()) }))
}

/// The kind of cause that a line names.
fn kind_of(line: &str, signs: &[(&[&str], Kind)]) -> Option<Kind> {
    let small = line.to_ascii_lowercase();
    let (_, kind) = signs.iter().find(|(parts, _)| parts.iter().all(|part| small.contains(part)))?;
    Some(match kind {
        Kind::MissingLibrary(_) if small.contains("libcuda.so") || small.contains("libnvidia-ml.so") => Kind::NoGpu,
        Kind::MissingLibrary(_) => {
            let unnamed = if small.contains("cudnn") { "libcudnn.so.9" } else { "" };
            Kind::MissingLibrary(missing_library(line).unwrap_or(unnamed).to_owned())
        }
        // `No module named 'torch'`.
        Kind::NoModule(_) => Kind::NoModule(line.split('\'').nth(1).unwrap_or_default().to_owned()),
        Kind::OldCudnn(_) => Kind::OldCudnn(built_for(line)),
        Kind::Hidden(_) => Kind::Hidden(line.split(['=', ' ']).next().unwrap_or_default().to_owned()),
        kind => kind.clone(),
    })
}

/// Is a cause of computing on the CPU explained by a fault of the driver? CUDA calls a missing one insufficient.
pub(super) fn is_about_gpu(cause: &Cause, has_driver_library: bool) -> bool {
    match cause.kind {
        Kind::NoGpu | Kind::Other => true,
        Kind::OldDriver => !has_driver_library && cause.text.contains("insufficient"),
        _ => false,
    }
}

/// The library in ld.so's message: `libcudnn.so.9: cannot open shared object file`.
fn missing_library(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(": cannot open shared object file")?;
    let name = before.rsplit([' ', '\'', '"', '(', '/']).next()?;
    (name.starts_with("lib") && name.contains(".so")).then_some(name)
}

/// The release that the framework was built for: the one after `against` or `compiled with`.
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
        assert_eq!(stderr_of_step(stderr, "device"), ["c", "\x1b[2Jd"]);
        assert_eq!(stderr_of_step(stderr, "rnn"), ["e"]);
        assert_eq!(stderr_of_step("lost\n", "rnn"), ["lost"]);
    }

    #[test]
    fn known_sentences_are_understood() {
        let old = |version: &str| Kind::OldCudnn(version.parse().ok());
        let library = |name: &str| Kind::MissingLibrary(name.to_owned());
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
            ("Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9}", Kind::MissingSubLibrary),
            ("Invalid handle. Cannot load symbol cudnnGetVersion", Kind::MissingSubLibrary),
            ("Could not load library libcudnn_graph.so.9. Error: libcudnn_graph.so.9", Kind::MissingSubLibrary),
            ("CUDA error: no kernel image is available for execution on the device", Kind::NoKernel),
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", Kind::NoGpuMemory),
            ("The NVIDIA driver on your system is too old (found version 12080).", Kind::OldDriver),
            ("ModuleNotFoundError: No module named 'torch'", Kind::NoModule("torch".into())),
        ] {
            assert_eq!(kind_of(line, SIGNS), Some(expected), "{line}");
        }
        assert_eq!(kind_of("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", SIGNS), None);
    }
}
