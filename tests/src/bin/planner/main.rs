//! Builds random plans and prints all visible results: statuses, error texts, attributes, and computed values. A layer
//! must not change a byte of the output.
//!
//! ```text
//! planner LAYERS FIRST-SEED LAST-SEED [THREADS]
//! planner LAYERS variants                        plans that differ in one step: see `variants`
//! planner LAYERS real ENGINE DEVICE.json...      plans with a real cuDNN: see `real`
//! planner LAYERS attack FIRST LAST [DEVICE.json] calls that cuDNN accepts but does not document: see `attacks`
//! planner LAYERS streams                         plans on a GPU and on a part of it: see `streams`
//! planner LAYERS bounds                          arrays that are shorter than the program claims
//! planner LAYERS errata DEVICE.json              the status of plans for convolutions: see `errata`
//! planner LAYERS executions WHICH...             executions in unusual orders: see `executions`
//! planner LAYERS explain DEVICE.json GRAPH...    graphs with and without an engine: see `explain`
//! planner LAYERS mistakes WHICH [DEVICE.json]    one mistake, or `legitimate`: see `mistakes`
//! planner LAYERS alike DEVICE.json WHICH...      plans that are easily confused: see `alike`
//! planner LAYERS tuned DEVICE.json WAY...        the order of proposals: see `tuned`
//! planner LAYERS classic                        functions outside of the backend API: see `classic`
//! planner LAYERS throw | throw-in-each | ask-back | outlive | last-error | unfinalized | workspace    see `callbacks`
//! ```
//!
//! The program adds layers itself: `none`, or some of `capture`, `errata`, `explain`, `plans`, `trace`, `tuned`,
//! `validate`, `other` and `impostor`, which is `other` under the name `trace`. `PLANNER_SETS_LATE` is a value for the
//! variable `CUDNN_NVRTC_RUNTIME_LINKING`, which is set after the first call. `PLANNER_SETS_AFTER_LOAD` is a value for
//! `CUDNN_JIT_FLAGS_DBG`, which is set after cuDNN is loaded and before the first call.
//!
//! A seed determines a small program. It makes handles, graphs, engine configurations (from scratch or heuristics) and
//! plans, shares and reuses descriptors, destroys them early or late, sets attributes in any order, twice, or wrongly,
//! reads all attributes of plans, finalizes them twice, and executes them.

mod alike;
mod attacks;
#[cfg(unix)]
mod bounds;
mod callbacks;
mod classic;
mod errata;
#[cfg(unix)]
mod executions;
mod explain;
mod mistakes;
mod random;
mod real;
mod script;
mod streams;
mod tuned;
mod variants;

use std::process::ExitCode;

use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_layers::capture::Capture;
use cudnn_layers::errata::Errata;
use cudnn_layers::explain::Explain;
use cudnn_layers::plans::Plans;
use cudnn_layers::trace::Trace;
use cudnn_layers::tuned::Tuned;
use cudnn_layers::validate::Validate;

struct Other;

impl Layer for Other {
    fn begin(_: Host) -> Result<Self, String> {
        Ok(Other)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        next
    }
}

