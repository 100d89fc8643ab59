//! Names what a question is about.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The description and the test of the wanted entries of a directory.
pub(super) type Wanted<'a> = (&'a str, &'a dyn Fn(&str) -> bool);

/// The subject of a question: a file, a file with details, or a name.
#[derive(Clone)]
#[cfg_attr(not(feature = "serde"), allow(dead_code, reason = "only recorded answers need it"))]
pub struct Subject<'a> {
    /// The files or directories that the answer depends on.
    paths: Vec<&'a Path>,
    /// The whole subject, which distinguishes it from all others.
    text: Cow<'a, OsStr>,
    wanted: Option<Wanted<'a>>,
}

impl<'a> Subject<'a> {
    /// Returns the subject of a question about a file that also depends on something else.
    #[must_use]
    pub fn about(path: &'a Path, what: &str) -> Self {
        let mut text = path.as_os_str().to_owned();
        text.push(" ");
        text.push(what);
        Subject { text: Cow::Owned(text), ..path.into() }
    }

    /// Adds files or directories that the answer depends on, and that the text need not name.
    #[must_use]
    pub fn and(mut self, paths: impl IntoIterator<Item = &'a Path>) -> Self {
        self.paths.extend(paths);
        self
    }

    /// Returns the subject of a question about those entries of a directory that are described in words.
    pub(super) fn entries(dir: &'a Path, what: &'a str, is_wanted: &'a dyn Fn(&str) -> bool) -> Self {
        let mut text = dir.as_os_str().to_owned();
        text.push(": ");
        text.push(what);
        Subject { text: Cow::Owned(text), wanted: Some((what, is_wanted)), ..dir.into() }
    }

    #[cfg(feature = "serde")]
    pub(super) fn paths(&self) -> impl Iterator<Item = &'a Path> {
        self.paths.iter().copied()
    }

    #[cfg(feature = "serde")]
    pub(super) fn wanted(&self) -> Option<Wanted<'a>> {
        self.wanted
    }

    /// Returns a unique text for the subject.
    #[cfg(feature = "serde")]
    pub(super) fn key(&self) -> Cow<'_, str> {
        match self.text.to_str() {
            Some(text) => text.into(),
            None => cudnn_os::files::bytes_of(&self.text).escape_ascii().to_string().into(),
        }
    }
}

impl<'a> From<&'a Path> for Subject<'a> {
    fn from(path: &'a Path) -> Self {
        Subject { paths: vec![path], text: Cow::Borrowed(path.as_os_str()), wanted: None }
    }
}

impl<'a> From<&'a PathBuf> for Subject<'a> {
    fn from(path: &'a PathBuf) -> Self {
        path.as_path().into()
    }
}

impl<'a> From<&'a str> for Subject<'a> {
    fn from(name: &'a str) -> Self {
        Subject { paths: Vec::new(), text: Cow::Borrowed(name.as_ref()), wanted: None }
    }
}

impl<'a> From<&'a String> for Subject<'a> {
    fn from(name: &'a String) -> Self {
        name.as_str().into()
    }
}

impl From<String> for Subject<'_> {
    fn from(name: String) -> Self {
        OsString::from(name).into()
    }
}

impl From<OsString> for Subject<'_> {
    fn from(name: OsString) -> Self {
        Subject { paths: Vec::new(), text: Cow::Owned(name), wanted: None }
    }
}
