//! Updates facts about framework releases from an index of files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use support::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// An index with one package, `torch`, and a file with facts about it.
struct Index(TempDir);

impl Index {
    fn new() -> Self {
        let index = Index(TempDir::new());
        let url = format!("file://{}/project/torch", index.0.path().display());
        index.write(&[
            ("newest", json!({"package": "torch", "version": "2.0", "url": url, "date": "2020-01-01"})),
            (
                "facts",
                json!({
                    "package": "torch", "since": "1.0", "cudnn": "8.9.2", "cuda": "12.1", "evidence": "metadata",
                    "url": url, "date": "2020-01-01", "note": "old",
                }),
            ),
        ]);
        index
    }

    fn write(&self, sections: &[(&str, Value)]) {
        let sections: Vec<String> =
            sections.iter().map(|(name, row)| format!("  \"{name}\": [\n    {row}\n  ]")).collect();
        std::fs::write(self.0.path().join("facts.json"), format!("{{\n{}\n}}\n", sections.join(",\n"))).unwrap();
    }

    /// Publishes releases: the file name, whether it was withdrawn, and the requirements.
    fn publish(&self, releases: &[(&str, bool, &[&str])]) {
        let dir = self.0.path().join("simple");
        std::fs::create_dir_all(&dir).unwrap();
        let mut files = Vec::new();
        for (name, yanked, requirements) in releases {
            let path = dir.join(name);
            let lines: String = requirements.iter().map(|line| format!("Requires-Dist: {line}\n")).collect();
            let metadata = format!("Metadata-Version: 2.4\nName: torch\nProvides-Extra: with-cuda\n{lines}\n");
            std::fs::write(format!("{}.metadata", path.display()), metadata).unwrap();
            let url = format!("file://{}", path.display());
            files.push(json!({"filename": name, "url": url, "yanked": yanked, "core-metadata": true}));
        }
        std::fs::write(dir.join("torch"), json!({"files": files}).to_string()).unwrap();
    }

    fn update(&self, options: &[&str]) -> Output {
        let mut python = cudnn_fetch::python(Path::new(ROOT));
        python.arg(Path::new(ROOT).join("doctor/cudnn-frameworks/data/update.py"));
        python.args(options).arg(self.0.path().join("facts.json")).output().unwrap()
    }

    fn data(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.0.path().join("facts.json")).unwrap()).unwrap()
    }
}

fn wheel(version: &str) -> String {
    format!("torch-{version}-cp312-cp312-manylinux_2_28_x86_64.whl")
}

#[test]
fn a_release_with_other_requirements_becomes_a_row() {
    let index = Index::new();
    let same: &[&str] = &[
        "nvidia-cuda-runtime-cu12 (==12.1.105) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"",
        "nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"",
    ];
    let newer: &[&str] = &[
        "cuda-toolkit[cublas,cudart]==13.2.2; platform_system == \"Linux\"",
        "nvidia-cudnn-cu13==9.26.0.51; platform_system == \"Linux\"",
        "nvidia-cudnn-cu12==9.20.0.48; platform_system == \"Windows\"",
    ];
    let by_range: &[&str] = &[
        "nvidia-cuda-runtime-cu12>=12.1.105; extra == \"with-cuda\"",
        "nvidia-cudnn-cu12<10.0,>=9.8; extra == \"with-cuda\"",
    ];
    index.publish(&[
        (&wheel("2.10"), false, by_range),
        (&wheel("2.9.post1"), false, newer),
        (&wheel("2.9"), false, newer),
        (&wheel("2.1"), false, same),
        ("torch-2.2-cp312-cp312-macosx_14_0_x86_64.whl", false, by_range),
        ("torch-2.3.tar.gz", false, &[]),
        (&wheel("2.11"), true, same),
        (&wheel("2.12rc1"), false, same),
        ("torch-2.13.exe", false, &[]),
    ]);
    let before = index.data();
    let check = index.update(&["--check"]);
    assert!(!check.status.success() && index.data() == before, "{check:?}");
    let output = index.update(&[]);
    assert!(output.status.success(), "{output:?}");
    let data = index.data();
    let rows: Vec<[&str; 3]> = data["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| ["since", "cudnn", "cuda"].map(|key| row[key].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [["1.0", "8.9.2", "12.1"], ["2.9", "9.26.0", "13.2"], ["2.10", "9.8.0", "12"]]);
    assert_eq!(data["newest"][0]["version"], "2.10");
    assert!(data["facts"][0]["note"] == "old" && data["facts"][1]["note"].is_null(), "{data}");
    assert!(data["facts"][1]["date"].as_str().unwrap() > "2026" && data["facts"][1]["evidence"] == "metadata");
    assert!(index.update(&["--check"]).status.success());
}

#[test]
fn rows_that_differ_from_the_metadata_are_named() {
    let index = Index::new();
    let right: &[&str] = &["nvidia-cuda-runtime-cu12==12.1.105", "nvidia-cudnn-cu12==8.9.2.26"];
    index.publish(&[(&wheel("1.0"), false, right), (&wheel("2.0"), false, right)]);
    assert!(index.update(&["--verify"]).status.success());
    index.publish(&[(&wheel("1.0"), false, right), (&wheel("2.0"), false, &["nvidia-cudnn-cu12~=9.0"])]);
    let output = index.update(&["--verify"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("torch 2.0: ('9.0.0', '12'), but "), "{stderr}");
}

#[test]
fn a_release_that_requires_no_cudnn_is_left_to_a_person() {
    let index = Index::new();
    index.publish(&[(
        &wheel("3.0"),
        false,
        &["numpy", "nvidia-cudnn-cu13==9.26.0.51; platform_system == \"Windows\""],
    )]);
    let before = index.data();
    let output = index.update(&[]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("torch 3.0: the metadata requires no cuDNN"), "{stdout}");
    assert_eq!(index.data(), before);
    let broken = Index::new();
    let output = broken.update(&[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("cannot read from the package index: file://"), "{stderr}");
}

#[test]
fn the_checked_in_file_has_the_format_of_the_script() {
    let text = std::fs::read_to_string(format!("{ROOT}/doctor/cudnn-frameworks/data/frameworks.json")).unwrap();
    let mut python = cudnn_fetch::python(&Path::new(ROOT).join("doctor/cudnn-frameworks/data"));
    let program = "import sys; sys.path.insert(0, '.'); import json, update; print(update.text(json.loads(open('frameworks.json').read())), end='')";
    let output = python.args(["-B", "-c", program]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
}
