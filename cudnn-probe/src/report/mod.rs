//! Everything that files tell of one folder that holds cuDNN: for people who want to know what is installed.

mod package;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::release_facts;
use crate::{Architecture, Host, Identity, Library, Os, ProbeError, Version, identify_any};

pub use package::{Installer, Package};

/// What a folder's cuDNN is able to do, by the libraries that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Variant {
    /// Every library of its release.
    Full,
    /// Graph and the engines that compile their kernels when they are used: a JIT-only wheel.
    JitOnly,
    /// Something else: a part, as after a copy of some files.
    Partial,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Variant::Full => "full",
            Variant::JitOnly => "JIT only",
            Variant::Partial => "partial",
        })
    }
}

/// One library of the folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct LibraryReport {
    /// Which.
    pub library: Library,
    /// Its file.
    pub path: PathBuf,
    /// What the file says of itself, or why it cannot be used. For the system and processor that it is for.
    pub identity: Result<Identity, ProbeError>,
}

/// Something that tells the version or the CUDA major, besides what it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// The version, or the CUDA release, in text.
    pub value: String,
    /// Where it was read.
    pub source: String,
}

/// What files tell of one folder that holds cuDNN.
#[derive(Debug)]
#[non_exhaustive]
pub struct InstallationReport {
    /// The folder, without links in it.
    pub dir: PathBuf,
    /// The system that it is for.
    pub system: Os,
    /// The processor that it is for, where one library can be read.
    pub architecture: Option<Architecture>,
    /// The major version: 9, or an older one, of which no more is read than file names.
    pub major: u32,
    /// Its version: that of graph, or else what file names say.
    pub version: Option<Version>,
    /// The CUDA major that it was built with.
    pub cuda_major: Option<u32>,
    /// The CUDA release that it was built with: 9 of 12.9.
    pub cuda_minor: Option<u32>,
    /// What it is able to do.
    pub variant: Variant,
    /// The libraries that are there, in [`Library::ALL`]'s order.
    pub libraries: Vec<LibraryReport>,
    /// Those that its release has and the folder has not; none of a JIT-only one.
    pub missing: Vec<Library>,
    /// The package that it came with.
    pub package: Option<Package>,
    /// What says which version and which CUDA it is.
    pub evidence: Vec<Evidence>,
}

impl InstallationReport {
    /// Looks into a folder; `None` where it holds no cuDNN of any version.
    #[must_use]
    pub fn read(folder: &Path, environment: &Host) -> Option<InstallationReport> {
        let folder = std::fs::canonicalize(folder).ok()?;
        let parts = |system| parts(&folder, system);
        let (system, libraries) = [Os::Linux, Os::Windows]
            .into_iter()
            .map(|system| (system, parts(system)))
            .find(|(_, libraries)| !libraries.is_empty())
            .unwrap_or((Os::Linux, Vec::new()));
        if libraries.is_empty() {
            return older(folder, environment);
        }
        let identities = || libraries.iter().filter_map(|part| part.identity.as_ref().ok());
        let version = identities().find(|identity| identity.library == Library::Graph).and_then(|graph| graph.version);
        let version = version.or_else(|| identities().find_map(|identity| identity.version));
        let package = package::package(&folder, system, version, environment);
        let is_jit_package = package.as_ref().is_some_and(|package| package.name.contains("-jit"));
        let missing = missing(&libraries, version, is_jit_package);
        let flavour = match is_jit_package {
            true if missing.is_empty() => Variant::JitOnly,
            true => Variant::Partial,
            false => flavour(&libraries, &missing),
        };
        let witnesses = witnesses(&libraries, &folder, package.as_ref());
        Some(InstallationReport {
            system,
            architecture: identities().map(|identity| identity.architecture).next(),
            major: 9,
            version,
            cuda_major: identities().find_map(|identity| identity.cuda_major),
            cuda_minor: identities().find_map(|identity| identity.cuda_minor),
            variant: flavour,
            missing: if flavour == Variant::JitOnly { Vec::new() } else { missing },
            package,
            evidence: witnesses,
            libraries,
            dir: folder,
        })
    }

    /// The library, if it is there.
    #[must_use]
    pub fn part(&self, library: Library) -> Option<&LibraryReport> {
        self.libraries.iter().find(|part| part.library == library)
    }

    /// What contradicts itself: libraries of two versions, or of two CUDA majors.
    #[must_use]
    pub fn conflicts(&self) -> Vec<(&LibraryReport, ProbeError)> {
        let mut found = Vec::new();
        for part in &self.libraries {
            let Ok(identity) = &part.identity else { continue };
            let cuda = identity.cuda_major;
            match (identity.version, self.version) {
                (Some(one), Some(graph)) if one != graph => {
                    found.push((part, ProbeError::MixedVersions { found: one, graph }));
                    continue;
                }
                _ => {}
            }
            if let (Some(one), Some(graph)) = (cuda.or(identity.cuda_at_most), self.cuda_major) {
                let differs = if cuda.is_some() { one != graph } else { one < graph };
                if differs {
                    found.push((part, ProbeError::MixedCuda { found: one, graph }));
                }
            }
        }
        found
    }

