//! The error type of a store.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cudnn_os::trusted_files::{TrustError, Untrusted};

use super::variables::{DIR_VARIABLE, LIMIT_VARIABLE, PACK_VARIABLE};

/// The reason why a store or an entry cannot be used. [`Display`] prints the file, the cause, and the fix.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    path: PathBuf,
    role: Role,
    error: Option<io::Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Store,
    Pack,
}

/// The kinds of problems.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No variable selects a directory for the store.
    NoDirectory,
    /// The path is relative, but the working directory of a program may change.
    NotAbsolute,
    /// `CUDNN_PLANS_LIMIT` is not a valid size.
    BadLimit(String),
    /// Other users may have written the file or directory, or it is another kind of file.
    Untrusted(Untrusted),
    /// The file system is read-only.
    ReadOnly,
    /// The disk or the user's quota is full.
    Full,
    /// The system denies access.
    Denied,
    /// The file would exceed the size limit of the process (`RLIMIT_FSIZE`).
    FileSizeLimit,
    /// The entry is larger than the store or the maximum size of an entry.
    TooLarge {
        /// The size of the entry.
        bytes: u64,
        /// The maximum size.
        limit: u64,
    },
    /// The content differs from the content that was written.
    Damaged(Damage),
    /// A newer release of this crate has written the file.
    NewerFormat {
        /// The format version of the file.
        version: u32,
    },
    /// The directory was not created by a store, so its files are preserved.
    NotAStore,
    /// Another system error.
    System,
}

/// The kinds of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The file does not start with the expected bytes.
    NotOurs,
    /// The size differs from the size in the header.
    Size,
    /// The checksum does not match.
    Checksum,
    /// The content is inconsistent.
    Content,
    /// The file contains an entry with a different key.
    OtherKey,
}

/// A problem without the path of the file.
pub(crate) struct Cause {
    pub(crate) kind: StoreErrorKind,
    error: Option<io::Error>,
}

impl Cause {
    pub(crate) fn at(self, path: &Path) -> StoreError {
        StoreError { kind: self.kind, path: path.to_owned(), role: Role::Store, error: self.error }
    }

    pub(crate) fn at_pack(self, path: &Path) -> StoreError {
        StoreError { role: Role::Pack, ..self.at(path) }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.kind() == ErrorKind::NotFound)
    }
}

impl From<StoreErrorKind> for Cause {
    fn from(kind: StoreErrorKind) -> Self {
        Cause { kind, error: None }
    }
}

impl From<Damage> for Cause {
    fn from(damage: Damage) -> Self {
        StoreErrorKind::Damaged(damage).into()
    }
}

impl From<TrustError> for Cause {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Untrusted(untrusted) => StoreErrorKind::Untrusted(untrusted).into(),
            TrustError::System(error) => error.into(),
        }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreErrorKind::Full,
            ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
            ErrorKind::PermissionDenied => StoreErrorKind::Denied,
            ErrorKind::FileTooLarge => StoreErrorKind::FileSizeLimit,
            ErrorKind::NotADirectory => StoreErrorKind::Untrusted(Untrusted::NotADirectory),
            _ => StoreErrorKind::System,
        };
        Cause { kind, error: Some(error) }
    }
}

impl StoreError {
    /// Returns the kind of problem.
    pub fn kind(&self) -> &StoreErrorKind {
        &self.kind
    }

    /// Returns the file or directory, or an empty path if the problem is a variable without a path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the fix as a sentence without a full stop.
    pub fn help(&self) -> String {
        match (self.role, &self.kind) {
            (Role::Pack, kind) => Self::help_for_pack(kind),
            (Role::Store, kind) => Self::help_for_store(kind),
        }
    }

    fn help_for_pack(kind: &StoreErrorKind) -> String {
        match kind {
            StoreErrorKind::NotAbsolute => format!("use an absolute path in {PACK_VARIABLE}"),
            StoreErrorKind::Untrusted(Untrusted::NotOwned { .. }) => {
                "use chown to give the pack to root or to this user".to_owned()
            }
            StoreErrorKind::Untrusted(Untrusted::WritableByOthers { .. }) => {
                "remove the permission with chmod go-w".to_owned()
            }
            // Writing a new pack could overwrite an unrelated file.
            StoreErrorKind::Damaged(Damage::NotOurs) => format!("set {PACK_VARIABLE} to a pack"),
            StoreErrorKind::Damaged(_) | StoreErrorKind::TooLarge { .. } => {
                "recreate the pack with `cudnn-lab plans pack`".to_owned()
            }
            StoreErrorKind::NewerFormat { .. } => {
                "update cudnn-shim, or recreate the pack with this release: `cudnn-lab plans pack`".to_owned()
            }
            _ => format!("set {PACK_VARIABLE} to a pack that this process can read"),
        }
    }

