//! `check`: prints the diagnosis of this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{Format, Outcome, fail, outln, remark};
use cudnn_cli::platform::CAN_LOAD;
use cudnn_cli::programs::{doctor, doctor_command};
use cudnn_cli::subprocess::Timeouts;
use cudnn_cli::table::table;
use cudnn_loader::Function;
use cudnn_probe::facts::{Facts, PathFacts};
use cudnn_probe::{Version, VersionError};
use cudnn_rules::check::kernels::description;
use cudnn_rules::check::{FINDINGS, Requested};
use cudnn_rules::context::Context;
use cudnn_rules::cudnn_file::drop_in_before;
use cudnn_rules::drop_in::layers::layers_on;
use cudnn_rules::framework_run::{Run, RunnableFramework};
use cudnn_rules::packages::{CUDA_MAJORS, python_problem};
use cudnn_rules::python::{Python, no_python};
use cudnn_rules::release_facts::in_use;
use cudnn_rules::shell::command_for_environment;
use serde_json::{Value, json};

use super::findings::{self, ReportOptions};
use super::prose::Prose;
use crate::observe::diagnosis::{Diagnosis, diagnose};
use crate::saved_facts;

/// The short names of directories in the report.
const CUDNN_NAME: &str = "<cudnn>";
const ENVIRONMENT_NAME: &str = "<env>";

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// List the codes that `check` can report, with their severities and titles, without checking anything.
    #[arg(long, conflicts_with = "CheckOptions")]
    list: bool,
    /// Also save all facts behind the report to this new file, for a bug report. User names and the host name are
    /// replaced.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    save_facts: Option<PathBuf>,
    /// With --save-facts: keep user names and the host name.
    #[arg(long, requires = "save_facts")]
    with_names: bool,
    /// Recreate the report from a file written by --save-facts, with the options used then. This machine is not
    /// examined.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "save_facts"])]
    facts: Option<PathBuf>,
    #[command(flatten)]
    options: CheckOptions,
}

impl Arguments {
    pub(crate) fn with_evidence(verbose: bool) -> Arguments {
        Arguments { options: CheckOptions { verbose, ..CheckOptions::default() }, ..Arguments::default() }
    }
}

/// The options of `check`, as stored in a file of saved facts.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct SavedOptions {
    #[command(flatten)]
    options: CheckOptions,
}

/// The options shared by `check` and `fix`.
#[derive(clap::Args, Default, PartialEq)]
pub(crate) struct CheckOptions {
    /// Report only findings with these codes: C014,C030. The plan and the exit status ignore all other findings. Can
    /// be repeated.
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = code)]
    pub(super) only: Vec<&'static str>,
    /// Also print the evidence for findings, and where to read more.
    #[arg(long, short)]
    verbose: bool,
    /// Only read files, without loading cuDNN.
    #[arg(long)]
    no_load: bool,
    /// Also run the convolution of `demo`, if there is a GPU.
    #[arg(long, conflicts_with = "no_load")]
    gpu: bool,
    /// Also compare the sha256 of libraries with the records of the wheels that installed them. This reads all files
    /// and takes several seconds.
    #[arg(long)]
    verify: bool,
    /// Also run this framework: a convolution, an attention and an RNN step, with an explanation of failures. Can be
    /// repeated.
    #[arg(long, value_name = "FRAMEWORK", conflicts_with = "no_load", value_parser = framework())]
    run: Vec<RunnableFramework>,
    /// The environment to check, or its Python interpreter, which is also used for --run. Default: the active
    /// environment.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The oldest cuDNN version that the program supports: 9.3.0, or 9 for any cuDNN 9.
    #[arg(long, value_name = "VERSION", value_parser = minimum)]
    minimum: Option<Version>,
    /// The CUDA major version that the program was built for: 12.
    #[arg(long, value_name = "MAJOR", value_parser = cuda_major)]
    cuda: Option<u32>,
    /// A cuDNN function that the program calls. Can be repeated.
    #[arg(long, value_name = "NAME", value_parser = function)]
    function: Vec<Function>,
    /// Check whether this program or library, in any language, would find a suitable cuDNN.
    #[arg(long = "for", value_name = "PROGRAM")]
    program: Option<PathBuf>,
}

fn code(text: &str) -> Result<&'static str, String> {
    let kind = FINDINGS.iter().find(|kind| kind.code.eq_ignore_ascii_case(text));
    kind.map(|kind| kind.code).ok_or_else(|| format!("no finding has this code; `{} check --list` lists all", doctor()))
}

