//! Edits the manifests of the copy: new names, the repository's address, and the index's requirements.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use toml_edit::{DocumentMut, Item, TableLike, value};

use super::{cargo, output};
use crate::error::Result;

/// The maximum package size on the package index. Our packages are smaller even before compression.
const MAX_SIZE: u64 = 10 * 1024 * 1024;

/// A package to be published.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) manifest: PathBuf,
    json: Json,
    /// The paths of the package's files.
    files: Vec<String>,
}

impl Package {
    /// Returns missing data that the index requires, or that users would miss.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for field in ["description", "license", "readme", "documentation", "rust_version"] {
            if self.json.get(field).and_then(Json::as_str).is_none_or(str::is_empty) {
                faults.push(format!("{}: no {} in Cargo.toml", self.name, field.replace('_', "-")));
            }
        }
        for field in ["keywords", "categories"] {
            let count = self.json.get(field).and_then(Json::as_array).map_or(0, Vec::len);
            if !(1..=5).contains(&count) {
                faults.push(format!("{}: {count} {field} in Cargo.toml; from 1 to 5 are allowed", self.name));
            }
        }
        let (_, size) = self.size();
        if size > MAX_SIZE {
            faults.push(format!("{}: {size} bytes, more than {MAX_SIZE}: exclude files", self.name));
        }
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            if !self.files.iter().any(|name| name == file) {
                faults.push(format!("{}: the package does not contain {file}", self.name));
            }
        }
        faults
    }

    /// Returns the number of files in the package, and their total size in bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        let dir = self.manifest.parent().unwrap_or(Path::new(""));
        // cargo generates some of the files, which are counted as empty here.
        let sizes = self.files.iter().filter_map(|file| std::fs::metadata(dir.join(file)).ok());
        (self.files.len(), sizes.map(|metadata| metadata.len()).sum())
    }

    /// Returns whether this package's published manifest depends on the other package.
    fn depends_on(&self, other: &Package) -> bool {
        let dependencies = self.json.get("dependencies").and_then(Json::as_array);
        dependencies.into_iter().flatten().any(|dependency| {
            let text = |field: &str| dependency.get(field).and_then(Json::as_str);
            // A dependency without a version is a path dependency of the tests, which cargo omits.
            text("name") == Some(&other.name) && text("req") != Some("*")
        })
    }
}

