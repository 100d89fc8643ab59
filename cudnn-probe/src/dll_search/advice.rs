//! What to install when a DLL is missing. Pure text.

use std::path::Path;

use crate::escape::shown_path;
use crate::packages::{Component, Installer, install};

/// The installer of Microsoft's run-time libraries.
const VC_REDISTRIBUTABLE: &str = "https://aka.ms/vs/17/release/vc_redist.x64.exe";

/// Advice for a DLL that Windows does not find: what contains it. `None` for one that nobody knows.
#[must_use]
pub fn missing_dll(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if let Some((component, cuda_major)) = Component::from_soname(&lower) {
        return Some(of_component(component, cuda_major, name));
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| lower.starts_with(prefix));
    Some(if starts(&["vcruntime140", "msvcp140", "concrt140", "vcomp140", "vccorlib140", "mfc140"]) {
        format!("Install the Microsoft Visual C++ Redistributable for x64: {VC_REDISTRIBUTABLE}")
    } else if starts(&["api-ms-win-crt-", "ucrtbase"]) {
        format!("Update Windows, or install the Microsoft Visual C++ Redistributable for x64: {VC_REDISTRIBUTABLE}")
    } else if lower.starts_with("zlibwapi") {
        "cuDNN 8 needs zlibwapi.dll (zlib, x64), and NVIDIA does not ship it: put it beside cuDNN's DLLs. cuDNN 9 does \
         not need it."
            .into()
    } else if starts(&["nvcuda", "nvml", "nvapi64"]) {
        "Install NVIDIA's display driver; it contains this DLL.".into()
    } else if starts(&["libgcc_s", "libstdc++", "libwinpthread", "libgomp"]) {
        "Put the run-time libraries of MinGW beside the program, or link them statically (-static).".into()
    } else if starts(&["cufft64", "curand64", "cusolver64", "cusparse64", "nvjitlink", "nppc64", "cupti64"]) {
        "Install the CUDA toolkit, or the wheel of this library, and add its directory of DLLs to PATH.".into()
    } else {
        return None;
    })
}

fn of_component(component: Component, cuda_major: Option<u32>, name: &str) -> String {
    if component == Component::Cudnn {
        let is_older = ["64_8.dll", "64_7.dll"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
        return if is_older {
            "The program was built for cuDNN 8 or older, and cuDNN 9 has other DLLs: install a version of the program \
             that was built for cuDNN 9, or cuDNN 8 beside it."
                .into()
        } else {
            format!(
                "All DLLs of cuDNN belong into one directory: reinstall cuDNN if {name:?} is not beside the others, else \
                 add that directory to PATH."
            )
        };
    }
    let command = cuda_major.and_then(|major| install(component, major, Installer::Pip));
    match command {
        Some(command) => format!(
            "Install {component}, for example with `{command}`, or with the CUDA toolkit, and add its directory of DLLs \
             to PATH."
        ),
        None => format!("Install {component} with the CUDA toolkit, and add its directory of DLLs to PATH."),
    }
}

/// Advice for a DLL that lacks a symbol: it is of another release than the one that needs it.
pub(super) fn other_release(name: &str, dll: &Path) -> String {
    match Component::from_soname(&name.to_ascii_lowercase()) {
        Some((Component::Cudnn, _)) => format!(
            "The DLLs are of two releases of cuDNN: remove {} from the directories that Windows searches, or reinstall one \
             release.",
            shown_path(dll)
        ),
        Some((component, _)) => {
            format!("Install the release of {component} that the DLL was built with, or a newer one.")
        }
        None => format!(
            "Windows found another {name:?} than the DLL was built with: remove it, or put the right one beside the DLL."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_well_known_dll_has_advice() {
        for (name, expected) in [
            ("VCRUNTIME140_1.dll", "Visual C++ Redistributable"),
            ("msvcp140.dll", "vc_redist.x64.exe"),
            ("api-ms-win-crt-runtime-l1-1-0.dll", "Update Windows"),
            ("zlibwapi.dll", "cuDNN 8 needs zlibwapi.dll"),
            ("cublasLt64_12.dll", "nvidia-cublas-cu12"),
            ("cublas64_13.dll", "nvidia-cublas"),
            ("cudart64_12.dll", "nvidia-cuda-runtime-cu12"),
            ("cudart64_110.dll", "nvidia-cuda-runtime-cu11"),
            ("nvrtc64_120_0.dll", "nvidia-cuda-nvrtc-cu12"),
            ("nvrtc-builtins64_129.dll", "nvidia-cuda-nvrtc-cu12"),
            ("cudnn_ops64_9.dll", "belong into one directory"),
            ("cudnn64_8.dll", "built for cuDNN 8"),
            ("cudnn_ops_infer64_8.dll", "built for cuDNN 8"),
            ("nvcuda.dll", "display driver"),
            ("cufft64_11.dll", "CUDA toolkit"),
            ("libstdc++-6.dll", "MinGW"),
        ] {
            let help = missing_dll(name).unwrap_or_default();
            assert!(help.contains(expected), "{name}: {help}");
        }
        assert_eq!(missing_dll("plugin.dll"), None);
    }
}
