//! Which pip an environment has, and what it has recorded there. Reads files; runs nothing.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::command::Command;
use super::interpreter::{interpreters_on_path, is_in_unpacked_image};
use super::layout::{
    self, python_dirs, root_of, setting, settings, site_packages, user_base, version_name, version_of_program,
};
use super::lost_python::python_problem;
use crate::platform::{Os, PYTHON, below, is_executable};

/// pip with these arguments, for the environment at this root: by its Python, since programs in `bin` do not survive
/// every path, and not with the modules of the working directory ([`pip_by`]). An environment without pip is served by uv if
/// uv made it, by pip after [`ensure_pip`], or by the pip on `PATH`. Packages that lie apart from their Python (those of a
/// user, those of Debian's Python below `/usr/local`, those of `pip install --prefix`) are served by that Python.
///
/// `None` if no pip can do it: for a directory that is no environment, as `pip install --target` writes, and for packages
/// whose Python is not found. The pip of another Python would change that one's packages.
#[must_use]
pub fn pip(root: Option<&Path>, action: &str, arguments: impl IntoIterator<Item = String>) -> Option<Command> {
    let Some(root) = root.filter(|root| root.is_dir()) else {
        return Some(pip_on_path().and([action]).and(arguments));
    };
    let python = layout::python(root);
    let mut arguments: Vec<String> = arguments.into_iter().collect();
    if action == "install" && lacks_record(root, &arguments) {
        // pip cannot remove a package whose files it does not know.
        arguments.retain(|argument| argument != "--force-reinstall");
        arguments.insert(0, "--ignore-installed".to_owned());
    }
    if python_problem(root).is_some() {
        let with_pip = |settings: &String| !is_of_uv(settings) || !is_on_path("uv");
        return Some(if self::settings(root).is_none_or(|settings| with_pip(&settings)) {
            Command::new(python, PIP).and([action]).and(arguments)
        } else {
            by_uv(&python, action, arguments)
        });
    }
    if is_closed(&python) {
        let is_of_uv = settings(root).is_some_and(|settings| is_of_uv(&settings)) && !has_pip(root);
        return Some(if is_of_uv {
            by_uv(&python, action, arguments)
        } else {
            Command::new(python, PIP).and([action]).and(arguments)
        });
    }
    if !python.is_file() || is_in_unpacked_image(&python) {
        let (python, base) = match python_of_user(root, &arguments).or_else(|| python_of_debian(root)) {
            Some(found) => found,
            None => return pip_of_prefix(root, action, arguments),
        };
        return Some(pip_by(&python, &base, action, arguments));
    }
    let is_of_uv = settings(root).is_some_and(|settings| is_of_uv(&settings));
    Some(if is_of_uv && !has_pip(root) && is_on_path("uv") {
        by_uv(&python, action, arguments)
    } else if has_pip(root) || has_ensurepip(root) {
        pip_by(&python, root, action, arguments)
    } else {
        pip_on_path().and([OsString::from("--python"), python.into()]).and([action]).and(arguments)
    })
}

/// The pip that a person starts who knows no path. Debian's package has `pip3`, too. On Windows many have a Python on
/// `PATH`, but not its `Scripts`.
#[must_use]
pub fn pip_on_path() -> Command {
    match Os::HOST {
        Os::Linux if !is_on_path("pip") && is_on_path("pip3") => Command::new("pip3", NOTHING),
        Os::Linux => Command::new("pip", NOTHING),
        Os::Windows => Command::new("python", ["-m", "pip"]),
    }
}

const NOTHING: [&str; 0] = [];

/// uv asks nothing. Its copies do not share files with its cache, which damage in place would damage, too.
fn by_uv(python: &Path, action: &str, arguments: Vec<String>) -> Command {
    let arguments = arguments.into_iter().filter(|argument| argument != "--yes");
    let arguments =
        arguments.map(|argument| if argument == "--ignore-installed" { "--reinstall".to_owned() } else { argument });
    let is_install = action == "install";
    let mode = is_install.then_some(["--link-mode", "copy"]);
    let no_cache = (is_install && root_of(python).is_some_and(has_links_to_cache)).then_some(NO_CACHE);
    let options = mode.into_iter().flatten().chain(no_cache);
    Command::new("uv", ["pip", action, "--python"]).and([python]).and(options).and(arguments)
}

