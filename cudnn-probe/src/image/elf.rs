//! Reads headers, dynamic section and symbols of 64-bit ELF libraries. Like ld.so, it uses program headers and works
//! without section headers.

use std::ffi::OsString;
use std::ops::Range;

use cudnn_os::files::path_from_bytes;

use crate::error::ProbeError;
use crate::platform::{Architecture, Os};
use crate::version::Version;

use super::file_data::{FileData, number};
use super::format::Format;
use super::tables::{Data, Links, TableNames, malformed};

/// The maximum size of a header table in bytes. Tables in cuDNN libraries have about two kilobytes.
const MAX_TABLE_LEN: u64 = 64 << 10;
/// Limits for dynamic entries, undefined symbols, compared symbols, the length of symbol names, functions, symbols per
/// hash chain, other names and run paths. Real libraries stay far below them, although Nix and Spack write run paths of
/// several tens of kilobytes.
const MAX_DYNAMIC_ENTRIES: u64 = 1 << 10;
const MAX_UNDEFINED: u32 = 1 << 11;
const MAX_SYMBOLS: usize = 1 << 9;
const MAX_SYMBOL_LEN: usize = 1 << 10;
const MAX_FUNCTIONS: usize = 1 << 12;
const MAX_HASH_CHAIN: u64 = 1 << 6;
/// The maximum number of entries in a table of symbol versions. libstdc++ defines about 60.
#[cfg(feature = "inspect")]
const MAX_VERSIONS: usize = 1 << 8;
/// The maximum number of hash buckets to verify. The graph library has several thousand.
const MAX_DEFINED: u64 = 1 << 16;
const MAX_NAME_LEN: u64 = 4 << 10;
const MAX_RUN_PATH_LEN: u64 = 1 << 20;

const ET_DYN: u64 = 3;
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const PT_TLS: u64 = 7;
const PT_GNU_RELRO: u64 = 0x6474_e552;
const PF_X: u64 = 1;
const DF_1_NODEFLIB: u64 = 0x800;
const STB_GLOBAL: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;

/// The file header.
#[derive(Default)]
struct Header {
    kind: u64,
    machine: u16,
    /// The file offset, number and size of program headers.
    segments: (u64, u64, u64),
    /// The file offset, number and size of section headers.
    sections: (u64, u64, u64),
    section_names: u64,
}

impl Header {
    const LEN: usize = 64;

    fn of(bytes: &[u8; Header::LEN]) -> Header {
        Header {
            kind: number(bytes, 16..18),
            machine: machine(bytes),
            segments: (number(bytes, 32..40), number(bytes, 56..58), number(bytes, 54..56)),
            sections: (number(bytes, 40..48), number(bytes, 60..62), number(bytes, 58..60)),
            section_names: number(bytes, 62..64),
        }
    }
}

/// A program header.
struct Segment {
    kind: u64,
    flags: u64,
    offset: u64,
    address: u64,
    file_len: u64,
    memory_len: u64,
}

impl Segment {
    const LEN: u64 = 56;

    fn of(bytes: &[u8]) -> Segment {
        Segment {
            kind: number(bytes, 0..4),
            flags: number(bytes, 4..8),
            offset: number(bytes, 8..16),
            address: number(bytes, 16..24),
            file_len: number(bytes, 32..40),
            memory_len: number(bytes, 40..48),
        }
    }

    /// Returns the range of the file.
    fn range(&self) -> Option<Range<u64>> {
        Some(self.offset..self.offset.checked_add(self.file_len)?)
    }
}

/// A dynamic symbol.
struct Sym {
    name: u64,
    info: u8,
    is_undefined: bool,
    address: u64,
}

impl Sym {
    const LEN: u64 = 24;

    fn of(bytes: &[u8]) -> Sym {
        Sym {
            name: number(bytes, 0..4),
            info: number(bytes, 4..5) as u8,
            is_undefined: number(bytes, 6..8) == 0,
            address: number(bytes, 8..16),
        }
    }

    fn binding(&self) -> u8 {
        self.info >> 4
    }

    fn kind(&self) -> u8 {
        self.info & 0xf
    }
}

