//! Opens the libraries that a framework's Python code opens by path before the framework's own, ignoring errors like
//! it.

use cudnn_probe::facts::{self, PathFacts};
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use cudnn_probe::FileIdentity;
use cudnn_probe::ld_so::Rule;

use super::LdSoProcess;
use crate::files::{file_name, matching};
use crate::framework::kind::{FirstWheel, Release, ToolkitOrWheel, Wheel, release_of};
use crate::opens::outcome::SearchRule;
use crate::opens::process::Import;

/// The maximum numbers of entries and directories to examine below a toolkit.
const MAX_ENTRIES: usize = 1 << 15;
const MAX_DIRS: usize = 1 << 13;

/// Simulates the Python code of this release. Returns directories that have more files than were examined.
pub(super) fn run(process: &mut LdSoProcess, import: &Import) -> Vec<PathBuf> {
    let Import { kind, version, dir, .. } = import;
    let (code, cuda) = (&kind.opens_first, import.cuda_major());
    if let Some(opens) = &code.dependencies {
        let file = dir.join(opens.file);
        let since = |since: Release| release_of(version).is_none_or(|release| release >= since);
        if !process.open_path(&file, SearchRule::Python) {
            open_wheels(process, &opens.wheels, cuda);
            process.open_path(&file, SearchRule::Python);
        } else if !has_loaded(process, "libcudart.so") {
            // The framework was built without the CUDA runtime.
        } else if since(opens.always_since) {
            open_wheels(process, &opens.wheels, cuda);
        } else if since(opens.compilers_since) {
            open_wheels(process, &opens.compilers, cuda);
        }
    }
    for (module, library) in &code.nvidia_modules {
        let mut dirs = process.environment.import_dirs.iter().map(|dir| dir.join("nvidia").join(module));
        if let Some(module) = dirs.find(|dir| dir.leads_to_dir()) {
            process.open_path(&module.join("lib").join(library), SearchRule::Python);
        }
    }
    if let Some(opens) = &code.first_wheel {
        open_first_wheel(process, version, opens);
    }
    let mut half_searched = Vec::new();
    if let Some(opens) = &code.toolkit_or_wheel {
        open_toolkit_or_wheel(process, dir, opens, &mut half_searched);
    }
    half_searched
}

/// Opens each library from the first import directory with it: `nvidia/LIB/lib`, `nvidia/cuMAJOR/lib`, `LIB/lib`.
fn open_wheels(process: &mut LdSoProcess, libraries: &[Wheel], cuda: Option<u32>) {
    for (module, start) in libraries {
        let pattern = format!("lib/{start}*");
        let file = process.environment.import_dirs.iter().find_map(|dir| {
            let of_major = cuda.map(|major| dir.join(format!("nvidia/cu{major}")));
            let below = [Some(dir.join("nvidia").join(module)), of_major, Some(dir.join(module))];
            below.iter().flatten().flat_map(|dir| matching(dir, &pattern)).find(|file| ends_in_digit(file))
        });
        if let Some(file) = file {
            process.open_path(&file, SearchRule::Python);
        }
    }
}

/// Simulates cudnn-frontend's search.
fn open_first_wheel(process: &mut LdSoProcess, version: &str, opens: &FirstWheel) {
    let path = process.host.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let is_path_first = release_of(version).is_none_or(|release| release >= opens.library_path_since);
    let searched = std::env::split_paths(&path).filter(|dir| is_path_first && !dir.as_os_str().is_empty());
    let searched = searched.map(|dir| (dir, SearchRule::LdSo(Rule::LibraryPath)));
    let environment = &process.environment;
    let own_dir = environment.import_dirs.iter().find(|dir| dir.starts_with(&environment.root));
    let wheels = own_dir.into_iter().flat_map(|own| opens.dirs.iter().map(move |dir| own.join("nvidia").join(dir)));
    let wheels = wheels.map(|dir| (dir.join("lib"), SearchRule::Python));
    let mut files = searched.chain(wheels).map(|(dir, by)| (dir.join(opens.library), by));
    match files.find(|(file, _)| file.target_exists()) {
        Some((file, by)) => process.open_path(&file, by),
        None => process.dlopen(opens.library, 0, None),
    };
}

fn ends_in_digit(file: &Path) -> bool {
    file.as_os_str().as_encoded_bytes().last().is_some_and(u8::is_ascii_digit)
}

/// Simulates Transformer Engine's search. Adds directories that were only partly searched to `half_searched`.
fn open_toolkit_or_wheel(
    process: &mut LdSoProcess,
    dir: &Path,
    opens: &ToolkitOrWheel,
    half_searched: &mut Vec<PathBuf>,
) {
    let roots = opens.variables.iter();
    let roots =
        roots.filter_map(|name| Some((PathBuf::from(process.host.variable(name)?), SearchRule::Variable(name))));
    let roots: Vec<(PathBuf, SearchRule)> =
        roots.chain([(process.host.system(opens.toolkit), SearchRule::Python)]).collect();
    for (root, by) in roots {
        let (files, is_complete) = shims_below(&root);
        if !is_complete && !half_searched.contains(&root) {
            half_searched.push(root);
        }
        if files.last().is_some_and(|file| process.open_path(file, by)) {
            return;
        }
    }
    if process.dlopen("libcudnn.so", 0, None) {
        return;
    }
    let import_dir = dir.parent().unwrap_or(dir);
    for file in opens.wheels.iter().flat_map(|wheel| matching(&import_dir.join(wheel), "lib*.so.*")) {
        process.open_path(&file, SearchRule::Python);
    }
}

/// Returns the files `libcudnn.so*` below a directory in alphabetical order, and whether all directories were examined.
/// Like Python's `glob`, follows links and skips hidden names. The search is breadth-first, so that limits cut off the
/// deepest directories.
fn shims_below(root: &Path) -> (Vec<PathBuf>, bool) {
    let (mut files, mut is_complete) = (Vec::new(), true);
    let mut dirs = VecDeque::from([root.to_owned()]);
    // A link may lead to a parent directory. Resolving paths would be slow in deep directories.
    let mut known: HashSet<FileIdentity> = FileIdentity::of(root).into_iter().collect();
    let mut entries = 0;
    while let Some(dir) = dirs.pop_front() {
        for entry in facts::read_dir(&dir).into_iter().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                files.sort();
                return (files, false);
            }
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let Some(kind) = entry.file_type().ok().filter(|_| !name.starts_with('.')) else { continue };
            if kind.is_dir() || kind.is_symlink() && path.leads_to_dir() {
                let is_new = FileIdentity::of(&path).is_some_and(|identity| known.insert(identity));
                let is_allowed = known.len() <= MAX_DIRS;
                is_complete &= !is_new || is_allowed;
                dirs.extend(Some(path).filter(|_| is_new && is_allowed));
            } else if name.starts_with("libcudnn.so")
                && !path.to_string_lossy().contains("stub")
                && path.leads_to_file()
            {
                files.push(path);
            }
        }
    }
    files.sort();
    (files, is_complete)
}

fn has_loaded(process: &LdSoProcess, start: &str) -> bool {
    process.simulation.objects().iter().any(|object| file_name(&object.path).starts_with(start))
}
