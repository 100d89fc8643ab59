//! Writes the bill of materials of a platform's binaries (CycloneDX) and all licenses, from `cargo tree` and `cargo
//! metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::command::{Result, cargo, output};

const ROOTS: [&str; 4] = ["cudnn-doctor", "cudnn-lab", "cudnn-layers-library", "cudnn-shim"];

const LICENSE_FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// Linked components besides crates: part of the target triple, name, license, and copyright holder.
const RUNTIME: [(&str, &str, &str, &str); 4] = [
    ("", "rust-std", "MIT OR Apache-2.0", "The Rust Project Contributors, https://github.com/rust-lang/rust"),
    ("musl", "musl", "MIT", "2005-2020 Rich Felker and others, https://musl.libc.org"),
    ("windows-gnu", "mingw-w64-runtime", "ZPL-2.1 AND MIT", "the mingw-w64 project, https://www.mingw-w64.org"),
    (
        "windows-gnu",
        "libgcc",
        "GPL-3.0-or-later WITH GCC-exception-3.1",
        "the Free Software Foundation, https://gcc.gnu.org; the exception permits its use in any program",
    ),
];

struct Part<'a> {
    name: &'a str,
    version: &'a str,
    license: String,
    package: &'a Value,
}

/// Writes the licenses and the bill of materials for a target.
pub(crate) fn write(root: &Path, triple: &str, licenses: &Path, bill: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", triple]);
    let metadata: Value = serde_json::from_str(&output(&mut command)?)?;
    let parts = parts(&metadata, &linked(root, triple)?)?;
    std::fs::write(licenses, license_texts(root, triple, &parts)?)?;
    Ok(std::fs::write(bill, format!("{:#}\n", cyclone_dx(triple, &parts)?))?)
}

/// Returns the names and versions of the linked crates, without procedural macros.
fn linked(root: &Path, triple: &str) -> Result<BTreeSet<(String, String)>> {
    let mut linked = BTreeSet::new();
    for package in ROOTS {
        let mut tree = cargo(root);
        tree.args(["tree", "--locked", "--package", package, "--target", triple, "--prefix", "none"]);
        let output = output(tree.args(["--edges", "normal,no-proc-macro", "--format", "{p}"]))?;
        // `name v1.2.3 (/path)`.
        linked.extend(output.lines().filter_map(|line| {
            let (name, rest) = line.split_once(" v")?;
            Some((name.to_owned(), rest.split_whitespace().next()?.to_owned()))
        }));
    }
    Ok(linked)
}

fn parts<'a>(metadata: &'a Value, linked: &BTreeSet<(String, String)>) -> Result<Vec<Part<'a>>> {
    let packages = metadata.get("packages").and_then(Value::as_array).ok_or("cargo metadata: no packages")?;
    let mut parts = Vec::new();
    for package in packages {
        let field = |key: &str| package.get(key).and_then(Value::as_str);
        let name = field("name").ok_or("cargo metadata: a package without a name")?;
        let version = field("version").ok_or_else(|| format!("{name} has no version"))?;
        if linked.contains(&(name.to_owned(), version.to_owned())) {
            // Slashes are older than SPDX.
            let license = field("license").ok_or_else(|| format!("{name} specifies no license"))?.replace('/', " OR ");
            let license = license.split_whitespace().collect::<Vec<_>>().join(" ");
            parts.push(Part { name, version, license, package });
        }
    }
    if parts.len() != linked.len() {
        return Err(format!("cargo tree names {} crates, cargo metadata {} of them", linked.len(), parts.len()).into());
    }
    parts.sort_by_key(|part| (part.name, part.version));
    Ok(parts)
}

fn runtime(triple: &str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let components = RUNTIME.into_iter().filter(move |(part, ..)| triple.contains(part));
    components.map(|(_, name, license, owner)| (name, license, owner))
}

