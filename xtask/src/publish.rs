//! `cargo xtask publish --dry-run`: performs all steps of a publication except the upload, in a copy of the checkout
//! with the package names for the index.

use std::path::Path;
use std::process::Command;

use crate::command::{Result, cargo, output, root, run};
use serde_json::Value as Json;

/// Packages with a different name on the index, because another project owns the first name.
const RENAMED: [(&str, &str); 1] = [("cudnn-sys", "cudnn-shim-sys")];

/// Copies the current files of the checkout `$1`, committed or not, with the commit to `$2`. cargo writes the commit
/// and the path into a package, so that the index can resolve relative links of a README. Also removes unpacked
/// sources, which cargo would reuse for a package of the same name and version.
const COPY: &str = r#"
set -euo pipefail
# A hook that runs this program sets these variables.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
rm -rf "$2" "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/cudnn-*
git clone --quiet --no-checkout --shared "$1" "$2"
cd "$1"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    # A file that was deleted without committing the deletion is still listed.
    if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
done | tar --create --null --files-from=- | tar --extract --directory="$2"
# Updates the index, which cargo reads, without touching the files.
git -C "$2" reset --quiet
"#;

/// Packages, checks and builds all publishable packages, and prints the decisions to make first.
pub(crate) fn dry_run(repository: Option<&str>) -> Result<()> {
    let root = root()?;
    let dir = root.join("target/publish");
    let (workspace, target) = (dir.join("workspace"), dir.join("target"));
    std::fs::create_dir_all(&dir)?;
    output(Command::new("bash").args(["-c", COPY, "bash"]).arg(&root).arg(&workspace))?;
    for (name, name_there) in RENAMED {
        rename(&workspace, name, name_there)?;
    }
    let packages = packages(&workspace)?;
    let mut faults = Vec::new();
    for package in &packages {
        if let Some(repository) = repository {
            let stated = format!("[package]\nrepository = {repository:?}\n");
            replace(Path::new(field(package, "manifest_path")), "[package]\n", &stated)?;
        }
        faults.extend(missing(&workspace, package)?);
    }
    if !faults.is_empty() {
        return Err(format!("the index needs more of these packages:\n  {}", faults.join("\n  ")).into());
    }
    for package in &packages {
        check_name(field(package, "name"), repository)?;
    }
    if target.exists() {
        std::fs::remove_dir_all(&target)?;
    }
    let mut publish = cargo_elsewhere(&workspace);
    // The copy has other names than the commit.
    publish.args(["publish", "--workspace", "--dry-run", "--allow-dirty", "--target-dir"]).arg(target);
    run(&mut publish)?;
    print_decisions(&packages, &workspace, repository);
    Ok(())
}

/// Renames a package in the manifest and in the workspace's dependencies, to which other packages refer.
fn rename(workspace: &Path, name: &str, new_name: &str) -> Result<()> {
    let dependency = format!("\n{name} = {{ ");
    replace(&workspace.join("Cargo.toml"), &dependency, &format!("{dependency}package = {new_name:?}, "))?;
    let library = name.replace('-', "_");
    let renamed = format!("[lib]\nname = {library:?}\n\n[package]\nname = {new_name:?}\n");
    replace(&workspace.join(name).join("Cargo.toml"), &format!("[package]\nname = {name:?}\n"), &renamed)
}

/// Replaces a text that must occur once in a file.
fn replace(path: &Path, old: &str, new: &str) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if text.matches(old).count() != 1 {
        return Err(format!("{} does not contain {old:?} exactly once", path.display()).into());
    }
    Ok(std::fs::write(path, text.replace(old, new))?)
}

fn packages(workspace: &Path) -> Result<Vec<Json>> {
    let metadata = output(cargo_elsewhere(workspace).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Json = serde_json::from_str(&metadata)?;
    let packages = metadata.get("packages").and_then(Json::as_array).ok_or("cargo metadata: no packages")?;
    // `publish = false` is an empty list of registries.
    let is_private = |package: &&Json| package.get("publish").and_then(Json::as_array).is_some_and(Vec::is_empty);
    Ok(packages.iter().filter(|package| !is_private(package)).cloned().collect())
}

fn field<'a>(package: &'a Json, name: &str) -> &'a str {
    package.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// Returns missing data that the index requires or users expect.