    fn help_for_store(kind: &StoreErrorKind) -> String {
        match kind {
            StoreErrorKind::NoDirectory => format!("set {DIR_VARIABLE} to a directory"),
            StoreErrorKind::NotAbsolute => format!("set {DIR_VARIABLE} to an absolute path"),
            StoreErrorKind::BadLimit(_) => format!("set {LIMIT_VARIABLE} to a number of bytes, or to 512M or 2G"),
            StoreErrorKind::Untrusted(Untrusted::NotADirectory) => format!("set {DIR_VARIABLE} to a directory"),
            StoreErrorKind::Untrusted(Untrusted::NotAFile) => "remove it".to_owned(),
            StoreErrorKind::Untrusted(Untrusted::NotOwned { .. }) => {
                format!("set {DIR_VARIABLE} to a directory of this user, or change the owner to this user with chown")
            }
            StoreErrorKind::Untrusted(Untrusted::WritableByOthers { .. }) => {
                format!("set {DIR_VARIABLE} to a directory of this user only, or remove the permission with chmod go-w")
            }
            StoreErrorKind::ReadOnly => {
                format!("set {DIR_VARIABLE} to a directory on a writable file system")
            }
            StoreErrorKind::Full => "free some space, or remove plans with `cudnn-lab plans clear`".to_owned(),
            StoreErrorKind::Denied => {
                format!("grant this user read and write access, or set {DIR_VARIABLE} to a different directory")
            }
            StoreErrorKind::FileSizeLimit => "raise the limit (ulimit -f)".to_owned(),
            StoreErrorKind::TooLarge { .. } => format!("raise {LIMIT_VARIABLE}"),
            StoreErrorKind::Damaged(_) => "no action needed: the plan will be rebuilt".to_owned(),
            StoreErrorKind::NewerFormat { .. } => {
                "update cudnn-shim, or use a separate directory per release".to_owned()
            }
            StoreErrorKind::NotAStore => "choose a directory that was created by a plan store".to_owned(),
            StoreErrorKind::System => format!("check the path, or set {DIR_VARIABLE} to a different directory"),
        }
    }

    /// Returns the problem without the fix.
    pub fn what(&self) -> String {
        let StoreError { kind, path, error, .. } = self;
        let what = match kind {
            StoreErrorKind::NoDirectory => format!("neither {DIR_VARIABLE} nor HOME names a directory for plans"),
            StoreErrorKind::NotAbsolute => "is not an absolute path".to_owned(),
            StoreErrorKind::BadLimit(text) => format!("{LIMIT_VARIABLE}={text:?} is not a size"),
            StoreErrorKind::Untrusted(untrusted) => untrusted.to_string(),
            StoreErrorKind::ReadOnly => "is on a read-only file system".to_owned(),
            StoreErrorKind::Full => "is on a full disk, or this user's quota is exceeded".to_owned(),
            StoreErrorKind::Denied => "is not accessible to this user".to_owned(),
            StoreErrorKind::FileSizeLimit => "would exceed the file size limit of this process".to_owned(),
            StoreErrorKind::TooLarge { bytes, limit } => format!("would have {bytes} bytes, but the limit is {limit}"),
            StoreErrorKind::Damaged(damage) => format!("is damaged: {damage}"),
            StoreErrorKind::NewerFormat { version } => format!("has format {version}, which is too new"),
            StoreErrorKind::NotAStore => "is not tagged as a plan store; no files were removed".to_owned(),
            StoreErrorKind::System => "cannot be used".to_owned(),
        };
        let path = if path.as_os_str().is_empty() { String::new() } else { format!("{} ", path.display()) };
        let error = error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        format!("{path}{what}{error}")
    }
}

impl Display for StoreError {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{}; {}", self.what(), self.help())
    }
}

impl Display for Damage {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Damage::NotOurs => "it is not a file of this kind",
            Damage::Size => "the size does not match the header",
            Damage::Checksum => "the checksum does not match the content",
            Damage::Content => "the content is inconsistent",
            Damage::OtherKey => "it contains a plan with a different key",
        })
    }
}

/// Has no source, because the text contains the reason.
impl Error for StoreError {}