const NO_CACHE: &str = "--no-cache";

/// Does uv install symbolic links to its cache? To clean that would break every environment. A file of settings can ask for
/// links, too, so the files that uv has installed in the environment at this root decide.
fn has_links_to_cache(root: &Path) -> bool {
    let is_record_or_nvidia = |dir: &PathBuf| {
        let name = dir.file_name().unwrap_or_default();
        name == "nvidia" || name.as_encoded_bytes().ends_with(b".dist-info")
    };
    let dirs = site_packages(root).flat_map(std::fs::read_dir).flatten().flatten().map(|entry| entry.path());
    std::env::var_os("UV_LINK_MODE").is_some_and(|mode| mode == "symlink")
        || dirs.filter(is_record_or_nvidia).any(|dir| has_links(&dir))
}

/// Does this directory, or one below it, contain a symbolic link to an absolute path, as uv's links to its cache are?
fn has_links(dir: &Path) -> bool {
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        let (path, kind) = (entry.path(), entry.file_type());
        match kind {
            Ok(kind) if kind.is_dir() => has_links(&path),
            Ok(kind) if kind.is_symlink() => std::fs::read_link(path).is_ok_and(|target| target.is_absolute()),
            _ => false,
        }
    })
}

/// The command that removes the packages from uv's cache which this command for uv installs again. By default the files of
/// an environment are hard links to those of the cache, so that a file that was damaged in place would be installed again,
/// also in the next environment.
#[must_use]
pub fn clean_cache(command: &Command) -> Option<Command> {
    let has = |wanted: &[&str]| command.arguments.iter().any(|argument| wanted.iter().any(|one| argument == one));
    if command.program != "uv" || !has(&["--force-reinstall", "--reinstall"]) || has(&[NO_CACHE]) {
        return None;
    }
    // After `pip install --python PYTHON --link-mode copy`.
    let requirements = command.arguments.iter().skip(6).filter_map(|argument| argument.to_str());
    let requirements = requirements.filter(|argument| !argument.starts_with('-'));
    Some(Command::new("uv", ["cache", "clean"]).and(requirements.map(name_in)))
}

fn is_of_uv(settings: &str) -> bool {
    setting(settings, "uv").is_some()
}

/// Is this file, or what it is a link to, where this user may not enter? It is not missing.
pub(super) fn is_closed(file: &Path) -> bool {
    std::fs::metadata(file).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// The root of the environment whose Python this command for pip or uv starts, if this user may not read that Python.
#[must_use]
pub fn closed_python(command: &Command) -> Option<PathBuf> {
    let python = named_python(command);
    let root = root_of(python).filter(|root| layout::python(root) == python && is_closed(python))?;
    Some(root.to_owned())
}

/// The Python that a command for pip or uv starts.
pub(super) fn named_python(command: &Command) -> &Path {
    let of_uv = command.arguments.iter().skip_while(|argument| *argument != "--python").nth(1);
    of_uv.map_or(Path::new(&command.program), Path::new)
}

/// Does pip have a package of these in the environment, and no list of its files?
fn lacks_record(root: &Path, arguments: &[String]) -> bool {
    let is_named = |name: &str| names(arguments).any(|named| named == name);
    site_packages(root).flat_map(std::fs::read_dir).flatten().flatten().any(|entry| {
        let name = entry.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".dist-info")?.split_once('-'));
        let is_named = stem.is_some_and(|(name, _)| is_named(&name.replace('.', "_").to_ascii_lowercase()));
        is_named && entry.path().join("METADATA").is_file() && !entry.path().join("RECORD").exists()
    })
}

/// pip with these arguments, by this Python, whose environment has this root.
///
/// `-I` keeps the modules of the working directory away, and hides the user's packages, too. A Python that imports the
/// user's packages starts pip by its path instead: then the working directory is not searched either.
#[must_use]
pub fn pip_by(python: &Path, root: &Path, action: &str, arguments: impl IntoIterator<Item = String>) -> Command {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let is_managed = settings(root).is_none() && has_managed_python(root);
    let by_path = || Some(Command::new(python, ["-E"]).and([pip_dir(python, root)?]));
    let start = if has_user_site(root) { by_path() } else { None };
    let has_place = arguments.iter().any(|argument| argument == "--target" || argument == "--prefix");
    let is_of_user = action == "install" && !has_place && start.is_some() && are_of_user(python, root, &arguments);
    start
        .unwrap_or_else(|| Command::new(python, PIP))
        .and([action])
        .and(managed_option(is_managed))
        .and(is_of_user.then_some("--user"))
        .and(arguments)
}

