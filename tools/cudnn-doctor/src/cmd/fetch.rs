//! `fetch`: lists the pinned releases, or fetches one through pip and verifies its sha256 and its list of files.

use std::path::{Path, PathBuf};

use cudnn_fetch::{FetchError, Network, RELEASES, Release};
use serde_json::{Value, json};

use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln};
use crate::shell::use_dir;

/// The options of `fetch`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The name of the release, from the list. Without it: print the list.
    release: Option<String>,
    /// Keep the release in a subdirectory of this directory instead of the cache.
    #[arg(long, value_name = "DIR", requires = "release")]
    into: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let Some(id) = &arguments.release else {
        list(format);
        return Outcome::Fine;
    };
    if let Some(file) = arguments.into.as_deref().filter(|into| into.exists() && !into.is_dir()) {
        return fail(format, format!("{} is no directory: --into takes one", file.printable()));
    }
    let into = match arguments.into.as_deref().map(std::path::absolute).transpose() {
        Ok(into) => into,
        Err(error) => return fail(format, error),
    };
    let announce = |release: &Release| {
        if format == Format::Text {
            let Release { package, version, megabytes, .. } = release;
            outln!("{package} {version} ({megabytes} MB, downloaded unless it is in the cache)");
        }
    };
    // The other pinned wheels are for this project's build and tests.
    if cudnn_fetch::release(id).is_ok_and(|release| !release.is_cudnn()) {
        return fail(format, format!("`{id}` is no release of cuDNN: `fetch` without a name lists those"));
    }
    match fetch_libraries(id, into.as_deref(), Network::Allowed, announce) {
        Ok(dir) => {
            match format {
                Format::Json => {
                    document(&json!({ "schema": SCHEMA, "id": id, "directory": dir.to_string_lossy() }));
                }
                Format::Text => {
                    outln!("{}", dir.printable());
                    outln!("To use it: {}", use_dir(&dir));
                }
            }
            Outcome::Fine
        }
        Err(error) => fail(format, error),
    }
}

/// The directory of a pinned release's libraries, in the cache or under `into`; fetched first if it is not there.
/// `announce` is called before the download.
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
    match format {
        Format::Json => {
            let value = |release: &Release| {
                json!({
                    "id": release.id,
                    "package": release.package,
                    "version": release.version,
                    "platform": release.platform,
                    "megabytes": release.megabytes,
                })
            };
            document(&json!({ "schema": SCHEMA, "releases": releases().map(value).collect::<Vec<Value>>() }));
        }
        Format::Text => {
            for release in releases() {
                let Release { id, package, version, megabytes, .. } = release;
                outln!("{id:<26} {package} {version}, {megabytes} MB, for {}", release.machine());
            }
        }
    }
}
