//! Finds the user's decisions about a conda environment in pins, settings, and the manifest of pixi.

use std::path::Path;

use cudnn_probe::facts::{self, PathFacts};
use yaml_rust2::{Yaml, YamlLoader};

use super::decision::{Decision, DecisionKind};
use crate::packages::conda::base_of;
use crate::packages::decision_file::text;
use crate::packages::pixi::Pixi;
use crate::packages::requirement::package_name;
use crate::packages::settings::conda_settings;

/// The settings that decide what conda installs.
const SETTINGS: [&str; 9] = [
    "allowlist_channels",
    "denylist_channels",
    "disallow",
    "disallowed_packages",
    "download_only",
    "dry_run",
    "offline",
    "pinned_packages",
    "whitelist_channels",
];

/// The channel of all packages in the commands.
const CHANNEL: &str = "conda-forge";

/// Returns the decisions about the environment at this root.
pub(super) fn decisions(root: &Path) -> Vec<Decision> {
    if let Some(pixi) = Pixi::of(root) {
        return decisions_of_pixi(&pixi);
    }
    let frozen = root.join("conda-meta/frozen");
    let frozen = frozen.path_exists().then(|| Decision::refused_settings(&frozen, "freezes the environment", "conda"));
    let pinned = root.join("conda-meta/pinned");
    let pinned = match text(&pinned) {
        Ok(text) => pins(&pinned, text.unwrap_or_default().lines()),
        Err(reason) => vec![Decision::refused_settings(&pinned, &reason, "conda")],
    };
    let files = conda_settings(&[root, base_of(root)].map(Path::to_owned));
    let in_files = files.into_iter().filter(|file| file.leads_to_file()).flat_map(|file| in_file(&file));
    let in_variables = SETTINGS.into_iter().flat_map(|name| {
        let variable = format!("CONDA_{}", name.to_uppercase());
        let values = facts::variable(&variable).unwrap_or_default().to_string_lossy().into_owned();
        let separator = if name.ends_with("_channels") { ',' } else { '&' };
        let values = values.split(separator).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        in_setting(Path::new(&variable), name, &values.collect::<Vec<_>>())
    });
    frozen.into_iter().chain(pinned).chain(in_files).chain(in_variables).collect()
}

/// Returns the decisions in a file with settings.
fn in_file(file: &Path) -> Vec<Decision> {
    /// The errors with which conda ends. After all others, which concern single words, it ignores the file.
    const FATAL: [&str; 3] = ["while parsing", "did not find expected <", "duplicated key"];
    let yaml = text(file).and_then(|text| match YamlLoader::load_from_str(&text.unwrap_or_default()) {
        Ok(documents) => Ok(documents.into_iter().next()),
        Err(error) if FATAL.iter().any(|fatal| error.info().contains(fatal)) => {
            Err(format!("is invalid in line {}: {}", error.marker().line(), error.info()))
        }
        Err(_) => Ok(None),
    });
    let settings = match yaml {
        Ok(Some(Yaml::Hash(settings))) => settings,
        Ok(None | Some(Yaml::Null)) => return Vec::new(),
        Ok(Some(_)) => return vec![Decision::refused_settings(file, "has no names of settings", "conda")],
        Err(reason) => return vec![Decision::refused_settings(file, &reason, "conda")],
    };
    let in_settings = settings.iter().filter_map(|(name, value)| {
        let name = SETTINGS.into_iter().find(|known| name.as_str() == Some(known))?;
        let values = value.as_vec().map_or(std::slice::from_ref(value), Vec::as_slice);
        let text =
            |one: &Yaml| one.as_str().map_or_else(|| one.as_bool().map(|on| on.to_string()), |one| Some(one.into()));
        let values: Vec<String> = values.iter().filter_map(text).collect();
        Some(in_setting(file, name, &values))
    });
    in_settings.flatten().collect()
}

/// Returns the decisions in a setting, which may have a list of values.
fn in_setting(source: &Path, name: &str, values: &[String]) -> Vec<Decision> {
    const TRUE: [&str; 5] = ["1", "on", "true", "y", "yes"];
    let decision = |text: String, kind| Decision { source: source.to_owned(), text, kind };
    let redirection = |changed| {
        let on = values.iter().find(|value| TRUE.iter().any(|on| value.eq_ignore_ascii_case(on)));
        on.map(|on| Decision::redirection(source, &format!("{name}: {on}"), "conda", changed)).into_iter().collect()
    };
    match name {
        "pinned_packages" => pins(source, values.iter().map(String::as_str)),
        "disallow" | "disallowed_packages" => {
            // Others are free to be installed in another version.
            let whole = values.iter().map(|one| without_build(one)).filter(|one| one.ends_with(' '));
            whole.map(|name| decision(name.trim().to_owned(), DecisionKind::Exclusion)).collect()
        }
        "dry_run" | "download_only" => redirection("nothing"),
        "offline" => redirection("only what was downloaded before"),
        _ => {
            let is_named = values.iter().any(|one| one.trim_end_matches('/').rsplit('/').next() == Some(CHANNEL));
            let is_forbidden = !values.is_empty() && is_named == (name == "denylist_channels");
            let text = format!("forbids the channel {CHANNEL} by `{name}`");
            is_forbidden.then(|| decision(text, DecisionKind::NoInstallation)).into_iter().collect()
        }
    }
}

/// Returns the decisions in lines with pins.
fn pins<'a>(source: &Path, lines: impl Iterator<Item = &'a str>) -> Vec<Decision> {
    let pins = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
    pins.filter(|pin| !pin.is_empty()).map(|pin| Decision::constraint(source, without_build(pin))).collect()
}

/// Returns the decisions in the manifest of a pixi environment.
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
