//! Refuses steps that would change files elsewhere, and steps that root would execute although another user can.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_cli::path::{interpreter_of, path_dirs};
use cudnn_frameworks::{PackageRecord, listed_files, pip_records};
use cudnn_os::files::is_executable;
use cudnn_os::rights::{belongs_to_user, is_root, is_sticky_of_root, write_access};
use cudnn_probe::canonicalize;
use cudnn_probe::python::setting;
use cudnn_rules::packages::{PackageChange, entries, explain_read_only, is_python, package_name, python_in, user_base};
use cudnn_rules::plan::{Line, Step};
use cudnn_rules::remedy::Action;

use super::foreign::{Distrust, changeable_by_others, changed_below};
use super::installer::{PackageManager, started_by_env};
use super::sources::{UntrustedSource, foreign_source};

pub(super) fn refusal(step: &Step) -> Option<String> {
    let of_place = match &step.action {
        Action::Packages(change) => refusal_of_place(change),
        _ => None,
    };
    of_place.or_else(|| if is_root() { refusal_for_root(step) } else { refusal_without_rights(step) })
}

/// Returns why the step would fail, possibly after the downloads, because this user lacks rights.
fn refusal_without_rights(step: &Step) -> Option<String> {
    let own = commands(step).into_iter().filter(|command| command.program != "sudo");
    if let Some(command) = own.clone().find(|command| command.needs_root()) {
        return Some(format!("only root may run `{command}`, and sudo is not installed: run `fix` as root"));
    }
    let Action::Packages(change) = &step.action else { return None };
    let roots: Vec<&Path> = own.filter_map(Command::changed_dir).collect();
    let is_changed = |dir: &PathBuf| roots.iter().any(|root| dir.starts_with(root));
    let of_packages = change.site.package_dirs().into_iter().flat_map(|site| dirs_of_packages(change, &site));
    let mut dirs = change.changed_dirs().into_iter().chain(of_packages).filter(is_changed);
    let (closed, error) = dirs.find_map(|dir| write_access(&dir).err().map(|error| (dir, error)))?;
    Some(explain_closed(&closed, belongs_to_user(&closed), &error))
}

/// Returns the directories that contain files of the packages to change.
fn dirs_of_packages(change: &PackageChange, site: &Path) -> BTreeSet<PathBuf> {
    let mut dirs = BTreeSet::new();
    let is_changed = |record: &PackageRecord| {
        let mut removed = change.remove.iter().map(|name| package_name(name));
        change.installs(&record.name) || removed.any(|name| name == record.name)
    };
    for record in pip_records(site).into_iter().filter(is_changed) {
        for file in listed_files(&record.path).unwrap_or_default() {
            let above = file.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
            dirs.extend(above.map(|dir| site.join(dir)));
        }
        dirs.insert(record.path);
    }
    dirs.retain(|dir| dir.is_dir());
    dirs
}

fn explain_closed(dir: &Path, is_own: bool, error: &Error) -> String {
    if error.kind() == ErrorKind::ReadOnlyFilesystem {
        return explain_read_only(dir);
    }
    let path = dir.printable();
    if is_own {
        let permission = Command::new("chmod", ["u+rwx"]).and([dir]);
        return format!("this user may not change {path}, but owns it: run `{permission}`, and then `fix` again");
    }
    format!("this user may not change {path}: run `fix` as the user that it belongs to")
}

/// Returns why pip would change files elsewhere, or wait forever for a named pipe.
fn refusal_of_place(change: &PackageChange) -> Option<String> {
    let aside = change.records_aside();
    let reason = |path: &PathBuf| match path.metadata() {
        Ok(data) if !data.is_file() && !data.is_dir() => Some("is not a regular file".to_owned()),
        // The link may be one of a loop.
        Err(error) if path.is_symlink() && error.kind() != ErrorKind::NotFound => {
            Some(format!("cannot be read: {error}"))
        }
        _ => None,
    };
    let is_read = |record: &PackageRecord| aside.iter().all(|aside| aside.record != record.path);
    let mut files = change.site.package_dirs().into_iter().flat_map(|site| {
        let in_records = pip_records(&site).into_iter().filter(is_read).flat_map(|record| entries(&record.path));
        in_records.chain(entries(&site)).collect::<Vec<_>>()
    });
    let refused = files.find_map(|path| Some(format!("{} {}: remove it first", path.printable(), reason(&path)?)));
    refused.or_else(|| change.refused_link())
}

