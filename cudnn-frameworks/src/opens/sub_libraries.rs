//! What the shim of cuDNN opens by name, and the releases that files state. A shim of one release may get the libraries
//! of another: by `LD_LIBRARY_PATH`, or because they are loaded already.

use std::path::Path;

use cudnn_probe::{Library, Version, identify_any};

use super::import::{Process, is_missing};
use super::{By, Opened};
use crate::cudnn_name::CudnnName;

/// How much of cuDNN a framework uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// All libraries, sooner or later.
    All,
    /// The graph API, such as for a convolution: what a framework has loaded when another one comes.
    Graph,
}

/// What cuDNN 8's shim opens for a convolution.
const OF_CUDNN_8: [&str; 2] = ["libcudnn_ops_infer.so.8", "libcudnn_cnn_infer.so.8"];

/// Opens what this shim opens, and adds what is found and what is missing.
pub(super) fn open(
    process: &mut Process,
    shim: &Opened,
    uses: Use,
    found: &mut Vec<Opened>,
    missing: &mut Vec<String>,
) {
    let Some(from) = process.simulation.objects().iter().position(|object| object.path == shim.path) else { return };
    let Some(name) = CudnnName::parse(&shim.name) else { return };
    if name.major == Some(8) {
        for name in OF_CUDNN_8 {
            open_one(process, &[name.to_owned()], from, found, missing);
        }
        return;
    }
    let libraries: &[Library] = match uses {
        Use::All => &[Library::Graph, Library::Ops, Library::Cnn, Library::Adv],
        Use::Graph => &[Library::Graph, Library::Ops],
    };
    // Without a known release, the names with a full version are simply not found.
    let version = shim.version.unwrap_or(Version::new(9, 0, 0));
    for library in libraries {
        open_one(process, &library.dlopen_names(version), from, found, missing);
    }
}

/// Opens the first of these names that is found.
fn open_one(process: &mut Process, names: &[String], from: usize, found: &mut Vec<Opened>, missing: &mut Vec<String>) {
    for name in names {
        let before = process.simulation.lookups().len();
        let is_loaded = process.simulation.dlopen(name, from);
        if is_loaded {
            process.note_lookups(None);
        } else {
            process.skip_lookups();
        }
        let lookups = process.simulation.lookups().get(before..).unwrap_or_default();
        if is_loaded {
            found.extend(lookups.first().and_then(|lookup| process.opened(lookup)));
            return;
        }
        // A file that is there and lacks something that it needs ends the attempts, as far as the reader is concerned.
        let needs: Vec<String> =
            lookups.iter().skip(1).filter(|lookup| is_missing(lookup)).map(|lookup| lookup.name.clone()).collect();
        if !needs.is_empty() {
            found.extend(lookups.first().and_then(|lookup| process.opened(lookup)));
            missing.extend(needs);
            return;
        }
    }
    let soname = names.iter().find(|name| name.ends_with(".so.9")).or(names.first());
    missing.extend(soname.cloned());
}

/// The release of a file of cuDNN, by its name or its contents.
pub(super) fn version(file: &Path) -> Option<Version> {
    let name = file.file_name()?.to_str()?;
    if let Some(version) = CudnnName::parse(name).and_then(|name| name.version) {
        return Some(version);
    }
    if name.starts_with("libcudnn.so.8") {
        // A link to the file with the full version.
        let target = std::fs::canonicalize(file).ok()?;
        return CudnnName::parse(target.file_name()?.to_str()?)?.version;
    }
    let stem = name.split_once(".so.9")?.0;
    let library = Library::from_file_name(&format!("{stem}.so.9"))?;
    let file = if library == Library::Shim { &file.with_file_name(Library::Graph.file_name()) } else { file };
    let library = if library == Library::Shim { Library::Graph } else { library };
    identify_any(file, library).ok()?.version
}

impl By {
    /// Whether the Python code of a framework has chosen the file.
    #[must_use]
    pub fn is_python(&self) -> bool {
        matches!(self, By::Python | By::Variable(_))
    }
}
