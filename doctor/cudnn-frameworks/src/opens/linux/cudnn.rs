//! Simulates how cuDNN opens libraries by name. With `LD_LIBRARY_PATH` or loaded libraries, a shim may get libraries
//! from a different release.

use cudnn_probe::facts::PathFacts;
use cudnn_probe::release_facts::{has_library, opens_library};
use cudnn_probe::{Library, Version};

use super::{LdSoProcess, is_missing};
use crate::library_names::CudnnName;
use crate::opens::outcome::{Damaged, OpenedFile, Opens, Use, damage};

/// Opens the libraries that this shim and then graph open. Adds found, missing and damaged files.
pub(super) fn open(process: &mut LdSoProcess, shim: &OpenedFile, uses: Use, opens: &mut Opens) {
    let Some(from) = process.simulation.objects().iter().position(|object| object.path == shim.path) else { return };
    if CudnnName::parse(&shim.name).is_some_and(|name| name.major == Some(8)) {
        // For a convolution, cuDNN 8 opens these.
        for name in ["libcudnn_ops_infer.so.8", "libcudnn_cnn_infer.so.8"] {
            open_one(process, &[name.to_owned()], from, opens);
        }
        return;
    }
    let (by_shim, by_graph) = uses.libraries();
    open_all(process, by_shim, shim.version, from, opens);
    if let Some(graph) = process.simulation.loaded(Library::Graph.linux_name()) {
        let version = process.simulation.objects().get(graph).and_then(|graph| process.known.release(&graph.path));
        open_all(process, by_graph, version, graph, opens);
    }
    if uses == Use::All {
        open_companions(process);
    }
    opens.add_damage(&process.known);
}

/// Opens the CUDA libraries that engines open by name.
fn open_companions(process: &mut LdSoProcess) {
    let Some(cuda_major) = process.cuda_major else { return };
    for (engine, stem) in [(Library::EnginesPrecompiled, "libcublasLt"), (Library::EnginesRuntimeCompiled, "libnvrtc")]
    {
        if let Some(engine) = process.simulation.loaded(engine.linux_name()) {
            process.dlopen(&format!("{stem}.so.{cuda_major}"), engine, None);
        }
    }
}

/// Opens the libraries that an object of this release opens.
fn open_all(
    process: &mut LdSoProcess,
    libraries: &[Library],
    version: Option<Version>,
    from: usize,
    opens: &mut Opens,
) {
    // If the release is unknown, the names with a full version fail, which is harmless.
    let version = version.unwrap_or(Version::new(9, 0, 0));
    for library in libraries.iter().filter(|library| opens_library(version, **library)) {
        let missing = opens.missing.len();
        open_one(process, &library.dlopen_names(version), from, opens);
        if !has_library(version, *library) {
            opens.missing.truncate(missing);
        }
    }
}

fn open_one(process: &mut LdSoProcess, names: &[String], from: usize, opens: &mut Opens) {
    for name in names {
        let before = process.simulation.lookups().len();
        let is_loaded = process.dlopen(name, from, None);
        let lookups = process.simulation.lookups().get(before..).unwrap_or_default();
        // Users need to know about a damaged file or missing dependencies first.
        if let Some(damaged) = lookups.first().and_then(Damaged::of) {
            opens.damaged.push(damaged);
            return;
        }
        let needs = lookups.iter().skip(1).filter(|lookup| !is_loaded && is_missing(lookup));
        let needs: Vec<String> = needs.map(|lookup| lookup.name.clone()).collect();
        if is_loaded || !needs.is_empty() {
            opens.cudnn.extend(lookups.first().and_then(|lookup| process.opened(lookup)));
            opens.missing.extend(needs);
            return;
        }
    }
    // ld.so skips unreadable files and dangling links.
    let soname = names.iter().find(|name| name.ends_with(".so.9")).or(names.first());
    let opener = process.simulation.objects().get(from).map(|opener| opener.path.as_path());
    let beside = opener.zip(soname).map(|(opener, soname)| opener.with_file_name(soname));
    match beside.filter(|file| file.path_exists()).and_then(|file| damage(&file, &process.known)) {
        Some(damaged) => opens.damaged.push(damaged),
        None => opens.missing.extend(soname.cloned()),
    }
}
