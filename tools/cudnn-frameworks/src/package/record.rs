//! Reads the list of a package's files (`RECORD`).

use std::path::{Component, Path, PathBuf};

use cudnn_probe::facts;

use super::distribution::Distribution;
use crate::files::read_text;

/// The maximum number of bytes in a record, and of libraries and modules in a package. torch's record is 1.5 MB.
const MAX_LEN: u64 = 32 << 20;
const MAX_LIBRARIES: usize = 4_000;
const MAX_MODULES: usize = 20_000;
/// Some tools write Windows separators.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// Returns the wanted lines of a package's record, described by `what`. Empty for packages without a record, such as
/// Debian's.
pub(crate) fn lines(info_dir: &Path, what: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    facts::ask("lines of record", format!("{} {what}", info_dir.display()), || {
        text(info_dir).lines().filter(|line| wanted(line)).map(str::to_owned).collect()
    })
}

fn text(info_dir: &Path) -> String {
    read_text(&info_dir.join("RECORD"), MAX_LEN).unwrap_or_default()
}

/// Splits a line such as `torch/lib/libtorch.so,sha256=...,1234` into path, hash and length. A path with a comma is
/// quoted.
pub(crate) fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (path, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",")?,
        None => line.split_once(',')?,
    };
    let (hash, len) = rest.split_once(',')?;
    Some((path, hash, len.trim_end()))
}

/// Returns the shared libraries of a package.
pub(crate) fn libraries(package: &Distribution) -> Vec<PathBuf> {
    facts::ask("libraries in record", &package.info_dir, || {
        let text = text(&package.info_dir);
        let paths = files(&text).filter(|path| is_library(path)).take(MAX_LIBRARIES);
        paths.map(|path| package.import_dir.join(path)).collect()
    })
}

/// Returns the modules and shared libraries of a package relative to the import directory. Skips the package's tests,
/// which are often deleted to make images smaller.
pub(crate) fn modules(package: &Distribution) -> Vec<PathBuf> {
    let text = text(&package.info_dir);
    let is_of_tests = |name: &str| matches!(name, "test" | "tests" | "testing" | "_testing");
    let modules = files(&text).filter(|path| path.ends_with(".py") || is_library(path));
    let modules = modules.filter(|path| !path.split(SEPARATORS).any(is_of_tests));
    modules.take(MAX_MODULES).map(PathBuf::from).collect()
}

/// Returns the files below the import directory.
fn files(text: &str) -> impl Iterator<Item = &str> {
    let is_normal = |component: Component| matches!(component, Component::Normal(_));
    let paths = text.lines().filter_map(parse).map(|(path, ..)| path);
    paths.filter(move |path| Path::new(path).components().all(is_normal))
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit(SEPARATORS).next().unwrap_or_default();
    name.ends_with(".so") || name.contains(".so.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_below_the_import_directory_count() {
        for (line, expected) in [
            ("torch/lib/libtorch.so,sha256=x,12", true),
            ("x.libs/libx-1234abcd.so.1.2,,", true),
            ("\"a,b.so\",,", true),
            ("torch/version.py,,", false),
            ("a.sock,,", false),
            ("../../../lib/x.so,,", false),
            ("/usr/lib/x.so,,", false),
            ("", false),
        ] {
            assert_eq!(files(line).any(is_library), expected, "{line}");
        }
        assert_eq!(parse("\"a,b.so\",sha256=x,12\r"), Some(("a,b.so", "sha256=x", "12")));
    }
}
