//! Reads headers, imports, exports and resources of 64-bit Windows libraries (PE).

use std::ops::Range;

use object::LittleEndian;
use object::pe::{
    self, ImageDosHeader, ImageExportDirectory, ImageFileHeader, ImageImportDescriptor, ImageNtHeaders64,
};
use object::read::ReadRef;
use object::read::pe::{ImageNtHeaders, SectionTable};

use crate::error::ProbeError;
use crate::platform::Architecture;
use crate::version::Version;

use super::tables::{Contents, Data, DllLinks, Import, Symbol, malformed};

/// Limits for imported libraries, imported symbols per library, exported names, resources per directory, and name
/// lengths.
const MAX_IMPORTS: u32 = 256;
const MAX_SYMBOLS: u32 = 1 << 12;
const MAX_EXPORTS: u32 = 1 << 16;
const MAX_RESOURCES: u32 = 256;
const MAX_NAME_LEN: u64 = 512;

/// The bit that marks a directory in the offset of a resource.
const SUBDIRECTORY: u32 = 1 << 31;

/// A library with parsed headers.
pub(super) struct Pe<'a> {
    data: Data<'a>,
    sections: SectionTable<'a>,
    directories: object::read::pe::DataDirectories<'a>,
    architecture: Architecture,
}

/// An imported DLL with the address of the table of imported symbols.
struct Descriptor {
    dll: String,
    symbols: u32,
}

/// Converts the processor number of a header. `ARM64X` files contain code for both kinds of Arm programs.
fn architecture(machine: pe::Machine) -> Result<Architecture, ProbeError> {
    Ok(match machine {
        pe::IMAGE_FILE_MACHINE_AMD64 => Architecture::X86_64,
        pe::IMAGE_FILE_MACHINE_ARM64 | pe::IMAGE_FILE_MACHINE_ARM64X => Architecture::AARCH64,
        pe::IMAGE_FILE_MACHINE_ARM64EC => Architecture::ARM64EC,
        pe::IMAGE_FILE_MACHINE_I386 => Architecture::X86,
        pe::IMAGE_FILE_MACHINE_ARM | pe::IMAGE_FILE_MACHINE_THUMB | pe::IMAGE_FILE_MACHINE_ARMNT => Architecture::ARM,
        other => return Err(malformed(format!("the header contains an unknown processor ({other:?})"))),
    })
}

