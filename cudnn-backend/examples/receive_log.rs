//! Receives cuDNN's log in a closure as decoded entries, with handle, stream and device for GPU work. The loader's
//! entries are included, also without a GPU.
//!
//! `cargo run -p cudnn-backend --example receive_log`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;

use cudnn_backend::cudnn;
use cudnn_backend::cudnn::logging::{LogEvent, LogSeverity, set_hook};
use cudnn_backend::program;

#[path = "backend_convolution/convolution.rs"]
mod convolution;

/// The number of entries per function.
static CALLS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

fn main() -> ExitCode {
    // Set before any library is loaded. The loader passes the hook to cuDNN when it loads cuDNN.
    if let Err(error) = set_hook(LogSeverity::up_to(3), on_event) {
        return program::exit_code(Err(error.into()));
    }
    // SAFETY: the call passes no pointers.
    println!("cuDNN {}", unsafe { cudnn::cudnnGetVersion() });
    let exit_code = program::run_on_gpu(convolution::run);
    if let Ok(calls) = CALLS.lock() {
        println!("entries per function:");
        calls.iter().for_each(|(function, count)| println!("{count:>6} {function}"));
    }
    exit_code
}

/// Runs on the thread that calls cuDNN, during the call, so it should be quick.
fn on_event(event: &LogEvent) {
    let function = event.entry.function.as_deref().unwrap_or("?");
    if let Ok(mut calls) = CALLS.lock() {
        *calls.entry(function.to_owned()).or_default() += 1;
    }
    let severity = event.entry.severity;
    // Shows the loader's entries and all problems in full, but only the function names of GPU calls.
    let is_shown_in_full = function.starts_with("cudnn_loader::") || severity >= LogSeverity::Warning;
    let text = if is_shown_in_full { event.entry.to_string() } else { function.to_owned() };
    match event.device {
        Some(device) => {
            println!("{severity} {text} on device {device}, handle {:?}, stream {:?}", event.handle, event.stream);
        }
        None if is_shown_in_full => println!("{severity} {text}"),
        None => {}
    }
}
