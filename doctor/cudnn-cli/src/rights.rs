//! The rights of this user, as recorded facts.

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

/// Returns whether other users can change a file or directory.
pub fn others_may_write(path: &Path) -> bool {
    ask("writable for others", path, || rights::others_may_write(path))
}

/// Returns whether a file is on a file system mounted with `noexec`.
pub fn is_noexec(file: &Path) -> bool {
    ask("noexec", file, || rights::is_noexec(file))
}
