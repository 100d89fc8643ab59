//! The command `cudnn-doctor`. This file parses the command line, and the modules in `cmd` implement the subcommands.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

mod captures;
mod check;
mod child_report;
mod cmd;
mod command_line;
mod context;
mod cuda_dirs;
mod cudnn_file;
mod cudnn_status;
mod demo;
mod dependencies;
mod docs;
mod driver;
mod drop_in;
mod escape;
mod fix;
mod framework_run;
mod output;
mod packages;
mod plan;
mod plan_again;
mod platform;
mod python;
mod python_shim;
mod refusal;
mod remedy;
mod replay_child;
mod rights;
mod saved_facts;
mod shell;
mod shim_release;
mod subprocess;
mod surveys;
mod system;
mod table;
mod temporary;

use context::Context;
use output::{CommandResult, Format, Outcome};
use subprocess::{End, Timeouts};

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
    /// Print one JSON document instead of text (not for `demo` and `run`).
    #[arg(long, global = true)]
    json: bool,
    /// Stop child processes that make no progress for this time. Default: 10 to 30 seconds for the driver, 20 to load
    /// cuDNN, 120 to compute.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: Option<u64>,
    /// Without a subcommand: also print the evidence for findings.
    #[arg(long, short)]
    verbose: bool,
    /// Marks the child process of `preload` or `demo`, which may crash or hang in cuDNN.
    #[arg(long = IN_CHILD, global = true, hide = true)]
    in_child: bool,
}

/// The option of a supervised child process, without dashes.
const IN_CHILD: &str = "in-child";

