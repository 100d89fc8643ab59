//! The one source of advice: which package contains which library, and the command that installs or reinstalls it. It
//! reads which pip an environment has, and runs nothing.
//!
//! NVIDIA distributes cuDNN, and the CUDA libraries that cuDNN needs, as wheels, conda packages, Debian packages and
//! RPMs, under different names. A command that helps must be the one of the installer that owns the files.
//!
//! ```
//! use cudnn_probe::packages::{Component, Installer, install, wheel_for};
//! assert_eq!(wheel_for("libcublasLt.so.13").as_deref(), Some("nvidia-cublas"));
//! let command = install(Component::Cudnn, 13, Installer::Conda).unwrap();
//! assert_eq!(command.to_string(), "conda install --yes --channel conda-forge cudnn cuda-version=13");
//! ```

use std::ops::RangeInclusive;

mod command;
mod component;
mod conda;
mod cuda_wheel;
mod install;
mod interpreter;
mod layout;
mod lost_python;
mod package;
mod pip;
mod quoting;

pub use command::{Command, command_line};
pub use component::{Component, wheel_for};
pub use cuda_wheel::{CudaWheel, cuda_wheel};
pub use install::{
    install, install_apart, install_beside, lift_hold, reinstall, reinstall_requirements, replace, replace_by, upgrade,
};
pub use interpreter::is_python;
pub use layout::{site_packages, user_base};
pub use lost_python::{MissingPython, PythonProblem, missing_python, python_problem, restore_python};
pub use package::{Installer, Package};
pub use pip::{
    BasePython, base_python, changes_packages_of_user, clean_cache, closed_python, ensure_pip, is_on_path, pip, pip_by,
    pip_on_path, recorded_version,
};
pub use quoting::{powershell_literal, quoted, quoted_for_powershell, quoted_for_sh};

/// The CUDA major version to advise if the program's is unknown.
pub const DEFAULT_CUDA_MAJOR: u32 = 12;

/// The CUDA majors that releases of cuDNN 9 were built for.
pub const CUDA_MAJORS: RangeInclusive<u32> = 11..=13;
