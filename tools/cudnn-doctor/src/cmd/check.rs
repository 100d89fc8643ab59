//! `check`: prints the diagnosis of this machine.

use std::path::PathBuf;

use cudnn_loader::Function;
use cudnn_probe::packages::{CUDA_MAJORS, python_problem};
use cudnn_probe::{Version, VersionError};
use serde_json::{Value, json};

use super::findings;
use crate::check::kernels::description;
use crate::check::{Diagnosis, Finding, Requested, Severity, diagnose};
use crate::context::Context;
use crate::cudnn_file::drop_in_before;
use crate::escape::Printable;
use crate::framework_run::{Framework, Run};
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln};
use crate::platform::CAN_LOAD;
use crate::python::{Python, no_python};
use crate::shell::command_for_environment;
use crate::subprocess::Patience;

/// The options of `check`.
#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Do not load cuDNN: read files only.
    #[arg(long)]
    no_load: bool,
    /// Also run the convolution of `demo`, if there is a GPU.
    #[arg(long, conflicts_with = "no_load")]
    gpu: bool,
    /// Also compare the sha256 of each library with the record of the wheel that installed it. Reads all files, which
    /// takes seconds.
    #[arg(long)]
    verify: bool,
    /// Also run this framework: a convolution, an attention and an RNN step, and explain what fails. Can be repeated.
    #[arg(long, value_name = "FRAMEWORK", conflicts_with = "no_load")]
    run: Vec<Framework>,
    /// The environment to check, or its Python, with which --run runs. Default: the active environment.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The oldest cuDNN that the program can use: 9.3.0, or 9 for any cuDNN 9.
    #[arg(long, value_name = "VERSION", value_parser = minimum)]
    minimum: Option<Version>,
    /// The CUDA major that the program is built for: 12.
    #[arg(long, value_name = "MAJOR", value_parser = cuda_major)]
    cuda: Option<u32>,
    /// A function of cuDNN that the program calls. Can be repeated.
    #[arg(long, value_name = "NAME", value_parser = function)]
    function: Vec<Function>,
    /// A program or library, in any language: would it find a cuDNN that has what it needs?
    #[arg(long = "for", value_name = "PROGRAM")]
    program: Option<PathBuf>,
}

fn function(name: &str) -> Result<Function, String> {
    Function::from_name(name).ok_or_else(|| "cuDNN 9 has no public function with this name".into())
}

/// A version with one to four numbers: wheels have a fourth, which counts their builds.
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

pub(crate) fn run(arguments: &Arguments, context: &Context, patience: &Patience, format: Format) -> Outcome {
    let requested = Requested {
        minimum: arguments.minimum,
        cuda_major: arguments.cuda,
        functions: arguments.function.clone(),
        load: !arguments.no_load,
        convolution: arguments.gpu,
        verify: arguments.verify,
        program: arguments.program.clone(),
        frameworks: arguments.run.clone(),
    };
    // The environment that is judged is the one whose Python is run.
    let named = arguments.python.as_deref();
    let is_about_python = named.is_some() || !requested.frameworks.is_empty();
    let python = if is_about_python { Python::find(named, &context.search) } else { None };
    // A run reports an interpreter that is missing.
    let is_usable = |python: &Python| {
        !requested.frameworks.is_empty() || python.program.is_file() || python_problem(&python.root).is_some()
    };
    if let Some(named) = named
        && !python.as_ref().is_some_and(is_usable)
    {
        return fail(format, no_python(named));
    }
    let of_python = python.map(|python| context.of_python(python, named.is_some()));
    let diagnosis = diagnose(of_python.as_ref().unwrap_or(context), &requested, patience);
    match format {
        Format::Json => document(&value(&diagnosis)),
        Format::Text => text(&diagnosis),
    }
    if diagnosis.findings.iter().any(Finding::is_of_doctor) {
        return Outcome::Failed;
    }
    findings::outcome(&diagnosis.findings)
}

fn value(diagnosis: &Diagnosis) -> Value {
    let Diagnosis { machine, inactive, report, convolution, runs, verified, findings, .. } = diagnosis;
    json!({
        "schema": SCHEMA,
        "machine": machine.value(),
        "inactive_environment": inactive.as_ref().map(|root| root.to_string_lossy()),
        "installation": report.as_ref().map(|report| report.dir.to_string_lossy()),
        "version": report.as_ref().and_then(|report| report.version).map(|version| version.to_string()),
        "drop_in": report.as_ref().and_then(drop_in_before),
        "convolution": convolution,
        "runs": runs.iter().map(Run::value).collect::<Vec<Value>>(),
        "verified": verified.as_deref().unwrap_or_default(),
        "findings": findings.iter().map(Finding::value).collect::<Vec<Value>>(),
    })
}

fn text(diagnosis: &Diagnosis) {
    let Diagnosis { machine, inactive, report, program, convolution, runs, verified, findings } = diagnosis;
    if let Some(root) = inactive {
        let (root, command) = (root.printable(), command_for_environment(root));
        outln!("note    {root} is not active, so this report does not cover it. To check it: {command}");
    }
    match &machine.driver {
        Some(driver) => outln!("driver  {}", driver.printable()),
        None => match &machine.driver_text {
            Some(text) => outln!("driver  unknown: NVML states no version, but {}", text.printable()),
            None if !CAN_LOAD => outln!("driver  unknown: a static cudnn-doctor cannot ask NVML"),
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
        outln!("cuDNN   {version}{cuda}, {}{arm}, in {}", report.variant, report.dir.printable());
    }
    if let Some(version) = report.as_ref().and_then(drop_in_before) {
        outln!("        in front of it: the drop-in {version}");
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
    findings::print(findings);
    if findings.iter().all(|finding| finding.kind.severity == Severity::Note) {
        outln!("\nNothing is wrong.");
    }
}
