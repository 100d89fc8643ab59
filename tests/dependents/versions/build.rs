//! Finds the installed cuDNN and enables code for its release: `cfg(cudnn_9_10)` is set from 9.10.0. If cuDNN is
//! missing or too old, the build continues with a warning.

use cudnn_probe::{Host, Library, Requirements, Search, VARIABLES, Version, select};

/// The releases that the program distinguishes.
const RELEASES: [Version; 2] = [Version::new(9, 10, 0), Version::new(9, 22, 0)];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    for release in RELEASES {
        println!("cargo::rustc-check-cfg=cfg(cudnn_{}_{})", release.major, release.minor);
    }
    // The search is for the machine on which it runs.
    if std::env::var_os("TARGET") != std::env::var_os("HOST") {
        println!("cargo::warning=cannot search for the target's cuDNN on this machine; building without it");
        return;
    }
    // The built program has another run path than this build script, so the script's own executable must not count.
    let search = Search::new(Host::current().without_executable());
    let found = select(&search, &Requirements::new().minimum(Version::new(9, 0, 0))).into_result();
    let found = match found {
        Ok(found) => found,
        Err(missing) => {
            for line in missing.report().lines() {
                println!("cargo::warning={line}");
            }
            // Because this file never exists, cargo reruns the script in every build until cuDNN is installed.
            println!("cargo::rerun-if-changed=no-cudnn-yet");
            return;
        }
    };
    println!("cargo::rerun-if-changed={}", found.dir.join(Library::Graph.file_name()).display());
    for release in RELEASES.into_iter().filter(|release| found.version >= *release) {
        println!("cargo::rustc-cfg=cudnn_{}_{}", release.major, release.minor);
    }
}
