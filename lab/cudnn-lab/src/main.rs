//! The command `cudnn-lab`. This file parses the command line, and the modules in `cmd` implement the subcommands.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is a process of its own")]

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use cudnn_cli::help::{self, Groups};
use cudnn_cli::output::{self, Format, Outcome};
use cudnn_cli::subprocess::Timeouts;

mod captures;
mod cmd;
mod cuda_dirs;
mod devices;
mod graph_arguments;
mod output_file;
mod plan_worker;
mod progress;
mod replay_worker;
mod stream_table;
mod tune_worker;
mod worker;

/// Works with what programs ask of cuDNN: captured graphs, engines, compiled plans.
///
/// `cudnn-doctor run --capture` records a program. Exit status: 0 nothing is wrong, 1 warnings, 2 errors, 3 the lab could
/// not do what it was asked to do.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// Stop child processes that make no progress for this time. Default: 10 to 30 seconds for the driver, 20 to load
    /// cuDNN, 120 to compute.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: Option<u64>,
}

/// The subcommands in the help, by purpose.
const GROUPS: Groups<'static> = &[
    ("Captured graphs", &["capture", "replay", "reduce", "emit"]),
    ("Engines and plans", &["tune", "devices", "errata", "plans"]),
    ("Maintain", &["completions", "man", "help"]),
];

#[derive(Subcommand)]
enum Command {
    /// Show, pack or remove the compiled plans that the layer `plans` caches across processes.
    #[command(after_help = "\
Examples:
  cudnn-lab plans list                 the operations, devices and releases of the plans, and damaged plans
  cudnn-lab plans pack app.plans       one file for a container image, to be named by CUDNN_PLANS_PACK
  cudnn-lab plans pack app.plans --device h200.json
                                       the same plans, rebuilt by this cuDNN for a GPU of another machine, which
                                       `cudnn-lab devices --here` has described
  cudnn-lab plans clear                remove the plans from the directory
The directory is CUDNN_PLANS_DIR, or ~/.cache/cudnn-plans.")]
    Plans(cmd::plans::Arguments),
    /// Show the graphs, plans and failed calls that `run --capture` has recorded.
    ///
    /// The exit status is 1 if a part of the file could not be read, and 3 if the file is not a capture.
    #[command(after_help = "\
Examples:
  cudnn-doctor run --capture app.cudnncap -- python train.py
  cudnn-lab capture show app.cudnncap")]
    Capture(cmd::capture::Arguments),
    /// Plan the graphs of a capture again, execute them if there is a GPU, and compare two releases of cuDNN.
    ///
    /// A child process replays the graphs, and is replaced after a crash or hang. Ctrl-C prints the results so far. With
    /// --compare or --baseline, the exit status is 1 if something became worse. Otherwise it is 1 if a graph does not work. It is also 1
    /// if a part of the capture could not be read, and 3 if the replay was impossible.
    #[command(after_help = "\
Examples:
  cudnn-lab replay app.cudnncap                        this cuDNN
  cudnn-lab replay app.cudnncap --engines all          every engine, not only the first one
  cudnn-lab replay app.cudnncap --compare 9.10 9.28    what changes between two releases
  cudnn-lab replay app.cudnncap --compare 9.10 /opt/cudnn/lib --html report.html
                                                       a release and a directory, as a page for a bug report
  cudnn-lab replay app.cudnncap --json > baseline.json
  cudnn-lab replay app.cudnncap --baseline baseline.json --junit cudnn.xml
                                                       an earlier replay and this cuDNN, for CI
  cudnn-lab replay app.cudnncap --cudnn 9.28 --device rtx-5090 --device l4
                                                       whether 9.28 has engines for these GPUs, which are not needed")]
    Replay(cmd::replay::Arguments),
    /// Find the fastest correct engine for each graph of a capture, on a machine with the GPU.
    ///
    /// A child process executes the engines, checks their results and measures them. The file with the choices is written
    /// after each graph, so that the same command continues after Ctrl-C. The layer `tuned` reads it. The exit status is 1
    /// if a graph cannot be tuned, if a part of the capture could not be read, or if the heuristics' first choice is wrong.
    #[command(after_help = "\
Examples:
  cudnn-lab tune app.cudnncap -o app.tuned.json               the heuristics' proposals
  cudnn-lab tune app.cudnncap -o app.tuned.json --time-limit 180
                                                       the most executed graphs, within some 3 minutes
  cudnn-lab tune app.cudnncap -o app.tuned.json --exhaustive  every engine with every knob
  cudnn-lab tune app.cudnncap -o app.tuned.json --html report.html
  cudnn-lab tune --merge h100.json h200.json -o all.json      one file for several GPUs
  cudnn-doctor run --tuned app.tuned.json -- python train.py
                                                       run a program with the choices")]
    Tune(cmd::tune::Arguments),
    /// Show the descriptions of GPUs that graphs can be planned for, on any machine.
    ///
    /// `--device` of `replay`, `reduce`, `emit` and `plans pack` accepts the names. A measured description was written by
    /// cuDNN on such a GPU. An approximate one is derived from public data.
    #[command(after_help = "\
Examples:
  cudnn-lab devices                             the known GPUs
  cudnn-lab devices rtx-5090 > rtx-5090.json    one description, as a file that can be changed
  cudnn-lab devices --here > here.json          the GPU of this machine")]
    Devices(cmd::devices::Arguments),
    /// Write a graph of a capture as a program in C++ or Python, for a bug report.
    #[command(after_help = "\
Examples:
  cudnn-lab capture show app.cudnncap                   the ids of the graphs
  cudnn-lab emit app.cudnncap --graph 0658 --language python --output bug.py
  cudnn-lab emit app.cudnncap --graph 0658 --language c++ --output bug.cpp")]
    Emit(cmd::emit::Arguments),
    /// Make a graph of a capture smaller while it still fails in the same way.
    ///
    /// Smaller graphs are tried in a child process.
    #[command(after_help = "\
Examples:
  cudnn-lab reduce app.cudnncap --graph 0658 --when status --output small.cudnncap
  cudnn-lab emit small.cudnncap --graph '' --language python")]
    Reduce(cmd::reduce::Arguments),
    /// Show the rules of the layer `errata`, which blocks plans that are known to be wrong or slow.
    #[command(after_help = "\
Examples:
  cudnn-lab errata list                         the shipped rules, and whether they apply here
  cudnn-lab errata list --rules my-rules.json   check a file with rules
  cudnn-doctor run --errata known -- python train.py
                                                   run a program with the rules")]
    Errata(cmd::errata::Arguments),
    /// Print the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page of the lab, or of one subcommand.
    #[command(after_help = "\
Examples:
  cudnn-lab man                                 the page cudnn-lab(1)
  cudnn-lab man replay > cudnn-lab-replay.1     the page cudnn-lab-replay(1)")]
    Man {
        /// The subcommand. Nested subcommands are written as `plans-list`.
        subcommand: Option<String>,
    },
}

