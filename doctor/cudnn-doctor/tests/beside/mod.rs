//! Provides the doctor next to the drop-in, as in the distributable.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{TempDir, copy_program, drop_in};

/// A directory with `bin/cudnn-doctor` and `lib/libcudnn.so.9`.
pub(crate) struct Prefix {
    dir: TempDir,
}

impl Prefix {
    pub(crate) fn new() -> Prefix {
        let prefix = Prefix::without_drop_in();
        std::fs::create_dir(prefix.lib()).unwrap();
        for name in ["libcudnn.so.9", "libcudnn_layers.so"] {
            std::fs::copy(drop_in().join("lib").join(name), prefix.lib().join(name)).unwrap();
        }
        prefix
    }

    pub(crate) fn without_drop_in() -> Prefix {
        let prefix = Prefix { dir: TempDir::new() };
        std::fs::create_dir(prefix.path().join("bin")).unwrap();
        let built = env!("CARGO_BIN_EXE_cudnn-doctor");
        std::fs::hard_link(built, prefix.doctor()).unwrap_or_else(|_| copy_program(built, prefix.doctor()));
        prefix
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn lib(&self) -> PathBuf {
        self.path().join("lib")
    }

    pub(crate) fn doctor(&self) -> PathBuf {
        self.path().join("bin/cudnn-doctor")
    }

    /// Returns a command that runs the doctor with few variables.
    pub(crate) fn command(&self, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(self.doctor());
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path());
        command
    }
}
