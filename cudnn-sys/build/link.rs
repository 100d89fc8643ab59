//! Links the libraries of the enabled `link-*` features.
//!
//! On Linux, this finds the libraries and passes them to the linker. On Windows, the declarations name the DLLs
//! (`raw-dylib`) and no files are needed; if a directory with the DLLs is found, it is passed on to dependents.

use std::path::{Path, PathBuf};

use cudnn_probe::{
    Architecture, Candidate, DIR_VARIABLE, Host, Identity, Library, Origin, Os, ProbeError, Search, VARIABLES, Version,
    identify_any, identify_for,
};

use crate::vars;

/// The variables that cargo sets for features, with the library that each feature links.
const FEATURES: [(&str, Library); 6] = [
    ("CARGO_FEATURE_LINK_CUDNN", Library::Shim),
    ("CARGO_FEATURE_LINK_GRAPH", Library::Graph),
    ("CARGO_FEATURE_LINK_OPS", Library::Ops),
    ("CARGO_FEATURE_LINK_CNN", Library::Cnn),
    ("CARGO_FEATURE_LINK_ADV", Library::Adv),
    ("CARGO_FEATURE_LINK_EXT", Library::Ext),
];

/// The target platform.
#[derive(Clone, Copy)]
struct Target {
    os: Os,
    architecture: Architecture,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.os, self.architecture)
    }
}

impl Target {
    fn current() -> Result<Target, String> {
        let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
        let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        let none = || format!("there is no cuDNN for {arch} {os}; disable the link-* features of cudnn-sys");
        let architecture = Architecture::from_rust(&arch).ok_or_else(none)?;
        match os.as_str() {
            "linux" => Ok(Target { os: Os::Linux, architecture }),
            "windows" if architecture == Architecture::X86_64 => Ok(Target { os: Os::Windows, architecture }),
            _ => Err(none()),
        }
    }

    /// Identifies a file as this library for the target.
    fn identify(self, file: &Path, library: Library) -> Result<Identity, ProbeError> {
        if self.os == Os::HOST {
            return identify_for(file, library, self.architecture);
        }
        let found = identify_any(file, library)?;
        if found.os != self.os {
            return Err(ProbeError::WrongOs { found: found.os, wanted: self.os });
        }
        if found.architecture != self.architecture {
            return Err(ProbeError::WrongArchitecture { found: found.architecture, wanted: self.architecture });
        }
        Ok(found)
    }
}

pub(crate) fn run() -> Result<(), String> {
    let libraries: Vec<Library> = FEATURES
        .into_iter()
        .filter(|(variable, _)| std::env::var_os(variable).is_some())
        .map(|(_, library)| library)
        .collect();
    let target = Target::current()?;
    let dir = match find(&libraries, target) {
        Ok(dir) => dir,
        // The declarations are enough to link. A directory that the user has named must still be correct.
        Err(_) if target.os == Os::Windows && vars::read(vars::LIB_DIR).is_none() => return Ok(()),
        Err(message) => return Err(message),
    };
    if target.os == Os::Linux {
        println!("cargo::rustc-link-search=native={}", dir.display());
        for library in &libraries {
            // Use the full file name, because wheels do not contain the symlink `libcudnn_graph.so`.
            println!("cargo::rustc-link-lib=dylib:+verbatim={}", library.name_on(target.os));
        }
    }
    for library in &libraries {
        println!("cargo::rerun-if-changed={}", dir.join(library.name_on(target.os)).display());
    }
    println!("cargo::metadata=lib_dir={}", dir.display());
    if let Some(version) = version(&dir, target) {
        println!("cargo::metadata=lib_version={version}");
    }
    // With buildtime-bindgen, bindings.rs passes on the headers.
    #[cfg(not(feature = "buildtime-bindgen"))]
    for include in vars::include_dirs(Some(&dir)) {
        if include.join("cudnn_graph.h").is_file() {
            println!("cargo::metadata=include={}", include.display());
            break;
        }
    }
    Ok(())
}

