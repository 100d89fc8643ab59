//! Reads headers, imports, exports and resources of 64-bit Windows libraries (PE).

use std::ops::Range;

use crate::error::ProbeError;
use crate::platform::{Architecture, Os};
use crate::version::Version;

use super::file_data::{FileData, number};
use super::format::Format;
use super::imports::{DllLinks, Import, Symbol};
use super::tables::{Data, TableNames, malformed};

/// Limits for imported libraries, imported symbols per library, exported names, resources per directory, and name
/// lengths.
const MAX_IMPORTS: u32 = 256;
const MAX_SYMBOLS: u32 = 1 << 12;
const MAX_EXPORTS: u32 = 1 << 16;
const MAX_RESOURCES: u32 = 256;
const MAX_NAME_LEN: u64 = 512;

/// The bit that marks a directory in the offset of a resource.
const SUBDIRECTORY: u32 = 1 << 31;

/// The lengths of headers in bytes.
const DOS_HEADER_LEN: u64 = 64;
const FILE_HEADER_LEN: u64 = 20;
const SECTION_HEADER_LEN: u64 = 40;
/// The offset of the data directories in the optional header.
const DIRECTORIES: usize = 112;

/// The indexes of data directories.
const EXPORT: usize = 0;
const IMPORT: usize = 1;
const RESOURCE: usize = 2;
const LOAD_CONFIG: usize = 10;

/// A library with parsed headers.
pub(super) struct Pe<'a> {
    data: Data<'a>,
    sections: Vec<Section>,
    /// The addresses of the data directories.
    directories: Vec<u32>,
    architecture: Architecture,
}

/// A section header.
struct Section {
    name: [u8; 8],
    address: u32,
    offset: u32,
    /// The length in the file.
    len: u32,
}

impl Section {
    fn of(header: &[u8]) -> Section {
        Section {
            name: header.first_chunk().copied().unwrap_or_default(),
            address: word_of(header, 12),
            offset: word_of(header, 20),
            len: word_of(header, 8).min(word_of(header, 16)),
        }
    }

    /// Returns the range of the file.
    fn range(&self) -> Range<u64> {
        u64::from(self.offset)..u64::from(self.offset) + u64::from(self.len)
    }
}

/// The export directory.
struct Exports {
    name: u32,
    first_ordinal: u32,
    function_count: u32,
    name_count: u32,
    functions: u32,
    names: u32,
    ordinals: u32,
}

/// Returns the 32-bit number at this offset of a header.
fn word_of(header: &[u8], offset: usize) -> u32 {
    number(header, offset..offset + 4) as u32
}

/// An imported DLL with the address of the table of imported symbols.
struct ImportDescriptor {
    dll: String,
    symbols: u32,
}

/// Converts the processor number of a header. `ARM64X` files contain code for both kinds of Arm programs.
fn architecture(machine: u64) -> Result<Architecture, ProbeError> {
    Ok(match machine {
        0x8664 => Architecture::X86_64,
        0xaa64 | 0xa64e => Architecture::AARCH64,
        0xa641 => Architecture::ARM64EC,
        0x14c => Architecture::X86,
        // Arm, Thumb, and Thumb-2
        0x1c0 | 0x1c2 | 0x1c4 => Architecture::ARM,
        other => return Err(malformed(format!("the header contains an unknown processor ({other:#x})"))),
    })
}

impl<'a> Pe<'a> {
    pub(super) fn read(data: Data<'a>, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        let truncated = |expected_len: u64| data.truncated(expected_len);
        let dos = data.bytes(0, DOS_HEADER_LEN).ok_or_else(|| truncated(DOS_HEADER_LEN))?;
        let start = u64::from(word_of(&dos, 60));
        let after_file_header = start + 4 + FILE_HEADER_LEN;
        let signature: [u8; 4] = data.array(start).ok_or_else(|| truncated(after_file_header))?;
        if &signature != b"PE\0\0" {
            return Err(malformed("it is a program for MS-DOS or OS/2, not for Windows"));
        }
        let header = data.bytes(start + 4, FILE_HEADER_LEN).ok_or_else(|| truncated(after_file_header))?;
        let architecture = architecture(number(&header, 0..2))?;
        if architecture.is_32_bit() {
            // cuDNN for Windows exists only for x86-64.
            return Err(ProbeError::WrongArchitecture {
                found: architecture,
                wanted: wanted.unwrap_or(Architecture::X86_64),
            });
        }
        let sections_start = after_file_header + number(&header, 16..18);
        let sections_len = number(&header, 2..4) * SECTION_HEADER_LEN;
        let headers = data
            .bytes(after_file_header, sections_start - after_file_header)
            .zip(data.bytes(sections_start, sections_len));
        let (optional, sections) = headers.ok_or_else(|| truncated(sections_start + sections_len))?;
        if number(&optional, 0..2) != 0x20b {
            return Err(malformed("the optional header is not for a 64-bit file"));
        }
        let directories = (word_of(&optional, 108) as usize)
            .checked_mul(8)
            .and_then(|len| optional.get(DIRECTORIES..DIRECTORIES.checked_add(len)?))
            .ok_or_else(|| malformed("the data directories have an invalid size"))?;
        let directories = directories.chunks_exact(8).map(|directory| word_of(directory, 0)).collect();
        let sections: Vec<Section> = sections.chunks_exact(SECTION_HEADER_LEN as usize).map(Section::of).collect();
        let expected_len = sections.iter().map(|section| section.range().end).max().unwrap_or(0);
        if expected_len > data.length() {
            return Err(truncated(expected_len));
        }
        let mut pe = Pe { data, sections, directories, architecture };
        if pe.is_arm64ec() {
            pe.architecture = Architecture::ARM64EC;
        }
        match wanted {
            Some(wanted) if pe.architecture != wanted => {
                Err(ProbeError::WrongArchitecture { found: pe.architecture, wanted })
            }
            _ => Ok(pe),
        }
    }

