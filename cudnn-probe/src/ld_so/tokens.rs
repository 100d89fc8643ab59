//! Expands the dynamic string tokens `$ORIGIN`, `$LIB` and `$PLATFORM`, also in the form `${ORIGIN}`.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use cudnn_os::files::{bytes_of, path_from_bytes};

use crate::host::Host;
use crate::platform::LD_PLATFORM;

use super::layout;

/// The maximum number of directories in a run path. Nix and Spack write several hundred.
const MAX_RUN_PATH_DIRS: usize = 4096;
/// The maximum path length after expansion in bytes (`PATH_MAX`). Longer paths cannot exist.
const MAX_PATH_LEN: usize = 4096;

/// Expands the tokens in a directory of a run path (`DT_RPATH`, `DT_RUNPATH`) like ld.so. `origin` is the directory of
/// the file that contains the run path.
///
/// Returns `None` for a relative directory, because it would depend on the working directory. In secure-execution mode,
/// `$ORIGIN` is allowed only for the default directories of ld.so, because a user could have created a link to a
/// privileged program anywhere.
pub(super) fn expand_tokens(host: &Host, dir: &OsStr, origin: &Path) -> Option<PathBuf> {
    substitute(host, dir, origin, host.is_secure_execution()).filter(|dir| dir.is_absolute())
}

/// Splits a run path at colons and expands the tokens.
#[must_use]
pub fn run_path_dirs(host: &Host, run_path: &OsStr, origin: &Path) -> Vec<PathBuf> {
    let bytes = bytes_of(run_path);
    let dirs = bytes.split(|byte| *byte == b':').take(MAX_RUN_PATH_DIRS);
    dirs.filter_map(|dir| expand_tokens(host, path_from_bytes(dir).as_os_str(), origin)).collect()
}

/// Returns the directories of a run path exactly as ld.so uses them, including relative ones. Empty ones are skipped.
pub(super) fn run_path_dirs_as_is(host: &Host, run_path: &OsStr, origin: &Path, is_checked: bool) -> Vec<PathBuf> {
    let bytes = bytes_of(run_path);
    let dirs = bytes.split(|byte| *byte == b':').take(MAX_RUN_PATH_DIRS).filter(|dir| !dir.is_empty());
    dirs.filter_map(|dir| substitute(host, path_from_bytes(dir).as_os_str(), origin, is_checked)).collect()
}

/// Expands the tokens. With `is_checked`, `$ORIGIN` must come first, and the result must be in a trusted directory.
pub(super) fn substitute(host: &Host, text: &OsStr, origin: &Path, is_checked: bool) -> Option<PathBuf> {
    let text = bytes_of(text);
    let mut expanded = Vec::with_capacity(text.len());
    let mut rest: &[u8] = &text;
    let mut has_origin = false;
    while let Some((first, after)) = rest.split_first() {
        if expanded.len() > MAX_PATH_LEN {
            return None;
        }
        let Some((token, after)) = token(rest) else {
            expanded.push(*first);
            rest = after;
            continue;
        };
        match token {
            Token::Origin => {
                let is_alone = after.is_empty() || after.starts_with(b"/");
                if is_checked && !(expanded.is_empty() && is_alone) {
                    return None;
                }
                has_origin = true;
                expanded.extend_from_slice(&bytes_of(origin.as_os_str()));
            }
            Token::Lib => expanded.extend_from_slice(layout::lib(host).as_bytes()),
            Token::Platform => expanded.extend_from_slice(LD_PLATFORM.as_bytes()),
        }
        rest = after;
    }
    let path = path_from_bytes(&expanded);
    let is_trusted = || {
        let path = normalize(&path);
        layout::default_dirs(host).iter().any(|dir| path.starts_with(dir))
    };
    (!(is_checked && has_origin) || is_trusted()).then_some(path)
}

#[derive(Clone, Copy)]
enum Token {
    Origin,
    Lib,
    Platform,
}

