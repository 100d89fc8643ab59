//! Reads cuDNN's reason for a failure, without paths.

use crate::cudnn::Cudnn;
use crate::last_error;

/// Longer than all texts of cuDNN.
const MAX_LENGTH: usize = 4096;

/// Returns the text of the thread's last failure. The program can still read it.
pub(super) fn reason(cudnn: &Cudnn) -> Option<String> {
    let text = last_error::peek(cudnn);
    let text = String::from_utf8_lossy(&text);
    (!text.is_empty()).then(|| without_paths(&text).chars().take(MAX_LENGTH).collect())
}

/// Replaces words that look like absolute paths, because they may contain names of users.
fn without_paths(text: &str) -> String {
    let is_path = |word: &str| {
        let start = word.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '\\');
        start.starts_with('/')
            || start.starts_with('\\')
            || start.get(1..3) == Some(":\\")
            || start.contains("=/")
            || start.contains(":/")
    };
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let end = word.trim_end().len();
        let (word, space) = word.split_at_checked(end).unwrap_or((word, ""));
        [if is_path(word) { "<path>" } else { word }, space].concat()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_removed() {
        assert_eq!(without_paths("a: ptr->finalize() failed (2000), 1/2"), "a: ptr->finalize() failed (2000), 1/2");
        let text = r#"cannot load "/home/alice/libx.so": C:\Users\alice\x.dll file=/home/alice/x"#;
        assert_eq!(without_paths(text), "cannot load <path> <path> <path>");
        assert_eq!(without_paths("at\n/home/alice/x\tfile:/home/bob"), "at\n<path>\t<path>");
    }
}
