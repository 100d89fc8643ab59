//! The folders that objects of this process name as their own to search, where cuDNN is in them: what a program that is
//! linked to NVIDIA's shim would have got, when this code stands in that shim's place.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudnn_probe::Library;

use crate::linker::{self, RunPath};

/// Each folder that holds a cuDNN, with the object whose folder it is; those of objects that need the shim first.
pub(crate) fn folders() -> Vec<(PathBuf, PathBuf)> {
    let mut paths = linker::run_paths(Library::Shim.file_name());
    paths.sort_by_key(|path| !path.needs);
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for RunPath { of, folders, .. } in paths {
        let of = if of.as_os_str().is_empty() { std::env::current_exe().unwrap_or_default() } else { of };
        let Some(origin) = of.parent() else { continue };
        for folder in folders.split(|byte| *byte == b':').filter_map(|folder| expand(folder, origin)) {
            let holds_cudnn = || folder.join(Library::Graph.file_name()).symlink_metadata().is_ok();
            if seen.insert(folder.clone()) && holds_cudnn() {
                found.push((folder, of.clone()));
            }
        }
    }
    found
}

/// `$ORIGIN/../lib` with the object's folder in it; nothing for what is relative or has another of the linker's words.
fn expand(folder: &[u8], origin: &Path) -> Option<PathBuf> {
    let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|word| folder.strip_prefix(*word));
    let path = match rest {
        Some(rest) => origin.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
        None => PathBuf::from(OsStr::from_bytes(folder)),
    };
    (path.is_absolute() && !path.as_os_str().as_bytes().contains(&b'$')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_word_for_the_objects_own_folder_is_expanded() {
        let expanded = |folder: &str| expand(folder.as_bytes(), Path::new("/app/lib"));
        assert_eq!(expanded("$ORIGIN"), Some("/app/lib".into()));
        assert_eq!(expanded("${ORIGIN}/../../nvidia"), Some("/app/lib/../../nvidia".into()));
        assert_eq!(expanded("/opt/cudnn"), Some("/opt/cudnn".into()));
        for nothing in ["", "lib", "/opt/$LIB", "$PLATFORM"] {
            assert_eq!(expanded(nothing), None, "{nothing}");
        }
    }
}