fn main() -> ExitCode {
    if std::env::var_os("PLANNER_LOADS_FIRST").is_some() && cudnn_loader::load().is_err() {
        return ExitCode::FAILURE;
    }
    for layer in std::env::args().nth(1).unwrap_or_default().split(',') {
        let added = match layer {
            "plans" => cudnn_loader::layers::add::<Plans>("plans"),
            "capture" => cudnn_loader::layers::add::<Capture>("capture"),
            "errata" => cudnn_loader::layers::add::<Errata>("errata"),
            "explain" => cudnn_loader::layers::add::<Explain>("explain"),
            "trace" => cudnn_loader::layers::add::<Trace>("trace"),
            "tuned" => cudnn_loader::layers::add::<Tuned>("tuned"),
            "validate" => cudnn_loader::layers::add::<Validate>("validate"),
            "other" => cudnn_loader::layers::add::<Other>("other"),
            "impostor" => cudnn_loader::layers::add::<Other>("trace"),
            _ => Ok(()),
        };
        if let Err(error) = added {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    if let Some(value) = std::env::var_os("PLANNER_SETS_AFTER_LOAD") {
        if cudnn_loader::load().is_err() {
            return ExitCode::FAILURE;
        }
        // SAFETY: the process is still single-threaded.
        unsafe { std::env::set_var("CUDNN_JIT_FLAGS_DBG", value) };
    }
    if std::env::var_os("PLANNER_CALLS_FIRST").is_some() {
        // SAFETY: the call passes no pointers.
        unsafe { cudnn_loader::cudnnGetVersion() };
        // Layers read all their variables from one snapshot of the environment.
        if std::env::var_os("GETENV_POISON").is_none() {
            eprintln!("the fake getenv must be preloaded");
            return ExitCode::FAILURE;
        }
    }
    if let Some(value) = std::env::var_os("PLANNER_SETS_LATE") {
        // SAFETY: the call passes no pointers.
        unsafe { cudnn_loader::cudnnGetVersion() };
        // SAFETY: the process is still single-threaded.
        unsafe { std::env::set_var("CUDNN_NVRTC_RUNTIME_LINKING", value) };
    }
    if std::env::var_os("PLANNER_CALLS_IN_TWO_THREADS").is_some() {
        let call = || {
            // SAFETY: the call passes no pointers.
            unsafe { cudnn_loader::cudnnGetVersion() };
            println!("called");
        };
        std::thread::scope(|scope| [scope.spawn(call), scope.spawn(call)].map(std::thread::ScopedJoinHandle::join))
            .into_iter()
            .for_each(|joined| assert!(joined.is_ok()));
    }
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    if let [mode, engine, devices @ ..] = arguments.as_slice()
        && mode == "real"
    {
        real::run(engine.parse().unwrap_or(0), devices);
        return ExitCode::SUCCESS;
    }
    if let [mode, device] = arguments.as_slice()
        && mode == "errata"
    {
        errata::run(device);
        return ExitCode::SUCCESS;
    }
    if let [mode, device, graphs @ ..] = arguments.as_slice()
        && mode == "explain"
    {
        explain::run(device, graphs);
        return ExitCode::SUCCESS;
    }
    if let [mode, which, device @ ..] = arguments.as_slice()
        && mode == "mistakes"
    {
        let device = device.first().map(|file| std::fs::read_to_string(file).unwrap_or_default());
        mistakes::run(which, device.as_deref());
        return ExitCode::SUCCESS;
    }
    if let [mode, device, ways @ ..] = arguments.as_slice()
        && mode == "tuned"
    {
        tuned::run(device, ways);
        return ExitCode::SUCCESS;
    }
    if let [mode, device, which @ ..] = arguments.as_slice()
        && mode == "alike"
    {
        alike::run(device, which);
        return ExitCode::SUCCESS;
    }
    if let [mode, first, last, device @ ..] = arguments.as_slice()
        && mode == "attack"
        && let (Ok(first), Ok(last)) = (first.parse(), last.parse())
    {
        let device = device.first().map(|file| std::fs::read_to_string(file).unwrap_or_default());
        attacks::run(first, last, device.as_deref());
        return ExitCode::SUCCESS;
    }
    if arguments == ["streams"] {
        return cudnn_backend::program::exit_code(streams::run());
    }
    let callbacks = arguments.first().and_then(|mode| {
        Some(match mode.as_str() {
            "throw" => callbacks::throw,
            "throw-in-each" => callbacks::throw_in_each,
            "ask-back" => callbacks::ask_back,
            "outlive" => callbacks::outlive_handle,
            "last-error" => callbacks::read_last_error,
            "unfinalized" => callbacks::set_unfinalized_configuration,
            "workspace" => callbacks::ask_for_workspace,
            "classic" => classic::run,
            _ => return None,
        })
    });
    if let Some(run) = callbacks {
        run();
        return ExitCode::SUCCESS;
    }
    #[cfg(unix)]
    if let [mode, which @ ..] = arguments.as_slice()
        && mode == "executions"
    {
        executions::run(which);
        return ExitCode::SUCCESS;
    }
    #[cfg(unix)]
    if arguments == ["bounds"] {
        bounds::run();
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
