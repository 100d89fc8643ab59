//! Finds the user's decisions about a conda environment in pins, settings, and the manifest of pixi.

use std::iter::once;
use std::path::Path;

use cudnn_frameworks::installation::conda_records;
use cudnn_probe::facts::{self, PathFacts};

use super::decision::{Decision, DecisionKind};
use crate::packages::PackageChange;
use crate::packages::conda::base_of;
use crate::packages::contents::CONDA_CUDA;
use crate::packages::decision_file::text;
use crate::packages::pixi::Pixi;
use crate::packages::requirement::package_name;
use crate::packages::settings::conda_settings;

/// The settings that redirect conda, and what it would change. Each has a variable, such as `CONDA_DRY_RUN`.
const REDIRECTIONS: [(&str, &str); 3] =
    [("dry_run", "nothing"), ("download_only", "nothing"), ("offline", "only what was downloaded before")];

fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "y", "1"].iter().any(|on| value.eq_ignore_ascii_case(on))
}

pub(super) fn decisions(root: &Path) -> Vec<Decision> {
    if let Some(pixi) = Pixi::of(root) {
        return decisions_of_pixi(&pixi);
    }
    const VARIABLE: &str = "CONDA_PINNED_PACKAGES";
    let in_variable = facts::variable(VARIABLE).unwrap_or_default().to_string_lossy().replace('&', "\n");
    let in_variable = pins(Path::new(VARIABLE), &in_variable);
    let roots = [root, base_of(root)].map(Path::to_owned);
    let settings = conda_settings(&roots).into_iter().filter(|file| file.leads_to_file());
    let in_settings = settings.flat_map(|file| {
        let redirections = text(&file).ok().flatten().map(|text| redirections(&file, &text)).unwrap_or_default();
        pins_in(&file, pinned_packages).into_iter().chain(redirections)
    });
    let frozen = root.join("conda-meta/frozen");
    let frozen = frozen.path_exists().then(|| Decision::refused_settings(&frozen, "freezes the environment", "conda"));
    let pinned = pins_in(&root.join("conda-meta/pinned"), str::to_owned);
    let variables = REDIRECTIONS.into_iter().filter_map(|(name, changed)| {
        let name = format!("CONDA_{}", name.to_uppercase());
        let value = facts::variable(&name)?.to_string_lossy().into_owned();
        is_true(&value).then(|| Decision::redirection(Path::new(&name), &value, "conda", changed))
    });
    frozen.into_iter().chain(variables).chain(pinned).chain(in_settings).chain(in_variable).collect()
}

/// Returns the CUDA packages that a change for another CUDA release installs or must change, with their versions.
pub(super) fn required(change: &PackageChange, root: &Path) -> Vec<String> {
    // Their versions start with the CUDA release.
    const NAMES: [&str; 5] = ["cuda-cudart", "cuda-nvrtc", "cuda-toolkit", "cudatoolkit", "libcublas"];
    let cuda = change.install.iter().find_map(|one| one.strip_prefix(CONDA_CUDA)?.strip_prefix('='));
    let Some(cuda) = cuda else { return Vec::new() };
    let installed: Vec<String> = conda_records(root).into_iter().map(|record| record.name).collect();
    let of_cudnn = if cuda.starts_with("11") { &["cudatoolkit"][..] } else { &["cuda-nvrtc", "libcublas"] };
    let has_cudnn = change.install.iter().any(|one| package_name(one).contains("cudnn"));
    let is_required = |name: &&str| {
        change.installs(name) || has_cudnn && of_cudnn.contains(name) || installed.iter().any(|other| other == name)
    };
    NAMES.into_iter().filter(is_required).map(|name| format!("{name} {cuda}.*")).collect()
}

