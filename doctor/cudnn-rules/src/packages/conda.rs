//! Builds the conda, mamba and micromamba commands that change packages of an environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::path::is_on_path;
use cudnn_probe::Os;
use cudnn_probe::facts::is_executable;

use super::dirs::program_in;
use super::pixi::Pixi;

/// The package cache for reinstallations, below the environment. The step deletes it, so users must not have a
/// directory with this name.
const CACHE: &str = "cudnn-doctor-pkgs";

/// Installs packages into the environment at this root, by pixi if the environment belongs to it.
pub(super) fn install(root: &Path, specs: Vec<String>) -> Option<Command> {
    match Pixi::of(root) {
        Some(pixi) => pixi.add(specs).map(|command| command.changing(root)),
        None => Some(install_command(&program(root), root).and(specs)),
    }
}

/// Returns the command that lists the packages with their addresses. `None` for pixi, which lists them in the lock
/// file.
pub(super) fn list(root: &Path) -> Option<Command> {
    let list = || Command::new(program(root), ["list", "--explicit", "--prefix"]).and([root]);
    Pixi::of(root).is_none().then(list)
}

/// Reinstalls recorded packages. conda hard-links files from the package cache, where a file damaged in place is
/// damaged too. The commands use a fresh cache below the environment, copy files instead of linking them, and remove
/// the cache at the end.
pub(super) fn reinstall(root: &Path, specs: &[String]) -> Vec<Command> {
    let cache = root.join(CACHE);
    let commands: Vec<Command> = specs.iter().map(|spec| reinstall_one(root, spec, &cache)).collect();
    let removal = commands.iter().any(|command| command.program == "env");
    let removal = removal.then(|| Command::new("rm", ["-rf"]).and([&cache]).changing(root));
    commands.into_iter().chain(removal).collect()
}

fn reinstall_one(root: &Path, spec: &str, cache: &Path) -> Command {
    if let Some(pixi) = Pixi::of(root) {
        return pixi.reinstall(spec).changing(root);
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

/// Returns conda, even outside `PATH`, then mamba or micromamba, which accept the same arguments.
fn program(root: &Path) -> PathBuf {
    let on_path = |name: &str| is_on_path(name).then(|| PathBuf::from(name));
    on_path("conda")
        .or_else(|| Some(base_of(root).join("bin/conda")).filter(|file| is_executable(file)))
        .or_else(|| program_in("CONDA_EXE"))
        .or_else(|| on_path("mamba"))
        .or_else(|| on_path("micromamba"))
        .or_else(|| program_in("MAMBA_EXE"))
        .unwrap_or_else(|| "conda".into())
}

/// Returns conda's root for an environment: `/opt/conda` for `/opt/conda` and `/opt/conda/envs/NAME`.
pub(super) fn base_of(root: &Path) -> &Path {
    root.parent().filter(|parent| parent.ends_with("envs")).and_then(Path::parent).unwrap_or(root)
}
