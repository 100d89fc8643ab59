//! Finds the directories with cuBLAS and NVRTC in Python environments, for releases of cuDNN that were fetched without
//! them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cudnn_cli::shell::SEARCH_PATH;
use cudnn_probe::{Host, Search};

/// The starts of the names of libraries that cuDNN opens by name. The CUDA major version follows.
const LIBRARIES: [&str; 2] = ["libcublasLt.so.", "libnvrtc.so."];

/// Returns the search path of this process, followed by the directories in Python environments. A name contains the CUDA
/// major version, and releases for different versions can use the same search path.
pub(crate) fn search_path() -> Option<OsString> {
    static DIRS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let search = Search::new(Host::current());
        let dirs: BTreeSet<PathBuf> =
            search.candidates().flat_map(|candidate| beside(&candidate.dir).unwrap_or_default()).collect();
        dirs.into_iter().collect()
    });
    let current = std::env::var_os(SEARCH_PATH).unwrap_or_default();
    let own = std::env::split_paths(&current).filter(|dir| !dir.as_os_str().is_empty());
    std::env::join_paths(own.chain(DIRS.iter().cloned())).ok().filter(|path| !path.is_empty())
}

/// Returns the directories of other wheels next to the wheel with this directory of cuDNN.
fn beside(cudnn: &Path) -> Option<Vec<PathBuf>> {
    let wheels = cudnn.ends_with("cudnn/lib").then(|| cudnn.parent()?.parent()).flatten()?;
    let has_library = |dir: &Path| {
        let names = dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
        names
            .into_iter()
            .any(|name| LIBRARIES.iter().any(|library| name.as_encoded_bytes().starts_with(library.as_bytes())))
    };
    let dirs = wheels.read_dir().ok()?.flatten().map(|wheel| wheel.path().join("lib"));
    Some(dirs.filter(|dir| has_library(dir)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_next_to_cudnn_are_found() {
        let root = tempfile::tempdir().unwrap();
        let create = |file: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        for file in [
            "cudnn/lib/libcudnn.so.9",
            "cu13/lib/libcublasLt.so.13",
            "cuda_nvrtc/lib/libnvrtc.so.12",
            "nccl/lib/libnccl.so.2",
        ] {
            create(&format!("nvidia/{file}"));
        }
        let nvidia = root.path().join("nvidia");
        let mut found = beside(&nvidia.join("cudnn/lib")).unwrap();
        found.sort();
        assert_eq!(found, [nvidia.join("cu13/lib"), nvidia.join("cuda_nvrtc/lib")]);
        assert_eq!(beside(&nvidia.join("cu13/lib")), None);
    }
}
