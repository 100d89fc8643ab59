//! Parses JSON in threads of the program.

use cudnn_os::cancel::ThreadStateGuard;
use serde::Deserialize;

/// Returns the value of a text, or `None` if it is invalid. Objects of the JSON crate are hash maps, whose random seed
/// is a cancellation point.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    let _guard = ThreadStateGuard::new();
    serde_json::from_slice(text).ok()
}
