//! Runs the project's commands: `cargo xtask COMMAND`.

use std::process::ExitCode;

use crate::command::{Result, root, run};

mod bindings;
mod command;
mod dist;
mod newest;
mod pins;
mod publish;
mod release;
mod wheels;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  bindings             generate cudnn-sys/src/generated from the headers of the newest pinned release
  bindings --check     fail if the checked-in bindings are not up to date
  dist [--target TARGET] [--profile PROFILE]
                       build the drop-in, libcudnn.so.9 or cudnn64_9.dll, with its header, pkg-config file and CMake config,
                       in the profile `dist` or another one; print the directory
  fetch [ID...]        download pinned releases into the cache; without an ID, list them
  frameworks           add facts about newer framework releases from their metadata on the package index; print
                       what a person must decide
  frameworks --check   fail if `frameworks` would change the data
  frameworks --verify  compare the data with the metadata of all releases that it describes
  newest               pin newer releases of cuDNN on the package index, and test the newest one
  publish --dry-run [--repository URL]
                       perform all steps of a publication except the upload: package every crate under its name on the
                       package index, check it, build it; print what a person must decide
  release VERSION      pin the wheels of a cuDNN release (9.29.0.42, or 9.29.0 for its newest build), update the bindings, and
                       print what a person must decide
  release --dry-run VERSION
                       print what `release` would change without changing files; still downloads the wheels
  release-files [--target TARGET]...
                       build all files of a release of this project for all or these platforms: wheels, archives, the
                       static doctor, bills of materials, checksums and release notes; print the directory
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["bindings"] => bindings::write(),
        ["bindings", "--check"] => bindings::check(),
        ["dist", options @ ..] if has_options(options, &["--target", "--profile"]) => {
            let value = |name| options.chunks(2).rfind(|option| option.first() == Some(&name))?.last().copied();
            let profile = value("--profile").unwrap_or(dist::PROFILE);
            dist::build(profile, value("--target")).map(|dir| println!("{}", dir.display()))
        }
        ["fetch", ids @ ..] => fetch(ids),
        ["frameworks", option @ ..] if matches!(option, [] | ["--check" | "--verify"]) => frameworks(option),
        ["newest"] => newest::pin_and_test(),
        ["publish", "--dry-run"] => publish::dry_run(None),
        ["publish", "--dry-run", "--repository", url] => publish::dry_run(Some(url)),
        ["release", "--dry-run", version] | ["release", version, "--dry-run"] => release::run(version, true),
        ["release", version] if !version.starts_with('-') => release::run(version, false),
        ["release-files", targets @ ..] if has_options(targets, &["--target"]) => {
            let targets: Vec<&str> = targets.iter().skip(1).step_by(2).copied().collect();
            dist::release_files::build(&targets).map(|dir| println!("{}", dir.display()))
        }
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
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

/// Returns whether these are only options with these names, each followed by a value.
fn has_options(arguments: &[&str], names: &[&str]) -> bool {
    arguments.chunks(2).all(|option| matches!(option, [name, _] if names.contains(name)))
}

/// Updates the facts about framework releases with a script, by the Python that fetches releases.
fn frameworks(option: &[&str]) -> Result<()> {
    let root = root()?;
    run(cudnn_fetch::python(&root).arg(root.join("doctor/cudnn-frameworks/data/update.py")).args(option))
}

fn fetch(ids: &[&str]) -> Result<()> {
    if ids.is_empty() {
        for release in cudnn_fetch::RELEASES {
            println!("{:<24} {}=={} ({} MB)", release.id, release.package, release.version, release.megabytes);
        }
    }
    for id in ids {
        let release = cudnn_fetch::release(id)?;
        println!("{}", cudnn_fetch::fetch(release, cudnn_fetch::Network::Allowed)?.display());
    }
    Ok(())
}
