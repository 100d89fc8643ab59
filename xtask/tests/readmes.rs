//! Checks that the README of each publishable crate explains how to depend on it by path or git, because others may own
//! its name on the package index, and that it lists the examples.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

fn published(root: &Path) -> Vec<String> {
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, members) = workspace.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let dirs = members.split('"').skip(1).step_by(2).map(str::to_owned);
    let is_published = |dir: &String| {
        let manifest = std::fs::read_to_string(root.join(dir).join("Cargo.toml")).unwrap();
        !manifest.contains("publish = false")
    };
    dirs.filter(is_published).collect()
}

#[test]
fn every_readme_says_how_to_depend_on_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let published = published(root);
    assert!(published.len() >= 11, "{published:?}");
    for dir in published {
        // Paragraphs are wrapped anywhere.
        let text = std::fs::read_to_string(root.join(&dir).join("README.md")).unwrap().replace('\n', " ");
        let manifest = std::fs::read_to_string(root.join(&dir).join("Cargo.toml")).unwrap();
        let name = manifest.split('"').nth(1).unwrap();
        // Readers might type the usual command.
        let reason = if name == "cudnn-sys" { "by another author" } else { "is an unrelated, abandoned project" };
        assert!(text.contains(reason), "{name}: {reason}");
        let is_warned = |after: &str| after.split('.').take(3).any(|text| text.contains("abandoned crate"));
        assert!(text.split("cargo add").skip(1).all(is_warned), "{name} advises `cargo add`");
        if ["cudnn-doctor", "cudnn-lab"].contains(&name) {
            let install = format!("cargo install --locked --profile source --path cudnn-shim/{dir}");
            assert!(text.contains(&install) && text.contains("--git URL"), "{text}");
            continue;
        }
        assert!(text.contains(&format!("{name} = {{ path = \"../cudnn-shim/{dir}\"")), "{name}: no path");
        assert!(text.contains("or `git = \"URL\"`"), "{name}: no git");
    }
}

#[test]
fn every_readme_lists_the_examples_of_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut count = 0;
    for dir in published(root) {
        let text = std::fs::read_to_string(root.join(&dir).join("README.md")).unwrap();
        let Ok(examples) = std::fs::read_dir(root.join(&dir).join("examples")) else { continue };
        for example in examples {
            let path = example.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_named = text.contains(&format!("examples/{name}"));
            let has_command = text.contains(&format!("--example {}", name.trim_end_matches(".rs")));
            assert!(is_named || has_command, "{dir}/README.md: {name}");
            count += 1;
        }
    }
    assert!(count > 0, "there are no examples");
}
