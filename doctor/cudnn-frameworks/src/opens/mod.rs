//! Simulates which cuDNN a framework loads. First Python code opens files, then ld.so or Windows searches for the
//! framework's libraries, and then cuDNN's shim opens others by name.

mod bytes;
mod known;
mod linux;
mod outcome;
pub(crate) mod pairs;
mod process;
pub(crate) mod unlisted;
mod windows;

use std::path::Path;

use cudnn_probe::{Host, Os};

use crate::environment::Environment;
use crate::framework::built_for::BuiltFor;
use crate::framework::kind::FrameworkKind;
use outcome::Use;
use process::Import;

pub(crate) use known::Known;
pub use outcome::{Damaged, MissingLibrary, OpenedFile, Opens, SearchRule};
pub(crate) use process::Process;

pub(crate) fn start(environment: &Environment, host: &Host, known: &Known) -> Box<dyn Process> {
    match environment.os {
        Os::Windows => Box::new(windows::DllProcess::start(environment, host, known)),
        _ => Box::new(linux::LdSoProcess::start(environment, host, known)),
    }
}

/// Returns the files that a framework would open in a new process.
pub(crate) fn read(
    kind: &FrameworkKind,
    version: &str,
    dir: Option<&Path>,
    built_for: &BuiltFor,
    started: &dyn Process,
) -> Opens {
    if built_for.uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value) {
        return Opens { needs_none: true, ..Opens::default() };
    }
    let Some(dir) = dir else { return Opens::default() };
    started.fork().import(&Import { kind, version, dir, built_for }, Use::All)
}
