//! Predicts from files which of the layers that are on without variables would start.

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::layers::{
    LAYERS_FILE, LAYERS_VARIABLE, RequestedLayer, ignored_list, installed_layers, marker, requested_layers,
};
use cudnn_probe::{Host, exports, shown_path};

use crate::cudnn_file::drop_in_dir;

/// The lookup result for a requested layer.
pub struct LayerAnswer {
    /// The name or path as requested.
    pub name: String,
    /// The file that would be loaded, or the reasons why the search failed.
    pub file: Result<PathBuf, String>,
}

/// Returns the layers that are on without CUDNN_LAYERS in programs with the drop-in, as a list with commas.
pub fn layers_on(report: &InstallationReport) -> Option<String> {
    installed_layers(drop_in_dir(report)?).map(|list| list.to_string_lossy().into_owned())
}

/// Explains why layers of [`layers_on`] stay off, or why programs ignore the list.
pub fn problems(report: &InstallationReport, host: &Host) -> Vec<String> {
    let Some(dir) = drop_in_dir(report) else { return Vec::new() };
    let requested = match host.variable(LAYERS_VARIABLE) {
        Some(_) => Vec::new(),
        None => requested_layers(host, Some(dir)),
    };
    let off = |LayerAnswer { name, file }: LayerAnswer| {
        let list = dir.join(LAYERS_FILE).printable();
        Some(format!("the layer {} in {list} stays off: {}", name.printable(), file.err()?))
    };
    problem_of_list(dir).into_iter().chain(check_layers(requested).into_iter().filter_map(off)).collect()
}

/// Explains why programs ignore the list of layers in this directory, if they do.
pub fn problem_of_list(dir: &Path) -> Option<String> {
    let reason = ignored_list(dir)?;
    Some(format!("programs ignore {}, because {reason}", dir.join(LAYERS_FILE).printable()))
}

/// Looks for the libraries of requested layers, without loading them, and checks the order of the layers.
pub fn check_layers(requested: Vec<RequestedLayer>) -> Vec<LayerAnswer> {
    // The loader starts the innermost layer first.
    let mut started: Vec<(String, PathBuf)> = Vec::new();
    let mut answers: Vec<LayerAnswer> = requested.into_iter().rev().map(check_layer).collect();
    for LayerAnswer { name, file } in &mut answers {
        if let Some(reason) = file.as_ref().ok().and_then(|file| misplacement(name, file, &started)) {
            *file = Err(reason);
        }
        started.extend(file.as_ref().ok().map(|file| (name.clone(), file.clone())));
    }
    answers.reverse();
    answers
}

/// The layers of this project that may run below `plans`, because they change no graph.
const BELOW_PLANS: [&str; 2] = ["trace", "validate"];

/// Explains why a layer does not start above these layers.
fn misplacement(name: &str, file: &Path, below: &[(String, PathBuf)]) -> Option<String> {
    let is_one_of_several = marker(name, file).is_some();
    if below.iter().any(|(other, its_file)| its_file == file && (other == name || !is_one_of_several)) {
        return Some("it is listed twice".into());
    }
    let is_plans = is_one_of_several && name == "plans";
    let is_harmless = |other: &str, its_file: &Path| its_file == file && BELOW_PLANS.contains(&other);
    let (other, _) = below.iter().find(|(other, its_file)| is_plans && !is_harmless(other, its_file))?;
    Some(format!("the layer {} runs below it and may change graphs; list it before plans", other.printable()))
}

fn check_layer(RequestedLayer { name, files, .. }: RequestedLayer) -> LayerAnswer {
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