fn framework() -> impl TypedValueParser<Value = RunnableFramework> {
    PossibleValuesParser::new(RunnableFramework::ALL.map(framework_value)).try_map(|name| {
        let is_it = |framework: &RunnableFramework| framework_value(*framework).matches(&name, false);
        RunnableFramework::ALL.into_iter().find(is_it).ok_or("the framework is unknown")
    })
}

fn framework_value(framework: RunnableFramework) -> PossibleValue {
    let value = PossibleValue::new(framework.module()).help(framework.name());
    if framework == RunnableFramework::Torch { value.alias("pytorch") } else { value }
}

fn function(name: &str) -> Result<Function, String> {
    Function::from_name(name).ok_or_else(|| "cuDNN 9 has no public function with this name".into())
}

/// Parses a version with one to four numbers. In wheels, a fourth number counts builds.
fn minimum(text: &str) -> Result<Version, VersionError> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(text) {
        return format!("{text}.0").parse();
    }
    let release = text.rsplit_once('.').filter(|(release, build)| release.split('.').count() == 3 && is_number(build));
    release.map_or(text, |(release, _)| release).parse()
}

fn cuda_major(text: &str) -> Result<u32, String> {
    let major = text.parse().ok().filter(|major| CUDA_MAJORS.contains(major));
    let (first, last) = (CUDA_MAJORS.start(), CUDA_MAJORS.end());
    major.ok_or_else(|| format!("releases of cuDNN 9 are built for CUDA {first} to {last}"))
}

pub(crate) fn run(command: &Arguments, context: &Context, timeouts: &Timeouts, format: Format) -> Outcome {
    if command.list {
        list(format);
        return Outcome::Fine;
    }
    if let Some(file) = &command.facts {
        return from_facts(file, &command.options, timeouts, format);
    }
    let Some(file) = &command.save_facts else {
        return print_pending(report(&command.options, &saved_words(), context, timeouts, format), format);
    };
    let (facts, words) = (Facts::recorder(), saved_words());
    // Create the file first, because a failure must not waste a whole check.
    let output = match saved_facts::create(file) {
        Ok(output) => output,
        Err(error) => return fail(format, format_args!("error: {error}")),
    };
    let reported = facts.within(|| report(&command.options, &words, &Context::current(), timeouts, format));
    match saved_facts::save(output, &facts, &words, command.with_names) {
        Ok(()) => {
            let advice = "Look through it before you publish it: it contains paths and parts of files of this machine.";
            remark(format_args!("\nSaved the facts behind this report to {}. {advice}", file.printable()));
            print_pending(reported, format)
        }
        Err(error) => {
            // An incomplete file would be unreadable, and its name could not be used again.
            let _ = std::fs::remove_file(file);
            let error = format!("error: cannot write {}: {error}", file.printable());
            print_pending(reported.map(|(_, keys)| (Err(error), keys)), format)
        }
    }
}

/// Prints the report for saved facts.
fn from_facts(file: &Path, arguments: &CheckOptions, timeouts: &Timeouts, format: Format) -> Outcome {
    let only_of_look =
        CheckOptions { only: arguments.only.clone(), verbose: arguments.verbose, ..CheckOptions::default() };
    if *arguments != only_of_look {
        return fail(
            format,
            "error: facts come with the options that they were saved with: use only --verbose, --only and --json",
        );
    }
    let saved = match saved_facts::read(file) {
        Ok(saved) => saved,
        Err(error) => return fail(format, format_args!("error: {error}")),
    };
    let mut options = match SavedOptions::try_parse_from(&saved.options) {
        Ok(SavedOptions { options }) => options,
        Err(error) => {
            return fail(format, format_args!("error: {} has unknown options of check: {error}", file.printable()));
        }
    };
    options.verbose = arguments.verbose;
    if !arguments.only.is_empty() {
        options.only.clone_from(&arguments.only);
    }
    if let Some(version) = &saved.other_version {
        remark(format_args!("note: cudnn-doctor {version} saved these facts and may have collected different ones"));
    }
    let reported = saved.facts.within(|| report(&options, &saved.options, &Context::current(), timeouts, format));
    print_pending(reported, format)
}

/// The outcome of the checks with the document to print, or the outcome of the command if the checks failed.
type PendingReport = Result<(Result<Outcome, String>, Value), Outcome>;

fn print_pending(reported: PendingReport, format: Format) -> Outcome {
    match reported {
        Ok((outcome, keys)) => format.conclude(outcome, || keys, || ()),
        Err(outcome) => outcome,
    }
}