/// A library or program with parsed headers.
pub(super) struct Elf<'a> {
    data: Data<'a>,
    header: Header,
    segments: Vec<Segment>,
    dynamic: Dynamic,
}

impl<'a> Elf<'a> {
    /// Reads the headers of a library. For a different processor, reading stops early.
    pub(super) fn read(data: Data<'a>, wanted: Option<Architecture>) -> Result<Self, ProbeError> {
        let header = header(data, wanted)?;
        if header.kind != ET_DYN {
            return Err(malformed("it is an ELF file, but not a shared library"));
        }
        Elf::with(header, data)
    }

    /// Reads the headers of a library or program. A program may be position-dependent and usually has no `DT_SONAME`.
    pub(super) fn read_any(data: Data<'a>) -> Result<Self, ProbeError> {
        Elf::with(header(data, Some(Architecture::HOST))?, data)
    }

    fn with(header: Header, data: Data<'a>) -> Result<Self, ProbeError> {
        let segments = segments(&header, data)?;
        let dynamic = Dynamic::read(&segments, data)?;
        Ok(Elf { data, header, segments, dynamic })
    }

    /// Reads the information that ld.so uses.
    pub(super) fn links(&self) -> Result<Links, ProbeError> {
        let run_path = |offset: Option<u64>| offset.map(|offset| self.run_path(offset)).transpose();
        let soname = self.dynamic.soname.map(|offset| self.text(offset)).transpose()?;
        Ok(Links {
            soname,
            needed: self.needed()?,
            rpath: run_path(self.dynamic.rpath)?,
            runpath: run_path(self.dynamic.runpath)?,
            no_default_dirs: self.dynamic.flags & DF_1_NODEFLIB != 0,
        })
    }

    fn needed(&self) -> Result<Vec<String>, ProbeError> {
        self.dynamic.needed.iter().map(|offset| self.text(*offset)).collect()
    }

    /// Returns undefined symbols with this text in the name. cuDNN libraries use up to 170 symbols of other cuDNN
    /// libraries, with up to 220 characters.
    pub(super) fn undefined(&self, text: &str) -> Vec<String> {
        let Some(symbols) = self.dynamic.symbols else { return Vec::new() };
        // The hash table contains the index of the first defined symbol. Undefined symbols come before it.
        let first = self.hash_word(1).unwrap_or(0).min(MAX_UNDEFINED);
        let symbols = self.data.bytes(symbols, u64::from(first) * Sym::LEN).unwrap_or_default();
        let mut names = Vec::new();
        for symbol in symbols.chunks_exact(Sym::LEN as usize).map(Sym::of) {
            if names.len() == MAX_SYMBOLS || !symbol.is_undefined || symbol.binding() != STB_GLOBAL {
                continue;
            }
            let name = self.name(symbol.name).and_then(|name| String::from_utf8(name).ok());
            names.extend(name.filter(|name| name.len() <= MAX_SYMBOL_LEN && name.contains(text)));
        }
        names
    }

    /// Detects symbols that do not match the hash table, and names that a compiler would not generate.
    pub(super) fn damaged_symbols(&self) -> Option<ProbeError> {
        let is_name = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$@".contains(&byte));
        let is_damaged = !self.undefined("").iter().all(is_name) || self.is_hash_table_sound() == Some(false);
        is_damaged.then(|| malformed("the symbol table does not match the hash table"))
    }

    /// Returns a name from the string table.
    fn name(&self, offset: u64) -> Option<Vec<u8>> {
        self.string(offset, MAX_NAME_LEN)
    }

    fn string(&self, offset: u64, max_len: u64) -> Option<Vec<u8>> {
        let Dynamic { strings, strings_length, .. } = self.dynamic;
        let start = strings.checked_add(offset)?;
        self.data.text(start..strings.saturating_add(strings_length).min(start.saturating_add(max_len)))
    }

