//! Reads headers, dynamic section and symbols of 64-bit ELF libraries. Like ld.so, it uses program headers and works
//! without section headers.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;

use cudnn_os::files::path_from_bytes;
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};

use crate::error::ProbeError;
use crate::platform::Architecture;

use super::tables::{Contents, Data, Links, malformed};

/// The maximum size of a header table in bytes. Tables in cuDNN libraries have about two kilobytes.
const MAX_TABLE_LEN: u64 = 64 << 10;
/// Limits for dynamic entries, undefined symbols, compared symbols, the length of symbol names, functions, symbols per
/// hash chain, other names and run paths. Real libraries stay far below them, although Nix and Spack write run paths of
/// several tens of kilobytes.
const MAX_DYNAMIC_ENTRIES: usize = 1 << 10;
const MAX_UNDEFINED: u32 = 1 << 11;
const MAX_SYMBOLS: usize = 1 << 9;
const MAX_SYMBOL_LEN: usize = 1 << 10;
const MAX_FUNCTIONS: usize = 1 << 12;
const MAX_HASH_CHAIN: u64 = 1 << 6;
/// The maximum number of hash buckets to verify. The graph library has several thousand.
const MAX_DEFINED: u64 = 1 << 16;
const MAX_NAME_LEN: u64 = 4 << 10;
const MAX_RUN_PATH_LEN: u64 = 1 << 20;

type Header = FileHeader64<LittleEndian>;
type Segment = <Header as object::read::elf::FileHeader>::ProgramHeader;
const ENDIAN: LittleEndian = LittleEndian;

/// A library or program with parsed headers.
pub(super) struct Elf<'a> {
    data: Data<'a>,
    header: &'a Header,
    segments: &'a [Segment],
    dynamic: Dynamic,
}

impl<'a> Elf<'a> {
    /// Reads the headers of a library. For a different processor, reading stops early.
    pub(super) fn read(data: Data<'a>, length: u64, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        let header = header(data, length, wanted)?;
        if header.e_type(ENDIAN) != elf::ET_DYN {
            return Err(malformed("it is an ELF file, but not a shared library"));
        }
        Elf::with(header, data, length)
    }

    /// Reads the headers of a library or program. A program may be position-dependent and usually has no `DT_SONAME`.
    pub(super) fn read_any(data: Data<'a>, length: u64) -> Result<Self, ProbeError> {
        Elf::with(header(data, length, Some(Architecture::HOST))?, data, length)
    }

    fn with(header: &'a Header, data: Data<'a>, length: u64) -> Result<Self, ProbeError> {
        let segments = segments(header, data, length)?;
        let dynamic = Dynamic::read(segments, data)?;
        Ok(Elf { data, header, segments, dynamic })
    }

    /// Reads the information that ld.so uses.
    pub(super) fn links(&self) -> Result<Links, ProbeError> {
        let run_path = |offset: Option<u64>| offset.map(|offset| self.dynamic.run_path(self.data, offset)).transpose();
        let soname = self.dynamic.soname.map(|offset| self.dynamic.text(self.data, offset)).transpose()?;
        Ok(Links {
            soname,
            needed: self.needed()?,
            rpath: run_path(self.dynamic.rpath)?,
            runpath: run_path(self.dynamic.runpath)?,
            no_default_dirs: self.dynamic.flags & elf::DF_1_NODEFLIB.0 != 0,
        })
    }

    /// Returns the program interpreter, usually ld.so. Libraries do not have one.
    pub(super) fn interpreter(&self) -> Option<PathBuf> {
        let segment = self.segments.iter().find(|segment| segment.p_type(ENDIAN) == elf::PT_INTERP)?;
        let len = segment.p_filesz(ENDIAN).min(MAX_NAME_LEN);
        let text = self.data.read_bytes_at(segment.p_offset(ENDIAN), len).ok()?;
        Some(path_from_bytes(text.split(|byte| *byte == 0).next()?))
    }

