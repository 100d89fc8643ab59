//! Checks that every path in docs/ARCHITECTURE.md exists.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

#[test]
fn every_path_on_the_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md")).unwrap();
    // A path has a slash and only characters of file names.
    let is_path = |code: &&str| code.contains('/') && !code.contains([' ', '{', '(', '*', '<', ':']);
    let paths: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(paths.len() > 30, "{paths:?}");
    let missing: Vec<_> = paths.iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
