//! `fetch`: the pinned releases, listed or fetched through pip, each held against its sha256 and its own list of files.

use cudnn_fetch::{Network, RELEASES, Release};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, json, say};

/// The options of `fetch`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The release's name, as the list has it. Without one: the list.
    release: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let Some(id) = &arguments.release else {
        list(format);
        return Outcome::Fine;
    };
    let fetched = cudnn_fetch::release(id).and_then(|release| {
        if format == Format::Text {
            say!(
                "{} {} ({} MB), unless it is in the cache already",
                release.package,
                release.version,
                release.megabytes
            );
        }
        Ok((release, cudnn_fetch::fetch(release, Network::Allowed)?))
    });
    match fetched {
        Ok((release, folder)) => {
            let libraries = release.lib_dir(&folder);
            match format {
                Format::Json => json(&json!({ "schema": 1, "id": release.id, "folder": libraries.to_string_lossy() })),
                Format::Text => {
                    say!("{}", libraries.display());
                    say!("To use it: eval \"$(cudnn-doctor env {})\"", libraries.display());
                }
            }
            Outcome::Fine
        }
        Err(error) => {
            eprintln!("{error}");
            Outcome::Problems
        }
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
            json(&json!({ "schema": 1, "releases": of_cudnn().map(value).collect::<Vec<Value>>() }));
        }
        Format::Text => {
            for Release { id, package, version, platform, megabytes, .. } in of_cudnn() {
                let platform = platform.unwrap_or("this machine");
                say!("{id:<26} {package} {version}, {megabytes} MB, for {platform}");
            }
        }
    }
}
