//! Reads cuDNN's reason for a failure, without paths.

use crate::cudnn::Cudnn;
use crate::last_error;

const MAX_LENGTH: usize = 4096;

/// Returns the text of the thread's last failure, which the program can still read.
pub(super) fn reason(cudnn: &Cudnn) -> Option<String> {
    let text = last_error::peek(cudnn);
    let text = String::from_utf8_lossy(&text);
    (!text.is_empty()).then(|| without_paths(&text).chars().take(MAX_LENGTH).collect())
}

/// Replaces absolute paths, because they may contain user names.
fn without_paths(text: &str) -> String {
    let (mut result, mut rest) = (String::new(), text);
    while let Some((before, path)) = path_start(rest).and_then(|start| rest.split_at_checked(start)) {
        result.extend([before, "<path>"]);
        rest = path.get(path_length(before, path)..).unwrap_or_default();
    }
    result + rest
}

/// Returns the position of the first absolute path.
fn path_start(text: &str) -> Option<usize> {
    let begins = |at: usize, separator: &str| {
        let (before, after) = (text.get(..at)?, text.get(at + separator.len()..)?);
        Some(!is_in_word(before) && after.starts_with(|c: char| !c.is_whitespace()))
    };
    let mut separators = text.match_indices(['/', '\\']);
    separators.find(|(at, separator)| begins(*at, separator) == Some(true)).map(|(at, _)| at)
}

/// Returns whether a separator after this text continues a word, such as `1/2` and `src/file.cpp`, but not a compiler
/// option such as `-I`.
fn is_in_word(before: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let word = before.rsplit(|c| !is_letter(c) && c != '-').next().unwrap_or_default();
    let is_option = word.len() == 2 && word.starts_with('-') && word.ends_with(char::is_alphabetic);
    word.ends_with(is_letter) && !is_option
}

/// Returns the length of a path, which ends at the closing quote or before a space or punctuation.
fn path_length(before: &str, path: &str) -> usize {
    let quote = before.chars().next_back().filter(|c| ['"', '\'', '`'].contains(c));
    let quoted = quote.and_then(|quote| path.lines().next()?.find(quote));
    let word = || path.split(char::is_whitespace).next().unwrap_or(path);
    let is_punctuation = |c: char| c.is_ascii_punctuation() && c != '/' && c != '\\';
    quoted.unwrap_or_else(|| word().trim_end_matches(is_punctuation).len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_removed() {
        for text in ["a: ptr->finalize() failed (2000), 1/2", "src/graph.cpp:12 has n / 2", ""] {
            assert_eq!(without_paths(text), text);
        }
        for (text, expected) in [
            (r#"cannot load "/home/alice/libx.so": no"#, r#"cannot load "<path>": no"#),
            (r"C:\Users\alice\x.dll file=/home/alice/x", "C:<path> file=<path>"),
            ("at\n/home/alice/x\tfile:/home/bob", "at\n<path>\tfile:<path>"),
            ("dlopen(/home/alice/x), 2", "dlopen(<path>), 2"),
            (r"dlopen[(C:\Users\alice)]", "dlopen[(C:<path>)]"),
            ("nvrtc -I/home/alice -L\"/home/bob\" -x=[/home/eve/a]", "nvrtc -I<path> -L\"<path>\" -x=[<path>]"),
            ("open '/home/alice smith/x' and `/home/bob smith`!", "open '<path>' and `<path>`!"),
            ("of '/home/alice\nno quote'", "of '<path>\nno quote'"),
            (r"\\server\alice /", "<path> /"),
            ("a(/home/alice(1)/x)/home/ä/b", "a(<path>"),
        ] {
            assert_eq!(without_paths(text), expected, "{text}");
        }
    }
}
