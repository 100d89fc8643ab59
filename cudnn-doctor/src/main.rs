//! The command `cudnn-doctor`. This file reads the command line; each subcommand has a module.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

mod check;
mod child;
mod demo;
mod env;
mod explain;
mod facts;
mod fetch;
mod file;
mod list;
mod log;
mod opened;
mod output;
mod pid;
mod preload;
mod shell;

use output::{Format, Outcome};

/// Says what cuDNN is installed and uses it.
///
/// Without a command: `check`. Exit status: 0 fine, 1 warnings, 2 problems, 3 the doctor itself failed.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print one JSON document instead of text (not for `demo`).
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Check the driver, the GPUs, the installation, its conflicts and CUDA's libraries; then load cuDNN in a child process.
    #[command(after_help = "\
Examples:
  cudnn-doctor check              what is wrong, why, and what to do
  cudnn-doctor check --gpu        and a convolution
  cudnn-doctor check --no-load    only read, load nothing
  cudnn-doctor check --minimum 9.3 --cuda 12 --function cudnnNormForward
                                  for a program that needs these")]
    Check(check::Arguments),
    /// List every cuDNN that is installed, the one that would be used marked.
    #[command(after_help = "\
Examples:
  cudnn-doctor list                     what is installed, and what would be used
  cudnn-doctor list ~/venvs/* --deep    also in these environments, with the GPUs that kernels are for
  cudnn-doctor list --json              for programs")]
    List(list::Arguments),
    /// Say which files the dynamic linker would take for a program or library, and by which rule, without loading any.
    #[command(after_help = "\
Examples:
  cudnn-doctor explain                                  for NVIDIA's shim of the installation that would be used
  cudnn-doctor explain ./my-program                     for a program that is linked to cuDNN
  cudnn-doctor explain .../torch/lib/libtorch_cuda.so   for a framework's library")]
    Explain(explain::Arguments),
    /// Say which files of cuDNN and CUDA a running process has loaded, and whether they belong together.
    #[command(after_help = "\
Examples:
  cudnn-doctor pid $(pgrep -f train.py)
  cudnn-doctor pid 4711 --json")]
    Pid(pid::Arguments),
    /// Find a cuDNN, or fetch a real one, and use it: descriptors without a GPU, a convolution with one.
    #[command(after_help = "\
Examples:
  cudnn-doctor demo                                  with whatever is installed, else a fetched one
  cudnn-doctor demo --offline                        never fetch
  CUDNN_LOADER_DIR=/opt/cudnn/lib cudnn-doctor demo  with this one")]
    Demo(demo::Arguments),
    /// Print the lines for the shell that make an installation the used one.
    #[command(after_help = "\
Examples:
  eval \"$(cudnn-doctor env ~/venvs/train)\"    the cuDNN of this environment, from now on
  cudnn-doctor env                             the one that would be used, for programs that do not find it")]
    Env(env::Arguments),
    /// List releases of cuDNN that are known by their sha256, or fetch one into the cache folder.
    #[command(after_help = "\
Examples:
  cudnn-doctor fetch                  the list
  cudnn-doctor fetch cu12-9.28.0      one of them
The cache folder: CUDNN_SHIM_CACHE, else ~/.cache/cudnn-shim.")]
    Fetch(fetch::Arguments),
    /// Load cuDNN ahead of its use, as a program may, and show what each step cost as a timeline.
    #[command(after_help = "\
Examples:
  cudnn-doctor preload                  libraries, the first device's context, and cuDNN's engines
  cudnn-doctor preload --no-context     on a machine without a GPU
  cudnn-doctor preload --all-devices    the contexts of all devices, at once")]
    Preload(preload::Arguments),
    /// Sum up a log that cuDNN has written, and explain its first error.
    #[command(after_help = "\
Examples:
  CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=cudnn.log python train.py
  cudnn-doctor log cudnn.log")]
    Log(log::Arguments),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page.
    Man,
    /// Show what the other commands go by: drivers, GPUs, releases, known faults, and the codes of findings.
    Facts,
    /// Ask NVML, for `check`.
    #[command(name = check::machine::COMMAND, hide = true)]
    InternalMachine,
    /// Load cuDNN, for `check`.
    #[command(name = check::loading::COMMAND, hide = true)]
    InternalLoad {
        /// Also run the convolution.
        #[arg(long)]
        gpu: bool,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            if !error.use_stderr() {
                let _ = error.print();
                return Outcome::Fine.into();
            }
            let is_json = std::env::args_os().any(|argument| argument == "--json");
            return output::fail(if is_json { Format::Json } else { Format::Text }, error.render()).into();
        }
    };
    let format = if arguments.json { Format::Json } else { Format::Text };
    match arguments.command.unwrap_or_else(|| Command::Check(check::Arguments::default())) {
        Command::Env(arguments) => env::run(&arguments, format),
        Command::Fetch(arguments) => fetch::run(&arguments, format),
        Command::Preload(arguments) => preload::run(&arguments, format),
        Command::Log(arguments) => log::run(&arguments, format),
        Command::Completions { shell } => print(|out| {
            clap_complete::generate(shell, &mut Arguments::command(), "cudnn-doctor", out);
            Ok(())
        }),
        Command::Man => print(|out| clap_mangen::Man::new(Arguments::command()).render(out)),
        Command::Facts => facts::run(format),
        Command::InternalMachine => return check::machine::run(),
        Command::InternalLoad { gpu } => return check::loading::run(gpu),
        Command::Check(arguments) => check::run(&arguments, format),
        Command::List(arguments) => list::run(&arguments, format),
        Command::Explain(arguments) => explain::run(&arguments, format),
        Command::Pid(arguments) => pid::run(&arguments, format),
        Command::Demo(arguments) => demo::run(&arguments).map_or_else(
            |error| {
                output::remark(format_args!("\n{error}"));
                Outcome::Problems
            },
            |()| Outcome::Fine,
        ),
    }
    .into()
}

/// Prints what is made in one piece.
fn print(make: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Outcome {
    let mut text = Vec::new();
    match make(&mut text) {
        Ok(()) => {
            output::line(format_args!("{}", String::from_utf8_lossy(&text).trim_end()));
            Outcome::Fine
        }
        Err(error) => output::fail(Format::Text, error),
    }
}
