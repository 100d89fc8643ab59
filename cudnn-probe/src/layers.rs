//! Finds the files of layers that the environment requests, without loading them.

use crate::facts::{self, PathFacts};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use cudnn_os::files::{bytes_of, path_from_bytes};

use crate::escape::shown_path;
use crate::host::Host;

#[cfg(feature = "serde")]
crate::portable!(LayerError);

/// A comma-separated list of layers to enable, starting with the outermost. Entries are names or absolute paths.
pub const LAYERS_VARIABLE: &str = "CUDNN_LAYERS";

/// Additional directories to search for named layers first, separated like in `PATH`.
pub const LAYER_PATH_VARIABLE: &str = "CUDNN_LAYER_PATH";

/// The file next to the drop-in with a list of layers for programs without [`LAYERS_VARIABLE`], in the same format.
/// `cudnn-doctor install --layers` writes it.
pub const LAYERS_FILE: &str = "cudnn_layers.list";

/// The file next to the drop-in with the rankings of the layer `tuned`, for programs without `CUDNN_TUNED`.
/// `cudnn-doctor install --tuned` writes it.
pub const TUNED_FILE: &str = "cudnn_layers.tuned.json";

/// The maximum size of the list in bytes.
const MAX_LIST: u64 = 4096;

/// The library with the layers of this project, without prefix and suffix.
const BUILT_IN: &str = "cudnn_layers";

/// The start of the library name of other layers, without prefix.
const STEM: &str = "cudnn_layer_";

/// The layers of this project.
const BUILT_IN_LAYERS: &[&str] = &["capture", "errata", "explain", "plans", "trace", "tuned", "validate"];

/// A requested layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RequestedLayer {
    /// The name or path as requested.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub name: OsString,
    /// The files that may contain the layer, or the reason why there are none. Use the first file that really contains
    /// it.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub files: Result<Vec<PathBuf>, LayerError>,
}

/// The reason why a requested layer was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum LayerError {
    /// The request is neither a name nor an absolute path.
    NotAName,
    /// The file is missing.
    FileMissing,
    /// The layer is not in any of the directories.
    NotFound {
        /// The files that were tried.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        tried: Vec<PathBuf>,
    },
}

impl std::error::Error for LayerError {}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayerError::NotAName => {
                f.write_str("is neither a name (letters, digits, \"_\" and \"-\") nor an absolute path")
            }
            LayerError::FileMissing => f.write_str("does not exist or is not a regular file"),
            LayerError::NotFound { tried } if tried.is_empty() => {
                f.write_str("was not found, because there is no directory to search")
            }
            LayerError::NotFound { tried } => {
                f.write_str("was not found as ")?;
                for (index, path) in tried.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{}", shown_path(path))?;
                }
                Ok(())
            }
        }
    }
}

/// Returns the layers that [`LAYERS_VARIABLE`] requests, or else [`LAYERS_FILE`]. `loader_dir` is the directory of the
/// library that contains the loader, for example of the drop-in.
#[must_use]
pub fn requested_layers(host: &Host, loader_dir: Option<&Path>) -> Vec<RequestedLayer> {
    let installed = || installed_layers(loader_dir?);
    let Some(list) = host.variable(LAYERS_VARIABLE).or_else(installed) else { return Vec::new() };
    let dirs = layer_dirs(host, loader_dir);
    let bytes = bytes_of(&list);
    let names = bytes.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    let names = names.map(|name| path_from_bytes(name).into_os_string());
    names.map(|name| RequestedLayer { files: files(&name, &dirs), name }).collect()
}

/// Returns the list in [`LAYERS_FILE`] of a directory, if it is not empty. It is as trustworthy as the drop-in next to it,
/// and also used in secure-execution mode, unless it may come from another user than root or the owner of the directory.
#[must_use]
pub fn installed_layers(dir: &Path) -> Option<OsString> {
    let file = dir.join(LAYERS_FILE);
    let list = facts::read_bounded(&file, MAX_LIST).ok()?;
    let list = list.trim_ascii();
    let is_used = !list.is_empty() && facts::is_trusted_beside(&file, dir);
    is_used.then(|| path_from_bytes(list).into_os_string())
}

/// Returns why programs ignore the [`LAYERS_FILE`] of a directory, as a clause. `None` if they use it, or if it is missing
/// or empty.
#[must_use]
pub fn ignored_list(dir: &Path) -> Option<String> {
    let file = dir.join(LAYERS_FILE);
    facts::symlink_metadata(&file).ok()?;
    match facts::read_bounded(&file, MAX_LIST) {
        Err(error) => Some(format!("it cannot be read ({error})")),
        Ok(list) if list.trim_ascii().is_empty() || facts::is_trusted_beside(&file, dir) => None,
        Ok(_) if facts::is_like_tmp(dir) => Some("other users can add files to its directory".to_owned()),
        Ok(_) => Some("another user than root and the owner of its directory owns it or can write to it".to_owned()),
    }
}

