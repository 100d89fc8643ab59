//! A report on the cuDNN in one directory, from its files: for people who want to know what is installed.

mod arm;
mod package;

pub use arm::ArmVariant;
pub use package::{deleted_packages, deleted_system_packages, is_link_to_itself};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::host::Host;
use crate::image::{
    GpuCode, Identity, damaged_symbol_table, dll_version, gpu_code, identify_any, missing_dll_symbols,
    missing_elf_symbols,
};
use crate::ld_so::is_candidate;
use crate::library::{Library, older_shim};
use crate::packages::{Component, Installer, Package};
use crate::platform::{Architecture, Os, canonicalize};
use crate::release_facts::{JIT_ONLY_SINCE, has_library};
use crate::version::Version;

/// The abilities of an installation, by the libraries that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Variant {
    /// It has every library of its release.
    Full,
    /// It has graph and the engines that compile their kernels at run time: NVIDIA's JIT-only packages.
    JitOnly,
    /// It lacks libraries, as after a copy of some files.
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

/// One library of an installation.
#[derive(Debug)]
#[non_exhaustive]
pub struct LibraryReport {
    /// The library.
    pub library: Library,
    /// Its file.
    pub path: PathBuf,
    /// The identity that the file states, or why it cannot be used on the system that it is for.
    pub identity: Result<Identity, ProbeError>,
    /// The symbols of cuDNN that it needs and that the libraries it depends on lack: it is of another release. Known
    /// only if these libraries exist and are of the installation's release.
    pub missing_symbols: Vec<String>,
    /// The file as wheels installed it, by the record of each wheel that lists it.
    pub recorded: Vec<RecordedFile>,
}

/// A file as a wheel installed it, by the wheel's record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedFile {
    /// The wheel.
    pub package: Package,
    /// The length of the file, in bytes.
    pub len: u64,
    /// Its sha256 in URL-safe base64 without padding, if the record states it.
    pub sha256: Option<String>,
}

/// A piece of evidence for the version, the CUDA release or the kind of aarch64, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// The version, the CUDA release or the kind of aarch64: `cuDNN 9.28.0`, `CUDA 12.9`, `server (SBSA) build`.
    pub value: String,
    /// The file that it was read from.
    pub source: String,
}

/// A report on the cuDNN in one directory, from its files.
///
/// ```
/// use cudnn_probe::{Host, InstallationReport};
/// if let Some(report) = InstallationReport::read("/usr/lib/x86_64-linux-gnu".as_ref(), &Host::current()) {
///     println!("{:?}, {}, lacks {:?}", report.version, report.variant, report.missing);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct InstallationReport {
    /// The directory, without symbolic links.
    pub dir: PathBuf,
    /// The operating system that it is for.
    pub os: Os,
    /// The processor architecture that it is for, if one library can be read.
    pub architecture: Option<Architecture>,
    /// The kind of aarch64 Linux that it is for, if its path or a record of its package states it.
    pub arm_variant: Option<ArmVariant>,
    /// The major version: 9, or an older one, of which only file names are read.
    pub major: u32,
    /// The version: that of graph, else that of another library, else that in a file name.
    pub version: Option<Version>,
    /// The CUDA major version that it is built with: that of most libraries.
    pub cuda_major: Option<u32>,
    /// The CUDA minor version that it is built with: 9 for CUDA 12.9.
    pub cuda_minor: Option<u32>,
    /// Its abilities.
    pub variant: Variant,
    /// The libraries that exist, in the order of [`Library::ALL`].
    pub libraries: Vec<LibraryReport>,
    /// The files that cuDNN opens instead of some of [`InstallationReport::libraries`], because their names contain the
    /// version: see [`Library::dlopen_names`]. Only those that are other files. Known only for Linux.
    pub versioned: Vec<LibraryReport>,
    /// The libraries that its release, or the JIT-only set of it, has and the directory lacks.
    pub missing: Vec<Library>,
    /// The package that it belongs to.
    pub package: Option<Package>,
    /// Other packages with the same files: they were installed over each other, so the files are a mixture.
    pub other_packages: Vec<Package>,
    /// Files of its libraries that its package does not own, if that is one of Debian: left over from a copy, and newer, so
    /// that ldconfig leads the links of the package's libraries to them.
    pub unowned: Vec<PathBuf>,
    /// The evidence for its version, its CUDA release and its kind of aarch64.
    pub evidence: Vec<Evidence>,
}

