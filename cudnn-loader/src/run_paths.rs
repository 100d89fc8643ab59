//! The folders that objects of this process name as their own to search, where cuDNN is in them: what a program that is
//! linked to NVIDIA's shim would have got, when this code stands in that shim's place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudnn_probe::Library;

use crate::linker::{self, LoadedObjects, RunPath};

/// Each folder that holds a cuDNN, with the object whose folder it is; those of objects that need the shim first.
pub(crate) fn dirs_with_cudnn(loaded: LoadedObjects) -> Vec<(PathBuf, PathBuf)> {
    let paths = loaded.run_paths(Library::Shim.file_name());
    let (needing, others): (Vec<RunPath>, Vec<RunPath>) = paths.into_iter().partition(|path| path.needs);
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for RunPath { of, dirs: folders, .. } in needing.into_iter().chain(others) {
        let of = if of.as_os_str().is_empty() { std::env::current_exe().unwrap_or_default() } else { of };
        let Some(origin) = of.parent() else { continue };
        for folder in folders.split(|byte| *byte == b':').filter_map(|folder| expand_origin(folder, origin)) {
            if seen.contains(&folder) {
                continue;
            }
            if folder.join(Library::Graph.file_name()).symlink_metadata().is_ok() {
                found.push((folder.clone(), of.clone()));
            }
            seen.push(folder);
        }
    }
    found
}

/// The run path of one loaded library.
pub(crate) fn dirs_of(file: &Path) -> Vec<PathBuf> {
    let paths = linker::list().run_paths(Library::Shim.file_name());
    let Some((path, origin)) = paths.iter().find(|path| path.of == file).zip(file.parent()) else { return Vec::new() };
    path.dirs.split(|byte| *byte == b':').filter_map(|folder| expand_origin(folder, origin)).collect()
}

/// `$ORIGIN/../lib` with the object's folder in it; nothing for what is relative or has another of the linker's words.
fn expand_origin(folder: &[u8], origin: &Path) -> Option<PathBuf> {
    let goes_on = |rest: &&[u8]| rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bare = folder.strip_prefix(b"$ORIGIN").filter(|rest| !goes_on(rest));
    let path = match bare.or_else(|| folder.strip_prefix(b"${ORIGIN}")) {
        // Put together as the linker does, letter by letter.
        Some(rest) => PathBuf::from(OsStr::from_bytes(&[origin.as_os_str().as_bytes(), rest].concat())),
        None => PathBuf::from(OsStr::from_bytes(folder)),
    };
    (path.is_absolute() && !path.as_os_str().as_bytes().contains(&b'$')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_word_for_the_objects_own_folder_is_expanded() {
        let expanded = |folder: &str| expand_origin(folder.as_bytes(), Path::new("/app/lib"));
        assert_eq!(expanded("$ORIGIN"), Some("/app/lib".into()));
        assert_eq!(expanded("${ORIGIN}/../../nvidia"), Some("/app/lib/../../nvidia".into()));
        assert_eq!(expanded("$ORIGIN//../zzz"), Some("/app/lib//../zzz".into()));
        assert_eq!(expanded("$ORIGIN-x"), Some("/app/lib-x".into()));
        assert_eq!(expanded("/opt/cudnn"), Some("/opt/cudnn".into()));
        for nothing in ["", "lib", "/opt/$LIB", "$PLATFORM", "$ORIGINAL"] {
            assert_eq!(expanded(nothing), None, "{nothing}");
        }
    }
}
