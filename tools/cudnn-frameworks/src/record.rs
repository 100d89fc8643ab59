//! The files that a package's record (`RECORD`) names.

use std::path::{Component, Path, PathBuf};

use cudnn_probe::read_bounded;

use crate::distribution::Distribution;

/// The most bytes of a record, and libraries and modules of a package. torch's record has 1.5 MB.
const MAX_LEN: u64 = 8 << 20;
const MAX_LIBRARIES: usize = 4_000;
const MAX_MODULES: usize = 20_000;

/// The shared libraries of a package. None if the package has no record, as those of Debian.
pub(crate) fn libraries(package: &Distribution) -> Vec<PathBuf> {
    let text = text(package);
    let paths = text.lines().filter(|line| line.contains(".so")).filter_map(path);
    let paths = paths.filter(|path| is_below(path) && is_library(path));
    paths.take(MAX_LIBRARIES).map(|path| package.import_dir.join(path)).collect()
}

/// The modules and shared libraries of a package, as paths below the import directory. The tests that it contains do not
/// count: images are made smaller without them.
pub(crate) fn modules(package: &Distribution) -> Vec<PathBuf> {
    let text = text(package);
    let is_module = |path: &Path| path.extension().is_some_and(|extension| extension == "py") || is_library(path);
    let is_of_tests = |path: &Path| {
        let mut names = path.components().filter_map(|component| component.as_os_str().to_str());
        names.any(|name| matches!(name, "test" | "tests" | "testing" | "_testing"))
    };
    let paths = text.lines().filter(|line| line.contains(".so") || line.contains(".py")).filter_map(path);
    let paths = paths.filter(|path| is_below(path) && is_module(path) && !is_of_tests(path));
    paths.take(MAX_MODULES).map(Path::to_owned).collect()
}

fn text(package: &Distribution) -> String {
    let text = read_bounded(&package.info_dir.join("RECORD"), MAX_LEN).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The path in a line: `torch/lib/libtorch.so,sha256=...,1234`, with quotes around a path that has a comma.
fn path(line: &str) -> Option<&Path> {
    let path = match line.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => line.split(',').next(),
    };
    path.map(Path::new)
}

/// Does the path stay below the import directory?
fn is_below(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}

fn is_library(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
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
            assert_eq!(path(line).is_some_and(|path| is_below(path) && is_library(path)), expected, "{line}");
        }
    }
}
