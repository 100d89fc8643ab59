//! `frameworks`: what the frameworks of Python environments were built for, and which cuDNN each would load.

use std::collections::HashSet;
use std::path::PathBuf;

use comfy_table::Table;
use cudnn_frameworks::{Comparison, Depth, Environment, Framework, Opened, PinState, Unlisted};
use cudnn_probe::Os;
use serde_json::{Value, json};

use super::findings;
use crate::check::Finding;
use crate::check::frameworks::{Judged, how, how_in_short, is_cudnn, judge, release, source};
use crate::check::machine::Machine;
use crate::context::Context;
use crate::dependency_report::with_canonical_dir;
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln, remark};
use crate::subprocess::Patience;
use crate::table::table;

const DEPTH: Depth = Depth { kernels: true, unlisted: true, metadata: true };

/// The options of `frameworks`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The roots of Python environments: virtual, conda, or `/usr`. Default: those that are active.
    #[arg(value_name = "DIR")]
    roots: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, patience: &Patience, format: Format) -> Outcome {
    let machine = Machine::detect(&context.host, patience);
    let (roots, missing) = roots(&arguments.roots);
    let error = (!missing.is_empty()).then(|| format!("no such directory: {}", missing.join(", ")));
    if let Some(error) = error.as_ref().filter(|_| roots.is_empty()) {
        return fail(format, error);
    }
    let environments = if roots.is_empty() {
        Environment::active(&context.search)
    } else {
        roots.iter().map(|root| Environment::at(root, &context.host)).collect()
    };
    let mut judged: Vec<Judged> =
        environments.iter().map(|environment| judge(environment, &machine, &context.host, DEPTH)).collect();
    let is_none = |judged: &&Judged| judged.survey.is_no_environment && !roots.is_empty();
    let none: Vec<String> =
        judged.iter().filter(is_none).map(|judged| judged.survey.environment.root.printable()).collect();
    judged.retain(|judged| !is_none(&judged));
    let none = (!none.is_empty())
        .then(|| format!("no Python environment: {} (neither a Python nor a package is there)", none.join(", ")));
    let errors: Vec<String> = error.into_iter().chain(none).collect();
    let error = (!errors.is_empty()).then(|| errors.join("; "));
    if let Some(error) = error.as_ref().filter(|_| judged.is_empty()) {
        return fail(format, error);
    }
    match format {
        Format::Json => {
            let environments = judged.iter().map(value).collect::<Vec<Value>>();
            document(&match &error {
                Some(error) => json!({ "schema": SCHEMA, "environments": environments, "error": error }),
                None => json!({ "schema": SCHEMA, "environments": environments }),
            });
        }
        Format::Text => text(&judged),
    }
    if let Some(error) = error {
        remark(error);
        return Outcome::Failed;
    }
    findings::outcome(judged.iter().flat_map(|judged| &judged.findings))
}

/// The directories among these paths, each once, whatever its names; and the paths that are none.
fn roots(paths: &[PathBuf]) -> (Vec<&PathBuf>, Vec<String>) {
    let (mut roots, mut missing, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    for path in paths {
        match cudnn_probe::canonicalize(path) {
            Ok(real) if real.is_dir() => {
                if known.insert(real) {
                    roots.push(path);
                }
            }
            _ => missing.push(path.printable()),
        }
    }
    (roots, missing)
}

fn text(judged: &[Judged]) {
    for (index, Judged { survey, findings: found }) in judged.iter().enumerate() {
        if index > 0 {
            outln!("");
        }
        outln!("{}", survey.environment.root.printable());
        if survey.frameworks.is_empty() {
            outln!("  no framework was found here");
        } else {
            outln!("{}", framework_table(&survey.frameworks));
        }
        for Unlisted { distribution, opens, .. } in &survey.unlisted {
            let name = format!("{} {}", distribution.name, distribution.version).printable();
            let gets = opens
                .cudnn
                .first()
                .map(|opened| format!(", and gets {}", with_canonical_dir(&opened.path).printable()));
            outln!("  {name} uses cuDNN, too{}", gets.unwrap_or_default());
        }
        findings::print(found);
    }
    if judged.is_empty() {
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
        let codes: Vec<String> = built.gpu_code.iter().flat_map(|code| &code.value).map(ToString::to_string).collect();
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
                None => "not stated by any file".into(),
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
            if built.compiles_at_run_time { "any (compiles)".into() } else { codes.join(" ") },
            match gets {
                Some(opened) => format!("{} ({})", with_canonical_dir(&opened.path).printable(), how_in_short(opened)),
                None if built.rocm.is_some() => "built for AMD's ROCm: does not use cuDNN".into(),
                None if is_cpu && framework.os == Os::Windows && has_no_gpu_build(framework) => {
                    "no build for Windows uses a GPU".into()
                }
                None if is_cpu => "built for the CPU: does not use cuDNN".into(),
                None if opens.is_unexamined => "what it loads on Windows is not known".into(),
                None => String::new(),
            },
        ]);
    }
    table
}

