//! A program without a run path, for which ld.so is simulated where no program is named.

use cudnn_probe::facts;
use std::path::PathBuf;

use cudnn_probe::Host;
use cudnn_probe::ld_so::{KnownFiles, Simulation};

/// The start of one: of the doctor itself, unless /proc is missing, or of another that most systems have.
pub(super) fn plain_program(host: &Host, files: &KnownFiles) -> Option<Simulation> {
    let others = ["/bin/sh", "/usr/bin/env"].map(PathBuf::from);
    let mut programs = facts::current_exe().into_iter().chain(others);
    programs.find_map(|program| Simulation::with_files(&program, host, files).ok())
}
