//! `cargo xtask bindings`: the checked-in bindings, made from the newest pinned release's headers.

use std::path::PathBuf;

use crate::{Result, root};

/// The release whose headers the checked-in bindings are made from.
const NEWEST: &str = "cu12-9.28.0";

pub(crate) fn write() -> Result<()> {
    for file in generate()? {
        std::fs::write(folder().join(file.name), file.text)?;
    }
    Ok(())
}

pub(crate) fn check() -> Result<()> {
    let mut stale = Vec::new();
    for file in generate()? {
        if std::fs::read_to_string(folder().join(&file.name)).unwrap_or_default() != file.text {
            stale.push(file.name);
        }
    }
    if stale.is_empty() {
        println!("the bindings are fresh");
        return Ok(());
    }
    Err(format!("stale: {}; run `cargo xtask bindings`", stale.join(", ")).into())
}

fn folder() -> PathBuf {
    root().join("cudnn-sys/src/generated")
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
    };
    let scratch = root().join("target/bindgen");
    std::fs::create_dir_all(&scratch)?;
    Ok(cudnn_bindgen::generate(&source, &scratch)?)
}
