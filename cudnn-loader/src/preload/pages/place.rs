//! Where lists are, and which of them is for this program. A list makes this process open files, so it is taken only from
//! files that nobody else can write to. This must not know what a list contains.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{PageList, format};
use crate::platform::libraries::is_secure_execution;
use crate::platform::pages;

/// The variable that names a list's file, for a container image.
pub const FILE_VARIABLE: &str = "CUDNN_LOADER_PAGES";

/// The places for lists that the environment names. It is read when a preload starts, and not by its threads.
#[derive(Clone, Debug, Default)]
pub(in crate::preload) struct Places {
    file: Option<PathBuf>,
    /// The directory of compiled plans.
    dir: Option<PathBuf>,
}

impl Places {
    pub(in crate::preload) fn from_environment() -> Self {
        // The environment of such a process comes from a less privileged user.
        if is_secure_execution() {
            return Places::default();
        }
        let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        // As the store of plans chooses it.
        let dir = match variable("CUDNN_PLANS_DIR") {
            Some(dir) => absolute(dir),
            None => pages::CACHES.iter().find_map(|(name, below)| Some(variable(name).and_then(absolute)?.join(below))),
        };
        Places { file: variable(FILE_VARIABLE).and_then(absolute), dir }
    }

    /// The list for this installation and program. `None` if there is none.
    ///
    /// # Errors
    /// Why the list that is there cannot be used.
    pub(in crate::preload) fn find(&self, installation: &Path) -> Result<Option<PageList>, String> {
        if let Some(file) = &self.file {
            return read(file, installation).map(Some);
        }
        let Some(dir) = &self.dir else { return Ok(None) };
        let program = program_dir();
        for program in [program.as_deref(), None] {
            let file = dir.join(file_name(installation, program));
            if file.exists() {
                pages::check_directory(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
                return read(&file, installation).map(Some);
            }
        }
        Ok(None)
    }
}

fn read(file: &Path, installation: &Path) -> Result<PageList, String> {
    let list = pages::read_trusted(file).and_then(|content| PageList::decode(&content));
    let mut list = list.map_err(|error| format!("{}: {error}", file.display()))?;
    if list.installation != installation {
        return Err(format!("{}: it is for cuDNN in {}", file.display(), list.installation.display()));
    }
    let all = list.files.len();
    list.files.retain(super::FilePages::is_current);
    // After an update cuDNN's own files are others.
    if !list.files.iter().any(|file| file.path.starts_with(installation)) {
        return Err(format!("{}: its {all} files have changed since", file.display()));
    }
    Ok(list)
}

/// The directory of this process's program.
fn program_dir() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_owned)
}

/// The name of a list's file. Two lists with one name cost the older one: the content tells which it is.
pub(super) fn file_name(installation: &Path, program: Option<&Path>) -> String {
    let mut bytes = installation.as_os_str().as_encoded_bytes().to_vec();
    bytes.push(0);
    bytes.extend(program.map_or(&[][..], |program| program.as_os_str().as_encoded_bytes()));
    format!("pages-{:016x}.list", format::checksum(&bytes))
}
