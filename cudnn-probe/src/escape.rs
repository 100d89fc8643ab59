//! Shows paths and text from outside the program on one line of a message.

use std::fmt;
use std::path::Path;

use crate::platform::Os;

pub use cudnn_os::escape::one_line;

/// A path in quotes, on one line, as the system's users write it: `{:?}` would double each separator of Windows.
#[must_use]
pub fn shown_path(path: &Path) -> ShownPath<'_> {
    ShownPath(path)
}

/// See [`shown_path`].
#[derive(Clone, Copy, Debug)]
pub struct ShownPath<'a>(&'a Path);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Os::HOST {
            Os::Linux => fmt::Debug::fmt(self.0, f),
            Os::Windows => f.write_str(&format!("{:?}", self.0).replace("\\\\", "\\")),
        }
    }
}