fn cyclone_dx(triple: &str, parts: &[Part<'_>]) -> Result<Value> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let rustc = output(rustc.arg("--version"))?;
    let crate_component = |part: &Part<'_>| {
        let url = format!("pkg:cargo/{}@{}", part.name, part.version);
        json!({
            "type": "library", "bom-ref": url, "name": part.name, "version": part.version,
            "licenses": [{ "expression": part.license }], "purl": url,
        })
    };
    let runtime_component = |(name, license, owner): (&str, &str, &str)| {
        let mut component = json!({
            "type": "library", "bom-ref": name, "name": name, "description": owner,
            "licenses": [{ "expression": license }],
        });
        if let (Some(component), "rust-std") = (component.as_object_mut(), name) {
            component.insert("version".to_owned(), json!(rustc.split_whitespace().nth(1)));
        }
        component
    };
    let components: Vec<Value> =
        parts.iter().map(crate_component).chain(runtime(triple).map(runtime_component)).collect();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "component": {
                "type": "application", "name": "cudnn-shim", "version": env!("CARGO_PKG_VERSION"),
                "description": format!("for {triple}"),
                "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
            },
        },
        "components": components,
    }))
}

/// Returns the license texts of all components without duplicates.
fn license_texts(root: &Path, triple: &str, parts: &[Part<'_>]) -> Result<String> {
    let mut result = format!("cudnn-shim {} for {triple} contains:\n\n", env!("CARGO_PKG_VERSION"));
    let mut texts = BTreeMap::<String, Vec<&str>>::new();
    for part in parts {
        let field = |key: &str| part.package.get(key).and_then(Value::as_str).unwrap_or_default();
        writeln!(result, "{} {}: {} {}", part.name, part.version, part.license, field("repository"))?;
        let dir = Path::new(field("manifest_path")).parent().ok_or("cargo metadata: a package without a directory")?;
        let is_license = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            LICENSE_FILES.iter().any(|start| name.starts_with(start)) && file.is_file()
        };
        let files = std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
        let files: BTreeSet<PathBuf> = files.collect::<std::io::Result<_>>()?;
        for file in files.into_iter().filter(is_license) {
            let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            texts.entry(text.replace("\r\n", "\n").trim_end().to_owned()).or_default().push(part.name);
        }
    }
    for (name, license, owner) in runtime(triple) {
        writeln!(result, "{name}: {license}, {owner}")?;
    }
    // Crates without a license file name these licenses.
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = std::fs::read_to_string(root.join(file))?.trim_end().to_owned();
        texts.entry(text).or_default().extend(["rust-std", "and components without a license file"]);
    }
    let mut texts: Vec<(String, Vec<&str>)> = texts.into_iter().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (text, names) in texts {
        writeln!(result, "\n{}\n{}\n\n{text}", "-".repeat(80), names.join(", "))?;
    }
    Ok(result)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::command::root;

    /// The wheel's license expression contains one of the licenses that each crate offers, and no other.
    #[test]
    fn the_licenses_of_the_wheel_are_those_of_its_crates() {
        let root = root().unwrap();
        let project = std::fs::read_to_string(root.join("pyproject.toml")).unwrap();
        let project: toml_edit::DocumentMut = project.parse().unwrap();
        let stated = project["project"]["license"].as_str().unwrap();
        let stated: BTreeSet<&str> =
            stated.split([' ', '(', ')']).filter(|word| !["", "AND", "OR"].contains(word)).collect();
        let mut used = BTreeSet::new();
        for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-gnu"] {
            let dir = tempfile::tempdir().unwrap();
            let (texts, bill) = (dir.path().join("texts"), dir.path().join("bill"));
            write(&root, triple, &texts, &bill).unwrap();
            assert!(std::fs::read_to_string(texts).unwrap().contains("Permission is hereby granted"));
            let bill: Value = serde_json::from_slice(&std::fs::read(bill).unwrap()).unwrap();
            let crates =
                bill["components"].as_array().unwrap().iter().filter(|component| component["purl"].is_string());
            for component in crates {
                let license = component["licenses"][0]["expression"].as_str().unwrap();
                for part in license.split(" AND ") {
                    let mut offered = part.split(" OR ").map(|offered| offered.trim_matches(['(', ')']));
                    let one = offered.find_map(|offered| stated.get(offered)).unwrap_or_else(|| panic!("{component}"));
                    used.insert(*one);
                }
            }
        }
        assert_eq!(used, stated);
    }
}
