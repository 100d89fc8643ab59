//! `layers`: shows which layers the environment turns on. It reads files without loading them.

use std::path::PathBuf;

use clap::Args;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_probe::layers::{
    LAYERS_FILE, LAYERS_VARIABLE, available_layers, installed_layers, layer_dirs, requested_layers,
};
use cudnn_probe::{facts, shown_path};
use cudnn_rules::context::Context;
use cudnn_rules::drop_in::layers::{LayerAnswer, check_layers, problem_of_list};
use cudnn_rules::drop_in::source;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Also look for layers in this directory, which contains the drop-in or a program that includes cudnn-loader.
    /// Default: the directory of the drop-in that `run` uses, or else of cudnn-doctor.
    #[arg(long, value_name = "DIRECTORY")]
    beside: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> CommandResult {
    let of_drop_in = || Some(source::find(None).ok()?.file.parent()?.to_owned());
    let of_doctor = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
    // A list next to a drop-in applies to the programs that load it.
    let has_list = |dir: &PathBuf| installed_layers(dir).is_some();
    let of_installed =
        || Some(context.selected()?.dir.clone()).filter(|dir| has_list(dir) || problem_of_list(dir).is_some());
    if let Some(dir) = arguments.beside.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(format!("no such directory: {}", dir.printable()).into());
    }
    let named = arguments.beside.as_deref().map(|dir| facts::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    let beside = named.or_else(of_installed).or_else(of_drop_in).or_else(of_doctor);
    let is_variable = context.host.variable(LAYERS_VARIABLE).is_some();
    let problem = beside.as_deref().filter(|_| !is_variable).and_then(problem_of_list);
    let list = beside.as_ref().filter(|dir| !is_variable && has_list(dir)).map(|dir| dir.join(LAYERS_FILE));
    let dirs = layer_dirs(&context.host, beside.as_deref());
    let answers = check_layers(requested_layers(&context.host, beside.as_deref()));
    let available = available_layers(&dirs);
    let variable = || LAYERS_VARIABLE.to_owned();
    let plain = list.as_ref().map_or_else(variable, |file| file.to_string_lossy().into_owned());
    let shown = list.as_ref().map_or_else(variable, |file| shown_path(file).to_string());
    let is_listed = is_variable || list.is_some();
    let shown = is_listed.then_some(&*shown);
    let problem = problem.as_deref();
    format.report(
        || value(&answers, &plain, problem, &dirs, &available),
        || text(&answers, problem.map_or(shown.map(Ok), |problem| Some(Err(problem))), &dirs, &available),
    );
    let is_fine = problem.is_none() && answers.iter().all(|answer| answer.file.is_ok());
    Ok(if is_fine { Outcome::Fine } else { Outcome::Errors })
}

fn value(
    answers: &[LayerAnswer],
    listed_in: &str,
    problem: Option<&str>,
    dirs: &[PathBuf],
    available: &[(String, PathBuf)],
) -> Value {
    let requested = |LayerAnswer { name, file }: &LayerAnswer| {
        let (file, problem) = (file.as_ref().map(|file| file.to_string_lossy()).ok(), file.as_ref().err());
        json!({ "name": name, "file": file, "problem": problem })
    };
    json!({
        "listed_in": (!answers.is_empty()).then_some(listed_in),
        "list_problem": problem,
        "requested": answers.iter().map(requested).collect::<Vec<_>>(),
        "dirs": dirs.iter().map(|dir| dir.to_string_lossy()).collect::<Vec<_>>(),
        "available": available.iter().map(|(name, file)| json!({
            "name": name,
            "file": file.to_string_lossy(),
        })).collect::<Vec<_>>(),
    })
}

/// `listed_in` is the list, or the reason why programs ignore it.
fn text(
    answers: &[LayerAnswer],
    listed_in: Option<Result<&str, &str>>,
    dirs: &[PathBuf],
    available: &[(String, PathBuf)],
) {
    match listed_in {
        None => outln!("No layers are on: {LAYERS_VARIABLE} is not set."),
        Some(Err(problem)) => outln!("No layers are on: {problem}."),
        Some(Ok(list)) if answers.is_empty() => outln!("No layers are on: {list} lists none."),
        Some(Ok(list)) => outln!("On, outermost first ({list}):"),
    }
    for LayerAnswer { name, file } in answers {
        match file {
            Ok(file) => outln!("  {}: {}", name.printable(), shown_path(file)),
            Err(problem) => outln!("  {}: stays off: {problem}", name.printable()),
        }
    }
    outln!("\nLayers in these directories:");
    for dir in dirs {
        outln!("  {}", shown_path(dir));
        for (name, file) in available.iter().filter(|(_, file)| file.parent() == Some(dir)) {
            outln!("    {name}: {}", shown_path(file));
        }
    }
    if available.is_empty() {
        outln!("  none. To add libcudnn_layers, name the drop-in's directory with --beside or CUDNN_LAYER_PATH.");
    }
}