/// Returns the settings that make conda ignore commands or change other packages.
fn redirections(file: &Path, settings: &str) -> Vec<Decision> {
    let lines = settings.lines().filter_map(|line| line.split_once(':'));
    let values = lines.map(|(key, value)| (key, value.split('#').next().unwrap_or_default().trim()));
    let on = values.filter(|(_, value)| is_true(value));
    let redirections = on.filter_map(|(key, value)| {
        let (_, changed) = REDIRECTIONS.into_iter().find(|(name, _)| *name == key)?;
        Some(Decision::redirection(file, &format!("{key}: {value}"), "conda", changed))
    });
    redirections.collect()
}

/// Returns the decisions in a file. `lines` returns its pins, one per line.
fn pins_in(file: &Path, lines: impl FnOnce(&str) -> String) -> Vec<Decision> {
    match text(file) {
        Ok(text) => pins(file, &text.map(|text| lines(&text)).unwrap_or_default()),
        Err(reason) => vec![Decision::refused_settings(file, &reason, "conda")],
    }
}

fn pins(source: &Path, lines: &str) -> Vec<Decision> {
    let pins = lines.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    pins.filter(|pin| !pin.is_empty()).map(|pin| Decision::constraint(source, without_build(pin))).collect()
}

/// Returns the list of pins in conda's settings, one per line.
fn pinned_packages(settings: &str) -> String {
    const KEY: &str = "pinned_packages:";
    let mut lines = settings.lines().map(|line| line.split(" #").next().unwrap_or_default().trim_end());
    let first = lines.find_map(|line| line.strip_prefix(KEY)).unwrap_or_default().trim();
    let rest = lines.take_while(|line| line.is_empty() || line.starts_with(['-', ' ', '#']));
    if !first.starts_with('[') {
        let items = rest.filter_map(|line| Some(line.trim().strip_prefix('-')?.trim().trim_matches(['"', '\''])));
        return items.collect::<Vec<_>>().join("\n");
    }
    let flow = once(first).chain(rest).collect::<Vec<_>>().join(" ");
    // A comma in quotes is part of a pin.
    let (mut quote, mut pins) = (None, String::new());
    for c in flow.trim_matches(['[', ']', ' ']).chars() {
        match quote {
            None if ['"', '\''].contains(&c) => quote = Some(c),
            Some(start) if c == start => quote = None,
            None if c == ',' => pins.push('\n'),
            _ => pins.push(c),
        }
    }
    pins
}

fn decisions_of_pixi(pixi: &Pixi) -> Vec<Decision> {
    let refused = pixi.refused_manifest();
    let refused = refused.map(|(file, reason)| Decision::refused_settings(&file, &reason, "pixi"));
    let dependencies = pixi.dependencies();
    let in_versions = dependencies
        .iter()
        .map(|one| Decision::constraint(&one.file, without_build(&format!("{} {}", one.package, one.versions))));
    let others = dependencies.iter().filter(|one| !one.others.is_empty());
    let others = others.map(|one| Decision {
        source: one.file.clone(),
        text: format!("{} @ {}", one.package, one.others.join(", ")),
        kind: DecisionKind::Manifest,
    });
    refused.into_iter().chain(in_versions).chain(others).collect()
}

/// Returns the name and the versions in a specification of conda, without the build: `cudnn 8.9.*` for
/// `cudnn=8.9=h1_0`.
fn without_build(specification: &str) -> String {
    let name = package_name(specification);
    let rest = specification.split_once(name).map_or("", |(_, rest)| rest).trim();
    let in_brackets = rest.split_once("version=").and_then(|(_, version)| match version.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(['"', '\'']).next(),
        None => version.split([',', ']']).next(),
    });
    let version = match (in_brackets, rest.strip_prefix("==")) {
        (Some(version), _) => version.to_owned(),
        (None, Some(exact)) => format!("=={}", exact.split([' ', '=']).next().unwrap_or_default()),
        (None, None) => match rest.strip_prefix('=') {
            Some(start) => format!("{}.*", start.split([' ', '=']).next().unwrap_or_default().trim_end_matches(".*")),
            None => rest.split(' ').next().unwrap_or_default().to_owned(),
        },
    };
    format!("{name} {version}")
}

#[cfg(test)]
mod tests;