impl<'a> Pe<'a> {
    pub(super) fn read(data: Data<'a>, length: u64, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        let truncated = |expected_len: u64| ProbeError::Truncated { expected_len, length };
        let dos: &ImageDosHeader = data.read_at(0).map_err(|()| truncated(size_of::<ImageDosHeader>() as u64))?;
        let start = u64::from(dos.nt_headers_offset());
        let after_signature = start + 4;
        let after_file_header = after_signature + size_of::<ImageFileHeader>() as u64;
        let signature = data.read_bytes_at(start, 4).map_err(|()| truncated(after_file_header))?;
        if signature != b"PE\0\0" {
            return Err(malformed("it is a program for MS-DOS or OS/2, not for Windows"));
        }
        let header: &ImageFileHeader = data.read_at(after_signature).map_err(|()| truncated(after_file_header))?;
        let architecture = architecture(header.machine.get(LittleEndian))?;
        if architecture.is_32_bit() {
            // cuDNN for Windows exists only for x86-64.
            return Err(ProbeError::WrongArchitecture {
                found: architecture,
                wanted: wanted.unwrap_or(Architecture::X86_64),
            });
        }
        let after_headers = after_file_header
            + u64::from(header.size_of_optional_header.get(LittleEndian))
            + u64::from(header.number_of_sections.get(LittleEndian)) * size_of::<pe::ImageSectionHeader>() as u64;
        if after_headers > length {
            return Err(truncated(after_headers));
        }
        let mut offset = start;
        let (headers, directories) = ImageNtHeaders64::parse(data, &mut offset).map_err(malformed)?;
        let sections = headers.sections(data, offset).map_err(malformed)?;
        let end = |section: &pe::ImageSectionHeader| {
            let (start, size) = section.pe_file_range();
            u64::from(start) + u64::from(size)
        };
        let expected_len = sections.iter().map(end).max().unwrap_or(0);
        if expected_len > length {
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

    pub(super) fn contents(&self) -> Result<Contents, ProbeError> {
        let exports = self.exports().ok_or_else(|| malformed("the export table is missing"))?;
        let name = self
            .name(exports.name.get(LittleEndian))
            .ok_or_else(|| malformed("the export table does not contain a name"))?;
        let needed = self.import_descriptors().into_iter().map(|found| found.dll).collect();
        Ok(Contents { name, needed, run_path: None })
    }

    pub(super) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns the information that the Windows loader uses.
    pub(super) fn links(&self) -> DllLinks {
        let imports = self.import_descriptors().into_iter().map(|Descriptor { dll, symbols }| {
            let symbols = self.imported_symbols(symbols);
            Import { dll, symbols }
        });
        DllLinks { architecture: self.architecture, imports: imports.collect() }
    }

    /// Returns whether the export table contains this symbol.
    pub(super) fn defines(&self, symbol: &Symbol) -> bool {
        self.export_address(symbol).is_some()
    }

    /// Returns exported names with this prefix. The table does not distinguish functions from variables.
    pub(super) fn functions(&self, prefix: &str) -> Vec<String> {
        let Some(exports) = self.exports() else { return Vec::new() };
        let names = exports.address_of_names.get(LittleEndian);
        let name = |index: u32| self.name(self.word(names.checked_add(index.checked_mul(4)?)?)?);
        let count = exports.number_of_names.get(LittleEndian).min(MAX_EXPORTS);
        (0..count).filter_map(name).filter(|name| name.starts_with(prefix)).take(MAX_SYMBOLS as usize).collect()
    }

    /// Returns the version in the file resources, as shown by Explorer. Some libraries contain the version only there.
    pub(super) fn resource_version(&self) -> Option<Version> {
        const RT_VERSION: u32 = 16;
        const SIGNATURE: [u8; 4] = 0xfeef_04bd_u32.to_le_bytes();
        let start = self.directories.get(pe::IMAGE_DIRECTORY_ENTRY_RESOURCE)?.virtual_address.get(LittleEndian);
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
            let directory = self.directories.get(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG)?;
            let start = directory.virtual_address.get(LittleEndian);
            let is_there = self.word(start)? >= METADATA + 8;
            let pointer: [u8; 8] = self.bytes(start.checked_add(METADATA)?)?;
            Some(is_there && pointer != [0; 8])
        };
        found().unwrap_or(false)
    }

    /// Returns the first bytes of an exported variable.
    pub(super) fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        self.bytes(self.export_address(&Symbol::Name(name.to_owned()))?)
    }

    fn export_address(&self, symbol: &Symbol) -> Option<u32> {
        let exports = self.exports()?;
        let index = match symbol {
            Symbol::Name(name) => self.export_index(exports, name)?,
            Symbol::Ordinal(ordinal) => u32::from(*ordinal).checked_sub(exports.base.get(LittleEndian))?,
        };
        if index >= exports.number_of_functions.get(LittleEndian) {
            return None;
        }
        let functions = exports.address_of_functions.get(LittleEndian);
        self.word(functions.checked_add(index.checked_mul(4)?)?).filter(|address| *address != 0)
    }

