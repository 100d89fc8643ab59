//! What one ELF file says of itself. Reads headers, the dynamic section and a few bytes of data: never the whole
//! file, and never more than `LIMIT` at once, whatever the file's headers claim.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::read::{ReadCache, ReadRef, StringTable, SymbolIndex};

use crate::blocks::Blocks;
use crate::cuda;
use crate::{Architecture, Library, Refusal, Version};

/// The most that is read in one piece, in bytes. The largest table in any cuDNN library is a tenth of this.
const LIMIT: u64 = 4 << 20;

type Header = FileHeader64<LittleEndian>;
type Section = <Header as object::read::elf::FileHeader>::SectionHeader;
type Data<'a> = &'a ReadCache<Blocks>;
const ENDIAN: LittleEndian = LittleEndian;

/// What one library says of itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The file.
    pub path: PathBuf,
    /// Which library of cuDNN it is.
    pub library: Library,
    /// The processor that it was built for.
    pub architecture: Architecture,
    /// Its version, from its data symbol; the libraries without one (see [`Library::version_symbol`]) say `None`.
    pub version: Option<Version>,
    /// The CUDA major that it was built with, where the file or its folder tells.
    pub cuda_major: Option<u32>,
    /// The names of the libraries that it needs (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// Its folders to search, `DT_RUNPATH` or else `DT_RPATH`, as written, with `$ORIGIN`.
    pub run_path: Option<String>,
}

/// Reads the file as the given library of cuDNN 9.
///
/// Reads no more than some hundred kilobytes, also of a library of half a gigabyte.
///
/// # Errors
/// The reason why it cannot be that library: see [`Refusal`].
pub fn identify(path: &Path, library: Library) -> Result<Identity, Refusal> {
    let data = ReadCache::new(open(path)?);
    let data = &data;
    let length = data.len().map_err(|()| malformed("its length cannot be read"))?;
    let header = header(data, length)?;
    let sections = sections(header, data, length)?;
    let mut identity = Identity {
        path: path.to_owned(),
        library,
        architecture: Architecture(header.e_machine(ENDIAN).0),
        version: None,
        cuda_major: None,
        needed: Vec::new(),
        run_path: None,
    };
    read_dynamic(&mut identity, sections, data)?;
    if let Some(symbol) = library.version_symbol() {
        identity.version = read_version(header, sections, data, symbol);
    }
    identity.cuda_major = cuda::major(path, |name| section_named(header, sections, data, name), data);
    match identity.version {
        Some(found) if found.major != 9 => Err(Refusal::WrongMajor { found }),
        _ => Ok(identity),
    }
}

fn open(path: &Path) -> Result<Blocks, Refusal> {
    let refuse = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Refusal::Absent,
        _ => Refusal::Unreadable { error },
    };
    // Asked before opening: opening a pipe would wait for somebody to write into it.
    let metadata = std::fs::metadata(path).map_err(refuse)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(Refusal::NotAFile { what: "a folder" });
    }
    if !kind.is_file() {
        return Err(Refusal::NotAFile { what: "a pipe, a socket or a device" });
    }
    let mut file = Blocks::new(File::open(path).map_err(refuse)?, metadata.len());
    let mut start = Vec::new();
    Read::by_ref(&mut file).take(16).read_to_end(&mut start).map_err(refuse)?;
    if start.starts_with(&elf::ELFMAG) { Ok(file) } else { Err(Refusal::NotElf { starts_with: start }) }
}

fn header(data: Data<'_>, length: u64) -> Result<&Header, Refusal> {
    let ident: &[u8] = data.read_bytes_at(0, 20).map_err(|()| Refusal::Truncated { promised: 64, length })?;
    let machine =
        ident.get(18..20).map_or(0, |bytes| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u16::from(*byte)));
    if (ident.get(4), ident.get(5)) != (Some(&2), Some(&1)) {
        // 32-bit, or big-endian: the machine is all that can be said of it.
        return Err(Refusal::WrongArchitecture { found: Architecture(machine), wanted: Architecture::OURS });
    }
    let header = data.read_at::<Header>(0).map_err(|()| Refusal::Truncated { promised: 64, length })?;
    let found = Architecture(header.e_machine(ENDIAN).0);
    if found != Architecture::OURS {
        return Err(Refusal::WrongArchitecture { found, wanted: Architecture::OURS });
    }
    if header.e_type(ENDIAN) != elf::ET_DYN {
        return Err(malformed("no shared library but another kind of ELF file"));
    }
    Ok(header)
}

/// The section headers, once the file is known to be as long as all its headers promise.
fn sections<'a>(header: &'a Header, data: Data<'a>, length: u64) -> Result<&'a [Section], Refusal> {
    let table = |offset: u64, count: u16, size: u16| offset.saturating_add(u64::from(count) * u64::from(size));
    let mut promised = table(header.e_phoff(ENDIAN), header.e_phnum(ENDIAN), header.e_phentsize(ENDIAN)).max(table(
        header.e_shoff(ENDIAN),
        header.e_shnum(ENDIAN),
        header.e_shentsize(ENDIAN),
    ));
    if promised <= length {
        let segments = header.program_headers(ENDIAN, data).map_err(malformed)?;
        for segment in segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD) {
            promised = promised.max(segment.p_offset(ENDIAN).saturating_add(segment.p_filesz(ENDIAN)));
        }
    }
    if promised > length {
        return Err(Refusal::Truncated { promised, length });
    }
    header.section_headers(ENDIAN, data).map_err(malformed)
}

