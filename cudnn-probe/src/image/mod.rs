//! Identifies one library file, for any operating system and processor. Reads headers, tables and a few bytes of data:
//! some tens of kilobytes even of a library with half a gigabyte, and little more of a malicious file.

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

/// The identity that a library's file states.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Identity {
    /// The file.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub path: PathBuf,
    /// The library of cuDNN.
    pub library: Library,
    /// The operating system that it is built for.
    pub os: Os,
    /// The processor architecture that it is built for.
    pub architecture: Architecture,
    /// Its version, from its version symbol, or from the resources of a DLL. `None` for a library without either: see
    /// [`Library::version_symbol`].
    pub version: Option<Version>,
    /// The CUDA major version that it is built with, if the file or the wheel around it states it.
    pub cuda_major: Option<u32>,
    /// The newest CUDA major version that it can be built with, if its GPU code or its run path gives only a limit.
    pub cuda_at_most: Option<u32>,
    /// The CUDA minor version that it is built with, if its GPU code states it: 9 for CUDA 12.9.
    pub cuda_minor: Option<u32>,
    /// The names of the libraries that it depends on (`DT_NEEDED`, or the imports of a PE file).
    pub needed: Vec<String>,
    /// Its run path, `DT_RUNPATH` or else `DT_RPATH`, as written, with `$ORIGIN`.
    pub run_path: Option<String>,
}

