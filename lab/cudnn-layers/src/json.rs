//! Parses JSON in threads of the program.

use cudnn_os::cancel::ThreadStateGuard;
use serde::Deserialize;

/// Parses a text, or returns `None` if it is invalid. The guard is necessary because the JSON crate's
/// objects are hash maps with a random seed, and reading the seed is a cancellation point.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    let _guard = ThreadStateGuard::new();
    serde_json::from_slice(text).ok()
}
