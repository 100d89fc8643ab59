//! `cargo xtask dist`: the drop-in library with what a C or C++ program needs to build with it, as a directory to
//! install.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::workspace::root;

/// A kind of machine that the drop-in is built for.
struct Platform {
    /// Rust's name; `None` for this machine.
    triple: Option<&'static str>,
    /// The name in that of the directory.
    name: String,
    /// The prefix of the names of the compiler's programs.
    tools: &'static str,
    is_windows: bool,
}

impl Platform {
    fn of(triple: Option<&str>) -> Result<Self> {
        let here = std::env::consts::ARCH;
        let (triple, architecture, tools) = match triple {
            None => (None, here, ""),
            Some("x86_64-unknown-linux-gnu") => (Some("x86_64-unknown-linux-gnu"), "x86_64", "x86_64-linux-gnu-"),
            Some("aarch64-unknown-linux-gnu") => (Some("aarch64-unknown-linux-gnu"), "aarch64", "aarch64-linux-gnu-"),
            Some("x86_64-pc-windows-gnu") => (Some("x86_64-pc-windows-gnu"), "x86_64", "x86_64-w64-mingw32-"),
            Some(other) => return Err(format!("the drop-in is not built for {other}").into()),
        };
        let is_windows = triple.unwrap_or(std::env::consts::OS).contains("windows");
        let system = if is_windows { "windows" } else { "linux" };
        let tools = if architecture == here && !is_windows { "" } else { tools };
        Ok(Platform { triple, name: format!("{system}-{architecture}"), tools, is_windows })
    }

    /// The files of the repository to copy, and their destinations. The version replaces `@VERSION@`.
    fn files(&self) -> [(&'static str, &'static str); 7] {
        let package = if self.is_windows { "dist/windows/cudnn-shim.pc" } else { "dist/cudnn-shim.pc" };
        let config =
            if self.is_windows { "dist/windows/cudnn-shim-config.cmake" } else { "dist/cudnn-shim-config.cmake" };
        [
            ("dist/cudnn_shim.h", "include/cudnn_shim.h"),
            ("dist/cudnn_layer.h", "include/cudnn_layer.h"),
            (package, "lib/pkgconfig/cudnn-shim.pc"),
            (config, "lib/cmake/cudnn-shim/cudnn-shim-config.cmake"),
            ("dist/cudnn-shim-config-version.cmake", "lib/cmake/cudnn-shim/cudnn-shim-config-version.cmake"),
            ("LICENSE-MIT", "LICENSE-MIT"),
            ("LICENSE-APACHE", "LICENSE-APACHE"),
        ]
    }
}

/// Builds the directory below cargo's target directory, for this machine or another target triple, and returns it.
pub(crate) fn build(triple: Option<&str>) -> Result<PathBuf> {
    let root = root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let platform = Platform::of(triple)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&root)
        // The library must not contain paths of this machine.
        .env("RUSTFLAGS", remapped(&root))
        .args([
            "build",
            "--quiet",
            "--package",
            "cudnn-shim",
            "--package",
            "cudnn-layers",
            "--profile",
            "dist",
            "--target-dir",
        ])
        .arg(&target);
    cargo.args(platform.triple.iter().flat_map(|triple| ["--target", *triple]));
    run(&mut cargo)?;
    let built = target.join(platform.triple.unwrap_or_default()).join("dist");
    let version = env!("CARGO_PKG_VERSION");
    let dir = target.join(format!("dist/cudnn-shim-{version}-{}", platform.name));
    let lib = dir.join("lib");
    std::fs::create_dir_all(&lib)?;
    if platform.is_windows {
        put_dll(&platform, &built, &dir)?;
        put_stripped(&platform, &built.join("cudnn_layers.dll"), &dir.join("bin"), "cudnn_layers.dll")?;
    } else {
        put_stripped(&platform, &built.join("libcudnn_layers.so"), &lib, "libcudnn_layers.so")?;
        let library = put_stripped(&platform, &built.join("libcudnn.so"), &lib, "libcudnn.so.9")?;
        let link = library.with_file_name("libcudnn.so");
        if link.symlink_metadata().is_err() {
            run(Command::new("ln").args(["-s", "libcudnn.so.9"]).arg(link))?;
        }
    }
    for (from, to) in platform.files() {
        let to = dir.join(to);
        std::fs::create_dir_all(to.parent().unwrap_or(&dir))?;
        std::fs::write(&to, std::fs::read_to_string(root.join(from))?.replace("@VERSION@", version))?;
    }
    Ok(dir)
}

/// Copies the DLL, and the import library under the names by which NVIDIA's installer and MinGW have it.
fn put_dll(platform: &Platform, built: &Path, dir: &Path) -> Result<()> {
    put_stripped(platform, &built.join("cudnn.dll"), &dir.join("bin"), "cudnn64_9.dll")?;
    std::fs::create_dir_all(dir.join("lib/x64"))?;
    for name in ["lib/x64/cudnn.lib", "lib/libcudnn.dll.a"] {
        std::fs::copy(built.join("libcudnn.dll.a"), dir.join(name))?;
    }
    Ok(())
}

/// Puts the library without debugging information into a directory. Replaces it in one step, because a program may be
/// using the old file.
fn put_stripped(platform: &Platform, from: &Path, dir: &Path, name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let unfinished = dir.join(format!(".{name}.{}", std::process::id()));
    let mut strip = Command::new(format!("{}strip", platform.tools));
    run(strip.arg("--remove-section=.comment").arg("-o").arg(&unfinished).arg(from))?;
    let library = dir.join(name);
    std::fs::rename(unfinished, &library)?;
    Ok(library)
}

/// Compiler flags that shorten the paths of source files in panic messages.
fn remapped(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    format!("--remap-path-prefix={}=cargo --remap-path-prefix={}=cudnn-shim", home.display(), root.display())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}
