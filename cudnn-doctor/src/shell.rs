//! Lines for a shell: quotes all output that is meant to be pasted, by the probe's rules.

use std::path::Path;

use cudnn_probe::packages::quoted;

/// A path as one argument.
pub(crate) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// The line that puts a directory first on LD_LIBRARY_PATH; `None` for a name that LD_LIBRARY_PATH cannot contain:
/// ld.so splits it at colons and semicolons, and expands `$`.
pub(crate) fn prepend_library_path(dir: &Path) -> Option<String> {
    let name = dir.to_str().filter(|name| !name.contains([':', ';', '$']) && !name.chars().any(char::is_control))?;
    Some(format!("export LD_LIBRARY_PATH={}\"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"", quoted(name)))
}

/// The command that removes the files of cuDNN 9 from a directory: not cuDNN 8, static libraries or other files.
pub(crate) fn removal(dir: &Path) -> String {
    let dir = quoted_path(dir);
    format!("rm {dir}/libcudnn.so.9* {dir}/libcudnn_*.so.9*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::is_unsafe;

    #[test]
    fn a_line_to_paste_has_no_character_that_a_terminal_would_interpret() {
        for unsafe_one in ('\0'..=char::MAX).filter(|c| is_unsafe(*c)) {
            let line = quoted(&format!("a{unsafe_one}b"));
            assert!(line.starts_with("$'a") && line.is_ascii() && !line.contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn any_name_is_one_argument() {
        assert_eq!(quoted("/opt/cudnn-9.1/lib"), "/opt/cudnn-9.1/lib");
        assert_eq!(quoted("/a b/$(rm)/it's"), "'/a b/$(rm)/it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a\x1b[1m\n'\\"), r"$'a\033[1m\012\'\\'");
    }

    #[test]
    fn a_directory_that_ld_so_would_split_gets_no_line() {
        assert!(prepend_library_path(Path::new("/opt/a:b")).is_none());
        assert!(prepend_library_path(Path::new("/opt/$LIB")).is_none());
        assert!(prepend_library_path(Path::new("/opt/a b")).is_some_and(|line| line.contains("'/opt/a b'\"$")));
    }
}
