//! The libraries that `libcudnn_graph.so.9` opens itself, by bare name, when it first plans something: heuristics and
//! engines. It tries four names for each, so ld.so may find another installation's.

use std::path::PathBuf;

use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Installation, Library, ProbeError};

use super::installation::is_in;
use crate::dl;
use crate::dl::objects::LoadedObjects;
use crate::error::LoadErrorKind;
use crate::platform::names::driver_file;
use crate::platform::search::{FINDS_PLUGINS, SearchPath, is_in_working_dir};

/// Makes sure that graph, when it opens its plugins, gets those of its installation.
///
/// The loader rejects plugins for another CUDA major, because cuDNN does not notice them, and those of another
/// installation that graph would get although they do not belong to it. cuDNN does without a plugin that ld.so cannot
/// load: a damaged one, or one of another release, which needs symbols that graph lacks.
pub(crate) fn ensure_own_plugins(installation: &Installation, cuda_major: Option<u32>) -> Result<(), LoadErrorKind> {
    let mut expected = installation.clone();
    expected.cuda_major = cuda_major;
    let search_path = SearchPath::new(&dl::host());
    let objects = LoadedObjects::snapshot();
    // Graph does not open the libraries that its release does not have.
    for library in Library::OPENED_BY_GRAPH.iter().filter(|library| has_library(installation.version, **library)) {
        let own = installation.path(*library);
        let checked = expected.check(*library);
        let is_usable = checked.is_ok();
        if let Err(error @ ProbeError::MixedCuda { .. }) = checked {
            return Err(LoadErrorKind::Rejected { path: own, error });
        }
        let loaded = objects.find(library.file_name()).map(|object| object.path);
        let is_loaded = loaded.is_some();
        if !FINDS_PLUGINS && is_usable && !is_loaded {
            // They open the driver by its name at once. Without them, the program's calls return errors.
            if !is_in_working_dir(&search_path, driver_file!()) {
                let _ = dl::open(&own);
            }
            continue;
        }
        let choice = loaded.or_else(|| ld_so_choice(&search_path, installation, *library));
        let Some(foreign) = choice.filter(|file| !is_in(file, &installation.dir)) else { continue };
        // These libraries are large: the loader opens one ahead of graph only if ld.so would take another file.
        if is_usable && !is_loaded && dl::open(&own).is_ok() {
            continue;
        }
        let is_of_release = foreign.parent().is_some_and(|dir| expected.matches(*library, dir));
        if !is_of_release && dl::open(&foreign).is_ok() {
            let error = ProbeError::OtherInstallation { graph: installation.dir.clone() };
            return Err(LoadErrorKind::Rejected { path: foreign, error });
        }
    }
    Ok(())
}

/// The file that ld.so would open for graph, which opens the longest name first.
fn ld_so_choice(search_path: &SearchPath, installation: &Installation, library: Library) -> Option<PathBuf> {
    // Graph's run path contains graph's directory.
    let run_path = [installation.dir.clone()];
    library.dlopen_names(installation.version).iter().find_map(|name| search_path.resolve(name, &run_path))
}
