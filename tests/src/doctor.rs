//! The command `cudnn-doctor`, for tests outside its package.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The program, built in the same profile as this test.
///
/// # Panics
/// When the build fails.
#[must_use]
pub fn doctor() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let test = std::env::current_exe().unwrap();
            let dir = test.ancestors().nth(2).unwrap().to_owned();
            let is_release = dir.ends_with("release");
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let built = Command::new(cargo)
                .args(["build", "--quiet", "--package", "cudnn-doctor"])
                .args(is_release.then_some("--release"))
                .arg("--target-dir")
                .arg(dir.parent().unwrap())
                // The directory is that of the target already.
                .env_remove("CARGO_BUILD_TARGET")
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(built.is_ok_and(|status| status.success()), "cudnn-doctor cannot be built");
            dir.join("cudnn-doctor")
        })
        .clone()
}
