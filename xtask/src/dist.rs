//! `cargo xtask dist`: the drop-in library with what a C or C++ program needs to build with it, as a directory to
//! install.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::workspace::root;

/// The files of the repository to copy, and their destinations. The version replaces `@VERSION@`.
const FILES: [(&str, &str); 6] = [
    ("dist/cudnn_shim.h", "include/cudnn_shim.h"),
    ("dist/cudnn-shim.pc", "lib/pkgconfig/cudnn-shim.pc"),
    ("dist/cudnn-shim-config.cmake", "lib/cmake/cudnn-shim/cudnn-shim-config.cmake"),
    ("dist/cudnn-shim-config-version.cmake", "lib/cmake/cudnn-shim/cudnn-shim-config-version.cmake"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
];

/// Builds the directory below cargo's target directory, for this machine or another target triple, and returns it.
pub(crate) fn build(triple: Option<&str>) -> Result<PathBuf> {
    let root = root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let architecture = architecture(triple)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&root)
        // The library must not contain paths of this machine.
        .env("RUSTFLAGS", remapped(&root))
        .args(["build", "--quiet", "--package", "cudnn-shim", "--profile", "dist", "--target-dir"])
        .arg(&target);
    run(match triple {
        Some(triple) => cargo.args(["--target", triple]),
        None => &mut cargo,
    })?;
    let version = env!("CARGO_PKG_VERSION");
    let dir = target.join(format!("dist/cudnn-shim-{version}-linux-{architecture}"));
    let lib = dir.join("lib");
    std::fs::create_dir_all(&lib)?;
    let library = lib.join("libcudnn.so.9");
    // Replaced in one step, because a program may be using the old file.
    let unfinished = lib.join(format!(".libcudnn.so.9.{}", std::process::id()));
    let prefix =
        if architecture == std::env::consts::ARCH { String::new() } else { format!("{architecture}-linux-gnu-") };
    run(Command::new(format!("{prefix}strip"))
        .arg("--remove-section=.comment")
        .arg("-o")
        .arg(&unfinished)
        .arg(target.join(triple.unwrap_or_default()).join("dist/libcudnn.so")))?;
    std::fs::rename(unfinished, library)?;
    symlink("libcudnn.so.9", &lib.join("libcudnn.so"))?;
    for (from, to) in FILES {
        let to = dir.join(to);
        std::fs::create_dir_all(to.parent().unwrap_or(&dir))?;
        std::fs::write(&to, std::fs::read_to_string(root.join(from))?.replace("@VERSION@", version))?;
    }
    Ok(dir)
}

/// The architecture of a triple that the drop-in is built for; that of this machine if there is none.
fn architecture(triple: Option<&str>) -> Result<&str> {
    match triple {
        None => Ok(std::env::consts::ARCH),
        Some("x86_64-unknown-linux-gnu") => Ok("x86_64"),
        Some("aarch64-unknown-linux-gnu") => Ok("aarch64"),
        Some(other) => Err(format!("the drop-in is not built for {other}").into()),
    }
}

/// Compiler flags that shorten the paths of source files in panic messages.
fn remapped(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    format!("--remap-path-prefix={}=cargo --remap-path-prefix={}=cudnn-shim", home.display(), root.display())
}

fn symlink(to: &str, at: &Path) -> Result<()> {
    if at.symlink_metadata().is_err() {
        std::os::unix::fs::symlink(to, at)?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}
