//! What can be wrong with a store.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cudnn_os::trusted_files::Refusal;

use crate::variables::{DIR_VARIABLE, LIMIT_VARIABLE, PACK_VARIABLE};

/// Why the store, or one entry, cannot be used. [`Display`] names the file, the cause, and what to do.
#[derive(Debug)]
pub struct Problem {
    kind: ProblemKind,
    path: PathBuf,
    role: Role,
    error: Option<io::Error>,
}

/// What the file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The store's directory, or an entry in it.
    Store,
    /// A pack that is read.
    Pack,
    /// A pack, or a list of pages, that is to be written.
    Output,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// No variable names a directory for the store.
    NoDirectory,
    /// The path is relative. A program may change its working directory.
    NotAbsolute,
    /// `CUDNN_PLANS_LIMIT` is no size.
    BadLimit(String),
    /// It is no directory.
    NotADirectory,
    /// It is no regular file.
    NotAFile,
    /// It belongs to another user.
    NotOwned {
        /// Its owner.
        owner: u32,
        /// The process's effective user.
        user: u32,
    },
    /// Other users can write to it.
    WritableByOthers {
        /// Its permission bits.
        mode: u32,
    },
    /// The file system is read-only.
    ReadOnly,
    /// The disk, or the user's quota, is full.
    Full,
    /// The system denies access.
    Denied,
    /// The process may not write files of this size (`RLIMIT_FSIZE`).
    FileSizeLimit,
    /// The entry is larger than the store, or than any entry may be.
    TooLarge {
        /// Its size.
        bytes: u64,
        /// What there is room for.
        limit: u64,
    },
    /// The file's content is not what was written.
    Damaged(Damage),
    /// A newer release of this crate has written it.
    NewerFormat {
        /// The format's version.
        version: u32,
    },
    /// The directory has no tag of a store: nothing in it is removed.
    NotAStore,
    /// Another error of the system.
    System,
}

/// What is wrong with a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It does not begin as such a file does.
    NotOurs,
    /// It is shorter or longer than it states.
    Size,
    /// The checksum does not match.
    Checksum,
    /// It contradicts itself.
    Content,
    /// It has the entry of another key.
    OtherKey,
}

/// A problem whose file is still to be named.
pub(crate) struct Cause {
    pub(crate) kind: ProblemKind,
    error: Option<io::Error>,
}

impl Cause {
    pub(crate) fn at(self, path: &Path) -> Problem {
        Problem { kind: self.kind, path: path.to_owned(), role: Role::Store, error: self.error }
    }

    pub(crate) fn at_pack(self, path: &Path) -> Problem {
        Problem { role: Role::Pack, ..self.at(path) }
    }

    pub(crate) fn at_output(self, path: &Path) -> Problem {
        Problem { role: Role::Output, ..self.at(path) }
    }

    /// Whether there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.kind() == ErrorKind::NotFound)
    }
}

impl From<ProblemKind> for Cause {
    fn from(kind: ProblemKind) -> Self {
        Cause { kind, error: None }
    }
}

impl From<Damage> for Cause {
    fn from(damage: Damage) -> Self {
        ProblemKind::Damaged(damage).into()
    }
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotADirectory => ProblemKind::NotADirectory.into(),
            Refusal::NotAFile => ProblemKind::NotAFile.into(),
            Refusal::NotOwned { owner, user } => ProblemKind::NotOwned { owner, user }.into(),
            Refusal::WritableByOthers { mode } => ProblemKind::WritableByOthers { mode }.into(),
            Refusal::System(error) => error.into(),
        }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ProblemKind::Full,
            ErrorKind::ReadOnlyFilesystem => ProblemKind::ReadOnly,
            ErrorKind::PermissionDenied => ProblemKind::Denied,
            ErrorKind::FileTooLarge => ProblemKind::FileSizeLimit,
            ErrorKind::NotADirectory => ProblemKind::NotADirectory,
            _ => ProblemKind::System,
        };
        Cause { kind, error: Some(error) }
    }
}

impl Problem {
    /// What is wrong.
    pub fn kind(&self) -> &ProblemKind {
        &self.kind
    }

    /// The file or directory. Empty if the problem is with a variable that names none.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the system returned.
    pub fn system_error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// What to do, as a sentence without its full stop.
    pub fn help(&self) -> String {
        match (self.role, &self.kind) {
            (Role::Pack, kind) => Self::help_for_pack(kind),
            (Role::Output, ProblemKind::NotAFile) => "name another file".to_owned(),
            (Role::Output, ProblemKind::Full) => "make room, or name a file on another disk".to_owned(),
            (Role::Output, ProblemKind::TooLarge { .. }) => "pack fewer plans".to_owned(),
            (_, ProblemKind::FileSizeLimit) => "raise the limit (ulimit -f)".to_owned(),
            (Role::Output, _) => "name a file in a directory that this user can write to".to_owned(),
            (Role::Store, kind) => Self::help_for_store(kind),
        }
    }

