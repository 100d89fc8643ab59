//! Finds the page list for this program. A list is trusted only if no other user can write to it, because it makes this
//! process open files.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use cudnn_os::environment::is_secure_execution;
use cudnn_os::{IS_LINUX, pages};

use super::{PageList, format};

/// The variable with the path of a page list, for example in a container image.
pub const FILE_VARIABLE: &str = "CUDNN_LOADER_PAGES";

/// The variables that name a cache directory, and the directory of compiled plans below it. Only Linux uses page lists.
const CACHES: &[(&str, &str)] =
    if IS_LINUX { &[("XDG_CACHE_HOME", "cudnn-plans"), ("HOME", ".cache/cudnn-plans")] } else { &[] };

/// The locations of page lists from the environment. The environment is read when a preload starts, rather than in the
/// threads.
#[derive(Clone, Debug, Default)]
pub(in crate::preload) struct ListLocations {
    file: Option<PathBuf>,
    /// The directory of compiled plans.
    dir: Option<PathBuf>,
}

impl ListLocations {
    pub(in crate::preload) fn from_environment() -> Self {
        // In secure-execution mode, the environment comes from a less privileged user.
        if is_secure_execution() {
            return ListLocations::default();
        }
        let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        // The same choice as for stored plans.
        let dir = match variable("CUDNN_PLANS_DIR") {
            Some(dir) => absolute(dir),
            None => CACHES.iter().find_map(|(name, below)| Some(variable(name).and_then(absolute)?.join(below))),
        };
        ListLocations { file: variable(FILE_VARIABLE).map(PathBuf::from), dir }
    }

    /// Returns the list for this installation and program, or `None` without a list.
    ///
    /// # Errors
    /// Returns the reason why an existing list is unusable.
    pub(in crate::preload) fn find(&self, installation: &Path) -> Result<Option<PageList>, String> {
        let (file, dir) = match (&self.file, &self.dir) {
            (Some(file), _) => (file.clone(), None),
            (None, Some(dir)) => {
                let program = program_dir();
                let files = [program.as_deref(), None].map(|program| dir.join(file_name(installation, program)));
                let Some(file) = files.into_iter().find(|file| file.exists()) else { return Ok(None) };
                (file, Some(dir))
            }
            (None, None) => return Ok(None),
        };
        let trusted = dir.map_or(Ok(()), |dir| pages::check_directory(dir));
        let list = trusted.and_then(|()| read(&file, installation));
        list.map(Some).map_err(|error| format!("{}: {error}", file.display()))
    }
}

fn read(file: &Path, installation: &Path) -> io::Result<PageList> {
    if !file.is_absolute() {
        return Err(io::Error::other("it is a relative path"));
    }
    let mut list = PageList::decode(&pages::read_trusted(file)?)?;
    if list.installation != installation {
        return Err(io::Error::other("it was recorded for a different cuDNN"));
    }
    // After an update of cuDNN, the list is outdated and must be recorded again. An updated driver only removes the
    // driver's file from the list. Other files in the list are ignored, because this process has no reason to open
    // them.
    let (mut is_old, mut has_cudnn) = (false, false);
    list.files.retain(|file| {
        let is_kept = is_wanted(&file.path) && file.is_current();
        if file.path.starts_with(installation) {
            is_old |= !is_kept;
            has_cudnn = true;
        }
        is_kept
    });
    if is_old || !has_cudnn { Err(io::Error::other("cuDNN has changed since")) } else { Ok(list) }
}

/// Returns the directory of this process's program.
fn program_dir() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_owned)
}

/// Returns whether the path is a library of cuDNN, CUDA or the driver.
pub(super) fn is_wanted(path: &Path) -> bool {
    let name = path.file_name().map_or(&[][..], |name| name.as_encoded_bytes());
    name.starts_with(b"libcu") || name.starts_with(b"libnv")
}

/// Returns the name of a list's file. If two lists collide, the newer one replaces the older; the contents identify the
/// installation.
pub(super) fn file_name(installation: &Path, program: Option<&Path>) -> String {
    let mut bytes = installation.as_os_str().as_encoded_bytes().to_vec();
    bytes.push(0);
    bytes.extend(program.map_or(&[][..], |program| program.as_os_str().as_encoded_bytes()));
    format!("pages-{:016x}.list", format::checksum(&bytes))
}
