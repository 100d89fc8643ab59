//! Finds the file with newer facts that `cudnn-doctor facts --update` has stored.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_os::environment::is_secure_execution;
use cudnn_os::trusted_files::{Directory, TrustError};
use cudnn_probe::{Os, facts};

use super::ReleaseFacts;

/// The name of the stored file.
pub const FILE_NAME: &str = "facts.json";

/// The maximum size of a file with facts in bytes.
pub const MAX_LEN: u64 = 1 << 20;

/// The facts that the doctor uses.
#[derive(Clone, Debug)]
pub struct InUse {
    /// The facts.
    pub facts: ReleaseFacts,
    /// The stored file that they come from, or `None` if this build contains them.
    pub file: Option<PathBuf>,
    /// The reason for ignoring the stored file.
    pub ignored: Option<String>,
}

/// Returns the path of the stored file: `cudnn-doctor/facts.json` in `XDG_DATA_HOME` or `~/.local/share`, and on
/// Windows in `LOCALAPPDATA`. Returns `None` if the variables are unset.
pub fn stored_file() -> Option<PathBuf> {
    let variable = |name: &str| facts::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = match Os::HOST {
        Os::Windows => variable("LOCALAPPDATA"),
        _ => variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share"))),
    };
    Some(data?.join("cudnn-doctor").join(FILE_NAME))
}

/// Returns the stored facts if they are valid and newer than the built-in facts, and otherwise the built-in facts.
pub fn in_use() -> InUse {
    let built_in = ReleaseFacts::built_in();
    let stored =
        stored_file().and_then(|file| Some((facts::ask("release facts", file.as_path(), || read(&file))?, file)));
    let Some((text, file)) = stored else { return InUse { facts: built_in, file: None, ignored: None } };
    match text.and_then(|text| ReleaseFacts::parse(&text)) {
        Ok(facts) if facts.version > built_in.version => InUse { facts, file: Some(file), ignored: None },
        Ok(facts) => {
            let reason = format!("its version {} is not newer than the built-in facts", facts.version);
            InUse { facts: built_in, file: None, ignored: Some(reason) }
        }
        Err(reason) => InUse { facts: built_in, file: None, ignored: Some(reason) },
    }
}

/// Reads the stored file, which only this user may be able to change.
fn read(file: &Path) -> Option<Result<String, String>> {
    // The environment comes from a less privileged user.
    if is_secure_execution() {
        return None;
    }
    let read = || -> Result<String, TrustError> {
        let file = Directory::open(file.parent().unwrap_or(file))?.open_file(FILE_NAME)?;
        let len = file.stat()?.size;
        if len > MAX_LEN {
            return Err(std::io::Error::other(format!("it has {len} bytes, more than {MAX_LEN}")).into());
        }
        let bytes = file.read(0, len)?.ok_or_else(|| std::io::Error::other("it was truncated while it was read"))?;
        String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8").into())
    };
    match read() {
        Err(TrustError::System(error)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            None
        }
        read => Some(read.map_err(|reason| reason.to_string())),
    }
}
