//! The rights of this user, as recorded facts.

use std::io::{Error, ErrorKind};
use std::path::Path;

use cudnn_os::rights;
use cudnn_probe::facts::ask;

/// Returns whether this user is root.
pub fn is_root() -> bool {
    ask("root", "", rights::is_root)
}

/// Returns whether root owns a file or the nearest existing parent.
pub fn is_of_root(path: &Path) -> bool {
    ask("of root", path, || rights::is_of_root(path))
}

/// Returns whether this user owns a file.
pub fn belongs_to_user(path: &Path) -> bool {
    ask("owned by this user", path, || rights::belongs_to_user(path))
}

/// Returns whether this user can create files in a directory.
pub fn can_write(dir: &Path) -> bool {
    ask("writable", dir, || rights::can_write(dir))
}

/// Returns whether a directory, or the nearest existing parent, is on a read-only file system.
pub fn is_read_only(dir: &Path) -> bool {
    let is_reason = |error: Error| error.kind() == ErrorKind::ReadOnlyFilesystem;
    ask("on a read-only file system", dir, || rights::write_access(dir).is_err_and(is_reason))
}

/// Returns whether other users can change a file or directory.
pub fn others_may_write(path: &Path) -> bool {
    ask("writable for others", path, || rights::others_may_write(path))
}

/// Returns whether a file is on a file system mounted with `noexec`.
pub fn is_noexec(file: &Path) -> bool {
    ask("noexec", file, || rights::is_noexec(file))
}
