//! What one library file says of itself, whatever system and processor it is for. Reads headers, tables and a few bytes
//! of data: some tens of kilobytes, also of a library of half a gigabyte, and never much more, whatever the file claims.

mod block_reader;
mod elf;
mod fatbin;
mod pe;
mod wheel_metadata;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::read::ReadCache;

use crate::{Architecture, Library, ProbeError, Version};
use block_reader::Blocks;

pub use fatbin::GpuCode;

type Data<'a> = &'a ReadCache<Blocks>;

/// The operating system that a library is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Os {
    /// Linux: an ELF file.
    Linux,
    /// Windows: a PE file.
    Windows,
}

impl fmt::Display for Os {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Os::Linux => "Linux",
            Os::Windows => "Windows",
        })
    }
}

/// What one library says of itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Identity {
    /// The file.
    pub path: PathBuf,
    /// Which library of cuDNN it is.
    pub library: Library,
    /// The system that it was built for.
    pub os: Os,
    /// The processor that it was built for.
    pub architecture: Architecture,
    /// Its version, from its data symbol; the libraries without one (see [`Library::version_symbol`]) say `None`.
    pub version: Option<Version>,
    /// The CUDA major that it was built with, where the file or its folder tells.
    pub cuda_major: Option<u32>,
    /// The newest CUDA major that it can have been built with, where its GPU code tells no more than that.
    pub cuda_at_most: Option<u32>,
    /// The CUDA release that it was built with, where its GPU code tells: 9 of 12.9.
    pub cuda_minor: Option<u32>,
    /// The names of the libraries that it needs (`DT_NEEDED`, or a PE file's imports).
    pub needed: Vec<String>,
    /// Its folders to search, `DT_RUNPATH` or else `DT_RPATH`, as written, with `$ORIGIN`.
    pub run_path: Option<String>,
}

/// Reads the file as the given library of cuDNN 9, for this system and processor.
///
/// # Errors
/// The reason why it cannot be that library: see [`Refusal`].
pub fn identify(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    identify_for(path, library, Architecture::HOST)
}

/// As [`identify`], of a library for another processor than this program's.
///
/// # Errors
/// As [`identify`].
pub fn identify_for(path: &Path, library: Library, architecture: Architecture) -> Result<Identity, ProbeError> {
    let (file, length, system) = open(path)?;
    if system != Os::Linux {
        return Err(ProbeError::WrongOs { found: system, wanted: Os::Linux });
    }
    // Said as it is, so that a program which reads Linux's libraries alone has no code for Windows' in it.
    read(path, library, &ReadCache::new(file), length, Os::Linux, Some(architecture))
}

/// As [`identify`], of a library for any system and processor.
///
/// # Errors
/// As [`identify`], but for another system or processor.
pub fn identify_any(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    let (file, length, system) = open(path)?;
    read(path, library, &ReadCache::new(file), length, system, None)
}

/// The processors for which a library has GPU code. Reads thousands of small pieces, all over the file: some tens of
/// milliseconds for the largest library in a warm page cache, and a second or more from a slow disk.
///
/// # Errors
/// Why it cannot be read.
pub fn gpu_code(path: &Path) -> Result<BTreeSet<GpuCode>, ProbeError> {
    let (file, length, system) = open(path)?;
    let data = &ReadCache::new(file);
    let format = Format::read(data, length, system, None)?;
    Ok(format.gpu_code().map(|range| fatbin::targets(range, data)).unwrap_or_default())
}

/// The parts of a Linux library's file that are not GPU code, which is most of the largest ones.
///
/// # Errors
/// Why it cannot be read.
pub fn parts_without_gpu_code(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    let (file, length, system) = open(path)?;
    if system != Os::Linux {
        return Err(ProbeError::WrongOs { found: system, wanted: Os::Linux });
    }
    let data = &ReadCache::new(file);
    let code = Format::read(data, length, Os::Linux, None)?.gpu_code();
    // Without GPU code, as if it stood at the end.
    let code = code.unwrap_or(length..length);
    Ok(vec![0..code.start.min(length), code.end.min(length)..length])
}

/// What the dynamic linker goes by in a library or program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// The name that a library gives itself.
    pub(crate) soname: Option<String>,
    pub(crate) needed: Vec<String>,
    pub(crate) rpath: Option<String>,
    pub(crate) runpath: Option<String>,
    /// The linker's own folders are not to be searched (`-z nodefaultlib`).
    pub(crate) no_defaults: bool,
}

