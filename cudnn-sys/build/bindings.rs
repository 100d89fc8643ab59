//! Generates bindings from the user's headers with the generator that also creates the checked-in bindings. Headers of
//! older releases are refused, because a feature must not remove functions that other crates of the build use.

use std::path::PathBuf;

use crate::vars;

/// Returns the release of the headers, if `cudnn_version.h` contains one.
pub(crate) fn run() -> Result<Option<String>, String> {
    let out =
        PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this build script through cargo")?);
    for variable in vars::LIBCLANG {
        vars::read(variable);
    }
    let include = include_dir()?;
    let headers = std::fs::read_dir(&include).map_err(|error| format!("cannot read {include:?}: {error}"))?;
    for header in headers.flatten().filter(|header| header.file_name().to_string_lossy().starts_with("cudnn")) {
        // Watch single headers, because cargo would watch all files in a directory such as /usr/include.
        println!("cargo::rerun-if-changed={}", header.path().display());
    }
    println!("cargo::metadata=include={}", include.display());
    let version = cudnn_bindgen::version(&include);
    if let Some(older) = version.as_deref().filter(|version| numbers(version) < numbers(crate::BINDINGS_VERSION)) {
        return Err(format!(
            "the headers in {include:?} are of cuDNN {older}, and the bindings of cudnn-sys contain all names up to {}\n\
             help: disable the feature buildtime-bindgen, because older headers would remove functions from all crates of \
             the build",
            crate::BINDINGS_VERSION
        ));
    }
    let source = cudnn_bindgen::Source {
        description: format!("the headers in {}", include.display()),
        command: "the feature buildtime-bindgen".into(),
        // Unknown names are newer than the checked-in bindings, so date them to the release of these headers.
        unknown_since: version.clone(),
        cudnn_include: include,
    };
    for file in cudnn_bindgen::generate(&source, &out)? {
        let path = out.join(file.name);
        std::fs::write(&path, file.text).map_err(|error| format!("cannot write {path:?}: {error}"))?;
    }
    Ok(version)
}

fn numbers(version: &str) -> Vec<Option<u32>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}

fn include_dir() -> Result<PathBuf, String> {
    if let Some(dir) = vars::read(vars::INCLUDE_DIR) {
        return Ok(dir.into());
    }
    let lib_dir = vars::read(vars::LIB_DIR).map(PathBuf::from);
    let searched = vars::include_dirs(lib_dir.as_deref());
    searched.iter().find(|dir| dir.join("cudnn_graph.h").is_file()).cloned().ok_or_else(|| {
        let mut message = format!(
            "cudnn-sys found no cudnn_graph.h to generate bindings from (feature buildtime-bindgen)\n\
             help: set {} to the directory that contains it\nsearched:",
            vars::INCLUDE_DIR
        );
        for dir in &searched {
            message.push_str(&format!("\n  {dir:?}"));
        }
        message
    })
}
