//! Finds the cuDNN of this machine, and compiles the parts of the program that its release has: `cfg(cudnn_9_10)` is set
//! for 9.10.0 and newer. Without cuDNN, or with one that is too old, the build goes on and says what is missing.

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
    // The search is for the machine that it runs on.
    if std::env::var_os("TARGET") != std::env::var_os("HOST") {
        println!("cargo::warning=the cuDNN of the target is not known here: the program does without");
        return;
    }
    // Not what the build script itself would load: it is another program than the one that is built.
    let search = Search::new(Host::current().without_executable());
    let found = select(&search, &Requirements::new().minimum(Version::new(9, 0, 0))).into_result();
    let found = match found {
        Ok(found) => found,
        Err(missing) => {
            for line in missing.report().lines() {
                println!("cargo::warning={line}");
            }
            // A file that does not exist: cargo asks again in each build, until there is a cuDNN.
            println!("cargo::rerun-if-changed=no-cudnn-yet");
            return;
        }
    };
    println!("cargo::rerun-if-changed={}", found.dir.join(Library::Graph.file_name()).display());
    for release in RELEASES.into_iter().filter(|release| found.version >= *release) {
        println!("cargo::rustc-cfg=cudnn_{}_{}", release.major, release.minor);
    }
}
