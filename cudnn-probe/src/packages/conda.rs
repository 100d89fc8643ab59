//! Which program installs conda's packages into an environment: conda, mamba, micromamba or pixi. Reads files and
//! variables; runs nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::command::Command;
use super::pip::is_on_path;
use crate::platform::{Os, is_executable};

/// Installs packages into the environment at this root, or into the active one. `None` if pixi made the environment, and
/// which of the manifest's features it takes packages from is not known.
pub(super) fn install(root: Option<&Path>, specs: impl IntoIterator<Item = String>) -> Option<Command> {
    let specs = specs.into_iter();
    match root.and_then(Pixi::of) {
        Some(pixi) => pixi.add(specs),
        None => Some(by(&program(root), root, &[]).and(specs)),
    }
}

/// Installs a package again, which the records list. conda links files from its package cache, where damage in place has
/// damaged them, too: with a cache of this environment, and copies.
pub(super) fn reinstall(root: &Path, spec: String) -> Command {
    if let Some(pixi) = Pixi::of(root) {
        return pixi.reinstall(&spec);
    }
    let mut cache = OsString::from("CONDA_PKGS_DIRS=");
    cache.push(root.join("pkgs-reinstall"));
    let program = program(Some(root));
    // mamba has no such option; nothing else uses this cache.
    let options: &[&str] = if is_conda(&program) { &["--force-reinstall", "--copy"] } else { &["--force-reinstall"] };
    let command = by(&program, Some(root), options);
    if Os::HOST == Os::Windows {
        // Neither of Windows' shells can set a variable for one command.
        return command.and([spec]);
    }
    let Command { program, arguments } = command;
    Command::new("env", [cache, program]).and(arguments).and([spec])
}

fn by(program: &Path, root: Option<&Path>, options: &[&str]) -> Command {
    let prefix = root.map(|root| [OsString::from("--prefix"), root.as_os_str().to_owned()]);
    Command::new(program, ["install", "--yes"])
        .and(prefix.into_iter().flatten())
        .and(["--channel", "conda-forge"])
        .and(options.iter().copied())
}

fn is_conda(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == "conda")
}

/// conda if it is here, also where no shell finds it; else mamba or micromamba, which take the same arguments.
fn program(root: Option<&Path>) -> PathBuf {
    let on_path = |name: &str| is_on_path(name).then(|| PathBuf::from(name));
    let by_variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|file| is_executable(file));
    // `/opt/conda`, or `/opt/conda/envs/NAME`.
    let beside = || {
        let base = root?.parent().filter(|parent| parent.ends_with("envs")).and_then(Path::parent).or(root)?;
        Some(base.join("bin/conda")).filter(|file| is_executable(file))
    };
    on_path("conda")
        .or_else(beside)
        .or_else(|| by_variable("CONDA_EXE"))
        .or_else(|| on_path("mamba"))
        .or_else(|| on_path("micromamba"))
        .or_else(|| by_variable("MAMBA_EXE"))
        .unwrap_or_else(|| "conda".into())
}

/// An environment of pixi, which a manifest describes: other programs' changes do not last.
struct Pixi {
    /// The directory of the manifest, or the manifest.
    manifest: PathBuf,
    environment: String,
}

impl Pixi {
    /// `WORKSPACE/.pixi/envs/NAME`, with pixi's record in it.
    fn of(root: &Path) -> Option<Pixi> {
        let record = std::fs::read_to_string(root.join("conda-meta/pixi")).ok()?;
        let field = |name: &str| {
            let rest = record.split_once(&format!("\"{name}\""))?.1.trim_start().strip_prefix(':')?;
            let value = rest.trim_start().strip_prefix('"')?.split('"').next()?;
            (!value.contains('\\')).then(|| value.to_owned())
        };
        let environment = field("environment_name").or_else(|| Some(root.file_name()?.to_str()?.to_owned()))?;
        let workspace =
            root.parent().filter(|parent| parent.ends_with(".pixi/envs")).and_then(|envs| envs.ancestors().nth(2));
        let manifest = workspace.map(Path::to_owned).or_else(|| field("manifest_path").map(PathBuf::from))?;
        Some(Pixi { manifest, environment })
    }

    fn command(&self, action: &str) -> Command {
        Command::new("pixi", [action, "--manifest-path"]).and([&self.manifest])
    }

    fn add(&self, specs: impl Iterator<Item = String>) -> Option<Command> {
        (self.environment == "default").then(|| self.command("add").and(specs))
    }

    fn reinstall(&self, spec: &str) -> Command {
        let name = spec.split(['=', '<', '>', '!']).next().unwrap_or(spec);
        self.command("reinstall").and(["--environment", &self.environment, name])
    }
}