/// Returns why root must not execute a step, because another user can do it or can change the code that it runs.
fn refusal_for_root(step: &Step) -> Option<String> {
    let action = &step.action;
    let mut places: Vec<PathBuf> = action.changed_places().into_iter().map(Path::to_owned).collect();
    // The owner of a directory controls the contents.
    if matches!(action, Action::Remove(_)) {
        places.retain_mut(|path| path.pop());
    }
    if let Some(path) = places.iter().find_map(|place| changeable_by_others(place)) {
        let path = path.printable();
        return Some(format!("a user other than root can change {path}: run `fix` as that user, without root"));
    }
    let roots: BTreeSet<&Path> = action.environments().into_iter().collect();
    let listing = if let Action::Packages(change) = action { change.site.list() } else { None };
    let mut commands = commands(step);
    commands.extend(&listing);
    let mut code: Vec<PathBuf> = commands.iter().copied().flat_map(programs_of).collect();
    for root in roots.iter().filter(|root| python_in(root).exists()) {
        code.extend([root.join("bin"), root.join("pyvenv.cfg"), python_in(root)]);
        // A copied Python uses the standard library of the original.
        code.extend(setting(root, "home").map(|home| PathBuf::from(home).join("python3")));
    }
    // uv tries all Pythons on PATH.
    if commands.iter().any(|command| command.program == "uv" && command.has("venv")) {
        code.extend(path_dirs());
    }
    let is_python = |program: &&PathBuf| is_python(program) || program.ends_with("python3");
    let mut pythons: BTreeSet<PathBuf> = code.iter().filter(is_python).cloned().collect();
    pythons.extend(pythons.clone().iter().filter_map(|python| canonicalize(python).ok()));
    let has_python = !pythons.is_empty();
    // conda, mamba and micromamba store settings and libraries in their own prefix.
    let is_of_conda = |command: &&Command| PackageManager::of(command) == Some(PackageManager::Conda);
    let of_conda: Vec<PathBuf> = commands.iter().copied().filter(is_of_conda).flat_map(programs_of).collect();
    let of_conda = of_conda.into_iter().filter(|program| program.is_file());
    let mut prefixes: BTreeSet<PathBuf> =
        pythons.into_iter().chain(of_conda).filter_map(|one| Some(one.parent()?.parent()?.to_owned())).collect();
    let mut trees: Vec<PathBuf> = prefixes.iter().flat_map(|prefix| code_below(prefix)).collect();
    trees.extend(roots.iter().flat_map(|root| code_below(root)));
    // Root's Python also imports packages from HOME, which may belong to another user.
    trees.extend(user_base().filter(|_| has_python).iter().flat_map(|base| code_below(base)));
    code.extend(user_base().filter(|_| has_python));
    code.extend(prefixes.iter().map(PathBuf::as_path).chain(roots.iter().copied()).flat_map(libraries_below));
    let foreign = code.iter().find_map(|path| changeable_by_others(path)).map(Distrust::Changeable);
    if let Some(distrust) = foreign.or_else(|| changed_below(trees)) {
        return Some(explain_distrust(&UntrustedSource { distrust, named_by: None }, None));
    }
    prefixes.extend(roots.into_iter().map(Path::to_owned));
    PackageManager::ALL.into_iter().find_map(|installer| {
        let own = commands.iter().copied().filter(|command| PackageManager::of(command) == Some(installer));
        let own: Vec<&Command> = own.collect();
        let untrusted = if own.is_empty() { None } else { foreign_source(installer, &own, &prefixes) };
        untrusted.map(|untrusted| explain_distrust(&untrusted, Some(installer)))
    })
}

