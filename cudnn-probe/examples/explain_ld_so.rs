//! Shows which files glibc's dynamic loader would load for a program or library, and why, without loading them.
//!
//! `cargo run -p cudnn-probe --example explain_ld_so -- FILE`. Exits with status 1 if a library is missing or unusable.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cudnn_probe::ld_so::{Resolution, Rule, Simulation};
use cudnn_probe::{Host, ProbeError, shown_path};

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: explain_ld_so FILE");
        return ExitCode::FAILURE;
    };
    match explain(&file) {
        Ok(exit_code) => exit_code,
        Err(error) => {
            eprintln!("{} {error}", shown_path(&file));
            ExitCode::FAILURE
        }
    }
}

fn explain(file: &Path) -> Result<ExitCode, ProbeError> {
    let simulation = Simulation::new(file, &Host::current())?;
    let mut exit_code = ExitCode::SUCCESS;
    for lookup in simulation.lookups() {
        // `{:?}` escapes names, because they come from the file.
        match &lookup.resolution {
            Resolution::Found { rule: Rule::Loaded, .. } => {}
            Resolution::Found { path, rule } => println!("{:?}: {} ({rule})", lookup.name, shown_path(path)),
            Resolution::Unusable { path, error, .. } => {
                println!("{:?}: {} {error}", lookup.name, shown_path(path));
                exit_code = ExitCode::FAILURE;
            }
            _ => {
                println!("{:?}: not found, required by {}", lookup.name, shown_path(&lookup.requested_by));
                exit_code = ExitCode::FAILURE;
            }
        }
    }
    Ok(exit_code)
}