/// Does this command change the user's packages alone, for which it needs no other rights?
#[must_use]
pub fn changes_packages_of_user(command: &Command) -> bool {
    let arguments = || command.arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    if arguments().any(|argument| argument == "--user") {
        return true;
    }
    let python = Path::new(&command.program);
    let named: Vec<String> = arguments().skip_while(|argument| argument != "uninstall").skip(1).collect();
    let root = root_of(python);
    let site = root.filter(|root| has_user_site(root)).and_then(|root| user_site(python, root));
    site.is_some_and(|site| has_records(&site, |record| names(&named).any(|name| name == record)))
}

/// The command that gives the environment pip, which this command for pip needs.
#[must_use]
pub fn ensure_pip(command: &Command) -> Option<Command> {
    let python = Path::new(&command.program);
    let by_module = || command.arguments.get(..3).is_some_and(|first| first == PIP);
    let by_path = || command.arguments.get(1).is_some_and(|second| Path::new(second).ends_with("site-packages/pip"));
    let root = root_of(python).filter(|_| by_module() || by_path())?;
    (!has_pip(root) && has_ensurepip(root)).then(|| Command::new(python, ["-I", "-m", "ensurepip"]))
}

/// How [`pip`] starts pip with a Python that does not import the user's packages.
const PIP: [&str; 3] = ["-I", "-m", "pip"];

/// Packages beside which others are installed: the records of the user's packages that begin like this say that a program
/// uses those.
const FRAMEWORKS: [&str; 7] =
    ["torch", "jax", "tensorflow", "onnxruntime", "ctranslate2", "nvidia_cudnn", "nvidia_cublas"];

/// Does the Python with this root import the user's packages? Virtual environments seldom do.
fn has_user_site(root: &Path) -> bool {
    let settings = settings(root);
    settings.is_none_or(|settings| setting(&settings, "include-system-site-packages") == Some("true"))
}

/// The directory of the pip that this Python starts by its path; it need not exist before [`ensure_pip`].
fn pip_dir(python: &Path, root: &Path) -> Option<PathBuf> {
    let version = version_name(python, root)?;
    let is_of_python = |dir: &PathBuf| {
        let name = dir.parent().and_then(Path::file_name);
        Os::HOST == Os::Windows || name.is_some_and(|name| name == version || name == "python3")
    };
    // Debian's Python has packages below /usr/local.
    let of_root = site_packages(root).chain(site_packages(&root.join("local"))).filter(is_of_python);
    let dirs = of_root.chain(user_site(python, root)).map(|dir| dir.join("pip"));
    let later = match Os::HOST {
        Os::Linux => root.join("lib").join(&version).join("site-packages/pip"),
        Os::Windows => below(root, "Lib/site-packages/pip"),
    };
    dirs.into_iter().find(|dir| dir.is_dir()).or_else(|| has_ensurepip(root).then_some(later))
}

/// The directory of the user's packages (`pip install --user`) for this Python.
fn user_site(python: &Path, root: &Path) -> Option<PathBuf> {
    layout::user_site(&version_name(python, root)?)
}

/// The Python on `PATH`, and the root of its environment, that imports the user's packages in this directory.
fn python_of_user(base: &Path, arguments: &[String]) -> Option<(PathBuf, PathBuf)> {
    if Os::HOST == Os::Windows {
        return python_of_user_on_windows(base);
    }
    if user_base()? != base {
        return None;
    }
    let mut dirs: Vec<PathBuf> = python_dirs(base).collect();
    let has_named =
        |dir: &PathBuf| has_records(&dir.join("site-packages"), |record| names(arguments).any(|name| name == record));
    dirs.sort_by_key(|dir| !has_named(dir));
    let version = dirs.first()?.file_name()?.to_str()?.to_owned();
    pythons_with_pip(&version).find(|(_, root)| has_user_site(root))
}

