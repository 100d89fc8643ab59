//! `cargo xtask bindings`: generates the checked-in bindings from the headers of the newest pinned release.

use std::path::{Path, PathBuf};

use cudnn_bindgen::File;
use cudnn_fetch::{Network, RELEASES, Release};

use crate::command::{Result, root};
use crate::pins;

const BINDINGS: &str = "cudnn-sys/src/generated";

pub(crate) fn write() -> Result<()> {
    let root = root()?;
    for file in generate(&root, pins::newest(RELEASES)?, None)? {
        std::fs::write(path(&root, &file.name), file.text)?;
    }
    Ok(())
}

pub(crate) fn check() -> Result<()> {
    let root = root()?;
    let files = generate(&root, pins::newest(RELEASES)?, None)?;
    let mut stale: Vec<String> = differing(&root, &files).map(|file| file.name.clone()).collect();
    for entry in std::fs::read_dir(root.join(BINDINGS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if files.iter().all(|file| file.name != name) {
            stale.push(format!("{name} (not generated any more)"));
        }
    }
    if stale.is_empty() {
        println!("the bindings are up to date");
        return Ok(());
    }
    Err(format!("not up to date: {}; run `cargo xtask bindings`", stale.join(", ")).into())
}

/// Returns generated files that differ from the checked-in ones.
pub(crate) fn differing<'a>(root: &Path, files: &'a [File]) -> impl Iterator<Item = &'a File> {
    files.iter().filter(move |file| std::fs::read_to_string(path(root, &file.name)).unwrap_or_default() != file.text)
}

pub(crate) fn path(root: &Path, name: &str) -> PathBuf {
    let dir = match name {
        cudnn_bindgen::ANNOTATIONS => "cudnn-sys/bindgen/src/generated",
        cudnn_bindgen::ATTRIBUTES => "lab/cudnn-graph/src/generated",
        cudnn_bindgen::NAMES => "tests/tests/abi",
        _ => BINDINGS,
    };
    root.join(dir).join(name)
}

/// Generates the files from the headers of a release. `unknown_since` is the release of undated names.
pub(crate) fn generate(root: &Path, release: &'static Release, unknown_since: Option<String>) -> Result<Vec<File>> {
    let wheel = cudnn_fetch::fetch(release, Network::Allowed)?;
    if std::env::var_os("LIBCLANG_PATH").is_none() {
        let libclang = cudnn_fetch::fetch(cudnn_fetch::release("libclang")?, Network::Allowed)?;
        // SAFETY: this program is single-threaded.
        unsafe { std::env::set_var("LIBCLANG_PATH", libclang.join("clang/native")) };
    }
    let source = cudnn_bindgen::Source {
        cudnn_include: release.include_dir(&wheel),
        description: format!("the headers of {} {}", release.package, release.version),
        command: "cargo xtask bindings".into(),
        unknown_since,
    };
    let scratch = root.join("target/bindgen");
    std::fs::create_dir_all(&scratch)?;
    Ok(cudnn_bindgen::generate(&source, &scratch)?)
}
