//! Reads a loaded library in memory: the names in its dynamic section, and the symbols that it exports itself.
//!
//! The file may have been renamed or replaced since the library was loaded. Unlike `dlsym`, reading memory needs no
//! lock of ld.so, and other libraries cannot intercept it.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

#[cfg(target_pointer_width = "32")]
use libc::{Elf32_Phdr as Phdr, Elf32_Sym as Sym};
#[cfg(target_pointer_width = "64")]
use libc::{Elf64_Phdr as Phdr, Elf64_Sym as Sym};

// Tags of the dynamic section (System V ABI, and GNU's extensions).
pub(super) const DT_NEEDED: usize = 1;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
pub(super) const DT_SONAME: usize = 14;
pub(super) const DT_RPATH: usize = 15;
pub(super) const DT_RUNPATH: usize = 29;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;

/// A library that this process has loaded, and that stays loaded while this value is in use.
#[derive(Clone, Copy)]
pub struct Library {
    base: usize,
    headers: &'static [Phdr],
}

impl Library {
    /// # Safety
    /// `info` comes from `dl_iterate_phdr`, and the object stays loaded while the result is in use.
    pub(super) unsafe fn new(info: &libc::dl_phdr_info) -> Self {
        let count = if info.dlpi_phdr.is_null() { 0 } else { info.dlpi_phnum.into() };
        // SAFETY: ld.so stores this number of program headers at this address while the object is loaded.
        let headers = if count == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(info.dlpi_phdr, count) } };
        Library { base: info.dlpi_addr as usize, headers }
    }

    pub(super) fn base(&self) -> usize {
        self.base
    }

    /// Returns the addresses from the first segment to the end of the last one.
    pub(super) fn range(&self) -> Range<usize> {
        let loaded = || self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let start = |header: &Phdr| self.base.wrapping_add(header.p_vaddr as usize);
        let end = |header: &Phdr| start(header).wrapping_add(header.p_memsz as usize);
        loaded().map(start).min().unwrap_or(0)..loaded().map(end).max().unwrap_or(0)
    }

    /// Returns the number of bytes from this address to the end of the segment that contains it.
    fn rest_of(&self, header: &Phdr, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base).wrapping_sub(header.p_vaddr as usize);
        if header.p_type == libc::PT_LOAD { (header.p_memsz as usize).checked_sub(offset) } else { None }
    }

    /// Reads a value, if a readable segment contains all of it.
    fn read<T: Copy>(&self, address: usize) -> Option<T> {
        let is_inside = |header: &Phdr| {
            let is_readable = header.p_flags & libc::PF_R != 0;
            is_readable && self.rest_of(header, address).is_some_and(|rest| rest >= size_of::<T>())
        };
        // SAFETY: the segment is mapped while the object is loaded, and callers read only types without invalid values.
        self.headers.iter().any(is_inside).then(|| unsafe { with_exposed_provenance::<T>(address).read_unaligned() })
    }

    /// Returns the tags and values of the dynamic section.
    pub(super) fn dynamic(&self) -> impl Iterator<Item = (usize, usize)> {
        let section = self.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        let mut next = section.map_or(0, |header| self.base.wrapping_add(header.p_vaddr as usize));
        std::iter::from_fn(move || {
            let [tag, value] = self.read::<[usize; 2]>(next).filter(|[tag, _]| *tag != 0)?;
            next = next.wrapping_add(size_of::<[usize; 2]>());
            Some((tag, value))
        })
    }

    pub(super) fn value(&self, wanted: usize) -> Option<usize> {
        self.dynamic().find_map(|(tag, value)| (tag == wanted).then_some(value))
    }

    /// Returns the address of a table. glibc makes these addresses absolute, but musl and the vDSO do not.
    fn address(&self, tag: usize) -> Option<usize> {
        self.value(tag).map(|value| if value < self.base { self.base.wrapping_add(value) } else { value })
    }

    /// Returns a name in the string table.
    ///
    /// # Safety
    /// The offset comes from the dynamic section.
    pub(super) unsafe fn text(&self, offset: usize) -> &[u8] {
        let Some(strings) = self.address(DT_STRTAB) else { return &[] };
        // SAFETY: the string table is mapped, and all strings end in NUL.
        unsafe { CStr::from_ptr(with_exposed_provenance(strings.wrapping_add(offset))) }.to_bytes()
    }

    /// Returns the address of the function or data that the library itself exports under this name, in its default
    /// version. Does not find functions that code selects at run time (`STT_GNU_IFUNC`) or thread-local data.
    pub fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        const DEFINED_KINDS: u8 = 2; // STT_NOTYPE, STT_OBJECT and STT_FUNC
        const IS_HIDDEN: u16 = 1 << 15;
        let (symbols, strings) = (self.address(DT_SYMTAB)?, self.address(DT_STRTAB)?);
        let versions = self.address(DT_VERSYM);
        let at = |index: u32, size: usize| (index as usize).wrapping_mul(size);
        let has_name = |offset: u32| {
            let start = strings.wrapping_add(offset as usize);
            let mut bytes = name.to_bytes_with_nul().iter().enumerate();
            bytes.all(|(number, byte)| self.read(start.wrapping_add(number)) == Some(*byte))
        };
        let exported = |index: u32| {
            let symbol: Sym = self.read(symbols.wrapping_add(at(index, size_of::<Sym>())))?;
            // Version 0 is local to the object.
            let is_default = versions.is_none_or(|versions| {
                let version: Option<u16> = self.read(versions.wrapping_add(at(index, 2)));
                version.is_some_and(|version| version != 0 && version & IS_HIDDEN == 0)
            });
            let (kind, binding) = (symbol.st_info & 15, symbol.st_info >> 4);
            let is_exported = symbol.st_shndx != 0 && kind <= DEFINED_KINDS && binding != 0 && is_default;
            let address = self.base.wrapping_add(symbol.st_value as usize);
            (is_exported && has_name(symbol.st_name)).then(|| with_exposed_provenance_mut(address))
        };
        match self.address(DT_GNU_HASH) {
            Some(table) => self.find_gnu(table, gnu_hash(name), exported),
            None => self.find_system_v(self.address(DT_HASH)?, system_v_hash(name), exported),
        }
    }

    /// Returns the other library that contains an address from [`Library::symbol`]. Always `None`, because the address
    /// comes from the library's own table.
    pub fn other_owner(self, _address: *const c_void) -> Option<PathBuf> {
        None
    }

    /// Tries all symbols with this hash in a table of `DT_GNU_HASH`.
    fn find_gnu<T>(&self, table: usize, hash: u32, found: impl Fn(u32) -> Option<T>) -> Option<T> {
        let [count, first, filter_words, _] = self.read::<[u32; 4]>(table)?;
        let word = |table: usize, number: u32| self.read::<u32>(table.wrapping_add(number as usize * size_of::<u32>()));
        let buckets = table.wrapping_add(16 + filter_words as usize * size_of::<usize>());
        let chains = buckets.wrapping_add(count as usize * size_of::<u32>());
        let mut index = word(buckets, hash.checked_rem(count)?)?;
        loop {
            let chained = word(chains, index.checked_sub(first)?)?;
            // The lowest bit marks the end of the chain.
            if chained | 1 == hash | 1
                && let Some(found) = found(index)
            {
                return Some(found);
            }
            index = if chained & 1 == 0 { index.checked_add(1)? } else { return None };
        }
    }

    /// Tries all symbols with this hash in a table of `DT_HASH`.
    fn find_system_v<T>(&self, table: usize, hash: u32, found: impl Fn(u32) -> Option<T>) -> Option<T> {
        let word = |number: usize| self.read::<u32>(table.wrapping_add(number.wrapping_mul(size_of::<u32>())));
        let (buckets, symbols) = (word(0)?, word(1)?);
        let mut index = word(2 + hash.checked_rem(buckets)? as usize)?;
        // Damaged chains may be circular.
        for _ in 0..symbols {
            if index == 0 {
                return None;
            }
            if let Some(found) = found(index) {
                return Some(found);
            }
            index = word(2 + buckets as usize + index as usize)?;
        }
        None
    }
}

impl PartialEq for Library {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base
    }
}

impl Eq for Library {}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({:#x})", self.base)
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()))
}

fn system_v_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add((*byte).into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}
