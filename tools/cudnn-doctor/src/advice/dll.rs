//! Gives advice about DLLs that are missing or from a different release.

use std::path::Path;

use cudnn_probe::dll_search::Failure;
use cudnn_probe::{Component, shown_path};

use super::Advice;
use crate::packages::command_for_wheel;

impl Advice for Failure {
    fn advice(&self) -> Option<String> {
        match self {
            Failure::MissingDll { name, .. } => missing_dll(name),
            Failure::MissingSymbol { dll, .. } => {
                let name = dll.file_name().unwrap_or_default().to_string_lossy();
                Some(other_release(&name, dll))
            }
            Failure::Unusable { error, .. } => error.advice(),
            _ => None,
        }
    }
}

/// Name prefixes of DLLs that CUDA programs need, with advice on where to get them.
const KNOWN: [(&[&str], &str); 6] = [
    (
        &["vcruntime140", "msvcp140", "concrt140", "vcomp140", "vccorlib140", "mfc140"],
        "Install the Microsoft Visual C++ Redistributable for x64: https://aka.ms/vs/17/release/vc_redist.x64.exe",
    ),
    (
        &["api-ms-win-crt-", "ucrtbase"],
        "Update Windows, or install the Microsoft Visual C++ Redistributable for x64: \
         https://aka.ms/vs/17/release/vc_redist.x64.exe",
    ),
    (
        &["zlibwapi"],
        "cuDNN 8 needs zlibwapi.dll (zlib, x64), and NVIDIA does not ship it: put it next to cuDNN's DLLs. cuDNN 9 does \
         not need it.",
    ),
    (&["nvcuda", "nvml", "nvapi64"], "Install NVIDIA's display driver; it contains this DLL."),
    (
        &["libgcc_s", "libstdc++", "libwinpthread", "libgomp"],
        "Put the run-time libraries of MinGW next to the program, or link them statically (-static).",
    ),
    (
        &["cufft64", "curand64", "cusolver64", "cusparse64", "nvjitlink", "nppc64", "cupti64"],
        "Install the CUDA toolkit, or the wheel of this library, and add its DLL directory to PATH.",
    ),
];

/// Returns where to get a DLL that Windows does not find, or `None` if the DLL is unknown.
pub(crate) fn missing_dll(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let Some((component, cuda_major)) = Component::from_soname(&lower) else {
        let known = KNOWN.iter().find(|(starts, _)| starts.iter().any(|start| lower.starts_with(start)));
        return known.map(|(_, advice)| (*advice).to_owned());
    };
    if component == Component::Cudnn {
        return Some(if ["64_8.dll", "64_7.dll"].iter().any(|end| lower.ends_with(end)) {
            "The program was built for cuDNN 8 or older, and cuDNN 9 has other DLLs: install a version of the program \
             that was built for cuDNN 9, or cuDNN 8 next to it."
                .into()
        } else {
            format!(
                "All cuDNN DLLs belong in one directory: reinstall cuDNN if {name:?} is not next to the others, \
                 otherwise add that directory to PATH."
            )
        });
    }
    let command = cuda_major.and_then(|major| command_for_wheel(component, major));
    let example = command.map_or(String::new(), |command| format!(", for example with `{command}`, or"));
    Some(format!("Install {component}{example} with the CUDA toolkit, and add its DLL directory to PATH."))
}

/// Returns advice about a DLL without a required symbol, which means that it is from a different release.
fn other_release(name: &str, dll: &Path) -> String {
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
            "Windows found another {name:?} than the DLL was built with: remove it, or put the right one next to the DLL."
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
            ("api-ms-win-crt-runtime-l1-1-0.dll", "Update Windows"),
            ("zlibwapi.dll", "cuDNN 8 needs zlibwapi.dll"),
            ("cublasLt64_12.dll", "nvidia-cublas-cu12"),
            ("cudart64_110.dll", "nvidia-cuda-runtime-cu11"),
            ("nvrtc64_120_0.dll", "nvidia-cuda-nvrtc-cu12"),
            ("cudnn_ops64_9.dll", "belong in one directory"),
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
        for (name, expected) in [
            ("cudnn_graph64_9.dll", "two releases of cuDNN"),
            ("cublasLt64_12.dll", "Install the release of cuBLAS"),
            ("plugin.dll", "Windows found another"),
        ] {
            assert!(other_release(name, Path::new(name)).contains(expected), "{name}");
        }
    }
}
