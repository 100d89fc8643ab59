//! cuDNN loaded in a process of its own, so that what ends that process is a finding and not the doctor's end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use cudnn_loader::{self as cudnn, Function, LoadErrorKind, cudnnStatus_t};
use cudnn_probe::DIR_VARIABLE;

use super::finding::{CHECK_FAILED, DIED, Finding, NOT_LOADED};

/// The word by which the doctor calls itself.
pub(crate) const COMMAND: &str = "internal-load";

/// Loads the cuDNN in this folder in another process. What that one prints is `WORD: text`, one finding a line.
pub(crate) fn findings(folder: &Path) -> Vec<Finding> {
    let program = std::env::current_exe();
    let output = program.and_then(|program| Command::new(program).arg(COMMAND).env(DIR_VARIABLE, folder).output());
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            return vec![Finding::new(NOT_LOADED, format!("the doctor cannot start itself once more: {error}"))];
        }
    };
    let mut found = Vec::new();
    if let Some(signal) = output.status.signal() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
        found.push(
            Finding::new(DIED, format!("loading the cuDNN in {} ended in signal {signal}", folder.display()))
                .because(format!("the process said last: {last}"))
                .cured_by("Install this cuDNN again; if that does not help, another release."),
        );
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let unescape = |text: &str| text.replace("\\n", "\n");
        if let Some(story) = line.strip_prefix("not loaded: ") {
            let story = unescape(story);
            let (what, rest) = story.split_once('\n').unwrap_or((&story, ""));
            let cure = rest.lines().find_map(|line| line.strip_prefix("What to do: ")).unwrap_or_default();
            let why = rest.lines().filter(|line| !line.starts_with("What to do: "));
            let mut finding = Finding::new(NOT_LOADED, what).cured_by(cure);
            for why in why {
                finding = finding.because(why.trim());
            }
            found.push(finding);
        } else if let Some(text) = line.strip_prefix("check failed: ") {
            found.push(
                Finding::new(CHECK_FAILED, unescape(text))
                    .cured_by("Remove this folder's cuDNN and install one release anew."),
            );
        }
    }
    found
}

/// What the other process does: loads each sub-library and has it check its version. With a GPU this makes a context.
pub(crate) fn run() -> ExitCode {
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
                    println!(
                        "check failed: {}",
                        escape(format!("{function} gave {status:?}: {}", crate::demo::last_error()))
                    );
                }
            }
            // A JIT-only set has graph alone.
            Err(error) if matches!(error.kind(), LoadErrorKind::NotInstalled) => {}
            Err(error) => println!("not loaded: {}", escape(error.to_string())),
        }
    }
    ExitCode::SUCCESS
}
