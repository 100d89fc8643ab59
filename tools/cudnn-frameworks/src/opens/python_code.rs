//! What a framework's Python code opens by path before its libraries, step by step. Errors are ignored, as there.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use cudnn_probe::FileIdentity;

use super::By;
use super::process::Process;
use crate::built_for::BuiltFor;
use crate::kind::{Kind, PythonStep, Wheel, matching, release_of};

/// The most entries of a toolkit's directory that are examined, and directories below it.
const MAX_ENTRIES: usize = 1 << 15;
const MAX_DIRS: usize = 1 << 13;

/// Does what the Python code of this release does. Returns the directories that it searches and that have more files than
/// were examined.
pub(super) fn run(process: &mut Process, kind: &Kind, version: &str, dir: &Path, built_for: &BuiltFor) -> Vec<PathBuf> {
    let mut half_searched = Vec::new();
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
                half_searched.extend(toolkit_or_wheel(process, dir, variables, toolkit, wheels));
            }
        }
    }
    half_searched
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

/// Transformer Engine's search. Returns the directories that were searched in part.
fn toolkit_or_wheel(
    process: &mut Process,
    dir: &Path,
    variables: &[&'static str],
    toolkit: &str,
    wheels: &[&str],
) -> Vec<PathBuf> {
    let roots =
        variables.iter().filter_map(|name| Some((PathBuf::from(process.host.variable(name)?), By::Variable(name))));
    let toolkit = process.host.system(toolkit);
    let roots: Vec<(PathBuf, By)> = roots.chain([(toolkit, By::Python)]).collect();
    let mut half_searched: Vec<PathBuf> = Vec::new();
    for (root, by) in roots {
        let found = shims_below(&root);
        if found.is_cut && !half_searched.contains(&root) {
            half_searched.push(root);
        }
        if found.files.last().is_some_and(|file| open(process, file, by)) {
            return half_searched;
        }
    }
    let is_found = process.dlopen("libcudnn.so", 0);
    process.note_lookups(None);
    if is_found {
        return half_searched;
    }
    let Some(import_dir) = dir.parent().map(Path::to_owned) else { return half_searched };
    for file in wheels.iter().flat_map(|wheel| matching(&import_dir.join(wheel), "lib*.so.*")) {
        open(process, &file, By::Python);
    }
    half_searched
}

/// The files `libcudnn.so*` below a directory.
#[derive(Debug, Default)]
struct Shims {
    /// In alphabetical order.
    files: Vec<PathBuf>,
    /// There is more below the directory than was examined.
    is_cut: bool,
}

/// Searches as Python's `glob` does: it follows links to directories and passes over names that begin with a dot.
/// Breadth first, so that what the limits cut off is what is deepest.
fn shims_below(root: &Path) -> Shims {
    let mut shims = Shims::default();
    let mut dirs = VecDeque::from([root.to_owned()]);
    // A link may lead to a directory above it. Paths without links would take long for a deep directory.
    let mut known: HashSet<FileIdentity> = FileIdentity::of(root).into_iter().collect();
    let mut entries = 0;
    'search: while let Some(dir) = dirs.pop_front() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                shims.is_cut = true;
                break 'search;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if name.starts_with('.') {
                continue;
            }
            if kind.is_dir() || kind.is_symlink() && path.is_dir() {
                let is_new = FileIdentity::of(&path).is_some_and(|identity| known.insert(identity));
                if is_new && known.len() > MAX_DIRS {
                    shims.is_cut = true;
                } else if is_new {
                    dirs.push_back(path);
                }
                continue;
            }
            let is_stub = path.to_string_lossy().contains("stub");
            if !is_stub && name.starts_with("libcudnn.so") && path.is_file() {
                shims.files.push(path);
            }
        }
    }
    shims.files.sort();
    shims
}

/// `ctypes.CDLL` with an absolute path.
fn open(process: &mut Process, file: &Path, by: By) -> bool {
    let is_loaded = file.is_file() && process.dlopen_file(file);
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
