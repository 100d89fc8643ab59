//! Runs a framework in a child process with the environment's Python. `cudnn_rules::framework_run` explains failures.

mod child;

use std::path::Path;

use cudnn_cli::subprocess::{Timeouts, run_command};
use cudnn_probe::facts;
use cudnn_rules::check::machine::Machine;
use cudnn_rules::context::Context;
use cudnn_rules::framework_run::{ChildRun, NotRun, Run, RunnableFramework};

use child::Log;

pub(super) fn run(framework: RunnableFramework, context: &Context, machine: &Machine, timeouts: &Timeouts) -> Run {
    Run::of(framework, context, machine, |python| run_child(framework, &python.program, timeouts))
}

fn run_child(framework: RunnableFramework, python: &Path, timeouts: &Timeouts) -> Result<ChildRun, NotRun> {
    let run = format!("{} by {}", framework.name(), python.display());
    let log = Log::create(&run).map_err(NotRun::NoDirectory)?;
    let start = || run_command(child::command(python, framework, &log), timeouts);
    let ended = facts::ask_program("run of framework", &run, start).map_err(NotRun::NotStarted)?;
    Ok(ChildRun { ended, log: Box::new(move |start| log.text_from(start)) })
}