    pub(super) fn contents(&self) -> Result<Contents, ProbeError> {
        let (data, dynamic) = (self.data, &self.dynamic);
        if dynamic.is_absent {
            return Err(malformed("the dynamic section is missing"));
        }
        let name = dynamic.soname.ok_or_else(|| malformed("it has no DT_SONAME"))?;
        // ld.so ignores DT_RPATH if DT_RUNPATH is present.
        let run_path = dynamic.runpath.or(dynamic.rpath).map(|offset| dynamic.run_path(data, offset)).transpose()?;
        Ok(Contents { name: dynamic.text(data, name)?, needed: self.needed()?, run_path })
    }

    fn needed(&self) -> Result<Vec<String>, ProbeError> {
        self.dynamic.needed.iter().map(|offset| self.dynamic.text(self.data, *offset)).collect()
    }

    pub(super) fn architecture(&self) -> Architecture {
        Architecture::from_elf_machine(self.header.e_machine(ENDIAN).0)
    }

    /// Returns the first bytes of an exported variable.
    pub(super) fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        let address = self.dynamic.address_of(self.data, name.as_bytes())?;
        self.data.read_bytes_at(offset_of(self.segments, address)?, 4).ok()?.try_into().ok()
    }

    /// Returns undefined symbols with this text in the name. cuDNN libraries use up to 170 symbols of other cuDNN
    /// libraries, with up to 220 characters.
    pub(super) fn undefined(&self, text: &str) -> Vec<&'a str> {
        let (data, dynamic) = (self.data, &self.dynamic);
        let (Some(symbols), Some(hash)) = (dynamic.symbols, dynamic.hash) else { return Vec::new() };
        // The hash table contains the index of the first defined symbol. Undefined symbols come before it.
        let first = Dynamic::hash_word(data, hash, 1).unwrap_or(0).min(MAX_UNDEFINED);
        let symbols: &[elf::Sym64<LittleEndian>] = data.read_slice_at(symbols, first as usize).unwrap_or_default();
        let is_needed = |symbol: &&elf::Sym64<LittleEndian>| {
            symbol.st_shndx(ENDIAN) == elf::SHN_UNDEF && symbol.st_bind() == elf::STB_GLOBAL
        };
        let names = symbols
            .iter()
            .filter(is_needed)
            .filter_map(|symbol| std::str::from_utf8(dynamic.name(data, symbol.st_name(ENDIAN).into())?).ok());
        names.filter(|name| name.len() <= MAX_SYMBOL_LEN && name.contains(text)).take(MAX_SYMBOLS).collect()
    }

    /// Returns the names of exported functions with this prefix.
    pub(super) fn functions(&self, prefix: &str) -> Result<Vec<String>, ProbeError> {
        let mut names = Vec::new();
        let visited = self.dynamic.for_each_defined(self.data, |_, symbol, name| {
            let is_function = [elf::STT_FUNC, elf::STT_GNU_IFUNC].contains(&symbol.st_type());
            let name = name.filter(|name| is_function && name.len() <= MAX_SYMBOL_LEN);
            let name = name.and_then(|name| std::str::from_utf8(name).ok()).filter(|name| name.starts_with(prefix));
            names.extend(name.map(str::to_owned));
            names.len() < MAX_FUNCTIONS
        });
        match visited {
            Some(true) => Ok(names),
            Some(false) if names.len() >= MAX_FUNCTIONS => Ok(names),
            _ => Err(malformed("the symbol hash table cannot be read")),
        }
    }

    /// Returns whether the library exports this symbol.
    pub(super) fn defines(&self, symbol: &str) -> bool {
        self.dynamic.address_of(self.data, symbol.as_bytes()).is_some()
    }

    /// Detects symbols that do not match the hash table, and names that a compiler would not generate.
    pub(super) fn damaged_symbols(&self) -> Option<ProbeError> {
        let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$@".contains(&byte));
        let is_damaged =
            !self.undefined("").iter().all(is_name) || self.dynamic.is_hash_table_sound(self.data) == Some(false);
        is_damaged.then(|| malformed("the symbol table does not match the hash table"))
    }

    /// Returns the loaded parts of the file, starting with those without machine code.
    pub(super) fn loaded_parts(&self) -> Vec<Range<u64>> {
        let mut loads: Vec<&Segment> =
            self.segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD).collect();
        loads.sort_by_key(|load| load.p_flags(ENDIAN) & elf::PF_X == elf::PF_X);
        let part =
            |load: &Segment| Some(load.p_offset(ENDIAN)..load.p_offset(ENDIAN).checked_add(load.p_filesz(ENDIAN))?);
        loads.into_iter().filter_map(part).collect()
    }

    /// Returns the range of the GPU code.
    pub(super) fn gpu_code(&self) -> Option<Range<u64>> {
        section_named(self.header, self.data, ".nv_fatbin")
    }
}

