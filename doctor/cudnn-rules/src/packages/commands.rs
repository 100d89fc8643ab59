//! Translates a package change into installer commands.

use std::ffi::OsString;
use std::path::Path;

use cudnn_cli::command::Command;
use cudnn_frameworks::{normalized, pip_records};

use super::apt::{self, apt_get};
use super::aside::with_aside;
use super::change::{PackageChange, Pip, Site};
use super::dirs::user_base;
use super::installed_pip::{Interpreter, in_new_environment, on_path, without_variables};
use super::requirement::package_name;
use super::wheels::NVIDIA_PREFIX;
use super::{conda, pip};

const REINSTALL_OPTIONS: [&str; 2] = ["--force-reinstall", "--no-deps"];

impl Site {
    pub(super) fn pip(&self, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
        match self {
            Site::Environment(root) | Site::Directory { pip: Pip::Environment(root), .. } => {
                pip::pip(root, action, arguments)
            }
            Site::Interpreter { program, root } => {
                pip::with_python(&Interpreter { program: program.clone(), root: root.clone() }, action, arguments)
            }
            Site::User { program, base, .. } => pip::for_user(program, base, action, arguments),
            Site::Directory { pip: Pip::Interpreter(program), .. } => {
                Interpreter::of(program.clone())?.run_pip_for_others(action, arguments)
            }
            Site::Directory { .. } if action == "install" => pip::into_dir(arguments),
            Site::NewEnvironment { dir, program } => in_new_environment(dir, program, arguments),
            _ => Some(vec![without_variables(on_path()?.and([action]).and(arguments))]),
        }
    }
}

impl PackageChange {
    /// Returns this change in the place that the installer changes, if an installer can make it.
    pub(crate) fn possible(self) -> Option<Self> {
        Some(self.in_changed_place()).filter(Self::is_possible)
    }

    /// Returns this change in the place that the installer changes.
    pub(crate) fn in_changed_place(self) -> Self {
        self.for_user().filter(Self::is_possible).unwrap_or(self)
    }

    fn is_possible(&self) -> bool {
        self.commands().is_some_and(|commands| !commands.is_empty())
    }

    /// Returns the same change of the user's packages, if the packages belong there.
    fn for_user(&self) -> Option<Self> {
        let names = self.installed().chain(&self.remove).map(|one| normalized(package_name(one)));
        let python = pip::python_for_user(self.site.interpreter()?, &names.collect::<Vec<_>>())?;
        let site = Site::User { base: user_base()?, dir: python.user_site()?, program: python.program };
        Some(PackageChange { site, ..self.clone() })
    }

    /// Returns the commands in order. `None` if no installer can make the change, for example because the environment's
    /// Python is missing.
    pub fn commands(&self) -> Option<Vec<Command>> {
        let removal = if self.remove.is_empty() { Vec::new() } else { self.removal()? };
        let mut changes = [removal, self.installation()?];
        if self.removes_last {
            changes.reverse();
        }
        let mut commands: Vec<Command> = Vec::new();
        for command in changes.into_iter().flatten() {
            // Removals may repeat because an interrupted upgrade leaves two records.
            if !commands.contains(&command) || command.has("uninstall") {
                commands.push(command);
            }
        }
        Some(with_aside(&self.records_aside(), commands))
    }

    /// Returns the held packages that the change installs again, because apt-get drops their hold.
    pub fn held(&self) -> Vec<String> {
        let again = self.reinstall.iter().filter(|_| self.site == Site::System).map(|one| package_name(one));
        again.filter(|name| apt::held(name).is_some()).map(str::to_owned).collect()
    }

