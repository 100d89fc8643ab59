//! The libraries that `libcudnn_graph.so.9` opens itself, by bare name, when it first plans something: heuristics and
//! engines. It tries four names for each, so ld.so may find another installation's.

use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::SearchPath;
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Installation, Library, ProbeError};

use super::installation::same_dir;
use crate::dl;
use crate::error::LoadErrorKind;

/// Makes sure that graph, when it opens its plugins, gets those of its installation.
///
/// The loader rejects plugins for another CUDA major, because cuDNN does not notice them, and those of another
/// installation that ld.so would load although they do not belong to graph. Plugins of another release in the
/// installation itself lack symbols, so that they fail to load; damaged ones are left to cuDNN, which may never need
/// them.
pub(crate) fn ensure_own_plugins(installation: &Installation, cuda_major: Option<u32>) -> Result<(), LoadErrorKind> {
    let mut expected = installation.clone();
    expected.cuda_major = cuda_major;
    let search_path = SearchPath::new(&dl::host());
    // Graph does not open the libraries that its release does not have.
    for library in Library::OPENED_BY_GRAPH.iter().filter(|library| has_library(installation.version, **library)) {
        let choice = ld_so_choice(&search_path, installation, *library);
        let foreign = choice.filter(|file| !is_in(file, &installation.dir));
        let (file, checked) = match (expected.check(*library), foreign) {
            // The installation has none, and ld.so would pick another installation's for graph. One that ld.so cannot
            // load, because graph lacks symbols that it needs, does no harm.
            (Err(ProbeError::NotFound), Some(file)) => {
                if file.parent().is_some_and(|dir| expected.matches(*library, dir)) || dl::open(&file).is_err() {
                    continue;
                }
                (file, Err(ProbeError::OtherInstallation { graph: installation.dir.clone() }))
            }
            // These libraries are large: the loader opens one ahead of cuDNN only if ld.so would take another file. If
            // the loader cannot open it, cuDNN cannot either, and reports that when it needs the library.
            (Ok(_), Some(_)) => {
                let _ = dl::open(&installation.path(*library));
                continue;
            }
            (checked, _) => (installation.path(*library), checked.map(drop)),
        };
        if let Err(error @ (ProbeError::MixedCuda { .. } | ProbeError::OtherInstallation { .. })) = checked {
            return Err(LoadErrorKind::Rejected { path: file, error });
        }
    }
    Ok(())
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