fn header(data: Data<'_>, length: u64, wanted: Option<Architecture>) -> Result<&Header, ProbeError> {
    let truncated = |()| ProbeError::Truncated { expected_len: size_of::<Header>() as u64, length };
    let ident: &[u8] = data.read_bytes_at(0, 20).map_err(truncated)?;
    let machine =
        ident.get(18..20).map_or(0, |bytes| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u16::from(*byte)));
    if (ident.get(4), ident.get(5)) != (Some(&2), Some(&1)) {
        // For 32-bit or big-endian files, only the machine type can be read.
        let wanted = wanted.unwrap_or(Architecture::HOST);
        return Err(ProbeError::WrongArchitecture { found: Architecture::from_elf_machine(machine), wanted });
    }
    let header = data.read_at::<Header>(0).map_err(truncated)?;
    let found = Architecture::from_elf_machine(header.e_machine(ENDIAN).0);
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        return Err(ProbeError::WrongArchitecture { found, wanted });
    }
    Ok(header)
}

/// Returns the segments after checking that the file has the length that the headers require.
fn segments<'a>(header: &Header, data: Data<'a>, length: u64) -> Result<&'a [Segment], ProbeError> {
    let table = |offset: u64, count: u16, size: u16| offset.saturating_add(u64::from(count) * u64::from(size));
    let (start, count) = (header.e_phoff(ENDIAN), header.e_phnum(ENDIAN));
    let mut expected_len = table(start, count, header.e_phentsize(ENDIAN)).max(table(
        header.e_shoff(ENDIAN),
        header.e_shnum(ENDIAN),
        header.e_shentsize(ENDIAN),
    ));
    let mut segments: &[Segment] = &[];
    if expected_len <= length {
        if usize::from(header.e_phentsize(ENDIAN)) != size_of::<Segment>() || table(0, count, 56) > MAX_TABLE_LEN {
            return Err(malformed("the program headers have an invalid size"));
        }
        segments =
            data.read_slice_at(start, count.into()).map_err(|()| malformed("the program headers cannot be read"))?;
        for segment in segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD) {
            expected_len = expected_len.max(segment.p_offset(ENDIAN).saturating_add(segment.p_filesz(ENDIAN)));
        }
    }
    if expected_len > length {
        return Err(ProbeError::Truncated { expected_len, length });
    }
    // ld.so writes to these segments without checks and would crash.
    let is_used = |segment: &&Segment| [elf::PT_TLS, elf::PT_GNU_RELRO].contains(&segment.p_type(ENDIAN));
    if segments.iter().filter(is_used).all(|segment| is_loaded(segments, segment)) {
        Ok(segments)
    } else {
        Err(malformed("a program header points outside of the loaded segments"))
    }
}

/// Returns whether ld.so maps this part. Zero-initialized thread-local variables do not occupy space.
fn is_loaded(segments: &[Segment], part: &Segment) -> bool {
    const MAX_PAGE_LEN: u64 = 64 << 10;
    let len = if part.p_type(ENDIAN) == elf::PT_TLS { part.p_filesz(ENDIAN) } else { part.p_memsz(ENDIAN) };
    let start = part.p_vaddr(ENDIAN);
    segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD).any(|load| {
        let end = load.p_vaddr(ENDIAN).checked_add(load.p_memsz(ENDIAN));
        let end = end.and_then(|end| end.checked_next_multiple_of(MAX_PAGE_LEN));
        load.p_vaddr(ENDIAN) <= start && start.checked_add(len).zip(end).is_some_and(|(part, load)| part <= load)
    })
}

