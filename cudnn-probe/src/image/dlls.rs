//! Reads the imports, exports and versions of Windows libraries.

use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::facts::{self, Subject};
use crate::platform::Os;
use crate::version::Version;

use super::file::LibraryFile;
use super::format::Format as _;
use super::imports::{DllLinks, Symbol};
use super::pe::Pe;

/// Compares only symbols that the DLL imports from these files, because imports specify the DLL.
pub(super) fn missing_symbols(library: &Path, defined_by: &[PathBuf]) -> Result<Vec<String>, ProbeError> {
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
    facts::ask("missing imports", Subject::about(dll, &format!("{symbols:?}")), || {
        let file = LibraryFile::open(dll)?;
        let pe = Pe::read(&file.data, None)?;
        Ok(symbols.iter().filter(|symbol| !pe.exports_symbol(symbol)).cloned().collect())
    })
}

/// Returns the version in the resources of a DLL.
#[must_use]
pub fn dll_version(dll: &Path) -> Option<Version> {
    facts::ask("version of DLL", dll, || {
        let file = LibraryFile::open_for(dll, Os::Windows).ok()?;
        Pe::read(&file.data, None).ok()?.resource_version()
    })
}

/// Reads the imports and exports of a Windows DLL or program.
pub(crate) fn dll_links(path: &Path) -> Result<DllLinks, ProbeError> {
    facts::ask("links of DLL", path, || {
        let file = LibraryFile::open_for(path, Os::Windows)?;
        Ok(Pe::read(&file.data, None)?.links())
    })
}

/// Returns the names of the DLLs that a Windows DLL or program imports. This works on any system.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn imported_dlls(path: &Path) -> Result<Vec<String>, ProbeError> {
    Ok(dll_links(path)?.imports.into_iter().map(|import| import.dll).collect())
}