    fn text(&self, offset: u64) -> Result<String, ProbeError> {
        let name = self.name(offset).ok_or_else(outside_of_strings)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    fn run_path(&self, offset: u64) -> Result<OsString, ProbeError> {
        let path = self.string(offset, MAX_RUN_PATH_LEN).ok_or_else(outside_of_strings)?;
        Ok(path_from_bytes(&path).into_os_string())
    }

    /// Returns a 32-bit word from the hash table.
    fn hash_word(&self, index: u64) -> Option<u32> {
        self.data.array(self.dynamic.hash?.checked_add(index.checked_mul(4)?)?).map(u32::from_le_bytes)
    }

    /// Returns a symbol of the symbol table.
    fn symbol(&self, index: u64) -> Option<Sym> {
        let offset = self.dynamic.symbols?.checked_add(index.checked_mul(Sym::LEN)?)?;
        Some(Sym::of(&self.data.array::<{ Sym::LEN as usize }>(offset)?))
    }

    /// Returns whether all hashes match the symbol names, or `None` if the hash table is missing or unreadable.
    fn is_hash_table_sound(&self) -> Option<bool> {
        self.for_each_defined(|hash, _, name| name.is_some_and(|name| gnu_hash(&name) | 1 == hash | 1))
    }

    /// Visits all symbols in the hash table, which are the symbols that the library defines. `visit` receives the
    /// stored hash, the symbol and the name. Returns `false` if `visit` returns `false` or the table is damaged, and
    /// `None` if the table is missing or unreadable.
    fn for_each_defined(&self, mut visit: impl FnMut(u32, &Sym, Option<Vec<u8>>) -> bool) -> Option<bool> {
        self.dynamic.symbols?;
        let word = |index| self.hash_word(index);
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
                let Some(symbol) = self.symbol(index) else { return Some(false) };
                if !visit(entry, &symbol, self.name(symbol.name)) {
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
    fn address_of(&self, name: &[u8]) -> Option<u64> {
        let word = |index| self.hash_word(index);
        let (buckets, first, bloom) = (word(0)?, word(1)?, u64::from(word(2)?));
        let hash = gnu_hash(name);
        // The header is followed by 64-bit bloom filter words, the buckets, and the chains.
        let bucket = 4 + 2 * bloom + u64::from(hash.checked_rem(buckets)?);
        let start = word(bucket)?;
        let chains = 4 + 2 * bloom + u64::from(buckets);
        for index in (u64::from(start)..).take(usize::try_from(MAX_HASH_CHAIN).ok()?) {
            let entry = word(chains + index.checked_sub(u64::from(first))?)?;
            // The lowest bit marks the end of the chain.
            if entry | 1 == hash | 1 {
                let symbol = self.symbol(index)?;
                if is_text(self.data, self.dynamic.strings.checked_add(symbol.name)?, name) {
                    return Some(symbol.address);
                }
            }
            if entry & 1 == 1 {
                break;
            }
        }
        None
    }
}

impl Format for Elf<'_> {
    fn os(&self) -> Os {
        Os::Linux
    }

    fn data(&self) -> &FileData {
        self.data
    }

    fn contents(&self) -> Result<TableNames, ProbeError> {
        let dynamic = &self.dynamic;
        if dynamic.is_absent {
            return Err(malformed("the dynamic section is missing"));
        }
        let name = dynamic.soname.ok_or_else(|| malformed("it has no DT_SONAME"))?;
        // ld.so ignores DT_RPATH if DT_RUNPATH is present.
        let run_path = dynamic.runpath.or(dynamic.rpath).map(|offset| self.run_path(offset)).transpose()?;
        Ok(TableNames { name: self.text(name)?, needed: self.needed()?, run_path })
    }

    fn architecture(&self) -> Architecture {
        Architecture::from_elf_machine(self.header.machine)
    }

    fn read_symbol(&self, name: &str) -> Option<[u8; 4]> {
        let address = self.address_of(name.as_bytes())?;
        self.data.array(offset_of(&self.segments, address)?)
    }

    fn defines(&self, function: &str) -> bool {
        self.address_of(function.as_bytes()).is_some()
    }

    fn resource_version(&self) -> Option<Version> {
        None
    }

    fn gpu_code(&self) -> Option<Range<u64>> {
        section_named(&self.header, self.data, ".nv_fatbin")
    }
}

/// Questions of tools.
#[cfg(feature = "inspect")]
impl Elf<'_> {
    /// Returns the versions of symbols that this file requires from the library with this name, such as
    /// `GLIBCXX_3.4.30`. ld.so refuses to load the file without them.
    pub(super) fn needed_versions(&self, library: &str) -> Vec<String> {
        const DT_VERNEED: u64 = 0x6fff_fffe;
        const WEAK: u64 = 2;
        let libraries = self.version_table::<16>(self.dynamic_offset(DT_VERNEED), 12..16);
        let is_it = |(_, entry): &(u64, [u8; 16])| self.version_name(number(entry, 4..8)).as_deref() == Some(library);
        let versions = libraries
            .into_iter()
            .filter(is_it)
            .flat_map(|(at, entry)| self.version_table::<16>(at.checked_add(number(&entry, 8..12)), 12..16));
        let required = versions.filter(|(_, version)| number(version, 4..6) & WEAK == 0);
        required.filter_map(|(_, version)| self.version_name(number(&version, 8..12))).collect()
    }

    /// Returns the versions of symbols that this library defines. Empty for a library without versions, which ld.so
    /// accepts for any.
    pub(super) fn defined_versions(&self) -> Vec<String> {
        const DT_VERDEF: u64 = 0x6fff_fffc;
        let versions = self.version_table::<20>(self.dynamic_offset(DT_VERDEF), 16..20);
        let name = |(at, entry): (u64, [u8; 20])| {
            let name: [u8; 4] = self.data.array(at.checked_add(number(&entry, 12..16))?)?;
            self.version_name(number(&name, 0..4))
        };
        versions.into_iter().filter_map(name).collect()
    }

    /// Returns the entries of a table of versions with their file offsets. Each entry contains the distance to the next
    /// one in these bytes, or 0.
    fn version_table<const LEN: usize>(&self, start: Option<u64>, distance: Range<usize>) -> Vec<(u64, [u8; LEN])> {
        let mut entries: Vec<(u64, [u8; LEN])> = Vec::new();
        let mut next = start;
        while let Some(at) = next.filter(|_| entries.len() < MAX_VERSIONS) {
            let Some(entry) = self.data.array(at) else { break };
            let step = number(&entry, distance.clone());
            entries.push((at, entry));
            next = at.checked_add(step).filter(|_| step > 0);
        }
        entries
    }

    fn version_name(&self, offset: u64) -> Option<String> {
        String::from_utf8(self.name(offset)?).ok()
    }

    /// Returns the file offset of the address in the dynamic entry with this tag.
    fn dynamic_offset(&self, tag: u64) -> Option<u64> {
        const ENTRY_LEN: u64 = 16;
        let segment = self.segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
        let count = (segment.file_len / ENTRY_LEN).min(MAX_DYNAMIC_ENTRIES);
        let entries = self.data.bytes(segment.offset, count * ENTRY_LEN)?;
        let mut entries = entries.chunks_exact(ENTRY_LEN as usize);
        offset_of(&self.segments, number(entries.find(|entry| number(entry, 0..8) == tag)?, 8..16))
    }

    /// Returns the program interpreter, usually ld.so. Libraries do not have one.
    pub(super) fn interpreter(&self) -> Option<std::path::PathBuf> {
        let segment = self.segments.iter().find(|segment| segment.kind == PT_INTERP)?;
        let text = self.data.bytes(segment.offset, segment.file_len.min(MAX_NAME_LEN))?;
        Some(path_from_bytes(text.split(|byte| *byte == 0).next()?))
    }

    /// Returns the names of exported functions with this prefix.
    pub(super) fn functions(&self, prefix: &str) -> Result<Vec<String>, ProbeError> {
        let mut names = Vec::new();
        let visited = self.for_each_defined(|_, symbol, name| {
            let is_function = [STT_FUNC, STT_GNU_IFUNC].contains(&symbol.kind());
            let name = name.filter(|name| is_function && name.len() <= MAX_SYMBOL_LEN);
            names.extend(name.and_then(|name| String::from_utf8(name).ok()).filter(|name| name.starts_with(prefix)));
            names.len() < MAX_FUNCTIONS
        });
        match visited {
            Some(true) => Ok(names),
            Some(false) if names.len() >= MAX_FUNCTIONS => Ok(names),
            _ => Err(malformed("the symbol hash table cannot be read")),
        }
    }

    /// Returns the loaded parts of the file, starting with those without machine code.
    pub(super) fn loaded_parts(&self) -> Vec<Range<u64>> {
        let mut loads: Vec<&Segment> = self.segments.iter().filter(|segment| segment.kind == PT_LOAD).collect();
        loads.sort_by_key(|load| load.flags & PF_X == PF_X);
        loads.into_iter().filter_map(Segment::range).collect()
    }
}

fn header(data: Data<'_>, wanted: Option<Architecture>) -> Result<Header, ProbeError> {
    let truncated = || data.truncated(Header::LEN as u64);
    let ident: [u8; 20] = data.array(0).ok_or_else(truncated)?;
    if (ident.get(4), ident.get(5)) != (Some(&2), Some(&1)) {
        // For 32-bit or big-endian files, only the machine type can be read.
        let wanted = wanted.unwrap_or(Architecture::HOST);
        return Err(ProbeError::WrongArchitecture { found: Architecture::from_elf_machine(machine(&ident)), wanted });
    }
    let header = Header::of(&data.array(0).ok_or_else(truncated)?);
    let found = Architecture::from_elf_machine(header.machine);
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        return Err(ProbeError::WrongArchitecture { found, wanted });
    }
    Ok(header)
}

