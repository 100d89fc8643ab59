//! Generates the bindings from the user's own headers, with the generator that the checked-in ones come from.

use std::path::PathBuf;

use crate::vars;

pub(crate) fn run() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    let include = include_dir()?;
    println!("cargo::rerun-if-changed={}", include.display());
    let source = cudnn_bindgen::Source {
        description: format!("the headers in {}", include.display()),
        command: "the feature buildtime-bindgen".into(),
        cudnn_include: include,
    };
    for file in cudnn_bindgen::generate(&source, &out).map_err(|error| error.to_string())? {
        let path = out.join(file.name);
        std::fs::write(&path, file.text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

fn include_dir() -> Result<PathBuf, String> {
    if let Some(folder) = vars::read(vars::INCLUDE_DIR) {
        return Ok(folder.into());
    }
    let beside = vars::read(vars::LIB_DIR).map(|folder| PathBuf::from(folder).join("../include"));
    let tried: Vec<PathBuf> =
        beside.into_iter().chain(["/usr/include".into(), "/usr/local/cuda/include".into()]).collect();
    tried.iter().find(|folder| folder.join("cudnn_graph.h").is_file()).cloned().ok_or_else(|| {
        format!("no folder has cudnn_graph.h; looked into {tried:?}. Set {} to the one that has it.", vars::INCLUDE_DIR)
    })
}
