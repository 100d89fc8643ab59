//! Identifies library files for any operating system and processor.
//!
//! Only headers, tables and a few bytes of data are read. This takes several tens of kilobytes even for a library of
//! half a gigabyte, and little more for a malicious file.

mod elf;
#[cfg(test)]
pub(crate) mod fake_dll;
mod fatbin;
mod file_data;
mod pe;
mod run_path;
mod tables;
mod wheel_metadata;

use crate::facts;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_os::files::{Opened, open_regular};

use crate::error::ProbeError;
use crate::library::Library;
use crate::platform::{Architecture, Os};
use crate::version::Version;

use file_data::FileData;
use tables::{Contents, Data};

pub use fatbin::GpuCode;
pub use tables::Links;
pub use tables::Symbol;
pub(crate) use tables::{DllLinks, Import};

#[cfg(feature = "serde")]
crate::portable!(Identity);

/// The identity of a library, as determined from the file.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Identity {
    /// The path of the file.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub path: PathBuf,
    /// The cuDNN library.
    pub library: Library,
    /// The operating system of the library.
    pub os: Os,
    /// The processor architecture of the library.
    pub architecture: Architecture,
    /// The version, from the version symbol or the resources of a DLL. `None` for libraries without either, see
    /// [`Library::version_symbol`].
    pub version: Option<Version>,
    /// The CUDA major version, if the file or the surrounding wheel contains it.
    pub cuda_major: Option<u32>,
    /// The newest possible CUDA major version, if the GPU code or the run path only implies a limit.
    pub cuda_at_most: Option<u32>,
    /// The CUDA minor version, if the GPU code implies it. For example, 9 means CUDA 12.9.
    pub cuda_minor: Option<u32>,
    /// The names of dependencies (`DT_NEEDED`, or the imports of a PE file).
    pub needed: Vec<String>,
    /// The unexpanded run path: `DT_RUNPATH`, or otherwise `DT_RPATH`.
    pub run_path: Option<String>,
}

impl Identity {
    /// Returns why the library is incompatible with an installation of this version and CUDA major version. Unknown
    /// values are assumed to match.
    #[must_use]
    pub fn conflict(&self, version: Option<Version>, cuda_major: Option<u32>) -> Option<ProbeError> {
        if let (Some(found), Some(graph)) = (self.version, version)
            && found != graph
        {
            return Some(ProbeError::MixedVersions { found, graph });
        }
        let graph = cuda_major?;
        let other = self.cuda_major.filter(|found| *found != graph);
        let found = other.or(self.cuda_at_most.filter(|most| *most < graph))?;
        Some(ProbeError::MixedCuda { found, graph, also: Vec::new() })
    }
}

/// The error for a library with the right processor but a different word size or byte order.
const OTHER_CLASS: &str = "it is a 32-bit or big-endian library";

/// Combines a file and a second value into the subject of a question.
fn about(path: &Path, what: &str) -> OsString {
    let mut subject = path.as_os_str().to_owned();
    subject.push(" ");
    subject.push(what);
    subject
}

/// Identifies a file as a particular library of cuDNN 9 for this system and processor.
///
/// ```no_run
/// use cudnn_probe::{Library, identify};
/// match identify("/opt/cudnn/lib/libcudnn_graph.so.9".as_ref(), Library::Graph) {
///     Ok(graph) => println!("cuDNN {:?} for CUDA {:?}", graph.version, graph.cuda_major),
///     Err(error) => println!("/opt/cudnn/lib/libcudnn_graph.so.9 {error}"),
/// }
/// ```
///
/// # Errors
/// Returns an error if the file is a different library or invalid.
pub fn identify(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    identify_for(path, library, Architecture::HOST)
}

/// Like [`identify`], but for a specific processor. Build scripts use it for the target architecture.
///
/// # Errors
/// Returns an error if the file is a different library or invalid.
pub fn identify_for(path: &Path, library: Library, architecture: Architecture) -> Result<Identity, ProbeError> {
    let question = if architecture == Architecture::HOST { "identity" } else { "identity on another processor" };
    facts::ask(question, about(path, library.file_name()), || {
        let (data, length, os) = open(path)?;
        if os != Os::HOST {
            return Err(ProbeError::WrongOs { found: os, wanted: Os::HOST });
        }
        match Os::HOST {
            Os::Linux => read::<elf::Elf<'_>>(path, library, &data, length, Some(architecture)),
            Os::Windows => read::<pe::Pe<'_>>(path, library, &data, length, Some(architecture)),
        }
    })
}

