//! The libraries that `libcudnn_graph.so.9` opens by itself, by bare name, when it first plans something: heuristics and
//! engines. It tries four names for each, so the dynamic linker may come upon another installation's.

use std::path::{Path, PathBuf};

use cudnn_probe::{Host, Installation, LdSearchPath, Library, ProbeError, Version, identify};

use crate::error::LoadErrorKind;
use crate::linker;
use crate::pinned::same_dir;

/// Sees to it, before graph opens them, that they are the installation's own and fit.
///
/// Those of another CUDA major are refused, wherever they are: nothing in cuDNN notices them. Those of another release
/// fail to load by themselves, for want of symbols. What is damaged is left to cuDNN, which may never want it.
pub(crate) fn ensure_own_plugins(installation: &Installation, cuda_major: Option<u32>) -> Result<(), LoadErrorKind> {
    let mut expected = installation.clone();
    expected.cuda_major = cuda_major;
    let places = LdSearchPath::new(&Host::current().secure_execution(linker::is_secure_execution()));
    for library in Library::OPENED_BY_GRAPH {
        let foreign = ld_so_choice(&places, installation, *library).filter(|file| !is_in(file, &installation.dir));
        let (file, checked) = match (expected.check(*library), foreign) {
            // The installation has none, and the linker would find graph another's.
            (Err(ProbeError::NotFound), Some(file)) => {
                let found = identify(&file, *library).ok().and_then(|identity| identity.cuda_major);
                match (found, cuda_major) {
                    (Some(found), Some(graph)) if found != graph && is_compatible(&file, installation.version) => {
                        (file, Err(ProbeError::MixedCuda { found, graph }))
                    }
                    _ => continue,
                }
            }
            // These libraries are big: opened ahead of cuDNN only where the linker would otherwise take another file.
            // What cannot be opened here cuDNN would not get either: it is cuDNN that says so, when it needs it.
            (Ok(_), Some(_)) => {
                let _ = linker::open(&installation.path(*library));
                continue;
            }
            (checked, _) => (installation.path(*library), checked.map(drop)),
        };
        if let Err(refusal @ ProbeError::MixedCuda { .. }) = checked {
            return Err(LoadErrorKind::Rejected { path: file, error: refusal });
        }
    }
    Ok(())
}

/// Can an engine of another installation be loaded into a graph library of this version? Those of another minor release
/// want symbols that it lacks. An engine states no version; the graph library beside it does.
fn is_compatible(engine: &Path, graph: Version) -> bool {
    let beside = engine.with_file_name(Library::Graph.file_name());
    let version = identify(&beside, Library::Graph).ok().and_then(|identity| identity.version);
    version.is_none_or(|version| (version.major, version.minor) == (graph.major, graph.minor))
}

fn is_in(file: &Path, folder: &Path) -> bool {
    file.parent().is_some_and(|other| same_dir(other, folder))
}

/// The file that the linker would give graph, which asks for the full name first.
fn ld_so_choice(places: &LdSearchPath, installation: &Installation, library: Library) -> Option<PathBuf> {
    library.dlopen_names(installation.version).iter().find_map(|name| {
        let own = || Some(installation.dir.join(name)).filter(|file| file.exists());
        places.before(name).or_else(own).or_else(|| places.after(name))
    })
}
