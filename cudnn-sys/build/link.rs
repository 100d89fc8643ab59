//! Finds the libraries that the features name, and has them linked: these and no others.

use std::path::{Path, PathBuf};

use cudnn_probe::{Architecture, Candidate, Host, Library, ProbeError, Search, VARIABLES, Version, identify_for};

use crate::vars;

/// Each feature, as cargo tells of it, with what it links.
const FEATURES: [(&str, Library); 6] = [
    ("CARGO_FEATURE_LINK_CUDNN", Library::Shim),
    ("CARGO_FEATURE_LINK_GRAPH", Library::Graph),
    ("CARGO_FEATURE_LINK_OPS", Library::Ops),
    ("CARGO_FEATURE_LINK_CNN", Library::Cnn),
    ("CARGO_FEATURE_LINK_ADV", Library::Adv),
    ("CARGO_FEATURE_LINK_EXT", Library::Ext),
];

pub(crate) fn run() -> Result<(), String> {
    let wanted: Vec<Library> = FEATURES
        .into_iter()
        .filter(|(variable, _)| std::env::var_os(variable).is_some())
        .map(|(_, library)| library)
        .collect();
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os != "linux" {
        return Err(format!("cudnn-sys links cuDNN on Linux only, not on {os}; cudnn-loader loads it at run time"));
    }
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let architecture = Architecture::from_rust(&arch).ok_or_else(|| format!("cuDNN does not come for {arch}"))?;
    let folder = find(&wanted, architecture)?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    for library in &wanted {
        // By its whole name: wheels have no link without the version at its end.
        println!("cargo::rustc-link-lib=dylib:+verbatim={library}");
        println!("cargo::rerun-if-changed={}", folder.join(library.file_name()).display());
    }
    println!("cargo::metadata=lib_dir={}", folder.display());
    if let Some(version) = version(&folder, architecture) {
        println!("cargo::metadata=lib_version={version}");
    }
    // buildtime-bindgen says itself which headers it took.
    #[cfg(not(feature = "buildtime-bindgen"))]
    for include in [folder.join("../include"), "/usr/include".into()] {
        if include.join("cudnn_graph.h").is_file() {
            println!("cargo::metadata=include={}", include.display());
            break;
        }
    }
    Ok(())
}

/// The first folder that has them all.
fn find(wanted: &[Library], architecture: Architecture) -> Result<PathBuf, String> {
    for variable in VARIABLES.into_iter().chain([vars::LIB_DIR]) {
        vars::read(variable);
    }
    let search = Search::new(Host::current().without_executable()).variable(vars::LIB_DIR);
    let mut story = String::new();
    for Candidate { dir: folder, origin } in search.candidates() {
        match wanted.iter().try_for_each(|library| check(&folder, *library, architecture)) {
            Ok(()) => return Ok(folder),
            Err((library, refusal)) => {
                story.push_str(&format!("\n  {:?} ({origin}): {library} {refusal}", folder));
            }
        }
    }
    let names: Vec<&str> = wanted.iter().map(|library| library.file_name()).collect();
    Err(format!(
        "no folder has {} to link with. Looked at, in this order:{story}\nInstall cuDNN (`pip install \
         nvidia-cudnn-cu12`), or set {} to the folder that has it; or use cudnn-loader, which links nothing.",
        names.join(" and "),
        vars::LIB_DIR
    ))
}

fn check(folder: &Path, library: Library, architecture: Architecture) -> Result<(), (Library, ProbeError)> {
    if !folder.is_absolute() {
        return Err((library, ProbeError::NotAbsolute));
    }
    let file = folder.join(library.file_name());
    identify_for(&file, library, architecture).map(drop).map_err(|refusal| (library, refusal))
}

fn version(folder: &Path, architecture: Architecture) -> Option<Version> {
    [Library::Graph, Library::Ops, Library::Adv]
        .into_iter()
        .find_map(|library| identify_for(&folder.join(library.file_name()), library, architecture).ok()?.version)
}
