//! The location and size limit of a store.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cudnn_os::IS_WINDOWS;

use super::error::{Cause, NO_DIRECTORY};
use super::variables::{DIR_VARIABLE, LIMIT_VARIABLE, PACK_VARIABLE};

/// The variables with cache directories, and the path of the store below them.
const CACHE_DIRECTORIES: &[(&str, &str)] = if IS_WINDOWS {
    &[("LOCALAPPDATA", "cudnn-plans")]
} else {
    &[("XDG_CACHE_HOME", "cudnn-plans"), ("HOME", ".cache/cudnn-plans")]
};

/// The default size limit: 1 GiB.
pub const DEFAULT_LIMIT: u64 = 1 << 30;

/// The location and size limit of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The directory, which the first `put` creates. With `None`, only packs are used.
    pub dir: Option<PathBuf>,
    /// Maximum total size of the entries in the directory, in bytes.
    pub limit: u64,
    /// Read-only files with plans, which are searched first.
    pub packs: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { dir: None, limit: DEFAULT_LIMIT, packs: Vec::new() }
    }
}

impl Settings {
    /// Reads the settings from the environment, and returns problems with invalid values, which are ignored.
    ///
    /// The directory is [`DIR_VARIABLE`], or `cudnn-plans` in `XDG_CACHE_HOME` or `~/.cache` (on Windows:
    /// `LOCALAPPDATA`). The other settings are [`LIMIT_VARIABLE`] and [`PACK_VARIABLE`]. Empty variables count as
    /// unset.
    ///
    /// Do not use this in secure-execution mode, because the environment comes from a less privileged user.
    pub fn from_environment() -> (Self, Vec<String>) {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<String>) {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut problems = Vec::new();
        let mut settings = Settings::default();

        if let Some(dir) = variable(DIR_VARIABLE).map(PathBuf::from) {
            if dir.is_absolute() {
                settings.dir = Some(dir);
            } else {
                problems.push(Cause::new("is not an absolute path").at(&dir));
            }
        } else {
            // The XDG base directory specification ignores relative paths.
            let candidates = CACHE_DIRECTORIES.iter();
            let mut found = candidates.filter_map(|(name, below)| Some(PathBuf::from(variable(name)?).join(below)));
            settings.dir = found.find(|dir| dir.is_absolute());
            if settings.dir.is_none() {
                problems.push(NO_DIRECTORY.to_owned());
            }
        }

        if let Some(text) = variable(LIMIT_VARIABLE) {
            match parse_size(&text) {
                Some(limit) => settings.limit = limit,
                None => problems.push(format!(
                    "{LIMIT_VARIABLE}={:?} is not a size; set it to a number of bytes, or to 512M or 2G",
                    text.to_string_lossy()
                )),
            }
        }

        let packs = variable(PACK_VARIABLE).unwrap_or_default();
        for pack in std::env::split_paths(&packs).filter(|pack| !pack.as_os_str().is_empty()) {
            if pack.is_absolute() {
                settings.packs.push(pack);
            } else {
                problems.push(Cause::new("is not an absolute path").at_pack(&pack));
            }
        }
        (settings, problems)
    }
}

/// Parses a size such as `4096`, `512M` or `2G`. The units are KiB, MiB, GiB and TiB.
pub fn parse_size(text: &OsStr) -> Option<u64> {
    let text = text.to_str()?.trim();
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (text.get(..at)?, 1 << 10),
        (at, 'm' | 'M') => (text.get(..at)?, 1 << 20),
        (at, 'g' | 'G') => (text.get(..at)?, 1 << 30),
        (at, 't' | 'T') => (text.get(..at)?, 1 << 40),
        _ => (text, 1),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let cases = [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("512M", Some(512 << 20)),
            ("2g", Some(2 << 30)),
            (" 1K ", Some(1024)),
            ("1T", Some(1 << 40)),
            ("16777215T", Some(16_777_215 << 40)),
            ("16777216T", None),
            ("18446744073709551616", None),
            ("M", None),
            ("-1", None),
            ("+1", None),
            ("1.5G", None),
            ("2GB", None),
            ("ä", None),
            (" ", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_size(text.as_ref()), expected, "{text:?}");
        }
    }

    #[test]
    fn the_environment_names_a_directory() {
        if IS_WINDOWS {
            return;
        }
        let default = DEFAULT_LIMIT;
        // Variables, directory, limit, number of packs, problems.
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, u64, usize, &'a [&'a str]);
        let cases: &[Case<'_>] = &[
            (&[("HOME", "/home/a")], Some("/home/a/.cache/cudnn-plans"), default, 0, &[]),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], Some("/x/cudnn-plans"), default, 0, &[]),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")], Some("/h/.cache/cudnn-plans"), default, 0, &[]),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "")], Some("/h/.cache/cudnn-plans"), default, 0, &[]),
            (&[("HOME", "/h"), (DIR_VARIABLE, "/d")], Some("/d"), default, 0, &[]),
            (&[("HOME", "/h"), (DIR_VARIABLE, "")], Some("/h/.cache/cudnn-plans"), default, 0, &[]),
            (&[("HOME", "/h"), (DIR_VARIABLE, "d")], None, default, 0, &["is not an absolute path"]),
            (&[("HOME", "h")], None, default, 0, &[NO_DIRECTORY]),
            (&[], None, default, 0, &[NO_DIRECTORY]),
            (&[(DIR_VARIABLE, "/d"), (LIMIT_VARIABLE, "3M")], Some("/d"), 3 << 20, 0, &[]),
            (&[(DIR_VARIABLE, "/d"), (LIMIT_VARIABLE, "much")], Some("/d"), default, 0, &["\"much\" is not a size"]),
            (
                &[(DIR_VARIABLE, "/d"), (PACK_VARIABLE, "/p:/q::r")],
                Some("/d"),
                default,
                2,
                &["is not an absolute path"],
            ),
        ];
        for (variables, dir, limit, packs, expected) in cases {
            let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            let (settings, problems) = Settings::from_variables(find);
            assert_eq!(settings.dir.as_deref(), dir.map(std::path::Path::new), "{variables:?}");
            assert_eq!((settings.limit, settings.packs.len()), (*limit, *packs), "{variables:?}");
            let are_expected = problems.iter().zip(*expected).all(|(problem, expected)| problem.contains(expected));
            assert!(problems.len() == expected.len() && are_expected, "{variables:?}: {problems:?}");
        }
    }
}
