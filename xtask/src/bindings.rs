//! `cargo xtask bindings`: the checked-in bindings, made from the newest pinned release's headers.

use std::path::PathBuf;

use crate::{Result, root};

/// The release whose headers the checked-in bindings are made from.
const NEWEST: &str = "cu12-9.28.0";

pub(crate) fn write() -> Result<()> {
    for file in generate()? {
        std::fs::write(path(&file.name), file.text)?;
    }
    Ok(())
}

pub(crate) fn check() -> Result<()> {
    let mut stale = Vec::new();
    let files = generate()?;
    for file in &files {
        if std::fs::read_to_string(path(&file.name)).unwrap_or_default() != file.text {
            stale.push(file.name.clone());
        }
    }
    for entry in std::fs::read_dir(root().join(BINDINGS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if files.iter().all(|file| file.name != name) {
            stale.push(format!("{name}, which nothing generates"));
        }
    }
    if stale.is_empty() {
        println!("the bindings are fresh");
        return Ok(());
    }
    Err(format!("stale: {}; run `cargo xtask bindings`", stale.join(", ")).into())
}

/// Where the generated files are, below the root.
const BINDINGS: &str = "cudnn-sys/src/generated";
const ANNOTATIONS: &str = "cudnn-bindgen/src/generated";

fn path(name: &str) -> PathBuf {
    root().join(if name == cudnn_bindgen::ANNOTATIONS { ANNOTATIONS } else { BINDINGS }).join(name)
}

fn generate() -> Result<Vec<cudnn_bindgen::File>> {
    let network = cudnn_fetch::Network::Allowed;
    let release = cudnn_fetch::release(NEWEST)?;
    let wheel = cudnn_fetch::fetch(release, network)?;
    if std::env::var_os("LIBCLANG_PATH").is_none() {
        let libclang = cudnn_fetch::fetch(cudnn_fetch::release("libclang")?, network)?;
        // SAFETY: this program has one thread.
        unsafe { std::env::set_var("LIBCLANG_PATH", libclang.join("clang/native")) };
    }
    let source = cudnn_bindgen::Source {
        cudnn_include: release.include_dir(&wheel),
        description: format!("the headers of {} {}", release.package, release.version),
        command: "cargo xtask bindings".into(),
        unknown_since: None,
    };
    let scratch = root().join("target/bindgen");
    std::fs::create_dir_all(&scratch)?;
    Ok(cudnn_bindgen::generate(&source, &scratch)?)
}