/// Like [`identify`], but for any operating system and processor. It also derives CUDA versions from the run path,
/// which [`identify`] does not read.
///
/// # Errors
/// Returns an error if the file is a different library or invalid.
pub fn identify_any(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    facts::ask("identity on any system", about(path, library.file_name()), || {
        let (data, length, os) = open(path)?;
        let identity = match os {
            Os::Linux => read::<elf::Elf<'_>>(path, library, &data, length, None),
            Os::Windows => read::<pe::Pe<'_>>(path, library, &data, length, None),
        };
        let mut identity = identity.map_err(|error| match error {
            // The processor matches, so the word size or byte order differs.
            ProbeError::WrongArchitecture { found, wanted } if found == wanted => {
                ProbeError::Malformed { reason: OTHER_CLASS.into() }
            }
            error => error,
        })?;
        let (major, at_most) = run_path::cuda(identity.run_path.as_deref().unwrap_or_default(), identity.version);
        // The metadata may belong to a different wheel that was installed over this file.
        identity.cuda_major = major.or(identity.cuda_major.filter(|major| at_most.is_none_or(|most| *major <= most)));
        identity.cuda_at_most = identity.cuda_at_most.or(at_most);
        Ok(identity)
    })
}

/// Returns the compute capabilities of the GPU code in a library. This reads thousands of small pieces throughout the
/// file. For the largest library, it takes several tens of milliseconds from the page cache, and a second or more from
/// a slow disk.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn gpu_code(path: &Path) -> Result<BTreeSet<GpuCode>, ProbeError> {
    facts::ask("GPU code", path, || {
        let (data, length, os) = open(path)?;
        Ok(gpu_code_range(&data, length, os)?.map(|range| fatbin::targets(range, &data)).unwrap_or_default())
    })
}

/// Like [`gpu_code`], but returns only the main compute capabilities: those with at least a quarter as many entries as
/// the most frequent one. Libraries of frameworks contain a few kernels for others.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn main_gpu_code(path: &Path) -> Result<BTreeSet<GpuCode>, ProbeError> {
    facts::ask("main GPU code", path, || {
        let (data, length, os) = open(path)?;
        Ok(gpu_code_range(&data, length, os)?.map(|range| fatbin::main_targets(range, &data)).unwrap_or_default())
    })
}

/// Returns the byte ranges to read ahead for a library of this system. They exclude the GPU code, which is most of a
/// large library.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn parts_without_gpu_code(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("parts without GPU code", path, || {
        let (data, length, os) = open(path)?;
        if os != Os::HOST {
            return Err(ProbeError::WrongOs { found: os, wanted: Os::HOST });
        }
        let code = gpu_code_range(&data, length, Os::HOST)?;
        // If a library contains no GPU code, assume empty code at the end.
        let code = code.unwrap_or(length..length);
        Ok(vec![0..code.start.min(length), code.end.min(length)..length])
    })
}

/// Returns the parts of a Linux library that ld.so loads. Parts without machine code come first, because they contain
/// texts.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn loaded_parts(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("loaded parts", path, || {
        let (data, length) = open_elf(path)?;
        Ok(elf::Elf::read(&data, length, None)?.loaded_parts())
    })
}

/// Like [`parts_without_gpu_code`], but for libraries of any system.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn parts_without_gpu_code_any(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("parts without GPU code on any system", path, || {
        let (data, length, os) = open(path)?;
        let code = gpu_code_range(&data, length, os)?.unwrap_or(length..length);
        Ok(vec![0..code.start.min(length), code.end.min(length)..length])
    })
}

/// Returns the cuDNN symbols that a library of this system needs and that are not defined by the given libraries. For
/// libraries of the same release, the result is empty. A library from a different release usually needs symbols that
/// were removed or did not exist yet.
///
/// # Errors
/// Returns an error if reading one of the files fails.
pub fn missing_symbols(library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
    missing_symbols_for(Os::HOST, library, defined_by)
}

/// Like [`missing_symbols`], but for libraries of any system. A separate function allows programs that only inspect
/// libraries of their own system to exclude the code for other systems.
///
/// # Errors
/// Returns an error if reading one of the files fails.
#[inline]
pub fn missing_symbols_for(os: Os, library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
    facts::ask(
        "missing symbols",
        about(library, &defined_by.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(" ")),
        || match os {
            Os::Linux => missing_elf_symbols(library, defined_by),
            Os::Windows => missing_dll_symbols(library, defined_by),
        },
    )
}