/// Runs the checks, and prints the report if it is text. `words` contains the options that determine what to check.
fn report(
    arguments: &CheckOptions,
    words: &[OsString],
    context: &Context,
    timeouts: &Timeouts,
    format: Format,
) -> PendingReport {
    let diagnosis = diagnosis(arguments, context, timeouts, format)?;
    let keys = match format {
        Format::Json => value(&diagnosis),
        Format::Text => {
            if let Some(reason) = in_use().ignored {
                let reset = doctor_command(["facts", "--reset"]);
                remark(format_args!(
                    "note: the stored facts are not used: {}: `{reset}` removes them",
                    reason.printable()
                ));
            }
            text(&diagnosis, arguments, words);
            Value::Null
        }
    };
    Ok((outcome(&diagnosis), keys))
}

/// Returns the options of this `check` command that determine what to check.
fn saved_words() -> Vec<OsString> {
    let mut words = std::env::args_os().skip(1);
    let mut kept = Vec::new();
    let mut has_name = false;
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--save-facts" | "--timeout") => drop(words.next()),
            Some("check") if !std::mem::replace(&mut has_name, true) => {}
            Some("--with-names" | "--json" | "--verbose" | "-v") => {}
            Some(text) if text.starts_with("--save-facts=") || text.starts_with("--timeout=") => {}
            _ => kept.push(word),
        }
    }
    kept
}

fn list(format: Format) {
    let mut table = table(["code", "severity", "title"]);
    for kind in FINDINGS {
        table.add_row([kind.code, kind.severity.as_str(), kind.title()]);
    }
    let checks = || FINDINGS.iter().map(super::facts::finding).collect::<Vec<Value>>();
    format.report(|| json!({ "checks": checks() }), || outln!("{table}"));
}

/// Returns the outcome of a diagnosis, or the reason why the diagnosis is incomplete.
pub(super) fn outcome(diagnosis: &Diagnosis) -> Result<Outcome, String> {
    match diagnosis.findings.iter().find(|finding| finding.is_of_doctor()) {
        Some(finding) => Err(format!("error: the check is incomplete: {}", finding.message)),
        None => Ok(findings::outcome(&diagnosis.findings)),
    }
}

/// Makes the diagnosis that these options request. If this fails, the reason has already been printed.
pub(super) fn diagnosis(
    arguments: &CheckOptions,
    context: &Context,
    timeouts: &Timeouts,
    format: Format,
) -> Result<Diagnosis, Outcome> {
    let requested = Requested {
        minimum: arguments.minimum,
        cuda_major: arguments.cuda,
        functions: arguments.function.clone(),
        load: !arguments.no_load,
        convolution: arguments.gpu,
        verify: arguments.verify,
        program: arguments.program.clone(),
        frameworks: arguments.run.clone(),
        only: arguments.only.clone(),
    };
    // Check the environment of the Python that will be run.
    let named = arguments.python.as_deref();
    let is_about_python = named.is_some() || !requested.frameworks.is_empty();
    let python = if is_about_python { Python::find(named, &context.search) } else { None };
    // The run itself reports a missing interpreter.
    let is_usable = |python: &Python| {
        !requested.frameworks.is_empty() || python.program.leads_to_file() || python_problem(&python.root).is_some()
    };
    if let Some(named) = named
        && !python.as_ref().is_some_and(is_usable)
    {
        return Err(fail(format, no_python(named)));
    }
    let of_python = python.map(|python| context.with_python(python, named.is_some()));
    Ok(diagnose(of_python.as_ref().unwrap_or(context), &requested, timeouts))
}

fn value(diagnosis: &Diagnosis) -> Value {
    let Diagnosis { machine, inactive, report, convolution, runs, verified, findings, plan, .. } = diagnosis;
    json!({
        "machine": machine.value(),
        "inactive_environment": inactive.as_ref().map(|root| root.to_string_lossy()),
        "installation": report.as_ref().map(|report| report.dir.to_string_lossy()),
        "version": report.as_ref().and_then(|report| report.version).map(|version| version.to_string()),
        "drop_in": report.as_ref().and_then(drop_in_before),
        "layers_on": report.as_ref().and_then(layers_on),
        "layer_problems": diagnosis.layer_problems,
        "convolution": convolution,
        "runs": runs.iter().map(Run::value).collect::<Vec<Value>>(),
        "verified": verified.as_deref().unwrap_or_default(),
        "findings": findings::value(findings, plan),
        "plan": plan.value(),
        "after_plan": plan.remaining,
    })
}

