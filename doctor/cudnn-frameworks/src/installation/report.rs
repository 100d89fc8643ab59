//! Reports on the cuDNN in one directory.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use cudnn_probe::image::dll_version;
use cudnn_probe::release_facts::{JIT_ONLY_SINCE, has_library};
use cudnn_probe::{
    Architecture, Component, GpuCode, Host, Identity, Library, Os, ProbeError, Version, canonicalize, gpu_code,
    older_shim,
};

use super::arm::{self, ArmVariant};
use super::evidence::{Evidence, evidence, version_in_header, version_in_name};
use super::libraries::{self, LibraryReport};
use super::owner::InstallerRecords;
use super::package::Package;

/// The completeness of an installation, based on the libraries that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Variant {
    /// All libraries of the release.
    Full,
    /// The graph library and the engines that compile kernels at run time, as in NVIDIA's JIT-only packages.
    JitOnly,
    /// An incomplete set of libraries, for example because only some files were copied.
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

/// A report on the cuDNN in one directory, based on the files.
///
/// ```
/// use cudnn_frameworks::installation::InstallationReport;
/// use cudnn_probe::Host;
/// if let Some(report) = InstallationReport::read("/usr/lib/x86_64-linux-gnu".as_ref(), &Host::current()) {
///     println!("{:?}, {}, lacks {:?}", report.version, report.variant, report.missing);
/// }
/// ```
#[derive(Debug)]
pub struct InstallationReport {
    /// The directory, without symbolic links.
    pub dir: PathBuf,
    /// The operating system that the installation is for.
    pub os: Os,
    /// The processor architecture, if a library is readable.
    pub architecture: Option<Architecture>,
    /// The kind of aarch64 Linux, if the path or a package record shows it.
    pub arm_variant: Option<ArmVariant>,
    /// The major version. For versions before 9, only file names are read.
    pub major: u32,
    /// The version of the graph library, if known. Otherwise, the version of a different library or in a file name.
    pub version: Option<Version>,
    /// The CUDA major version that most libraries were built with.
    pub cuda_major: Option<u32>,
    /// The CUDA minor version: 9 for CUDA 12.9.
    pub cuda_minor: Option<u32>,
    /// The completeness of the installation.
    pub variant: Variant,
    /// The existing libraries, in the order of [`Library::ALL`].
    pub libraries: Vec<LibraryReport>,
    /// Other files that cuDNN opens instead of [`InstallationReport::libraries`], because it tries names with the
    /// version first: see [`Library::dlopen_names`]. Linux only.
    pub versioned: Vec<LibraryReport>,
    /// Missing libraries of the release, or of the release's JIT-only package.
    pub missing: Vec<Library>,
    /// The package that the installation belongs to.
    pub package: Option<Package>,
    /// Other packages with the same files, which are a mixture because the packages were installed over one another.
    pub other_packages: Vec<Package>,
    /// Library files outside the Debian package, left over from a copy of a newer release. ldconfig links the package's
    /// names to them.
    pub unowned: Vec<PathBuf>,
    /// The evidence for the version, the CUDA release and the kind of aarch64.
    pub evidence: Vec<Evidence>,
}