/// Returns the processor number in a file header.
fn machine(header: &[u8]) -> u16 {
    number(header, 18..20) as u16
}

/// Returns the segments after checking that the file has the length that the headers require.
fn segments(header: &Header, data: Data<'_>) -> Result<Vec<Segment>, ProbeError> {
    let end = |(start, count, size): (u64, u64, u64)| start.saturating_add(count * size);
    let mut expected_len = end(header.segments).max(end(header.sections));
    let mut segments = Vec::new();
    if expected_len <= data.length() {
        let (start, count, size) = header.segments;
        if size != Segment::LEN || count * size > MAX_TABLE_LEN {
            return Err(malformed("the program headers have an invalid size"));
        }
        let table = data.bytes(start, count * size).ok_or_else(|| malformed("the program headers cannot be read"))?;
        segments = table.chunks_exact(Segment::LEN as usize).map(Segment::of).collect();
        for segment in segments.iter().filter(|segment| segment.kind == PT_LOAD) {
            expected_len = expected_len.max(segment.offset.saturating_add(segment.file_len));
        }
    }
    if expected_len > data.length() {
        return Err(data.truncated(expected_len));
    }
    // ld.so writes to these segments without checks and would crash.
    let is_used = |segment: &&Segment| [PT_TLS, PT_GNU_RELRO].contains(&segment.kind);
    if segments.iter().filter(is_used).all(|segment| is_loaded(&segments, segment)) {
        Ok(segments)
    } else {
        Err(malformed("a program header points outside of the loaded segments"))
    }
}

