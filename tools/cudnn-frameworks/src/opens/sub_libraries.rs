//! What the shim of cuDNN and its graph library open by name, and the releases that files state. A shim of one release
//! may get the libraries of another: by `LD_LIBRARY_PATH`, or because they are loaded already.

use std::collections::HashSet;
use std::path::Path;

use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Library, Requirements, Search, Version, select};

use super::process::{Process, is_missing};
use super::{By, Damaged, Opened, Opens};
use crate::cudnn_name::CudnnName;
use crate::known::{Known, library_of};

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

/// Opens what this shim opens, then what the graph library opens, and adds what is found, missing or damaged.
pub(super) fn open(process: &mut Process, shim: &Opened, uses: Use, opens: &mut Opens) {
    let Some(from) = process.simulation.objects().iter().position(|object| object.path == shim.path) else { return };
    let Some(name) = CudnnName::parse(&shim.name) else { return };
    // It loads the libraries of one installation by their paths, as this project's loader does.
    if process.known.is_drop_in(&shim.path) {
        opens.has_drop_in = true;
        add_selected(process, shim, opens);
        return;
    }
    if name.major == Some(8) {
        for name in OF_CUDNN_8 {
            open_one(process, &[name.to_owned()], from, opens);
        }
        return;
    }
    let libraries: &[Library] = match uses {
        Use::All => &[Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext],
        Use::Graph => &[Library::Graph, Library::Ops],
    };
    open_all(process, libraries, shim.version, from, opens);
    let graph = process.simulation.loaded(Library::Graph.file_name());
    if let (Use::All, Some(graph)) = (uses, graph) {
        let version = process.simulation.objects().get(graph).and_then(|graph| process.known.release(&graph.path));
        open_all(process, Library::OPENED_BY_GRAPH, version, graph, opens);
        open_companions(process);
    }
    let files = opens.cudnn.iter().filter_map(|opened| damage(&opened.path, &process.known));
    let damaged: Vec<Damaged> = files.collect();
    opens.damaged.extend(damaged);
    let mut seen = HashSet::new();
    opens.damaged.retain(|damaged| seen.insert(damaged.path.clone()));
}

/// Opens the libraries of CUDA that the engines open by name when they need them.
fn open_companions(process: &mut Process) {
    let Some(cuda_major) = process.cuda_major else { return };
    for (engine, stem) in [(Library::EnginesPrecompiled, "libcublasLt"), (Library::EnginesRuntimeCompiled, "libnvrtc")]
    {
        let Some(engine) = process.simulation.loaded(engine.file_name()) else { continue };
        process.dlopen(&format!("{stem}.so.{cuda_major}"), engine);
        process.skip_lookups();
    }
}

/// Adds the installation that this project's loader selects for the drop-in.
fn add_selected(process: &Process, drop_in: &Opened, opens: &mut Opens) {
    let Some((shim, dir)) = opens.cudnn.first_mut().zip(drop_in.path.parent()) else { return };
    // What is beside it need not be what it loads.
    shim.version = None;
    let search = Search::new(process.host_of_environment()).add_adjacent(dir);
    match select(&search, &Requirements::default()).installation {
        Some(selected) => opens.cudnn.insert(
            1,
            Opened {
                name: Library::Graph.file_name().to_owned(),
                path: selected.path(Library::Graph),
                by: By::DropIn,
                version: Some(selected.version),
            },
        ),
        None => opens.missing.push(Library::Graph.file_name().to_owned()),
    }
}

/// Opens those of these libraries that the release has, as an object of this release does.
fn open_all(process: &mut Process, libraries: &[Library], version: Option<Version>, from: usize, opens: &mut Opens) {
    // Without a known release, the names with a full version are simply not found.
    let version = version.unwrap_or(Version::new(9, 0, 0));
    for library in libraries.iter().filter(|library| has_library(version, **library)) {
        open_one(process, &library.dlopen_names(version), from, opens);
    }
}

/// Opens the first of these names that is found.
fn open_one(process: &mut Process, names: &[String], from: usize, opens: &mut Opens) {
    for name in names {
        let before = process.simulation.lookups().len();
        let is_loaded = process.dlopen(name, from);
        if is_loaded {
            process.note_lookups(None);
        } else {
            process.skip_lookups();
        }
        let lookups = process.simulation.lookups().get(before..).unwrap_or_default();
        if is_loaded {
            opens.cudnn.extend(lookups.first().and_then(|lookup| process.opened(lookup)));
            return;
        }
        // A file that is there and damaged, or lacks something that it needs, ends the attempts, as far as the reader is
        // concerned.
        if let Some(damaged) = lookups.first().and_then(Damaged::of) {
            opens.damaged.push(damaged);
            return;
        }
        let needs: Vec<String> =
            lookups.iter().skip(1).filter(|lookup| is_missing(lookup)).map(|lookup| lookup.name.clone()).collect();
        if !needs.is_empty() {
            opens.cudnn.extend(lookups.first().and_then(|lookup| process.opened(lookup)));
            opens.missing.extend(needs);
            return;
        }
    }
    // ld.so passes over a file that it cannot read, and over a link that leads nowhere.
    let soname = names.iter().find(|name| name.ends_with(".so.9")).or(names.first());
    let opener = process.simulation.objects().get(from).map(|opener| opener.path.as_path());
    let beside = opener.zip(soname).map(|(opener, soname)| opener.with_file_name(soname));
    match beside.filter(|file| file.symlink_metadata().is_ok()).and_then(|file| damage(&file, &process.known)) {
        Some(damaged) => opens.damaged.push(damaged),
        None => opens.missing.extend(soname.cloned()),
    }
}

/// What is wrong with a file of cuDNN 9, if anything is.
fn damage(file: &Path, known: &Known) -> Option<Damaged> {
    let library = library_of(file.file_name()?.to_str()?)?;
    let reason = known.identity(file, library).err()?;
    Some(Damaged { path: file.to_owned(), reason, rule: None })
}

impl By {
    /// Whether the Python code of a framework has chosen the file.
    #[must_use]
    pub fn is_python(&self) -> bool {
        matches!(self, By::Python | By::Variable(_))
    }
}