    /// Returns the information that the Windows loader uses.
    pub(super) fn links(&self) -> DllLinks {
        let imports = self.import_descriptors().into_iter().map(|ImportDescriptor { dll, symbols }| {
            let symbols = self.imported_symbols(symbols);
            Import { dll, symbols }
        });
        DllLinks { architecture: self.architecture, imports: imports.collect() }
    }

    /// Returns whether the export table contains this symbol.
    pub(super) fn exports_symbol(&self, symbol: &Symbol) -> bool {
        self.export_address(symbol).is_some()
    }

    /// Returns exported names with this prefix. The table does not distinguish functions from variables.
    pub(super) fn functions(&self, prefix: &str) -> Vec<String> {
        let Some(exports) = self.exports() else { return Vec::new() };
        let name = |index: u32| self.name(self.word(exports.names.checked_add(index.checked_mul(4)?)?)?);
        let count = exports.name_count.min(MAX_EXPORTS);
        (0..count).filter_map(name).filter(|name| name.starts_with(prefix)).take(MAX_SYMBOLS as usize).collect()
    }

    /// Returns the offset from an entry of a resource directory. The entry has this number, or is the first one. An
    /// offset with [`SUBDIRECTORY`] refers to another directory.
    fn resource(&self, start: u32, directory: u32, id: Option<u32>) -> Option<u32> {
        let at = start.checked_add(directory)?;
        let counts: [u8; 4] = self.bytes(at.checked_add(12)?)?;
        let [named, numbered] = [counts.first_chunk::<2>()?, counts.last_chunk::<2>()?].map(|c| u16::from_le_bytes(*c));
        let count = (u32::from(named) + u32::from(numbered)).min(MAX_RESOURCES);
        (0..count).find_map(|index| {
            let entry = at.checked_add(16 + 8 * index)?;
            let found = self.word(entry)?;
            if id.is_some_and(|id| id != found) { None } else { self.word(entry.checked_add(4)?) }
        })
    }

    /// Returns whether the file has an x86-64 header but contains ARM64 code, which only Windows on Arm can run.
    fn is_arm64ec(&self) -> bool {
        // The offset of CHPEMetadataPointer in IMAGE_LOAD_CONFIG_DIRECTORY64.
        const METADATA: u32 = 200;
        let found = || {
            let start = *self.directories.get(LOAD_CONFIG).filter(|start| **start != 0)?;
            let is_there = self.word(start)? >= METADATA + 8;
            let pointer: [u8; 8] = self.bytes(start.checked_add(METADATA)?)?;
            Some(is_there && pointer != [0; 8])
        };
        found().unwrap_or(false)
    }

    fn export_address(&self, symbol: &Symbol) -> Option<u32> {
        let exports = self.exports()?;
        let index = match symbol {
            Symbol::Name(name) => self.export_index(&exports, name)?,
            Symbol::Ordinal(ordinal) => u32::from(*ordinal).checked_sub(exports.first_ordinal)?,
        };
        if index >= exports.function_count {
            return None;
        }
        self.word(exports.functions.checked_add(index.checked_mul(4)?)?).filter(|address| *address != 0)
    }