/// Returns whether ld.so maps this part. Zero-initialized thread-local variables do not occupy space.
fn is_loaded(segments: &[Segment], part: &Segment) -> bool {
    const MAX_PAGE_LEN: u64 = 64 << 10;
    let len = if part.kind == PT_TLS { part.file_len } else { part.memory_len };
    segments.iter().filter(|segment| segment.kind == PT_LOAD).any(|load| {
        let end = load.address.checked_add(load.memory_len);
        let end = end.and_then(|end| end.checked_next_multiple_of(MAX_PAGE_LEN));
        load.address <= part.address && part.address.checked_add(len).zip(end).is_some_and(|(part, load)| part <= load)
    })
}

/// Returns the file offset of an address in the loaded library.
fn offset_of(segments: &[Segment], address: u64) -> Option<u64> {
    segments.iter().filter(|segment| segment.kind == PT_LOAD).find_map(|segment| {
        let inside = address.checked_sub(segment.address)?;
        (inside < segment.file_len).then(|| segment.offset.checked_add(inside))?
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
        const ENTRY_LEN: u64 = 16;
        let segment = segments.iter().find(|segment| segment.kind == PT_DYNAMIC);
        // The program is statically linked.
        let Some(segment) = segment else { return Ok(Dynamic { is_absent: true, ..Dynamic::default() }) };
        let count = (segment.file_len / ENTRY_LEN).min(MAX_DYNAMIC_ENTRIES);
        let entries = data
            .bytes(segment.offset, count * ENTRY_LEN)
            .ok_or_else(|| malformed("the dynamic section cannot be read"))?;
        let mut dynamic = Dynamic::default();
        let mut strings = None;
        for entry in entries.chunks_exact(ENTRY_LEN as usize) {
            let value = number(entry, 8..16);
            match number(entry, 0..8) {
                0 => break,
                // DT_STRTAB, DT_STRSZ, DT_SYMTAB, DT_GNU_HASH
                5 => strings = offset_of(segments, value),
                10 => dynamic.strings_length = value,
                6 => dynamic.symbols = offset_of(segments, value),
                0x6fff_fef5 => dynamic.hash = offset_of(segments, value),
                // DT_SONAME, DT_NEEDED, DT_RUNPATH, DT_RPATH, DT_FLAGS_1
                14 => dynamic.soname = Some(value),
                1 => dynamic.needed.push(value),
                29 => dynamic.runpath = Some(value),
                15 => dynamic.rpath = Some(value),
                0x6fff_fffb => dynamic.flags = value,
                _ => {}
            }
        }
        dynamic.strings = strings.ok_or_else(|| malformed("the string table of the dynamic section is missing"))?;
        Ok(dynamic)
    }
}

/// Returns whether the file contains this text at this offset, followed by a zero.
fn is_text(data: Data<'_>, offset: u64, text: &[u8]) -> bool {
    let found = data.bytes(offset, text.len() as u64 + 1).unwrap_or_default();
    found.strip_suffix(b"\0") == Some(text)
}

/// Returns the hash of a name in a hash table of type `DT_GNU_HASH`.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()))
}

