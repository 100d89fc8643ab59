//! `dist`: the drop-in library with what a C or C++ program needs to be built with it, as a folder to install.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, root};

/// What is copied from the repository, and where to. `@VERSION@` becomes the version.
const FILES: [(&str, &str); 6] = [
    ("dist/cudnn_shim.h", "include/cudnn_shim.h"),
    ("dist/cudnn-shim.pc", "lib/pkgconfig/cudnn-shim.pc"),
    ("dist/cudnn-shim-config.cmake", "lib/cmake/cudnn-shim/cudnn-shim-config.cmake"),
    ("dist/cudnn-shim-config-version.cmake", "lib/cmake/cudnn-shim/cudnn-shim-config-version.cmake"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
];

/// Builds it into a folder below the target folder; gives that.
pub(crate) fn make() -> Result<PathBuf> {
    let root = root().canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    run(Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(&root)
        // No path of the machine that it is built on.
        .env("RUSTFLAGS", remapped(&root))
        .args(["build", "--quiet", "--package", "cudnn-shim", "--profile", "dist", "--target-dir"])
        .arg(&target))?;
    let version = env!("CARGO_PKG_VERSION");
    let (system, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    let folder = target.join(format!("dist/cudnn-shim-{version}-{system}-{architecture}"));
    let lib = folder.join("lib");
    std::fs::create_dir_all(&lib)?;
    let library = lib.join("libcudnn.so.9");
    // Written anew and put in its place in one step: a program may be running with the one that is there.
    let unfinished = lib.join(format!(".libcudnn.so.9.{}", std::process::id()));
    run(Command::new("strip")
        .arg("--remove-section=.comment")
        .arg("-o")
        .arg(&unfinished)
        .arg(target.join("dist/libcudnn.so")))?;
    std::fs::rename(unfinished, library)?;
    link("libcudnn.so.9", &lib.join("libcudnn.so"))?;
    for (from, to) in FILES {
        let to = folder.join(to);
        std::fs::create_dir_all(to.parent().unwrap_or(&folder))?;
        std::fs::write(&to, std::fs::read_to_string(root.join(from))?.replace("@VERSION@", version))?;
    }
    Ok(folder)
}

/// Has source files in panic messages named without the folders above them.
fn remapped(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    format!("--remap-path-prefix={}=cargo --remap-path-prefix={}=cudnn-shim", home.display(), root.display())
}

fn link(to: &str, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_err() {
        std::os::unix::fs::symlink(to, at)?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}