/// Returns the file offset of an address in the loaded library.
fn offset_of(segments: &[Segment], address: u64) -> Option<u64> {
    segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD).find_map(|segment| {
        let inside = address.checked_sub(segment.p_vaddr(ENDIAN))?;
        (inside < segment.p_filesz(ENDIAN)).then(|| segment.p_offset(ENDIAN).checked_add(inside))?
    })
}

/// The dynamic section. Names are offsets into the string table, and other values are file offsets.
#[derive(Default)]
struct Dynamic {
    is_absent: bool,
    strings: u64,
    strings_length: u64,
    symbols: Option<u64>,
    hash: Option<u64>,
    soname: Option<u64>,
    needed: Vec<u64>,
    rpath: Option<u64>,
    runpath: Option<u64>,
    flags: u64,
}

impl Dynamic {
    fn read(segments: &[Segment], data: Data<'_>) -> Result<Self, ProbeError> {
        let segment = segments.iter().find(|segment| segment.p_type(ENDIAN) == elf::PT_DYNAMIC);
        // The program is statically linked.
        let Some(segment) = segment else { return Ok(Dynamic { is_absent: true, ..Dynamic::default() }) };
        let entry_size = size_of::<elf::Dyn64<LittleEndian>>() as u64;
        let count =
            usize::try_from(segment.p_filesz(ENDIAN) / entry_size).unwrap_or(usize::MAX).min(MAX_DYNAMIC_ENTRIES);
        let entries: &[elf::Dyn64<LittleEndian>] = data
            .read_slice_at(segment.p_offset(ENDIAN), count)
            .map_err(|()| malformed("the dynamic section cannot be read"))?;
        let mut dynamic = Dynamic::default();
        let mut strings = None;
        for entry in entries {
            let value = entry.d_val(ENDIAN);
            match entry.d_tag(ENDIAN) {
                elf::DT_NULL => break,
                elf::DT_STRTAB => strings = offset_of(segments, value),
                elf::DT_STRSZ => dynamic.strings_length = value,
                elf::DT_SYMTAB => dynamic.symbols = offset_of(segments, value),
                elf::DT_GNU_HASH => dynamic.hash = offset_of(segments, value),
                elf::DT_SONAME => dynamic.soname = Some(value),
                elf::DT_NEEDED => dynamic.needed.push(value),
                elf::DT_RUNPATH => dynamic.runpath = Some(value),
                elf::DT_RPATH => dynamic.rpath = Some(value),
                elf::DT_FLAGS_1 => dynamic.flags = value,
                _ => {}
            }
        }
        dynamic.strings = strings.ok_or_else(|| malformed("the string table of the dynamic section is missing"))?;
        Ok(dynamic)
    }

