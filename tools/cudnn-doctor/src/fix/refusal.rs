//! Refuses steps that would change files elsewhere, and steps that root would execute although another user can perform
//! them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use cudnn_os::files::is_executable;
use cudnn_os::rights::{belongs_to_root, is_only_of_root, is_root, mode, others_may_write};
use cudnn_probe::canonicalize;

use super::run::started_by_env;
use super::state::places;
use crate::escape::Printable;
use crate::packages::{Command, PackageChange, entries, is_python, path_dirs, python_in, records, setting, user_base};
use crate::plan::{Line, Step};
use crate::remedy::Action;

/// Returns why the doctor refuses to execute a step as the current user.
pub(super) fn refusal(step: &Step) -> Option<String> {
    let of_place = match &step.action {
        Action::Packages(change) => refusal_of_place(change),
        _ => None,
    };
    of_place.or_else(|| if is_root() { refusal_for_root(step) } else { None })
}

/// Returns why pip would change files elsewhere, or wait forever for the writer of a named pipe.
fn refusal_of_place(change: &PackageChange) -> Option<String> {
    let root = change.site.dir().and_then(|root| canonicalize(root).ok())?;
    for site in change.site.package_dirs().iter().filter(|dir| dir.is_dir()) {
        let is_special = |path: &PathBuf| path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir());
        let in_records = records(site).into_iter().flat_map(|record| entries(&record.dir));
        if let Some(path) = in_records.chain(entries(site)).find(is_special) {
            return Some(format!("{} is not a regular file: remove it first", path.printable()));
        }
        let nvidia = site.join("nvidia");
        let packages =
            entries(&nvidia).flat_map(|package| entries(&package).chain([package.clone()]).collect::<Vec<_>>());
        let is_outside = |real: &PathBuf| !real.starts_with(&root);
        for dir in [site.clone(), nvidia.clone()].into_iter().chain(packages).filter(|dir| dir.is_dir()) {
            if let Some(target) = canonicalize(&dir).ok().filter(is_outside) {
                return Some(format!(
                    "the link {} leads out of the environment, to {}: make it a directory, or change the packages with \
                     their installer by hand",
                    dir.printable(),
                    target.printable()
                ));
            }
        }
    }
    None
}

/// Returns why root must not execute a step: another user can do it, or can change the code that it runs.
fn refusal_for_root(step: &Step) -> Option<String> {
    let action = &step.action;
    let mut places = places(action);
    // The owner of the directory controls the contents.
    if matches!(action, Action::Remove { .. }) {
        places.retain_mut(|path| path.pop());
    }
    if let Some(path) = places.iter().find_map(|place| of_others(place)) {
        let path = path.printable();
        return Some(format!("a user other than root can change {path}: run `fix` as that user, without root"));
    }
    let roots: BTreeSet<&Path> = match action {
        Action::Packages(change) => change.site.dir().into_iter().chain(change.site.python_root()).collect(),
        Action::Python(root) => [root.as_path()].into(),
        _ => BTreeSet::new(),
    };
    let mut code = programs(step);
    if let Action::Packages(change) = action {
        code.extend(change.site.list().iter().flat_map(programs_of));
    }
    for root in roots.iter().filter(|root| python_in(root).exists()) {
        code.extend([root.join("bin"), root.join("pyvenv.cfg"), python_in(root)]);
        // A copied Python uses the standard library of the one that the environment was made from.
        code.extend(setting(root, "home").map(|home| PathBuf::from(home).join("python3")));
    }
    let is_python = |program: &&PathBuf| is_python(program) || program.ends_with("python3");
    let mut pythons: BTreeSet<PathBuf> = code.iter().filter(is_python).cloned().collect();
    pythons.extend(pythons.clone().iter().filter_map(|python| canonicalize(python).ok()));
    let prefixes = pythons.iter().filter_map(|python| Some(python.parent()?.parent()?.to_owned()));
    let mut trees: Vec<PathBuf> = prefixes.flat_map(|prefix| code_below(&prefix)).collect();
    trees.extend(roots.iter().flat_map(|root| code_below(root)));
    // Root's Python also imports packages of HOME, which may belong to another user.
    trees.extend(user_base().filter(|_| !pythons.is_empty()).iter().flat_map(|base| code_below(base)));
    code.extend(user_base().filter(|_| !pythons.is_empty()));
    let path = code.iter().find_map(|path| of_others(path)).or_else(|| changed_below(trees))?;
    let path = path.printable();
    Some(format!(
        "a user other than root can change {path}: run `fix` as that user, without root, or make {path} belong to root \
         and writable for root only"
    ))
}

/// Returns the programs that the commands of a step run.
fn programs(step: &Step) -> Vec<PathBuf> {
    let commands = step.lines.iter().flat_map(|line| match line {
        Line::Run(commands) => commands.as_slice(),
        Line::Shell(_) => &[],
    });
    commands.flat_map(programs_of).collect()
}

