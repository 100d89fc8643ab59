//! Recognizes a file that contains text in place of a library, and explains how to get the library.

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_probe::ProbeError;

use crate::remedy::{Effect, Remedy};

#[derive(Clone, Copy, PartialEq, Eq)]
enum StandIn {
    /// A pointer of Git LFS in place of the file: `version https://git-lfs.github.com/spec/v1`.
    LfsPointer,
    WebPage,
}

impl StandIn {
    fn of(error: &ProbeError) -> Option<StandIn> {
        let starts_with = match error {
            ProbeError::UnknownFormat { starts_with } => starts_with,
            ProbeError::UnusableLibrary { error, .. } => return StandIn::of(error),
            _ => return None,
        };
        let start = starts_with.trim_ascii_start().to_ascii_lowercase();
        let is_page = ["<!doctype", "<html", "<?xml"].iter().any(|mark| start.starts_with(mark.as_bytes()));
        let is_pointer = start.starts_with(b"version https:/");
        is_pointer.then_some(StandIn::LfsPointer).or(is_page.then_some(StandIn::WebPage))
    }
}

/// Returns how to replace a pointer of Git LFS with the library.
pub(in crate::check) fn pull(error: &ProbeError, dir: Option<&Path>) -> Option<Remedy> {
    let place = dir.map_or("the file".to_owned(), Printable::printable);
    let text = format!(
        "the file is a pointer of Git LFS, which stands for the library: run `git lfs pull` in the repository that \
         contains {place}"
    );
    let is_pointer = StandIn::of(error) == Some(StandIn::LfsPointer);
    is_pointer.then(|| Remedy::new(text).effect(Effect::SameDir).by_hand())
}

pub(super) fn explained(remedy: Remedy, error: &ProbeError) -> Remedy {
    let reason = match StandIn::of(error) {
        Some(StandIn::LfsPointer) => "the file is a pointer of Git LFS",
        Some(StandIn::WebPage) => "the file is a web page, probably the error message of a server",
        None => return remedy,
    };
    let text = format!("{reason}: {}", remedy.text);
    remedy.with_text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_place_of_a_library_are_recognized_by_their_first_bytes() {
        for (bytes, expected) in [
            (&b"version https://"[..], "a pointer of Git LFS: reinstall it"),
            (b"<!DOCTYPE html>\n", "a web page, probably the error message of a server: reinstall it"),
            (b"\n<html><head>", "a web page, probably the error message of a server: reinstall it"),
            (b"<?xml version='1", "a web page, probably the error message of a server: reinstall it"),
            (b"version 3", "reinstall it"),
            (b"", "reinstall it"),
        ] {
            let error = ProbeError::UnknownFormat { starts_with: bytes.to_vec() };
            let text = explained(Remedy::new("reinstall it"), &error).text;
            assert_eq!(text.trim_start_matches("the file is "), expected);
            let pull = pull(&error, Some(Path::new("/opt/repo/lib")));
            assert_eq!(pull.is_some(), bytes.starts_with(b"version https"), "{bytes:?}");
            let is_placed =
                |pull: &Remedy| pull.text.ends_with("`git lfs pull` in the repository that contains /opt/repo/lib");
            assert!(pull.iter().all(is_placed), "{pull:?}");
        }
    }
}