    fn export_index(&self, exports: &Exports, name: &str) -> Option<u32> {
        let count = exports.name_count.min(MAX_EXPORTS);
        // Names are sorted, so use binary search.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.name(self.word(exports.names.checked_add(middle.checked_mul(4)?)?)?)?;
            match found.as_str().cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let at = exports.ordinals.checked_add(middle.checked_mul(2)?)?;
                    return self.bytes::<2>(at).map(|index| u16::from_le_bytes(index).into());
                }
            }
        }
        None
    }

    fn exports(&self) -> Option<Exports> {
        let table: [u8; 40] = self.bytes(*self.directories.get(EXPORT)?)?;
        Some(Exports {
            name: word_of(&table, 12),
            first_ordinal: word_of(&table, 16),
            function_count: word_of(&table, 20),
            name_count: word_of(&table, 24),
            functions: word_of(&table, 28),
            names: word_of(&table, 32),
            ordinals: word_of(&table, 36),
        })
    }

    fn import_descriptors(&self) -> Vec<ImportDescriptor> {
        const LEN: u32 = 20;
        let Some(start) = self.directories.get(IMPORT) else { return Vec::new() };
        let descriptor = |index: u32| -> Option<[u8; LEN as usize]> {
            self.bytes(start.checked_add(index * LEN)?).filter(|found| found.iter().any(|byte| *byte != 0))
        };
        let read = |found: [u8; LEN as usize]| {
            // In the file, both tables are identical. Some linkers write only the second one.
            let tables = [word_of(&found, 0), word_of(&found, 16)];
            let symbols = tables.into_iter().find(|table| *table != 0).unwrap_or(0);
            Some(ImportDescriptor { dll: self.name(word_of(&found, 12))?, symbols })
        };
        (0..MAX_IMPORTS).map_while(descriptor).filter_map(read).collect()
    }

    fn imported_symbols(&self, table: u32) -> Vec<Symbol> {
        let entry = |index: u32| -> Option<Option<Symbol>> {
            let thunk = u64::from_le_bytes(self.bytes(table.checked_add(index * 8)?)?);
            match thunk {
                0 => None,
                _ if thunk >> 63 == 1 => Some(Some(Symbol::Ordinal(thunk as u16))),
                // The name follows a two-byte index hint.
                _ => Some(u32::try_from(thunk).ok().and_then(|at| self.name(at.checked_add(2)?)).map(Symbol::Name)),
            }
        };
        (0..MAX_SYMBOLS).map_while(entry).flatten().collect()
    }

    fn offset(&self, address: u32) -> Option<u64> {
        self.sections.iter().find_map(|section| {
            let inside = address.checked_sub(section.address).filter(|inside| *inside < section.len)?;
            section.offset.checked_add(inside).map(u64::from)
        })
    }

    fn bytes<const N: usize>(&self, address: u32) -> Option<[u8; N]> {
        self.data.array(self.offset(address)?)
    }

    fn word(&self, address: u32) -> Option<u32> {
        self.bytes(address).map(u32::from_le_bytes)
    }

    fn name(&self, address: u32) -> Option<String> {
        let start = self.offset(address)?;
        let name = self.data.text(start..start.checked_add(MAX_NAME_LEN)?)?;
        Some(String::from_utf8_lossy(&name).into_owned())
    }
}

impl Format for Pe<'_> {
    fn os(&self) -> Os {
        Os::Windows
    }

    fn data(&self) -> &FileData {
        self.data
    }

    fn contents(&self) -> Result<TableNames, ProbeError> {
        let exports = self.exports().ok_or_else(|| malformed("the export table is missing"))?;
        let name = self.name(exports.name).ok_or_else(|| malformed("the export table does not contain a name"))?;
        let needed = self.import_descriptors().into_iter().map(|found| found.dll).collect();
        Ok(TableNames { name, needed, run_path: None })
    }

    fn architecture(&self) -> Architecture {
        self.architecture
    }

    fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        self.bytes(self.export_address(&Symbol::Name(name.to_owned()))?)
    }

    fn defines(&self, function: &str) -> bool {
        self.exports_symbol(&Symbol::Name(function.to_owned()))
    }

    /// Returns the version in the file resources, as shown by Explorer. Some libraries contain the version only there.
    fn resource_version(&self) -> Option<Version> {
        const RT_VERSION: u32 = 16;
        const SIGNATURE: [u8; 4] = 0xfeef_04bd_u32.to_le_bytes();
        let start = *self.directories.get(RESOURCE)?;
        let by_id = self.resource(start, 0, Some(RT_VERSION))?;
        let by_language = self.resource(start, by_id.checked_sub(SUBDIRECTORY)?, None)?;
        let entry = self.resource(start, by_language.checked_sub(SUBDIRECTORY)?, None)?;
        let value = self.word(start.checked_add(entry)?)?;
        // The layout is: length, length of the value, type, the name in UTF-16, then VS_FIXEDFILEINFO.
        let text: [u8; 56] = self.bytes(value)?;
        let info = text.get(40..).filter(|info| info.starts_with(&SIGNATURE))?;
        let number = |at: usize| Some(u32::from(u16::from_le_bytes(info.get(at..at + 2)?.try_into().ok()?)));
        Some(Version::new(number(10)?, number(8)?, number(14)?))
    }

    // Section names are limited to eight characters.
    fn gpu_code(&self) -> Option<Range<u64>> {
        Some(self.sections.iter().find(|section| &section.name == b".nv_fatb")?.range())
    }
}

#[cfg(all(test, feature = "inspect"))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests;