fn missing_elf_symbols(library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
    let (data, length) = open_elf(library)?;
    let mut missing = elf::Elf::read(&data, length, None)?.undefined("cudnn");
    for file in defined_by {
        let (data, length) = open_elf(file)?;
        let elf = elf::Elf::read(&data, length, None)?;
        missing.retain(|symbol| !elf.defines(symbol));
    }
    missing.sort_unstable();
    Ok(missing.into_iter().map(str::to_owned).collect())
}

fn open_elf(path: &Path) -> Result<(FileData, u64), ProbeError> {
    match open(path)? {
        (data, length, Os::Linux) => Ok((data, length)),
        (_, _, found) => Err(ProbeError::WrongOs { found, wanted: Os::Linux }),
    }
}

/// Compares only symbols that the DLL imports from these files, because imports specify the DLL.
fn missing_dll_symbols(library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
    let mut missing = Vec::new();
    let links = dll_links(library)?;
    for file in defined_by {
        let name = file.file_name().unwrap_or_default();
        for import in links.imports.iter().filter(|import| name.eq_ignore_ascii_case(&import.dll)) {
            let lacking = missing_imports(file, &import.symbols)?;
            missing.extend(lacking.into_iter().filter_map(|symbol| match symbol {
                Symbol::Name(name) => Some(name),
                Symbol::Ordinal(_) => None,
            }));
        }
    }
    missing.sort_unstable();
    Ok(missing)
}

/// Returns the symbols that a DLL does not export, in the original order.
pub(crate) fn missing_imports(dll: &Path, symbols: &[Symbol]) -> Result<Vec<Symbol>, ProbeError> {
    facts::ask("missing imports", about(dll, &format!("{symbols:?}")), || {
        let (data, length, _) = open(dll)?;
        let pe = pe::Pe::read(&data, length, None)?;
        Ok(symbols.iter().filter(|symbol| !pe.defines(symbol)).cloned().collect())
    })
}

/// Returns the version in the resources of a DLL.
#[must_use]
pub fn dll_version(dll: &Path) -> Option<Version> {
    facts::ask("version of DLL", dll, || {
        let (data, length, os) = open(dll).ok()?;
        if os != Os::Windows {
            return None;
        }
        pe::Pe::read(&data, length, None).ok()?.resource_version()
    })
}

/// Reads the imports and exports of a Windows DLL or program.
pub(crate) fn dll_links(path: &Path) -> Result<DllLinks, ProbeError> {
    facts::ask("links of DLL", path, || {
        let (data, length, os) = open(path)?;
        match os {
            Os::Windows => Ok(pe::Pe::read(&data, length, None)?.links()),
            found => Err(ProbeError::WrongOs { found, wanted: Os::Windows }),
        }
    })
}

/// Returns the names of the DLLs that a Windows DLL or program imports. This works on any system.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn imported_dlls(path: &Path) -> Result<Vec<String>, ProbeError> {
    Ok(dll_links(path)?.imports.into_iter().map(|import| import.dll).collect())
}

/// Detects damage to the symbol table of a Linux library, that is, names that ld.so cannot find with the hash table. If
/// symbols are missing because of such damage, the library may still be from the right release.
#[must_use]
pub fn damaged_symbol_table(library: &Path) -> Option<ProbeError> {
    facts::ask("damaged symbol table", library, || {
        let (data, length, os) = open(library).ok()?;
        if os != Os::Linux {
            return None;
        }
        elf::Elf::read(&data, length, None).ok()?.damaged_symbols()
    })
}

/// Returns a short description of a list of functions.
fn exported(functions: &[&str]) -> String {
    let (first, last) = (functions.first().unwrap_or(&""), functions.last().unwrap_or(&""));
    format!("{first}..{last} ({})", functions.len())
}

/// Returns which of these functions a library of this system exports, in the original order.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn exports(library: &Path, functions: &[&str]) -> Result<Vec<bool>, ProbeError> {
    facts::ask("exports", about(library, &exported(functions)), || {
        let (data, length, os) = open(library)?;
        if os != Os::HOST {
            return Err(ProbeError::WrongOs { found: os, wanted: Os::HOST });
        }
        match Os::HOST {
            Os::Linux => defined::<elf::Elf<'_>>(&data, length, functions),
            Os::Windows => defined::<pe::Pe<'_>>(&data, length, functions),
        }
    })
}