fn explain_distrust(untrusted: &UntrustedSource, installer: Option<PackageManager>) -> String {
    let found_by =
        |what: &str| installer.map_or(String::new(), |installer| format!(", where {} finds {what}", installer.name()));
    let UntrustedSource { distrust, named_by } = untrusted;
    match distrust {
        Distrust::Changeable(path) => {
            // The permissions of a directory such as `/tmp` are correct.
            let is_sticky = path.symlink_metadata().is_ok_and(|metadata| is_sticky_of_root(&metadata));
            let (path, use_of_path) = (path.printable(), found_by("settings or packages"));
            let cause = named_by.as_deref().unwrap_or("the variable or the setting that leads there");
            match installer {
                _ if is_sticky => {
                    let advice = named_by.as_ref().map_or("use".to_owned(), |by| format!("let {by} name"));
                    format!(
                        "all users can create files in {path}{use_of_path}: {advice} a directory that only root can \
                         change"
                    )
                }
                None => format!(
                    "a user other than root can change {path}: run `fix` as that user, without root, or make {path} belong \
                     to root and writable for root only"
                ),
                Some(_) => format!(
                    "a user other than root can change {path}{use_of_path}: make {path} belong to root and writable for \
                     root only, or run `fix` without {cause}"
                ),
            }
        }
        Distrust::TooMany(dir) => format!(
            "there are too many files to check that only root can change them, the last ones in {}: run the commands of \
             this step by hand",
            dir.printable()
        ),
        Distrust::Unread(file) => format!(
            "{} decides what uv installs here, but programs of root run in another directory: run the commands of this \
             step by hand",
            file.printable()
        ),
        Distrust::NotUnderstood(source, reason) => format!(
            "{source}{} {reason}, so that root cannot check what it names: run `fix` without it, or run the commands of \
             this step by hand",
            found_by("settings,")
        ),
    }
}

fn commands(step: &Step) -> Vec<&Command> {
    step.lines.iter().flat_map(Line::commands).collect()
}

/// Returns the programs that a command runs, the interpreters of scripts, and the directories on PATH where other users
/// could add a program.
fn programs_of(command: &Command) -> Vec<PathBuf> {
    let named =
        [Some(command.program.as_os_str()), started_by_env(command).map(|(program, _)| program)].into_iter().flatten();
    let resolved = |name: &OsStr| -> Vec<PathBuf> {
        if Path::new(name).is_absolute() {
            return vec![PathBuf::from(name)];
        }
        let dirs = path_dirs();
        let until = dirs.iter().position(|dir| is_executable(&dir.join(name))).map_or(dirs.len(), |index| index + 1);
        let found = dirs.get(until.wrapping_sub(1)).map(|dir| dir.join(name));
        dirs.into_iter().take(until).chain(found).collect()
    };
    let programs = named.flat_map(resolved);
    let interpreter = |script: &PathBuf| interpreter_of(script).filter(|program| program.is_absolute());
    programs.flat_map(|program| interpreter(&program).into_iter().chain([program])).collect()
}

/// Returns the directories with a prefix's Python code: the standard library, and packages of pip and Debian.
fn code_below(prefix: &Path) -> Vec<PathBuf> {
    let roots = [prefix.to_owned(), prefix.join("local")];
    let libs = roots.iter().flat_map(|root| [root.join("lib"), root.join("lib64")]);
    let is_python = |dir: &PathBuf| {
        dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python3")) && dir.is_dir()
    };
    libs.flat_map(|lib| entries(&lib)).filter(is_python).collect()
}

/// Returns the directories from which a Python with this prefix loads shared libraries, and the libraries in them.
fn libraries_below(prefix: &Path) -> Vec<PathBuf> {
    let dirs = ["lib", "lib64"].map(|name| prefix.join(name)).into_iter().filter(|dir| dir.is_dir());
    let is_library = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    dirs.flat_map(|dir| entries(&dir).filter(is_library).chain([dir]).collect::<Vec<_>>()).collect()
}

#[cfg(all(test, unix))]
mod tests;
