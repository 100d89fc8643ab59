//! Checks that layers accept their variables before a program uses them. Layers are untrusted libraries, so a child
//! process loads them.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::escape::Printable;
use cudnn_cli::platform::CAN_LOAD;
use cudnn_cli::subprocess::{self, Timeouts};
use cudnn_layer_api::{CHECK, abi};
use cudnn_os::child::end_with_parent;
use cudnn_os::libraries::Library;
use cudnn_probe::exports;
use cudnn_rules::drop_in::PRELOAD;
use cudnn_rules::refusal::Refusal;
use serde_json::json;

/// The hidden subcommand of the child.
pub(crate) const COMMAND: &str = "internal-layers";

/// The child's messages about a layer.
const ACCEPTED: &str = "accepted";
const REFUSAL: &str = "refusal";

/// The maximum length of a reason in characters.
const MAX_REASON: usize = 2000;

/// Returns an error if a layer would fail with these variables. The layers are names and libraries. Layers without
/// checks are accepted. The static doctor accepts all, because it never loads libraries.
pub(crate) fn check(
    layers: &[(String, PathBuf)],
    variables: &[(&str, OsString)],
    timeouts: &Timeouts,
) -> Result<(), Refusal> {
    let checks =
        |(_, file): &&(String, PathBuf)| exports(file, &[&*CHECK.to_string_lossy()]).is_ok_and(|found| found == [true]);
    let layers: Vec<&(String, PathBuf)> = layers.iter().filter(checks).collect();
    if layers.is_empty() || !CAN_LOAD {
        return Ok(());
    }
    let cannot_start = |error: std::io::Error| {
        let (message, help) = subprocess::cannot_start(&error);
        Refusal::new(message).help(help)
    };
    let mut arguments: Vec<&OsStr> = vec![COMMAND.as_ref(), "--".as_ref()];
    layers.iter().for_each(|(name, file)| arguments.extend([file.as_os_str(), name.as_ref()]));
    let mut command = subprocess::again(&arguments).map_err(cannot_start)?;
    // Variables may contain relative paths.
    if let Ok(dir) = std::env::current_dir() {
        command.current_dir(dir);
    }
    command.envs(variables.iter().filter(|(name, _)| *name != PRELOAD).cloned());
    let ended = subprocess::run_command(command, timeouts).map_err(cannot_start)?;
    let help = "correct the variable or the file, or leave the layer out";
    if let Some(reason) = ended.messages.iter().find_map(|message| message.get(REFUSAL)?.as_str()) {
        return Err(Refusal::new(reason).help(help));
    }
    // A layer may exit the process.
    let accepted = ended.messages.iter().filter(|message| message.get(ACCEPTED).is_some()).count();
    let Some((name, file)) = layers.get(accepted) else { return Ok(()) };
    let how = ended.end.failure().unwrap_or_else(|| "ended without an answer".to_owned());
    let last = ended.stderr.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map_or(String::new(), |line| format!(": {}", line.printable()));
    let message = format!(
        "the layer {} in {} was asked about its variables: the process {how}{last}",
        name.printable(),
        file.printable()
    );
    Err(Refusal::new(message).help(help))
}

pub(crate) fn run_child(layers: &[PathBuf]) -> ExitCode {
    end_with_parent();
    for layer in layers.chunks_exact(2) {
        let [file, name] = layer else { continue };
        begin(Work::Load, format!("checked the variables of the layer {}", name.printable()));
        match refusal(file, name) {
            None => send(&json!({ ACCEPTED: name.to_string_lossy() })),
            Some(reason) => {
                let reason: String = reason.printable().chars().take(MAX_REASON).collect();
                let message = format!("the layer {} would not work as requested: {reason}", name.printable());
                send(&json!({ REFUSAL: message }));
            }
        }
    }
    ExitCode::SUCCESS
}

/// Returns why a layer refuses the variables. Libraries without a check, or that fail to load, accept everything.
fn refusal(file: &Path, name: &Path) -> Option<String> {
    let name = CString::new(name.to_str()?).ok()?;
    // SAFETY: the program would load this library too.
    let library = unsafe { Library::open(file) }.ok()?;
    let check = library.symbol(CHECK)?;
    // SAFETY: a layer exports this function with this type.
    let check: abi::Check = unsafe { std::mem::transmute(check) };
    // SAFETY: the argument is a C string.
    let reason = unsafe { check(name.as_ptr()) };
    if reason.is_null() {
        return None;
    }
    // SAFETY: the layer returns a C string that stays valid.
    Some(unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned())
}
