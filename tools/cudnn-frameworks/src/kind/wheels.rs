//! Whether a framework finds the libraries of a wheel by itself, wherever ld.so searches.

use std::path::{Component, Path, PathBuf};

use cudnn_probe::{Host, ld_so};

use super::{Kind, PythonStep, matching};

impl Kind {
    /// Whether its Python code opens libraries in this directory of a wheel.
    pub(crate) fn opens_below(&self, wheel_dir: &Path) -> bool {
        let module = wheel_dir.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        let of_major = module.strip_prefix("cu").is_some_and(|major| major.parse::<u32>().is_ok());
        self.opens_first.iter().any(|step| match step {
            PythonStep::Dependencies { on_failure, .. } => {
                of_major || on_failure.iter().any(|(name, _)| *name == module)
            }
            PythonStep::NvidiaModules(modules) => modules.iter().any(|(name, _)| *name == module),
            PythonStep::ToolkitOrWheel { wheels, .. } => wheels.iter().any(|dir| wheel_dir.ends_with(dir)),
        })
    }

    /// Whether the run path of one of its libraries leads to this directory.
    pub(crate) fn has_run_path_to(&self, dir: &Path, wheel_dir: &Path, host: &Host) -> bool {
        let openers = self.opens_by_name.iter().map(|by_name| by_name.from);
        let files = self.libraries.iter().copied().chain(self.kernels).chain(openers);
        let mut run_paths =
            files.flat_map(|pattern| matching(dir, pattern)).flat_map(|file| ld_so::run_path(&file, host)).flatten();
        run_paths.any(|searched| normalized(&searched) == wheel_dir)
    }
}

/// The path without `..`, by its text alone: the directory need not exist.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}
