//! cuDNN's log in a closure: each entry decoded, with the handle, the stream and the device of what runs on the GPU; and the
//! loader's own entries among them, also where there is no GPU.
//!
//! `cargo run -p cudnn-loader --example receive_log`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;

use cudnn_loader as cudnn;
use cudnn_loader::logging::{Event, Severity, set_hook};

#[path = "../backend/mod.rs"]
mod backend;
#[path = "../backend_convolution/convolution.rs"]
mod convolution;

/// How often each function was called.
static CALLS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

fn main() -> ExitCode {
    // Before anything is loaded: cuDNN is told when it is.
    if let Err(error) = set_hook(Severity::up_to(3), on_event) {
        return backend::told(Err(error.into()));
    }
    // SAFETY: the function takes nothing.
    println!("cuDNN {}", unsafe { cudnn::cudnnGetVersion() });
    let ended = backend::on_a_gpu(convolution::run);
    if let Ok(calls) = CALLS.lock() {
        println!("heard of:");
        calls.iter().for_each(|(function, count)| println!("{count:>6} {function}"));
    }
    ended
}

/// Called in the thread whose call it is, while the call lasts: to be brief.
fn on_event(event: &Event) {
    let function = event.entry.function.as_deref().unwrap_or("?");
    if let Ok(mut calls) = CALLS.lock() {
        *calls.entry(function.to_owned()).or_default() += 1;
    }
    // What the loader does, what went wrong, and what runs.
    let is_told = function.starts_with("cudnn_loader::") || event.entry.severity >= Severity::Warning;
    if is_told || event.device.is_some() {
        let on = match event.device {
            Some(device) => format!(" on device {device}, handle {:?}, stream {:?}", event.handle, event.stream),
            None => String::new(),
        };
        println!(
            "{} {}{on}",
            event.entry.severity,
            if is_told { event.entry.to_string() } else { function.to_owned() }
        );
    }
}
