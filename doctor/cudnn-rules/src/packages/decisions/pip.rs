//! Finds the user's decisions in pip's variables and configuration.

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::normalized;

use super::decision::Decision;
use super::requirements_file::decisions_in_files;
use crate::packages::environment::is_virtual;
use crate::packages::pip_options::{NO_INDEX, PipCommand, PipOption, PipSettings};
use crate::packages::requirement::package_name;
use crate::packages::{PackageChange, Site};

/// Returns the decisions about a change by the pip of the Python with this prefix, if the Python is known.
pub(super) fn decisions(change: &PackageChange, prefix: Option<&Path>) -> Vec<Decision> {
    let settings = PipSettings::read(prefix);
    let refused = settings.refused.as_ref().map(|(file, reason)| Decision::refused_settings(file, reason, "pip"));
    let in_options = commands(change).into_iter().flat_map(|command| {
        let options = settings.options(command);
        let has_links = options.iter().any(|option| option.name == "find-links");
        options.into_iter().flat_map(move |option| in_option(&option, command, change, prefix, has_links))
    });
    refused.into_iter().chain(in_options).collect()
}

fn commands(change: &PackageChange) -> Vec<PipCommand> {
    let has_removals = !matches!(change.site, Site::Directory { .. } | Site::NewEnvironment { .. });
    let removal = (has_removals && !change.remove.is_empty()).then_some(PipCommand::Uninstall);
    removal.into_iter().chain(change.installs_any().then_some(PipCommand::Install)).collect()
}

/// Returns the decisions in an option. `has_links` says whether pip may install without an index.
fn in_option(
    option: &PipOption,
    command: PipCommand,
    change: &PackageChange,
    prefix: Option<&Path>,
    has_links: bool,
) -> Vec<Decision> {
    let PipOption { source, name, value } = option;
    let setting = format!("{name} = {value}");
    if option.is_refused_by(command) {
        return vec![Decision::refused_settings(source, &format!("has the invalid `{}`", setting.printable()), "pip")];
    }
    let is_harmless = match name.as_str() {
        // The command names a directory itself.
        "target" => matches!(change.site, Site::Directory { .. }),
        NO_INDEX => has_links,
        "upgrade" => !matches!(change.site, Site::Directory { .. }),
        "no-binary" => {
            let named: Vec<_> = value.split([',', ' ', '\n']).map(normalized).collect();
            let is_named = |wanted: &String| named.contains(&normalized(package_name(wanted)));
            !named.iter().any(|name| name == ":all:") && !change.installed().any(is_named)
        }
        _ => false,
    };
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
