//! Finds names of cuDNN's shim in the data of programs, which contain the name if they open the shim with dlopen,
//! unless they assemble it at run time. A match is only a hint that the program opens the library.

use cudnn_cli::escape::Printable;
use std::path::{Path, PathBuf};

use cudnn_frameworks::shim_names_in;
use cudnn_probe::ld_so::Object;
use cudnn_probe::parts_without_gpu_code;

/// The maximum number of bytes to read from all files, and of names to return.
const MAX_LEN: u64 = 512 << 20;
const MAX_NAMES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedShim {
    /// The name `libcudnn.so.9`, or the path of an existing file.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// The index of the file among the objects of a simulation.
    pub(crate) object: usize,
}

impl NamedShim {
    pub(crate) fn evidence(&self) -> String {
        let file = self.file.printable();
        format!("{file} opens {} itself, according to its read-only data, which is a hint and no proof", self.name)
    }
}

/// Returns the names in these objects, once per object, with versioned names first. Skips names that the object links
/// to, and cuDNN's own libraries.
pub(crate) fn names_in(objects: &[Object]) -> Vec<NamedShim> {
    let mut left = MAX_LEN;
    let is_cudnn = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libcudnn"));
    let others = objects.iter().enumerate().filter(|(_, object)| !is_cudnn(&object.path));
    let found = others.flat_map(|(index, object)| {
        let names = names(&object.path, &mut left).into_iter().filter(|name| !object.needed().contains(name));
        names.map(move |name| NamedShim { name, file: object.path.clone(), object: index })
    });
    found.take(MAX_NAMES).collect()
}

fn names(file: &Path, left: &mut u64) -> Vec<String> {
    let parts = parts_without_gpu_code(file).unwrap_or_default();
    let length: u64 = parts.iter().map(|part| part.end.saturating_sub(part.start)).sum();
    if length > *left {
        return Vec::new();
    }
    *left -= length;
    let mut names = shim_names_in(file, &parts);
    // The most specific name contains the most numbers.
    names.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    names
}