    fn help_for_pack(kind: &ProblemKind) -> String {
        match kind {
            ProblemKind::NotAbsolute => format!("write a path that begins at the root in {PACK_VARIABLE}"),
            ProblemKind::NotOwned { .. } => "give the pack to root or to this user with chown".to_owned(),
            ProblemKind::WritableByOthers { .. } => "take that permission away with chmod go-w".to_owned(),
            // To write a pack there would replace somebody's file.
            ProblemKind::Damaged(Damage::NotOurs) => format!("name a pack in {PACK_VARIABLE}"),
            ProblemKind::Damaged(_) | ProblemKind::TooLarge { .. } => {
                "make the pack again with `cudnn-doctor plans pack`".to_owned()
            }
            ProblemKind::NewerFormat { .. } => {
                "update this release, or make the pack with it: `cudnn-doctor plans pack`".to_owned()
            }
            _ => format!("name a pack that this process can read in {PACK_VARIABLE}"),
        }
    }

    fn help_for_store(kind: &ProblemKind) -> String {
        match kind {
            ProblemKind::NoDirectory => format!("set {DIR_VARIABLE} to a directory"),
            ProblemKind::NotAbsolute => format!("write a path that begins at the root in {DIR_VARIABLE}"),
            ProblemKind::BadLimit(_) => format!("write {LIMIT_VARIABLE} as a number of bytes, or as 512M or 2G"),
            ProblemKind::NotADirectory => format!("set {DIR_VARIABLE} to a directory"),
            ProblemKind::NotAFile => "remove it".to_owned(),
            ProblemKind::NotOwned { .. } => {
                format!("set {DIR_VARIABLE} to a directory of this user, or give the path to this user with chown")
            }
            ProblemKind::WritableByOthers { .. } => "take that permission away with chmod go-w".to_owned(),
            ProblemKind::ReadOnly => {
                format!("set {DIR_VARIABLE} to a directory on a file system that can be written to")
            }
            ProblemKind::Full => "make room, or remove plans with `cudnn-doctor plans clear`".to_owned(),
            ProblemKind::Denied => {
                format!("let this user read and write there, or set {DIR_VARIABLE} to another directory")
            }
            ProblemKind::FileSizeLimit => "raise the limit (ulimit -f)".to_owned(),
            ProblemKind::TooLarge { .. } => format!("raise {LIMIT_VARIABLE}"),
            ProblemKind::Damaged(_) => "nothing is to be done: the plan is built again".to_owned(),
            ProblemKind::NewerFormat { .. } => "update this release, or use a directory for each release".to_owned(),
            ProblemKind::NotAStore => "name a directory that a store has made".to_owned(),
            ProblemKind::System => format!("check the path, or set {DIR_VARIABLE} to another directory"),
        }
    }

    /// What is wrong, without what to do.
    pub fn what(&self) -> impl Display + '_ {
        What(self)
    }
}

struct What<'a>(&'a Problem);

impl Display for What<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let Problem { kind, path, error, .. } = self.0;
        if !path.as_os_str().is_empty() {
            write!(to, "{} ", path.display())?;
        }
        match kind {
            ProblemKind::NoDirectory => write!(to, "neither {DIR_VARIABLE} nor HOME names a directory for plans")?,
            ProblemKind::NotAbsolute => to.write_str("is not an absolute path")?,
            ProblemKind::BadLimit(text) => write!(to, "{LIMIT_VARIABLE}={text:?} is not a size")?,
            ProblemKind::NotADirectory => to.write_str("is not a directory")?,
            ProblemKind::NotAFile => to.write_str("is not a regular file")?,
            ProblemKind::NotOwned { owner, user } => {
                write!(to, "belongs to user {owner}, and this process runs as user {user}")?;
            }
            ProblemKind::WritableByOthers { mode } => write!(to, "can be written to by other users (mode {mode:04o})")?,
            ProblemKind::ReadOnly => to.write_str("is on a read-only file system")?,
            ProblemKind::Full => to.write_str("is on a disk that is full, or over this user's quota")?,
            ProblemKind::Denied => to.write_str("is not accessible to this user")?,
            ProblemKind::FileSizeLimit => to.write_str("would be larger than this process may write")?,
            ProblemKind::TooLarge { bytes, limit } => {
                write!(to, "would have {bytes} bytes, and there is room for {limit}")?;
            }
            ProblemKind::Damaged(damage) => write!(to, "is damaged: {damage}")?,
            ProblemKind::NewerFormat { version } => write!(to, "has the newer format {version}")?,
            ProblemKind::NotAStore => to.write_str("has no tag of a store of plans, so nothing in it is removed")?,
            ProblemKind::System => to.write_str("cannot be used")?,
        }
        match error {
            Some(error) => write!(to, ": {error}"),
            None => Ok(()),
        }
    }
}

impl Display for Problem {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{}; {}", self.what(), self.help())
    }
}

impl Display for Damage {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Damage::NotOurs => "it does not begin as a file of this kind does",
            Damage::Size => "its size is not the size that it states",
            Damage::Checksum => "its checksum does not match its content",
            Damage::Content => "its content contradicts itself",
            Damage::OtherKey => "it has the plan of another key",
        })
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.as_ref().map(|error| error as _)
    }
}
