//! Fetches a pinned release of cuDNN and prints the directory of its libraries, or lists the pinned releases.
//!
//! `cargo run -p cudnn-fetch --example fetch_release [ID]`

use cudnn_fetch::{FetchError, Network, RELEASES, fetch, release};

fn main() -> Result<(), FetchError> {
    let Some(id) = std::env::args().nth(1) else {
        for release in RELEASES.iter().filter(|release| release.is_cudnn()) {
            println!("{}: {} {} ({} MB)", release.id, release.package, release.version, release.megabytes);
        }
        return Ok(());
    };
    let release = release(&id)?;
    // Each call verifies the files.
    let unpacked = fetch(release, Network::Allowed)?;
    println!("{}", release.lib_dir(&unpacked).display());
    Ok(())
}
