//! The files that a step is about: a step is not executed if they have changed since the plan was made, or if another user
//! than root can change them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cudnn_os::rights::{belongs_to_root, is_root, mode};
use cudnn_probe::canonicalize;

use crate::escape::Printable;
use crate::packages::{Command, Site, path_dirs, python_in, records};
use crate::plan::{Line, Step};
use crate::remedy::Action;

/// Shows a change of the system's packages.
pub(super) const DPKG: &str = "/var/lib/dpkg/status";

/// What shows a change of a file or directory: the length and the time of the last change; `None` if it is not there.
type Stamp = Option<(u64, Option<SystemTime>)>;

/// Files and directories by their path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State(BTreeMap<PathBuf, Stamp>);

impl State {
    /// The state of what this action changes.
    pub(super) fn of(action: &Action) -> State {
        let mut paths = places(action);
        match action {
            Action::Packages(change) => {
                for dir in change.site.package_dirs() {
                    paths.extend(records(&dir).into_iter().map(|record| record.dir));
                    paths.extend([dir.join("nvidia"), dir]);
                }
                if let Site::Conda(root) = &change.site {
                    paths.extend([root.join("conda-meta"), root.join("conda-meta/history")]);
                }
            }
            Action::Python(root) => paths.extend([root.join("pyvenv.cfg"), root.join("bin")]),
            Action::Remove { paths: dirs, is_dir: true } => dirs.iter().for_each(|dir| paths.extend(below(dir))),
            _ => {}
        }
        let stamp = |path: &Path| -> Stamp {
            let metadata = path.symlink_metadata().ok()?;
            Some((metadata.len(), metadata.modified().ok()))
        };
        State(paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect())
    }

    /// Takes over what a step with this action has changed itself; everything else that has changed is a surprise.
    pub(super) fn after(&mut self, done: &Action, own: &Action) {
        let changed: Vec<PathBuf> = changed_by(done).iter().map(|path| real(path)).collect();
        let is_expected = |path: &PathBuf| {
            let path = real(path);
            // A change in a directory is a change of the directory, too.
            changed.iter().any(|place| path.starts_with(place) || place.parent() == Some(&path))
        };
        self.0.retain(|path, _| !is_expected(path));
        self.0.extend(State::of(own).0.into_iter().filter(|(path, _)| is_expected(path)));
    }
}

/// The files below a directory, up to a limit.
fn below(dir: &Path) -> Vec<PathBuf> {
    const MAX: usize = 10_000;
    let mut all: Vec<PathBuf> = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop().filter(|_| all.len() < MAX) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
            all.push(entry.path());
        }
    }
    all
}

/// The directories and files in which an action changes something.
fn places(action: &Action) -> Vec<PathBuf> {
    match action {
        Action::Remove { paths, .. } => paths.clone(),
        Action::Packages(change) if change.site == Site::System => vec![DPKG.into()],
        Action::Variable(_) | Action::Look(_) => Vec::new(),
        // It may be anywhere if it is not known.
        action => vec![action.place().unwrap_or(Path::new("/")).to_owned()],
    }
}

/// The directories and files below which an action may have changed something.
fn changed_by(action: &Action) -> Vec<PathBuf> {
    match action {
        // A package of the system, and a link for a directory, may be anywhere.
        Action::Packages(change) if change.site == Site::System => vec!["/".into()],
        Action::NameByLink(_) | Action::Ldconfig => vec!["/".into()],
        // Such a step may install a package of the system first.
        Action::Packages(_) | Action::Python(_) => places(action).into_iter().chain([DPKG.into()]).collect(),
        Action::CreateDir(dir) => dir.ancestors().filter(|dir| dir.parent().is_some()).map(Path::to_owned).collect(),
        _ => places(action),
    }
}

/// The path without symbolic links, but for one at its end: a place may be named in two ways.
fn real(path: &Path) -> PathBuf {
    let dir = path.parent().and_then(|dir| canonicalize(dir).ok());
    match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path.to_owned(),
    }
}

/// Does the step remove files that are there, other than by an installer?
pub(super) fn removes_files(step: &Step) -> bool {
    let is_removal = |command: &Command| {
        let mut words = [&command.program].into_iter().chain(&command.arguments).map(Path::new);
        words.any(|word| word == Path::new("rm"))
            && words.any(|word| word.is_absolute() && word.symlink_metadata().is_ok())
    };
    let mut commands = step.lines.iter().filter_map(|line| match line {
        Line::Run(commands) => Some(commands),
        Line::Shell(_) => None,
    });
    matches!(step.action, Action::Remove { .. }) || commands.any(|commands| commands.iter().any(is_removal))
}

/// Why the doctor does not execute an action as this user: root does nothing that the owner of the directory can do.
pub(super) fn refusal(action: &Action) -> Option<String> {
    if !is_root() {
        return None;
    }
    let mut paths = places(action);
    match action {
        // Whoever owns the directory decides what is in it.
        Action::Remove { .. } => paths.retain_mut(|path| path.pop()),
        // Whoever owns the program decides what root would run.
        Action::Packages(change) if change.site == Site::OnPath => {
            let mut programs = path_dirs().into_iter().flat_map(|dir| [dir.join("pip"), dir.join("pip3")]);
            paths.extend(programs.find(|program| program.is_file()));
        }
        Action::Packages(change) => {
            let python = change.site.dir().map(python_in);
            // It matters even if the Python in it is lost.
            let bin = python.as_deref().and_then(Path::parent).map(Path::to_owned);
            let programs = python.into_iter().chain(bin);
            paths.extend(change.site.package_dirs().into_iter().chain(programs).filter(|path| path.exists()));
        }
        _ => {}
    }
    // What does not exist yet is made by the owner of the directory above it.
    let nearest = |path: &PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let path = paths.iter().filter_map(nearest).find_map(|path| of_others(&path))?;
    Some(format!(
        "another user than root can change {}: run `fix` as that user, who needs no root for it",
        path.printable()
    ))
}

/// The first directory or file on the way to this path, and to what it is a link to, that another user than root can change.
fn of_others(path: &Path) -> Option<PathBuf> {
    // In a directory with this bit, such as /tmp, only owners rename and remove files.
    const STICKY: u32 = 0o1000;
    const OTHERS: u32 = 0o002;
    let is_open = |path: &Path| mode(path).is_some_and(|mode| mode & OTHERS != 0 && mode & STICKY == 0);
    let real = canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let all = path.ancestors().chain(real.ancestors()).filter(|path| !path.as_os_str().is_empty());
    { all }.find(|path| !belongs_to_root(path) || is_open(path)).map(Path::to_owned)
}
