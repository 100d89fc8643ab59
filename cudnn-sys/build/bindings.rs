//! Generates the bindings from the user's own headers, with the generator that the checked-in ones come from.

use std::path::PathBuf;

use crate::vars;

/// Gives the release that the headers are of, where they say.
pub(crate) fn run() -> Result<Option<String>, String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    for variable in vars::OF_LIBCLANG {
        vars::read(variable);
    }
    let include = include_dir()?;
    let headers = std::fs::read_dir(&include).map_err(|error| format!("cannot read {}: {error}", include.display()))?;
    for header in headers.flatten().filter(|header| header.file_name().to_string_lossy().starts_with("cudnn")) {
        // Not the folder: that would be watched with everything below it, and may be /usr/include.
        println!("cargo::rerun-if-changed={}", header.path().display());
    }
    println!("cargo::metadata=include={}", include.display());
    let version = cudnn_bindgen::version(&include);
    let source = cudnn_bindgen::Source {
        description: format!("the headers in {}", include.display()),
        command: "the feature buildtime-bindgen".into(),
        cudnn_include: include,
    };
    for file in cudnn_bindgen::generate(&source, &out).map_err(|error| error.to_string())? {
        let path = out.join(file.name);
        std::fs::write(&path, file.text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(version)
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
