//! Finds cuBLAS and NVRTC for downloaded releases of cuDNN, also in Python environments.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cudnn_cli::shell::SEARCH_PATH;
use cudnn_probe::ld_so::{KnownFiles, Simulation};
use cudnn_probe::{Host, Os, Search};

/// The first parts of names of libraries that cuDNN opens by name. The CUDA major version follows.
const LIBRARIES: [&str; 2] = ["libcublasLt.so.", "libnvrtc.so."];

/// Returns the search path of this process, followed by the directories in Python environments. Names contain the CUDA
/// major version, so all versions can share it.
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

/// The number of [`LIBRARIES`] that workers find without a run path, by CUDA major version.
#[derive(Debug, Default)]
pub(crate) struct Found(BTreeMap<u32, usize>);

impl Found {
    /// Searches for the libraries. On Windows, finds nothing.
    pub(crate) fn on_this_machine() -> Self {
        const MAJORS: std::ops::Range<u32> = 11..20;
        let count = |major: u32| LIBRARIES.iter().filter(|library| finds(&format!("{library}{major}"), None)).count();
        let counts =
            if Os::HOST == Os::Windows { Vec::new() } else { MAJORS.map(|major| (major, count(major))).collect() };
        Found(counts.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    #[cfg(test)]
    pub(crate) fn all_for(cuda_major: u32) -> Self {
        Found(BTreeMap::from([(cuda_major, LIBRARIES.len())]))
    }

    pub(crate) fn count(&self, cuda_major: u32) -> usize {
        self.0.get(&cuda_major).copied().unwrap_or_default()
    }

    pub(crate) fn best(&self) -> Option<u32> {
        self.0.iter().max_by_key(|(_, count)| **count).map(|(major, _)| *major)
    }
}

/// Returns whether ld.so finds cuBLASLt in a worker, also through the run path of cuDNN's library that opens it.
pub(crate) fn finds_cublas_lt(cuda_major: u32, opener: Option<&Path>) -> bool {
    let [cublas_lt, _] = LIBRARIES;
    finds(&format!("{cublas_lt}{cuda_major}"), opener)
}

/// Returns whether ld.so finds a library in a worker, also through the run path of the opener.
fn finds(library: &str, opener: Option<&Path>) -> bool {
    let host = host_of_worker(Host::current(), search_path());
    let simulation = opener.and_then(|opener| Simulation::new(opener, &host).ok());
    let without_opener = || Simulation::without_program(Path::new("/"), &host, &KnownFiles::new());
    simulation.unwrap_or_else(without_opener).dlopen_incomplete(library, 0).is_some()
}

/// Returns this machine with the search path of a worker, which by default inherits the one of this process.
fn host_of_worker(host: Host, search_path: Option<OsString>) -> Host {
    match search_path {
        Some(path) => host.env(SEARCH_PATH, path),
        None => host,
    }
}

/// Returns the directories of other wheels next to the cuDNN wheel with this directory.
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
    fn a_worker_inherits_the_search_path_if_there_is_no_other() {
        let searched = |path: Option<&str>| {
            host_of_worker(Host::sandbox("/").env(SEARCH_PATH, "/own"), path.map(OsString::from)).variable(SEARCH_PATH)
        };
        assert_eq!(
            [searched(None), searched(Some("/own:/wheel"))],
            ["/own", "/own:/wheel"].map(|path| Some(path.into()))
        );
    }

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
