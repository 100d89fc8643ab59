//! Each crate's README says how to depend on it: by path or by git, because the names on the package index are free, or
//! somebody else's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[test]
fn each_readme_says_how_to_depend_on_the_crate() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = |of: &str| std::fs::read_to_string(root.join(of).join("README.md")).unwrap();
    let names = [
        "cudnn-sys",
        "cudnn-probe",
        "cudnn-loader",
        "cudnn-layer-api",
        "cudnn-layers",
        "cudnn-plan-store",
        "cudnn-fetch",
        "cudnn-bindgen",
    ];
    for name in names {
        let text = readme(name);
        let manifest = std::fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(text.contains(&format!("{name} = {{ path = \"../cudnn-shim/{name}\"")), "{name}: no path");
        assert!(text.contains("or `git = \"URL\"`"), "{name}: no git");
        // Somebody who types the usual command must read what it would do.
        let reason = if name == "cudnn-sys" { "by another author" } else { "is not on the package index yet" };
        assert!(text.contains(reason), "{name}: {reason}");
        let is_warned = |line: &str| !line.contains("cargo add") || line.contains("abandoned crate");
        assert!(text.lines().all(is_warned), "{name} advises `cargo add`");
    }
    let doctor = readme("cudnn-doctor");
    assert!(
        doctor.contains("cargo install --path cudnn-shim/cudnn-doctor") && doctor.contains("--git URL"),
        "{doctor}"
    );
}
