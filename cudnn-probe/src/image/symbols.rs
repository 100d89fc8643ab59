//! Reads symbols, dependencies and the layout of library files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::facts::{self, Subject};
use crate::platform::Os;

#[cfg(feature = "windows")]
use super::dlls;
use super::elf::Elf;
use super::file::LibraryFile;
use super::format::Format as _;
use super::tables::Links;

/// Returns the byte ranges to read ahead for a library of this system. They exclude the GPU code, which is most of a
/// large library.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn parts_without_gpu_code(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("parts without GPU code", path, || LibraryFile::open_for(path, Os::HOST)?.parts_without_gpu_code())
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

/// Like [`missing_symbols`], but for libraries of any system.
///
/// # Errors
/// Returns an error if reading one of the files fails.
pub fn missing_symbols_for(os: Os, library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
    facts::ask(
        "missing symbols",
        Subject::about(library, &defined_by.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(" "))
            .and(defined_by.iter().map(PathBuf::as_path)),
        || match os {
            Os::Linux => missing_elf_symbols(library, defined_by),
            #[cfg(feature = "windows")]
            Os::Windows => dlls::missing_symbols(library, defined_by),
            #[cfg(not(feature = "windows"))]
            Os::Windows => Err(ProbeError::WrongOs { found: os, wanted: Os::Linux }),
        },
    )
}

fn missing_elf_symbols(library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
    let mut missing = LibraryFile::open_for(library, Os::Linux)?.elf()?.undefined("cudnn");
    for file in defined_by {
        let file = LibraryFile::open_for(file, Os::Linux)?;
        let elf = file.elf()?;
        missing.retain(|symbol| !elf.defines(symbol));
    }
    missing.sort_unstable();
    Ok(missing)
}

/// Detects damage to the symbol table of a Linux library, that is, names that ld.so cannot find with the hash table. If
/// symbols are missing because of such damage, the library may still be from the right release.
#[must_use]
pub fn damaged_symbol_table(library: &Path) -> Option<ProbeError> {
    facts::ask("damaged symbol table", library, || {
        LibraryFile::open_for(library, Os::Linux).ok()?.elf().ok()?.damaged_symbols()
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
    facts::ask("exports", Subject::about(library, &exported(functions)), || {
        let file = LibraryFile::open_for(library, Os::HOST)?;
        let format = file.parse(None)?;
        Ok(functions.iter().map(|function| format.defines(function)).collect())
    })
}

/// Reads the dependencies of a Linux library or program for this processor.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn links(path: &Path) -> Result<Links, ProbeError> {
    facts::ask("links", path, || {
        let file = LibraryFile::open_for(path, Os::Linux)?;
        Elf::read_any(&file.data)?.links()
    })
}