/// Returns the short names of the installation's and environment's directories, if they occur repeatedly.
fn prose(diagnosis: &Diagnosis, is_verbose: bool) -> Prose {
    let Diagnosis { report, environment, findings, plan, .. } = diagnosis;
    let messages = findings.iter().map(|finding| &finding.message);
    let notes = findings.iter().filter(|_| is_verbose).flat_map(|finding| &finding.notes);
    let help = plan.advice.iter().flatten().map(|advice| &advice.text);
    let titles = plan.steps.iter().map(|step| &step.title);
    let texts: Vec<&str> = messages.chain(notes).chain(help).chain(titles).map(String::as_str).collect();
    let mut prose = Prose::for_home();
    if let Some(report) = report {
        prose = prose.with(&report.dir, CUDNN_NAME, &texts);
    }
    match environment {
        Some(root) => prose.with(root, ENVIRONMENT_NAME, &texts),
        None => prose,
    }
}

/// Prints the report for a person. `words` contains the options that determined what was checked.
fn text(diagnosis: &Diagnosis, arguments: &CheckOptions, words: &[OsString]) {
    let Diagnosis {
        machine, inactive, environment, report, program, convolution, runs, verified, findings, plan, ..
    } = diagnosis;
    let names = prose(diagnosis, arguments.verbose);
    let home = Prose::for_home();
    if let Some(root) = inactive {
        let (root, command) = (root.printable(), command_for_environment(root));
        outln!("note    {root} is not active, so this report does not cover it. To check it: {command}");
    }
    match &machine.driver {
        Some(driver) => outln!("driver  {}", driver.printable()),
        None => match &machine.driver_text {
            Some(text) => outln!("driver  unknown: NVML reports no version, but {}", text.printable()),
            None if !CAN_LOAD => outln!("driver  unknown: a static cudnn-doctor cannot query NVML"),
            None => outln!("driver  unknown: NVML does not answer"),
        },
    }
    if let Some(library) = machine.compatibility() {
        outln!("        programs use a library for CUDA's forward compatibility: {}", library.printable());
    }
    for gpu in &machine.gpus {
        outln!("GPU     {} (compute capability {})", gpu.name.printable(), gpu.capability());
    }
    if let Some(jetson) = &machine.jetson {
        outln!("machine {}", description(jetson).printable());
    }
    if let Some(report) = report {
        let version = report.version.map_or("of unknown version".into(), |version| version.to_string());
        let cuda = report.cuda().map_or(String::new(), |cuda| format!(" for CUDA {cuda}"));
        let arm = report.arm_variant.map_or(String::new(), |variant| format!(", {variant} build"));
        let dir = home.shorten(&report.dir.printable());
        let name = if names.has(CUDNN_NAME) { format!(" (below: {CUDNN_NAME})") } else { String::new() };
        outln!("cuDNN   {version}{cuda}, {}{arm}, in {dir}{name}", report.variant);
    } else {
        outln!("cuDNN   none that programs can use");
    }
    if let Some(root) = environment.as_ref().filter(|_| names.has(ENVIRONMENT_NAME)) {
        outln!("Python  in {} (below: {ENVIRONMENT_NAME})", home.shorten(&root.printable()));
    }
    if let Some(version) = report.as_ref().and_then(drop_in_before) {
        let layers = report.as_ref().and_then(layers_on);
        let layers = layers.map_or(String::new(), |list| format!(", with the layers {}", list.printable()));
        outln!("        in front of it: the drop-in {version}{layers}");
    }
    for problem in &diagnosis.layer_problems {
        outln!("note    {}", home.shorten(problem));
    }
    if let Some(program) = program {
        outln!("program {program}");
    }
    match verified.as_deref() {
        None => {}
        Some([]) => outln!("verified  no library"),
        Some(names) => outln!("verified  by the sha256 in a wheel's record: {}", names.join(", ")),
    }
    for line in convolution {
        outln!("{}", line.printable());
    }
    for run in runs {
        outln!("");
        run.lines().iter().for_each(|line| outln!("{line}"));
    }
    let options = ReportOptions { is_verbose: arguments.verbose, prose: &names };
    findings::print(findings, plan, &options);
    findings::print_hint(findings, &options);
    let fix = doctor_command(["fix".into(), "--yes".into()].into_iter().chain(words.iter().cloned())).to_string();
    match findings::summary(findings, plan, &fix) {
        Some(summary) if arguments.verbose => outln!("\n{summary}"),
        Some(summary) => outln!("{summary}"),
        None => outln!("\n{}", findings::nothing_wrong(&arguments.only)),
    }
}
