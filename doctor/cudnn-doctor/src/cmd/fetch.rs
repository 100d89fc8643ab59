//! `fetch`: lists the pinned releases, or fetches one through pip. Fetched files are always verified.

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_fetch::{FetchError, Network, RELEASES, Release};
use cudnn_rules::shell::use_dir;
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The name of the release, from the list. Without a name, the list is printed.
    release: Option<String>,
    /// Store the release in a subdirectory of this directory instead of the cache.
    #[arg(long, value_name = "DIR", requires = "release")]
    into: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    let Some(id) = &arguments.release else {
        list(format);
        return Ok(Outcome::Fine);
    };
    if let Some(file) = arguments.into.as_deref().filter(|into| into.symlink_metadata().is_ok() && !into.is_dir()) {
        return Err(format!("{} is not a directory: --into requires one", file.printable()).into());
    }
    let into = arguments.into.as_deref().map(std::path::absolute).transpose()?;
    // Other pinned wheels are only for this project's build and tests.
    if cudnn_fetch::release(id).is_ok_and(|release| !release.is_cudnn()) {
        return Err(format!("`{id}` is not a cuDNN release: `fetch` without a name lists the releases").into());
    }
    let announce = |Release { package, version, megabytes, .. }: &Release| {
        if format == Format::Text {
            outln!("{package} {version} ({megabytes} MB, downloaded unless it is in the cache)");
        }
    };
    let dir = fetch_libraries(id, into.as_deref(), Network::Allowed, announce)?;
    format.report(
        || json!({ "id": id, "directory": dir.to_string_lossy() }),
        || outln!("{}\nTo use it: {}", dir.printable(), use_dir(&dir).unwrap_or_else(|instead| instead)),
    );
    Ok(Outcome::Fine)
}

/// Returns the library directory of a pinned release, in the cache or under `into`, after fetching it if necessary.
pub(super) fn fetch_libraries(
    id: &str,
    into: Option<&Path>,
    network: Network,
    announce: impl FnOnce(&Release),
) -> Result<PathBuf, FetchError> {
    let release = cudnn_fetch::release(id)?;
    announce(release);
    let dir = match into {
        None => cudnn_fetch::fetch(release, network)?,
        Some(dir) => cudnn_fetch::fetch_into(release, dir, network)?,
    };
    Ok(release.lib_dir(&dir))
}

fn list(format: Format) {
    let releases = || RELEASES.iter().filter(|release| release.is_cudnn());
    let value = |Release { id, package, version, platform, megabytes, .. }: &Release| json!({ "id": id, "package": package, "version": version, "platform": platform, "megabytes": megabytes });
    format.report(
        || json!({ "releases": releases().map(value).collect::<Vec<Value>>() }),
        || {
            for release in releases() {
                let Release { id, package, version, megabytes, .. } = release;
                outln!("{id:<26} {package} {version}, {megabytes} MB, for {}", release.machine());
            }
        },
    );
}