/// The Pythons of this version (`python3.12`) on `PATH` that have a pip, each with the root of its environment.
fn pythons_with_pip(version: &str) -> impl Iterator<Item = (PathBuf, PathBuf)> + '_ {
    let plain = interpreters_on_path("python3")
        .filter(move |python| version_of_program(python).is_some_and(|found| found == version));
    let with_root = |program: PathBuf| Some((program.clone(), program.parent()?.parent()?.to_owned()));
    let has_pip = |(program, root): &(PathBuf, PathBuf)| pip_dir(program, root).is_some_and(|dir| dir.is_dir());
    interpreters_on_path(version).chain(plain).filter_map(with_root).filter(has_pip)
}

/// Debian's Python, and the root of its environment, for the packages that its pip installs below `/usr/local`.
fn python_of_debian(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let base = root.parent().filter(|_| root.ends_with("local"))?;
    let version = dist_packages(root)?.parent()?.file_name()?.to_owned();
    let main = Some(base.join("bin/python3")).filter(|python| version_name(python, base).as_ref() == Some(&version));
    let python = main.unwrap_or_else(|| base.join("bin").join(&version));
    is_executable(&python).then(|| (python, base.to_owned()))
}

/// The directory of packages below this root, if Debian's Python has made it.
fn dist_packages(root: &Path) -> Option<PathBuf> {
    site_packages(root).find(|dir| dir.ends_with("dist-packages") && dir.is_dir())
}

/// pip for what `pip install --prefix` has written: by a Python of the same version, which finds the packages there by
/// PYTHONPATH and so replaces them. Debian's Python writes to `PREFIX/local`.
fn pip_of_prefix(root: &Path, action: &str, arguments: Vec<String>) -> Option<Command> {
    if Os::HOST == Os::Windows {
        return None;
    }
    let of_debian = dist_packages(root).filter(|_| root.ends_with("local"));
    let is_of_debian = of_debian.is_some();
    let of_named = |dir: &PathBuf| has_records(dir, |record| names(&arguments).any(|name| name == record));
    let mut dirs: Vec<PathBuf> = site_packages(root).filter(|dir| dir.is_dir()).collect();
    dirs.sort_by_key(|dir| !of_named(dir));
    let site = of_debian.or_else(|| dirs.into_iter().next().filter(|dir| dir.ends_with("site-packages")))?;
    let prefix = if is_of_debian { root.parent()? } else { root };
    let version = site.parent()?.file_name()?.to_str()?.to_owned();
    let fits =
        |base: &Path| settings(base).is_none() && is_of_debian == base.join("lib/python3/dist-packages").is_dir();
    let (python, base) = pythons_with_pip(&version).find(|(_, base)| fits(base))?;
    let mut path = OsString::from("PYTHONPATH=");
    path.push(&site);
    let is_install = action == "install";
    let place = is_install.then(|| [OsStr::new("--prefix"), prefix.as_os_str()]);
    let command = Command::new("env", [path, python.clone().into_os_string()]).and([pip_dir(&python, &base)?]);
    let managed = managed_option(!is_install && has_managed_python(&base));
    Some(command.and([action]).and(managed).and(place.into_iter().flatten()).and(arguments))
}

/// Like [`python_of_user`], for `%APPDATA%\Python\Python312`, which is for one version of Python.
fn python_of_user_on_windows(user: &Path) -> Option<(PathBuf, PathBuf)> {
    if user.parent() != user_base().as_deref() {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(PYTHON));
    let with_root = |program: PathBuf| Some((program.clone(), root_of(&program)?.to_owned()));
    let is_usable = |(program, root): &(PathBuf, PathBuf)| {
        let is_same = version_name(program, root).as_deref() == user.file_name();
        program.is_file() && is_same && has_user_site(root) && pip_dir(program, root).is_some()
    };
    programs.filter_map(with_root).find(is_usable)
}

/// Are these packages to be installed with the user's packages? So it is if the user has one of them, or a package beside
/// which they are installed, and the Python itself does not.
fn are_of_user(python: &Path, root: &Path, arguments: &[String]) -> bool {
    let Some(site) = user_site(python, root) else { return false };
    let is_named = |record: &str| names(arguments).any(|name| name == record);
    let is_framework = |record: &str| FRAMEWORKS.iter().any(|framework| record.starts_with(framework));
    // Debian's Python has packages below /usr/local.
    let of_root = || site_packages(root).chain(site_packages(&root.join("local")));
    has_records(&site, is_named)
        || has_records(&site, is_framework) && !of_root().any(|dir| has_records(&dir, is_named))
}