impl Identity {
    /// The reason why the library cannot be used with an installation of this version and CUDA major version, as far
    /// as these are known.
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

/// What is wrong with a library for this processor with 32 bits, or for another byte order.
const OTHER_CLASS: &str = "it is a 32-bit or big-endian library";

/// The subject of a question about a file that has a second part.
fn about(path: &Path, what: &str) -> OsString {
    let mut subject = path.as_os_str().to_owned();
    subject.push(" ");
    subject.push(what);
    subject
}

/// Reads a file as this library of cuDNN 9, built for this system and processor.
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
/// The reason why it cannot be that library.
pub fn identify(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    identify_for(path, library, Architecture::HOST)
}

/// Like [`identify`], for another processor than this program's: a build script asks for its target's.
///
/// # Errors
/// The reason why it cannot be that library.
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

/// Like [`identify`], for any operating system and processor, and with all that the file states about its CUDA version:
/// [`identify`] does not read what only a run path states.
///
/// # Errors
/// The reason why it cannot be that library.
pub fn identify_any(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    facts::ask("identity on any system", about(path, library.file_name()), || {
        let (data, length, os) = open(path)?;
        let identity = match os {
            Os::Linux => read::<elf::Elf<'_>>(path, library, &data, length, None),
            Os::Windows => read::<pe::Pe<'_>>(path, library, &data, length, None),
        };
        let mut identity = identity.map_err(|error| match error {
            // The same processor, with 32 bits or another byte order.
            ProbeError::WrongArchitecture { found, wanted } if found == wanted => {
                ProbeError::Malformed { reason: OTHER_CLASS.into() }
            }
            error => error,
        })?;
        let (major, at_most) = run_path::cuda(identity.run_path.as_deref().unwrap_or_default(), identity.version);
        // The record of a wheel may be that of another one, which was installed over this file.
        identity.cuda_major = major.or(identity.cuda_major.filter(|major| at_most.is_none_or(|most| *major <= most)));
        identity.cuda_at_most = identity.cuda_at_most.or(at_most);
        Ok(identity)
    })
}

/// The compute capabilities for which a library has GPU code. Reads thousands of small pieces all over the file: some
/// tens of milliseconds for the largest library in the page cache, and a second or more from a slow disk.
///
/// # Errors
/// The reason why it cannot be read.
pub fn gpu_code(path: &Path) -> Result<BTreeSet<GpuCode>, ProbeError> {
    facts::ask("GPU code", path, || {
        let (data, length, os) = open(path)?;
        Ok(gpu_code_range(&data, length, os)?.map(|range| fatbin::targets(range, &data)).unwrap_or_default())
    })
}

/// Like [`gpu_code`], but only what most of the library's kernels are compiled for: with at least a quarter of the entries
/// of the most frequent compute capability. Libraries of frameworks have single kernels for others.
///
/// # Errors
/// The reason why it cannot be read.
pub fn main_gpu_code(path: &Path) -> Result<BTreeSet<GpuCode>, ProbeError> {
    facts::ask("main GPU code", path, || {
        let (data, length, os) = open(path)?;
        Ok(gpu_code_range(&data, length, os)?.map(|range| fatbin::main_targets(range, &data)).unwrap_or_default())
    })
}

/// The byte ranges of a library for this system to read ahead: all but its GPU code, which is most of a large library.
///
/// # Errors
/// The reason why it cannot be read.
pub fn parts_without_gpu_code(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("parts without GPU code", path, || {
        let (data, length, os) = open(path)?;
        if os != Os::HOST {
            return Err(ProbeError::WrongOs { found: os, wanted: Os::HOST });
        }
        let code = gpu_code_range(&data, length, Os::HOST)?;
        // A library without GPU code is treated as if the code were at its end, and empty.
        let code = code.unwrap_or(length..length);
        Ok(vec![0..code.start.min(length), code.end.min(length)..length])
    })
}

/// The parts of a Linux library that ld.so loads, those without machine code first: texts are there.
///
/// # Errors
/// The reason why it cannot be read.
pub fn loaded_parts(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("loaded parts", path, || {
        let (data, length) = open_elf(path)?;
        Ok(elf::Elf::read(&data, length, None)?.loaded_parts())
    })
}

/// Like [`parts_without_gpu_code`], for a library for any system.
///
/// # Errors
/// The reason why it cannot be read.
pub fn parts_without_gpu_code_any(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("parts without GPU code on any system", path, || {
        let (data, length, os) = open(path)?;
        let code = gpu_code_range(&data, length, os)?.unwrap_or(length..length);
        Ok(vec![0..code.start.min(length), code.end.min(length)..length])
    })
}

/// Returns the symbols of cuDNN that a library for this system needs and that none of these libraries defines. Libraries of
/// one release lack none; one of another release needs some that were removed, or that did not exist yet.
///
/// # Errors
/// The reason why one of the files cannot be read.
pub fn missing_symbols(library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
    missing_symbols_for(Os::HOST, library, defined_by)
}

/// Returns the same for a library for any system. Separate, because a program that asks for its own system's libraries only
/// then contains no code that reads those of another.
///
/// # Errors
/// The reason why one of the files cannot be read.
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

/// A DLL names the DLL that it takes each symbol from: only what it takes from these files is compared.
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

/// Which of these symbols a DLL does not export, in their order.
pub(crate) fn missing_imports(dll: &Path, symbols: &[Symbol]) -> Result<Vec<Symbol>, ProbeError> {
    facts::ask("missing imports", about(dll, &format!("{symbols:?}")), || {
        let (data, length, _) = open(dll)?;
        let pe = pe::Pe::read(&data, length, None)?;
        Ok(symbols.iter().filter(|symbol| !pe.defines(symbol)).cloned().collect())
    })
}

/// The version in the resources of any DLL.
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

/// Reads any DLL or program for Windows.
pub(crate) fn dll_links(path: &Path) -> Result<DllLinks, ProbeError> {
    facts::ask("links of DLL", path, || {
        let (data, length, os) = open(path)?;
        match os {
            Os::Windows => Ok(pe::Pe::read(&data, length, None)?.links()),
            found => Err(ProbeError::WrongOs { found, wanted: Os::Windows }),
        }
    })
}

/// The names of the DLLs that a DLL or program for Windows imports, on any system.
///
/// # Errors
/// The reason why it cannot be read.
pub fn imported_dlls(path: &Path) -> Result<Vec<String>, ProbeError> {
    Ok(dll_links(path)?.imports.into_iter().map(|import| import.dll).collect())
}

/// The damage to a Linux library's table of symbols, if there is any: names that are not found by the hash table, by
/// which ld.so finds them. Symbols that are missing for this reason do not show that the library is of another release.
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

/// A short text for a list of functions.
fn exported(functions: &[&str]) -> String {
    let (first, last) = (functions.first().unwrap_or(&""), functions.last().unwrap_or(&""));
    format!("{first}..{last} ({})", functions.len())
}

/// Which of these functions a library for this system exports, in their order.
///
/// # Errors
/// The reason why the file cannot be read.
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

/// The functions of cuDNN that one library exports and the other does not, by their names. What takes the place of another
/// library, such as this project's drop-in, needs all of its functions: a program that calls a missing one does not start.
///
/// # Errors
/// The reason why one of the files cannot be read.
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

/// The program that the kernel starts for a Linux program for this processor: `/lib64/ld-linux-x86-64.so.2`. `None` for a
/// library, and for a program that is linked statically.
#[must_use]
pub fn elf_interpreter(path: &Path) -> Option<PathBuf> {
    facts::ask("interpreter", path, || {
        let (data, length, os) = open(path).ok()?;
        if os == Os::Linux { elf::Elf::read_any(&data, length).ok()?.interpreter() } else { None }
    })
}

/// Reads any Linux library or program for this processor.
///
/// # Errors
/// The reason why it cannot be read.
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
        // Such as a file whose end was never downloaded, and is zeros.
        return Err(ProbeError::Malformed { reason: "it does not state its name".into() });
    }
    if contents.name != library.name_on(os) {
        // cuDNN 8 has other names, so this is one of its files under the name of a newer one.
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
        // graph has no GPU code: until it is loaded, only its run path and its wheel's metadata state the CUDA version.
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

/// A file with its headers read, in one of the two formats. A program that reads only one of them contains no code for
/// the other.
trait Format<'a>: Sized {
    const OS: Os;
    fn read(data: Data<'a>, length: u64, wanted: Option<Architecture>) -> Result<Self, ProbeError>;
    fn contents(&self) -> Result<Contents, ProbeError>;
    fn architecture(&self) -> Architecture;
    /// The first bytes of an exported variable.
    fn read_symbol(&self, name: &str) -> Option<[u8; 4]>;
    fn defines(&self, function: &str) -> bool;
    /// The version in the resources of a file for Windows.
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

/// Where the GPU code of a library for this system or any other is, if it has some.
fn gpu_code_range(data: Data<'_>, length: u64, os: Os) -> Result<Option<Range<u64>>, ProbeError> {
    Ok(match os {
        Os::Linux => elf::Elf::read(data, length, None)?.gpu_code(),
        Os::Windows => pe::Pe::read(data, length, None)?.gpu_code(),
    })
}

/// Opens a library, and reads from its first bytes which operating system it is for.
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
        // What the library states: version, CUDA, the newest CUDA that is possible; what the installation states.
        for (version, cuda_major, cuda_at_most, installation, expected) in [
            (new, Some(12), None, (new, Some(12)), ""),
            (old, Some(12), None, (new, Some(12)), "is cuDNN 9.10.2, but the $ beside it is 9.19.0"),
            (None, None, None, (new, Some(12)), ""),
            (old, Some(12), None, (None, None), ""),
            (new, Some(13), None, (new, Some(12)), "is built for CUDA 13, but the libraries beside it for CUDA 12"),
            (new, None, Some(12), (new, Some(11)), ""),
            (new, None, Some(12), (new, Some(12)), ""),
            (new, None, Some(12), (new, Some(13)), "is built for CUDA 12, but the libraries beside it for CUDA 13"),
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
