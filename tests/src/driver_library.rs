//! Provides a real driver library and NVRTC on machines without a GPU, so that cuDNN can compile plans for a described
//! device. The driver is fetched from Debian for tests and never shipped.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_fetch::cache_dir;

use crate::compiler::compile;
use crate::program::profile_dir;
use crate::release::{lib_dir, not_run};
use crate::temp_dir::TempDir;
use crate::wheel::Wheel;

const NVRTC: Wheel = Wheel {
    package: "nvidia-cuda-nvrtc-cu12",
    version: "12.9.86",
    sha256: "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
};

/// Returns the directories with `libcuda.so.1` and NVRTC for CUDA 12, formatted for `LD_LIBRARY_PATH`. If they are
/// unavailable, prints the reason under the test's name and returns `None`.
pub fn driver_and_compiler(test: &str) -> Option<String> {
    if cfg!(not(target_arch = "x86_64")) {
        not_run(test, "the driver library is for x86-64");
        return None;
    }
    let nvrtc = nvrtc()?;
    match driver() {
        Ok(driver) => Some(format!("{}:{}", driver.display(), nvrtc.display())),
        Err(reason) => {
            not_run(test, &reason);
            None
        }
    }
}

fn nvrtc() -> Option<PathBuf> {
    Some(NVRTC.unpacked()?.join("nvidia/cuda_nvrtc/lib"))
}

/// The libraries that let every pinned release plan for a described device without a GPU: Debian's driver, NVRTC, and a
/// fake cuBLASLt that only reports a version. Full releases from 9.27 load cuBLASLt when they plan.
pub struct PlanningLibraries {
    /// The directories, formatted for `LD_LIBRARY_PATH`.
    pub path: String,
    stand_ins: TempDir,
}

impl PlanningLibraries {
    /// Returns the libraries for a release, and the directory of the release. JIT releases use stored results of NVRTC,
    /// because compiling takes most of the time of a test. If something is unavailable, prints the reason under the
    /// test's name and returns `None`.
    pub fn for_release(test: &str, release: &str) -> Option<(Self, PathBuf)> {
        let mut libraries = PlanningLibraries::with_nvrtc(test)?;
        // Full releases call more functions of NVRTC.
        if release.starts_with("jit-") {
            let dir = libraries.stand_ins.path().join("nvrtc");
            let results = profile_dir().join(format!("compiled/nvrtc-{}/{release}", NVRTC.version));
            std::fs::create_dir_all(&results).unwrap();
            nvrtc_once(&dir, &nvrtc()?.join(NVRTC_FILE), &results);
            libraries.path = format!("{}:{}", dir.display(), libraries.path);
        }
        Some((libraries, lib_dir(release)?))
    }

    /// Returns the libraries for any release, without stored results of NVRTC.
    pub fn with_nvrtc(test: &str) -> Option<Self> {
        let others = driver_and_compiler(test)?;
        let stand_ins = TempDir::new();
        for name in ["libcublasLt.so.12", "libcublasLt.so.13"] {
            compile(CUBLAS_LT, &["-shared", "-fPIC", &format!("-Wl,-soname,{name}")], &stand_ins.path().join(name));
        }
        Some(PlanningLibraries { path: format!("{others}:{}", stand_ins.path().display()), stand_ins })
    }
}

const NVRTC_FILE: &str = "libnvrtc.so.12";

/// Creates a directory with a stand-in for this NVRTC, which stores results in a directory.
pub fn nvrtc_once(dir: &Path, nvrtc: &Path, results: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    symlink(nvrtc, dir.join("nvrtc")).unwrap();
    symlink(results, dir.join("results")).unwrap();
    // cuDNN closes NVRTC after each plan, but must not unload the stand-in, which shares the name of the real library.
    let soname = format!("-Wl,-soname,{NVRTC_FILE}");
    compile(
        include_str!("nvrtc_once.c"),
        &["-shared", "-fPIC", "-O2", "-Wl,-z,nodelete", &soname],
        &dir.join(NVRTC_FILE),
    );
}

