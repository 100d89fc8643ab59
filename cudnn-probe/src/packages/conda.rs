//! Which program installs conda's packages into an environment: conda, mamba, micromamba or pixi. Reads files and
//! variables; runs nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::command::Command;
use super::pip::is_on_path;
use crate::platform::{Os, is_executable};

/// Installs packages into the environment at this root, or into the active one. `None` if pixi made the environment, and
/// no feature of its manifest is known to be this environment's alone.
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
        let record = text(&root.join("conda-meta/pixi"))?;
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

    /// Adds packages to the feature of the manifest that this environment alone has: what other environments have, too,
    /// would change those. `None` if it has none, or several.
    fn add(&self, specs: impl Iterator<Item = String>) -> Option<Command> {
        let command = self.command("add");
        if self.environment == "default" {
            return Some(command.and(specs));
        }
        let names = ["pixi.toml", "pyproject.toml"].map(|name| self.manifest.join(name));
        let mut files = names.iter().chain([&self.manifest]);
        let features = files.find_map(|file| own_feature(&text(file)?, &self.environment));
        Some(command.and(["--feature", &features?]).and(specs))
    }

    /// Installs a package again.
    fn reinstall(&self, spec: &str) -> Command {
        let name = spec.split(['=', '<', '>', '!']).next().unwrap_or(spec);
        self.command("reinstall").and(["--environment", &self.environment, name])
    }
}
/// The text of a small file.
fn text(file: &Path) -> Option<String> {
    const MAX_LEN: u64 = 1 << 20;
    String::from_utf8(crate::read_bounded(file, MAX_LEN).ok()?).ok()
}

/// The one feature in a manifest of pixi that this environment has and no other: `cuda` of `gpu = ["cuda", "test"]`, if
/// another environment has `test`.
fn own_feature(manifest: &str, environment: &str) -> Option<String> {
    let environments = environments(manifest);
    let features = &environments.iter().find(|(name, _)| name == environment)?.1;
    let is_shared =
        |feature: &String| environments.iter().any(|(name, other)| name != environment && other.contains(feature));
    let mut own = features.iter().filter(|feature| !is_shared(feature));
    own.next().filter(|_| own.next().is_none()).cloned()
}

/// The environments of a manifest, with their features. Reads what pixi writes: a line or several for each environment
/// below `[environments]`, or a table of its own.
fn environments(manifest: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut table = "";
    let mut lines = manifest.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    while let Some(line) = lines.next() {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']).trim_start_matches("tool.pixi.");
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim().trim_matches('"');
        let name = match table.strip_prefix("environments") {
            Some("") => key,
            Some(name) if key == "features" => name.trim_start_matches('.').trim_matches('"'),
            _ => continue,
        };
        let mut value = value.to_owned();
        while value.contains('[') && !value.contains(']') {
            let Some(line) = lines.next() else { break };
            value += line;
        }
        // `{ features = ["cuda"], solve-group = "default" }`
        let value = value.split_once("features").map_or(value.as_str(), |(_, features)| features);
        let Some((_, list)) = value.split_once('[') else { continue };
        let list = list.split(']').next().unwrap_or_default();
        let features = list.split(',').map(|feature| feature.trim().trim_matches(['"', '\'']).to_owned());
        found.push((name.to_owned(), features.filter(|feature| !feature.is_empty()).collect()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_added_to_the_feature_that_only_this_environment_has() {
        let own = "[environments]\ndefault = []\ngpu = [\"cuda\"]\n";
        for (manifest, environment, expected) in [
            (own, "gpu", Some("cuda")),
            (own, "default", None),
            (own, "other", None),
            (
                "[tool.pixi.environments]\ngpu = { features = ['cuda'], solve-group = \"x\" } # [no]\n",
                "gpu",
                Some("cuda"),
            ),
            ("[environments]\ngpu = [\n  \"test\",\n  \"cuda\",\n]\ncpu = [\"test\"]\n", "gpu", Some("cuda")),
            ("[environments.gpu]\nsolve-group = \"x\"\nfeatures = [\"cuda\"]\n", "gpu", Some("cuda")),
            // Both would change; or which one it is is not known.
            ("[environments]\ngpu = [\"cuda\"]\ntest = [\"cuda\"]\n", "gpu", None),
            ("[environments]\ngpu = [\"cuda\", \"more\"]\n", "gpu", None),
            ("[environments]\ngpu = [\n\"cuda\"", "gpu", Some("cuda")),
            ("[feature.gpu]\ngpu = [\"cuda\"]\n", "gpu", None),
            ("", "gpu", None),
        ] {
            assert_eq!(own_feature(manifest, environment).as_deref(), expected, "{manifest} {environment}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it writes files")]
    fn pixis_environments_are_changed_by_pixi() -> std::io::Result<()> {
        let workspace = std::env::temp_dir().join(format!("cudnn-probe-pixi-{}", std::process::id()));
        let manifest = "[environments]\ngpu = [\"cuda\"]\n";
        for (name, manifest, expected) in [
            ("default", manifest, Some("add --manifest-path $ cudnn>=9.3")),
            ("gpu", manifest, Some("add --manifest-path $ --feature cuda cudnn>=9.3")),
            ("gpu", "", None),
        ] {
            let root = workspace.join(".pixi/envs").join(name);
            std::fs::create_dir_all(root.join("conda-meta"))?;
            std::fs::write(root.join("conda-meta/pixi"), format!(r#"{{"environment_name": "{name}"}}"#))?;
            std::fs::write(workspace.join("pixi.toml"), manifest)?;
            let command = install(Some(&root), ["cudnn>=9.3".to_owned()]);
            let line = command.map(|command| {
                let arguments = command.arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
                arguments.collect::<Vec<_>>().join(" ").replace(&*workspace.to_string_lossy(), "$")
            });
            assert_eq!(line.as_deref(), expected, "{name} {manifest}");
        }
        std::fs::remove_dir_all(workspace)
    }
}
