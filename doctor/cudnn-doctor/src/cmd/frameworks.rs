//! `frameworks`: shows which cuDNN the frameworks of a Python environment would load.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, outln};
use cudnn_cli::subprocess::Timeouts;
use cudnn_cli::table::{Table, table};
use cudnn_frameworks::{
    Comparison, Damaged, Depth, Environment, Framework, OpenedFile, Pin, PinState, Unlisted, in_parallel, is_cudnn,
    survey_to,
};
use cudnn_probe::Os;
use cudnn_rules::check::frameworks::{FrameworkReport, check_frameworks, how, how_in_short, release, source};
use cudnn_rules::context::Context;
use cudnn_rules::dependencies::with_canonical_dir;
use serde_json::{Value, json};

use super::findings::{self, ReportOptions};
use super::prose::Prose;
use crate::observe::machine::detect;

const DEPTH: Depth = Depth { kernels: true, unlisted: true, metadata: true };

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The roots of Python environments, such as virtual or conda environments or `/usr`. Default: all active
    /// environments.
    #[arg(value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Also print the evidence for findings, and where to read more.
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, timeouts: &Timeouts, format: Format) -> CommandResult {
    let machine = detect(&context.host, timeouts);
    let (roots, mut errors) = roots(&arguments.roots);
    let host = &context.host;
    let check =
        |environment: &Environment| check_frameworks(Arc::new(survey_to(environment, host, DEPTH)), &machine, host);
    let mut reports: Vec<FrameworkReport> = if arguments.roots.is_empty() {
        in_parallel(&Environment::active(&context.search), check)
    } else {
        in_parallel(&roots, |root| check(&Environment::at(root, host)))
    };
    reports.retain(|FrameworkReport { survey, .. }| {
        let is_none = survey.is_no_environment && !roots.is_empty();
        if is_none {
            let root = survey.environment.root.printable();
            errors.push(format!("no Python environment: {root} (neither a Python nor a package is there)"));
        }
        !is_none
    });
    let error = (!errors.is_empty()).then(|| errors.join("; "));
    if let Some(error) = error.as_ref().filter(|_| reports.is_empty()) {
        return Err(error.as_str().into());
    }
    let outcome = error.map_or_else(|| Ok(findings::outcome(reports.iter().flat_map(|report| &report.findings))), Err);
    let keys = || json!({ "environments": reports.iter().map(value).collect::<Vec<Value>>() });
    Ok(format.conclude(outcome, keys, || text(&reports, !roots.is_empty(), arguments.verbose)))
}

/// Returns the distinct directories, and an error message for each remaining path.
fn roots(paths: &[PathBuf]) -> (Vec<&PathBuf>, Vec<String>) {
    let (mut roots, mut missing, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    for path in paths {
        match cudnn_probe::canonicalize(path) {
            Ok(real) if real.is_dir() => {
                if known.insert(real) {
                    roots.push(path);
                }
            }
            _ => missing.push(format!("no such directory: {}", path.printable())),
        }
    }
    (roots, missing)
}

/// Prints the reports. Environments without frameworks are omitted unless they were named, or no other exists.
fn text(reports: &[FrameworkReport], are_named: bool, is_verbose: bool) {
    let options = ReportOptions { is_verbose, prose: &Prose::for_home() };
    let has_frameworks = |report: &&FrameworkReport| {
        !report.survey.frameworks.is_empty() || !report.survey.unlisted.is_empty() || !report.findings.is_empty()
    };
    let are_all_shown = are_named || !reports.iter().any(|report| has_frameworks(&report));
    let shown = reports.iter().filter(|report| are_all_shown || has_frameworks(report));
    for (index, FrameworkReport { survey, findings: found, plan }) in shown.enumerate() {
        if index > 0 {
            outln!("");
        }
        outln!("{}", survey.environment.root.printable());
        match survey.frameworks.as_slice() {
            [] => outln!("  no framework was found here"),
            frameworks => outln!("{}", framework_table(frameworks)),
        }
        for Unlisted { distribution, opens, .. } in &survey.unlisted {
            let name = format!("{} {}", distribution.name, distribution.version).printable();
            let gets = opens.cudnn.first().map(|opened| with_canonical_dir(&opened.path).printable());
            outln!("  {name} uses cuDNN, too{}", gets.map_or(String::new(), |file| format!(", and gets {file}")));
        }
        findings::print(found, plan, &options);
    }
    findings::print_hint(reports.iter().flat_map(|report| &report.findings), &options);
    if reports.is_empty() {
        outln!("No Python environment was found. Name the root of one.");
    }
}

fn framework_table(frameworks: &[Framework]) -> Table {
    let mut table = table(["framework", "CUDA", "accepts cuDNN", "gets", "kernels for", "from"]);
    for framework in frameworks {
        let built = &framework.built_for;
        let opens = &framework.opens;
        let is_cpu = built.uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value);
        let gets = opens.cudnn.first();
        let version = opens.version();
        let loader = framework.kind.cudnn_loader();
        let is_of_windows =
            || framework.os == Os::Windows && framework.kind.without_gpu_on_windows(&framework.version).is_some();
        table.add_row([
            format!("{} {}", framework.kind.name, framework.version).printable(),
            match (&built.rocm, &built.cuda) {
                (Some(rocm), _) => format!("ROCm {}", rocm.value).trim_end().printable(),
                (None, _) if is_cpu => "CPU only".into(),
                (None, Some(cuda)) => release(cuda.value.0, cuda.value.1),
                (None, None) => "?".into(),
            },
            match &built.cudnn {
                _ if is_cpu || opens.needs_none => "none".into(),
                Some(wanted) => match framework.kind.comparison {
                    Comparison::Major => format!("{}", wanted.value.major),
                    Comparison::Minor => format!(">= {}.{}", wanted.value.major, wanted.value.minor),
                    _ => format!(">= {}", wanted.value),
                },
                None => loader.map_or("not recorded in any file".into(), |loader| format!("as {}", loader.name)),
            },
            match (gets, version) {
                (Some(_), None) if opens.has_drop_in => "the drop-in".into(),
                (Some(_), Some(version)) => version.to_string(),
                (Some(_), None) => "?".into(),
                (None, _) if is_cpu || opens.needs_none => "-".into(),
                (None, _) if !opens.half_searched.is_empty() || opens.is_unexamined => "unknown".into(),
                (None, _) if opens.users.is_empty() => "?".into(),
                (None, _) => "not found".into(),
            },
            if built.compiles_at_run_time { "any (compiles)".into() } else { kernels_for(framework).join(" ") },
            match gets {
                Some(opened) => {
                    let how = loader.map_or(how_in_short(opened), |loader| loader.name);
                    format!("{} ({how})", with_canonical_dir(&opened.path).printable())
                }
                None if built.rocm.is_some() => "built for AMD's ROCm: does not use cuDNN".into(),
                None if is_cpu && is_of_windows() => "no build for Windows uses a GPU".into(),
                None if is_cpu => "built for the CPU: does not use cuDNN".into(),
                None if opens.is_unexamined => "the libraries it loads on Windows are unknown".into(),
                None => String::new(),
            },
        ]);
    }
    table
}

