//! What a framework's Python code opens by path before its libraries, step by step. Errors are ignored, as there.

use std::path::{Path, PathBuf};

use super::By;
use super::import::Process;
use crate::built_for::BuiltFor;
use crate::kind::{Kind, PythonStep, Wheel, matching, release_of};

/// The most entries and the depth of a toolkit's directory that are searched.
const MAX_ENTRIES: usize = 1 << 14;
const MAX_DEPTH: usize = 6;

/// Does what the Python code of this release does.
pub(super) fn run(process: &mut Process, kind: &Kind, version: &str, dir: &Path, built_for: &BuiltFor) {
    let cuda = built_for.cuda.as_ref().map(|cuda| cuda.value.0);
    for step in kind.opens_first {
        match step {
            PythonStep::Dependencies { file, on_success, on_failure } => {
                let file = dir.join(file);
                if !open(process, &file, By::Python) {
                    wheels(process, on_failure, cuda);
                    open(process, &file, By::Python);
                    continue;
                }
                let has_cudart = has_loaded(process, "libcudart.so");
                let release = release_of(version);
                let of_release = on_success.iter().find(|(since, _)| release.is_none_or(|release| release >= *since));
                if let Some((_, libraries)) = of_release.filter(|_| has_cudart) {
                    wheels(process, libraries, cuda);
                }
            }
            PythonStep::NvidiaModules(libraries) => {
                for (module, library) in *libraries {
                    let dirs = process.environment.import_dirs.iter().map(|dir| dir.join("nvidia").join(module));
                    let found = dirs.into_iter().find(|dir| dir.is_dir());
                    if let Some(module) = found {
                        open(process, &module.join("lib").join(library), By::Python);
                    }
                }
            }
            PythonStep::ToolkitOrWheel { variables, toolkit, wheels } => {
                toolkit_or_wheel(process, dir, variables, toolkit, wheels);
            }
        }
    }
}

/// Opens each library from the first import directory that has it: `nvidia/LIB/lib`, `nvidia/cuMAJOR/lib`, `LIB/lib`.
fn wheels(process: &mut Process, libraries: &[Wheel], cuda: Option<u32>) {
    for (module, start) in libraries {
        let pattern = format!("{start}*");
        let file = process.environment.import_dirs.iter().find_map(|dir| {
            let below = [
                Some(dir.join("nvidia").join(module)),
                cuda.map(|major| dir.join("nvidia").join(format!("cu{major}"))),
                Some(dir.join(module)),
            ];
            let mut files = below.into_iter().flatten().flat_map(|dir| matching(&dir.join("lib"), &pattern));
            files.find(|file| ends_in_digit(file))
        });
        if let Some(file) = file {
            open(process, &file, By::Python);
        }
    }
}

fn ends_in_digit(file: &Path) -> bool {
    file.as_os_str().as_encoded_bytes().last().is_some_and(u8::is_ascii_digit)
}

/// Transformer Engine's search.
fn toolkit_or_wheel(process: &mut Process, dir: &Path, variables: &[&'static str], toolkit: &str, wheels: &[&str]) {
    let roots =
        variables.iter().filter_map(|name| Some((PathBuf::from(process.host.variable(name)?), By::Variable(name))));
    let toolkit = process.host.system(toolkit);
    let roots: Vec<(PathBuf, By)> = roots.chain([(toolkit, By::Python)]).collect();
    for (root, by) in roots {
        let found = shims_below(&root);
        if found.last().is_some_and(|file| open(process, file, by)) {
            return;
        }
    }
    let is_found = process.simulation.dlopen("libcudnn.so", 0);
    process.note_lookups(None);
    if is_found {
        return;
    }
    let Some(import_dir) = dir.parent().map(Path::to_owned) else { return };
    for file in wheels.iter().flat_map(|wheel| matching(&import_dir.join(wheel), "lib*.so.*")) {
        open(process, &file, By::Python);
    }
}

/// The files `libcudnn.so*` below a directory, in alphabetical order.
fn shims_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![(root.to_owned(), 0)];
    let mut entries = 0;
    while let Some((dir, depth)) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return Vec::new();
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                if depth < MAX_DEPTH {
                    dirs.push((path, depth + 1));
                }
                continue;
            }
            let is_stub = path.to_string_lossy().contains("stub");
            if !is_stub && entry.file_name().to_string_lossy().starts_with("libcudnn.so") && path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// `ctypes.CDLL` with an absolute path.
fn open(process: &mut Process, file: &Path, by: By) -> bool {
    let is_loaded = file.is_file() && process.simulation.dlopen(&file.to_string_lossy(), 0);
    if is_loaded {
        process.note_lookups(Some(by));
    } else {
        process.skip_lookups();
    }
    is_loaded
}

fn has_loaded(process: &Process, start: &str) -> bool {
    process
        .simulation
        .objects()
        .iter()
        .any(|object| object.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
}
