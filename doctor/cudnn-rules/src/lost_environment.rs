//! Recognizes a variable that names an unusable environment, so that no command changes another Python instead.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_frameworks::installation::{is_virtual, site_packages};
use cudnn_frameworks::real_path;
use cudnn_probe::facts::{self, PathFacts};
use cudnn_probe::python::is_package_dir;
use cudnn_probe::{Host, Origin};

use crate::packages::{Site, dirs_of_wheels, has_closed_python, python_in, python_problem};
use crate::remedy::{Action, Remedy};
use crate::system::is_loop;

/// The variables that name the active environment, in order of precedence.
pub(crate) const VARIABLES: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// An unusable environment that a variable names.
#[derive(Clone, Debug)]
pub(crate) struct LostEnvironment {
    pub(crate) variable: &'static str,
    /// The value of the variable.
    pub(crate) root: PathBuf,
    /// The reason, as a clause.
    pub(crate) reason: &'static str,
}

impl LostEnvironment {
    /// Returns the environment in this variable, if it is not a readable directory.
    pub(crate) fn in_variable(variable: &'static str, value: Option<OsString>) -> Option<Self> {
        let root = value.map(PathBuf::from).filter(|root| !root.as_os_str().is_empty())?;
        let reason = match facts::metadata(&root) {
            _ if root.is_relative() => "it is not an absolute path",
            Ok(_) if root.leads_to_dir() => return None,
            Ok(_) => "it is not a directory",
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => "there is no such directory",
                _ if is_loop(&error) => "it is a link to itself",
                ErrorKind::PermissionDenied => "this user may not read it",
                // It may come back, for example on an unmounted file system.
                _ => "it cannot be read now",
            },
        };
        Some(LostEnvironment { variable, root, reason })
    }

    /// Returns the active environment of this host if it is unusable, for example without a Python.
    pub(crate) fn active(host: &Host) -> Option<Self> {
        let (variable, value) = VARIABLES.into_iter().find_map(|name| Some((name, host.variable(name)?)))?;
        let root = PathBuf::from(&value);
        Self::in_variable(variable, Some(value)).or_else(|| {
            let meta = root.join("conda-meta");
            let is_empty = |dir: &Path| facts::read_dir(dir).is_ok_and(|entries| entries.is_empty());
            let has_python = || python_in(&root).leads_to_file() || has_closed_python(&root);
            // conda can install packages in an environment without a Python.
            let (is_lost, reason) = match variable {
                "CONDA_PREFIX" => (!meta.path_exists() || is_empty(&meta), "conda has not made it"),
                // A damaged Python can be recreated for the environment's packages.
                _ => (!has_python() && (python_problem(&root).is_none() || !has_packages(&root)), "it has no Python"),
            };
            is_lost.then_some(LostEnvironment { variable, root, reason })
        })
    }

    /// Returns whether an action changes another environment instead, directly or through links in these environments.
    pub(crate) fn is_bypassed_by(&self, action: &Action, others: &[Origin]) -> bool {
        let sites = others.iter().filter_map(Origin::root).flat_map(site_packages);
        let dirs: Vec<PathBuf> = sites.flat_map(|site| dirs_of_wheels(&site)).map(|dir| real_path(&dir)).collect();
        let is_below = |path: &Path| dirs.iter().any(|dir| path.starts_with(dir));
        let is_changed = |path: &Path| is_in_environment(path) || is_below(path) || is_below(&real_path(path));
        match action {
            Action::Packages(change) => change.site != Site::System,
            Action::Python(root) => *root != self.root,
            action => action.changed_places().into_iter().any(is_changed),
        }
    }

    pub(crate) fn remedy(&self) -> Remedy {
        let LostEnvironment { variable, root, reason } = self;
        Remedy::new(format!(
            "{variable} names the environment {}, but {reason}: make that environment usable, or unset {variable}; then \
             run `{} check` again",
            root.printable(),
            doctor()
        ))
    }
}

fn has_packages(root: &Path) -> bool {
    root.join("lib").leads_to_dir() || root.join("Lib").leads_to_dir()
}

/// Returns whether this path is below the packages of a Python, or in a virtual or conda environment.
fn is_in_environment(path: &Path) -> bool {
    let is_environment = |root: &Path| is_virtual(root) || root.join("conda-meta").leads_to_dir();
    path.ancestors().any(|dir| is_package_dir(dir) || is_environment(dir))
}
