//! A program for another major of cuDNN. This tool examines cuDNN 9 alone: of an older one it reads the version that file
//! names and packages state, and which libraries ld.so finds. What it did not examine, it states.

use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{Resolution, needed};
use cudnn_probe::packages::DEFAULT_CUDA_MAJOR;
use cudnn_probe::{Installed, Origin, Os, Version};

use super::Requested;
use super::finding::{Effect, Finding, FindingKind, Help, REQUIREMENT, Severity};
use super::fix_commands;
use super::requirements::MAJOR;
use crate::context::Context;
use crate::escape::Printable;
use crate::shell::prepend_library_path;
use crate::system::LOADER;

/// The libraries that every cuDNN 8 has, and that its shim opens.
const PARTS: [&str; 6] = ["ops_infer", "ops_train", "cnn_infer", "cnn_train", "adv_infer", "adv_train"];

/// The finding for a program that is built for another major.
pub(super) fn of_another_major(requested: &Requested, context: &Context) -> Option<Finding> {
    let wanted = requested.minimum.filter(|minimum| minimum.major != MAJOR)?;
    let major = wanted.major;
    let of_major = |installed: &Installed| installed.report.major == major;
    let mut installed: Vec<Installed> = context.inventory().into_iter().filter(of_major).collect();
    installed.sort_by_key(|installed| (!is_new_enough(installed, wanted), !is_searched(installed)));
    let cuda_major = requested.cuda_major;
    let Some(first) = installed.first() else {
        let message = format!("the program needs cuDNN {major} ({wanted} or newer), and none was found");
        return Some(Finding::new(REQUIREMENT, message).note(limit(major)).help(install(wanted, cuda_major, None)));
    };
    let dir = first.report.dir.as_path();
    let finding = |message: String| Finding::new(REQUIREMENT, message).note(limit(major));
    let installed_as = first.report.package.as_ref().map(|package| format!("installed as {package}"));
    if let Some(found) = first.report.version.filter(|found| *found < wanted) {
        let message =
            format!("the program needs cuDNN {wanted} or newer, and the one in {} is {found}", dir.printable());
        return Some(finding(message).notes(installed_as).help(install(wanted, cuda_major, Some(first))));
    }
    let problems = problems(dir, major, context);
    if !problems.is_empty() {
        let message = format!("the program needs cuDNN {major}, and the one in {} cannot be loaded", dir.printable());
        return Some(finding(message).notes(problems).notes(installed_as).help(install(
            wanted,
            cuda_major,
            Some(first),
        )));
    }
    if !is_searched(first) {
        let message =
            format!("the program needs cuDNN {major}, and {LOADER} does not search {}, which has one", dir.printable());
        let help = format!("have {LOADER} search that directory, unless the program finds it otherwise:");
        let help = prepend_library_path(dir).into_iter().fold(Help::new(help), Help::command);
        return Some(finding(message).help(help));
    }
    let version = first.report.version.map_or("of unknown version".to_owned(), |version| version.to_string());
    let message = format!(
        "the program needs cuDNN {major} ({wanted} or newer); {LOADER} finds one, {version}, in {}, and this doctor checks \
         cuDNN {MAJOR} alone",
        dir.printable()
    );
    let kind = FindingKind { severity: Severity::Warning, ..REQUIREMENT };
    let file = if Os::HOST == Os::Linux { format!("libcudnn.so.{major}") } else { format!("cudnn64_{major}.dll") };
    let test = format!("import ctypes; print(ctypes.CDLL(\"{file}\").cudnnGetVersion())");
    let help = "run the program; or have cuDNN itself print its version, or the library that it does not find:";
    let help = Help::new(help).command(format!("python3 -c {}", cudnn_probe::packages::quoted(test)));
    Some(Finding::new(kind, message).note(limit(major)).notes(installed_as).help(help))
}

fn limit(major: u32) -> String {
    format!(
        "majors are not interchangeable, and this tool examines cuDNN {MAJOR} alone: it does not tell whether a cuDNN \
         {major} fits the machine, nor whether all that it opens is there"
    )
}

fn is_new_enough(installed: &Installed, wanted: Version) -> bool {
    installed.report.version.is_none_or(|version| version >= wanted)
}

fn is_searched(installed: &Installed) -> bool {
    let is_of_ld_so = |origin: &Origin| {
        matches!(origin, Origin::LibraryPath | Origin::LdCache | Origin::LdDefault | Origin::SystemDir | Origin::Path)
    };
    installed.found_via.iter().any(|candidate| is_of_ld_so(&candidate.origin))
}

/// Installs such a cuDNN, for this CUDA or the one that the installed package is for.
fn install(wanted: Version, cuda_major: Option<u32>, installed: Option<&Installed>) -> Help {
    let package = installed.and_then(|installed| installed.report.package.as_ref());
    let of_package = || package?.name.rsplit("-cu").next()?.parse().ok();
    let cuda_major = cuda_major.or_else(of_package).unwrap_or(DEFAULT_CUDA_MAJOR);
    fix_commands::install_older(wanted, cuda_major).map(|help| help.effect(Effect::OtherDir)).unwrap_or_else(|| {
        let major = wanted.major;
        Help::new(format!(
            "install cuDNN {major} by the instructions of its release, or build the program for cuDNN {MAJOR}"
        ))
    })
}

/// Why ld.so cannot load the libraries in this directory: a file that is no library, one that is missing, and what one
/// needs and ld.so does not find.
fn problems(dir: &Path, major: u32, context: &Context) -> Vec<String> {
    if Os::HOST != Os::Linux {
        return Vec::new();
    }
    let shim = dir.join(format!("libcudnn.so.{major}"));
    let parts: &[&str] = if major == 8 { &PARTS } else { &[] };
    let parts = parts.iter().map(|part| dir.join(format!("libcudnn_{part}.so.{major}")));
    let problem = |file: PathBuf| {
        if file.symlink_metadata().is_err() {
            return Some(format!("{} is missing", file.printable()));
        }
        if let Err(error) = needed(&file) {
            return Some(format!("{} {error}", file.printable()));
        }
        let simulation = context.simulation(&file).ok()?;
        let missing = simulation.lookups().iter().find(|one| matches!(one.resolution, Resolution::Missing))?;
        Some(format!("{} needs {}, which ld.so does not find", file.printable(), missing.name.printable()))
    };
    std::iter::once(shim).chain(parts).filter_map(problem).collect()
}
