//! Selects package changes and the commands that make them, without running them.
//!
//! NVIDIA distributes cuDNN, and the CUDA libraries that cuDNN needs, as wheels, conda packages, Debian packages and
//! RPMs, under different names. A suggested command must use the installer that owns the files.

use std::ops::RangeInclusive;

mod apt;
mod aside;
mod broken;
mod change;
mod commands;
mod conda;
pub(crate) mod contents;
mod decision_file;
mod decisions;
mod dirs;
mod environment;
mod install;
mod installed_pip;
mod interpreter;
mod list;
mod pip;
mod pip_options;
mod pixi;
pub(crate) mod python_shim;
mod requirement;
mod restore;
mod settings;
mod uv;
mod uv_project;
mod wheels;

pub(crate) use apt::with_lists;
pub use apt::{hold, restore as restore_system_packages};
pub use aside::Aside;

pub use change::{PackageChange, Pip, Site, explain_read_only};
pub use decisions::{PYTHON_LINE_ENDS, UV_DIRS, forbidding, uv_project_settings, uv_working_dir};
pub use dirs::data_dir;
pub(crate) use dirs::{dangling_dirs, dirs_of_wheels, named_data_dir};
pub use dirs::{entries, user_base};
pub(crate) use environment::{has_closed_python, site_of_new};
pub use environment::{imports_user_packages, python_in};
pub(crate) use install::install_apart;
pub use install::{install_beside, install_for_system, reinstall, replace, replace_by, upgrade};
pub(crate) use installed_pip::{BasePython, base_python};
pub use interpreter::is_python;
pub use pip_options::canonical_variable;
pub use pixi::{MANIFESTS_OF_PIXI, workspace_of_pixi};
pub use requirement::package_name;
pub(crate) use requirement::with_specifiers;
pub use restore::python_problem;
pub(crate) use restore::{MissingPython, PythonProblem, restore_python, unusable_settings};
pub use settings::{CONDA_ROOTS, conda_settings, pip_settings, pixi_settings, uv_settings};
pub(crate) use uv_project::keep_in_project;
pub(crate) use wheels::{CudaWheel, PackageNames, cuda_wheel};

/// The CUDA major versions that cuDNN 9 releases support.
pub const CUDA_MAJORS: RangeInclusive<u32> = 11..=13;
