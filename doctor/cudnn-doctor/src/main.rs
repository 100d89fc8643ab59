//! Parses the command line of `cudnn-doctor`. The modules in `cmd` implement the subcommands.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use cudnn_cli::help;
use cudnn_cli::output::{self, Format, Outcome};
use cudnn_cli::platform::{CAN_LOAD, MEMORY_HELP, STATIC, STATIC_HELP};
use cudnn_cli::programs::doctor;
use cudnn_cli::subprocess::{self, End, Timeouts};
use cudnn_rules::check::load_test::Parts;
use cudnn_rules::context::Context;

mod cmd;
mod command_line;
mod demo;
mod docs;
mod drop_in;
mod fix;
mod layer_check;
mod observe;
mod saved_facts;

use observe::{driver, load_test, machine};

/// Diagnoses cuDNN installations: which ones are installed, which one programs load, what is wrong, and how to fix
/// it.
///
/// Without a subcommand it runs `check`. Exit status: 0 nothing is wrong, 1 warnings, 2 errors, 3 the doctor could
/// not do what it was asked to do.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print one JSON document instead of text (not for `completions`, `demo`, `man` and `run`).
    #[arg(long, global = true)]
    json: bool,
    /// Stop child processes that make no progress for this time. Default: 10 to 30 seconds for the driver, 20 to load
    /// cuDNN, 120 to compute.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: Option<u64>,
    /// Without a subcommand: also print the evidence for findings.
    #[arg(long, short)]
    verbose: bool,
}

/// The first word of the child process of `preload` or `demo`, which may crash or hang in cuDNN.
const IN_CHILD: &str = "--in-child";

#[derive(Subcommand)]
enum Command {
    /// Check the driver, the GPUs, the installation and the CUDA libraries it needs, then load cuDNN in a child
    /// process.
    #[command(after_help = include_str!("help/check.txt").trim_end())]
    Check(cmd::check::Arguments),
    /// Print the steps that fix the errors and warnings of `check`, or execute them with --yes.
    ///
    /// A step runs only if its files are unchanged since the plan was made. If a step fails, the doctor stops and
    /// prints how to undo the previous steps. At the end it checks again. As root, it does not change files that
    /// other users own.
    #[command(after_help = include_str!("help/fix.txt").trim_end())]
    Fix(cmd::fix::Arguments),
    /// List all cuDNN installations and mark the one that the loader would use.
    #[command(after_help = include_str!("help/list.txt").trim_end())]
    List(cmd::list::Arguments),
    /// Show what the frameworks of Python environments were built for, which cuDNN they would load, and mismatches.
    ///
    /// Only reads files, without running Python.
    #[command(after_help = include_str!("help/frameworks.txt").trim_end())]
    Frameworks(cmd::frameworks::Arguments),
    /// Show which files ld.so would load for a program or library, and why, without loading them.
    #[command(after_help = include_str!("help/explain.txt").trim_end())]
    Explain(cmd::explain::Arguments),
    /// Show which cuDNN and CUDA files a running process has loaded, and whether they belong together.
    #[command(after_help = include_str!("help/pid.txt").trim_end())]
    Pid(cmd::pid::Arguments),
    /// Find or fetch a cuDNN and use it: create descriptors, and with a GPU also run a convolution.
    #[command(after_help = include_str!("help/demo.txt").trim_end())]
    Demo(cmd::demo::Arguments),
    /// Print the shell lines that make programs use an installation.
    #[command(after_help = include_str!("help/env.txt").trim_end())]
    Env(cmd::env::Arguments),
    /// List the cuDNN releases with a pinned sha256, or fetch one into the cache directory.
    #[command(after_help = include_str!("help/fetch.txt").trim_end())]
    Fetch(cmd::fetch::Arguments),
    /// Load cuDNN before its first use, as a program can, and show the cost of the steps as a timeline.
    #[command(after_help = include_str!("help/preload.txt").trim_end())]
    Preload(cmd::preload::Arguments),
    /// Summarize a log written by cuDNN, or what a program printed, and explain the errors.
    #[command(after_help = include_str!("help/log.txt").trim_end())]
    Log(cmd::log::Arguments),
    /// Put the drop-in in front of the cuDNN of a Python environment, so that programs get an error status where
    /// NVIDIA's shim would abort them.
    ///
    /// Replaces NVIDIA's libcudnn.so.9 and saves it in the same directory. If the exit status is 3, the message says
    /// which file is in place.
    #[command(after_help = include_str!("help/install.txt").trim_end())]
    Install(cmd::install::InstallArguments),
    /// Remove the drop-in and restore NVIDIA's shim.
    #[command(after_help = include_str!("help/uninstall.txt").trim_end())]
    Uninstall(drop_in::target::Place),
    /// Run one program with the drop-in in front of cuDNN, without installing it.
    ///
    /// The doctor is replaced by the program, which receives all signals and determines the exit status. The exit
    /// status is 127 if the program does not exist, 126 if it cannot be started, and 3 if the drop-in is missing or
    /// would have no effect.
    #[command(after_help = include_str!("help/run.txt").trim_end())]
    Run(cmd::run::Arguments),
    /// Print the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page of the doctor, or of one subcommand.
    #[command(after_help = include_str!("help/man.txt").trim_end())]
    Man {
        /// The subcommand.
        subcommand: Option<String>,
    },
    /// Show which layers CUDNN_LAYERS turns on, from which files, and which other layers are available.
    ///
    /// Reads files without loading them.
    #[command(after_help = include_str!("help/layers.txt").trim_end())]
    Layers(cmd::layers::Arguments),
    /// Print the data behind the other commands: drivers, GPUs, releases, known issues, and the codes of findings.
    Facts(cmd::facts::Arguments),
}

