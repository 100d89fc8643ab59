//! Text from outside (names in files, messages of the system) as a part of one line: it cannot forge a line, or control
//! a terminal. Paths and names in this crate's own messages are shown with `{:?}`, which escapes the same characters.

use std::fmt;
use std::path::Path;

use crate::platform::Os;

/// The text with an escape in place of each line break, control character and mark that changes the direction of
/// writing.
///
/// ```
/// assert_eq!(cudnn_probe::one_line("it's \u{1b}[31m\nred"), r"it's \u{1b}[31m\nred");
/// ```
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) {
            shown.extend(c.escape_debug());
        } else {
            shown.push(c);
        }
    }
    shown
}

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

/// Does the character do more on a terminal than show itself?
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control() || !c.is_ascii() && c.escape_debug().len() > 1
}