/// Reads any library or program of Linux's, for this processor.
pub(crate) fn links(path: &Path) -> Result<Links, ProbeError> {
    let (file, length, system) = open(path)?;
    match system {
        Os::Linux => elf::Elf::read_any(&ReadCache::new(file), length)?.links(),
        found => Err(ProbeError::WrongOs { found, wanted: Os::Linux }),
    }
}

fn read(
    path: &Path,
    library: Library,
    data: Data<'_>,
    length: u64,
    system: Os,
    wanted: Option<Architecture>,
) -> Result<Identity, ProbeError> {
    let format = Format::read(data, length, system, wanted)?;
    let contents = format.contents()?;
    if contents.name != library.name_on(system) {
        return Err(ProbeError::WrongSoname { found: contents.name, wanted: library });
    }
    let version = library.version_symbol().and_then(|symbol| format.read_symbol(symbol)).map(Version::from_symbol);
    let cuda = format.gpu_code().map(|range| fatbin::cuda(range, data)).unwrap_or_default();
    let identity = Identity {
        path: path.to_owned(),
        library,
        os: system,
        architecture: format.architecture(),
        version,
        // graph has no GPU code of its own, so what stands beside it is all there is; once loaded, it says.
        cuda_major: cuda.major.or_else(|| wheel_metadata::cuda_major(path)),
        cuda_at_most: cuda.at_most,
        cuda_minor: cuda.minor,
        needed: contents.needed,
        run_path: contents.run_path,
    };
    match version {
        Some(found) if found.major != 9 => Err(ProbeError::WrongMajor { found }),
        _ => Ok(identity),
    }
}

/// What the tables of names say, in either format.
struct Contents {
    name: String,
    needed: Vec<String>,
    run_path: Option<String>,
}

/// A file's format, with its headers read.
enum Format<'a> {
    Elf(elf::Elf<'a>),
    Pe(pe::Pe<'a>),
}

impl<'a> Format<'a> {
    fn read(data: Data<'a>, length: u64, system: Os, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        Ok(match system {
            Os::Linux => Format::Elf(elf::Elf::read(data, length, wanted)?),
            Os::Windows => Format::Pe(pe::Pe::read(data, length)?),
        })
    }

    fn contents(&self) -> Result<Contents, ProbeError> {
        match self {
            Format::Elf(elf) => elf.contents(),
            Format::Pe(pe) => pe.contents(),
        }
    }

    fn architecture(&self) -> Architecture {
        match self {
            Format::Elf(elf) => elf.architecture(),
            Format::Pe(pe) => pe.architecture(),
        }
    }

    fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        match self {
            Format::Elf(elf) => elf.read_symbol(name),
            Format::Pe(pe) => pe.read_symbol(name),
        }
    }

    fn gpu_code(&self) -> Option<Range<u64>> {
        match self {
            Format::Elf(elf) => elf.gpu_code(),
            Format::Pe(pe) => pe.gpu_code(),
        }
    }
}

fn malformed(what: impl ToString) -> ProbeError {
    ProbeError::Malformed { what: what.to_string() }
}

fn open(path: &Path) -> Result<(Blocks, u64, Os), ProbeError> {
    let refuse = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => match std::fs::read_link(path) {
            Ok(target) => ProbeError::BrokenLink { target },
            Err(_) => ProbeError::NotFound,
        },
        _ => ProbeError::Unreadable { error },
    };
    // Asked before opening: opening a pipe would wait for somebody to write into it.
    let metadata = std::fs::metadata(path).map_err(refuse)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(ProbeError::NotRegularFile { what: "a folder" });
    }
    if !kind.is_file() {
        return Err(ProbeError::NotRegularFile { what: "a pipe, a socket or a device" });
    }
    let mut file = Blocks::new(File::open(path).map_err(refuse)?, metadata.len());
    let mut start = Vec::new();
    Read::by_ref(&mut file).take(16).read_to_end(&mut start).map_err(refuse)?;
    match start.as_slice() {
        [0x7f, b'E', b'L', b'F', ..] => Ok((file, metadata.len(), Os::Linux)),
        [b'M', b'Z', ..] => Ok((file, metadata.len(), Os::Windows)),
        _ => Err(ProbeError::NotElf { starts_with: start }),
    }
}
