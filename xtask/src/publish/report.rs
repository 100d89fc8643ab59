//! Prints the packages to be published, and the decisions that a person must make first.

use std::path::Path;

use super::RENAMED;
use super::manifest::Package;

/// Prints the packages with their sizes, the open decisions, and the command that publishes.
pub(super) fn print(packages: &[Package], workspace: &Path, repository: Option<&str>) {
    println!("\nWould be published, in this order:");
    for package in packages {
        let (files, bytes) = package.size();
        println!(
            "  {:<20} {}  {files:>3} files  {:>4} KB before compression",
            package.name,
            package.version,
            bytes / 1000
        );
    }
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
    let unready: Vec<&str> =
        packages.iter().filter(|package| says_unpublished(package)).map(|p| p.name.as_str()).collect();
    if !unready.is_empty() {
        println!("- the text of the READMEs that say \"not published yet\": {}", unready.join(", "));
    }
    println!("\nThen, after `cargo login`:");
    println!("  cargo publish --workspace --allow-dirty --manifest-path {}", workspace.join("Cargo.toml").display());
}

fn says_unpublished(package: &Package) -> bool {
    let readme = package.manifest.with_file_name("README.md");
    std::fs::read_to_string(readme).is_ok_and(|text| text.contains("not published yet"))
}
