//! Selects package changes and the commands that make them, without running them.
//!
//! NVIDIA distributes cuDNN, and the CUDA libraries that cuDNN needs, as wheels, conda packages, Debian packages and
//! RPMs, under different names. A suggested command must use the installer that owns the files.

use std::ops::RangeInclusive;

mod apt;
mod change;
mod command;
mod commands;
mod conda;
mod dirs;
mod environment;
mod install;
mod interpreter;
mod list;
mod pip;
mod quoting;
mod requirement;
mod restore;
mod uv;
mod wheels;

pub(crate) use apt::{python_tools, restore as restore_system_packages, with_lists};
pub(crate) use change::{PackageChange, Pip, Site};
pub(crate) use command::Command;
#[cfg(test)]
pub(crate) use command::command_line;
pub(crate) use dirs::{data_dir, entries, is_on_path, path_dirs, user_base};
pub(crate) use environment::{
    BasePython, base_python, has_closed_python, has_invalid_metadata, imports_user_packages, normalized, python_in,
    records, setting,
};
pub(crate) use install::{
    install_apart, install_beside, install_for_system, reinstall, replace, replace_by, upgrade, with_holds,
};
pub(crate) use interpreter::is_python;
pub(crate) use quoting::{powershell_literal, quoted, quoted_for_sh};
pub(crate) use requirement::{is_satisfied_by, package_name};
pub(crate) use restore::{MissingPython, PythonProblem, python_problem, restore_python, unusable_settings};
pub(crate) use wheels::{CudaWheel, PackageNames, cuda_wheel};

/// The CUDA major versions that cuDNN 9 releases support.
pub(crate) const CUDA_MAJORS: RangeInclusive<u32> = 11..=13;
