//! Answers questions about the rights of this user.

use std::path::Path;

use cudnn_os::rights;
use cudnn_probe::facts::ask;

pub(crate) fn is_root() -> bool {
    ask("root", "", rights::is_root)
}

pub(crate) fn is_of_root(path: &Path) -> bool {
    ask("of root", path, || rights::is_of_root(path))
}

pub(crate) fn belongs_to_user(path: &Path) -> bool {
    ask("owned by this user", path, || rights::belongs_to_user(path))
}

pub(crate) fn can_write(dir: &Path) -> bool {
    ask("writable", dir, || rights::can_write(dir))
}

pub(crate) fn others_may_write(path: &Path) -> bool {
    ask("writable for others", path, || rights::others_may_write(path))
}

pub(crate) fn is_noexec(file: &Path) -> bool {
    ask("noexec", file, || rights::is_noexec(file))
}
