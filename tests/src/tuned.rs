//! Writes rankings for the layer `tuned`.

use std::path::{Path, PathBuf};

/// A file with a ranking of an unknown graph, for cuDNN 9.0.0.
pub const RANKINGS: &str = r#"{"errata":1,"tuned":[{"cudnn":"9.0.0","device":{"name":"A GPU","compute_capability":"9.0"},
    "graph":"0000000000000000","engines":[{"engine":4000000}]}]}"#;

/// Writes rankings of an unknown graph for all releases, so that the layer follows every query on an H200 without
/// changing any. Returns the file.
pub fn tuned_for_all_releases(dir: &Path) -> PathBuf {
    let file = dir.join("tuned.json");
    let ranking = |minor: u32, patch: u32| {
        format!(
            r#"{{ "cudnn": "9.{minor}.{patch}", "device": {{ "name": "NVIDIA H200", "compute_capability": "9.0" }},
            "graph": "0000000000000000", "engines": [{{ "engine": 4000000 }}] }}"#
        )
    };
    let rankings = (0..40).flat_map(|minor| (0..4).map(move |patch| ranking(minor, patch)));
    let rankings = rankings.collect::<Vec<_>>().join(",\n");
    std::fs::write(&file, format!(r#"{{ "errata": 1, "tuned": [{rankings}] }}"#)).unwrap();
    file
}
