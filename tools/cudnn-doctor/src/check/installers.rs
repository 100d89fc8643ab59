//! What commands for installers need before they run on this machine: a pip, and apt's lists of packages. The commands come
//! from the probe's `packages`; which of them helps is for `fix_commands` to choose.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::packages::{self, BasePython, Command, clean_cache, ensure_pip, is_on_path};

use crate::platform::data_dir;

/// The installers of this system.
pub(super) struct SystemTools {
    /// The command that installs Python's venv and pip.
    python: Option<Command>,
    /// apt-get has no lists of packages, as in most images of containers.
    lacks_lists: bool,
}

impl SystemTools {
    /// Those of this machine.
    pub(super) fn here() -> Self {
        SystemTools::of(Path::new("/"))
    }

    fn of(root: &Path) -> Self {
        const TOOLS: [(&str, &[&str]); 3] = [
            ("apt-get", &["install", "-y", "python3-venv"]),
            ("dnf", &["install", "-y", "python3-pip"]),
            ("zypper", &["--non-interactive", "install", "python3-pip"]),
        ];
        let has = |tool: &str| root.join("usr/bin").join(tool).is_file();
        let found = TOOLS.into_iter().find(|(tool, _)| has(tool));
        let lists = std::fs::read_dir(root.join("var/lib/apt/lists")).into_iter().flatten().flatten();
        let mut names = lists.map(|entry| entry.file_name().to_string_lossy().into_owned());
        SystemTools {
            python: found.map(|(tool, arguments)| Command::new(tool, arguments.iter().copied())),
            // They may be compressed.
            lacks_lists: !names.any(|name| name.contains("_Packages")),
        }
    }

    #[cfg(test)]
    pub(super) fn with(python: Option<Command>, lacks_lists: bool) -> Self {
        SystemTools { python, lacks_lists }
    }

    /// The command that installs Python's venv and pip, if this system has one.
    pub(super) fn python(&self) -> Option<Command> {
        self.python.clone()
    }
}

/// The commands, each after what it needs: the environment's pip, any pip, apt's lists.
pub(super) fn prepared(commands: &[Command], tools: &SystemTools) -> Vec<Command> {
    let mut all: Vec<Command> = Vec::new();
    let mut add = |command: Command| {
        let needs_lists = tools.lacks_lists && command.program == "apt-get" && has(&command, "install");
        let update = needs_lists.then(|| Command::new("apt-get", ["update"]));
        for command in update.into_iter().chain([command]) {
            // Removals may repeat: an interrupted upgrade leaves two records.
            let is_known = all.contains(&command) && !has(&command, "uninstall");
            if !is_known {
                all.push(command);
            }
        }
    };
    for command in commands {
        let (before, command) = with_pip(command, tools);
        before.into_iter().chain(ensure_pip(&command)).chain(clean_cache(&command)).chain([command]).for_each(&mut add);
    }
    all
}

fn has(command: &Command, wanted: &str) -> bool {
    command.arguments.iter().any(|argument| argument == wanted)
}

/// A command for the pip on `PATH`, where there is none: by another one, which the commands before it make.
fn with_pip(command: &Command, tools: &SystemTools) -> (Vec<Command>, Command) {
    let is_plain = ["pip", "pip3"].iter().any(|pip| command.program == *pip && !is_on_path(pip));
    let venv = command.arguments.first().is_some_and(|first| first == "-m") && has(command, "venv");
    if venv && !has(command, "--without-pip") && lacks_venv(Path::new(&command.program)) {
        return (tools.python().into_iter().collect(), command.clone());
    }
    if !is_plain {
        return (Vec::new(), command.clone());
    }
    let by = |python: PathBuf, arguments: &[OsString]| {
        let pip = ["-I", "-m", "pip"].map(OsString::from);
        Command::new(python, pip.into_iter().chain(arguments.iter().cloned()))
    };
    if let [option, python, arguments @ ..] = command.arguments.as_slice()
        && option == "--python"
    {
        let ensure = Command::new(python, ["-I", "-m", "ensurepip"]);
        return (tools.python().into_iter().chain([ensure]).collect(), by(python.into(), arguments));
    }
    let python = python_on_path();
    let base = python.as_deref().and_then(|python| Some(packages::base_python(python.parent()?.parent()?)));
    let (has_pip, has_ensurepip) = match base {
        Some(BasePython::Open) => (true, true),
        Some(BasePython::Managed { has_pip, has_ensurepip }) => (has_pip, has_ensurepip),
        None => (false, false),
    };
    let program = python.unwrap_or_else(|| "python3".into());
    // A Python that its distribution manages fills other directories, and no others.
    if has_pip && has(command, "--target") {
        return (Vec::new(), by(program, &command.arguments));
    }
    if !has(command, "--target") {
        return (Vec::new(), command.clone());
    }
    let Some(data) = data_dir() else { return (Vec::new(), command.clone()) };
    let dir = data.join("cudnn-doctor-pip");
    let venv = Command::new(program, ["-m".into(), "venv".into(), dir.clone().into_os_string()]);
    let tools = tools.python().filter(|_| !has_ensurepip);
    (tools.into_iter().chain([venv]).collect(), by(dir.join("bin/python3"), &command.arguments))
}

/// Is this Debian's Python without the package for its virtual environments?
fn lacks_venv(python: &Path) -> bool {
    let root = python.parent().and_then(Path::parent).filter(|_| python.is_absolute());
    let base = root.filter(|root| root.join("lib/python3/dist-packages").is_dir()).map(packages::base_python);
    matches!(base, Some(BasePython::Managed { has_ensurepip: false, .. }))
}

fn python_on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join("python3")).find(|python| python.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    use cudnn_probe::packages::command_line;

    #[test]
    fn apt_gets_its_lists_once_where_it_has_none() {
        let apt = |action: &str, name: &str| Command::new("apt-get", [action, "-y", name]);
        let commands = [apt("remove", "a"), apt("install", "b"), apt("install", "c")];
        for (lacks_lists, update) in [(true, "apt-get update && "), (false, "")] {
            let prepared = prepared(&commands, &SystemTools::with(None, lacks_lists));
            let expected = format!("apt-get remove -y a && {update}apt-get install -y b && apt-get install -y c");
            assert_eq!(command_line(&prepared), expected);
        }
    }

    #[test]
    fn the_lists_of_apt_are_files_with_a_name() {
        let root = std::env::temp_dir().join(format!("cudnn-doctor-lists-{}", std::process::id()));
        let lists = root.join("var/lib/apt/lists");
        let _ = std::fs::create_dir_all(lists.join("partial"));
        assert!(SystemTools::of(&root).lacks_lists);
        let _ = std::fs::write(lists.join("deb.example.org_dists_x_main_binary-amd64_Packages.lz4"), "");
        assert!(!SystemTools::of(&root).lacks_lists);
        let _ = std::fs::remove_dir_all(&root);
    }
}
