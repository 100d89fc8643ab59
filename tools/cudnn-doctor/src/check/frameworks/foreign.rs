//! Libraries that come into the cuDNN of a framework and do not belong to it: of another release, for another CUDA, from
//! another directory, or not those that its package installed. `check` judges files by the same functions.

use std::collections::HashSet;
use std::path::Path;

use cudnn_frameworks::{Framework, Opened};
use cudnn_probe::Library;

use super::help::keep_apart;
use super::text::{drop_in_note, found, how, title};
use super::used::{UsedInstallation, is_graph};
use crate::check::finding::{FRAMEWORK_MIX, Finding, FindingKind};
use crate::dependency::Dependency;
use crate::dependency_report::{mixes, with_canonical_dir};
use crate::escape::Printable;

pub(super) fn finding(framework: &Framework, used: Option<&UsedInstallation>) -> Option<Finding> {
    across_directories(framework).or_else(|| in_its_directory(framework, used?))
}

/// ld.so gives it libraries from several directories that do not belong together.
fn across_directories(framework: &Framework) -> Option<Finding> {
    let opens = &framework.opens;
    // The drop-in loads the libraries of one directory.
    if opens.has_drop_in {
        return None;
    }
    let files: Vec<Dependency> = opens.cudnn.iter().map(dependency).collect();
    let dirs: HashSet<&Path> = files.iter().filter_map(|file| file.file.as_deref()?.parent()).collect();
    if dirs.len() < 2 {
        return None;
    }
    let mix = mixes(&files).into_iter().find(|mix| !mix.is_in_one_dir && !mix.works)?;
    // In the order in which it loads them.
    let is_either = |file: &Dependency| file.name == Library::Graph.file_name() || file.name == mix.name;
    let mut either = opens.cudnn.iter().zip(&files).filter(|(_, file)| is_either(file)).map(|(opened, _)| opened);
    let (first, other) = (either.next()?, either.next()?);
    let message = match (first.version, other.version) {
        (Some(version), Some(other_version)) if version != other_version => format!(
            "{} would mix cuDNN {version} ({}) and {other_version} ({})",
            title(framework),
            first.name.printable(),
            other.name.printable()
        ),
        _ => format!("{} would mix two cuDNNs: {}", title(framework), mix.message),
    };
    let finding = Finding::new(FRAMEWORK_MIX, message).note(found(first)).note(found(other));
    Some(finding.help(keep_apart(first, other)))
}

/// A file that it loads, under the name that NVIDIA's libraries have: a package may contain the shim under another.
fn dependency(opened: &Opened) -> Dependency {
    let is_copy_of_shim = opened.name.starts_with("libcudnn-");
    let name = if is_copy_of_shim { Library::Shim.file_name() } else { opened.name.as_str() };
    let name = if is_graph(name) { Library::Graph.file_name() } else { name };
    // Of an environment of Windows, on a disk of another system.
    let of_windows = Library::ALL.iter().find(|library| library.windows_name() == name);
    let name = of_windows.map_or(name, |library| library.file_name());
    Dependency {
        dlopened_by: None,
        name: name.to_owned(),
        file: Some(with_canonical_dir(&opened.path)),
        rule: how(opened),
        version: opened.version,
        error: None,
    }
}

/// The directory of its graph library has files that do not belong to the cuDNN there.
fn in_its_directory(framework: &Framework, used: &UsedInstallation) -> Option<Finding> {
    let graph = framework.opens.cudnn.iter().find(|opened| is_graph(&opened.name))?;
    let mut others = used.foreign.iter().cloned();
    let first = others.next()?;
    let kind = FindingKind { severity: first.kind.severity, ..FRAMEWORK_MIX };
    let message = format!("{} would load a cuDNN with a foreign file: {}", title(framework), first.message);
    let finding = Finding::new(kind, message).notes(first.notes).notes(others.map(|other| other.message));
    let finding = finding.note(found(graph)).notes(drop_in_note(framework));
    Some(Finding { help: first.help, ..finding })
}