/// Returns the cuDNN functions that `replaced` exports and `library` does not. A replacement such as the drop-in must
/// export all functions, because programs that call a missing one do not start.
///
/// # Errors
/// Returns an error if reading one of the files fails.
pub fn missing_exports(library: &Path, replaced: &Path) -> Result<Vec<String>, ProbeError> {
    facts::ask("missing exports", about(library, &replaced.to_string_lossy()), || {
        let functions = |path: &Path| {
            let (data, length, os) = open(path)?;
            Ok(match os {
                Os::Linux => elf::Elf::read(&data, length, None)?.functions("cudnn")?,
                Os::Windows => pe::Pe::read(&data, length, None)?.functions("cudnn"),
            })
        };
        let present: BTreeSet<String> = functions(library)?.into_iter().collect();
        let mut missing = functions(replaced)?;
        missing.retain(|function| !present.contains(function));
        missing.sort_unstable();
        Ok(missing)
    })
}

fn defined<'a, F: Format<'a>>(data: Data<'a>, length: u64, functions: &[&str]) -> Result<Vec<bool>, ProbeError> {
    let format = F::read(data, length, None)?;
    Ok(functions.iter().map(|function| format.defines(function)).collect())
}

/// Returns the program interpreter of a Linux program for this processor, such as `/lib64/ld-linux-x86-64.so.2`.
/// Returns `None` for libraries and statically linked programs.
#[must_use]
pub fn elf_interpreter(path: &Path) -> Option<PathBuf> {
    facts::ask("interpreter", path, || {
        let (data, length, os) = open(path).ok()?;
        if os == Os::Linux { elf::Elf::read_any(&data, length).ok()?.interpreter() } else { None }
    })
}

/// Reads the dependencies of a Linux library or program for this processor.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn links(path: &Path) -> Result<Links, ProbeError> {
    facts::ask("links", path, || {
        let (data, length, os) = open(path)?;
        match os {
            Os::Linux => elf::Elf::read_any(&data, length)?.links(),
            found => Err(ProbeError::WrongOs { found, wanted: Os::Linux }),
        }
    })
}

fn read<'a, F: Format<'a>>(
    path: &Path,
    library: Library,
    data: Data<'a>,
    length: u64,
    wanted: Option<Architecture>,
) -> Result<Identity, ProbeError> {
    let (os, format) = (F::OS, F::read(data, length, wanted)?);
    let contents = format.contents()?;
    if contents.name.is_empty() {
        // For example, the end of the file was never downloaded and consists of zeros.
        return Err(ProbeError::Malformed { reason: "the library name is missing".into() });
    }
    if contents.name != library.name_on(os) {
        // cuDNN 8 uses different names, so the file was renamed.
        let older = format.resource_version().filter(|version| version.major < 9 && contents.name.starts_with("cudnn"));
        return Err(match older {
            Some(found) => ProbeError::WrongMajor { found },
            None => ProbeError::WrongSoname { found: contents.name, wanted: library },
        });
    }
    let version = library.version_symbol().and_then(|symbol| format.read_symbol(symbol)).map(Version::from_symbol);
    let version = version.or_else(|| format.resource_version());
    let cuda = format.gpu_code().map(|range| fatbin::cuda(range, data)).unwrap_or_default();
    let identity = Identity {
        path: path.to_owned(),
        library,
        os,
        architecture: format.architecture(),
        version,
        // The graph library contains no GPU code. Before it is loaded, only the run path and the wheel metadata
        // indicate the CUDA version.
        cuda_major: cuda.major.or_else(|| wheel_metadata::cuda_major(path)),
        cuda_at_most: cuda.at_most,
        cuda_minor: cuda.minor,
        needed: contents.needed,
        run_path: contents.run_path.map(|run_path| run_path.to_string_lossy().into_owned()),
    };
    match version {
        Some(found) if found.major != 9 => Err(ProbeError::WrongMajor { found }),
        _ => Ok(identity),
    }
}

/// A file in one of the two formats, with parsed headers. Programs that use only one format do not contain code for the
/// other.
trait Format<'a>: Sized {
    const OS: Os;
    fn read(data: Data<'a>, length: u64, wanted: Option<Architecture>) -> Result<Self, ProbeError>;
    fn contents(&self) -> Result<Contents, ProbeError>;
    fn architecture(&self) -> Architecture;
    /// Returns the first bytes of an exported variable.
    fn read_symbol(&self, name: &str) -> Option<[u8; 4]>;
    fn defines(&self, function: &str) -> bool;
    /// Returns the version in the resources of a Windows file.
    fn resource_version(&self) -> Option<Version>;
    fn gpu_code(&self) -> Option<Range<u64>>;
}

