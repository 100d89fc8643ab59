//! Checks which DLLs Windows finds for programs that load cuDNN by name: C012, C021, C022.

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::Library;
use cudnn_probe::dll_search::ProcessFacts;
use cudnn_probe::facts::PathFacts;

use super::finding::{Finding, INCOMPLETE, LD_SO_MIX, OTHER_ON_PATH};
use super::plain_program::{FoundLibrary, is_same};
use super::remedies::search_first;
use crate::context::Context;
use crate::cudnn_file;
use crate::dependencies::dependencies_of;
use crate::remedy::Remedy;

/// C012, C021, C022: programs that load the shim by name find this file.
pub(super) fn found(found: &FoundLibrary, report: &InstallationReport, context: &Context) -> Option<Finding> {
    let (dir, found_dir) = (report.dir.printable(), found.path.parent()?);
    let mix = mix(found, context);
    if is_same(found_dir, &report.dir) {
        return mix;
    }
    let version = InstallationReport::read(found_dir, &context.host).and_then(|other| other.version);
    let version = version.map_or(String::new(), |version| format!(" (cuDNN {version})"));
    let kind = mix.as_ref().map_or(OTHER_ON_PATH, |mix| mix.kind);
    let shim = Library::Shim;
    let finding = Finding::new(kind, format!("Windows finds another {shim}: {}{version}", found.path.printable()))
        .note(format!("found by: {}", found.rule))
        .note(format!("this project's loader uses the cuDNN in {dir}"))
        .notes(mix.into_iter().flat_map(|mix| std::iter::once(mix.message).chain(mix.notes)));
    Some(finding.remedy(match ProcessFacts::from_host(&context.host).system_dir {
        Some(system_dir) if is_same(&system_dir, found_dir) => Remedy::new(format!(
            "remove cuDNN's DLLs from {}: Windows searches it before PATH, and no installer puts them there",
            found_dir.printable()
        )),
        _ => search_first(&report.dir),
    }))
}

/// C012, C022: Windows finds cuDNN's other DLLs in a different directory than the shim, or misses some, because
/// NVIDIA's shim opens them by name and ignores the directory of the shim.
fn mix(found: &FoundLibrary, context: &Context) -> Option<Finding> {
    let FoundLibrary { path: shim, rule } = found;
    let dir = shim.parent()?;
    let opened = dependencies_of(shim, &context.host).ok()?.into_iter();
    let opened = opened.filter(|one| one.dlopened_by.is_some() && cudnn_file::library(&one.name).is_some());
    let (present, missing): (Vec<_>, Vec<_>) = opened.partition(|one| one.file.is_some());
    let missing: Vec<&str> = missing.iter().map(|one| one.name.as_str()).collect();
    let foreign = present.iter().filter_map(|one| Some((one.file.as_deref()?, &one.rule)));
    let foreign: Vec<_> = foreign.filter(|(file, _)| file.parent().is_none_or(|found| !is_same(found, dir))).collect();
    let note = "NVIDIA's shim and graph open the other DLLs by name only and do not search their own directory";
    if let Some((first, _)) = foreign.first() {
        let there = first.parent().unwrap_or(first).printable();
        let message = format!("Windows would mix two installations: {} would open DLLs in {there}", shim.printable());
        let list = foreign.iter().map(|(file, rule)| format!("{}: {rule}", file.printable()));
        let finding = Finding::new(LD_SO_MIX, message).note(note).note(format!("the shim is found by: {rule}"));
        return Some(finding.notes(list).remedy(search_first(dir)));
    }
    let first = missing.first()?;
    let message = format!("Windows finds {}, but not {first}, which it opens by name", shim.printable());
    let finding = Finding::new(INCOMPLETE, message).note(format!("not found: {}", missing.join(", "))).note(note).note(
        format!("programs then fail with `Could not locate {first}` or `Invalid handle. Cannot load symbol ...`"),
    );
    Some(finding.remedy(if dir.join(first).leads_to_file() {
        search_first(dir)
    } else {
        Remedy::new(format!(
            "put all DLLs of one release into {}, or take {} away so that programs find a complete cuDNN",
            dir.printable(),
            Library::Shim.windows_name()
        ))
    }))
}