fn has_no_gpu_build(framework: &Framework) -> bool {
    framework.kind.without_gpu_on_windows(&framework.version).is_some()
}

fn value(judged: &Judged) -> Value {
    let Judged { survey, findings } = judged;
    json!({
        "root": survey.environment.root.to_string_lossy(),
        "python": survey.environment.python.map(|(major, minor)| format!("{major}.{minor}")),
        "frameworks": survey.frameworks.iter().map(framework_value).collect::<Vec<Value>>(),
        "unlisted": survey.unlisted.iter().map(unlisted_value).collect::<Vec<Value>>(),
        "findings": findings.iter().map(Finding::value).collect::<Vec<Value>>(),
    })
}

fn framework_value(framework: &Framework) -> Value {
    let built = &framework.built_for;
    let opens = &framework.opens;
    json!({
        "id": framework.kind.id,
        "name": framework.kind.name,
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
        "kernels_for": built.gpu_code.iter().flat_map(|code| &code.value).map(ToString::to_string).collect::<Vec<_>>(),
        "compiles_at_run_time": built.compiles_at_run_time,
        "needs_cudnn": !opens.needs_none,
        "is_unexamined": opens.is_unexamined,
        "loads": opens.cudnn.iter().map(opened_value).collect::<Vec<_>>(),
        "missing": opens.missing.iter().filter(|name| !is_cudnn(name)).collect::<Vec<_>>(),
        "missing_cudnn": opens.missing.iter().filter(|name| is_cudnn(name)).collect::<Vec<_>>(),
        "damaged_cudnn": opens.damaged.iter().map(|damaged| json!({
            "file": damaged.path.to_string_lossy(),
            "reason": damaged.reason,
        })).collect::<Vec<_>>(),
        "damaged": opens.damaged_others.iter().map(|damaged| json!({
            "file": damaged.path.to_string_lossy(),
            "reason": damaged.reason,
        })).collect::<Vec<_>>(),
        "half_searched": opens.half_searched.iter().map(|dir| dir.to_string_lossy()).collect::<Vec<_>>(),
        "requires": framework.pins.iter().map(|pin| json!({
            "requirement": pin.requirement,
            "extra": pin.extra,
            "met": matches!(pin.state, PinState::Met(_)),
            "installed": match &pin.state {
                PinState::Met(version) | PinState::OtherVersion(version) => Some(version),
                _ => None,
            },
        })).collect::<Vec<_>>(),
    })
}

fn opened_value(opened: &Opened) -> Value {
    json!({
        "file": opened.path.to_string_lossy(),
        "version": opened.version.map(|version| version.to_string()),
        "rule": how(opened),
    })
}

fn unlisted_value(unlisted: &Unlisted) -> Value {
    json!({
        "package": unlisted.distribution.name,
        "version": unlisted.distribution.version,
        "libraries": unlisted.opens.users.iter().map(|user| user.to_string_lossy()).collect::<Vec<_>>(),
        "loads": unlisted.opens.cudnn.iter().map(opened_value).collect::<Vec<_>>(),
    })
}