/// The commands of child processes, which are hidden from users.
#[derive(Subcommand)]
enum ChildCommand {
    /// Query NVML, for `check`.
    #[command(name = machine::COMMAND)]
    Machine,
    /// Open the driver's library, after a crash of `preload` or `demo`.
    #[command(name = driver::COMMAND)]
    Driver,
    /// Ask layers whether they accept their variables, for `run`.
    #[command(name = layer_check::COMMAND)]
    Layers {
        /// The library and the name of each layer, one after the other.
        layers: Vec<PathBuf>,
    },
    /// Load cuDNN, for `check`.
    #[command(name = load_test::COMMAND)]
    Load {
        dir: PathBuf,
        #[arg(long)]
        gpu: bool,
        #[arg(long)]
        driver: bool,
        #[arg(long)]
        engines: bool,
        #[arg(long)]
        cuda: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    cudnn_os::child::prepare();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(child) = help::parse_child::<Arguments, ChildCommand>(&words) {
        return run_child(child);
    }
    let is_supervised = words.get(1).is_some_and(|word| word == IN_CHILD);
    if is_supervised {
        words.remove(1);
    }
    let arguments = match help::parse::<Arguments>(&words, command_line::GROUPS, command_line::pointer) {
        Ok(arguments) => arguments,
        Err(outcome) => return outcome.into(),
    };
    let format = Format::new(arguments.json);
    run(arguments, is_supervised, format).unwrap_or_else(|error| output::fail(format, error).into())
}

fn run_child(child: ChildCommand) -> ExitCode {
    match child {
        ChildCommand::Machine => machine::run_child(),
        ChildCommand::Driver => driver::run_child(),
        ChildCommand::Layers { layers } => layer_check::run_child(&layers),
        ChildCommand::Load { dir, gpu, driver, engines, cuda } => {
            load_test::run_child(&dir, &Parts { convolution: gpu, driver, engines, cuda })
        }
    }
}

fn run(arguments: Arguments, is_supervised: bool, format: Format) -> Result<ExitCode, Box<dyn Error>> {
    let timeouts = Timeouts::new(arguments.timeout.map(Duration::from_secs));
    let command = match arguments.command {
        None => Command::Check(cmd::check::Arguments::with_evidence(arguments.verbose)),
        Some(_) if arguments.verbose => return Err("error: put --verbose after the name of the subcommand".into()),
        Some(command) => command,
    };
    match command {
        Command::Demo(_) | Command::Run(_) if arguments.json => return Err(output::ONLY_TEXT.into()),
        Command::Demo(_) | Command::Preload(_) if !CAN_LOAD => {
            return Err(format!("{}\nhelp: {}", STATIC, STATIC_HELP).into());
        }
        Command::Demo(_) | Command::Preload(_) if !is_supervised => return supervise(format, &timeouts),
        _ if is_supervised => cudnn_os::child::end_with_parent(),
        _ => {}
    }
    // A supervised child prints the document.
    format.answer_interruptions();
    cudnn_os::random::fill(&mut [0; 16])
        .map_err(|error| format!("error: cannot get random numbers from the system: {error}"))?;
    let context = &Context::current();
    let outcome = match command {
        Command::Check(arguments) => cmd::check::run(&arguments, context, &timeouts, format),
        Command::Fix(arguments) => cmd::fix::run(&arguments, context, &timeouts, format),
        Command::List(arguments) => cmd::list::run(&arguments, context, format)?,
        Command::Frameworks(arguments) => cmd::frameworks::run(&arguments, context, &timeouts, format)?,
        Command::Explain(arguments) => cmd::explain::run(&arguments, context, format)?,
        Command::Pid(arguments) => cmd::pid::run(&arguments, format)?,
        Command::Demo(arguments) => cmd::demo::run(&arguments, context),
        Command::Env(arguments) => cmd::env::run(&arguments, context, format)?,
        Command::Fetch(arguments) => cmd::fetch::run(&arguments, format)?,
        Command::Preload(arguments) => cmd::preload::run(&arguments, format)?,
        Command::Log(arguments) => cmd::log::run(&arguments, format)?,
        Command::Layers(arguments) => cmd::layers::run(&arguments, context, format)?,
        Command::Install(arguments) => cmd::install::install(&arguments, context, &timeouts, format)?,
        Command::Uninstall(place) => cmd::install::uninstall(&place, context, format)?,
        Command::Run(arguments) => return cmd::run::run(&arguments, context, &timeouts),
        Command::Facts(arguments) => cmd::facts::run(&arguments, format)?,
        Command::Completions { shell } => help::completions(Arguments::command(), shell, format)?,
        Command::Man { subcommand } => help::manual(Arguments::command(), subcommand.as_deref(), format)?,
    };
    Ok(outcome.into())
}

/// Runs the command in a child process, because a damaged cuDNN may crash it.
fn supervise(format: Format, timeouts: &Timeouts) -> Result<ExitCode, Box<dyn Error>> {
    let ended =
        subprocess::supervise(IN_CHILD, timeouts).map_err(|error| format!("cannot start a child process: {error}"))?;
    if let End::Exited { code: Some(code), .. } = &ended.end
        && let Ok(code) = u8::try_from(*code)
    {
        return Ok(ExitCode::from(code));
    }
    let verb = if ended.end.is_hang() { "hung" } else { "crashed" };
    let how = format!("the process {}{}", ended.end.failure().unwrap_or_default(), ended.during());
    let text = if let Some(reason) = ended.lack_of_memory {
        format!("error: {how}\nnote: {reason}\nhelp: {}", MEMORY_HELP)
    } else if let Some(fault) = driver::fault(&ended, timeouts) {
        format!("error: the driver {verb}: {how}\nnote: {fault}\nhelp: {}", cudnn_rules::system::DRIVER_HELP)
    } else {
        format!("error: cuDNN {verb}: {how}\nhelp: `{} check` shows what is wrong", doctor())
    };
    output::fail(format, text);
    Ok(Outcome::Errors.into())
}