fn missing(workspace: &Path, package: &Json) -> Result<Vec<String>> {
    let name = field(package, "name");
    let mut faults = Vec::new();
    for required in ["description", "license", "readme", "documentation", "rust_version"] {
        if field(package, required).is_empty() {
            faults.push(format!("{name}: no {} in Cargo.toml", required.replace('_', "-")));
        }
    }
    for list in ["keywords", "categories"] {
        let count = package.get(list).and_then(Json::as_array).map_or(0, Vec::len);
        if !(1..=5).contains(&count) {
            faults.push(format!("{name}: {count} {list} in Cargo.toml; from 1 to 5 are allowed"));
        }
    }
    let files = output(cargo_elsewhere(workspace).args(["package", "--list", "--allow-dirty", "--package", name]))?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
        if !files.lines().any(|line| line == file) {
            faults.push(format!("{name}: the package does not contain {file}"));
        }
    }
    Ok(faults)
}

/// Fails if another project owns the name on the index.
fn check_name(name: &str, repository: Option<&str>) -> Result<()> {
    // Inside the workspace, cargo would describe the local package.
    let mut info = cargo_elsewhere(&std::env::temp_dir());
    let answer = info.args(["info", "--registry", "crates-io", name]).output();
    let answer = answer.map_err(|error| format!("cannot start {info:?}: {error}"))?;
    let (text, error) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
    if !answer.status.success() {
        if error.contains("could not find") {
            return Ok(());
        }
        return Err(format!("cannot query the package index for {name}:\n{error}").into());
    }
    let stated = text.lines().find_map(|line| line.strip_prefix("repository: "));
    if repository.is_some() && stated == repository {
        return Ok(());
    }
    let owner = stated.unwrap_or("which specifies no repository");
    Err(format!(
        "{name} on the package index is another project ({owner})\n\
         help: add a free name for it to RENAMED in xtask/src/publish.rs; if that project is this one, pass its \
         address as `--repository`"
    )
    .into())
}

fn print_decisions(packages: &[Json], workspace: &Path, repository: Option<&str>) {
    println!("\nDecide before the first upload (docs/releasing.md):");
    for (name, name_there) in RENAMED {
        println!("- the name {name_there} for {name}, which is another project's on the package index");
    }
    match repository {
        Some(repository) => println!("- the repository {repository}"),
        None => {
            println!("- the repository's address, `--repository URL`: without it, relative links of READMEs are dead")
        }
    }
    let says_unpublished = |package: &&Json| {
        let readme = Path::new(field(package, "manifest_path")).with_file_name("README.md");
        std::fs::read_to_string(readme).is_ok_and(|text| text.to_lowercase().contains("not published yet"))
    };
    let unready: Vec<&str> = packages.iter().filter(says_unpublished).map(|package| field(package, "name")).collect();
    if !unready.is_empty() {
        println!("- the text of the READMEs that say \"not published yet\": {}", unready.join(", "));
    }
    println!("\nThen, after `cargo login`:");
    println!("  cargo publish --workspace --allow-dirty --manifest-path {}", workspace.join("Cargo.toml").display());
}

/// Returns cargo for a different workspace, without variables that would redirect it.
fn cargo_elsewhere(dir: &Path) -> Command {
    let mut command = cargo(dir);
    command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_MANIFEST_DIR");
    command
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_package_keeps_its_library_and_its_key_in_dependents() {
        let copy = support::TempDir::new();
        for (name, new_name) in RENAMED {
            std::fs::create_dir_all(copy.path().join(name)).unwrap();
            let files = ["Cargo.toml".to_owned(), format!("{name}/Cargo.toml")];
            for file in &files {
                std::fs::copy(root().unwrap().join(file), copy.path().join(file)).unwrap();
            }
            rename(copy.path(), name, new_name).unwrap();
            let [workspace, package] = files.map(|file| std::fs::read_to_string(copy.path().join(file)).unwrap());
            assert!(workspace.contains(&format!("\n{name} = {{ package = \"{new_name}\", path = ")), "{workspace}");
            assert!(package.starts_with("[lib]\nname = \"cudnn_sys\"\n\n[package]\nname = \"cudnn-shim-sys\"\n"));
            assert!(rename(copy.path(), name, new_name).is_err());
        }
        // All members of the workspace refer to a renamed package in this way.
        for member in packages(&root().unwrap()).unwrap() {
            let manifest = std::fs::read_to_string(field(&member, "manifest_path")).unwrap();
            assert!(!manifest.contains("cudnn-sys = { path"), "{manifest}");
        }
    }
}
