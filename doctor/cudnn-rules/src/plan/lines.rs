//! Renders one action as lines that the user can paste or the doctor can run.

use cudnn_cli::command::{Command, REMOVE_ITEM};
use cudnn_cli::escape::Printable;
use cudnn_cli::path::is_on_path;
use cudnn_cli::rights::{belongs_to_user, can_write, is_of_root, is_root};
use cudnn_cli::shell::{HERE, set_variable, unset_variable};
use cudnn_probe::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_probe::{Os, Version};

use super::line::{Line, Remark, Rendered};
use super::python;
use crate::drop_in::command::DropInCommand;
use crate::packages::{self, Aside, PackageChange, Site, package_name};
use crate::remedy::{Action, Variable};
use crate::shell;
use crate::system::musl_without_glibc;

/// Renders an action of a merged list, which contains the actions that it needs.
pub(super) fn render(action: &Action) -> Rendered {
    let rendered = match action {
        Action::Permit { path, is_dir } => Rendered::lines([permit(path, *is_dir)]),
        Action::Python(root) => python::restoring(root).unwrap_or_default(),
        Action::Remove(paths) => Rendered::lines(remove(paths)),
        Action::Packages(change) => packages(change),
        Action::Link { dir, version } => Rendered::lines([link(dir, *version)]),
        Action::Ldconfig => Rendered::lines([Command::new("ldconfig", [""; 0])]),
        Action::CreateDir(dir) => Rendered::lines([Command::new("mkdir", ["-p"]).and([dir])]),
        Action::DropIn { command, dir } => Rendered::lines([command.command(dir)]),
        Action::Variable(variable) => self::variable(variable),
        Action::Inspect(command) => Rendered::lines([command.clone()]),
    };
    with_rights(rendered)
}

/// Adds sudo to commands that need root. Containers that run as an ordinary user often have neither sudo nor a
/// password.
fn with_rights(mut rendered: Rendered) -> Rendered {
    let commands = rendered.lines.iter_mut().flat_map(Line::commands_mut);
    let for_root: Vec<&mut Command> = commands.filter(|one| one.needs_root() && !is_root()).collect();
    // Without PATH, the presence of sudo is unknown.
    if facts::variable("PATH").is_none() || is_on_path("sudo") {
        for_root.into_iter().for_each(|command| *command = command.clone().started_by("sudo", []));
    } else if !for_root.is_empty() {
        return rendered.remark(Remark::Aside("as root, because sudo is not installed".to_owned()));
    }
    rendered
}

/// Returns the line for a command, with sudo if needed.
pub fn line_of(command: Command) -> String {
    rendered(command).iter().map(Line::to_string).collect()
}

/// Returns the lines for a command that the doctor runs itself, with sudo if needed.
pub fn rendered(command: Command) -> Vec<Line> {
    with_rights(Rendered::lines([command])).lines
}

fn permit(path: &Path, is_dir: bool) -> Command {
    if Os::HOST == Os::Windows {
        // This SID is the Users group in every language of Windows.
        return Command::new("icacls", [path]).and(["/grant", "*S-1-5-32-545:(OI)(CI)RX", "/T"]);
    }
    let options: &[&str] = if is_dir { &["-R", "a+rX"] } else { &["a+r"] };
    Command::new("chmod", options).and([path]).by_owner_of(path)
}

fn remove(paths: &[PathBuf]) -> Vec<Command> {
    let is_dir = paths.iter().any(|path| path.leads_to_dir() && !path.is_link());
    if Os::HOST == Os::Windows {
        let options: &[&str] = if is_dir { &["-Recurse", "-LiteralPath"] } else { &["-LiteralPath"] };
        return paths.iter().map(|path| Command::new(REMOVE_ITEM, options).and([path])).collect();
    }
    let option = match (is_dir, paths) {
        (true, _) => Some("-r"),
        (false, [_]) => None,
        (false, _) => Some("-f"),
    };
    let dirs = || paths.iter().filter_map(|path| path.parent());
    let dir = dirs().find(|dir| is_of_root(dir)).or(dirs().next()).unwrap_or(Path::new("/"));
    vec![Command::new("rm", option).and(paths).changing(dir)]
}

fn link(dir: &Path, version: Version) -> Command {
    let suffix = format!(".{}.{}", version.minor, version.patch);
    let link = format!("\"${{file%{suffix}}}\"");
    let dir_word = cudnn_cli::quoting::quoted(dir);
    let script = format!(
        "cd {dir_word} && for file in libcudnn*.so.9{suffix}; do [ -e {link} ] || ln -sf \"$file\" {link}; done"
    );
    Command::new("sh", ["-c", &script]).changing(dir)
}