fn value(report: &FrameworkReport) -> Value {
    let FrameworkReport { survey, findings, plan } = report;
    json!({
        "root": survey.environment.root.to_string_lossy(),
        "python": survey.environment.python.map(|(major, minor)| format!("{major}.{minor}")),
        "frameworks": survey.frameworks.iter().map(framework_value).collect::<Vec<Value>>(),
        "unlisted": survey.unlisted.iter().map(unlisted_value).collect::<Vec<Value>>(),
        "findings": findings::value(findings, plan),
        "plan": plan.value(),
    })
}

fn framework_value(framework: &Framework) -> Value {
    let Framework { kind, built_for: built, opens, .. } = framework;
    let damaged = |all: &[Damaged]| {
        let value = |damaged: &Damaged| json!({ "file": damaged.path.to_string_lossy(), "reason": damaged.reason });
        all.iter().map(value).collect::<Vec<_>>()
    };
    let (missing_cudnn, missing): (Vec<&String>, Vec<&String>) = opens.missing.iter().partition(|name| is_cudnn(name));
    let requires = |pin: &Pin| {
        let installed = match &pin.state {
            PinState::Met(version) | PinState::OtherVersion(version) => Some(version),
            _ => None,
        };
        let is_met = matches!(pin.state, PinState::Met(_));
        json!({ "requirement": pin.requirement, "extra": pin.extra, "met": is_met, "installed": installed })
    };
    json!({
        "id": kind.id,
        "name": kind.name,
        "version": framework.version,
        "package": framework.distribution.name,
        "directory": framework.dir.as_ref().map(|dir| dir.to_string_lossy()),
        "uses_gpu": built.uses_gpu.as_ref().map(|uses_gpu| uses_gpu.value),
        "rocm": built.rocm.as_ref().map(|rocm| json!({
            "release": Some(&rocm.value).filter(|release| !release.is_empty()),
            "source": source(&rocm.source),
        })),
        "cuda": built.cuda.as_ref().map(|cuda| json!({
            "release": release(cuda.value.0, cuda.value.1),
            "source": source(&cuda.source),
        })),
        "cudnn_minimum": built.cudnn.as_ref().map(|cudnn| json!({
            "version": cudnn.value.to_string(),
            "source": source(&cudnn.source),
        })),
        "kernels_for": kernels_for(framework),
        "compiles_at_run_time": built.compiles_at_run_time,
        "needs_cudnn": !opens.needs_none,
        "uses_cudnn_of": kind.cudnn_loader().map(|loader| loader.id),
        "is_unexamined": opens.is_unexamined,
        "loads": opens.cudnn.iter().map(opened_value).collect::<Vec<_>>(),
        "missing": missing,
        "missing_cudnn": missing_cudnn,
        "damaged_cudnn": damaged(&opens.damaged),
        "damaged": damaged(&opens.damaged_others),
        "half_searched": texts(&opens.half_searched),
        "requires": framework.pins.iter().map(requires).collect::<Vec<_>>(),
    })
}

fn kernels_for(framework: &Framework) -> Vec<String> {
    framework.built_for.gpu_code.iter().flat_map(|code| &code.value).map(ToString::to_string).collect()
}

fn texts(paths: &[PathBuf]) -> Vec<Cow<'_, str>> {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}

fn opened_value(opened: &OpenedFile) -> Value {
    let version = opened.version.map(|version| version.to_string());
    json!({ "file": opened.path.to_string_lossy(), "version": version, "rule": how(opened) })
}

fn unlisted_value(Unlisted { distribution, opens, .. }: &Unlisted) -> Value {
    json!({
        "package": distribution.name,
        "version": distribution.version,
        "libraries": texts(&opens.users),
        "loads": opens.cudnn.iter().map(opened_value).collect::<Vec<_>>(),
    })
}