/// Returns the publishable packages of a workspace, with dependencies before their dependents.
pub(super) fn packages(workspace: &Path) -> Result<Vec<Package>> {
    let metadata = output(cargo().current_dir(workspace).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Json = serde_json::from_str(&metadata)?;
    let mut packages = Vec::new();
    for json in metadata.get("packages").and_then(Json::as_array).into_iter().flatten() {
        // `publish = false` is an empty list of registries.
        if json.get("publish").and_then(Json::as_array).is_some_and(Vec::is_empty) {
            continue;
        }
        let text = |field: &str| json.get(field).and_then(Json::as_str).unwrap_or_default().to_owned();
        let name = text("name");
        let list = ["package", "--list", "--allow-dirty", "--package"];
        let files = output(cargo().current_dir(workspace).args(list).arg(&name))?;
        packages.push(Package {
            version: text("version"),
            manifest: text("manifest_path").into(),
            files: files.lines().map(str::to_owned).collect(),
            json: json.clone(),
            name,
        });
    }
    let mut ordered: Vec<Package> = Vec::new();
    while !packages.is_empty() {
        let is_ready = |package: &Package| !packages.iter().any(|other| package.depends_on(other));
        let ready = packages.iter().position(is_ready).ok_or("the packages depend on each other in a cycle")?;
        ordered.push(packages.remove(ready));
    }
    Ok(ordered)
}

/// Renames a package, and updates its dependents in the workspace. The library's name and the dependency keys stay the
/// same.
pub(super) fn rename(workspace: &Path, name: &str, new_name: &str) -> Result<()> {
    let metadata = output(cargo().current_dir(workspace).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Json = serde_json::from_str(&metadata)?;
    let members = metadata.get("packages").and_then(Json::as_array).into_iter().flatten();
    let mut manifests: Vec<PathBuf> =
        members.filter_map(|package| package.get("manifest_path").and_then(Json::as_str)).map(PathBuf::from).collect();
    manifests.push(workspace.join("Cargo.toml"));
    manifests.dedup();
    let mut is_renamed = false;
    for path in manifests {
        edit(&path, |document| is_renamed |= rename_in(document, name, new_name))?;
    }
    if is_renamed { Ok(()) } else { Err(format!("no package of the workspace is named {name}").into()) }
}

/// Renames a package in one manifest. Returns whether the manifest belongs to that package.
fn rename_in(document: &mut DocumentMut, name: &str, new_name: &str) -> bool {
    for_each_dependency(document.as_table_mut(), &mut |key, dependency| {
        let package = dependency.get("package").and_then(Item::as_str).unwrap_or(key);
        // An inherited dependency refers to the workspace's entry.
        if package == name && dependency.get("workspace").is_none() {
            dependency.insert("package", value(new_name));
        }
    });
    let is_this = document.get("package").and_then(|package| package.get("name")?.as_str()) == Some(name);
    if is_this {
        set_in_package(document, "name", new_name);
        let library = document.entry("lib").or_insert_with(toml_edit::table);
        if let Some(library) = library.as_table_like_mut() {
            library.entry("name").or_insert_with(|| value(name.replace('-', "_")));
        }
    }
    is_this
}

/// Visits all dependencies that are tables, in all sections of a manifest, including workspace and target sections.
fn for_each_dependency(table: &mut dyn TableLike, visit: &mut dyn FnMut(&str, &mut dyn TableLike)) {
    for (key, item) in table.iter_mut() {
        let key = key.get().to_owned();
        let Some(inner) = item.as_table_like_mut() else { continue };
        match key.as_str() {
            "dependencies" | "dev-dependencies" | "build-dependencies" => {
                for (name, dependency) in inner.iter_mut() {
                    if let Some(dependency) = dependency.as_table_like_mut() {
                        visit(name.get(), dependency);
                    }
                }
            }
            "workspace" | "target" => for_each_dependency(inner, visit),
            key if key.starts_with("cfg(") => for_each_dependency(inner, visit),
            _ => {}
        }
    }
}

/// Writes the repository's address into every package.
pub(super) fn set_repository(packages: &[Package], repository: &str) -> Result<()> {
    for package in packages {
        edit(&package.manifest, |document| set_in_package(document, "repository", repository))?;
    }
    Ok(())
}

fn set_in_package(document: &mut DocumentMut, key: &str, text: &str) {
    if let Some(package) = document.get_mut("package").and_then(Item::as_table_like_mut) {
        package.insert(key, value(text));
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut DocumentMut)) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    change(&mut document);
    std::fs::write(path, document.to_string()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn renamed(manifest: &str) -> (bool, String) {
        let mut document: DocumentMut = manifest.parse().unwrap();
        let is_this = rename_in(&mut document, "a-sys", "b-sys");
        (is_this, document.to_string())
    }

    #[test]
    fn a_renamed_package_keeps_the_name_of_its_library() {
        let (is_this, text) = renamed("[package]\nname = \"a-sys\"\n");
        assert!(is_this);
        assert_eq!(text, "[package]\nname = \"b-sys\"\n\n[lib]\nname = \"a_sys\"\n");
    }

    #[test]
    fn dependents_require_the_new_name_under_the_old_key() {
        let (is_this, text) = renamed(
            "[package]\nname = \"c\"\n[workspace.dependencies]\na-sys = { path = \"a\" }\n[dependencies]\nother = \"1\"\n\
             x = { package = \"a-sys\", path = \"a\" }\n[target.'cfg(unix)'.build-dependencies]\n\
             a-sys = { path = \"a\" }\n[dev-dependencies]\na-sys.workspace = true\n",
        );
        assert!(!is_this);
        assert_eq!(text.matches("b-sys").count(), 3, "{text}");
        assert!(text.contains("a-sys.workspace = true\n") && text.contains("x = { package = \"b-sys\""), "{text}");
    }
}
