//! Checks which DLLs Windows finds for programs that load cuDNN by name: C012, C020 to C022, C027, C030, C031.
//!
//! The checks assume a program started in this environment that ships no cuDNN DLLs and adds no directories to the
//! search path. `ld_so` does the same for Linux.

use cudnn_probe::facts::PathFacts;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::dll_search::{Facts, Mode, Resolution, Rule, Simulation};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Component, Library};

use super::finding::{
    Finding, FindingKind, INCOMPLETE, LD_SO_MIX, NO_CUBLAS, NO_NVRTC, NOT_ON_PATH, OTHER_ON_PATH, RELATIVE_PATH,
};
use super::ld_so::is_same;
use super::{installation, remedies};
use crate::advice::missing_dll;
use crate::context::Context;
use crate::cudnn_file;
use crate::escape::Printable;
use crate::packages::{self, PackageNames};
use crate::remedy::Remedy;

pub(super) fn findings(report: &InstallationReport, context: &Context) -> Vec<Finding> {
    let facts = Facts::of_host(&context.host);
    let mut findings: Vec<Finding> = by_name(report, &facts, context).into_iter().collect();
    findings.extend(missing_companions(report, &facts, &[]));
    findings
}

/// C027: relative directories on PATH. Windows resolves them from the working directory of the program, while this
/// project's search ignores them. Windows ignores empty elements.
pub(super) fn relative_path(path: &OsStr) -> Option<Finding> {
    let dirs = std::env::split_paths(path).filter(|dir| !dir.as_os_str().is_empty() && dir.is_relative());
    let mut dirs: Vec<String> = dirs.map(|dir| dir.printable()).collect();
    dirs.dedup();
    let message = format!("PATH contains entries that are not full paths: {}", dirs.join(", "));
    let note = "Windows resolves it from the working directory of the program; this project's search ignores it";
    let finding = Finding::new(RELATIVE_PATH, message).note(note).remedy("write the full path of the directory");
    (!dirs.is_empty()).then_some(finding)
}

/// Returns the file that Windows finds for a base name, and the rule that found it.
fn resolve(name: &str, facts: &Facts) -> Option<(PathBuf, Rule)> {
    let mut simulation = Simulation::new(facts.clone());
    simulation.open(Path::new(name), Mode::Standard);
    match &simulation.lookups().first()?.resolution {
        Resolution::Found { path, rule } | Resolution::Unusable { path, rule } => Some((path.clone(), *rule)),
        _ => None,
    }
}

/// Checks which cuDNN a program gets when it loads the shim by name.
fn by_name(report: &InstallationReport, facts: &Facts, context: &Context) -> Option<Finding> {
    let (shim, dir) = (Library::Shim.windows_name(), report.dir.printable());
    let Some((path, rule)) = resolve(shim, facts) else {
        report.library(Library::Shim).filter(|part| part.identity.is_ok())?;
        let note = "programs that load cuDNN by name fail (error 126) unless the DLLs are next to the program; PyTorch \
                    opens its own DLLs by path";
        let finding =
            Finding::new(NOT_ON_PATH, format!("Windows does not find {shim}: {dir} is not on PATH")).note(note);
        return Some(finding.note("this project's loader finds it").remedy(search_first(&report.dir)));
    };
    let found_dir = path.parent().unwrap_or(&path);
    let mix = mix(&path, rule, facts);
    if cudnn_file::is_drop_in(&path) || is_same(found_dir, &report.dir) {
        return mix;
    }
    let version = InstallationReport::read(found_dir, &context.host).and_then(|other| other.version);
    let version = version.map_or(String::new(), |version| format!(" (cuDNN {version})"));
    let kind = mix.as_ref().map_or(OTHER_ON_PATH, |mix| mix.kind);
    let finding = Finding::new(kind, format!("Windows finds another {shim}: {}{version}", path.printable()))
        .note(format!("found by: {rule}"))
        .note(format!("this project's loader uses the cuDNN in {dir}"))
        .notes(mix.into_iter().flat_map(|mix| std::iter::once(mix.message).chain(mix.notes)));
    Some(finding.remedy(match rule {
        Rule::SystemDir | Rule::Known => Remedy::new(format!(
            "remove cuDNN's DLLs from {}: Windows searches it before PATH, and no installer puts them there",
            found_dir.printable()
        )),
        _ => search_first(&report.dir),
    }))
}

