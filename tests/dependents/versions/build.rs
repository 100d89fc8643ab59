//! Finds the cuDNN of this machine, and compiles the parts of the program that its release has: `cfg(cudnn_9_10)` is set
//! for 9.10.0 and newer. Without cuDNN, or with one that is too old, the build goes on and says what is missing.

use cudnn_probe::{Host, Requirements, Search, VARIABLES, Version, select};

/// The releases that the program distinguishes.
const RELEASES: [Version; 2] = [Version::new(9, 10, 0), Version::new(9, 22, 0)];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    // Not what the build script itself would load: it is another program than the one that is built.
    let search = Search::new(Host::current().without_executable());
    let found = select(&search, &Requirements::new().minimum(Version::new(9, 0, 0))).into_result();
    if let Err(missing) = &found {
        for line in missing.report().lines() {
            println!("cargo::warning={line}");
        }
    }
    for release in RELEASES {
        let name = format!("cudnn_{}_{}", release.major, release.minor);
        println!("cargo::rustc-check-cfg=cfg({name})");
        if found.as_ref().is_ok_and(|found| found.version >= release) {
            println!("cargo::rustc-cfg={name}");
        }
    }
}
