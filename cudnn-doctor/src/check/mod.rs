//! `check`: is this machine able to run programs that use cuDNN, and if not, what is in the way? Everything is read
//! first; cuDNN is loaded last, in a process of its own.

mod cure;
mod finding;
mod installation;
mod linker;
pub(crate) mod loading;
pub(crate) mod machine;
mod needs;

use std::path::PathBuf;

use cudnn_loader::Function;
use cudnn_probe::{
    DIR_VARIABLE, Host, InstallationReport, Library, ProbeError, RejectedCandidate, Requirements, Search, Version,
    inventory, select,
};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, Printable, coloured, document, outln};
use finding::{Finding, NO_CUDNN, REFUSED, SEVERAL};

use finding::Severity;
pub(crate) use finding::{FINDINGS, FindingKind};
use machine::Machine;

/// The options of `check`.
#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Do not load cuDNN: only read.
    #[arg(long)]
    no_load: bool,
    /// Also run the demo's convolution, where there is a GPU.
    #[arg(long, conflicts_with = "no_load")]
    gpu: bool,
    /// The oldest cuDNN that the program can use: 9.3.0.
    #[arg(long, value_name = "VERSION")]
    minimum: Option<Version>,
    /// The CUDA major that the program is built for: 12.
    #[arg(long, value_name = "MAJOR")]
    cuda: Option<u32>,
    /// A function of cuDNN's that the program calls. May be given several times.
    #[arg(long, value_name = "NAME", value_parser = function)]
    function: Vec<Function>,
}

fn function(name: &str) -> Result<Function, String> {
    Function::from_name(name).ok_or_else(|| "cuDNN 9 has no public function of this name".into())
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let environment = Host::current().without_executable();
    let search = Search::new(environment.clone());
    let machine = Machine::detect(&environment);
    let found = select(&search, &Requirements::default());
    let report = found.installation.as_ref().and_then(|one| InstallationReport::read(&one.dir, &environment));
    let mut findings = rejected(&found.rejected);
    let mut convolution = Vec::new();
    match &report {
        None => findings.push(none(&search, &found.rejected)),
        Some(report) => {
            findings.extend(several(&search, &environment, report));
            findings.extend(needs::findings(arguments, &search, found.installation.as_ref(), report));
            findings.extend(installation::findings(report, &machine));
            findings.extend(linker::findings(report, &environment));
            if !arguments.no_load {
                let loaded = loading::load(&report.dir, arguments.gpu);
                findings.extend(loaded.findings);
                convolution = loaded.said;
            }
        }
    }
    findings.extend(installation::of_driver(&machine));
    findings.sort_by(|a, b| b.kind.severity.cmp(&a.kind.severity).then(a.kind.code.cmp(b.kind.code)));
    match format {
        Format::Json => document(&json!({
            "schema": 1,
            "machine": machine.value(),
            "installation": report.as_ref().map(|report| report.dir.to_string_lossy()),
            "version": report.as_ref().and_then(|report| report.version).map(|version| version.to_string()),
            "convolution": convolution,
            "findings": findings.iter().map(Finding::value).collect::<Vec<Value>>(),
        })),
        Format::Text => text(&machine, report.as_ref(), &convolution, &findings),
    }
    match findings.iter().map(|finding| finding.kind.severity).max() {
        Some(Severity::Problem) => Outcome::Problems,
        Some(Severity::Warning) => Outcome::Warnings,
        Some(Severity::Note) | None => Outcome::Fine,
    }
}

/// Folders that hold something that cannot be used.
fn rejected(considered: &[RejectedCandidate]) -> Vec<Finding> {
    let is_something =
        |one: &&RejectedCandidate| one.error.help().is_some() && !matches!(one.error, ProbeError::OtherMajor { .. });
    let finding = |one: &RejectedCandidate| {
        Finding::new(REFUSED, format!("{} {}", what(one).printable(), one.error))
            .note(format!("it was looked at because of: {}", one.candidate.origin))
            .help(one.error.help().unwrap_or_default())
    };
    considered.iter().filter(is_something).map(finding).collect()
}

/// The file that speaks against the folder, or the folder.
fn what(considered: &RejectedCandidate) -> PathBuf {
    let graph = considered.candidate.dir.join(Library::Graph.file_name());
    if graph.symlink_metadata().is_ok() { graph } else { considered.candidate.dir.clone() }
}

fn none(search: &Search, considered: &[RejectedCandidate]) -> Finding {
    let finding = Finding::new(NO_CUDNN, "no cuDNN 9 that can be used is installed");
    if let Some(named) = search.explicit_candidate() {
        let refusal = considered.first().map_or(String::new(), |one| format!(" {}", one.error));
        return finding
            .note(format!(
                "{} names {}, which{refusal}; nothing else is looked at",
                named.origin,
                named.dir.printable()
            ))
            .help(format!("unset {DIR_VARIABLE}, or set it to the folder that holds libcudnn_graph.so.9"));
    }
    let older = considered.iter().find(|one| matches!(one.error, ProbeError::OtherMajor { .. }));
    let finding = older
        .iter()
        .fold(finding, |finding, one| finding.note(format!("{} {}", one.candidate.dir.printable(), one.error)));
    let looked: Vec<String> = considered.iter().map(|one| one.candidate.dir.printable()).collect();
    finding
        .note(format!("looked into {} folders: {}", looked.len(), looked.join(", ")))
        .help("pip install nvidia-cudnn-cu12, in the active virtual environment; or set CUDNN_LOADER_DIR to its folder")
}

fn several(search: &Search, environment: &Host, used: &InstallationReport) -> Option<Finding> {
    let others = inventory(search, environment, &[]).into_iter().filter(|other| other.report.dir != used.dir);
    let others: Vec<String> = others
        .map(|other| {
            let version = other.report.version.map_or(format!("{}", other.report.major), |version| version.to_string());
            let origin = other.origin().map_or(String::new(), ToString::to_string);
            format!("also here: {version} in {} ({origin})", other.report.dir.printable())
        })
        .collect();
    let (first, rest) = others.split_first()?;
    let what = format!("{} cuDNNs are installed; the one in {} would be used", others.len() + 1, used.dir.printable());
    let finding = Finding::new(SEVERAL, what).note(first.clone());
    let finding = rest.iter().fold(finding, |finding, other| finding.note(other.clone()));
    Some(finding.help("cudnn-doctor list shows them all; CUDNN_LOADER_DIR pins one for this project's loader"))
}

fn text(machine: &Machine, report: Option<&InstallationReport>, convolution: &[String], findings: &[Finding]) {
    match &machine.driver {
        Some(driver) => outln!("driver  {driver}"),
        None => outln!("driver  none, or none that NVML can talk to"),
    }
    for gpu in &machine.gpus {
        outln!("GPU     {} (compute capability {})", gpu.name, gpu.capability());
    }
    if let Some(report) = report {
        let version = report.version.map_or("?".into(), |version| version.to_string());
        let cuda = report.cuda().unwrap_or("?".into());
        outln!("cuDNN   {version} for CUDA {cuda}, {}, in {}", report.variant, report.dir.printable());
    }
    for line in convolution {
        outln!("{line}");
    }
    for finding in findings {
        let severity = coloured(finding.kind.severity.word(), finding.kind.severity.colour());
        outln!("\n{severity} {}: {}", finding.kind.code, finding.what);
        for why in &finding.notes {
            outln!("    {why}");
        }
        if !finding.help.is_empty() {
            outln!("  > {}", finding.help);
        }
    }
    if findings.iter().all(|finding| finding.kind.severity == Severity::Note) {
        outln!("\nNothing is wrong.");
    }
}