    fn installation(&self) -> Option<Vec<Command>> {
        let (again, new) = (self.reinstall.clone(), self.install.clone());
        let all: Vec<OsString> = again.iter().chain(&new).map(OsString::from).collect();
        if all.is_empty() {
            return Some(Vec::new());
        }
        match &self.site {
            Site::Conda(root) => {
                let mut commands = conda::reinstall(root, &again);
                if !new.is_empty() {
                    commands.push(conda::install(root, new)?);
                }
                Some(commands)
            }
            Site::System => {
                let again = (!again.is_empty()).then(|| apt_get("install").and(["--reinstall"]).and(again));
                let new = (!new.is_empty()).then(|| apt_get("install").and(new.iter().map(|one| apt::argument(one))));
                Some(again.into_iter().chain(apt::hold(&self.held())).chain(new).collect())
            }
            Site::Environment(_)
            | Site::Interpreter { .. }
            | Site::NewEnvironment { .. }
            | Site::OnPath
            | Site::User { .. } => {
                let options = if self.with_dependencies { &REINSTALL_OPTIONS[..1] } else { &REINSTALL_OPTIONS[..] };
                let again = options.iter().map(OsString::from).chain(again.iter().map(OsString::from)).collect();
                let mut commands =
                    if self.reinstall.is_empty() { Vec::new() } else { self.site.pip("install", again)? };
                if !new.is_empty() {
                    commands.extend(self.site.pip("install", new.into_iter().map(OsString::from).collect())?);
                }
                Some(commands)
            }
            Site::Directory { dir, pip, options } => self.fill_dir(dir, pip, options, all),
        }
    }

    fn removal(&self) -> Option<Vec<Command>> {
        match &self.site {
            // pip cannot uninstall from a `--target` directory. Installing replaces the files there, and the old
            // records are set aside and removed. conda's solver removes conflicting packages by itself.
            Site::Directory { .. } | Site::Conda(_) | Site::NewEnvironment { .. } => Some(Vec::new()),
            Site::System => Some(vec![apt_get("remove").and(&self.remove)]),
            _ => {
                // An interrupted upgrade leaves two records of a package, and pip removes only one at a time.
                let mut commands = Vec::new();
                let mut names = self.remove.clone();
                while !names.is_empty() {
                    let (mut now, mut later) = (vec![String::from("--yes")], Vec::new());
                    for name in names {
                        if now.contains(&name) { later.push(name) } else { now.push(name) }
                    }
                    commands.extend(self.site.pip("uninstall", now.into_iter().map(OsString::from).collect())?);
                    names = later;
                }
                Some(commands)
            }
        }
    }

    fn fill_dir(&self, dir: &Path, by: &Pip, options: &[&str], mut all: Vec<OsString>) -> Option<Vec<Command>> {
        if *by == Pip::Any && !self.reinstall.iter().chain(&self.install).all(|one| one.starts_with(NVIDIA_PREFIX)) {
            return None;
        }
        if ["--upgrade", "--no-deps"].iter().all(|option| options.contains(option)) {
            all.extend(self.kept(dir).into_iter().map(OsString::from));
        }
        let target = ["--target".into(), dir.as_os_str().to_owned()].into_iter();
        let arguments: Vec<OsString> = target.chain(options.iter().map(OsString::from)).chain(all).collect();
        let mut commands = self.site.pip("install", arguments)?;
        let last = commands.pop().map(|command| command.changing(dir));
        commands.extend(last);
        Some(commands)
    }

    /// Returns the packages that the command must also name, because pip replaces the `nvidia` directory as a whole.
    fn kept(&self, dir: &Path) -> Vec<String> {
        let named: Vec<&str> = self.reinstall.iter().chain(&self.install).map(|one| package_name(one)).collect();
        if !named.iter().any(|name| name.starts_with(NVIDIA_PREFIX)) {
            return Vec::new();
        }
        let is_cudnn = |name: &str| name.starts_with("nvidia-cudnn-cu");
        let is_replaced =
            |name: &str| named.contains(&name) || is_cudnn(name) && named.iter().any(|name| is_cudnn(name));
        let kept =
            pip_records(dir).into_iter().filter(|one| one.name.starts_with(NVIDIA_PREFIX) && !is_replaced(&one.name));
        kept.map(|one| one.version.map_or(one.name.clone(), |version| format!("{}=={version}", one.name))).collect()
    }
}
