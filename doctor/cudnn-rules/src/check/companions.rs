//! Checks the CUDA libraries that cuDNN opens by name: C030, C031, C032.

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_frameworks::pip_records;
use cudnn_probe::dll_search::ProcessFacts;
use cudnn_probe::ld_so::{Resolution, Rule, Simulation};
use cudnn_probe::{Component, Os, canonicalize};
use std::path::{Path, PathBuf};

use super::finding::{Finding, NO_CUBLAS};
use super::load_test::Unusable;
use super::plain_program::{find_dll, open};
use super::remedies::Companion;
use super::{foreign_library, nvrtc};
use crate::context::Context;
use crate::packages::{CUDA_MAJORS, PackageNames};
use crate::remedy::Remedy;
use crate::system::is_too_many_open_files;

enum OpenResult {
    /// The system finds this file, and all known dependencies of it.
    Found(PathBuf),
    /// ld.so would load this damaged file for the library, or for the dependency called `name`.
    Damaged {
        name: String,
        path: PathBuf,
        rule: Rule,
        error: String,
    },
    /// ld.so finds this file, but fails to find the dependency `missing`.
    Incomplete {
        path: PathBuf,
        missing: String,
    },
    Missing,
}

impl Companion<'_> {
    /// Simulates cuDNN opening this library, built for the given CUDA major.
    fn open(&self, cuda_major: u32, context: &Context) -> Option<OpenResult> {
        let name = self.name_for(cuda_major);
        if Os::HOST == Os::Windows {
            let found = find_dll(&name, &ProcessFacts::from_host(&context.host));
            return Some(found.map_or(OpenResult::Missing, |found| OpenResult::Found(found.path)));
        }
        let mut simulation = context.simulation(&self.opener.path).ok()?;
        let lookups = open(&mut simulation, &name);
        let damaged = lookups.iter().find_map(|lookup| match &lookup.resolution {
            Resolution::Unusable { path, rule, error } if !is_too_many_open_files(error) => {
                let (name, error) = (lookup.name.clone(), error.to_string());
                Some(OpenResult::Damaged { name, path: path.clone(), rule: rule.clone(), error })
            }
            _ => None,
        });
        let missing = lookups.iter().find(|lookup| matches!(lookup.resolution, Resolution::Missing));
        Some(damaged.unwrap_or_else(|| match (lookups.first().map(|lookup| &lookup.resolution), missing) {
            (Some(Resolution::Found { path, .. }), Some(missing)) => {
                OpenResult::Incomplete { path: path.clone(), missing: missing.name.printable() }
            }
            (Some(Resolution::Found { path, .. } | Resolution::Unusable { path, .. }), _) => {
                OpenResult::Found(path.clone())
            }
            _ => OpenResult::Missing,
        }))
    }

    fn finding(&self, report: &InstallationReport, context: &Context) -> Option<Finding> {
        let Companion { name, cuda_major, kind, .. } = self;
        let opener = self.opener.library;
        let help = |incomplete: Option<&Path>| self.help(incomplete, report, context);
        let because = |reason: String| {
            let finding = Finding::new(*kind, format!("{name} cannot be loaded: {reason}"));
            finding.note(format!("{opener} opens {name} when needed"))
        };
        Some(match self.open(*cuda_major, context)? {
            OpenResult::Found(path) => {
                let simulation = context.simulation(&self.opener.path).ok().filter(|_| Os::HOST == Os::Linux)?;
                if self.component == Component::Cublas {
                    return mixed(name, &path, *cuda_major, simulation);
                }
                let found = nvrtc::other_major(name, &path, *cuda_major)
                    .or_else(|| nvrtc::builtins(name, &path, *cuda_major, simulation))?;
                found.remedy(help(Some(&path)))
            }
            OpenResult::Damaged { name: damaged, path, error, .. } if damaged == *name => {
                Finding::new(*kind, format!("{name} is damaged: {} {error}", path.printable()))
                    .note(format!("{opener} opens it when needed"))
                    .remedy(replacement(help(Some(&path))))
            }
            OpenResult::Damaged { name: damaged, path, rule, error } => {
                because(format!("{damaged}, which it needs, is damaged: {} {error}", path.printable()))
                    .remedy(foreign_library::replace(&path, &rule))
            }
            OpenResult::Incomplete { path, missing } => {
                let help = help(Some(&path));
                let text = format!("install the package that contains {missing}, or replace {name}: {}", help.text);
                because(format!("{missing}, which {} needs, was not found", path.printable()))
                    .remedy(help.with_text(text))
            }
            OpenResult::Missing => {
                // Libraries for a different CUDA major are unusable, but often explain the problem.
                let others = CUDA_MAJORS.filter(|other| other != cuda_major);
                let others = others.filter_map(|other| match self.open(other, context)? {
                    OpenResult::Found(path)
                    | OpenResult::Incomplete { path, .. }
                    | OpenResult::Damaged { path, .. } => {
                        Some(format!("found for a different CUDA major: {}", path.printable()))
                    }
                    OpenResult::Missing => None,
                });
                Finding::new(*kind, format!("{name} was not found; {opener} opens it when needed"))
                    .note(format!("this cuDNN is built for CUDA {cuda_major}"))
                    .notes(others)
                    .remedy(help(None))
            }
        })
    }
}