    /// Returns a name from the string table.
    fn name<'a>(&self, data: Data<'a>, offset: u64) -> Option<&'a [u8]> {
        let start = self.strings.checked_add(offset)?;
        let end = self.strings.checked_add(self.strings_length)?.min(start.checked_add(MAX_NAME_LEN)?);
        data.read_bytes_at_until(start..end, 0).ok()
    }

    fn text(&self, data: Data<'_>, offset: u64) -> Result<String, ProbeError> {
        let name = self.name(data, offset).ok_or_else(outside_of_strings)?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn run_path(&self, data: Data<'_>, offset: u64) -> Result<OsString, ProbeError> {
        // `read_bytes_at_until` is limited to a few kilobytes.
        const PART: u64 = 1 << 10;
        let start = self.strings.checked_add(offset).ok_or_else(outside_of_strings)?;
        let end = self.strings.saturating_add(self.strings_length).min(start.saturating_add(MAX_RUN_PATH_LEN));
        let mut path = Vec::new();
        for part in (start..end).step_by(PART as usize) {
            let bytes = data.read_bytes_at(part, PART.min(end - part)).map_err(|()| outside_of_strings())?;
            if let Some(length) = bytes.iter().position(|byte| *byte == 0) {
                path.extend_from_slice(bytes.get(..length).unwrap_or_default());
                return Ok(path_from_bytes(&path).into_os_string());
            }
            path.extend_from_slice(bytes);
        }
        Err(outside_of_strings())
    }

    /// Returns a 32-bit word from the hash table.
    fn hash_word(data: Data<'_>, table: u64, index: u64) -> Option<u32> {
        let bytes: &[u8] = data.read_bytes_at(table.checked_add(index.checked_mul(4)?)?, 4).ok()?;
        Some(u32::from_le_bytes(*bytes.first_chunk::<4>()?))
    }

    /// Returns whether all hashes match the symbol names, or `None` if the hash table is missing or unreadable.
    fn is_hash_table_sound(&self, data: Data<'_>) -> Option<bool> {
        self.for_each_defined(data, |hash, _, name| name.is_some_and(|name| elf::gnu_hash(name) | 1 == hash | 1))
    }

    /// Visits all symbols in the hash table, which are the symbols that the library defines. `visit` receives the
    /// stored hash, the symbol and the name. Returns `false` if `visit` returns `false` or the table is damaged, and
    /// `None` if the table is missing or unreadable.
    fn for_each_defined<'a>(
        &self,
        data: Data<'a>,
        mut visit: impl FnMut(u32, &elf::Sym64<LittleEndian>, Option<&'a [u8]>) -> bool,
    ) -> Option<bool> {
        let (symbols, table) = (self.symbols?, self.hash?);
        let word = |index| Dynamic::hash_word(data, table, index);
        let (buckets, first, bloom) = (u64::from(word(0)?), u64::from(word(1)?), u64::from(word(2)?));
        let start = 4 + 2 * bloom;
        if buckets > MAX_DEFINED || bloom > MAX_DEFINED {
            return Some(false);
        }
        for bucket in 0..buckets {
            let chain = u64::from(word(start + bucket)?);
            for index in (chain..).take_while(|_| chain != 0).take(MAX_HASH_CHAIN as usize) {
                let Some(entry) = index.checked_sub(first).and_then(|index| word(start + buckets + index)) else {
                    return Some(false);
                };
                let symbol = symbols.checked_add(index.checked_mul(size_of::<elf::Sym64<LittleEndian>>() as u64)?)?;
                let Ok(symbol) = data.read_at::<elf::Sym64<LittleEndian>>(symbol) else { return Some(false) };
                if !visit(entry, symbol, self.name(data, symbol.st_name(ENDIAN).into())) {
                    return Some(false);
                }
                if entry & 1 == 1 {
                    break;
                }
            }
        }
        Some(true)
    }

    /// Returns the address of a symbol, using the hash table like ld.so.
    fn address_of(&self, data: Data<'_>, name: &[u8]) -> Option<u64> {
        let (symbols, table) = (self.symbols?, self.hash?);
        let word = |index| Dynamic::hash_word(data, table, index);
        let (buckets, first, bloom) = (word(0)?, word(1)?, u64::from(word(2)?));
        let hash = elf::gnu_hash(name);
        // The header is followed by 64-bit bloom filter words, the buckets, and the chains.
        let bucket = 4 + 2 * bloom + u64::from(hash.checked_rem(buckets)?);
        let start = word(bucket)?;
        let chains = 4 + 2 * bloom + u64::from(buckets);
        for index in (u64::from(start)..).take(usize::try_from(MAX_HASH_CHAIN).ok()?) {
            let entry = word(chains + index.checked_sub(u64::from(first))?)?;
            // The lowest bit marks the end of the chain.
            if entry | 1 == hash | 1 {
                let symbol = symbols.checked_add(index.checked_mul(size_of::<elf::Sym64<LittleEndian>>() as u64)?)?;
                let found = data.read_at::<elf::Sym64<LittleEndian>>(symbol).ok()?;
                let text = self.strings.checked_add(found.st_name(ENDIAN).into())?;
                let text: &[u8] = data.read_bytes_at(text, name.len() as u64 + 1).unwrap_or_default();
                if text.strip_suffix(b"\0") == Some(name) {
                    return Some(found.st_value(ENDIAN));
                }
            }
            if entry & 1 == 1 {
                break;
            }
        }
        None
    }
}

