//! Lines for a shell: quotes all output that is meant to be pasted, by the probe's rules.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudnn_probe::packages::quoted;

/// A path as one argument.
pub(crate) fn quoted_path(path: &Path) -> String {
    quoted(path)
}

/// The doctor itself as a command: its name if `PATH` leads to it, else its path.
pub(crate) fn doctor() -> String {
    const NAME: &str = "cudnn-doctor";
    let Ok(program) = std::env::current_exe() else { return NAME.to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&path).map(|dir| dir.join(NAME)).find(|file| file.is_file());
    let is_this = first.and_then(|file| std::fs::canonicalize(file).ok()).is_some_and(|file| file == program);
    if is_this { NAME.to_owned() } else { quoted(&program) }
}

/// The line that puts a directory first on LD_LIBRARY_PATH; `None` for a name that LD_LIBRARY_PATH cannot contain:
/// ld.so splits it at colons and semicolons, and expands `$`.
pub(crate) fn prepend_library_path(dir: &Path) -> Option<String> {
    if dir.as_os_str().as_encoded_bytes().iter().any(|byte| b":;$".contains(byte)) {
        return None;
    }
    Some(format!("export LD_LIBRARY_PATH={}\"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"", quoted(dir)))
}

/// The line that takes these canonical directories away from LD_LIBRARY_PATH; `None` if it contains none of them.
pub(crate) fn library_path_without(dirs: &[PathBuf], library_path: &OsStr) -> Option<String> {
    let is_removed = |entry: &[u8]| {
        let entry = Path::new(OsStr::from_bytes(if entry.is_empty() { b"." } else { entry }));
        std::fs::canonicalize(entry).is_ok_and(|entry| dirs.contains(&entry))
    };
    let entries = library_path.as_bytes().split(|byte| b":;".contains(byte));
    let (removed, kept): (Vec<&[u8]>, Vec<&[u8]>) = entries.partition(|entry| is_removed(entry));
    if removed.is_empty() {
        return None;
    }
    Some(match kept.join(&b':') {
        kept if kept.is_empty() => "unset LD_LIBRARY_PATH".to_owned(),
        kept => format!("export LD_LIBRARY_PATH={}", quoted(OsStr::from_bytes(&kept))),
    })
}

/// The command that removes the files of cuDNN 9 from a directory: not cuDNN 8, static libraries or other files.
pub(crate) fn removal(dir: &Path) -> String {
    let dir = quoted_path(dir);
    format!("rm -f {dir}/libcudnn.so.9 {dir}/libcudnn.so.9.* {dir}/libcudnn_*.so.9 {dir}/libcudnn_*.so.9.*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::is_unsafe;

    #[test]
    fn a_line_to_paste_has_no_character_that_a_terminal_would_interpret() {
        for unsafe_one in ('\0'..=char::MAX).filter(|c| is_unsafe(*c)) {
            let line = quoted(format!("a{unsafe_one}b"));
            assert!(line.starts_with("\"$(printf 'a") && line.is_ascii(), "{line:?}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn any_name_is_one_argument() {
        assert_eq!(quoted("/opt/cudnn-9.1/lib"), "/opt/cudnn-9.1/lib");
        assert_eq!(quoted("/a b/$(rm)/it's"), "'/a b/$(rm)/it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a\x1b[1m\n'\\"), r#""$(printf 'a\033[1m\012\047\134')""#);
    }

    #[test]
    fn a_directory_is_taken_away_from_the_search_path() {
        let without = |path: &str| library_path_without(&["/usr".into()], OsStr::new(path));
        assert_eq!(without("/opt/a b:/usr;/usr/../usr/:$x").as_deref(), Some("export LD_LIBRARY_PATH='/opt/a b:$x'"));
        assert_eq!(without("/usr").as_deref(), Some("unset LD_LIBRARY_PATH"));
        assert_eq!(without("/opt/a"), None);
    }

    #[test]
    fn a_directory_that_ld_so_would_split_gets_no_line() {
        assert!(prepend_library_path(Path::new("/opt/a:b")).is_none());
        assert!(prepend_library_path(Path::new("/opt/$LIB")).is_none());
        assert!(prepend_library_path(Path::new("/opt/a b")).is_some_and(|line| line.contains("'/opt/a b'\"$")));
    }
}
