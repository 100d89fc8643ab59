//! The libraries that `libcudnn_graph.so.9` opens by itself, by bare name, when it first plans something: heuristics and
//! engines. It tries four names for each, so the dynamic linker may come upon another installation's.

use std::path::{Path, PathBuf};

use cudnn_probe::{Environment, Installation, Library, LinkerPlaces, Refusal, Version, identify};

use crate::error::LoadErrorKind;
use crate::linker;
use crate::pinned::same_folder;

/// Sees to it, before graph opens them, that they are the installation's own and fit.
///
/// Those of another CUDA major are refused, wherever they are: nothing in cuDNN notices them. Those of another release
/// fail to load by themselves, for want of symbols. What is damaged is left to cuDNN, which may never want it.
pub(crate) fn prepare(installation: &Installation, cuda_major: Option<u32>) -> Result<(), LoadErrorKind> {
    let mut expected = installation.clone();
    expected.cuda_major = cuda_major;
    let places = LinkerPlaces::new(&Environment::current().privileged(linker::is_privileged()));
    for library in Library::OPENED_BY_GRAPH {
        let foreign = linker_takes(&places, installation, *library).filter(|file| !is_in(file, &installation.folder));
        let (file, checked) = match (expected.check(*library), foreign) {
            // The installation has none, and the linker would find graph another's.
            (Err(Refusal::Absent), Some(file)) => {
                let found = identify(&file, *library).ok().and_then(|identity| identity.cuda_major);
                match (found, cuda_major) {
                    (Some(found), Some(graph)) if found != graph && may_load(&file, installation.version) => {
                        (file, Err(Refusal::MixedCuda { found, graph }))
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
        if let Err(refusal @ Refusal::MixedCuda { .. }) = checked {
            return Err(LoadErrorKind::Refused { path: file, refusal });
        }
    }
    Ok(())
}

/// Can an engine of another installation be loaded into a graph library of this version? Those of another minor release
/// want symbols that it lacks. An engine states no version; the graph library beside it does.
fn may_load(engine: &Path, graph: Version) -> bool {
    let beside = engine.with_file_name(Library::Graph.file_name());
    let version = identify(&beside, Library::Graph).ok().and_then(|identity| identity.version);
    version.is_none_or(|version| (version.major, version.minor) == (graph.major, graph.minor))
}

fn is_in(file: &Path, folder: &Path) -> bool {
    file.parent().is_some_and(|other| same_folder(other, folder))
}

/// The file that the linker would give graph, which asks for the full name first.
fn linker_takes(places: &LinkerPlaces, installation: &Installation, library: Library) -> Option<PathBuf> {
    library.asked_for_as(installation.version).iter().find_map(|name| {
        let own = || Some(installation.folder.join(name)).filter(|file| file.exists());
        places.before(name).or_else(own).or_else(|| places.after(name))
    })
}