/// A cuBLASLt that supports no problem. cuDNN terminates the process if one of these functions is missing.
const CUBLAS_LT: &str = "
    unsigned long cublasLtGetVersion(void) { return 130000; }
    int cublasLtGetProperty(int type, int *value) { *value = type == 0 ? 12 : 9; return 0; }
    #define UNSUPPORTED(name) int cublasLt##name(void) { return 15; }
    UNSUPPORTED(Create) UNSUPPORTED(Destroy) UNSUPPORTED(GroupedMatrixLayoutCreate)
    UNSUPPORTED(Matmul) UNSUPPORTED(MatmulAlgoGetHeuristic) UNSUPPORTED(MatmulDescCreate)
    UNSUPPORTED(MatmulDescDestroy) UNSUPPORTED(MatmulDescGetAttribute) UNSUPPORTED(MatmulDescSetAttribute)
    UNSUPPORTED(MatmulPreferenceCreate) UNSUPPORTED(MatmulPreferenceDestroy) UNSUPPORTED(MatmulPreferenceSetAttribute)
    UNSUPPORTED(MatrixLayoutCreate) UNSUPPORTED(MatrixLayoutDestroy) UNSUPPORTED(MatrixLayoutGetAttribute)
    UNSUPPORTED(MatrixLayoutSetAttribute) UNSUPPORTED(MatrixTransform) UNSUPPORTED(MatrixTransformDescCreate)
    UNSUPPORTED(MatrixTransformDescDestroy) UNSUPPORTED(MatrixTransformDescGetAttribute) UNSUPPORTED(MatrixTransformDescSetAttribute)
";

fn driver() -> Result<PathBuf, String> {
    let packages = cache_dir().map_err(|error| error.to_string())?.join("packages");
    let dir = packages.join("libcuda1");
    let lib = dir.join("usr/lib/x86_64-linux-gnu/nvidia/current");
    if !lib.join("libcuda.so.1").exists() {
        std::fs::create_dir_all(&packages).map_err(|error| error.to_string())?;
        let staging = tempfile::Builder::new().prefix(".staging-").tempdir_in(&packages);
        let staging = staging.map_err(|error| error.to_string())?;
        download(staging.path()).map_err(|reason| format!("cannot download Debian's package libcuda1: {reason}"))?;
        // The directory gets this name when it is complete. Another test may have finished first.
        let renamed = std::fs::rename(staging.path().join("root"), &dir);
        if !lib.join("libcuda.so.1").exists() {
            return Err(format!("cannot use {}: {renamed:?}", dir.display()));
        }
    }
    Ok(lib)
}

/// Downloads the package from the configured apt sources, with the component that contains it, and unpacks it to
/// `root`. Leaves the apt configuration unchanged.
fn download(work: &Path) -> Result<(), String> {
    let script = r#"
        mkdir parts lists
        for file in /etc/apt/sources.list.d/*.sources; do
            if grep -qi debian "$file"; then
                sed 's/^Components:.*/Components: main contrib non-free/' "$file" > "parts/${file##*/}"
            fi
        done
        if [ -s /etc/apt/sources.list ]; then
            sed -E -n 's/^(deb .*debian.*) main.*/\1 main contrib non-free/p' /etc/apt/sources.list > parts/main.list
        fi
        apt() {
            apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/parts" \
                -o Dir::State::Lists="$PWD/lists" "$@"
        }
        apt update && apt download libcuda1 && dpkg -x libcuda1_*.deb root
    "#;
    let output = Command::new("sh").args(["-ec", script]).current_dir(work).output();
    let output = output.map_err(|error| format!("cannot start sh: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.lines().find(|line| !line.starts_with("W:")).unwrap_or("apt-get is not installed").to_owned())
}
