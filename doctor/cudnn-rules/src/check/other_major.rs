//! Checks a program that needs a different major of cuDNN (C018). The doctor knows little about other majors.

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::path::Path;

use cudnn_frameworks::installation::Installed;
use cudnn_probe::ld_so::{Resolution, needed};
use cudnn_probe::{DEFAULT_CUDA_MAJOR, Origin, Os, Version};

use super::Requested;
use super::finding::{Finding, FindingKind, REQUIREMENT, Severity};
use super::framework_requirement::CUDNN_MAJOR;
use super::remedies;
use crate::context::Context;
use crate::remedy::{Action, Effect, Remedy};
use crate::system::LOADER;

/// The libraries that are part of every cuDNN 8 and are opened by the shim.
const PARTS: [&str; 6] = ["ops_infer", "ops_train", "cnn_infer", "cnn_train", "adv_infer", "adv_train"];

/// C018: the program is built for a different major.
pub(super) fn finding(requested: &Requested, context: &Context) -> Option<Finding> {
    let wanted = requested.minimum.filter(|minimum| minimum.major != CUDNN_MAJOR)?;
    let major = wanted.major;
    let version = |installed: &Installed| installed.report.version;
    let installed = context.inventory().into_iter().filter(|installed| installed.report.major == major);
    let first = installed.min_by_key(|one| (version(one).is_some_and(|version| version < wanted), !is_searched(one)));
    let limit = format!(
        "majors are not interchangeable, and this tool only examines cuDNN {CUDNN_MAJOR}: it does not check whether a cuDNN \
         {major} fits the machine or is complete"
    );
    let error = |message: String| Finding::new(REQUIREMENT, message).note(&limit);
    let Some(first) = &first else {
        let message = format!("the program needs cuDNN {major} ({wanted} or newer), and none was found");
        return Some(error(message).remedy(install(wanted, requested.cuda_major, None)));
    };
    let (dir, shown) = (first.report.dir.as_path(), first.report.dir.printable());
    let installed_as = first.report.package.as_ref().map(|package| format!("installed as {package}"));
    let problems = problems(dir, major, context);
    let message = match version(first).filter(|found| *found < wanted) {
        Some(found) => Some(format!("the program needs cuDNN {wanted} or newer, and the one in {shown} is {found}")),
        None if problems.is_empty() => None,
        None => Some(format!("the program needs cuDNN {major}, and the one in {shown} cannot be loaded")),
    };
    if let Some(message) = message {
        let remedy = install(wanted, requested.cuda_major, Some(first));
        return Some(error(message).notes(problems).notes(installed_as).remedy(remedy));
    }
    if !is_searched(first) {
        let message = format!("the program needs cuDNN {major}, and {LOADER} does not search {shown}, which has one");
        let text = format!("have {LOADER} search that directory, unless the program finds it otherwise:");
        return Some(error(message).remedy(Remedy::new(text).search(dir)));
    }
    let version = version(first).map_or("of unknown version".to_owned(), |version| version.to_string());
    let message = format!(
        "the program needs cuDNN {major} ({wanted} or newer); {LOADER} finds one, {version}, in {shown}, and this doctor \
         only checks cuDNN {CUDNN_MAJOR}"
    );
    let file = if Os::HOST == Os::Linux { format!("libcudnn.so.{major}") } else { format!("cudnn64_{major}.dll") };
    let test = format!("import ctypes; print(ctypes.CDLL(\"{file}\").cudnnGetVersion())");
    let text = "run the program, or make cuDNN print its version or the missing library:";
    let remedy = Remedy::new(text).action(Action::Inspect(Command::new("python3", ["-c", &test])));
    let finding = Finding::new(FindingKind { severity: Severity::Warning, ..REQUIREMENT }, message);
    Some(finding.note(limit).notes(installed_as).remedy(remedy))
}

fn is_searched(installed: &Installed) -> bool {
    installed.found_via.iter().any(|candidate| {
        matches!(
            candidate.origin,
            Origin::LibraryPath | Origin::LdCache | Origin::LdDefault | Origin::SystemDir | Origin::Path
        )
    })
}

/// Installs a suitable cuDNN for this CUDA, or for the CUDA of the installed package.
fn install(wanted: Version, cuda_major: Option<u32>, installed: Option<&Installed>) -> Remedy {
    let of_package = || installed?.report.package.as_ref()?.name.rsplit("-cu").next()?.parse().ok();
    let cuda_major = cuda_major.or_else(of_package).unwrap_or(DEFAULT_CUDA_MAJOR);
    remedies::install_older(wanted, cuda_major).map_or_else(
        || {
            let major = wanted.major;
            let text = format!(
                "install cuDNN {major} following the instructions of its release, or build the program for cuDNN"
            );
            Remedy::new(format!("{text} {CUDNN_MAJOR}"))
        },
        |remedy| remedy.effect(Effect::OtherDir),
    )
}

/// Explains why ld.so would fail to load the libraries in this directory.
fn problems(dir: &Path, major: u32, context: &Context) -> Vec<String> {
    if Os::HOST != Os::Linux {
        return Vec::new();
    }
    let parts = PARTS.iter().filter(|_| major == 8).map(|part| format!("libcudnn_{part}.so.{major}"));
    let names = std::iter::once(format!("libcudnn.so.{major}")).chain(parts);
    let problem = |name: String| {
        let file = dir.join(name);
        if !file.path_exists() {
            return Some(format!("{} is missing", file.printable()));
        }
        if let Err(error) = needed(&file) {
            return Some(format!("{} {error}", file.printable()));
        }
        let simulation = context.simulation(&file).ok()?;
        let missing = simulation.lookups().iter().find(|one| matches!(one.resolution, Resolution::Missing))?;
        Some(format!("{} needs {}, which ld.so does not find", file.printable(), missing.name.printable()))
    };
    names.filter_map(problem).collect()
}
