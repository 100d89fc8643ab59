//! Reads a Windows library (PE, 64-bit): the same facts as on Linux, in other tables.

use std::ops::Range;

use object::LittleEndian;
use object::pe::{self, ImageDosHeader, ImageExportDirectory, ImageImportDescriptor, ImageNtHeaders64};
use object::read::ReadRef;
use object::read::pe::{ImageNtHeaders, SectionTable};

use crate::error::ProbeError;
use crate::platform::Architecture;

use super::tables::{Contents, Data, malformed};

/// The most imported libraries, exported names and bytes of a name that are read.
const MAX_IMPORTS: u32 = 256;
const MAX_EXPORTS: u32 = 1 << 16;
const MAX_NAME_LEN: u64 = 256;

/// A library whose headers are read.
pub(super) struct Pe<'a> {
    data: Data<'a>,
    headers: &'a ImageNtHeaders64,
    sections: SectionTable<'a>,
    directories: object::read::pe::DataDirectories<'a>,
}

impl<'a> Pe<'a> {
    pub(super) fn read(data: Data<'a>, length: u64, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        let dos = ImageDosHeader::parse(data).map_err(malformed)?;
        let mut offset = dos.nt_headers_offset().into();
        let (headers, directories) = ImageNtHeaders64::parse(data, &mut offset).map_err(malformed)?;
        let sections = headers.sections(data, offset).map_err(malformed)?;
        let end = |section: &pe::ImageSectionHeader| {
            let (start, size) = section.pe_file_range();
            u64::from(start) + u64::from(size)
        };
        let expected_len = sections.iter().map(end).max().unwrap_or(0);
        if expected_len > length {
            return Err(ProbeError::Truncated { expected_len, length });
        }
        let pe = Pe { data, headers, sections, directories };
        match wanted {
            Some(wanted) if pe.architecture() != wanted => {
                Err(ProbeError::WrongArchitecture { found: pe.architecture(), wanted })
            }
            _ => Ok(pe),
        }
    }

    pub(super) fn contents(&self) -> Result<Contents, ProbeError> {
        let exports = self.exports().ok_or_else(|| malformed("it has no export table"))?;
        let name =
            self.name(exports.name.get(LittleEndian)).ok_or_else(|| malformed("its export table has no name"))?;
        Ok(Contents { name, needed: self.imports(), run_path: None })
    }

    pub(super) fn architecture(&self) -> Architecture {
        Architecture::from_elf_machine(match self.headers.file_header().machine.get(LittleEndian) {
            pe::IMAGE_FILE_MACHINE_AMD64 => object::elf::EM_X86_64.0,
            pe::IMAGE_FILE_MACHINE_ARM64 => object::elf::EM_AARCH64.0,
            _ => 0,
        })
    }

    /// The first bytes of an exported variable.
    pub(super) fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        let exports = self.exports()?;
        let names = exports.address_of_names.get(LittleEndian);
        let count = exports.number_of_names.get(LittleEndian).min(MAX_EXPORTS);
        // The names are sorted.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.name(self.word(names.checked_add(middle.checked_mul(4)?)?)?)?;
            match found.as_str().cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let ordinals = exports.address_of_name_ordinals.get(LittleEndian);
                    let ordinal =
                        self.bytes::<2>(ordinals.checked_add(middle.checked_mul(2)?)?).map(u16::from_le_bytes)?;
                    let functions = exports.address_of_functions.get(LittleEndian);
                    return self.bytes(self.word(functions.checked_add(u32::from(ordinal).checked_mul(4)?)?)?);
                }
            }
        }
        None
    }

    /// The range of the GPU code. Section names have at most eight letters.
    pub(super) fn gpu_code(&self) -> Option<Range<u64>> {
        let section = self.sections.iter().find(|section| section.raw_name() == b".nv_fatb")?;
        let (start, size) = section.pe_file_range();
        Some(u64::from(start)..u64::from(start) + u64::from(size))
    }

    fn exports(&self) -> Option<&'a ImageExportDirectory> {
        let directory = self.directories.get(pe::IMAGE_DIRECTORY_ENTRY_EXPORT)?;
        self.data.read_at(self.offset(directory.virtual_address.get(LittleEndian))?).ok()
    }

    fn imports(&self) -> Vec<String> {
        let Some(directory) = self.directories.get(pe::IMAGE_DIRECTORY_ENTRY_IMPORT) else { return Vec::new() };
        let start = directory.virtual_address.get(LittleEndian);
        let size = size_of::<ImageImportDescriptor>() as u32;
        let descriptor = |index: u32| -> Option<&ImageImportDescriptor> {
            let found: &ImageImportDescriptor =
                self.data.read_at(self.offset(start.checked_add(index * size)?)?).ok()?;
            (!found.is_null()).then_some(found)
        };
        (0..MAX_IMPORTS).map_while(descriptor).filter_map(|found| self.name(found.name.get(LittleEndian))).collect()
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
