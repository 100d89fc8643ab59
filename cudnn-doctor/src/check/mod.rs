//! `check`: is this machine able to run programs that use cuDNN, and if not, what is in the way? Everything is read
//! first; cuDNN is loaded last, in a process of its own.

mod finding;
mod installation;
mod linker;
pub(crate) mod loading;
mod machine;

use cudnn_probe::{Considered, Environment, Refusal, Report, Requirements, Search, find, survey};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, json, say};
use finding::{Finding, NO_CUDNN, REFUSED, SEVERAL};

pub(crate) use finding::{KINDS, Kind, Severity};
use machine::Machine;

/// The options of `check`.
#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Do not load cuDNN: only read.
    #[arg(long)]
    no_load: bool,
    /// Also run the demo's convolution, where there is a GPU.
    #[arg(long)]
    gpu: bool,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let environment = Environment::current().without_executable();
    let search = Search::new(environment.clone());
    let machine = Machine::look();
    let found = find(&search, &Requirements::default());
    let report = found.installation.as_ref().and_then(|one| Report::of(&one.folder, &environment));
    let mut findings = passed_over(&found.considered);
    match &report {
        None => findings.push(none(&found.considered)),
        Some(report) => {
            findings.extend(several(&search, &environment, report));
            findings.extend(installation::findings(report, &machine));
            findings.extend(linker::findings(report, &environment));
            if !arguments.no_load {
                findings.extend(loading::findings(&report.folder));
            }
        }
    }
    findings.extend(installation::of_driver(&machine));
    findings.sort_by(|a, b| b.kind.severity.cmp(&a.kind.severity).then(a.kind.code.cmp(b.kind.code)));
    match format {
        Format::Json => json(&json!({
            "schema": 1,
            "machine": machine.value(),
            "installation": report.as_ref().map(|report| report.folder.to_string_lossy()),
            "version": report.as_ref().and_then(|report| report.version).map(|version| version.to_string()),
            "findings": findings.iter().map(Finding::value).collect::<Vec<Value>>(),
        })),
        Format::Text => text(&machine, report.as_ref(), &findings),
    }
    let outcome = Outcome::of(findings.iter().map(|finding| finding.kind.severity));
    match (arguments.gpu, format) {
        (true, Format::Text) if outcome != Outcome::Problems => match crate::demo::convolve() {
            Ok(()) => outcome,
            Err(error) => {
                say!("\nThe convolution failed: {error}");
                Outcome::Problems
            }
        },
        _ => outcome,
    }
}

/// Folders that hold something that cannot be used.
fn passed_over(considered: &[Considered]) -> Vec<Finding> {
    let is_something =
        |one: &&Considered| one.refusal.cure().is_some() && !matches!(one.refusal, Refusal::OtherMajor { .. });
    let finding = |one: &Considered| {
        Finding::new(REFUSED, format!("the cuDNN in {} {}", one.candidate.folder.display(), one.refusal))
            .because(format!("it was looked at because of: {}", one.candidate.origin))
            .cured_by(one.refusal.cure().unwrap_or_default())
    };
    considered.iter().filter(is_something).map(finding).collect()
}

fn none(considered: &[Considered]) -> Finding {
    let older = considered.iter().find(|one| matches!(one.refusal, Refusal::OtherMajor { .. }));
    let mut finding = Finding::new(NO_CUDNN, "no cuDNN 9 that can be used is installed");
    if let Some(one) = older {
        finding = finding.because(format!("{} {}", one.candidate.folder.display(), one.refusal));
    }
    let looked: Vec<String> = considered.iter().map(|one| one.candidate.folder.display().to_string()).collect();
    finding.because(format!("looked into {} folders: {}", looked.len(), looked.join(", "))).cured_by(
        "pip install nvidia-cudnn-cu12, in the active virtual environment; or set CUDNN_LOADER_DIR to its folder",
    )
}

fn several(search: &Search, environment: &Environment, used: &Report) -> Option<Finding> {
    let others = survey(search, environment, &[]).into_iter().filter(|other| other.report.folder != used.folder);
    let others: Vec<String> = others
        .map(|other| {
            let version = other.report.version.map_or(format!("{}", other.report.major), |version| version.to_string());
            let origin = other.origin().map_or(String::new(), ToString::to_string);
            format!("also here: {version} in {} ({origin})", other.report.folder.display())
        })
        .collect();
    let (first, rest) = others.split_first()?;
    let what = format!("{} cuDNNs are installed; the one in {} would be used", others.len() + 1, used.folder.display());
    let finding = Finding::new(SEVERAL, what).because(first.clone());
    let finding = rest.iter().fold(finding, |finding, other| finding.because(other.clone()));
    Some(finding.cured_by("cudnn-doctor list shows them all; CUDNN_LOADER_DIR pins one for this project's loader"))
}

fn text(machine: &Machine, report: Option<&Report>, findings: &[Finding]) {
    match &machine.driver {
        Some(driver) => say!("driver  {driver}"),
        None => say!("driver  none, or none that NVML can talk to"),
    }
    for gpu in &machine.gpus {
        say!("GPU     {} (compute capability {})", gpu.name, gpu.capability());
    }
    if let Some(report) = report {
        let version = report.version.map_or("?".into(), |version| version.to_string());
        let cuda = report.cuda().unwrap_or("?".into());
        say!("cuDNN   {version} for CUDA {cuda}, {}, in {}", report.flavour, report.folder.display());
    }
    for finding in findings {
        say!("\n{} {}: {}", finding.kind.severity.word(), finding.kind.code, finding.what);
        for why in &finding.why {
            say!("    {why}");
        }
        if !finding.cure.is_empty() {
            say!("  > {}", finding.cure);
        }
    }
    if findings.iter().all(|finding| finding.kind.severity == Severity::Note) {
        say!("\nNothing is wrong.");
    }
}