/// Renders a package change, preceded by the commands that prepare the installer. A change against a decision of the
/// user is only a remark.
fn packages(change: &PackageChange) -> Rendered {
    if let Some(loader) = musl_without_glibc() {
        return Rendered::default().remark(Remark::Instead(format!(
            "this system has musl ({loader}), but no glibc, which every cuDNN needs: use a system or a container image with \
             glibc, such as Debian or Ubuntu"
        )));
    }
    if let Some(reason) = change.read_only_dir() {
        return Rendered::default().remark(Remark::But(reason));
    }
    if let Some(decision) = packages::forbidding(change) {
        let reason = format!("{decision}: change that first, because no step contradicts it");
        return Rendered::default().remark(Remark::But(reason));
    }
    let Some(commands) = change.commands() else { return Rendered::default() };
    let commands = packages::with_lists(commands);
    let put_back: Vec<Command> = change.records_aside().iter().map(Aside::put_back).collect();
    let lines = match put_back.is_empty() {
        true => Rendered::lines(commands),
        false => Rendered::lines([Line::Guarded { commands, put_back }]),
    };
    let lines = match closed_dir(change) {
        Some(dir) => {
            let permission = Command::new("chmod", ["u+rwx"]).and([&dir]);
            let text = format!("this user may not change {}, but owns it: run `{permission}`, then ", dir.printable());
            lines.remark(Remark::Before(text))
        }
        None => lines,
    };
    match change.site.python_root().and_then(python::remark) {
        Some(remark @ Remark::Instead(_)) => Rendered::default().remark(remark),
        Some(remark) => lines.remark(remark),
        None => lines,
    }
}

/// Returns a directory to change that this user owns, but has made read-only with `chmod`.
fn closed_dir(change: &PackageChange) -> Option<PathBuf> {
    let has_chmod = Os::HOST != Os::Windows && !is_root();
    let is_closed = |dir: &PathBuf| belongs_to_user(dir) && !can_write(dir);
    change.changed_dirs().into_iter().find(|dir| has_chmod && is_closed(dir))
}

fn variable(variable: &Variable) -> Rendered {
    let line = match variable {
        Variable::Set { name, value } => Ok(set_variable(name, value)),
        Variable::Unset(name) => Ok(unset_variable(name)),
        Variable::Without { name, entries } => Ok(shell::without_entries(name, entries)),
        Variable::Use(dir) => shell::use_dir(dir),
        Variable::Search(dir) => HERE.prepend(dir),
    };
    match line {
        Ok(line) => Rendered::lines([Line::Shell(line)]),
        Err(instead) => Rendered::default().remark(Remark::Instead(instead)),
    }
}

pub(super) fn title(action: &Action) -> String {
    match action {
        Action::Permit { path, .. } => format!("let this user read {}", path.printable()),
        Action::Python(root) => format!("recreate the Python of {}", root.printable()),
        Action::Remove(paths) => match paths.as_slice() {
            [path] => format!("remove {}", path.printable()),
            _ => format!("remove {} files", paths.len()),
        },
        Action::Packages(change) => title_of_change(change),
        Action::Link { dir, .. } => format!("create the missing links in {}", dir.printable()),
        Action::Ldconfig => "link the system's libraries again".to_owned(),
        Action::CreateDir(dir) => format!("create {}", dir.printable()),
        Action::DropIn { command: DropInCommand::Install { .. }, dir } => {
            format!("put the drop-in in front of {}", dir.printable())
        }
        Action::DropIn { command: DropInCommand::Uninstall, dir } => {
            format!("remove the drop-in from {}", dir.printable())
        }
        Action::Variable(Variable::Set { name, .. }) => format!("set {name}"),
        Action::Variable(Variable::Unset(name)) => format!("unset {name}"),
        Action::Variable(Variable::Without { name, entries }) => {
            let entries: Vec<String> = entries.iter().map(|entry| Path::new(entry).printable()).collect();
            format!("remove {} from {name}", entries.join(" and "))
        }
        Action::Variable(Variable::Search(dir)) => format!("have programs find the libraries in {}", dir.printable()),
        Action::Variable(Variable::Use(dir)) => format!("have programs use the cuDNN in {}", dir.printable()),
        Action::Inspect(_) => String::new(),
    }
}

fn title_of_change(change: &PackageChange) -> String {
    let list = |requirements: &[String], show: fn(&str) -> &str| {
        let mut words: Vec<&str> = requirements.iter().map(|one| show(one)).collect();
        words.dedup();
        words.join(" and ").printable()
    };
    let parts = [
        (&change.remove, format!("remove {}", list(&change.remove, package_name))),
        (&change.reinstall, format!("install {} again", list(&change.reinstall, package_name))),
        (&change.install, format!("install {}", list(&change.install, |requirement| requirement))),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(all, _)| !all.is_empty()).map(|(_, text)| text).collect();
    let place = match &change.site {
        Site::System => " in the system".to_owned(),
        other => {
            // `/usr/local` for `/usr/local/lib/python3.12/dist-packages`.
            let debian_dir = other.debian_dir().filter(|_| change.installs_any());
            let of_debian = debian_dir.as_deref().and_then(|dir| dir.ancestors().nth(3));
            of_debian.or(other.dir()).map_or(String::new(), |dir| format!(" in {}", dir.printable()))
        }
    };
    let until = packages::keep_in_project(change)
        .map_or(String::new(), |keep| format!(" until the next `uv sync`, unless you also run `{keep}`"));
    format!("{}{place}{until}", parts.join(", then "))
}
