//! `fetch`: the pinned releases, listed or fetched through pip, each held against its sha256 and its own list of files.

use std::path::PathBuf;

use cudnn_fetch::{Network, RELEASES, Release};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, Printable, document, fail, outln};
use crate::shell::quoted;

/// The options of `fetch`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The release's name, as the list has it. Without one: the list.
    release: Option<String>,
    /// Keep releases in this folder, each in a folder of its own, instead of in the cache.
    #[arg(long, value_name = "FOLDER", requires = "release")]
    into: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let Some(id) = &arguments.release else {
        list(format);
        return Outcome::Fine;
    };
    let into = arguments.into.as_deref().map(std::path::absolute).transpose();
    let into = match into {
        Ok(into) => into,
        Err(error) => return fail(format, error),
    };
    let fetched = cudnn_fetch::release(id).and_then(|release| {
        if format == Format::Text {
            outln!("{} {} ({} MB), unless it is there already", release.package, release.version, release.megabytes);
        }
        Ok((
            release,
            match &into {
                None => cudnn_fetch::fetch(release, Network::Allowed)?,
                Some(folder) => cudnn_fetch::fetch_into(release, folder, Network::Allowed)?,
            },
        ))
    });
    match fetched {
        Ok((release, folder)) => {
            let libraries = release.lib_dir(&folder);
            match format {
                Format::Json => {
                    document(&json!({ "schema": 1, "id": release.id, "folder": libraries.to_string_lossy() }))
                }
                Format::Text => {
                    outln!("{}", libraries.printable());
                    outln!("To use it: eval \"$(cudnn-doctor env {})\"", quoted(&libraries.to_string_lossy()));
                }
            }
            Outcome::Fine
        }
        Err(error) => fail(format, error),
    }
}

fn list(format: Format) {
    // The others serve this project's own tests.
    let of_cudnn = || RELEASES.iter().filter(|release| release.package.contains("cudnn"));
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
            document(&json!({ "schema": 1, "releases": of_cudnn().map(value).collect::<Vec<Value>>() }));
        }
        Format::Text => {
            for Release { id, package, version, platform, megabytes, .. } in of_cudnn() {
                let platform = platform.unwrap_or("this machine");
                outln!("{id:<26} {package} {version}, {megabytes} MB, for {platform}");
            }
        }
    }
}
