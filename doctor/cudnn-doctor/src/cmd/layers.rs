//! `layers`: shows which layers the environment turns on. It reads files without loading them.

use std::path::{Path, PathBuf};

use clap::Args;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_probe::layers::{
    LAYERS_FILE, LAYERS_VARIABLE, RequestedLayer, available_layers, installed_layers, layer_dirs, marker,
    requested_layers,
};
use cudnn_probe::{exports, shown_path};
use cudnn_rules::context::Context;
use cudnn_rules::drop_in::source;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Also look for layers in this directory, which contains the drop-in or a program that includes cudnn-loader.
    /// Default: the directory of the drop-in that `run` uses, or else of cudnn-doctor.
    #[arg(long, value_name = "DIRECTORY")]
    beside: Option<PathBuf>,
}

/// The lookup result for a requested layer.
pub(super) struct LayerAnswer {
    pub(super) name: String,
    /// The file that would be loaded, or the reasons why the search failed.
    pub(super) file: Result<PathBuf, String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> CommandResult {
    let of_drop_in = || Some(source::find(None).ok()?.file.parent()?.to_owned());
    let of_doctor = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
    // A list next to a drop-in counts for the programs that load it.
    let has_list = |dir: &PathBuf| installed_layers(dir).is_some();
    let of_installed = || Some(context.selected()?.dir.clone()).filter(has_list);
    let beside = arguments.beside.clone().or_else(of_installed).or_else(of_drop_in).or_else(of_doctor);
    let is_variable = context.host.variable(LAYERS_VARIABLE).is_some();
    let list = beside.as_ref().filter(|dir| !is_variable && has_list(dir)).map(|dir| dir.join(LAYERS_FILE));
    let dirs = layer_dirs(&context.host, beside.as_deref());
    let answers: Vec<LayerAnswer> =
        requested_layers(&context.host, beside.as_deref()).into_iter().map(check_layer).collect();
    let available = available_layers(&dirs);
    let variable = || LAYERS_VARIABLE.to_owned();
    let plain = list.as_ref().map_or_else(variable, |file| file.to_string_lossy().into_owned());
    let shown = list.as_ref().map_or_else(variable, |file| shown_path(file).to_string());
    let is_listed = is_variable || list.is_some();
    let shown = is_listed.then_some(&*shown);
    format.report(|| value(&answers, &plain, &dirs, &available), || text(&answers, shown, &dirs, &available));
    Ok(if answers.iter().all(|answer| answer.file.is_ok()) { Outcome::Fine } else { Outcome::Errors })
}

pub(super) fn check_layer(RequestedLayer { name, files, .. }: RequestedLayer) -> LayerAnswer {
    let name = name.to_string_lossy().into_owned();
    let file = files.map_err(|error| error.to_string()).and_then(|files| {
        let mut reasons = Vec::new();
        for file in files {
            match refusal(&name, &file) {
                None => return Ok(file),
                Some(reason) => reasons.push(format!("{} {reason}", shown_path(&file))),
            }
        }
        Err(reasons.join("; "))
    });
    LayerAnswer { name, file }
}

/// Explains why the loader would reject this file for the layer.
fn refusal(name: &str, file: &Path) -> Option<String> {
    let marker = marker(name, file);
    let wanted: Vec<&str> = ["cudnnLayerBegin"].into_iter().chain(marker.as_deref()).collect();
    match exports(file, &wanted) {
        Err(error) => Some(error.to_string()),
        Ok(found) if found.first() == Some(&false) => Some("is not a layer: it does not export cudnnLayerBegin".into()),
        Ok(found) if found.contains(&false) => Some(format!("has no layer {name}")),
        Ok(_) => None,
    }
}

fn value(answers: &[LayerAnswer], listed_in: &str, dirs: &[PathBuf], available: &[(String, PathBuf)]) -> Value {
    let requested = |LayerAnswer { name, file }: &LayerAnswer| {
        let (file, problem) = (file.as_ref().map(|file| file.to_string_lossy()).ok(), file.as_ref().err());
        json!({ "name": name, "file": file, "problem": problem })
    };
    json!({
        "listed_in": (!answers.is_empty()).then_some(listed_in),
        "requested": answers.iter().map(requested).collect::<Vec<_>>(),
        "dirs": dirs.iter().map(|dir| dir.to_string_lossy()).collect::<Vec<_>>(),
        "available": available.iter().map(|(name, file)| json!({
            "name": name,
            "file": file.to_string_lossy(),
        })).collect::<Vec<_>>(),
    })
}

fn text(answers: &[LayerAnswer], listed_in: Option<&str>, dirs: &[PathBuf], available: &[(String, PathBuf)]) {
    match listed_in {
        None => outln!("No layers are on: {LAYERS_VARIABLE} is not set."),
        Some(list) if answers.is_empty() => outln!("No layers are on: {list} lists none."),
        Some(list) => outln!("On, outermost first ({list}):"),
    }
    for LayerAnswer { name, file } in answers {
        match file {
            Ok(file) => outln!("  {name}: {}", shown_path(file)),
            Err(problem) => outln!("  {name}: stays off: {problem}"),
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