/// Returns the programs that a command runs, the interpreters of those that are scripts, and the directories on PATH where
/// another user could put a program that is found first.
fn programs_of(command: &Command) -> Vec<PathBuf> {
    let named = [Some(command.program.as_os_str()), started_by_env(command)].into_iter().flatten();
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
    programs.flat_map(|program| interpreter_of(&program).into_iter().chain([program])).collect()
}

/// Returns the interpreter that the first line of a script names.
fn interpreter_of(script: &Path) -> Option<PathBuf> {
    const MAX_LEN: usize = 256;
    let mut start = Vec::new();
    File::open(script).ok()?.take(MAX_LEN as u64).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let interpreter = str::from_utf8(line).ok()?.split_whitespace().next()?;
    Some(PathBuf::from(interpreter)).filter(|interpreter| interpreter.is_absolute())
}

/// Returns the directories with the Python code of a prefix: the standard library, and packages of pip and Debian.
fn code_below(prefix: &Path) -> Vec<PathBuf> {
    let roots = [prefix.to_owned(), prefix.join("local")];
    let libs = roots.iter().flat_map(|root| [root.join("lib"), root.join("lib64")]);
    let is_python = |dir: &PathBuf| {
        dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python3")) && dir.is_dir()
    };
    libs.flat_map(|lib| entries(&lib)).filter(is_python).collect()
}

/// Returns the first file below these directories, or below a directory that they add to Python's search, that a user
/// other than root can change. Python imports any file there, also a compiled one.
fn changed_below(mut dirs: Vec<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = dirs.iter().find_map(|dir| of_others(dir)) {
        return Some(path);
    }
    const MAX: usize = 1_000_000;
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut count = 0;
    while let Some(dir) = dirs.pop() {
        let dir = canonicalize(&dir).unwrap_or(dir);
        if !seen.insert(dir.clone()) {
            continue;
        }
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            count += 1;
            let path = entry.path();
            let metadata = entry.metadata().ok();
            if metadata.as_ref().is_some_and(Metadata::is_dir) {
                dirs.push(path.clone());
            } else if metadata.as_ref().is_none_or(Metadata::is_symlink) {
                // A device is not code. The target of a dangling link may appear later.
                let is_device = path.metadata().is_ok_and(|target| !target.is_dir() && !target.is_file());
                if let Some(path) = of_others(&path).filter(|_| !is_device) {
                    return Some(path);
                }
                if path.is_dir() {
                    dirs.push(path);
                }
                continue;
            }
            if metadata.is_some_and(|metadata| !is_only_of_root(&metadata)) || count > MAX {
                return Some(path);
            }
            let is_startup = path.extension().is_some_and(|kind| kind == "pth")
                || entry.file_name().as_encoded_bytes().starts_with(b"__editable__");
            for named in if is_startup { named_in(&path) } else { Vec::new() } {
                if let Some(path) = of_others(&named) {
                    return Some(path);
                }
                dirs.push(named);
            }
        }
    }
    None
}

/// Returns the paths that this file adds to Python's search: the lines of a `.pth` file, and the quoted paths of any file,
/// such as the finders of editable packages. A path that does not exist yet counts, too.
fn named_in(file: &Path) -> Vec<PathBuf> {
    const MAX_LEN: u64 = 4 << 20;
    let text = cudnn_probe::read_bounded(file, MAX_LEN).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '"', '\'']));
    let quoted = text.split(['\'', '"']).filter(|text| text.starts_with('/') && text.len() > 1);
    let dir = file.parent().unwrap_or(Path::new("/"));
    lines.chain(quoted).map(|path| dir.join(path)).collect()
}

/// Returns the first directory or file on the path, with symbolic links resolved, that a user other than root can
/// change. A missing path can be created by the users who can change the nearest existing directory.
pub(super) fn of_others(path: &Path) -> Option<PathBuf> {
    // In a sticky directory such as /tmp, only owners can rename and remove files.
    const STICKY: u32 = 0o1000;
    const MAX_LINKS: usize = 40;
    let nearest = path.ancestors().find(|path| path.exists())?;
    let mut steps = vec![nearest.to_owned()];
    // Every link on the way can be redirected.
    while let Some(target) = steps.last().and_then(|last| Some(last.parent()?.join(std::fs::read_link(last).ok()?)))
        && steps.len() < MAX_LINKS
    {
        steps.push(target);
    }
    let real = canonicalize(nearest).unwrap_or_else(|_| nearest.to_owned());
    let is_sticky = |path: &Path| nearest != path && real != path && mode(path).is_some_and(|mode| mode & STICKY != 0);
    let all = steps.iter().chain([&real]).flat_map(|step| step.ancestors());
    let all = all.filter(|path| !path.as_os_str().is_empty() && path.exists());
    { all }.find(|path| !belongs_to_root(path) || others_may_write(path) && !is_sticky(path)).map(Path::to_owned)
}