/// C012, C022: NVIDIA's shim opens the other DLLs by name and ignores its own directory. Reports DLLs that Windows
/// finds in a different directory, or fails to find.
fn mix(shim: &Path, rule: Rule, facts: &Facts) -> Option<Finding> {
    const OPENED: [Library; 5] = [Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];
    if cudnn_file::is_drop_in(shim) {
        return None;
    }
    let dir = shim.parent()?;
    let version = cudnn_file::version(shim);
    // cuDNN ignores libraries left over from a newer release. If the release is unknown, only graph is certain to be
    // opened.
    let is_opened = |library: &&Library| match version {
        Some(version) => has_library(version, **library),
        None => matches!(library, Library::Graph | Library::Ops),
    };
    let all = OPENED.iter().chain(Library::OPENED_BY_GRAPH).filter(is_opened);
    let (mut missing, mut foreign) = (Vec::new(), Vec::new());
    for library in all {
        let name = library.windows_name();
        match resolve(name, facts) {
            None => missing.push(name),
            Some((path, rule)) if !path.parent().is_some_and(|found| is_same(found, dir)) => foreign.push((path, rule)),
            Some(_) => {}
        }
    }
    let note = "NVIDIA's shim and graph open the other DLLs by name only and do not search their own directory";
    if let Some((first, _)) = foreign.first() {
        let there = first.parent().unwrap_or(first).printable();
        let message = format!("Windows would mix two installations: {} would open DLLs in {there}", shim.printable());
        let list = foreign.iter().map(|(path, rule)| format!("{}: {rule}", path.printable()));
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

/// Reports problems of the cuDNN found by programs that load the shim by name, if it differs from this installation.
pub(super) fn of_linked_programs(report: &InstallationReport, context: &Context) -> Vec<Finding> {
    let facts = Facts::of_host(&context.host);
    let Some((shim, _)) = resolve(Library::Shim.windows_name(), &facts) else { return Vec::new() };
    if cudnn_file::is_drop_in(&shim) {
        return Vec::new();
    }
    let other = shim.parent().filter(|dir| !is_same(dir, &report.dir));
    let other = other.and_then(|dir| InstallationReport::read(dir, &context.host));
    other.filter(|other| other.major == 9).map(|other| installation::of_other_programs(&other)).unwrap_or_default()
}

/// Makes Windows search this directory first.
fn search_first(dir: &Path) -> Remedy {
    Remedy::new("have Windows search that directory first, in programs that this shell starts:").search(dir)
}

/// A CUDA DLL: the kind of finding if it is missing, and the file name for a CUDA major.
type Companion = (FindingKind, fn(u32) -> String);

/// The CUDA DLLs that cuDNN opens by name on demand.
const COMPANIONS: [Companion; 2] = [
    (NO_CUBLAS, |cuda| format!("cublasLt64_{cuda}.dll")),
    (NO_NVRTC, |cuda| match cuda {
        // The CUDA 11 name contains the minor version that introduced the stable interface.
        11 => "nvrtc64_112_0.dll".to_owned(),
        cuda => format!("nvrtc64_{cuda}0_0.dll"),
    }),
];

/// Checks the CUDA DLLs that this cuDNN opens, in a program that has already loaded the DLLs named in `loaded`.
pub(super) fn companions(report: &InstallationReport, context: &Context, loaded: &[String]) -> Vec<Finding> {
    missing_companions(report, &Facts::of_host(&context.host), loaded)
}

fn missing_companions(report: &InstallationReport, facts: &Facts, loaded: &[String]) -> Vec<Finding> {
    let opener = Library::EnginesPrecompiled;
    let Some(major) = report.cuda_major.filter(|_| report.library(opener).is_some()) else { return Vec::new() };
    let finding = |(kind, name_for): Companion| {
        let name = name_for(major);
        let is_loaded = loaded.iter().any(|loaded| loaded.eq_ignore_ascii_case(&name));
        if is_loaded || resolve(&name, facts).is_some() {
            return None;
        }
        // DLLs for a different CUDA major are unusable, but often explain the problem.
        let others = packages::CUDA_MAJORS.filter(|other| *other != major);
        let others = others.filter_map(|other| resolve(&name_for(other), facts));
        Some(
            Finding::new(kind, format!("{name} was not found; {opener} opens it by name when needed"))
                .note(format!("this cuDNN is built for CUDA {major}"))
                .notes(others.map(|(path, _)| format!("found for a different CUDA major: {}", path.printable())))
                .note("Windows searches PATH for it, but not cuDNN's directory; PyTorch ships it next to its own DLLs")
                .remedy(companion_help(&name, major, report)),
        )
    };
    COMPANIONS.into_iter().filter_map(finding).collect()
}

/// Adds the directory of a CUDA DLL to the search path, installing the DLL first if necessary.
fn companion_help(name: &str, cuda_major: u32, report: &InstallationReport) -> Remedy {
    let site = report.dir.ancestors().find(|dir| dir.ends_with("site-packages"));
    let component = Component::from_soname(name).map(|(component, _)| component);
    let product = if component == Some(Component::Nvrtc) { "cuda_nvrtc" } else { "cublas" };
    let in_wheels = site.into_iter().flat_map(|site| {
        let nvidia = site.join("nvidia");
        let of_cuda = nvidia.join(format!("cu{cuda_major}")).join("bin");
        [nvidia.join(product).join("bin"), of_cuda.join("x86_64"), of_cuda.join("x64"), of_cuda]
    });
    let beside = std::iter::once(report.dir.clone());
    let found = beside.chain(in_wheels).find(|dir| dir.join(name).leads_to_file());
    if let Some(dir) = found {
        let text = format!("it is in {}: have Windows search that directory:", dir.printable());
        return Remedy::new(text).search(&dir);
    }
    let beside = report.package.as_ref().zip(component).and_then(|(package, component)| {
        Some((component, packages::install_beside(package, component, cuda_major, report.cuda_minor)?))
    });
    let (Some((component, change)), Some(site)) = (beside, site) else {
        let text = missing_dll(name);
        return Remedy::new(text.unwrap_or_else(|| format!("install {name}, and add its directory to PATH")));
    };
    let text = format!("install {component} for CUDA {cuda_major}, and have Windows search its directory:");
    let dir = site.join(component.wheel_dir(cuda_major));
    remedies::by_change(text, change).search(&dir)
}