fn malformed(what: impl ToString) -> Refusal {
    Refusal::Malformed { what: what.to_string() }
}

fn of_kind(sections: &[Section], kind: elf::SectionType) -> Option<&Section> {
    sections.iter().find(|section| section.sh_type(ENDIAN) == kind && section.sh_size(ENDIAN) <= LIMIT)
}

fn section_named(header: &Header, sections: &[Section], data: Data<'_>, name: &str) -> Option<std::ops::Range<u64>> {
    let names = sections.get(header.section_strings_index(ENDIAN, data).ok()?.0)?;
    let names = strings(names, data)?;
    let section = sections.iter().find(|section| section.name(ENDIAN, names) == Ok(name.as_bytes()))?;
    let start = section.sh_offset(ENDIAN);
    Some(start..start.checked_add(section.sh_size(ENDIAN))?)
}

fn strings<'a>(section: &Section, data: Data<'a>) -> Option<StringTable<'a, Data<'a>>> {
    let start = section.sh_offset(ENDIAN);
    Some(StringTable::new(data, start, start.checked_add(section.sh_size(ENDIAN))?))
}

fn linked_strings<'a>(section: &Section, sections: &[Section], data: Data<'a>) -> Option<StringTable<'a, Data<'a>>> {
    strings(sections.get(usize::try_from(section.sh_link(ENDIAN)).ok()?)?, data)
}

/// Soname, needed libraries and run path.
fn read_dynamic(identity: &mut Identity, sections: &[Section], data: Data<'_>) -> Result<(), Refusal> {
    let section = of_kind(sections, elf::SHT_DYNAMIC).ok_or_else(|| malformed("it has no dynamic section"))?;
    let (entries, _) = section
        .dynamic(ENDIAN, data)
        .map_err(malformed)?
        .ok_or_else(|| malformed("its dynamic section cannot be read"))?;
    let names =
        linked_strings(section, sections, data).ok_or_else(|| malformed("its dynamic section names no strings"))?;
    let mut soname = None;
    for entry in entries {
        let tag = entry.tag(ENDIAN);
        if !matches!(tag, elf::DT_SONAME | elf::DT_NEEDED | elf::DT_RUNPATH | elf::DT_RPATH) {
            continue;
        }
        let offset = u32::try_from(entry.val(ENDIAN)).map_err(malformed)?;
        let text = names.get(offset).map_err(|()| malformed("a name lies outside of its strings"))?;
        let text = String::from_utf8_lossy(text).into_owned();
        match tag {
            elf::DT_SONAME => soname = Some(text),
            elf::DT_NEEDED => identity.needed.push(text),
            // The dynamic linker ignores an RPATH beside a RUNPATH.
            elf::DT_RUNPATH => identity.run_path = Some(text),
            _ => identity.run_path = identity.run_path.take().or(Some(text)),
        }
    }
    match soname {
        Some(soname) if soname != identity.library.file_name() => {
            Err(Refusal::WrongSoname { found: soname, wanted: identity.library })
        }
        _ => Ok(()),
    }
}

/// The four bytes behind the version's data symbol.
fn read_version(header: &Header, sections: &[Section], data: Data<'_>, symbol: &str) -> Option<Version> {
    let section = of_kind(sections, elf::SHT_DYNSYM)?;
    let symbols = data
        .read_slice_at::<elf::Sym64<LittleEndian>>(
            section.sh_offset(ENDIAN),
            usize::try_from(section.sh_size(ENDIAN)).ok()? / size_of::<elf::Sym64<LittleEndian>>(),
        )
        .ok()?;
    let names = linked_strings(section, sections, data)?;
    let address = candidates(sections, data, symbol)
        .map_or(0..symbols.len(), |first| first.0..symbols.len())
        .find_map(|index| {
            let entry = symbols.get(index)?;
            (entry.name(ENDIAN, names) == Ok(symbol.as_bytes())).then(|| entry.st_value(ENDIAN))
        })?;
    let offset = header.program_headers(ENDIAN, data).ok()?.iter().find_map(|segment| {
        let inside = address.checked_sub(segment.p_vaddr(ENDIAN))?;
        (segment.p_type(ENDIAN) == elf::PT_LOAD && inside < segment.p_filesz(ENDIAN))
            .then(|| segment.p_offset(ENDIAN).saturating_add(inside))
    })?;
    let bytes: &[u8; 4] = data.read_bytes_at(offset, 4).ok()?.try_into().ok()?;
    let [patch, minor, major, _] = bytes.map(u32::from);
    Some(Version::new(major, minor, patch))
}

/// Where in the symbol table the hash table says that the name may first stand. Spares reading thousands of names.
fn candidates(sections: &[Section], data: Data<'_>, symbol: &str) -> Option<SymbolIndex> {
    let section = of_kind(sections, elf::SHT_GNU_HASH)?;
    let table: &[u8] = data.read_bytes_at(section.sh_offset(ENDIAN), section.sh_size(ENDIAN)).ok()?;
    let word = |offset: usize| -> Option<u32> {
        Some(u32::from_le_bytes(*table.get(offset..offset.checked_add(4)?)?.first_chunk::<4>()?))
    };
    let (buckets, bloom_words) = (word(0)?, word(8)?);
    let bucket = elf::gnu_hash(symbol.as_bytes()).checked_rem(buckets)?;
    let offset = 16 + u64::from(bloom_words) * 8 + u64::from(bucket) * 4;
    Some(SymbolIndex(usize::try_from(word(usize::try_from(offset).ok()?)?).ok()?))
}
