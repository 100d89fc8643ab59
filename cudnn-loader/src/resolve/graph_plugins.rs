//! The libraries that `libcudnn_graph.so.9` opens itself, by bare name, when it first plans something: heuristics and
//! engines. It tries four names for each, so ld.so may find another installation's.

use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::SearchPath;
use cudnn_probe::{Installation, Library, ProbeError, Version, identify};

use super::installation::same_dir;
use crate::dl;
use crate::error::LoadErrorKind;

/// Makes sure that graph, when it opens its plugins, gets those of its installation.
///
/// The loader rejects plugins for another CUDA major, because cuDNN does not notice them. Plugins of another release
/// lack symbols, so they fail to load. Damaged plugins are left to cuDNN, which may never need them.
pub(crate) fn ensure_own_plugins(installation: &Installation, cuda_major: Option<u32>) -> Result<(), LoadErrorKind> {
    let mut expected = installation.clone();
    expected.cuda_major = cuda_major;
    let search_path = SearchPath::new(&dl::host());
    for library in Library::OPENED_BY_GRAPH {
        let choice = ld_so_choice(&search_path, installation, *library);
        let foreign = choice.filter(|file| !is_in(file, &installation.dir));
        let (file, checked) = match (expected.check(*library), foreign) {
            // The installation has none, and ld.so would pick another installation's for graph.
            (Err(ProbeError::NotFound), Some(file)) => {
                let found = identify(&file, *library).ok().and_then(|identity| identity.cuda_major);
                match (found, cuda_major) {
                    (Some(found), Some(graph)) if found != graph && is_compatible(&file, installation.version) => {
                        (file, Err(ProbeError::MixedCuda { found, graph }))
                    }
                    _ => continue,
                }
            }
            // These libraries are large: the loader opens one ahead of cuDNN only if ld.so would take another file. If
            // the loader cannot open it, cuDNN cannot either, and reports that when it needs the library.
            (Ok(_), Some(_)) => {
                let _ = dl::open(&installation.path(*library));
                continue;
            }
            (checked, _) => (installation.path(*library), checked.map(drop)),
        };
        if let Err(error @ ProbeError::MixedCuda { .. }) = checked {
            return Err(LoadErrorKind::Rejected { path: file, error });
        }
    }
    Ok(())
}

/// Whether an engine library of another installation can be loaded into a graph library of this version: one of another
/// minor release needs symbols that graph lacks. An engine library states no version; the graph library beside it does.
fn is_compatible(engine: &Path, graph: Version) -> bool {
    let beside = engine.with_file_name(Library::Graph.file_name());
    let version = identify(&beside, Library::Graph).ok().and_then(|identity| identity.version);
    version.is_none_or(|version| (version.major, version.minor) == (graph.major, graph.minor))
}

fn is_in(file: &Path, dir: &Path) -> bool {
    file.parent().is_some_and(|parent| same_dir(parent, dir))
}

/// The file that ld.so would open for graph, which opens the longest name first.
fn ld_so_choice(search_path: &SearchPath, installation: &Installation, library: Library) -> Option<PathBuf> {
    // Graph's run path contains graph's directory.
    let run_path = [installation.dir.clone()];
    library.dlopen_names(installation.version).iter().find_map(|name| search_path.resolve(name, &run_path))
}