/// Returns the directories to search for named layers, in order.
#[must_use]
pub fn layer_dirs(host: &Host, loader_dir: Option<&Path>) -> Vec<PathBuf> {
    let listed = host.variable(LAYER_PATH_VARIABLE).unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&listed).collect();
    // Skip directories like /tmp, where any user can add files.
    dirs.extend(loader_dir.or(host.program_dir()).filter(|dir| !facts::is_like_tmp(dir)).map(Path::to_owned));
    // Relative directories would depend on the working directory.
    dirs.retain(|dir| dir.is_absolute());
    // Remove duplicates, because a layer that fails to start must not be started again from the same file.
    let mut seen = Vec::new();
    dirs.retain(|dir| {
        let real = facts::canonicalize(dir).unwrap_or_else(|_| dir.clone());
        let is_new = !seen.contains(&real);
        seen.push(real);
        is_new
    });
    dirs
}

/// Returns the names and files of all layers in these directories.
#[must_use]
pub fn available_layers(dirs: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for dir in dirs {
        let Ok(entries) = facts::read_dir(dir) else { continue };
        for file in entries.into_iter().map(|entry| entry.path()) {
            let Some(stem) = file.file_name().and_then(OsStr::to_str).and_then(stem) else { continue };
            if stem == BUILT_IN {
                found.extend(BUILT_IN_LAYERS.iter().map(|name| ((*name).to_owned(), file.clone())));
            } else if let Some(name) = stem.strip_prefix(STEM) {
                found.push((name.to_owned(), file.clone()));
            }
        }
    }
    found.sort();
    found
}

/// Returns the symbol that the library of this project exports if it contains this layer, or `None` for other
/// libraries.
#[must_use]
pub fn marker(name: &str, file: &Path) -> Option<String> {
    let stem = file.file_name().and_then(OsStr::to_str).and_then(stem)?;
    (stem == BUILT_IN).then(|| format!("{STEM}{name}"))
}

/// Returns the file name of a library without prefix and suffix.
fn stem(file_name: &str) -> Option<&str> {
    file_name.strip_prefix(DLL_PREFIX)?.strip_suffix(DLL_SUFFIX)
}