impl InstallationReport {
    /// Reads a directory. `None` if it contains no cuDNN of any version.
    #[must_use]
    pub fn read(dir: &Path, host: &Host) -> Option<InstallationReport> {
        let dir = canonicalize(dir).ok()?;
        let (os, mut libraries) = [Os::Linux, Os::Windows]
            .into_iter()
            .map(|os| (os, read_libraries(&dir, os)))
            .find(|(_, libraries)| !libraries.is_empty())
            .unwrap_or((Os::Linux, Vec::new()));
        if libraries.is_empty() {
            return read_older(dir, host);
        }
        let wheels = package::wheels(&dir, os);
        for report in &mut libraries {
            report.recorded = package::recorded(&wheels, &report.path);
        }
        reject_other_architectures(&mut libraries);
        add_missing_symbols(&mut libraries);
        let identities = || libraries.iter().filter_map(|report| report.identity.as_ref().ok());
        let graph = identities().find(|identity| identity.library == Library::Graph);
        let version = graph.and_then(|graph| graph.version);
        let version = version.or_else(|| identities().find_map(|identity| identity.version));
        // A graph of another CUDA major would be the only one, and is to be reported, not the others.
        let cuda_major = majority(identities().filter_map(|identity| identity.cuda_major));
        let of_this_cuda = |identity: &&Identity| identity.cuda_major == cuda_major;
        let name = Library::Graph.name_on(os);
        let mut packages = package::packages(&dir, name, os, version, &wheels, host).into_iter();
        let package = packages.next();
        let is_jit = match package.as_ref().and_then(Package::component) {
            Some(Component::CudnnJit) => true,
            // Libraries of the full cuDNN that its owner has installed are missing, and not left out.
            _ => {
                is_jit_set(&libraries)
                    && version.is_none_or(|version| version >= JIT_ONLY_SINCE)
                    && !COMPILED.iter().any(|library| {
                        package::is_recorded(&dir, library.name_on(os), os, package.as_ref(), &wheels, host)
                    })
            }
        };
        let missing = missing(&libraries, version, is_jit);
        let versioned = version.filter(|_| os == Os::Linux);
        let versioned = versioned.map(|version| read_versioned(&dir, version, &libraries)).unwrap_or_default();
        let variant = match (missing.is_empty(), is_jit) {
            (true, true) => Variant::JitOnly,
            (true, false) => Variant::Full,
            (false, _) => Variant::Partial,
        };
        let architecture = identities().map(|identity| identity.architecture).next();
        let is_arm = os == Os::Linux && architecture == Some(Architecture::AARCH64);
        let arm = is_arm.then(|| arm::detect(&dir, package.as_ref(), host)).flatten();
        let files = libraries.iter().chain(&versioned).map(|report| report.path.as_path());
        let unowned = package::unowned(package.as_ref(), files, host);
        let mut evidence = evidence(&libraries, &dir, package.as_ref());
        evidence.extend(arm.iter().map(|(_, evidence)| evidence.clone()));
        Some(InstallationReport {
            os,
            architecture,
            arm_variant: arm.map(|(variant, _)| variant),
            major: 9,
            version,
            cuda_major,
            cuda_minor: identities().filter(of_this_cuda).find_map(|identity| identity.cuda_minor),
            variant,
            missing,
            unowned,
            evidence,
            package,
            other_packages: packages.collect(),
            libraries,
            versioned,
            dir,
        })
    }

    /// The report of one library, if its file exists.
    #[must_use]
    pub fn library(&self, library: Library) -> Option<&LibraryReport> {
        self.libraries.iter().find(|report| report.library == library)
    }

    /// The libraries that do not fit the rest: of another version, or built for another CUDA major version.
    #[must_use]
    pub fn conflicts(&self) -> Vec<(&LibraryReport, ProbeError)> {
        let conflict = |report| Some((report, self.conflict(report)?));
        self.libraries.iter().chain(&self.versioned).filter_map(conflict).collect()
    }