impl<'a> Format<'a> for elf::Elf<'a> {
    const OS: Os = Os::Linux;

    fn read(data: Data<'a>, length: u64, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        elf::Elf::read(data, length, wanted)
    }

    fn contents(&self) -> Result<Contents, ProbeError> {
        self.contents()
    }

    fn architecture(&self) -> Architecture {
        self.architecture()
    }

    fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        self.read_symbol(name)
    }

    fn defines(&self, function: &str) -> bool {
        self.defines(function)
    }

    fn resource_version(&self) -> Option<Version> {
        None
    }

    fn gpu_code(&self) -> Option<Range<u64>> {
        self.gpu_code()
    }
}

impl<'a> Format<'a> for pe::Pe<'a> {
    const OS: Os = Os::Windows;

    fn read(data: Data<'a>, length: u64, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        pe::Pe::read(data, length, wanted)
    }

    fn contents(&self) -> Result<Contents, ProbeError> {
        self.contents()
    }

    fn architecture(&self) -> Architecture {
        self.architecture()
    }

    fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        self.read_symbol(name)
    }

    fn defines(&self, function: &str) -> bool {
        self.defines(&Symbol::Name(function.to_owned()))
    }

    fn resource_version(&self) -> Option<Version> {
        self.resource_version()
    }

    fn gpu_code(&self) -> Option<Range<u64>> {
        self.gpu_code()
    }
}

/// Returns the range of the GPU code of a library, if there is any.
fn gpu_code_range(data: Data<'_>, length: u64, os: Os) -> Result<Option<Range<u64>>, ProbeError> {
    Ok(match os {
        Os::Linux => elf::Elf::read(data, length, None)?.gpu_code(),
        Os::Windows => pe::Pe::read(data, length, None)?.gpu_code(),
    })
}

/// Opens a library and determines the operating system from the first bytes.
fn open(path: &Path) -> Result<(FileData, u64, Os), ProbeError> {
    let explain = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => match std::fs::read_link(path) {
            Ok(target) => ProbeError::BrokenLink { target },
            Err(_) => ProbeError::NotFound,
        },
        _ => ProbeError::Unreadable { error },
    };
    let (file, length) = match open_regular(path).map_err(explain)? {
        Opened::Regular(file, length) => (file, length),
        Opened::Other(kind) => return Err(ProbeError::NotRegularFile { kind }),
    };
    let data = FileData::new(file, length);
    let start = data.start(16).map_err(explain)?;
    match start.as_slice() {
        [0x7f, b'E', b'L', b'F', ..] => Ok((data, length, Os::Linux)),
        [b'M', b'Z', ..] => Ok((data, length, Os::Windows)),
        _ => Err(ProbeError::NotElf { starts_with: start }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_in_conflict_with_another_version_and_another_cuda() {
        let (old, new) = (Some(Version::new(9, 10, 2)), Some(Version::new(9, 19, 0)));
        // Fields: version, CUDA, newest possible CUDA, and the values of the installation.
        for (version, cuda_major, cuda_at_most, installation, expected) in [
            (new, Some(12), None, (new, Some(12)), ""),
            (old, Some(12), None, (new, Some(12)), "is cuDNN 9.10.2, but the $ next to it is 9.19.0"),
            (None, None, None, (new, Some(12)), ""),
            (old, Some(12), None, (None, None), ""),
            (
                new,
                Some(13),
                None,
                (new, Some(12)),
                "is built for CUDA 13, but the libraries next to it are for CUDA 12",
            ),
            (new, None, Some(12), (new, Some(11)), ""),
            (new, None, Some(12), (new, Some(12)), ""),
            (
                new,
                None,
                Some(12),
                (new, Some(13)),
                "is built for CUDA 12, but the libraries next to it are for CUDA 13",
            ),
        ] {
            let identity = Identity {
                path: "/lib/libcudnn_ops.so.9".into(),
                library: Library::Ops,
                os: Os::Linux,
                architecture: Architecture::HOST,
                version,
                cuda_major,
                cuda_at_most,
                cuda_minor: None,
                needed: Vec::new(),
                run_path: None,
            };
            let conflict = identity.conflict(installation.0, installation.1).map(|error| error.to_string());
            let expected = expected.replace('$', Library::Graph.file_name());
            assert_eq!(conflict.unwrap_or_default(), expected, "{identity:?} {installation:?}");
        }
    }
}
