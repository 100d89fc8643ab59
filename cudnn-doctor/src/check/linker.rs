//! What programs get that load cuDNN by its bare name, as frameworks do, and what cuDNN itself will look for.

use std::path::{Path, PathBuf};

use cudnn_probe::{Host, InstallationReport, Library, Resolution, Simulation};

use super::finding::{Finding, LINKER_MIX, NO_BUILTINS, NO_CUBLAS, NO_NVRTC, NOT_ON_PATH, OTHER_ON_PATH};
use crate::opened::lines;
use crate::output::Printable;
use crate::shell::before_others;

pub(super) fn findings(report: &InstallationReport, environment: &Host) -> Vec<Finding> {
    let mut found = Vec::new();
    let shim = Library::Shim.file_name();
    // A bare name is looked up alike for every program without a run path of its own: this one, for example.
    let program = std::env::current_exe().unwrap_or_default();
    let bare = Simulation::new(&program, environment).ok().and_then(|mut prediction| resolve(&mut prediction, shim));
    let line = before_others(&report.dir);
    match &bare {
        None if report.part(Library::Shim).is_some() => found.push(
            Finding::new(NOT_ON_PATH, format!("{shim} is in {}, which is on no search path", report.dir.printable()))
                .note("a program that loads it by its bare name, without a run path, does not find it")
                .note("this project's loader does find it")
                .help(line),
        ),
        Some((path, rule)) if path.parent().is_some_and(|folder| !same(folder, &report.dir)) => found.push(
            Finding::new(OTHER_ON_PATH, format!("by its bare name, {shim} is {}", path.printable()))
                .note(format!("found by: {rule}"))
                .note(format!("this project's loader would use the one in {}", report.dir.printable()))
                .help(line),
        ),
        _ => {}
    }
    found.extend(mix(report, environment));
    found.extend(companions(report, environment));
    found
}

/// Does the installation's own shim get the installation's own libraries, and graph its engines?
fn mix(report: &InstallationReport, environment: &Host) -> Option<Finding> {
    let shim = report.part(Library::Shim)?;
    let lines = lines(Simulation::new(&shim.path, environment).ok()?);
    let graph = lines.iter().find(|line| line.name == Library::Graph.file_name())?;
    let graph_folder = graph.file.as_deref()?.parent()?;
    let problem = crate::opened::mix(&lines);
    if problem.is_none() && same(graph_folder, &report.dir) {
        return None;
    }
    let what = problem.unwrap_or_else(|| format!("its graph library would be that in {}", graph_folder.printable()));
    let finding = Finding::new(LINKER_MIX, format!("with NVIDIA's shim in {}: {what}", report.dir.printable()));
    let foreign = lines.iter().filter_map(|line| Some((line, line.file.as_deref()?)));
    let foreign = foreign.filter(|(line, file)| {
        line.name.starts_with("libcudnn") && file.parent().is_some_and(|folder| !same(folder, &report.dir))
    });
    let finding =
        foreign.fold(finding, |finding, (line, file)| finding.note(format!("{}: {}", file.printable(), line.rule)));
    Some(finding.help(
        "unset LD_LIBRARY_PATH, or have one cuDNN's folder come first in it; cudnn-doctor explain shows each file",
    ))
}

/// The libraries of CUDA's that cuDNN opens by bare name when it needs them.
fn companions(report: &InstallationReport, environment: &Host) -> Vec<Finding> {
    let Some(major) = report.cuda_major else { return Vec::new() };
    let wanted = [
        (Library::EnginesPrecompiled, NO_CUBLAS, format!("libcublasLt.so.{major}"), format!("nvidia-cublas-cu{major}")),
        (
            Library::EnginesRuntimeCompiled,
            NO_NVRTC,
            format!("libnvrtc.so.{major}"),
            format!("nvidia-cuda-nvrtc-cu{major}"),
        ),
    ];
    let mut found = Vec::new();
    for (by, kind, name, package) in wanted {
        let Some(part) = report.part(by) else { continue };
        let Ok(mut prediction) = Simulation::new(&part.path, environment) else { continue };
        if let Some((path, _)) = resolve(&mut prediction, &name) {
            if by == Library::EnginesRuntimeCompiled {
                found.extend(builtins(&path, major));
            }
            continue;
        }
        let mut finding = Finding::new(kind, format!("{name} is not found, which {by} opens when it needs it"))
            .note(format!("this cuDNN is built for CUDA {major}"));
        // Another major's is no use, and often the reason.
        for other in [11, 12, 13].into_iter().filter(|other| *other != major) {
            let other = name.replace(&format!(".so.{major}"), &format!(".so.{other}"));
            if let Some((path, _)) = resolve(&mut prediction, &other) {
                finding = finding.note(format!("found, for another CUDA: {}", path.printable()));
            }
        }
        // From CUDA 13 on the wheels' names have no number.
        let package = if major >= 13 { package.trim_end_matches(&format!("-cu{major}")).to_owned() } else { package };
        found.push(
            finding.help(format!("pip install {package}, or put the folder of CUDA {major}'s on LD_LIBRARY_PATH")),
        );
    }
    found
}

/// NVRTC opens its builtins, which lie beside it in every package.
fn builtins(nvrtc: &Path, cuda: u32) -> Option<Finding> {
    let nvrtc = std::fs::canonicalize(nvrtc).unwrap_or_else(|_| nvrtc.to_owned());
    let folder = nvrtc.parent()?;
    let wanted = format!("libnvrtc-builtins.so.{cuda}");
    let is_there = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&wanted);
    if std::fs::read_dir(folder).ok()?.flatten().any(is_there) {
        return None;
    }
    Some(
        Finding::new(NO_BUILTINS, format!("{wanted}.* is not beside {}", nvrtc.printable()))
            .note("NVRTC opens it when it compiles a kernel")
            .help("install NVRTC again as a whole, or copy its builtins into that folder"),
    )
}

/// The file for a name that the predicted program's or library's code opens, and the rule.
fn resolve(prediction: &mut Simulation, name: &str) -> Option<(PathBuf, String)> {
    let before = prediction.steps().len();
    prediction.open(name, 0);
    match &prediction.steps().get(before)?.outcome {
        Resolution::Found { path, rule } | Resolution::Unusable { path, rule, .. } => {
            Some((path.clone(), rule.to_string()))
        }
        _ => None,
    }
}

fn same(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
