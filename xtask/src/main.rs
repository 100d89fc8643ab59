//! The project's own commands: `cargo xtask COMMAND`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod bindings;
mod dist;

const USAGE: &str = "\
cargo xtask COMMAND

  bindings           generate cudnn-sys/src/generated anew, from the pinned release's headers
  bindings --check   fail when what is checked in differs from what would be generated
  dist               build the drop-in libcudnn.so.9 with its header, pkg-config file and CMake config; prints the folder
  fetch ID...        fetch pinned releases into the cache folder; with no ID, list them
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["bindings"] => bindings::write(),
        ["bindings", "--check"] => bindings::check(),
        ["dist"] => dist::make().map(|folder| println!("{}", folder.display())),
        ["fetch", ids @ ..] => fetch(ids),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The repository's root: the folder above this crate's.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fetch(ids: &[&str]) -> Result<()> {
    if ids.is_empty() {
        for release in cudnn_fetch::RELEASES {
            println!("{:<20} {}=={} ({} MB)", release.id, release.package, release.version, release.megabytes);
        }
    }
    for id in ids {
        let release = cudnn_fetch::release(id)?;
        println!("{}", cudnn_fetch::fetch(release, cudnn_fetch::Network::Allowed)?.display());
    }
    Ok(())
}