/// The names of packages among pip's arguments, as they are in the names of records: `nvidia_cudnn_cu12`.
fn names(arguments: &[String]) -> impl Iterator<Item = String> + '_ {
    let requirements = arguments.iter().filter(|argument| !argument.starts_with('-'));
    requirements.map(|requirement| name_in(requirement).replace(['-', '.'], "_").to_ascii_lowercase())
}

/// The name of the package in a requirement: `nvidia-cudnn-cu12` for `nvidia-cudnn-cu12>=9.1`.
fn name_in(requirement: &str) -> &str {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    requirement.split(|c| !is_of_name(c)).next().unwrap_or_default()
}

/// Does this directory of packages have a record of a package with such a name?
fn has_records(site: &Path, is_such: impl Fn(&str) -> bool) -> bool {
    let entries = std::fs::read_dir(site).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let record = name.to_str().and_then(|name| name.strip_suffix(".dist-info")?.split_once('-'));
        record.is_some_and(|(name, _)| is_such(&name.replace('.', "_").to_ascii_lowercase()))
    })
}

/// How a Python can be given packages, if it is not a virtual environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasePython {
    /// By its pip.
    Open,
    /// Its distribution forbids pip to change it (`EXTERNALLY-MANAGED`). Does it have a pip that fills other directories?
    Managed {
        /// Is pip among its packages?
        has_pip: bool,
        /// Can it make virtual environments with a pip?
        has_ensurepip: bool,
    },
}

/// What the Python with this root, which has `bin/python3`, lets pip do.
#[must_use]
pub fn base_python(root: &Path) -> BasePython {
    let is_managed = settings(root).is_none() && has_managed_python(root);
    let (has_pip, has_ensurepip) = (has_pip(root), python_dirs(root).any(|dir| dir.join("ensurepip").is_dir()));
    if has_pip && !is_managed { BasePython::Open } else { BasePython::Managed { has_pip, has_ensurepip } }
}

pub(super) fn has_pip(root: &Path) -> bool {
    site_packages(root).any(|dir| dir.join("pip").is_dir())
}

fn has_managed_python(root: &Path) -> bool {
    python_dirs(root).any(|dir| is_externally_managed(&root.join("lib"), &dir))
}

/// Can the Python of this environment install its pip? Debian's does so in virtual environments alone.
fn has_ensurepip(root: &Path) -> bool {
    let base = match settings(root) {
        Some(settings) => {
            setting(&settings, "home").and_then(|home| Some(layout::root_of_home(Path::new(home))?.to_owned()))
        }
        None => (!has_managed_python(root)).then(|| root.to_owned()),
    };
    base.is_some_and(|base| {
        let of_base = |dir: PathBuf| match Os::HOST {
            Os::Linux => Some(base.join("lib").join(dir.file_name()?).join("ensurepip")),
            Os::Windows => Some(below(&base, "Lib/ensurepip")),
        };
        python_dirs(root).filter_map(of_base).any(|dir| dir.is_dir())
    })
}

/// Would a shell find a program with this name?
#[must_use]
pub fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = match Os::HOST {
        Os::Linux => program.to_owned(),
        Os::Windows => format!("{program}.exe"),
    };
    std::env::split_paths(&path).any(|dir| is_executable(&dir.join(&program)))
}

/// Distributions forbid pip to change their Python, unless asked like this.
fn managed_option(is_managed: bool) -> Option<&'static str> {
    is_managed.then_some("--break-system-packages")
}

fn is_externally_managed(lib: &Path, python_dir: &Path) -> bool {
    match Os::HOST {
        Os::Linux => python_dir.file_name().is_some_and(|name| lib.join(name).join("EXTERNALLY-MANAGED").exists()),
        Os::Windows => python_dir.join("EXTERNALLY-MANAGED").exists(),
    }
}

/// The version of a wheel that pip has a record of in the environment at this root.
#[must_use]
pub fn recorded_version(root: &Path, wheel: &str) -> Option<String> {
    let prefix = format!("{}-", wheel.replace('-', "_"));
    site_packages(root).flat_map(std::fs::read_dir).flatten().flatten().find_map(|entry| {
        let name = entry.file_name();
        let version = name.to_str()?.strip_prefix(&prefix)?.strip_suffix(".dist-info")?;
        is_plain_name(version).then(|| version.to_owned())
    })
}

