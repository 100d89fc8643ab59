//! The directories in the run paths of loaded objects that contain a cuDNN: what a program that is linked to NVIDIA's shim
//! would have loaded, if the drop-in did not stand in the shim's place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudnn_probe::Library;

use super::objects::{LoadedObjects, RunPath};

/// Each run path directory that contains a cuDNN, with the object that names it. Objects that depend on the shim come first.
pub(crate) fn dirs_with_cudnn(objects: LoadedObjects) -> Vec<(PathBuf, PathBuf)> {
    let paths = objects.run_paths(Library::Shim.file_name());
    let (dependents, others): (Vec<RunPath>, Vec<RunPath>) = paths.into_iter().partition(|path| path.needs_soname);
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for RunPath { object, dirs, .. } in dependents.into_iter().chain(others) {
        let object = if object.as_os_str().is_empty() { std::env::current_exe().unwrap_or_default() } else { object };
        let Some(origin) = object.parent() else { continue };
        for dir in expand(&dirs, origin) {
            if seen.contains(&dir) {
                continue;
            }
            if dir.join(Library::Graph.file_name()).symlink_metadata().is_ok() {
                found.push((dir.clone(), object.clone()));
            }
            seen.push(dir);
        }
    }
    found
}

/// The run path of one loaded library.
pub(crate) fn dirs_of(file: &Path) -> Vec<PathBuf> {
    let paths = LoadedObjects::snapshot().run_paths(Library::Shim.file_name());
    let path = paths.iter().find(|path| path.object == file).zip(file.parent());
    path.map(|(path, origin)| expand(&path.dirs, origin)).unwrap_or_default()
}

fn expand(dirs: &[u8], origin: &Path) -> Vec<PathBuf> {
    dirs.split(|byte| *byte == b':').filter_map(|dir| expand_origin(dir, origin)).collect()
}

/// `$ORIGIN/../lib` with the object's directory in it; `None` for a relative directory and for other tokens.
fn expand_origin(dir: &[u8], origin: &Path) -> Option<PathBuf> {
    let continues = |rest: &&[u8]| rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bare = dir.strip_prefix(b"$ORIGIN").filter(|rest| !continues(rest));
    let path = match bare.or_else(|| dir.strip_prefix(b"${ORIGIN}")) {
        // Concatenated byte by byte, as ld.so does.
        Some(rest) => PathBuf::from(OsStr::from_bytes(&[origin.as_os_str().as_bytes(), rest].concat())),
        None => PathBuf::from(OsStr::from_bytes(dir)),
    };
    (path.is_absolute() && !path.as_os_str().as_bytes().contains(&b'$')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_expands_to_the_objects_directory() {
        let expanded = |dir: &str| expand_origin(dir.as_bytes(), Path::new("/app/lib"));
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
