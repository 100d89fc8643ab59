//! cuDNN loaded in a process of its own, so that what ends that process is a finding and not the doctor's end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use cudnn_loader::{self as cudnn, Function, LoadErrorKind, cudnnStatus_t};
use cudnn_probe::DIR_VARIABLE;

use super::finding::{CHECK_FAILED, DIED, Finding, NO_CONVOLUTION, NOT_LOADED};
use crate::child;
use crate::output::{Printable, outln};

/// The word by which the doctor calls itself.
pub(crate) const COMMAND: &str = "internal-load";

/// How long it may take: a first start with a cold disk takes seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How many of the last lines of a process that died are evidence.
const LAST_WORDS: usize = 3;

/// The words that a line with a finding begins with.
const NO_LIBRARY: &str = "not loaded: ";
const NO_AGREEMENT: &str = "check failed: ";
const NO_RESULT: &str = "convolution failed: ";

/// What came of it.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) findings: Vec<Finding>,
    /// What the convolution had to outln, line by line.
    pub(super) said: Vec<String>,
}

/// Loads the cuDNN in this folder in another process. A line of what that one prints is a finding when it begins with the
/// words for one, and belongs to the convolution otherwise.
pub(super) fn load(folder: &Path, gpu: bool) -> Loaded {
    let words = if gpu { &[COMMAND, "--gpu"][..] } else { &[COMMAND] };
    let ended = match child::run(words, &[(DIR_VARIABLE, folder.as_os_str())], TIMEOUT) {
        Ok(ended) => ended,
        Err(error) => {
            let findings = vec![Finding::new(NOT_LOADED, format!("the doctor cannot start itself once more: {error}"))];
            return Loaded { findings, said: Vec::new() };
        }
    };
    let mut said = Vec::new();
    let mut found = Vec::new();
    let how = match ended.status {
        None => Some(format!("did not come to its end in {} s", TIMEOUT.as_secs())),
        Some(status) if status.success() => None,
        Some(status) => Some(match status.signal() {
            Some(signal) => format!("ended in signal {signal}"),
            None => format!("ended in {status}"),
        }),
    };
    if let Some(how) = how {
        let finding = Finding::new(DIED, format!("loading the cuDNN in {} {how}", folder.printable()));
        let lines: Vec<&str> = ended.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LAST_WORDS)..).unwrap_or_default();
        let finding =
            last.iter().fold(finding, |finding, line| finding.note(format!("the process said: {}", line.printable())));
        found.push(finding.help("Install this cuDNN again; if that does not help, another release."));
    }
    for line in ended.stdout.lines() {
        let unescape = |text: &str| text.replace("\\n", "\n");
        if let Some(story) = line.strip_prefix(NO_LIBRARY) {
            let story = unescape(story);
            let (what, rest) = story.split_once('\n').unwrap_or((&story, ""));
            let cure = rest.lines().find_map(|line| line.strip_prefix("What to do: ")).unwrap_or_default();
            let why = rest.lines().filter(|line| !line.starts_with("What to do: "));
            let mut finding = Finding::new(NOT_LOADED, what).help(cure);
            for why in why {
                finding = finding.note(why.trim());
            }
            found.push(finding);
        } else if let Some(text) = line.strip_prefix(NO_AGREEMENT) {
            found.push(
                Finding::new(CHECK_FAILED, unescape(text))
                    .help("Remove this folder's cuDNN and install one release anew."),
            );
        } else if let Some(text) = line.strip_prefix(NO_RESULT) {
            found.push(Finding::new(NO_CONVOLUTION, unescape(text)).help(crate::demo::HELP));
        } else if gpu {
            said.push(line.to_owned());
        }
    }
    Loaded { findings: found, said }
}

/// What the other process does: loads each sub-library and has it check its version, then computes. With a GPU this makes
/// a context.
pub(crate) fn run(gpu: bool) -> ExitCode {
    type Check = unsafe extern "C" fn() -> cudnnStatus_t;
    let checks: [(Function, Check); 4] = [
        (Function::CudnnGraphVersionCheck, cudnn::cudnnGraphVersionCheck),
        (Function::CudnnOpsVersionCheck, cudnn::cudnnOpsVersionCheck),
        (Function::CudnnCnnVersionCheck, cudnn::cudnnCnnVersionCheck),
        (Function::CudnnAdvVersionCheck, cudnn::cudnnAdvVersionCheck),
    ];
    let escape = |text: String| text.replace('\n', "\\n");
    for (function, check) in checks {
        match function.resolve() {
            Ok(_) => {
                // SAFETY: it takes nothing.
                let status = unsafe { check() };
                if !status.is_success() {
                    let what = format!("{function} gave {status:?}: {}", crate::demo::last_error());
                    outln!("{NO_AGREEMENT}{}", escape(what));
                }
            }
            // A JIT-only set has graph alone.
            Err(error) if matches!(error.kind(), LoadErrorKind::LibraryMissing) => {}
            Err(error) => outln!("{NO_LIBRARY}{}", escape(error.to_string())),
        }
    }
    if gpu && let Err(error) = crate::demo::convolve() {
        outln!("{NO_RESULT}{}", escape(error.to_string()));
    }
    ExitCode::SUCCESS
}