/// Removes each package. An interrupted upgrade leaves two records of one package, of which pip removes one at a time.
pub(super) fn removals(root: &Path, mut names: Vec<String>) -> Vec<Command> {
    let mut commands = Vec::new();
    while !names.is_empty() {
        let mut now: Vec<String> = Vec::new();
        let mut later = Vec::new();
        for name in names {
            if now.contains(&name) { later.push(name) } else { now.push(name) }
        }
        commands.extend(pip(Some(root), "uninstall", ["--yes".to_owned()].into_iter().chain(now)));
        names = later;
    }
    commands
}

/// Is this a name or a version as package indexes have them? Names come from files, and one that begins with `-` would
/// be an option of the installer.
pub(super) fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+~:!".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::lost_python::dotted;
    use crate::packages::{command_line, missing_python};

    #[test]
    #[cfg_attr(not(windows), ignore = "the layout is that of Windows")]
    fn pip_on_windows_is_that_of_the_environment() {
        let world = std::env::temp_dir().join(format!("cudnn-probe-pip-{}", std::process::id()));
        for (files, root, expected) in [
            (
                &["Scripts/python.exe", "pyvenv.cfg", "Lib/site-packages/pip/x"][..],
                "",
                r"$\Scripts\python.exe -I -m pip install x",
            ),
            // pip comes from the Python that the environment was made with.
            (
                &["Scripts/python.exe", "pyvenv.cfg=home = $\\base", "Lib/site-packages/x", "base/Lib/ensurepip/x"],
                "",
                r"$\Scripts\python.exe -I -m ensurepip; $\Scripts\python.exe -I -m pip install x",
            ),
            (
                &["Scripts/python.exe", "pyvenv.cfg=uvx = 0.9", "Lib/site-packages/x"],
                "",
                r"python -m pip --python $\Scripts\python.exe install x",
            ),
            (
                &["python.exe", "python312.dll", "Lib/site-packages/pip/x"],
                "",
                r"$\python.exe -E $\Lib\site-packages\pip install x",
            ),
            // Without its Python.
            (&["pyvenv.cfg=version = 3.12.4", "Lib/site-packages/x"], "", r"$\Scripts\python.exe -I -m pip install x"),
            (&["nvidia/cudnn/bin/x"], "", ""),
        ] {
            for file in files {
                let (name, text) = file.split_once('=').unwrap_or((file, ""));
                let file = below(&world, name);
                std::fs::create_dir_all(file.parent().unwrap_or(&world)).unwrap_or_default();
                let text = text.replace('$', world.to_str().unwrap_or_default());
                std::fs::write(file, text).unwrap_or_default();
            }
            let root = if root.is_empty() { world.clone() } else { world.join(root) };
            let command = pip(Some(&root), "install", ["x".to_owned()]);
            let missing = command.as_ref().and_then(missing_python);
            let ensure = command.as_ref().and_then(ensure_pip).filter(|_| missing.is_none());
            let command: Vec<Command> = ensure.into_iter().chain(command).collect();
            let command = command_line(&command);
            let _ = std::fs::remove_dir_all(&world);
            assert_eq!(command.replace(world.to_str().unwrap_or_default(), "$"), expected, "{files:?}");
            let is_missing = files.iter().any(|file| file.ends_with("3.12.4"));
            assert_eq!(missing.is_some(), is_missing, "{files:?}");
            let commands = missing.map(|missing| command_line(&missing.commands)).unwrap_or_default();
            assert!(!is_missing || commands.contains(" -m venv "), "{commands}");
        }
        assert_eq!(dotted("Python312"), "3.12");
        assert_eq!(dotted("python3.9"), "3.9");
    }

    /// Each environment has another pip; a directory that is no environment has none.
    #[test]
    #[cfg(unix)]
    fn pip_is_that_of_the_environment() {
        let world = std::env::temp_dir().join(format!("cudnn-probe-pip-{}", std::process::id()));
        for (files, root, expected) in [
            (
                &["bin/python3", "pyvenv.cfg", "lib/python3.12/site-packages/pip/x"][..],
                "",
                "$/bin/python3 -I -m pip install x",
            ),
            (&["bin/python3", "pyvenv.cfg", "lib/python3.12/x"], "", "pip --python $/bin/python3 install x"),
            (
                &["bin/python3", "lib/python3.12/EXTERNALLY-MANAGED", "lib/python3.12/site-packages/pip/x"],
                "",
                "$/bin/python3 -E $/lib/python3.12/site-packages/pip install --break-system-packages x",
            ),
            // A virtual environment is not the distribution's; uv makes some.
            (
                &[
                    "bin/python3",
                    "pyvenv.cfg",
                    "lib/python3.12/EXTERNALLY-MANAGED",
                    "lib/python3.12/site-packages/pip/x",
                ],
                "",
                "$/bin/python3 -I -m pip install x",
            ),
            // ensurepip is in the Python that the environment was made with.
            (
                &["bin/python3", "pyvenv.cfg=home = $/base/bin", "lib/python3.12/x", "base/lib/python3.12/ensurepip/x"],
                "",
                "$/bin/python3 -I -m ensurepip && $/bin/python3 -I -m pip install x",
            ),
            (
                &["bin/python3", "pyvenv.cfg=home = $/base/bin", "lib/python3.12/x", "base/lib/python3.11/ensurepip/x"],
                "",
                "pip --python $/bin/python3 install x",
            ),
            (
                &["bin/python3", "lib/python3.12/ensurepip/x", "lib/python3.12/EXTERNALLY-MANAGED"],
                "",
                "pip --python $/bin/python3 install x",
            ),
            (&["bin/python3", "pyvenv.cfg=uvx = 0.9"], "", "pip --python $/bin/python3 install x"),
            // pip has no list of the package's files, which it could remove.
            (
                &[
                    "bin/python3",
                    "pyvenv.cfg",
                    "lib/python3.12/site-packages/pip/x",
                    "lib/python3.12/site-packages/x-1.0.dist-info/METADATA",
                ],
                "",
                "$/bin/python3 -I -m pip install --ignore-installed x",
            ),
            // The user's packages, and those of a Python elsewhere.
            (&[".local/lib/python3.99/site-packages/x"], ".local", ""),
            (&["lib/python3.99/dist-packages/x"], "", ""),
            (&[".local/lib/python3.99/site-packages/x", "lib/python3.99/x"], "", ""),
            // Debian's pip installs below /usr/local.
            (
                &[
                    "usr/local/lib/python3.11/dist-packages/x",
                    "usr/bin/python3",
                    "usr/lib/python3.11/EXTERNALLY-MANAGED",
                    "usr/lib/python3/dist-packages/pip/x",
                ],
                "usr/local",
                "$/usr/bin/python3 -E $/usr/lib/python3/dist-packages/pip install --break-system-packages x",
            ),
            (
                &[
                    "usr/local/lib/python3.11/dist-packages/x",
                    "usr/bin/python3.11",
                    "usr/bin/python3",
                    "usr/lib/python3.12/x",
                    "usr/lib/python3/dist-packages/pip/x",
                ],
                "usr/local",
                "$/usr/bin/python3.11 -E $/usr/lib/python3/dist-packages/pip install x",
            ),
            // The packages are for another Python than the one that the environment has now.
            (
                &["bin/python3->python3.12", "bin/python3.12", "pyvenv.cfg", "lib/python3.11/site-packages/x"],
                "",
                "$/bin/python3 -I -m pip install x",
            ),
            (&["nvidia/cudnn/lib/x"], "", ""),
        ] {
            for file in files {
                let (name, text) = file.split_once('=').unwrap_or((file, "#!"));
                let (name, target) = name.split_once("->").unwrap_or((name, ""));
                let file = world.join(name);
                std::fs::create_dir_all(file.parent().unwrap_or(&world)).unwrap_or_default();
                if !target.is_empty() {
                    std::os::unix::fs::symlink(target, file).unwrap_or_default();
                    continue;
                }
                let text = text.replace('$', world.to_str().unwrap_or_default());
                std::fs::write(&file, text).unwrap_or_default();
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                std::fs::set_permissions(file, mode).unwrap_or_default();
            }
            let root = if root.is_empty() { world.clone() } else { world.join(root) };
            let command = pip(Some(&root), "install", ["x".to_owned()]);
            let command: Vec<Command> = command.iter().filter_map(ensure_pip).chain(command.iter().cloned()).collect();
            let command = command_line(&command);
            let _ = std::fs::remove_dir_all(&world);
            assert_eq!(command.replace(world.to_str().unwrap_or_default(), "$"), expected, "{files:?}");
        }
    }
}