    fn export_index(&self, exports: &ImageExportDirectory, name: &str) -> Option<u32> {
        let names = exports.address_of_names.get(LittleEndian);
        let count = exports.number_of_names.get(LittleEndian).min(MAX_EXPORTS);
        // Names are sorted, so use binary search.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.name(self.word(names.checked_add(middle.checked_mul(4)?)?)?)?;
            match found.as_str().cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let ordinals = exports.address_of_name_ordinals.get(LittleEndian);
                    let at = ordinals.checked_add(middle.checked_mul(2)?)?;
                    return self.bytes::<2>(at).map(|index| u16::from_le_bytes(index).into());
                }
            }
        }
        None
    }

    /// Returns the range of the GPU code. Section names are limited to eight characters.
    pub(super) fn gpu_code(&self) -> Option<Range<u64>> {
        let section = self.sections.iter().find(|section| section.raw_name() == b".nv_fatb")?;
        let (start, size) = section.pe_file_range();
        Some(u64::from(start)..u64::from(start) + u64::from(size))
    }

    fn exports(&self) -> Option<&'a ImageExportDirectory> {
        let directory = self.directories.get(pe::IMAGE_DIRECTORY_ENTRY_EXPORT)?;
        self.data.read_at(self.offset(directory.virtual_address.get(LittleEndian))?).ok()
    }

    fn import_descriptors(&self) -> Vec<Descriptor> {
        let Some(directory) = self.directories.get(pe::IMAGE_DIRECTORY_ENTRY_IMPORT) else { return Vec::new() };
        let start = directory.virtual_address.get(LittleEndian);
        let size = size_of::<ImageImportDescriptor>() as u32;
        let descriptor = |index: u32| -> Option<&ImageImportDescriptor> {
            let found: &ImageImportDescriptor =
                self.data.read_at(self.offset(start.checked_add(index * size)?)?).ok()?;
            (!found.is_null()).then_some(found)
        };
        let read = |found: &ImageImportDescriptor| {
            // In the file, both tables are identical. Some linkers write only the second one.
            let tables = [&found.original_first_thunk, &found.first_thunk].map(|table| table.get(LittleEndian));
            let symbols = tables.into_iter().find(|table| *table != 0).unwrap_or(0);
            Some(Descriptor { dll: self.name(found.name.get(LittleEndian))?, symbols })
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
        Some(self.sections.pe_file_range_at(address)?.0.into())
    }

    fn bytes<const N: usize>(&self, address: u32) -> Option<[u8; N]> {
        self.data.read_bytes_at(self.offset(address)?, N as u64).ok()?.try_into().ok()
    }

    fn word(&self, address: u32) -> Option<u32> {
        self.bytes(address).map(u32::from_le_bytes)
    }

    fn name(&self, address: u32) -> Option<String> {
        let start = self.offset(address)?;
        let name = self.data.read_bytes_at_until(start..start.checked_add(MAX_NAME_LEN)?, 0).ok()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use std::path::PathBuf;

    use super::super::fake_dll::{AMD64, FakeDll};
    use super::super::{dll_links, identify_any, missing_imports};
    use super::*;
    use crate::library::Library;
    use crate::platform::Os;

    fn file(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("cudnn-probe-pe-{test}-{}.dll", std::process::id()))
    }

    const GRAPH: FakeDll<'_> = FakeDll {
        name: "cudnn_graph64_9.dll",
        machine: AMD64,
        exports: &[("cudnnGetVersion", [0; 4]), ("cudnn_graph_version", [2, 10, 9, 0])],
        imports: &[("KERNEL32.dll", &["Sleep", "#12"]), ("zlibwapi.dll", &[])],
        version: None,
        is_hybrid: false,
    };

    #[test]
    #[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
    fn a_dll_states_its_name_version_processor_and_imports() {
        let path = file("facts");
        GRAPH.write(&path);
        let identity = identify_any(&path, Library::Graph).unwrap();
        assert_eq!((identity.os, identity.architecture), (Os::Windows, Architecture::X86_64));
        assert_eq!(identity.version, Some(Version::new(9, 10, 2)));
        assert_eq!(identity.needed, ["KERNEL32.dll", "zlibwapi.dll"]);
        let links = dll_links(&path).unwrap();
        let symbols = [Symbol::Name("Sleep".into()), Symbol::Ordinal(12)];
        assert_eq!(links.imports[0], Import { dll: "KERNEL32.dll".into(), symbols: symbols.to_vec() });
        let wanted = ["cudnnGetVersion", "cudnnCreate"].map(|name| Symbol::Name(name.into()));
        let wanted = [&wanted[..], &[Symbol::Ordinal(2), Symbol::Ordinal(3), Symbol::Ordinal(0)]].concat();
        let missing = missing_imports(&path, &wanted).unwrap();
        assert_eq!(missing, [wanted[1].clone(), wanted[3].clone(), wanted[4].clone()]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
    fn a_version_in_the_resources_counts_where_no_symbol_states_one() {
        let path = file("version");
        for (name, exports, version, library, expected) in [
            (
                "cudnn64_9.dll",
                &[][..],
                Some([9, 28, 1, 42]),
                Library::Shim,
                "Some(Version { major: 9, minor: 28, patch: 1 })",
            ),
            ("cudnn64_9.dll", &[], None, Library::Shim, "None"),
            (
                "cudnn_graph64_9.dll",
                GRAPH.exports,
                Some([9, 11, 0, 1]),
                Library::Graph,
                "Some(Version { major: 9, minor: 10, patch: 2 })",
            ),
            // Simulate a cuDNN 8 file with the name of a newer file.
            ("cudnn64_8.dll", &[], Some([8, 9, 7, 29]), Library::Shim, "is cuDNN 8.9.7, but cuDNN 9 is required"),
            ("other.dll", &[], Some([8, 9, 7, 29]), Library::Shim, "\"other.dll\" instead of"),
        ] {
            FakeDll { exports, version, ..FakeDll::new(name) }.write(&path);
            let found = match identify_any(&path, library) {
                Ok(identity) => format!("{:?}", identity.version),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{name}: {found}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
    fn a_dll_for_another_processor_is_named_as_what_it_is() {
        let path = file("processor");
        for (machine, is_hybrid, expected) in [
            (0x14c, false, "is built for 32-bit x86, but x86-64 is required"),
            (0x1c4, false, "is built for 32-bit Arm, but x86-64 is required"),
            (0xaa64, false, "is built for aarch64, but x86-64 is required"),
            (0xa64e, false, "is built for aarch64, but x86-64 is required"),
            (0xa641, false, "is built for ARM64EC (Windows on Arm), but x86-64 is required"),
            (AMD64, true, "is built for ARM64EC (Windows on Arm), but x86-64 is required"),
            (0x200, false, "is damaged: the header contains an unknown processor"),
            (AMD64, false, ""),
        ] {
            FakeDll { machine, is_hybrid, ..GRAPH }.write(&path);
            let (data, length, _) = super::super::open(&path).unwrap();
            let error = Pe::read(&data, length, Some(Architecture::X86_64)).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.starts_with(expected) && error.is_empty() == expected.is_empty(), "{machine:x}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// Corrupts every byte of the header and tables, truncates the file everywhere, and sets numbers to huge values.
    /// Each result must be either a description of the file or an error.
    #[test]
    #[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
    fn a_damaged_or_hostile_dll_gives_an_error_at_most() {
        let path = file("hostile");
        let complete = FakeDll { version: Some([9, 10, 2, 1]), is_hybrid: true, ..GRAPH }.bytes();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let _ = dll_links(&path);
            let _ = missing_imports(&path, &[Symbol::Name("cudnn".into()), Symbol::Ordinal(u16::MAX)]);
            identify_any(&path, Library::Graph)
        };
        assert!(read(&complete).is_ok());
        for length in (0..complete.len()).step_by(7) {
            assert!(read(&complete[..length]).is_err(), "{length} bytes");
        }
        // Covers the nonempty parts of the header and the section.
        let places = (0x3c..0x40).chain(0x80..0x1c0).chain(0x400..complete.len());
        for place in places.step_by(2) {
            for value in [[0; 4], [0xff; 4], [0xff, 0xff, 0xff, 0x7f], [0, 0, 0, 0x80]] {
                let mut bytes = complete.clone();
                let end = bytes.len().min(place + 4);
                bytes[place..end].copy_from_slice(&value[..end - place]);
                let _ = read(&bytes);
            }
        }
        for (bytes, expected) in [
            (&b"MZ"[..], "is truncated: it has 2 bytes of at least 64"),
            (b"<html>", "its first bytes are"),
            (&[b"MZ", &[0; 100][..]].concat(), "is damaged: it is a program for MS-DOS or OS/2"),
            (&complete[..0x90], "is truncated: it has 144 bytes"),
            (&complete[..0x500], "is truncated: it has 1280 bytes"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
