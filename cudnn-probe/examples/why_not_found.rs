//! Shows which cuDNN a program would use, or why every directory of the search was rejected.
//!
//! `cargo run -p cudnn-probe --example why_not_found [MINIMUM_VERSION]`. Exits with status 1 if none is usable.

use std::error::Error;

use cudnn_probe::{Host, ProbeError, Requirements, Search, select, shown_path};

fn main() -> Result<(), Box<dyn Error>> {
    let mut requirements = Requirements::new().strict(true);
    if let Some(minimum) = std::env::args().nth(1) {
        requirements = requirements.minimum(minimum.parse()?);
    }
    let selection = select(&Search::new(Host::current()), &requirements);
    // A program can match on a reason and react to it without parsing text.
    for rejected in &selection.rejected {
        if let ProbeError::TooOld { found, wanted, .. } = &rejected.error {
            println!("upgrade {} from {found} to {wanted}", shown_path(&rejected.path()));
        }
    }
    // The error's text lists all directories with the reasons.
    let found = selection.into_result()?;
    println!("cuDNN {} in {} ({})", found.version, shown_path(&found.dir), found.origin);
    Ok(())
}
