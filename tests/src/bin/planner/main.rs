//! A program that plans at random, and prints all that it sees: statuses, error texts, attributes, what executions compute.
//! A layer must not change a byte of it.
//!
//! ```text
//! planner LAYERS FIRST-SEED LAST-SEED [THREADS]
//! planner LAYERS variants                        plans that differ in one step: see `variants`
//! planner LAYERS real ENGINE DEVICE.json...      plans with a real cuDNN: see `real`
//! planner LAYERS alike DEVICE.json WHICH...      plans that are easily confused: see `alike`
//! ```
//!
//! The program adds its layers itself: `none`, or some of `plans`, `trace` and `other`. With `PLANNER_SETS_LATE` it sets the variable
//! `CUDNN_STAND_IN` to that value after its first call.
//!
//! Each seed is a small program: it makes handles, graphs, engine configurations (its own and the heuristics') and plans,
//! shares and reuses descriptors, destroys them early or late, sets attributes in any order, twice, or wrongly, asks plans
//! for all attributes, finalizes them twice, and executes them.

mod alike;
mod random;
mod real;
mod script;
mod variants;

use std::ffi::{CStr, c_void};
use std::process::ExitCode;

use cudnn_layer_api::{Host, Layer};
use cudnn_layers::plans::Plans;
use cudnn_layers::trace::Trace;

/// A layer that `plans` does not know.
struct Other;

// SAFETY: it passes on each function as it is.
unsafe impl Layer for Other {
    fn begin(_: Host) -> Result<Self, String> {
        Ok(Other)
    }

    fn wrap(&self, _: &CStr, next: *const c_void) -> *const c_void {
        next
    }
}

fn main() -> ExitCode {
    for layer in std::env::args().nth(1).unwrap_or_default().split(',') {
        let added = match layer {
            "plans" => cudnn_loader::layers::add::<Plans>("plans"),
            "trace" => cudnn_loader::layers::add::<Trace>("trace"),
            "other" => cudnn_loader::layers::add::<Other>("other"),
            _ => Ok(()),
        };
        if let Err(error) = added {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    if let Some(value) = std::env::var_os("PLANNER_SETS_LATE") {
        // SAFETY: the call takes nothing.
        unsafe { cudnn_loader::cudnnGetVersion() };
        // SAFETY: there is one thread yet.
        unsafe { std::env::set_var("CUDNN_STAND_IN", value) };
    }
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    if let [mode, engine, devices @ ..] = arguments.as_slice()
        && mode == "real"
    {
        real::run(engine.parse().unwrap_or(0), devices);
        return ExitCode::SUCCESS;
    }
    if let [mode, device, which @ ..] = arguments.as_slice()
        && mode == "alike"
    {
        alike::run(device, which);
        return ExitCode::SUCCESS;
    }
    if arguments == ["variants"] {
        variants::run();
        return ExitCode::SUCCESS;
    }
    let numbers: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let [first, last, rest @ ..] = numbers.as_slice() else { return ExitCode::from(2) };
    let (first, last, threads) = (*first, *last, rest.first().copied().unwrap_or(1));
    let texts: Vec<String> = std::thread::scope(|scope| {
        let run = |thread| move || (first..last).filter(|seed| seed % threads == thread).map(script::run).collect();
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| "a thread panicked\n".into())).collect()
    });
    texts.iter().for_each(|text| print!("{text}"));
    ExitCode::SUCCESS
}