#[derive(Subcommand)]
enum Command {
    /// Check the driver, the GPUs, the installation and the CUDA libraries it needs, then load cuDNN in a child
    /// process.
    #[command(after_help = "\
Examples:
  cudnn-doctor check              what is wrong, why, and how to fix it
  cudnn-doctor check --gpu        also run a convolution
  cudnn-doctor check --run torch  also run PyTorch
  cudnn-doctor check --no-load    read files only, load nothing
  cudnn-doctor check --only C014  look only for this finding; --list shows all codes
  cudnn-doctor check --minimum 9.3 --cuda 12 --function cudnnConvolutionForward
                                  for a program with these requirements
  cudnn-doctor check --for ./my-program
                                  for this program or library, by analyzing its file")]
    Check(cmd::check::Command),
    /// Print the steps that fix the errors and warnings of `check`, or execute them with --yes.
    ///
    /// A step runs only if its files are unchanged since the plan was made. If a step fails, the doctor stops and
    /// prints how to undo the previous steps. At the end it checks again. As root, it does not change files that
    /// other users own.
    #[command(after_help = "\
Examples:
  cudnn-doctor fix                              print the plan without changing anything
  cudnn-doctor fix --yes                        execute the plan
  cudnn-doctor fix --yes --python ~/venvs/train for this environment")]
    Fix(cmd::fix::Arguments),
    /// List all cuDNN installations and mark the one that the loader would use.
    #[command(after_help = "\
Examples:
  cudnn-doctor list                     every installation that the search finds
  cudnn-doctor list ~/venvs/* --deep    also search these environments, and show the GPUs that kernels were built for
  cudnn-doctor list --json              for programs")]
    List(cmd::list::Arguments),
    /// Show what the frameworks of Python environments were built for, which cuDNN they would load, and mismatches.
    ///
    /// Only reads files, without running Python.
    #[command(after_help = "\
Examples:
  cudnn-doctor frameworks               the active environments
  cudnn-doctor frameworks ~/venvs/*     these environments
  cudnn-doctor frameworks --json        for programs")]
    Frameworks(cmd::frameworks::Arguments),
    /// Show which files ld.so would load for a program or library, and why, without loading them.
    #[command(after_help = "\
Examples:
  cudnn-doctor explain                                  NVIDIA's shim of the installation that would be used
  cudnn-doctor explain ./my-program                     a program linked to cuDNN
  cudnn-doctor explain .../torch/lib/libtorch_cuda.so   a framework's library")]
    Explain(cmd::explain::Arguments),
    /// Show which cuDNN and CUDA files a running process has loaded, and whether they belong together.
    #[command(after_help = "\
Examples:
  cudnn-doctor pid $(pgrep -n -f train.py)    the newest process whose command line contains train.py
  cudnn-doctor pid $$ --json                  this shell, for programs")]
    Pid(cmd::pid::Arguments),
    /// Find or fetch a cuDNN and use it: create descriptors, and with a GPU also run a convolution.
    #[command(after_help = "\
Examples:
  cudnn-doctor demo                                  the installed cuDNN, or a fetched one where there is none
  cudnn-doctor demo --offline                        never fetch
  CUDNN_LOADER_DIR=/opt/cudnn/lib cudnn-doctor demo  the cuDNN in this directory")]
    Demo(cmd::demo::Arguments),
    /// Print the shell lines that make programs use an installation.
    #[command(after_help = "\
Examples:
  eval \"$(cudnn-doctor env ~/venvs/train)\"    use the cuDNN of this environment from now on
  cudnn-doctor env                            the installation that the loader would use")]
    Env(cmd::env::Arguments),
    /// List the cuDNN releases with a pinned sha256, or fetch one into the cache directory.
    #[command(after_help = "\
Examples:
  cudnn-doctor fetch                     list the releases
  cudnn-doctor fetch jit-cu12-9.19.0     fetch one of them
  cudnn-doctor fetch cu13                fetch the newest release for CUDA 13
The cache directory is CUDNN_FETCH_CACHE, or ~/.cache/cudnn-shim.")]
    Fetch(cmd::fetch::Arguments),
    /// Load cuDNN before its first use, as a program can, and show the cost of the steps as a timeline.
    #[command(after_help = "\
Examples:
  cudnn-doctor preload                  the libraries, the first device's context, and cuDNN's engines
  cudnn-doctor preload --no-context     for a machine without a GPU
  cudnn-doctor preload --all-devices    the contexts of all devices, in parallel")]
    Preload(cmd::preload::Arguments),
    /// Summarize a log written by cuDNN, or what a program printed, and explain the errors.
    #[command(after_help = "\
Examples:
  CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=cudnn.log python train.py
  cudnn-doctor log cudnn.log
  python train.py 2>&1 | cudnn-doctor log -")]
    Log(cmd::log::Arguments),
    /// Show, check, pack or remove the compiled plans that the layer `plans` caches across processes.
    #[command(after_help = "\
Examples:
  cudnn-doctor plans list                 the operations, devices and releases of the plans
  cudnn-doctor plans stats                the number of plans, and the time to build them
  cudnn-doctor plans verify               check that the plans are intact
  cudnn-doctor plans pack app.plans --cudnn 9 --device-name H200
                                          one file for a container image, to be named by CUDNN_PLANS_PACK
  cudnn-doctor plans pack app.plans --device h200.json
                                          the same plans, rebuilt by this cuDNN for a GPU of another machine
  cudnn-doctor plans clear                remove the plans from the directory
The directory is CUDNN_PLANS_DIR, or ~/.cache/cudnn-plans.")]
    Plans(cmd::plans::Arguments),
    /// Show or pack the graphs, plans and failed calls that `run --capture` has recorded.
    ///
    /// The exit status is 1 if a part of the file could not be read, and 3 if the file is not a capture.
    #[command(after_help = "\
Examples:
  cudnn-doctor run --capture app.cudnncap -- python train.py
  cudnn-doctor capture show app.cudnncap
  cudnn-doctor capture pack app.cudnncap -o bug.zip          one file for a bug report")]
    Capture(cmd::capture::Arguments),
    /// Plan the graphs of a capture again, execute them if there is a GPU, and compare two releases of cuDNN.
    ///
    /// Every graph is replayed in a child process. With --compare, the exit status is 1 if something became worse.
    /// Otherwise it is 1 if a graph does not work. It is also 1 if a part of the capture could not be read, and 3 if the
    /// replay was impossible.
    #[command(after_help = "\
Examples:
  cudnn-doctor replay app.cudnncap                        this cuDNN
  cudnn-doctor replay app.cudnncap --engines all          every engine, not only the first one
  cudnn-doctor replay app.cudnncap --compare 9.10 9.28    what changes between two releases
  cudnn-doctor replay app.cudnncap --compare 9.10 /opt/cudnn/lib --html report.html
                                                          a release and a directory, as a page for a bug report")]
    Replay(cmd::replay::Arguments),
    /// Write a graph of a capture as a program in C++, Python or Rust, for a bug report.
    #[command(after_help = "\
Examples:
  cudnn-doctor capture show app.cudnncap                   the ids of the graphs
  cudnn-doctor emit app.cudnncap --graph 0658 --language python --output bug.py
  cudnn-doctor emit app.cudnncap --graph 0658 --language c++ --output bug.cpp")]
    Emit(cmd::emit::Arguments),
    /// Make a graph of a capture smaller while it still fails in the same way.
    ///
    /// Every smaller graph is tried in a child process.
    #[command(after_help = "\
Examples:
  cudnn-doctor reduce app.cudnncap --graph 0658 --when status --output small.cudnncap
  cudnn-doctor emit small.cudnncap --graph '' --language python")]
    Reduce(cmd::reduce::Arguments),
    /// Show the rules of the layer `errata`, which blocks plans that are known to be wrong or slow.
    #[command(after_help = "\
Examples:
  cudnn-doctor errata list                         the shipped rules, and whether they apply here
  cudnn-doctor errata why conv3d-tf32-wrong        one rule in detail
  cudnn-doctor errata check --rules my-rules.json  check a file with rules
  cudnn-doctor run --errata known -- python train.py
                                                   run a program with the rules")]
    Errata(cmd::errata::Arguments),
    /// Put the drop-in in front of the cuDNN of a Python environment, so that programs get an error status where
    /// NVIDIA's shim would abort them.
    ///
    /// Replaces NVIDIA's libcudnn.so.9 and saves it in the same directory. If the exit status is 3, the message says
    /// which file is in place.
    #[command(after_help = "\
Examples:
  cudnn-doctor install                         the active environment
  cudnn-doctor install --python ~/venvs/train  this environment
  cudnn-doctor install cudnn/lib               the cuDNN in this directory")]
    Install(cmd::install::InstallArguments),
    /// Remove the drop-in and restore NVIDIA's shim.
    #[command(after_help = "\
Examples:
  cudnn-doctor uninstall                         the active environment
  cudnn-doctor uninstall --python ~/venvs/train  this environment
  cudnn-doctor uninstall cudnn/lib               the cuDNN in this directory")]
    Uninstall(cmd::install::Place),
    /// Run one program with the drop-in in front of cuDNN, without changing files.
    ///
    /// The doctor is replaced by the program, which receives all signals and determines the exit status. The exit
    /// status is 127 if the program does not exist, 126 if it cannot be started, and 3 if the drop-in is missing or
    /// would have no effect.
    #[command(after_help = "\
Examples:
  cudnn-doctor run -- python train.py
  cudnn-doctor run --verbose-errors -- python train.py        exceptions say why cuDNN refused
  cudnn-doctor run --trace trace.%i.json -- python train.py   all cuDNN calls, for https://ui.perfetto.dev
  cudnn-doctor run --capture app.cudnncap -- python train.py  all graphs, for `cudnn-doctor replay`
  cudnn-doctor run --plans -- python train.py                 later runs reuse the plans of this run
  cudnn-doctor run --explain -- python train.py               why no engine supports a graph
  cudnn-doctor run --validate -- python train.py              report mistakes that cuDNN accepts
  cudnn-doctor run --errata known -- python train.py          block engines that are known to be wrong")]
    Run(cmd::run::Arguments),
    /// Print the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page of the doctor, or of one subcommand.
    #[command(after_help = "\
Examples:
  cudnn-doctor man                              the page cudnn-doctor(1)
  cudnn-doctor man check > cudnn-doctor-check.1 the page cudnn-doctor-check(1)")]
    Man {
        /// The subcommand. Nested subcommands are written as `plans-list`.
        subcommand: Option<String>,
    },
    /// Show which layers CUDNN_LAYERS turns on, from which files, and which other layers are available.
    ///
    /// Reads files without loading them.
    #[command(after_help = "\
Examples:
  CUDNN_LAYERS=trace cudnn-doctor layers --beside /opt/cudnn-shim/lib
                              whether a program with this drop-in would be traced")]
    Layers(cmd::layers::Arguments),
    /// Print the data behind the other commands: drivers, GPUs, releases, known issues, and the codes of findings.
    Facts(cmd::facts::Arguments),
    /// Query NVML, for `check`.
    #[command(name = check::machine::COMMAND, hide = true)]
    InternalMachine,
    /// Open the driver's library, after a crash of `preload` or `demo`.
    #[command(name = driver::COMMAND, hide = true)]
    InternalDriver,
    /// Load cuDNN, for `check`.
    #[command(name = check::load_test::COMMAND, hide = true)]
    InternalLoad {
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
    /// Replay one graph, for `replay`.
    #[command(name = replay_child::COMMAND, hide = true)]
    InternalReplay { request: PathBuf },
    /// Rebuild plans, for `plans pack`.
    #[command(name = plan_again::COMMAND, hide = true)]
    InternalPlan(plan_again::Arguments),
}

fn main() -> ExitCode {
    cudnn_os::child::prepare();
    let command = command_line::grouped(Arguments::command());
    let arguments = match command.try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            // Handles `--help` and `--version`.
            output::help(&error.render());
            return Outcome::Fine.into();
        }
        Err(error) => {
            let is_json = std::env::args_os().any(|argument| argument == "--json");
            let format = if is_json { Format::Json } else { Format::Text };
            return match command_line::pointer(&error) {
                Some(text) => output::fail(format, text).into(),
                None => output::fail(format, error.render()).into(),
            };
        }
    };
    let format = if arguments.json { Format::Json } else { Format::Text };
    run(arguments, format).unwrap_or_else(|error| output::fail(format, error).into())
}

/// Runs the command and returns the exit status.
fn run(arguments: Arguments, format: Format) -> Result<ExitCode, Box<dyn Error>> {
    let timeouts = Timeouts::new(arguments.timeout.map(Duration::from_secs));
    let command = match arguments.command {
        None => Command::Check(cmd::check::Command::with_evidence(arguments.verbose)),
        Some(_) if arguments.verbose => return Err("error: put --verbose after the name of the subcommand".into()),
        Some(command) => command,
    };
    match command {
        Command::Demo(_) if arguments.json => {
            return Err("demo does not support --json: use the other commands instead".into());
        }
        Command::Run(_) if arguments.json => {
            return Err("run does not support --json: the output comes from the program".into());
        }
        Command::Demo(_) | Command::Preload(_) if !platform::CAN_LOAD => {
            return Err(format!("{}\nhelp: {}", platform::STATIC, platform::STATIC_HELP).into());
        }
        Command::Demo(_) | Command::Preload(_) if !arguments.in_child => return supervise(format, &timeouts),
        _ if arguments.in_child => cudnn_os::child::end_with_parent(),
        _ => {}
    }
    cudnn_os::random::fill(&mut [0; 16])
        .map_err(|error| format!("error: cannot get random numbers from the system: {error}"))?;
    let context = &Context::new();
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
        Command::Errata(arguments) => cmd::errata::run(&arguments, context, &timeouts, format)?,
        Command::Capture(arguments) => cmd::capture::run(&arguments, format)?,
        Command::Plans(arguments) => cmd::plans::run(&arguments, &timeouts, format)?,
        Command::Replay(arguments) => cmd::replay::run(&arguments, &timeouts, format)?,
        Command::Reduce(arguments) => cmd::reduce::run(&arguments, &timeouts, format)?,
        Command::Emit(arguments) => cmd::emit::run(&arguments, format)?,
        Command::Install(arguments) => cmd::install::install(&arguments, context, format)?,
        Command::Uninstall(place) => cmd::install::uninstall(&place, context, format)?,
        Command::Run(arguments) => return cmd::run::run(&arguments, context),
        Command::Facts(arguments) => cmd::facts::run(&arguments, format)?,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "cudnn-doctor", &mut text);
            output::generated(&text);
            Outcome::Fine
        }
        Command::Man { subcommand } => manual(subcommand.as_deref())?,
        Command::InternalMachine => return Ok(check::machine::run_child()),
        Command::InternalDriver => return Ok(driver::run_child()),
        Command::InternalLoad { dir, gpu, driver, engines, cuda } => {
            let parts = check::load_test::Parts { convolution: gpu, driver, engines, cuda };
            return Ok(check::load_test::run_child(&dir, &parts));
        }
        Command::InternalReplay { request } => return Ok(replay_child::run_child(&request)),
        Command::InternalPlan(arguments) => return Ok(plan_again::run_child(&arguments)),
    };
    Ok(outcome.into())
}

/// Prints the manual page of the doctor, which lists its subcommands, or of a subcommand such as `plans-list`.
fn manual(subcommand: Option<&str>) -> CommandResult {
    let mut doctor = Arguments::command();
    // Assigns full names to the subcommands.
    doctor.build();
    let page = match subcommand {
        None => clap_mangen::Man::new(doctor),
        Some(name) => {
            let of_subcommand = || {
                let (of, name) = name.split_once('-')?;
                doctor.find_subcommand(of)?.find_subcommand(name)
            };
            let command = doctor.find_subcommand(name).or_else(of_subcommand);
            let command = command.ok_or_else(|| format!("there is no subcommand {name:?}; see `cudnn-doctor help`"))?;
            clap_mangen::Man::new(command.clone()).title(format!("cudnn-doctor-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text)?;
    output::generated(&text);
    Ok(Outcome::Fine)
}

/// Runs the command in a child process, because a damaged cuDNN may crash it.
fn supervise(format: Format, timeouts: &Timeouts) -> Result<ExitCode, Box<dyn Error>> {
    let ended = subprocess::supervise(&format!("--{IN_CHILD}"), timeouts)
        .map_err(|error| format!("cannot start a child process: {error}"))?;
    if let End::Exited { code: Some(code), .. } = &ended.end
        && let Ok(code) = u8::try_from(*code)
    {
        return Ok(ExitCode::from(code));
    }
    let verb = if ended.end.is_hang() { "hung" } else { "crashed" };
    let how = format!("the process {}{}", ended.end.failure().unwrap_or_default(), ended.during());
    let text = if let Some(reason) = ended.lack_of_memory {
        format!("error: {how}\nnote: {reason}\nhelp: {}", platform::MEMORY_HELP)
    } else if let Some(fault) = driver::fault(&ended, timeouts) {
        format!("error: the driver {verb}: {how}\nnote: {fault}\nhelp: {}", driver::HELP)
    } else {
        format!("error: cuDNN {verb}: {how}\nhelp: `{} check` shows what is wrong", shell::doctor())
    };
    output::fail(format, text);
    Ok(Outcome::Errors.into())
}
