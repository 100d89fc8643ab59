//! `cargo xtask dist`: builds a directory with the drop-in and all files for building C and C++ programs with it. The
//! submodules make the files of a release.

use crate::command::{Result, cargo, root, run};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

mod glibc;
mod materials;
mod pack;
pub(crate) mod release_files;
mod wheel;

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) const PROFILE: &str = "dist";

const BILL: &str = "sbom.cdx.json";

/// A target platform of the drop-in.
struct Platform {
    /// Rust's name.
    triple: &'static str,
    /// The prefix of the compiler's programs.
    tools: &'static str,
    is_windows: bool,
}

/// Rust's names of the platforms.
const LINUX_X86_64: &str = "x86_64-unknown-linux-gnu";
const LINUX_AARCH64: &str = "aarch64-unknown-linux-gnu";
const WINDOWS_X86_64: &str = "x86_64-pc-windows-gnu";
/// Only the doctor is also built for this target.
const STATIC: &str = "x86_64-unknown-linux-musl";

impl Platform {
    /// Returns the platform with this name, or this machine's.
    fn of(triple: Option<&str>) -> Result<Self> {
        let here = std::env::consts::ARCH;
        let triple = triple.unwrap_or(match (std::env::consts::OS, here) {
            ("windows", _) => WINDOWS_X86_64,
            (_, "aarch64") => LINUX_AARCH64,
            _ => LINUX_X86_64,
        });
        let (triple, architecture, tools) = match triple {
            LINUX_X86_64 => (LINUX_X86_64, "x86_64", "x86_64-linux-gnu-"),
            LINUX_AARCH64 => (LINUX_AARCH64, "aarch64", "aarch64-linux-gnu-"),
            WINDOWS_X86_64 => (WINDOWS_X86_64, "x86_64", "x86_64-w64-mingw32-"),
            other => return Err(format!("the drop-in is not built for {other}").into()),
        };
        let is_windows = triple == WINDOWS_X86_64;
        let tools = if architecture == here && !is_windows { "" } else { tools };
        Ok(Platform { triple, tools, is_windows })
    }

    fn compiler(&self) -> String {
        format!("{}{}", self.tools, if self.tools.is_empty() { "cc" } else { "gcc" })
    }

    fn ld_so(&self) -> &'static str {
        if self.triple == LINUX_AARCH64 { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" }
    }

    fn programs(&self) -> [&'static str; 2] {
        if self.is_windows { ["cudnn-doctor.exe", "cudnn-lab.exe"] } else { ["cudnn-doctor", "cudnn-lab"] }
    }

    /// Returns the libraries in the directory of [`build`].
    fn libraries(&self) -> [&'static str; 2] {
        if self.is_windows {
            ["bin/cudnn64_9.dll", "bin/cudnn_layers.dll"]
        } else {
            ["lib/libcudnn.so.9", "lib/libcudnn_layers.so"]
        }
    }

    /// Compiles packages with this profile, and returns the directory with the files.
    fn compile(&self, profile: &str, packages: &[&str]) -> Result<PathBuf> {
        let (root, target) = (root()?, target_dir()?);
        let mut command = cargo(&root);
        command.env("RUSTFLAGS", self.rustflags()?);
        command.args(["build", "--quiet", "--profile", profile, "--target", self.triple, "--target-dir"]).arg(&target);
        run(command.args(packages.iter().flat_map(|package| ["--package", package])))?;
        Ok(target.join(self.triple).join(profile))
    }

    /// Returns rustc's flags after preparing the libraries that they refer to.
    fn rustflags(&self) -> Result<String> {
        // Binaries must contain neither local paths nor the build time.
        let mut flags = remapped(&root()?);
        if self.is_windows {
            flags.push_str(" -Clink-arg=-static-libgcc -Clink-arg=-Wl,--no-insert-timestamp");
        } else if self.triple != STATIC {
            let stand_ins = target_dir()?.join(self.triple).join("glibc");
            glibc::write_stubs(&self.compiler(), self.ld_so(), &stand_ins)?;
            write!(flags, " -L{} -Clink-arg=-Wl,--allow-shlib-undefined", stand_ins.display())?;
        }
        Ok(flags)
    }

    /// Returns the files of the repository to copy, and their destinations. `@VERSION@` is replaced in them.
    fn files(&self) -> [(&'static str, &'static str); 7] {
        let [package, config] = match self.is_windows {
            true => ["dist/windows/cudnn-shim.pc", "dist/windows/cudnn-shim-config.cmake"],
            false => ["dist/cudnn-shim.pc", "dist/cudnn-shim-config.cmake"],
        };
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

/// Builds the directory for this machine or another target, and returns it.
pub(crate) fn build(profile: &str, triple: Option<&str>) -> Result<PathBuf> {
    let root = root()?;
    let target = target_dir()?;
    let platform = Platform::of(triple)?;
    let built = platform.compile(profile, &["cudnn-shim", "cudnn-layers-library"])?;
    let dir = target.join(profile).join(format!("cudnn-shim-{VERSION}-{}", platform.triple));
    let lib = dir.join("lib");
    std::fs::create_dir_all(&lib)?;
    if platform.is_windows {
        put_stripped(&platform, &built.join("cudnn.dll"), &dir.join("bin"), "cudnn64_9.dll")?;
        put_stripped(&platform, &built.join("cudnn_layers.dll"), &dir.join("bin"), "cudnn_layers.dll")?;
        // NVIDIA's installer and MinGW use these names.
        for name in ["lib/x64/cudnn.lib", "lib/libcudnn.dll.a"] {
            install(&built.join("libcudnn.dll.a"), &dir.join(name))?;
        }
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
        std::fs::write(&to, std::fs::read_to_string(root.join(from))?.replace("@VERSION@", VERSION))?;
    }
    Ok(dir)
}

/// Builds the static doctor and returns the file.
fn static_doctor() -> Result<PathBuf> {
    let platform = Platform { triple: STATIC, tools: "", is_windows: false };
    let built = platform.compile("dist-doctor", &["cudnn-doctor"])?;
    let dir = target_dir()?.join("dist/doctor").join(platform.triple);
    let [doctor, _] = platform.programs();
    put_stripped(&platform, &built.join(doctor), &dir, doctor)
}

/// Copies a file without debugging information into a directory. A rename replaces the old file, which may be in use.
fn put_stripped(platform: &Platform, from: &Path, dir: &Path, name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let unfinished = dir.join(format!(".{name}.{}", std::process::id()));
    let mut strip = Command::new(format!("{}strip", platform.tools));
    run(strip.arg("--remove-section=.comment").arg("-o").arg(&unfinished).arg(from))?;
    let library = dir.join(name);
    std::fs::rename(unfinished, &library)?;
    Ok(library)
}

fn target_dir() -> Result<PathBuf> {
    let dir = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    dir.map_or_else(|| Ok(root()?.join("target")), |dir| Ok(std::path::absolute(dir)?))
}

fn new_dir(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir)?;
    Ok(dir.to_owned())
}

fn install(from: &Path, to: &Path) -> Result<()> {
    let error = |error| format!("cannot copy {} to {}: {error}", from.display(), to.display());
    std::fs::create_dir_all(to.parent().unwrap_or(to)).map_err(error)?;
    std::fs::copy(from, to).map_err(error)?;
    Ok(())
}

/// Returns compiler flags that shorten source paths in panic messages.
fn remapped(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    format!("--remap-path-prefix={}=cargo --remap-path-prefix={}=cudnn-shim", home.display(), root.display())
}