impl InstallationReport {
    /// Reads a directory. Returns `None` if it contains no version of cuDNN.
    pub fn read(dir: &Path, host: &Host) -> Option<InstallationReport> {
        let dir = canonicalize(dir).ok()?;
        let mut found = [Os::Linux, Os::Windows].into_iter().map(|os| (os, libraries::read(&dir, os)));
        let Some((os, mut libraries)) = found.find(|(_, libraries)| !libraries.is_empty()) else {
            return read_older(dir, host);
        };
        let records = InstallerRecords::read(&dir, os, host);
        for report in &mut libraries {
            report.recorded = records.recorded(&report.path);
        }
        libraries::reject_other_architectures(&mut libraries);
        libraries::add_missing_symbols(&mut libraries);
        let identities = || libraries.iter().filter_map(|report| report.identity.as_ref().ok());
        let graph = identities().find(|identity| identity.library == Library::Graph);
        let version = graph.and_then(|graph| graph.version);
        let version = version.or_else(|| identities().find_map(|identity| identity.version));
        // If only graph was built for a different CUDA, report graph instead of all others.
        let cuda_major = majority(identities().filter_map(|identity| identity.cuda_major));
        let of_this_cuda = |identity: &&Identity| identity.cuda_major == cuda_major;
        let mut packages = records.packages(Library::Graph.name_on(os), version).into_iter();
        let package = packages.next();
        let is_jit = match package.as_ref().and_then(Package::component) {
            Some(Component::CudnnJit) => true,
            // If the package lists more libraries, these are missing.
            _ => {
                is_jit_set(&libraries)
                    && version.is_none_or(|version| version >= JIT_ONLY_SINCE)
                    && !COMPILED.iter().any(|library| records.has(library.name_on(os), package.as_ref()))
            }
        };
        let missing = missing(&libraries, version, is_jit);
        let versioned = version.filter(|_| os == Os::Linux);
        let versioned =
            versioned.map(|version| libraries::read_versioned(&dir, version, &libraries)).unwrap_or_default();
        let variant = match (missing.is_empty(), is_jit) {
            (true, true) => Variant::JitOnly,
            (true, false) => Variant::Full,
            (false, _) => Variant::Partial,
        };
        let architecture = identities().next().map(|identity| identity.architecture);
        let is_arm = os == Os::Linux && architecture == Some(Architecture::AARCH64);
        let arm = is_arm.then(|| arm::detect(&dir, package.as_ref(), host)).flatten();
        let files = libraries.iter().chain(&versioned).map(|report| report.path.as_path());
        let unowned = records.unowned(package.as_ref(), files);
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

    /// Returns the report on a library, if the file exists.
    pub fn library(&self, library: Library) -> Option<&LibraryReport> {
        self.libraries.iter().find(|report| report.library == library)
    }

    /// Returns the libraries with a different version or CUDA major version than the rest.
    pub fn conflicts(&self) -> Vec<(&LibraryReport, ProbeError)> {
        let conflict = |report| Some((report, self.conflict(report)?));
        self.libraries.iter().chain(&self.versioned).filter_map(conflict).collect()
    }

    fn conflict(&self, report: &LibraryReport) -> Option<ProbeError> {
        let identity = report.identity.as_ref().ok()?;
        // cuDNN ignores libraries left over from a newer release.
        if self.version.is_some_and(|version| !has_library(version, report.library)) {
            return None;
        }
        let missing = || report.missing_symbols.clone();
        identity
            .conflict(self.version, self.cuda_major)
            .or_else(|| (!report.missing_symbols.is_empty()).then(|| ProbeError::OtherRelease { missing: missing() }))
    }

    /// Returns the GPU code of all libraries that contain some. Reads thousands of small pieces: see [`gpu_code`].
    ///
    /// cuDNN supports a GPU if all of these libraries contain code for it. In 9.0.0, 9.10.2, 9.19.0, 9.27.0 and 9.28.0,
    /// this is true for the GPUs that NVIDIA lists, and false for GPUs that a release dropped.
    pub fn gpu_code(&self) -> Vec<(Library, BTreeSet<GpuCode>)> {
        let usable = self.libraries.iter().filter(|report| report.identity.is_ok());
        let code = usable.filter_map(|report| Some((report.library, gpu_code(&report.path).ok()?)));
        code.filter(|(_, code)| !code.is_empty()).collect()
    }

    /// Returns whether both installations may be built for the same CUDA major version, as far as it is known.
    pub fn may_share_cuda(&self, other: &InstallationReport) -> bool {
        self.cuda_major.zip(other.cuda_major).is_none_or(|(one, other)| one == other)
    }

    /// Returns the CUDA release that the installation was built with: `12.9`, or `12` if the minor version is unknown.
    pub fn cuda(&self) -> Option<String> {
        let major = self.cuda_major?;
        Some(self.cuda_minor.map_or(major.to_string(), |minor| format!("{major}.{minor}")))
    }
}

/// Returns the most frequent value, or the first of several.
pub fn majority(values: impl DoubleEndedIterator<Item = u32> + Clone) -> Option<u32> {
    values.clone().rev().max_by_key(|value| values.clone().filter(|other| other == value).count())
}

fn missing(libraries: &[LibraryReport], version: Option<Version>, is_jit: bool) -> Vec<Library> {
    const OF_JIT: [Library; 3] = [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled];
    let is_there = |library: &Library| libraries.iter().any(|report| report.library == *library);
    let is_expected = |library: &Library| {
        let in_package = !is_jit || OF_JIT.contains(library);
        in_package && version.is_none_or(|version| has_library(version, *library))
    };
    Library::ALL.iter().copied().filter(|library| is_expected(library) && !is_there(library)).collect()
}

/// Libraries of the full cuDNN that are absent from all JIT-only packages.
const COMPILED: [Library; 5] =
    [Library::Ops, Library::Cnn, Library::Adv, Library::EnginesPrecompiled, Library::Heuristic];

/// Returns whether these are the libraries of a JIT-only package, possibly without the shim. Copied files belong to no
/// package, so only the libraries decide.
fn is_jit_set(libraries: &[LibraryReport]) -> bool {
    let has = |library: Library| libraries.iter().any(|report| report.library == library);
    has(Library::Graph) && has(Library::EnginesRuntimeCompiled) && !COMPILED.into_iter().any(has)
}

/// Reads a directory with cuDNN 8 or 7 by the file names.
fn read_older(dir: PathBuf, host: &Host) -> Option<InstallationReport> {
    let older = |os| Some((os, older_shim(&dir, os)?));
    let (os, (major, shim)) = older(Os::Linux).or_else(|| older(Os::Windows))?;
    let name = shim.file_name()?.to_str()?.to_owned();
    let version = match os {
        Os::Windows => dll_version(&shim),
        _ => canonicalize(shim).ok().and_then(|file| version_in_name(&file)),
    };
    let mut packages = InstallerRecords::read(&dir, os, host).packages(&name, version).into_iter();
    let package = packages.next();
    // Wheels and conda packages install the library under the short name.
    let version = version.or_else(|| package.as_ref()?.release().filter(|version| version.major == major));
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
    fn the_majority_is_the_first_most_frequent_value() {
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
    fn jit_only_sets_are_recognized_by_their_libraries() {
        use Library::{EnginesRuntimeCompiled as Jit, Ext, Graph, Heuristic, Ops, Shim};
        // The libraries, whether they are a JIT-only set, and the missing ones of such a set.
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
}
