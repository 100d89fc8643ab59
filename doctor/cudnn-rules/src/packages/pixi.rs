//! Reads the manifests of pixi environments, and builds the pixi commands that change their packages.

use std::iter::once;
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_probe::{Os, read_bounded};
use toml_edit::Item;

use super::decision_file::toml;
use super::requirement::package_name;

/// The names of pixi's manifests.
pub const MANIFESTS_OF_PIXI: [&str; 3] = ["pixi.toml", "mojoproject.toml", "pyproject.toml"];

/// A pixi environment. pixi would undo changes by other programs, because the manifest defines the packages.
pub(super) struct Pixi {
    /// The manifest, or the directory that contains it.
    manifest: PathBuf,
    environment: String,
}

pub(super) struct Dependency {
    pub(super) file: PathBuf,
    pub(super) package: String,
    /// The versions that the manifest allows. Empty for a URL or a path.
    pub(super) versions: String,
    /// The other details of the manifest, such as `channel`, which `pixi add` would remove.
    pub(super) others: Vec<String>,
    /// Whether `pixi add` would replace it.
    is_replaced: bool,
}

impl Pixi {
    /// Reads pixi's record in an environment such as `WORKSPACE/.pixi/envs/NAME`.
    pub(super) fn of(root: &Path) -> Option<Pixi> {
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

    fn workspace(&self) -> &Path {
        let is_file = self.manifest.extension().is_some_and(|kind| kind == "toml");
        self.manifest.parent().filter(|_| is_file).unwrap_or(&self.manifest)
    }

    /// Returns the command that adds packages to the manifest, in versions that the manifest already allows. Returns
    /// `None` for environments other than the default one, because their features may belong to several environments.
    pub(super) fn add(&self, specs: Vec<String>) -> Option<Command> {
        let dependencies = self.dependencies();
        let allowed = |spec: &str| {
            let mut replaced = dependencies.iter().filter(|one| one.is_replaced && one.package == package_name(spec));
            replaced.next().map(|one| one.versions.as_str()).filter(|versions| !["", "*"].contains(versions))
        };
        let specs = specs.into_iter().map(|spec| {
            let separator = if spec == package_name(&spec) { ' ' } else { ',' };
            match allowed(&spec) {
                Some(versions) if versions.contains('|') => format!("{spec}{separator}({versions})"),
                Some(versions) => format!("{spec}{separator}{versions}"),
                None => spec,
            }
        });
        (self.environment == "default").then(|| self.command("add").and(specs))
    }

    pub(super) fn reinstall(&self, spec: &str) -> Command {
        self.command("reinstall").and(["--environment", &self.environment, package_name(spec)])
    }

    /// Returns the manifest that pixi would refuse, with the reason as a predicate.
    pub(super) fn refused_manifest(&self) -> Option<(PathBuf, String)> {
        let mut manifests = self.manifests().into_iter();
        match manifests.next() {
            Some((file, manifest)) => manifest.err().map(|reason| (file, reason)),
            None => Some((self.manifest.clone(), "has no manifest of pixi".to_owned())),
        }
    }

    /// Returns the manifests with their tables for pixi, which reads only the first one.
    fn manifests(&self) -> Vec<(PathBuf, Result<Item, String>)> {
        let manifest = |name: &str| {
            let keys = if name == "pyproject.toml" { &["tool", "pixi"][..] } else { &[] };
            let file = self.workspace().join(name);
            let content = toml(&file, keys).transpose()?;
            Some((file, content))
        };
        MANIFESTS_OF_PIXI.into_iter().filter_map(manifest).collect()
    }

    /// Returns the packages in the manifests that pixi installs into this environment on this system.
    pub(super) fn dependencies(&self) -> Vec<Dependency> {
        let machine = if cfg!(target_arch = "aarch64") { "linux-aarch64" } else { "linux-64" };
        let platforms = if Os::HOST == Os::Windows { vec!["win", "win-64"] } else { vec!["unix", "linux", machine] };
        let mut found = Vec::new();
        for (file, manifest) in self.manifests().into_iter().take(1) {
            let Ok(manifest) = manifest else { continue };
            let environment = manifest.get("environments").and_then(|all| all.get(&self.environment));
            let features = environment.and_then(|one| one.get("features").unwrap_or(one).as_array());
            let named = features.into_iter().flatten().filter_map(|name| manifest.get("feature")?.get(name.as_str()?));
            let has_default = environment.and_then(|one| one.get("no-default-feature")?.as_bool()) != Some(true);
            let default = has_default.then_some(&manifest).map(|default| (default, true));
            for (feature, is_default) in default.into_iter().chain(named.map(|feature| (feature, false))) {
                let targets = platforms.iter().filter_map(|name| Some((feature.get("target")?.get(name)?, false)));
                for (part, is_default) in once((feature, is_default)).chain(targets) {
                    found.extend(dependencies_in(part, is_default, &file));
                }
            }
        }
        found
    }
}

/// Returns the packages in a feature, or in the part of one for a platform.
fn dependencies_in(part: &Item, is_default: bool, file: &Path) -> Vec<Dependency> {
    let mut found = Vec::new();
    for (name, table) in part.as_table_like().into_iter().flat_map(|part| part.iter()) {
        // `pypi-dependencies` and others have tables of their own.
        let is_replaced = is_default && name == "dependencies";
        let table = table.as_table_like().filter(|_| name.ends_with("dependencies") || name == "constraints");
        for (package, value) in table.into_iter().flat_map(|table| table.iter()) {
            // `"9.10.*"` or `{ version = "9.10.*", channel = "conda-forge" }`
            let versions = value.as_str().or_else(|| value.get("version")?.as_str()).unwrap_or_default().to_owned();
            let keys = value.as_table_like().into_iter().flat_map(|table| table.iter()).map(|(key, _)| key.to_owned());
            let others = keys.filter(|key| is_replaced && key != "version").collect();
            found.push(Dependency {
                file: file.to_owned(),
                package: package.to_owned(),
                versions,
                others,
                is_replaced,
            });
        }
    }
    found
}

/// Returns the directory with the manifest of the pixi environment at this root.
pub fn workspace_of_pixi(root: &Path) -> Option<PathBuf> {
    Some(Pixi::of(root)?.workspace().to_owned())
}

#[cfg(test)]
mod tests;
