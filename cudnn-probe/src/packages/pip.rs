//! Which pip an environment has, and what it has recorded there. Reads files; runs nothing.

use std::path::{Path, PathBuf};

use super::command::Command;
use crate::platform::is_executable;

/// pip with these arguments, for the environment at this root: by its Python, since programs in `bin` do not survive
/// every path, and not with the modules of the working directory (`-I`). An environment without pip is served by uv if
/// uv made it, by pip after [`ensure_pip`], or by the pip on `PATH`. `None` for a directory that is no environment: pip
/// cannot change what `pip install --target` wrote.
#[must_use]
pub fn pip(root: Option<&Path>, action: &str, arguments: impl IntoIterator<Item = String>) -> Option<Command> {
    let on_path = || Command::new("pip", [action]);
    let Some(root) = root.filter(|root| root.is_dir()) else { return Some(on_path().and(arguments)) };
    let python = root.join("bin/python3");
    if !python.is_file() {
        let mut pythons = python_dirs(root).peekable();
        pythons.peek()?;
        let is_managed = pythons.any(|dir| is_externally_managed(Path::new("/usr/lib"), &dir));
        let user = (action == "install" && root.ends_with(".local")).then_some("--user");
        return Some(on_path().and(managed_option(is_managed)).and(user).and(arguments));
    }
    let settings = settings(root);
    let is_of_uv = settings.as_deref().is_some_and(|settings| setting(settings, "uv").is_some());
    Some(if is_of_uv && !has_pip(root) && is_on_path("uv") {
        // uv asks nothing. It links files from its cache, where damage in place has damaged them, too.
        let arguments = arguments.into_iter().filter(|argument| argument != "--yes");
        let no_cache = (action == "install").then_some("--no-cache");
        Command::new("uv", ["pip", action, "--python"]).and([python]).and(no_cache).and(arguments)
    } else if has_pip(root) || has_ensurepip(root) {
        let is_managed = settings.is_none() && has_managed_python(root);
        Command::new(python, ["-I", "-m", "pip", action]).and(managed_option(is_managed)).and(arguments)
    } else {
        Command::new("pip", ["--python"]).and([python]).and([action]).and(arguments)
    })
}

/// The command that gives the environment pip, which this command for pip needs.
#[must_use]
pub fn ensure_pip(command: &Command) -> Option<Command> {
    let python = Path::new(&command.program);
    let root = python.parent()?.parent().filter(|_| command.arguments.get(..3).is_some_and(|first| first == PIP))?;
    (!has_pip(root) && has_ensurepip(root)).then(|| Command::new(python, ["-I", "-m", "ensurepip"]))
}

/// How [`pip`] starts pip with a Python.
const PIP: [&str; 3] = ["-I", "-m", "pip"];

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

/// The text of `pyvenv.cfg`, which a virtual environment has.
fn settings(root: &Path) -> Option<String> {
    std::fs::read_to_string(root.join("pyvenv.cfg")).ok()
}

fn setting<'a>(settings: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = settings.lines().filter_map(|line| line.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn has_pip(root: &Path) -> bool {
    site_packages(root).any(|dir| dir.join("pip").is_dir())
}

fn has_managed_python(root: &Path) -> bool {
    python_dirs(root).any(|dir| is_externally_managed(&root.join("lib"), &dir))
}

/// Can the Python of this environment install its pip? Debian's does so in virtual environments alone.
fn has_ensurepip(root: &Path) -> bool {
    let base = match settings(root) {
        Some(settings) => setting(&settings, "home").and_then(|home| Some(Path::new(home).parent()?.to_owned())),
        None => (!has_managed_python(root)).then(|| root.to_owned()),
    };
    base.is_some_and(|base| {
        let of_base = |dir: PathBuf| Some(base.join("lib").join(dir.file_name()?).join("ensurepip"));
        python_dirs(root).filter_map(of_base).any(|dir| dir.is_dir())
    })
}

/// Would a shell find a program with this name?
#[must_use]
pub fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_executable(&dir.join(program)))
}

/// Distributions forbid pip to change their Python, unless asked like this.
fn managed_option(is_managed: bool) -> Option<&'static str> {
    is_managed.then_some("--break-system-packages")
}

fn is_externally_managed(lib: &Path, python_dir: &Path) -> bool {
    python_dir.file_name().is_some_and(|name| lib.join(name).join("EXTERNALLY-MANAGED").exists())
}

/// `lib/python3.12` below the root of an environment, for each Python.
fn python_dirs(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    // In most environments lib64 is a link to lib.
    let dirs = ["lib", "lib64"].map(|lib| root.join(lib)).into_iter().filter(|dir| !dir.is_symlink());
    let entries = dirs.flat_map(std::fs::read_dir).flatten();
    let is_python = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("python3");
    entries.flatten().filter(is_python).map(|entry| entry.path())
}

/// The directories of packages below the root of an environment.
pub fn site_packages(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    python_dirs(root).flat_map(|dir| ["site-packages", "dist-packages"].map(|name| dir.join(name)))
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
    use crate::packages::command_line;

    /// Each environment has another pip; a directory that is no environment has none.
    #[test]
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
                "$/bin/python3 -I -m pip install --break-system-packages x",
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
            // The user's packages, and those of a Python elsewhere.
            (&[".local/lib/python3.99/site-packages/x"], ".local", "pip install --user x"),
            (&["lib/python3.99/dist-packages/x"], "", "pip install x"),
            (&[".local/lib/python3.99/site-packages/x", "lib/python3.99/x"], "", "pip install x"),
            (&["nvidia/cudnn/lib/x"], "", ""),
        ] {
            for file in files {
                let (name, text) = file.split_once('=').unwrap_or((file, ""));
                let file = world.join(name);
                std::fs::create_dir_all(file.parent().unwrap_or(&world)).unwrap_or_default();
                let text = text.replace('$', world.to_str().unwrap_or_default());
                std::fs::write(file, text).unwrap_or_default();
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