    /// `12.9`, or `12` where the release is not told.
    #[must_use]
    pub fn cuda(&self) -> Option<String> {
        let major = self.cuda_major?;
        Some(self.cuda_minor.map_or(major.to_string(), |minor| format!("{major}.{minor}")))
    }
}

fn parts(folder: &Path, system: Os) -> Vec<LibraryReport> {
    let file = |library: Library| (library, folder.join(library.name_on(system)));
    let there = |(_, path): &(Library, PathBuf)| path.symlink_metadata().is_ok();
    let part =
        |(library, path): (Library, PathBuf)| LibraryReport { library, identity: identify_any(&path, library), path };
    Library::ALL.iter().copied().map(file).filter(there).map(part).collect()
}

/// What the release has and the folder has not.
fn missing(libraries: &[LibraryReport], version: Option<Version>, is_jit_package: bool) -> Vec<Library> {
    let is_there = |library: &Library| libraries.iter().any(|part| part.library == *library);
    const OF_JIT: [Library; 3] = [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled];
    let of_release = |library: &Library| {
        let of_flavour = !is_jit_package || OF_JIT.contains(library);
        of_flavour && version.is_none_or(|version| release_facts::has_library(version, *library))
    };
    Library::ALL.iter().copied().filter(|library| of_release(library) && !is_there(library)).collect()
}

fn flavour(libraries: &[LibraryReport], missing: &[Library]) -> Variant {
    let has = |library: Library| libraries.iter().any(|part| part.library == library);
    let compiled = [Library::Ops, Library::Cnn, Library::Adv, Library::EnginesPrecompiled, Library::Heuristic];
    if missing.is_empty() {
        Variant::Full
    } else if has(Library::Graph) && has(Library::EnginesRuntimeCompiled) && !compiled.into_iter().any(has) {
        Variant::JitOnly
    } else {
        Variant::Partial
    }
}

fn witnesses(libraries: &[LibraryReport], folder: &Path, package: Option<&Package>) -> Vec<Evidence> {
    let mut found = Vec::new();
    let mut say = |says: String, source: String| found.push(Evidence { value: says, source });
    for part in libraries {
        let Ok(identity) = &part.identity else { continue };
        if let (Some(version), Some(symbol)) = (identity.version, part.library.version_symbol()) {
            say(format!("cuDNN {version}"), format!("{symbol} in {}", part.library.name_on(identity.os)));
        }
        if let (Some(major), Some(minor)) = (identity.cuda_major, identity.cuda_minor) {
            say(format!("CUDA {major}.{minor}"), format!("GPU code in {}", part.library.name_on(identity.os)));
        }
        // A link to the file under its full name.
        if let Some(version) = std::fs::canonicalize(&part.path).ok().and_then(|file| version_in_name(&file)) {
            say(format!("cuDNN {version}"), format!("the name of the file that {} leads to", part.library));
        }
    }
    let header = folder.parent().map(|root| root.join("include/cudnn_version.h"));
    if let Some((header, version)) = header.and_then(|header| Some((header.clone(), version_in_header(&header)?))) {
        say(format!("cuDNN {version}"), header.display().to_string());
    }
    if let Some(package) = package {
        say(package.to_string(), format!("{}'s record", package.installer));
    }
    found
}

/// `libcudnn_graph.so.9.28.0`.
fn version_in_name(file: &Path) -> Option<Version> {
    file.file_name()?.to_str()?.split(".so.").nth(1)?.parse().ok()
}

/// What `cudnn_version.h` defines.
fn version_in_header(header: &Path) -> Option<Version> {
    let text = package::read(header)?;
    let number = |name: &str| {
        text.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["#define", found, value, ..] if *found == name => value.parse().ok(),
            _ => None,
        })
    };
    Some(Version::new(number("CUDNN_MAJOR")?, number("CUDNN_MINOR")?, number("CUDNN_PATCHLEVEL")?))
}

/// A folder with cuDNN 8 or 7, known by file names.
fn older(folder: PathBuf, environment: &Host) -> Option<InstallationReport> {
    let major = [8, 7].into_iter().find(|major| folder.join(format!("libcudnn.so.{major}")).exists())?;
    let shim = folder.join(format!("libcudnn.so.{major}"));
    let version = std::fs::canonicalize(shim).ok().and_then(|file| version_in_name(&file));
    Some(InstallationReport {
        system: Os::Linux,
        architecture: None,
        major,
        version,
        cuda_major: None,
        cuda_minor: None,
        variant: Variant::Partial,
        libraries: Vec::new(),
        missing: Vec::new(),
        package: package::package(&folder, Os::Linux, version, environment),
        evidence: Vec::new(),
        dir: folder,
    })
}
