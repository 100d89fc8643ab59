//! Collects evidence for the version and the CUDA release.

use std::path::Path;

use cudnn_probe::{Version, canonicalize};
use serde::Serialize;

use super::libraries::LibraryReport;
use super::package::{Installer, Package};
use crate::files::{file_name, read_text};

/// The maximum size of `cudnn_version.h` in bytes.
const MAX_HEADER_LEN: u64 = 1 << 20;

/// Evidence for the version, the CUDA release or the kind of aarch64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The value: `cuDNN 9.28.0`, `CUDA 12.9`, `server (SBSA) build`.
    pub value: String,
    /// The file that contains the value.
    pub source: String,
}

pub(super) fn evidence(libraries: &[LibraryReport], dir: &Path, package: Option<&Package>) -> Vec<Evidence> {
    let mut found = Vec::new();
    let mut add = |value: String, source: String| found.push(Evidence { value, source });
    for report in libraries {
        let Ok(identity) = &report.identity else { continue };
        let name = report.library.name_on(identity.os);
        if let (Some(version), Some(symbol)) = (identity.version, report.library.version_symbol()) {
            add(format!("cuDNN {version}"), format!("{symbol} in {name}"));
        }
        if let (Some(major), Some(minor)) = (identity.cuda_major, identity.cuda_minor) {
            add(format!("CUDA {major}.{minor}"), format!("GPU code in {name}"));
        }
        // The link leads to the file with the full name.
        if let Some(version) = canonicalize(&report.path).ok().and_then(|file| version_in_name(&file)) {
            add(format!("cuDNN {version}"), format!("the name of the file that {name} links to"));
        }
    }
    let header = dir.parent().map(|root| root.join("include/cudnn_version.h"));
    if let Some((header, version)) = header.and_then(|header| Some((header.clone(), version_in_header(&header)?))) {
        add(format!("cuDNN {version}"), header.display().to_string());
    }
    if let Some(package) = package {
        let has_records =
            matches!(package.installer, Installer::Pip | Installer::Conda | Installer::Dpkg | Installer::Rpm);
        let records = || format!("the records of {}", package.installer);
        add(package.to_string(), if has_records { records() } else { "the files around it".into() });
    }
    found
}

/// Returns the version in a name such as `libcudnn_graph.so.9.28.0`.
pub(super) fn version_in_name(file: &Path) -> Option<Version> {
    file_name(file).split(".so.").nth(1)?.parse().ok()
}

/// Returns the version that `cudnn_version.h` defines.
pub(super) fn version_in_header(header: &Path) -> Option<Version> {
    let text = read_text(header, MAX_HEADER_LEN)?;
    let number = |name: &str| {
        text.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["#define", found, value, ..] if *found == name => value.parse().ok(),
            _ => None,
        })
    };
    Some(Version::new(number("CUDNN_MAJOR")?, number("CUDNN_MINOR")?, number("CUDNN_PATCHLEVEL")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_parsed_from_the_header() {
        let header = std::env::temp_dir().join(format!("cudnn-frameworks-header-{}", std::process::id()));
        for (text, expected) in [
            (
                "#define A 1\n#define CUDNN_PATCHLEVEL 2\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10 // x\n",
                Some("9.10.2"),
            ),
            ("#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n", None),
            ("#undef CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n", None),
        ] {
            let _ = std::fs::write(&header, text);
            let found = version_in_header(&header).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        let _ = std::fs::remove_file(&header);
    }
}
