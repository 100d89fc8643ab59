//! The texts of errors. They consist of the path, the cause and the fix.

use std::io::{self, ErrorKind};
use std::path::Path;

use cudnn_os::trusted_files::{TrustError, Untrusted};

/// The problem if no variable selects a directory for the store. Programs work without it.
pub const NO_DIRECTORY: &str =
    "neither CUDNN_PLANS_DIR nor HOME names a directory for plans; set CUDNN_PLANS_DIR to a directory";

/// A problem without the path of the file.
pub(crate) struct Cause {
    kind: Kind,
    what: String,
    /// A fix for any file.
    fix: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Missing,
    /// No release can use the content.
    Damaged,
    /// Another user may have written the file, or it is another kind of file.
    Untrusted,
    Other,
}

impl Cause {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Cause { kind: Kind::Other, what: what.into(), fix: None }
    }

    pub(crate) fn damaged(what: &str) -> Self {
        Cause { kind: Kind::Damaged, ..Cause::new(format!("is damaged: {what}")) }
    }

    pub(crate) fn wrong_size() -> Self {
        Cause::damaged("the size does not match the header")
    }

    pub(crate) fn wrong_checksum() -> Self {
        Cause::damaged("the checksum does not match the content")
    }

    pub(crate) fn other_key() -> Self {
        Cause::damaged("it contains a plan with a different key")
    }

    pub(crate) fn too_large(bytes: u64, limit: u64) -> Self {
        Cause { kind: Kind::Damaged, ..Cause::new(format!("would have {bytes} bytes, but the limit is {limit}")) }
    }

    pub(crate) fn newer_format(version: u32) -> Self {
        Cause { fix: Some("update cudnn-shim"), ..Cause::new(format!("has format {version}, which is too new")) }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// Returns whether no release can use the file.
    pub(crate) fn is_useless(&self) -> bool {
        matches!(self.kind, Kind::Damaged | Kind::Untrusted)
    }

    /// Describes the problem of a store's directory.
    pub(crate) fn at(self, path: &Path) -> String {
        self.text(path, None, STORE_FIX)
    }

    pub(crate) fn at_entry(self, path: &Path) -> String {
        let rebuilt = self.is_useless().then_some("no action needed: the plan will be rebuilt");
        self.text(path, rebuilt, STORE_FIX)
    }

    pub(crate) fn at_pack(self, path: &Path) -> String {
        let recreate = (self.kind == Kind::Damaged).then_some("recreate the pack with `cudnn-lab plans pack`");
        let other = "set CUDNN_PLANS_PACK to the absolute path of a pack that this process can read";
        self.text(path, recreate, other)
    }

    fn text(self, path: &Path, only: Option<&str>, other: &str) -> String {
        let fix = match (only, self.fix) {
            (Some(only), _) => only.to_owned(),
            (None, Some(fix)) => format!("{fix}, or {other}"),
            (None, None) => other.to_owned(),
        };
        format!("{} {}; {fix}", path.display(), self.what)
    }
}

const STORE_FIX: &str = "set CUDNN_PLANS_DIR to the absolute path of a directory of this user";

impl From<TrustError> for Cause {
    fn from(error: TrustError) -> Self {
        let untrusted = match error {
            TrustError::Untrusted(untrusted) => untrusted,
            TrustError::System(error) => return error.into(),
        };
        let fix = match untrusted {
            Untrusted::NotADirectory | Untrusted::NotAFile => None,
            Untrusted::NotOwned { .. } => Some("change the owner to this user with chown"),
            Untrusted::WritableByOthers { .. } => Some("remove the permission with chmod go-w"),
        };
        Cause { kind: Kind::Untrusted, fix, ..Cause::new(untrusted.to_string()) }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        let fix = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Some("free some space, for example with `cudnn-lab plans clear`")
            }
            ErrorKind::PermissionDenied => Some("grant this user read and write access"),
            ErrorKind::FileTooLarge => Some("raise the limit (ulimit -f)"),
            ErrorKind::NotADirectory => return Cause::new(Untrusted::NotADirectory.to_string()),
            _ => None,
        };
        let kind = if error.kind() == ErrorKind::NotFound { Kind::Missing } else { Kind::Other };
        Cause { kind, fix, ..Cause::new(format!("cannot be used: {error}")) }
    }
}