    fn conflict(&self, report: &LibraryReport) -> Option<ProbeError> {
        let identity = report.identity.as_ref().ok()?;
        // cuDNN does not open a library that is left over from a newer release.
        if self.version.is_some_and(|version| !has_library(version, report.library)) {
            return None;
        }
        let missing = || report.missing_symbols.clone();
        identity
            .conflict(self.version, self.cuda_major)
            .or_else(|| (!report.missing_symbols.is_empty()).then(|| ProbeError::OtherRelease { missing: missing() }))
    }

    /// The GPU code of its libraries, of those that have some. Reads thousands of small pieces: see [`gpu_code`].
    ///
    /// cuDNN supports a GPU if each of these libraries has code that runs on it. That is so in 9.0.0, 9.10.2, 9.19.0, 9.27.0
    /// and 9.28.0 for all GPUs that NVIDIA lists for them, and not for those that a release dropped.
    #[must_use]
    pub fn gpu_code(&self) -> Vec<(Library, BTreeSet<GpuCode>)> {
        let usable = self.libraries.iter().filter(|report| report.identity.is_ok());
        let code = usable.filter_map(|report| Some((report.library, gpu_code(&report.path).ok()?)));
        code.filter(|(_, code)| !code.is_empty()).collect()
    }

    /// The CUDA release that it is built with: `12.9`, or `12` if the minor version is unknown.
    #[must_use]
    pub fn cuda(&self) -> Option<String> {
        let major = self.cuda_major?;
        Some(self.cuda_minor.map_or(major.to_string(), |minor| format!("{major}.{minor}")))
    }
}