fn outside_of_strings() -> ProbeError {
    malformed("a name is outside of the string table")
}

/// Returns the range of a section. Section headers may be missing.
fn section_named(header: &Header, data: Data<'_>, name: &str) -> Option<Range<u64>> {
    type Section = <Header as object::read::elf::FileHeader>::SectionHeader;
    // A count of zero means that the real count is stored elsewhere and is unbounded.
    let count = usize::from(header.e_shnum(ENDIAN));
    let fits = count != 0 && (count * size_of::<Section>()) as u64 <= MAX_TABLE_LEN;
    if !fits || usize::from(header.e_shentsize(ENDIAN)) != size_of::<Section>() {
        return None;
    }
    let sections: &[Section] = data.read_slice_at(header.e_shoff(ENDIAN), count).ok()?;
    let range = |section: &Section| -> Option<Range<u64>> {
        let start = section.sh_offset(ENDIAN);
        Some(start..start.checked_add(section.sh_size(ENDIAN))?)
    };
    let names = range(sections.get(usize::from(header.e_shstrndx(ENDIAN).0))?)?;
    let is_match = |section: &&Section| {
        let start = names.start.checked_add(section.sh_name(ENDIAN).into());
        let length = name.len() as u64 + 1;
        let found = start.filter(|start| start.saturating_add(length) <= names.end);
        found
            .and_then(|start| data.read_bytes_at(start, length).ok())
            .is_some_and(|found: &[u8]| found.strip_suffix(b"\0") == Some(name.as_bytes()))
    };
    range(sections.iter().find(is_match)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::file_data::FileData;
    use super::*;

    /// Verifies that an entry with the lowest bit ends a chain like in ld.so, and that later entries belong to another
    /// bucket.
    #[test]
    #[cfg_attr(miri, ignore = "the test needs a file")]
    fn the_lowest_bit_of_a_hash_ends_its_chain() {
        const STRINGS: &[u8] = b"\0first\0second\0";
        let hash = |name: &[u8], is_last: bool| elf::gnu_hash(name) & !1 | u32::from(is_last);
        let path = std::env::temp_dir().join(format!("cudnn-probe-hash-chain-{}", std::process::id()));
        // Fields: whether the first entry ends the chain, the name of the second entry, which symbols are found, and
        // whether the table is sound.
        for (ends, second, found, is_sound) in [
            (false, &b"second"[..], [true, true], true),
            (true, b"second", [true, false], true),
            (false, b"other", [true, false], false),
            (true, b"other", [true, false], true),
        ] {
            let mut bytes = STRINGS.to_vec();
            bytes.resize(16, 0);
            // The empty symbol, followed by two symbols with addresses.
            for (name, value) in [(0_u32, 0_u64), (1, 0x100), (7, 0x200)] {
                bytes.extend(name.to_le_bytes().into_iter().chain([0; 4]));
                bytes.extend(value.to_le_bytes().into_iter().chain([0; 8]));
            }
            let table = bytes.len() as u64;
            // One bucket, the first symbol that is in the table, no bloom filter; the bucket; the hashes.
            for word in [1, 1, 0, 0, 1, hash(b"first", ends), hash(second, true)] {
                bytes.extend(word.to_le_bytes());
            }
            std::fs::write(&path, &bytes).unwrap();
            let data = FileData::new(std::fs::File::open(&path).unwrap(), bytes.len() as u64);
            std::fs::remove_file(&path).unwrap();
            let dynamic = Dynamic {
                strings_length: STRINGS.len() as u64,
                symbols: Some(16),
                hash: Some(table),
                ..Dynamic::default()
            };
            let case = format!("{ends} {}", String::from_utf8_lossy(second));
            let is_found = [&b"first"[..], b"second"].map(|name| dynamic.address_of(&data, name).is_some());
            assert_eq!(is_found, found, "{case}");
            assert_eq!(dynamic.is_hash_table_sound(&data), Some(is_sound), "{case}");
            assert_eq!(dynamic.address_of(&data, b"first"), Some(0x100), "{case}");
        }
    }
}
