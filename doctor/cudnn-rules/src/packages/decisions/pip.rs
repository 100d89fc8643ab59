//! Finds the user's decisions in pip's variables and configuration.

use std::path::Path;

use cudnn_cli::escape::Printable;

use super::decision::Decision;
use super::requirements_file::decisions_in_files;
use crate::packages::environment::is_virtual;
use crate::packages::pip_options::{NO_INDEX, PipCommand, PipOption, PipSettings};
use crate::packages::requirement::package_name;
use crate::packages::{PackageChange, Site, contents};

/// Returns the decisions about a change by the pip of the Python with this prefix, if the Python is known.
pub(super) fn decisions(change: &PackageChange, prefix: Option<&Path>) -> Vec<Decision> {
    let settings = PipSettings::read(prefix);
    let refused = settings.refused.as_ref().map(|(file, reason)| Decision::refused_settings(file, reason, "pip"));
    let mut found: Vec<Decision> = refused.into_iter().collect();
    let is_directory = matches!(change.site, Site::Directory { .. });
    for command in commands(change) {
        let options = settings.options(command);
        let has_links = options.iter().any(|option| option.name == "find-links");
        let is_harmless = |option: &PipOption| match option.name.as_str() {
            // The command names a directory itself.
            "target" => is_directory,
            "upgrade" => !is_directory,
            // pip then installs from the links.
            NO_INDEX => has_links,
            _ => false,
        };
        let decisions = |option| in_option(option, command, change, prefix, is_harmless(option));
        found.extend(options.iter().flat_map(decisions));
    }
    let formats = settings.formats();
    let forbidden = wheels(change).find_map(|name| formats.without_wheels_of(&name).cloned());
    found.extend(forbidden.map(|PipOption { source, name, value, .. }| {
        let changed = "nothing, because there are only wheels";
        Decision::redirection(&source, &format!("{name} = {value}"), "pip", changed)
    }));
    found
}

/// Returns the names of the wheels that pip installs, with those that they require and that are missing.
fn wheels(change: &PackageChange) -> impl Iterator<Item = String> {
    let required = change.with_requirements().filter_map(|one| contents::wheel(one)).flat_map(|wheel| wheel.requires);
    let missing = required.filter(|one| change.site.recorded_version(package_name(one)).is_none());
    change.installed().cloned().chain(missing).map(|one| package_name(&one).to_owned())
}

fn commands(change: &PackageChange) -> Vec<PipCommand> {
    let has_removals = !matches!(change.site, Site::Directory { .. } | Site::NewEnvironment { .. });
    let removal = (has_removals && !change.remove.is_empty()).then_some(PipCommand::Uninstall);
    removal.into_iter().chain(change.installs_any().then_some(PipCommand::Install)).collect()
}

/// Returns the decisions in an option. `is_harmless` means that the option does not affect this change.
fn in_option(
    option: &PipOption,
    command: PipCommand,
    change: &PackageChange,
    prefix: Option<&Path>,
    is_harmless: bool,
) -> Vec<Decision> {
    let PipOption { source, name, value, .. } = option;
    let setting = format!("{name} = {value}");
    if option.is_refused_by(command) {
        return vec![Decision::refused_settings(source, &format!("has the invalid `{}`", setting.printable()), "pip")];
    }
    let is_in_virtual = || matches!(change.site, Site::NewEnvironment { .. }) || prefix.is_some_and(is_virtual);
    let changed = match option.redirection(command) {
        None if command == PipCommand::Install && name == "constraint" => {
            return decisions_in_files(value, Path::new(""));
        }
        None if option.requires_virtual() && !is_in_virtual() => Some("only packages of virtual environments"),
        changed => changed.filter(|_| !is_harmless),
    };
    let redirection = |changed| Decision::redirection(source, &setting, "pip", changed);
    changed.map(redirection).into_iter().collect()
}
