//! Provides a program without a run path for simulating ld.so when no program is requested.

use cudnn_probe::facts;
use std::path::PathBuf;

use cudnn_probe::Host;
use cudnn_probe::ld_so::{KnownFiles, Simulation};

/// Simulates the start of the doctor itself or, if /proc is missing, of a program that exists on most systems.
pub(super) fn plain_program(host: &Host, files: &KnownFiles) -> Option<Simulation> {
    let others = ["/bin/sh", "/usr/bin/env"].map(PathBuf::from);
    let mut programs = facts::current_exe().into_iter().chain(others);
    programs.find_map(|program| Simulation::with_files(&program, host, files).ok())
}