/// The commands of child processes, which users do not see.
#[derive(Subcommand)]
enum ChildCommand {
    /// Replay graphs, for `replay` and `reduce`.
    #[command(name = replay_worker::COMMAND)]
    Replay,
    /// Tune graphs, for `tune`.
    #[command(name = tune_worker::COMMAND)]
    Tune,
    /// Rebuild plans, for `plans pack`, and query the driver, for `errata` and `devices`.
    #[command(name = plan_worker::COMMAND)]
    Plan,
}

fn main() -> ExitCode {
    cudnn_os::child::prepare();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(child) = help::parse_child::<Arguments, ChildCommand>(&words) {
        return run_child(child);
    }
    let arguments = match help::parse::<Arguments>(&words, GROUPS, |_| None) {
        Ok(arguments) => arguments,
        Err(outcome) => return outcome.into(),
    };
    let format = Format::new(arguments.json);
    format.answer_interruptions();
    run(arguments, format).unwrap_or_else(|error| output::fail(format, error).into())
}

fn run_child(child: ChildCommand) -> ExitCode {
    match child {
        ChildCommand::Replay => replay_worker::run_child(),
        ChildCommand::Tune => tune_worker::run_child(),
        ChildCommand::Plan => plan_worker::run_child(),
    }
}

fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Box<dyn Error>> {
    let timeouts = Timeouts::new(arguments.timeout.map(Duration::from_secs));
    let outcome: Outcome = match arguments.command {
        Command::Capture(arguments) => cmd::capture::run(&arguments, format)?,
        Command::Replay(arguments) => cmd::replay::run(&arguments, &timeouts, format)?,
        Command::Tune(arguments) => cmd::tune::run(&arguments, &timeouts, format)?,
        Command::Reduce(arguments) => cmd::reduce::run(&arguments, &timeouts, format)?,
        Command::Emit(arguments) => cmd::emit::run(&arguments, format)?,
        Command::Devices(arguments) => cmd::devices::run(&arguments, &timeouts, format)?,
        Command::Errata(arguments) => cmd::errata::run(&arguments, &timeouts, format)?,
        Command::Plans(arguments) => cmd::plans::run(&arguments, &timeouts, format)?,
        Command::Completions { shell } => help::completions(Arguments::command(), shell, format)?,
        Command::Man { subcommand } => help::manual(Arguments::command(), subcommand.as_deref(), format)?,
    };
    output::end_if_output_failed();
    Ok(outcome.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_is_in_one_group() {
        assert!(help::are_complete(&Arguments::command(), GROUPS));
    }
}
