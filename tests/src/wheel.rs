//! Downloads real wheels of frameworks through pip, verifies their sha256, and unpacks them into the cache directory.
//! Tests only read their files and never import them into Python.

use std::path::{Path, PathBuf};

use cudnn_fetch::{cache_dir, pip};

use crate::release::{OFFLINE_VARIABLE, not_run};

/// A pinned wheel for Python 3.12 on Linux, x86-64.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// The package name.
    pub package: &'static str,
    /// The package version.
    pub version: &'static str,
    /// The sha256 of the wheel.
    pub sha256: &'static str,
}

impl Wheel {
    /// The installer uv.
    pub const UV: Wheel = Wheel {
        package: "uv",
        version: "0.13.9",
        sha256: "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    };

    /// Returns the unpacked wheel, or `None` if it is unavailable and [`OFFLINE_VARIABLE`] is `skip`.
    pub fn unpacked(&self) -> Option<PathBuf> {
        let wheels = cache_dir().unwrap().join("wheels");
        let dir = wheels.join(format!("{}-{}", self.package, self.version));
        // The directory gets this name when it is complete.
        if dir.is_dir() {
            return Some(dir);
        }
        let Err(error) = self.install(&wheels, &dir) else { return Some(dir) };
        let may_skip = std::env::var_os(OFFLINE_VARIABLE).is_some_and(|value| value == "skip");
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        assert!(
            may_skip,
            "{test} needs {} {}: {error}\nSet {OFFLINE_VARIABLE}=skip to skip it.",
            self.package, self.version
        );
        not_run(test, &error);
        None
    }

    fn install(&self, wheels: &Path, dir: &Path) -> Result<(), String> {
        std::fs::create_dir_all(wheels).map_err(|error| error.to_string())?;
        let staging =
            tempfile::Builder::new().prefix(".staging-").tempdir_in(wheels).map_err(|error| error.to_string())?;
        let requirement = staging.path().join("requirement.txt");
        let line = format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.sha256);
        std::fs::write(&requirement, line).map_err(|error| error.to_string())?;
        let unpacked = staging.path().join("unpacked");
        let mut command = pip(staging.path());
        command
            .args(["install", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir", "--quiet"])
            .args(["--disable-pip-version-check", "--no-input", "--require-hashes", "--python-version", "3.12"])
            // pip compares the requirement with the Python that runs pip.
            .arg("--ignore-requires-python")
            .args(
                ["manylinux2014_x86_64", "manylinux_2_27_x86_64", "manylinux_2_28_x86_64"]
                    .map(|tag| format!("--platform={tag}")),
            )
            .arg("--target")
            .arg(&unpacked)
            .arg("--requirement")
            .arg(&requirement)
            .stdout(std::io::stderr());
        let status = command.status().map_err(|error| format!("cannot start pip: {error}"))?;
        if !status.success() {
            return Err(format!("pip exited with {status}"));
        }
        match std::fs::rename(&unpacked, dir) {
            // Another test was faster.
            Err(_) if dir.is_dir() => Ok(()),
            renamed => renamed.map_err(|error| error.to_string()),
        }
    }
}
