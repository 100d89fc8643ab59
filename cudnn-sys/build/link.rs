//! Finds the libraries of the enabled `link-*` features and links exactly these.

use std::path::{Path, PathBuf};

use cudnn_probe::{
    Architecture, Candidate, DIR_VARIABLE, Host, Library, ProbeError, Search, VARIABLES, Version, identify_for,
};

use crate::vars;

/// The variable that cargo sets for each feature, and the library that the feature links.
const FEATURES: [(&str, Library); 6] = [
    ("CARGO_FEATURE_LINK_CUDNN", Library::Shim),
    ("CARGO_FEATURE_LINK_GRAPH", Library::Graph),
    ("CARGO_FEATURE_LINK_OPS", Library::Ops),
    ("CARGO_FEATURE_LINK_CNN", Library::Cnn),
    ("CARGO_FEATURE_LINK_ADV", Library::Adv),
    ("CARGO_FEATURE_LINK_EXT", Library::Ext),
];

pub(crate) fn run() -> Result<(), String> {
    let libraries: Vec<Library> = FEATURES
        .into_iter()
        .filter(|(variable, _)| std::env::var_os(variable).is_some())
        .map(|(_, library)| library)
        .collect();
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os != "linux" {
        return Err(format!(
            "cudnn-sys can link cuDNN on Linux only, and the target is {os}\n\
             help: disable its link-* features; the bindings compile without them"
        ));
    }
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let architecture = Architecture::from_rust(&arch)
        .ok_or_else(|| format!("there is no cuDNN for {arch}; disable the link-* features of cudnn-sys"))?;
    let dir = find(&libraries, architecture)?;
    println!("cargo::rustc-link-search=native={}", dir.display());
    for library in &libraries {
        // By the full file name, because wheels have no `libcudnn_graph.so` symlink.
        println!("cargo::rustc-link-lib=dylib:+verbatim={library}");
        println!("cargo::rerun-if-changed={}", dir.join(library.file_name()).display());
    }
    println!("cargo::metadata=lib_dir={}", dir.display());
    if let Some(version) = version(&dir, architecture) {
        println!("cargo::metadata=lib_version={version}");
    }
    // With buildtime-bindgen, bindings.rs reports the headers that it used.
    #[cfg(not(feature = "buildtime-bindgen"))]
    for include in [dir.join("../include"), "/usr/include".into()] {
        if include.join("cudnn_graph.h").is_file() {
            println!("cargo::metadata=include={}", include.display());
            break;
        }
    }
    Ok(())
}

/// Returns the first directory that has all of the libraries.
fn find(libraries: &[Library], architecture: Architecture) -> Result<PathBuf, String> {
    for variable in VARIABLES.iter().copied().filter(|name| *name != DIR_VARIABLE).chain([vars::LIB_DIR]) {
        vars::read(variable);
    }
    let search = Search::new(Host::current().without_executable()).variable(vars::LIB_DIR);
    let mut searched = String::new();
    for Candidate { dir, origin, .. } in search.candidates() {
        match libraries.iter().try_for_each(|library| check(&dir, *library, architecture)) {
            // cargo reads one instruction a line, and the linker's arguments are text.
            Ok(()) if dir.to_str().is_none_or(|dir| dir.contains('\n')) => {
                searched.push_str(&format!(
                    "\n  {dir:?} ({origin}): a name with a newline, or that is not UTF-8, cannot be linked"
                ));
            }
            Ok(()) => return Ok(dir),
            Err((library, error)) => searched.push_str(&format!("\n  {dir:?} ({origin}): {library} {error}")),
        }
    }
    let names: Vec<&str> = libraries.iter().map(|library| library.file_name()).collect();
    Err(format!(
        "cudnn-sys found no directory with {} to link\n\
         help: install cuDNN (`pip install 'nvidia-cudnn-cu12>=9'`), or set {} to the directory that has it; or use \
         cudnn-loader, which links nothing\nsearched:{searched}",
        names.join(" and "),
        vars::LIB_DIR
    ))
}

fn check(dir: &Path, library: Library, architecture: Architecture) -> Result<(), (Library, ProbeError)> {
    if !dir.is_absolute() {
        return Err((library, ProbeError::NotAbsolute));
    }
    let file = dir.join(library.file_name());
    identify_for(&file, library, architecture).map(drop).map_err(|error| (library, error))
}

fn version(dir: &Path, architecture: Architecture) -> Option<Version> {
    [Library::Graph, Library::Ops, Library::Adv]
        .into_iter()
        .find_map(|library| identify_for(&dir.join(library.file_name()), library, architecture).ok()?.version)
}