/// Splits a leading token from the text. Any other `$` is left unchanged.
fn token(text: &[u8]) -> Option<(Token, &[u8])> {
    let text = text.strip_prefix(b"$")?;
    let (text, has_brace) = text.strip_prefix(b"{").map_or((text, false), |text| (text, true));
    let tokens = [(&b"ORIGIN"[..], Token::Origin), (b"LIB", Token::Lib), (b"PLATFORM", Token::Platform)];
    tokens.into_iter().find_map(|(name, token)| {
        let after = text.strip_prefix(name)?;
        if has_brace {
            return Some((token, after.strip_prefix(b"}")?));
        }
        let is_longer = after.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        (!is_longer).then_some((token, after))
    })
}

/// Removes `.` and `..` without accessing files, as ld.so does for privileged programs.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_expanded_as_ld_so_does() {
        if cudnn_os::IS_WINDOWS {
            // Linux paths are relative on this system.
            return;
        }
        let host = Host::sandbox("/nowhere");
        let expanded = |dir: &str| expand_tokens(&host, dir.as_ref(), Path::new("/app/lib"));
        assert_eq!(expanded("$ORIGIN"), Some("/app/lib".into()));
        assert_eq!(expanded("${ORIGIN}/../../nvidia"), Some("/app/lib/../../nvidia".into()));
        assert_eq!(expanded("$ORIGIN//../zzz"), Some("/app/lib//../zzz".into()));
        assert_eq!(expanded("$ORIGIN-x"), Some("/app/lib-x".into()));
        assert_eq!(expanded("/opt/cudnn"), Some("/opt/cudnn".into()));
        assert_eq!(expanded("/opt/$LIB/x"), Some("/opt/lib64/x".into()));
        assert_eq!(expanded("/opt/${PLATFORM}"), Some(Path::new("/opt").join(LD_PLATFORM)));
        assert_eq!(expanded("/opt/$HOME/$"), Some("/opt/$HOME/$".into()));
        for relative in ["", "lib", "$PLATFORM", "$ORIGINAL", "${ORIGIN"] {
            assert_eq!(expanded(relative), None, "{relative}");
        }
    }

    #[test]
    fn a_privileged_program_may_use_origin_only_in_trusted_directories() {
        if cudnn_os::IS_WINDOWS {
            // Linux paths are relative on this system.
            return;
        }
        let host = Host::sandbox("/").secure_execution(true);
        let trusted = layout::default_dirs(&host).swap_remove(0);
        let expanded = |dir: &str, origin: &Path| expand_tokens(&host, dir.as_ref(), origin);
        assert_eq!(expanded("$ORIGIN/x", &trusted), Some(trusted.join("x")));
        assert_eq!(expanded("/opt/cudnn", &trusted), Some("/opt/cudnn".into()));
        for (dir, origin) in [
            ("$ORIGIN", Path::new("/home/user")),
            ("/x$ORIGIN", &trusted),
            ("$ORIGIN-x", &trusted),
            ("$ORIGIN/../../../home", &trusted),
        ] {
            assert_eq!(expanded(dir, origin), None, "{dir} {origin:?}");
        }
    }

    #[test]
    fn a_run_path_of_any_length_is_split() {
        if cudnn_os::IS_WINDOWS {
            // Linux paths are relative on this system.
            return;
        }
        let host = Host::sandbox("/nowhere");
        let long: Vec<String> = (0..300).map(|number| format!("/nix/store/{number:040}/lib")).collect();
        assert_eq!(run_path_dirs(&host, long.join(":").as_ref(), Path::new("/")).len(), 300);
        assert_eq!(run_path_dirs(&host, ":lib:/a".as_ref(), Path::new("/")), [Path::new("/a")]);
        let as_is = run_path_dirs_as_is(&host, ":lib:/a:$ORIGIN".as_ref(), Path::new("/o"), false);
        assert_eq!(as_is, [Path::new("lib"), Path::new("/a"), Path::new("/o")]);
    }

    #[test]
    fn a_directory_that_expands_to_more_than_a_path_can_have_is_dropped() {
        if cudnn_os::IS_WINDOWS {
            // Linux paths are relative on this system.
            return;
        }
        let host = Host::sandbox("/nowhere");
        let expanded = |count: usize| expand_tokens(&host, "$ORIGIN".repeat(count).as_ref(), Path::new("/origin"));
        assert_eq!(expanded(500).map(|dir| dir.as_os_str().len()), Some(3500));
        assert_eq!(expanded(5000), None);
    }
}