/// Checks the CUDA libraries that this cuDNN opens in a program that has already loaded the libraries in `loaded`.
pub(super) fn findings(report: &InstallationReport, context: &Context, loaded: &[String]) -> Vec<Finding> {
    let is_loaded = |one: &Companion<'_>| loaded.iter().any(|loaded| loaded.eq_ignore_ascii_case(&one.name));
    let opened = Companion::of(report).filter(|one| !is_loaded(one));
    opened.filter_map(|one| one.finding(report, context)).collect()
}

/// Returns whether cuDNN would load a damaged CUDA library or dependency, which may end the process.
pub(super) fn has_damaged(report: &InstallationReport, context: &Context) -> bool {
    Companion::of(report).any(|one| matches!(one.open(one.cuda_major, context), Some(OpenResult::Damaged { .. })))
}

/// Returns the complete, undamaged CUDA libraries that ld.so finds for this cuDNN.
pub(super) fn files(report: &InstallationReport, context: &Context) -> Vec<PathBuf> {
    let opened = Companion::of(report).filter(|_| Os::HOST == Os::Linux);
    let find = |one: Companion<'_>| match one.open(one.cuda_major, context)? {
        OpenResult::Found(path) => Some(path),
        _ => None,
    };
    opened.filter_map(find).collect()
}

pub(super) fn cublas_release(report: &InstallationReport, context: &Context) -> Option<String> {
    let mut of_cublas = Companion::of(report).filter(|one| one.component == Component::Cublas && Os::HOST == Os::Linux);
    let one = of_cublas.next()?;
    match one.open(one.cuda_major, context)? {
        OpenResult::Found(path) => release(&path, one.cuda_major),
        _ => None,
    }
}

/// Reports a CUDA library that ld.so finds but fails to load.
pub(super) fn unusable(report: &InstallationReport, context: &Context, unusable: &Unusable) -> Option<Finding> {
    let Unusable { file, reason } = unusable;
    let (component, _) = Component::from_soname(&file.file_name()?.to_string_lossy())?;
    let one = Companion::of(report).find(|one| one.component == component)?;
    let finding = Finding::new(one.kind, format!("{} {reason}", file.printable()))
        .note(format!("{} opens {} when needed", one.opener.library, one.name));
    if cudnn_cli::rights::is_noexec(file) {
        let help = "its file system is mounted noexec, so that no program can load a library from there: mount it with \
                    exec, or install the library on another file system";
        return Some(finding.remedy(help));
    }
    Some(finding.remedy(replacement(one.help(Some(file), report, context))))
}

fn replacement(remedy: Remedy) -> Remedy {
    let text = format!("replace it (if the damaged file stays, the new one must come first): {}", remedy.text);
    remedy.with_text(text)
}

/// C030: ld.so finds libcublas from a different release than this libcublasLt, which the process opens as `name`.
pub(super) fn mixed(name: &str, lt: &Path, cuda_major: u32, mut simulation: Simulation) -> Option<Finding> {
    simulation.dlopen(name, 0);
    let other_name = name.replace("cublasLt", "cublas");
    let other = match &open(&mut simulation, &other_name).first()?.resolution {
        Resolution::Found { path, .. } => path.clone(),
        _ => return None,
    };
    let (release, other_release) = (release(lt, cuda_major)?, release(&other, cuda_major)?);
    let (file, other_file) = (lt.printable(), other.printable());
    let message =
        format!("two releases of cuBLAS would be mixed: {release} ({file}) and {other_release} ({other_file})");
    let text = "have one directory with both libraries come first, or install the same release of both";
    let finding = Finding::new(NO_CUBLAS, message).note(format!("{other_name} calls functions of {name}"));
    (release != other_release).then(|| finding.remedy(text))
}

/// Reads the release from the full file name, such as `libcublas.so.12.9.1.4`, or from the record of the wheel.
pub(super) fn release(file: &Path, cuda_major: u32) -> Option<String> {
    let file = canonicalize(file).ok()?;
    let (_, version) = file.file_name()?.to_str()?.split_once(".so.")?;
    if version.contains('.') {
        return Some(version.printable());
    }
    let wheel_dir = Component::Cublas.wheel_dir(cuda_major);
    let site: PathBuf = file.ancestors().find(|site| file.starts_with(site.join(&wheel_dir)))?.to_owned();
    let wheel = Component::Cublas.wheel(cuda_major);
    pip_records(&site).into_iter().find(|record| record.name == wheel)?.version
}
