//! Words of the shell: whatever is printed for a person to run is one word where it is meant as one.

use std::path::Path;

/// As a word of the shell, whatever is in it.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=".contains(c);
    let needs_none = !text.is_empty() && text.chars().all(is_plain);
    if needs_none { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The line that puts a folder before all others of the dynamic linker's.
pub(crate) fn before_others(folder: &Path) -> String {
    let folder = quoted(&folder.to_string_lossy());
    format!("export LD_LIBRARY_PATH={folder}\"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_name_is_one_word_of_the_shell_whatever_is_in_it() {
        assert_eq!(quoted("/opt/cudnn-9.1/lib"), "/opt/cudnn-9.1/lib");
        assert_eq!(quoted("/a b/$(rm)/it's"), "'/a b/$(rm)/it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