/// The value that occurs most often; of several the first.
fn majority(values: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (index, value) in values.enumerate() {
        counts.entry(value).or_insert((0, usize::MAX - index)).0 += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

fn read_libraries(dir: &Path, os: Os) -> Vec<LibraryReport> {
    let files = Library::ALL.iter().map(|library| (*library, dir.join(library.name_on(os))));
    let files = files.filter(|(_, path)| path.symlink_metadata().is_ok());
    files.map(|(library, path)| read_library(library, path)).collect()
}

fn read_library(library: Library, path: PathBuf) -> LibraryReport {
    let identity = identify_any(&path, library);
    LibraryReport { library, path, identity, missing_symbols: Vec::new(), recorded: Vec::new() }
}

/// The files that cuDNN opens under names with the version, if they are not those under the names without it. ld.so
/// takes the first name under which it finds a file for this processor.
fn read_versioned(dir: &Path, version: Version, libraries: &[LibraryReport]) -> Vec<LibraryReport> {
    let is_opened = |library: &Library| *library != Library::Shim && has_library(version, *library);
    let read = |library: Library| {
        let [with_patch, with_minor, ..] = library.dlopen_names(version);
        let path = [with_patch, with_minor].map(|name| dir.join(name)).into_iter().find(|path| is_candidate(path))?;
        let file = |path: &Path| canonicalize(path).ok();
        if file(&path) == file(&dir.join(library.linux_name())) {
            return None;
        }
        let mut report = read_library(library, path);
        report.missing_symbols = missing_of(&report, libraries);
        if !report.missing_symbols.is_empty()
            && let Some(error) = damaged_symbol_table(&report.path)
        {
            report.identity = Err(error);
        }
        Some(report)
    };
    Library::ALL.iter().copied().filter(is_opened).filter_map(read).collect()
}

/// ld.so skips a library that is for another processor than the rest: to it, the library is missing.
fn reject_other_architectures(libraries: &mut [LibraryReport]) {
    let identities = || libraries.iter().filter_map(|report| report.identity.as_ref().ok());
    let count = |wanted: Architecture| identities().filter(|identity| identity.architecture == wanted).count();
    let of_graph = identities().find(|identity| identity.library == Library::Graph);
    let of_graph = of_graph.map(|graph| graph.architecture).filter(|found| *found == Architecture::HOST);
    let all = identities().map(|identity| identity.architecture);
    let most = || all.max_by_key(|found| (count(*found), *found == Architecture::HOST));
    let Some(wanted) = of_graph.or_else(most) else { return };
    for report in libraries {
        if let Some(found) = report.identity.as_ref().ok().map(|identity| identity.architecture)
            && found != wanted
        {
            report.identity = Err(ProbeError::WrongArchitecture { found, wanted });
        }
    }
}

/// Compares the symbols of each library with those of the libraries that it depends on, if these can be read and are of
/// one release. Otherwise the symbols show only what the versions show already.
fn add_missing_symbols(libraries: &mut [LibraryReport]) {
    let missing: Vec<Vec<String>> = libraries.iter().map(|report| missing_of(report, libraries)).collect();
    let is_suspect = missing.iter().any(|missing| !missing.is_empty());
    let damage: Vec<Option<ProbeError>> =
        libraries.iter().map(|report| is_suspect.then(|| damaged_symbol_table(&report.path)).flatten()).collect();
    let is_damaged = damage.iter().any(Option::is_some);
    for ((report, missing), damage) in libraries.iter_mut().zip(missing).zip(damage) {
        // Symbols that cannot be found in a damaged table say nothing about releases.
        report.missing_symbols = if is_damaged { Vec::new() } else { missing };
        if let (Some(error), Ok(_)) = (damage, &report.identity) {
            report.identity = Err(error);
        }
    }
}

/// The symbols that a library needs, and that those of these libraries which it depends on lack.
fn missing_of(report: &LibraryReport, libraries: &[LibraryReport]) -> Vec<String> {
    let version_of = |library: Library| {
        let report = libraries.iter().find(|report| report.library == library)?;
        Some((report.path.clone(), report.identity.as_ref().ok()?.version?))
    };
    let Some((_, graph)) = version_of(Library::Graph) else { return Vec::new() };
    let dependencies = report.library.dependencies().iter().map(|other| version_of(*other));
    let of_release = dependencies.map(|found| found.filter(|(_, version)| *version == graph));
    let files: Option<Vec<PathBuf>> = of_release.map(|found| found.map(|(path, _)| path)).collect();
    let (Some(files), Ok(identity)) = (files, &report.identity) else { return Vec::new() };
    let missing = match identity.os {
        Os::Linux => missing_elf_symbols(&report.path, &files),
        Os::Windows => missing_dll_symbols(&report.path, &files),
    };
    missing.unwrap_or_default()
}

/// The libraries that the release has and the directory lacks.
fn missing(libraries: &[LibraryReport], version: Option<Version>, is_jit: bool) -> Vec<Library> {
    const OF_JIT: [Library; 3] = [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled];
    let is_there = |library: &Library| libraries.iter().any(|report| report.library == *library);
    let is_expected = |library: &Library| {
        let in_package = !is_jit || OF_JIT.contains(library);
        in_package && version.is_none_or(|version| has_library(version, *library))
    };
    Library::ALL.iter().copied().filter(|library| is_expected(library) && !is_there(library)).collect()
}

/// The libraries that the full cuDNN has, and a JIT-only set of any release has not.
const COMPILED: [Library; 5] =
    [Library::Ops, Library::Cnn, Library::Adv, Library::EnginesPrecompiled, Library::Heuristic];

/// Are these the libraries of a JIT-only set, perhaps without the shim? No package says so if they were copied.
fn is_jit_set(libraries: &[LibraryReport]) -> bool {
    let has = |library: Library| libraries.iter().any(|report| report.library == library);
    has(Library::Graph) && has(Library::EnginesRuntimeCompiled) && !COMPILED.into_iter().any(has)
}

fn evidence(libraries: &[LibraryReport], dir: &Path, package: Option<&Package>) -> Vec<Evidence> {
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
        // A symbolic link to the file under its full name.
        if let Some(version) = canonicalize(&report.path).ok().and_then(|file| version_in_name(&file)) {
            add(format!("cuDNN {version}"), format!("the name of the file that {name} links to"));
        }
    }
    let header = dir.parent().map(|root| root.join("include/cudnn_version.h"));
    if let Some((header, version)) = header.and_then(|header| Some((header.clone(), version_in_header(&header)?))) {
        add(format!("cuDNN {version}"), header.display().to_string());
    }
    if let Some(package) = package {
        let source = match package.installer {
            Installer::Pip | Installer::Conda | Installer::Dpkg | Installer::Rpm => {
                format!("the records of {}", package.installer)
            }
            Installer::Archive | Installer::WindowsInstaller | Installer::Application | Installer::Toolkit => {
                "the files around it".into()
            }
        };
        add(package.to_string(), source);
    }
    found
}

/// The version in `libcudnn_graph.so.9.28.0`.
fn version_in_name(file: &Path) -> Option<Version> {
    file.file_name()?.to_str()?.split(".so.").nth(1)?.parse().ok()
}

/// The version that `cudnn_version.h` defines.
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

/// A directory with cuDNN 8 or 7, by its file names.
fn read_older(dir: PathBuf, host: &Host) -> Option<InstallationReport> {
    let older = |os| Some((os, older_shim(&dir, os)?));
    let (os, (major, shim)) = older(Os::Linux).or_else(|| older(Os::Windows))?;
    let name = shim.file_name()?.to_str()?.to_owned();
    let version = match os {
        Os::Linux => canonicalize(shim).ok().and_then(|file| version_in_name(&file)),
        Os::Windows => dll_version(&shim),
    };
    let wheels = package::wheels(&dir, os);
    let mut packages = package::packages(&dir, &name, os, version, &wheels, host).into_iter();
    let package = packages.next();
    // Wheels and conda install the library under its short name.
    let version = version.or_else(|| {
        let numbers = package.as_ref()?.version.as_ref()?.split(['.', '-']).take(3).collect::<Vec<_>>();
        numbers.join(".").parse().ok().filter(|version: &Version| version.major == major)
    });
    let version = version.or_else(|| version_in_header(&dir.parent()?.join("include/cudnn_version.h")));
    Some(InstallationReport {
        os,
        architecture: None,
        arm_variant: None,
        major,
        version,
        cuda_major: None,
        cuda_minor: None,
        variant: Variant::Partial,
        libraries: Vec::new(),
        versioned: Vec::new(),
        missing: Vec::new(),
        package,
        other_packages: packages.collect(),
        unowned: Vec::new(),
        evidence: Vec::new(),
        dir,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_is_the_value_that_occurs_most_often_and_first() {
        for (values, expected) in [
            (&[][..], None),
            (&[13], Some(13)),
            (&[12, 13, 13], Some(13)),
            (&[13, 12, 12, 13], Some(13)),
            (&[12, 13, 13, 12], Some(12)),
            (&[11, 13, 12, 12, 13, 12], Some(12)),
        ] {
            assert_eq!(majority(values.iter().copied()), expected, "{values:?}");
        }
    }

    #[test]
    fn a_jit_only_set_is_recognised_by_what_it_has_and_lacks() {
        use Library::{EnginesRuntimeCompiled as Jit, Ext, Graph, Heuristic, Ops, Shim};
        // The libraries, whether they are such a set, and which of a JIT-only set are missing.
        for (libraries, expected, lacks) in [
            (&[Shim, Graph, Jit][..], true, &[][..]),
            (&[Graph, Jit], true, &[Shim]),
            (&[Graph, Jit, Ext], true, &[Shim]),
            (&[Graph, Jit, Ops], false, &[Shim]),
            (&[Graph, Jit, Heuristic], false, &[Shim]),
            (&[Graph], false, &[Shim, Jit]),
            (&[Shim, Jit], false, &[Graph]),
            (&[Shim, Graph, Ops], false, &[Jit]),
        ] {
            let reports: Vec<LibraryReport> = libraries
                .iter()
                .map(|library| LibraryReport {
                    library: *library,
                    path: PathBuf::new(),
                    identity: Err(ProbeError::NotFound),
                    missing_symbols: Vec::new(),
                    recorded: Vec::new(),
                })
                .collect();
            let version = Version::new(9, 20, 0);
            assert_eq!(is_jit_set(&reports), expected, "{libraries:?}");
            assert_eq!(missing(&reports, Some(version), true), lacks, "{libraries:?}");
            let full = Library::ALL.iter().copied().filter(|library| has_library(version, *library));
            let lacks: Vec<Library> = full.filter(|library| !libraries.contains(library)).collect();
            assert_eq!(missing(&reports, Some(version), false), lacks, "{libraries:?}");
        }
        assert_eq!(
            [Variant::Full, Variant::JitOnly, Variant::Partial].map(|variant| variant.to_string()),
            ["full", "JIT only", "partial"]
        );
    }

    #[test]
    fn the_header_states_the_version_among_other_definitions() {
        let header = std::env::temp_dir().join(format!("cudnn-probe-header-{}", std::process::id()));
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
