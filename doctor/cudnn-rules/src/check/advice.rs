//! Gives advice about libraries that cuDNN needs but does not include.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cudnn_cli::escape::Printable;
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_loader::{DlErrorKind, LoadError, LoadErrorKind};
use cudnn_probe::dll_search::Failure;
use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR, exports, facts, shown_path};

use super::remedies::{is_damage, pull, repair};
use crate::shell::split_list;
use crate::system::LOADERS;

/// Returns the fix for an error of the loader. `None` means that reinstalling cuDNN is the fix.
pub fn advice(error: &LoadError) -> Option<String> {
    match error.kind() {
        LoadErrorKind::Rejected { error, .. } if is_damage(error) => pull(error, None).map(|remedy| remedy.text),
        LoadErrorKind::Rejected { error, .. } => repair(error, None).map(|remedy| remedy.text),
        LoadErrorKind::Dlopen { cause, .. } => match cause {
            DlErrorKind::MissingDependency { name } => missing_library(name),
            DlErrorKind::UndefinedSymbol { .. } => None,
            DlErrorKind::MissingVersion { name } => Some(format!(
                "install an older cuDNN, or a newer system: this system's libraries do not provide {name}"
            )),
            _ => Some(hook().unwrap_or_else(|| {
                format!("see {LOADERS} message above; if it blames the file, reinstall this cuDNN")
            })),
        },
        _ => error.help(),
    }
}

/// Returns the advice to remove a library from `LD_PRELOAD` if it replaces functions of ld.so.
pub(super) fn hook() -> Option<String> {
    const NAME: &str = "LD_PRELOAD";
    let replaces = |file: &PathBuf| {
        let found = exports(file, &["dlopen", "dlsym", "dlmopen"]);
        found.is_ok_and(|found| found.contains(&true))
    };
    let mut files = split_list(NAME, &facts::variable(NAME)?).into_iter().map(PathBuf::from);
    let file = files.find(replaces)?;
    Some(format!(
        "{}, in {NAME}, replaces functions of ld.so: check again without it, and if that helps, ask its authors",
        file.printable()
    ))
}

/// Returns the fix for a DLL that Windows fails to load. `None` means that reinstalling cuDNN is the fix.
pub fn advice_for_dll(failure: &Failure) -> Option<String> {
    match failure {
        Failure::MissingDll { name, .. } => missing_library(name),
        Failure::MissingSymbol { dll, needed_by, .. } if !is_cudnn(dll) => Some(format!(
            "install the release of {} that {} was built with, or a newer one",
            shown_path(dll),
            shown_path(needed_by)
        )),
        _ => None,
    }
}

fn is_cudnn(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    matches!(Component::from_soname(&name), Some((Component::Cudnn, _)))
}

static KNOWN: LazyLock<Vec<(Vec<&'static str>, &'static str)>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/missing_libraries.json")).unwrap_or_default());

fn missing_library(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if let Some((_, advice)) = KNOWN.iter().find(|(starts, _)| starts.iter().any(|start| lower.starts_with(start))) {
        return Some((*advice).to_owned());
    }
    let package = match Component::from_soname(name) {
        Some((Component::Cudnn, _)) => return None,
        Some((component, cuda)) => {
            format!(
                "{component} (the wheel {}, if cuDNN is a wheel)",
                component.wheel(cuda.unwrap_or(DEFAULT_CUDA_MAJOR))
            )
        }
        None => format!("the package that contains {name}"),
    };
    Some(format!("install {package}, or put its directory on {SEARCH_PATH}"))
}

#[cfg(test)]
mod tests {
    use cudnn_probe::dll_search::Symbol;

    use super::*;

    #[test]
    fn the_advice_for_a_missing_library_names_its_package() {
        for (name, expected) in [
            ("libcublasLt.so.12", Some("install cuBLAS (the wheel nvidia-cublas-cu12, if cuDNN is a wheel)")),
            ("libcuda.so.1", Some("install NVIDIA's driver")),
            ("libz.so.1", Some("install zlib")),
            ("libstdc++.so.6", Some("install the package that contains libstdc++.so.6, or put its directory on")),
            ("libcudnn_engines_precompiled.so.9", None),
            ("VCRUNTIME140_1.dll", Some("install the Microsoft Visual C++ Redistributable")),
            ("api-ms-win-crt-runtime-l1-1-0.dll", Some("update Windows")),
            ("zlibwapi.dll", Some("cuDNN 8 needs zlibwapi.dll")),
            ("cudart64_110.dll", Some("install the CUDA runtime (the wheel nvidia-cuda-runtime-cu11")),
            ("nvrtc64_120_0.dll", Some("install NVRTC (the wheel nvidia-cuda-nvrtc-cu12")),
            ("nvcuda.dll", Some("install NVIDIA's display driver")),
            ("libstdc++-6.dll", Some("put the run-time libraries of MinGW")),
            ("cudnn_ops64_9.dll", None),
        ] {
            let advice = missing_library(name);
            let starts = advice.as_ref().zip(expected).is_some_and(|(advice, expected)| advice.starts_with(expected));
            assert!(starts || advice.is_none() && expected.is_none(), "{name}: {advice:?}");
        }
        for (dll, expected) in [("cudnn_graph64_9.dll", false), ("cublasLt64_12.dll", true), ("plugin.dll", true)] {
            let failure =
                Failure::MissingSymbol { symbol: Symbol::Ordinal(1), dll: dll.into(), needed_by: "a.dll".into() };
            assert_eq!(advice_for_dll(&failure).is_some(), expected, "{dll}");
        }
    }
}
