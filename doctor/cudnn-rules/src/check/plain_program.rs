//! Finds the libraries that a program without a run path opens by name.

use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{self, KnownFiles, Simulation};
use cudnn_probe::{Host, Os, dll_search, facts};

use crate::context::Context;

/// A file that the system's loader finds for a name, possibly an unusable one.
pub(super) struct FoundLibrary {
    pub(super) path: PathBuf,
    pub(super) rule: String,
}

/// Returns the file that the program finds. On Windows, the program was started in this environment.
pub(super) fn find(name: &str, context: &Context) -> Option<FoundLibrary> {
    match Os::HOST {
        Os::Windows => find_dll(name, &dll_search::ProcessFacts::from_host(&context.host)),
        _ => find_in(&mut plain_program(&context.host, &context.files)?, name),
    }
}

pub(super) fn find_dll(name: &str, facts: &dll_search::ProcessFacts) -> Option<FoundLibrary> {
    use dll_search::Resolution;
    match dll_search::resolve(name, facts)? {
        Resolution::Found { path, rule } | Resolution::Unusable { path, rule } => {
            Some(FoundLibrary { path, rule: rule.to_string() })
        }
        _ => None,
    }
}

pub(super) fn find_in(simulation: &mut Simulation, name: &str) -> Option<FoundLibrary> {
    match open(simulation, name).first()?.resolution {
        ld_so::Resolution::Found { ref path, ref rule } | ld_so::Resolution::Unusable { ref path, ref rule, .. } => {
            Some(FoundLibrary { path: path.clone(), rule: rule.to_string() })
        }
        _ => None,
    }
}

/// Opens a library in the simulated program. Returns the lookups, starting with the library itself.
pub(super) fn open<'a>(simulation: &'a mut Simulation, name: &str) -> &'a [ld_so::Lookup] {
    let before = simulation.lookups().len();
    simulation.dlopen(name, 0);
    simulation.lookups().get(before..).unwrap_or_default()
}

/// Simulates the start of the doctor itself or, if /proc is missing, of a program that exists on most systems.
pub(super) fn plain_program(host: &Host, files: &KnownFiles) -> Option<Simulation> {
    let others = ["/bin/sh", "/usr/bin/env"].map(PathBuf::from);
    let mut programs = facts::current_exe().into_iter().chain(others);
    programs.find_map(|program| Simulation::with_files(&program, host, files).ok())
}

pub(super) fn is_same(a: &Path, b: &Path) -> bool {
    match (cudnn_probe::canonicalize(a), cudnn_probe::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
