//! Builds the conda, mamba, micromamba and pixi commands that change packages of an environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::path::is_on_path;
use cudnn_probe::facts::is_executable;
use cudnn_probe::{Os, read_bounded};

use super::dirs::program_in;

/// The name of the package cache for reinstallations, below the environment. The step deletes it, so the name must not be
/// one that users choose for their own directories.
const CACHE: &str = "cudnn-doctor-pkgs";

/// Installs packages into the environment at this root. `None` for pixi environments other than the default one,
/// because a feature of the manifest may belong to several environments.
pub(super) fn install(root: &Path, specs: Vec<String>) -> Option<Command> {
    match Pixi::of(root) {
        Some(pixi) if pixi.environment == "default" => Some(pixi.command("add").and(specs).changing(root)),
        Some(_) => None,
        None => Some(install_command(&program(root), root).and(specs)),
    }
}

/// Returns the command that lists the packages with their addresses. `None` for pixi, whose lock file lists them.
pub(super) fn list(root: &Path) -> Option<Command> {
    let list = || Command::new(program(root), ["list", "--explicit", "--prefix"]).and([root]);
    Pixi::of(root).is_none().then(list)
}

/// Reinstalls recorded packages. conda hard-links files from the package cache, so a file damaged in place is damaged
/// in the cache too. The commands therefore use a fresh cache below the environment, copy files instead of linking them,
/// and remove the cache at the end.
pub(super) fn reinstall(root: &Path, specs: &[String]) -> Vec<Command> {
    let cache = root.join(CACHE);
    let commands: Vec<Command> = specs.iter().map(|spec| reinstall_one(root, spec, &cache)).collect();
    let removal = commands.iter().any(|command| command.program == "env");
    let removal = removal.then(|| Command::new("rm", ["-rf"]).and([&cache]).changing(root));
    commands.into_iter().chain(removal).collect()
}

fn reinstall_one(root: &Path, spec: &str, cache: &Path) -> Command {
    if let Some(pixi) = Pixi::of(root) {
        let name = spec.split(['=', '<', '>', '!']).next().unwrap_or(spec);
        return pixi.command("reinstall").and(["--environment", &pixi.environment, name]).changing(root);
    }
    let program = program(root);
    // mamba does not support `--copy`, but no other environment uses this cache.
    let copy = program.ends_with("conda").then_some("--copy");
    let command = install_command(&program, root).and(["--force-reinstall"]).and(copy).and([spec]);
    if Os::HOST == Os::Windows {
        // The Windows shells cannot set a variable for a single command.
        return command;
    }
    let mut variable = OsString::from("CONDA_PKGS_DIRS=");
    variable.push(cache);
    command.started_by("env", [variable])
}

fn install_command(program: &Path, root: &Path) -> Command {
    let command = Command::new(program, ["install", "--yes", "--prefix"]).and([root]);
    command.and(["--channel", "conda-forge"]).changing(root)
}

/// Returns conda, even if it is not on `PATH`, or else mamba or micromamba, which take the same arguments.
fn program(root: &Path) -> PathBuf {
    let on_path = |name: &str| is_on_path(name).then(|| PathBuf::from(name));
    // `/opt/conda`, or `/opt/conda/envs/NAME`.
    let base = root.parent().filter(|parent| parent.ends_with("envs")).and_then(Path::parent).unwrap_or(root);
    on_path("conda")
        .or_else(|| Some(base.join("bin/conda")).filter(|file| is_executable(file)))
        .or_else(|| program_in("CONDA_EXE"))
        .or_else(|| on_path("mamba"))
        .or_else(|| on_path("micromamba"))
        .or_else(|| program_in("MAMBA_EXE"))
        .unwrap_or_else(|| "conda".into())
}

/// Returns the directory with the manifest of the pixi environment at this root.
pub fn workspace_of_pixi(root: &Path) -> Option<PathBuf> {
    let Pixi { manifest, .. } = Pixi::of(root)?;
    if manifest.extension().is_some_and(|kind| kind == "toml") {
        manifest.parent().map(Path::to_owned)
    } else {
        Some(manifest)
    }
}

/// A pixi environment. Its manifest defines the packages, so pixi would undo changes by other programs.
struct Pixi {
    /// The manifest, or the directory that contains it.
    manifest: PathBuf,
    environment: String,
}

impl Pixi {
    /// Reads pixi's record in an environment such as `WORKSPACE/.pixi/envs/NAME`.
    fn of(root: &Path) -> Option<Pixi> {
        const MAX_LEN: u64 = 1 << 20;
        let record = read_bounded(&root.join("conda-meta/pixi"), MAX_LEN).ok()?;
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
        let field = |name: &str| record.get(name)?.as_str().map(str::to_owned);
        let environment = field("environment_name").or_else(|| Some(root.file_name()?.to_str()?.to_owned()))?;
        let workspace =
            root.parent().filter(|parent| parent.ends_with(".pixi/envs")).and_then(|envs| envs.ancestors().nth(2));
        let manifest = workspace.map(Path::to_owned).or_else(|| field("manifest_path").map(PathBuf::from))?;
        Some(Pixi { manifest, environment })
    }

    fn command(&self, action: &str) -> Command {
        Command::new("pixi", [action, "--manifest-path"]).and([&self.manifest])
    }
}

#[cfg(test)]
mod tests;
