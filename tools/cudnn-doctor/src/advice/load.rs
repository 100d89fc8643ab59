//! Gives advice about errors of the loader.

use cudnn_loader::{DlErrorKind, LoadError, LoadErrorKind};
use cudnn_os::{IS_LINUX, IS_WINDOWS};
use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR, DIR_VARIABLE, Library, NoInstallation, Origin, Os, ProbeError};

use super::{Advice, example_of_installing, missing_dll};
use crate::shell::SEARCH_PATH;
use crate::system::LOADERS;

impl Advice for LoadError {
    fn advice(&self) -> Option<String> {
        match self.kind() {
            LoadErrorKind::NoInstallation => no_installation(self),
            LoadErrorKind::Rejected { error: ProbeError::MixedVersions { .. }, .. }
                if self.installation().is_some_and(|installation| installation.origin == Origin::Loaded) =>
            {
                self.help()
            }
            LoadErrorKind::Rejected { error, .. } | LoadErrorKind::AlreadySelected { error } => {
                error.advice().or_else(|| self.help()).or_else(|| Some("Reinstall this cuDNN.".into()))
            }
            LoadErrorKind::Dlopen { cause, .. } => Some(not_opened(cause)),
            LoadErrorKind::SymbolMissing { .. } => {
                Some("Reinstall this cuDNN: its files are from different releases.".into())
            }
            _ => self.help(),
        }
    }
}

fn no_installation(error: &LoadError) -> Option<String> {
    match NoInstallation::blamed(error.rejected()) {
        Some(blamed) => blamed.error.advice().or_else(|| error.help()),
        None if IS_LINUX || IS_WINDOWS => Some(format!(
            "Install cuDNN{} in the active virtual environment, or set {DIR_VARIABLE} to the directory that contains {}.",
            example_of_installing(DEFAULT_CUDA_MAJOR),
            Library::Graph.file_name()
        )),
        None => error.help(),
    }
}

/// Returns advice about a library that the system's loader did not open.
fn not_opened(cause: &DlErrorKind) -> String {
    match cause {
        DlErrorKind::MissingDependency { name } => missing_library(name),
        DlErrorKind::UndefinedSymbol { name, .. } => {
            format!(
                "Reinstall this cuDNN: a library next to this one is from a different release and does not define {name}."
            )
        }
        DlErrorKind::MissingVersion { name } => {
            format!("Install an older cuDNN, or a newer system: this system's libraries do not provide {name}.")
        }
        _ => format!("See {LOADERS} message below. If it blames the file, reinstall this cuDNN."),
    }
}

/// Returns where to get a library that cuDNN needs but does not include.
fn missing_library(name: &str) -> String {
    if let Some(advice) = missing_dll(name).filter(|_| Os::HOST == Os::Windows) {
        return advice;
    }
    if name.starts_with("libcuda.so") {
        return "Install NVIDIA's driver, or start the container with the GPU (`docker run --gpus all`). Under WSL the \
                driver's library is in /usr/lib/wsl/lib."
            .into();
    }
    if name.starts_with("libz.so") {
        return "Install zlib (Debian and Ubuntu: `apt-get install zlib1g`).".into();
    }
    match Component::from_soname(name) {
        Some((Component::Cudnn, _)) => "Reinstall this cuDNN: one of its libraries is missing.".into(),
        Some((component, cuda)) => {
            let wheel = component.wheel(cuda.unwrap_or(DEFAULT_CUDA_MAJOR));
            format!(
                "Install {component} (the wheel {wheel}, if cuDNN is a wheel), or put its directory on {SEARCH_PATH}."
            )
        }
        None => format!("Install the package that contains {name}, or put its directory on {SEARCH_PATH}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_for_a_missing_dependency_names_its_package() {
        let on_linux: &[(&str, &str)] = &[
            ("libcudnn_engines_precompiled.so.9", "Reinstall this cuDNN: one of its libraries is missing."),
            ("libcublasLt.so.12", "Install cuBLAS (the wheel nvidia-cublas-cu12, if cuDNN is a wheel)"),
            ("libcuda.so.1", "Install NVIDIA's driver"),
            ("libz.so.1", "Install zlib"),
            ("libother.so.2", "Install the package that contains libother.so.2"),
        ];
        let on_windows: &[(&str, &str)] = &[
            ("cudnn_engines_precompiled64_9.dll", "All cuDNN DLLs belong in one directory: reinstall cuDNN"),
            ("cublasLt64_12.dll", "Install cuBLAS, for example with `python -m pip install nvidia-cublas-cu12`"),
            ("nvcuda.dll", "Install NVIDIA's display driver"),
            ("zlibwapi.dll", "cuDNN 8 needs zlibwapi.dll"),
            ("VCRUNTIME140_1.dll", "Install the Microsoft Visual C++ Redistributable for x64"),
            ("other.dll", "Install the package that contains other.dll, or put its directory on PATH."),
        ];
        let cases = match Os::HOST {
            Os::Windows => on_windows,
            _ => on_linux,
        };
        for (name, expected) in cases {
            let advice = not_opened(&DlErrorKind::MissingDependency { name: (*name).into() });
            assert!(advice.starts_with(expected), "{name}: {advice}");
        }
    }
}