/// Returns the first directory that contains all of the libraries.
fn find(libraries: &[Library], target: Target) -> Result<PathBuf, String> {
    for variable in VARIABLES.iter().copied().filter(|name| *name != DIR_VARIABLE).chain([vars::LIB_DIR]) {
        vars::read(variable);
    }
    // The search covers only libraries for this machine. For a different system, the user must name a directory.
    let search = Search::new(Host::current().without_executable()).variable(vars::LIB_DIR);
    let candidates: Vec<Candidate> = if target.os == Os::HOST {
        search.candidates().filter(|candidate| !was_added_by_cargo(candidate)).collect()
    } else {
        search.explicit_candidate().into_iter().collect()
    };
    let mut searched = String::new();
    for Candidate { dir, origin, .. } in candidates {
        match libraries.iter().try_for_each(|library| check(&dir, *library, target)) {
            // Cargo reads one instruction per line, and passes linker arguments as text.
            Ok(()) if dir.to_str().is_none_or(|dir| dir.contains('\n')) => {
                searched.push_str(&format!(
                    "\n  {dir:?} ({origin}): paths with newlines or invalid UTF-8 cannot be passed to the linker"
                ));
            }
            Ok(()) => return Ok(dir),
            Err(_) if !dir.is_absolute() => searched.push_str(&format!("\n  {dir:?} ({origin}) is a relative path")),
            Err((library, error)) => {
                searched.push_str(&format!("\n  {dir:?} ({origin}): {} {error}", library.name_on(target.os)));
            }
        }
    }
    let names: Vec<&str> = libraries.iter().map(|library| library.name_on(target.os)).collect();
    let variable = vars::LIB_DIR;
    let is_for_this_machine = target.os == Os::HOST && target.architecture == Architecture::HOST;
    let help = if vars::read(variable).is_some() {
        // When cross-compiling, there are no other directories to search.
        let others = if target.os == Os::HOST { ", or unset it to search other directories" } else { "" };
        format!("set {variable} to the absolute path of a directory that contains it for {target}{others}")
    } else if is_for_this_machine {
        format!("install cuDNN (`pip install 'nvidia-cudnn-cu12>=9'`), or set {variable} to its directory")
    } else {
        format!("set {variable} to a directory with a cuDNN for {target}")
    };
    Err(format!(
        "cudnn-sys found no directory with {} to link\nhelp: {help}; or use cudnn-loader, which links nothing\n\
         searched:{searched}",
        names.join(" and "),
    ))
}

/// Returns whether cargo added this directory to the search path of build scripts. Such directories contain cargo's
/// output or Rust's libraries.
fn was_added_by_cargo(candidate: &Candidate) -> bool {
    let is_searched = matches!(candidate.origin, Origin::LibraryPath | Origin::Path);
    let has_output = |dir: &Path| dir.join(".fingerprint").is_dir();
    let dir = &candidate.dir;
    let is_output = || has_output(dir) || dir.ends_with("deps") && dir.parent().is_some_and(has_output);
    let has_rust = || dir.join("rustlib").is_dir() || dir.components().any(|part| part.as_os_str() == "rustlib");
    is_searched && (is_output() || has_rust())
}

fn check(dir: &Path, library: Library, target: Target) -> Result<(), (Library, ProbeError)> {
    if !dir.is_absolute() {
        return Err((library, ProbeError::NotAbsolute));
    }
    let file = dir.join(library.name_on(target.os));
    target.identify(&file, library).map(drop).map_err(|error| (library, error))
}

fn version(dir: &Path, target: Target) -> Option<Version> {
    [Library::Graph, Library::Ops, Library::Adv]
        .into_iter()
        .find_map(|library| target.identify(&dir.join(library.name_on(target.os)), library).ok()?.version)
}