fn outside_of_strings() -> ProbeError {
    malformed("a name is outside of the string table")
}

/// Returns the range of a section. Section headers may be missing.
fn section_named(header: &Header, data: Data<'_>, name: &str) -> Option<Range<u64>> {
    const LEN: u64 = 64;
    // A count of zero means that the real count is stored elsewhere and is unbounded.
    let (start, count, size) = header.sections;
    if count == 0 || size != LEN || count * size > MAX_TABLE_LEN {
        return None;
    }
    let table = data.bytes(start, count * size)?;
    let range = |section: &[u8]| {
        let start = number(section, 24..32);
        Some(start..start.checked_add(number(section, 32..40))?)
    };
    let sections = || table.chunks_exact(LEN as usize);
    let names = range(sections().nth(header.section_names as usize)?)?;
    let mut sections = sections();
    let section = sections.find(|section| {
        let start = names.start.saturating_add(number(section, 0..4));
        start.saturating_add(name.len() as u64) < names.end && is_text(data, start, name.as_bytes())
    });
    range(section?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::file_data::tests::file_of;
    use super::*;

    /// Verifies that an entry with the lowest bit ends a chain like in ld.so, and that later entries belong to another
    /// bucket.
    #[test]
    #[cfg_attr(miri, ignore = "the test needs a file")]
    fn the_lowest_bit_of_a_hash_ends_its_chain() {
        const STRINGS: &[u8] = b"\0first\0second\0";
        let hash = |name: &[u8], is_last: bool| gnu_hash(name) & !1 | u32::from(is_last);
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
            let data = file_of(&bytes);
            let dynamic = Dynamic {
                strings_length: STRINGS.len() as u64,
                symbols: Some(16),
                hash: Some(table),
                ..Dynamic::default()
            };
            let elf = Elf { data: &data, header: Header::default(), segments: Vec::new(), dynamic };
            let case = format!("{ends} {}", String::from_utf8_lossy(second));
            let is_found = [&b"first"[..], b"second"].map(|name| elf.address_of(name).is_some());
            assert_eq!(is_found, found, "{case}");
            assert_eq!(elf.is_hash_table_sound(), Some(is_sound), "{case}");
            assert_eq!(elf.address_of(b"first"), Some(0x100), "{case}");
        }
    }
}