fn files(name: &OsStr, dirs: &[PathBuf]) -> Result<Vec<PathBuf>, LayerError> {
    let path = Path::new(name);
    if path.is_absolute() {
        return if path.leads_to_file() { Ok(vec![path.to_owned()]) } else { Err(LayerError::FileMissing) };
    }
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let Some(name) = name.to_str().filter(|name| name.as_bytes().iter().all(is_letter)) else {
        return Err(LayerError::NotAName);
    };
    let file_names =
        [format!("{STEM}{name}"), BUILT_IN.to_owned()].map(|stem| format!("{DLL_PREFIX}{stem}{DLL_SUFFIX}"));
    let tried: Vec<PathBuf> =
        dirs.iter().flat_map(|dir| file_names.iter().map(|file_name| dir.join(file_name))).collect();
    let found: Vec<PathBuf> = tried.iter().filter(|path| path.leads_to_file()).cloned().collect();
    if found.is_empty() { Err(LayerError::NotFound { tried }) } else { Ok(found) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn names(requested: &[RequestedLayer]) -> Vec<&str> {
        requested.iter().map(|layer| layer.name.to_str().unwrap()).collect()
    }

    #[test]
    fn the_file_next_to_the_drop_in_counts_unless_the_variable_is_set() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-layers-file-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join(LAYERS_FILE), "tuned,plans\n").unwrap();
        let requested = |host: Host| requested_layers(&host, Some(&dir));
        let sandbox = || Host::sandbox("/nowhere");
        let (found, in_secure_mode) = (requested(sandbox()), requested(sandbox().secure_execution(true)));
        let [other, none] = ["trace", ","].map(|list| requested(sandbox().env(LAYERS_VARIABLE, list)));
        std::fs::write(dir.join(LAYERS_FILE), "x,".repeat(4000)).unwrap();
        let too_large = requested(sandbox());
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!((names(&found), names(&in_secure_mode)), (vec!["tuned", "plans"], vec!["tuned", "plans"]));
        assert_eq!((names(&other), none, too_large), (vec!["trace"], Vec::new(), Vec::new()));
        assert!(requested_layers(&sandbox(), None).is_empty());
    }

    #[cfg(all(test, target_os = "linux"))]
    #[test]
    fn a_list_from_another_user_is_ignored() {
        use std::os::unix::fs::{chown, symlink};

        let dir = std::env::temp_dir().join(format!("cudnn-probe-foreign-list-{}", std::process::id()));
        let list = dir.join(LAYERS_FILE);
        std::fs::create_dir(&dir).unwrap();
        let requested = |is_secure| {
            let host = Host::sandbox("/nowhere").secure_execution(is_secure);
            requested_layers(&host, Some(&dir)).len()
        };
        let both = || [false, true].map(requested);
        let reason = || ignored_list(&dir).unwrap_or_default();
        std::fs::write(&list, "trace").unwrap();
        cudnn_os::files::set_mode(&dir, 0o1777).unwrap();
        let (in_tmp, open) = (both(), reason());
        cudnn_os::files::set_mode(&dir, 0o755).unwrap();
        let (own, none) = (both(), reason());
        cudnn_os::files::set_mode(&list, 0o666).unwrap();
        let writable = (both(), reason());
        cudnn_os::files::set_mode(&list, 0o644).unwrap();
        // Only root can give files away.
        let foreign = chown(&list, Some(12345), None).map(|()| (both(), reason()));
        let linked = std::fs::rename(&list, dir.join("other")).and_then(|()| symlink("other", &list)).map(|()| both());
        let of_owner = foreign.as_ref().ok().map(|_| chown(&dir, Some(12345), None).map(|()| both()).unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!((in_tmp, own, writable.0), ([0, 0], [1, 1], [0, 0]));
        assert!(writable.1.contains("owns it or can write to it"), "{}", writable.1);
        assert_eq!((open.as_str(), none.as_str()), ("other users can add files to its directory", ""));
        match foreign {
            Ok((foreign, reason)) => {
                assert_eq!((foreign, linked.unwrap(), of_owner), ([0, 0], [0, 0], Some([1, 1])));
                assert_eq!(writable.1, reason);
            }
            Err(error) => eprintln!("NOT RUN: files of another user: {error}"),
        }
    }

    #[test]
    fn the_list_is_taken_in_its_order_without_blanks() {
        let host = Host::sandbox("/nowhere").env(LAYERS_VARIABLE, " trace, ,plans,");
        assert_eq!(names(&requested_layers(&host, None)), ["trace", "plans"]);
        assert_eq!(requested_layers(&Host::sandbox("/nowhere"), None), []);
    }

    #[test]
    fn secure_execution_mode_requests_nothing() {
        let host = Host::sandbox("/nowhere").env(LAYERS_VARIABLE, "trace").secure_execution(true);
        assert_eq!(requested_layers(&host, None), []);
    }

    #[test]
    fn only_names_and_absolute_paths_are_taken() {
        let host = Host::sandbox("/nowhere").env(LAYERS_VARIABLE, "./a.so,../b,a/b,a b,..");
        for layer in requested_layers(&host, Some(Path::new("/"))) {
            assert_eq!(layer.files, Err(LayerError::NotAName), "{:?}", layer.name);
        }
    }

    #[test]
    fn a_directory_to_which_each_user_adds_files_is_not_beside_the_loader() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-shared-layers-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let host = Host::sandbox("/nowhere").executable(dir.join("program"));
        for (mode, expected) in [(0o755, true), (0o1777, false)] {
            if cudnn_os::files::set_mode(&dir, mode).is_err() {
                // This system does not have such directories.
                break;
            }
            for loader_dir in [None, Some(dir.as_path())] {
                assert_eq!(layer_dirs(&host, loader_dir).contains(&dir), expected, "{mode:o}");
            }
        }
        std::fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn a_directory_that_is_named_twice_is_searched_once() {
        let dir = std::env::temp_dir();
        let (again, missing) = (dir.join("."), dir.join("cudnn-probe-missing"));
        let listed = std::env::join_paths([&dir, &again, &missing]).unwrap();
        let host = Host::sandbox("/nowhere").env(LAYER_PATH_VARIABLE, listed);
        assert_eq!(layer_dirs(&host, Some(&missing)), [dir, missing.clone()]);
    }

    #[test]
    fn a_name_is_looked_up_in_the_listed_directories_and_beside_the_loader() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-layers-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let [listed, beside] = ["listed", "beside"].map(|name| dir.join(name));
        let file = |dir: &Path, stem: &str| dir.join(format!("{DLL_PREFIX}{stem}{DLL_SUFFIX}"));
        for dir in [&listed, &beside] {
            std::fs::create_dir(dir).unwrap();
        }
        std::fs::write(file(&listed, "cudnn_layer_mine"), "").unwrap();
        std::fs::write(file(&beside, "cudnn_layers"), "").unwrap();
        let host = Host::sandbox("/nowhere")
            .env(LAYERS_VARIABLE, "mine,trace")
            .env(LAYER_PATH_VARIABLE, std::env::join_paths([Path::new("relative"), &listed]).unwrap());
        let requested = requested_layers(&host, Some(&beside));
        let found: Vec<_> = requested.into_iter().map(|layer| layer.files.unwrap()).collect();
        let built_in = file(&beside, "cudnn_layers");
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, [vec![file(&listed, "cudnn_layer_mine"), built_in.clone()], vec![built_in]]);
    }
}
