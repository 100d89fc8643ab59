//! ld.so's list of loaded objects, with the names in each object's dynamic section.

use std::ffi::{CStr, OsStr, OsString, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The load address of the object that contains this code.
pub(crate) fn containing_base() -> Option<usize> {
    // SAFETY: a structure of pointers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is this function's, and the answer has room.
    let found = unsafe { libc::dladdr(containing_base as *const c_void, &raw mut info) };
    (found != 0).then(|| info.dli_fbase.expose_provenance())
}

/// One object of the list.
pub(crate) struct Entry {
    /// The file, as ld.so found it; empty for the program itself.
    pub(crate) path: PathBuf,
    /// The load address.
    pub(crate) base: usize,
    /// `DT_RUNPATH`, or `DT_RPATH` if there is none.
    pub(crate) run_path: Option<OsString>,
    /// `DT_SONAME`; empty if the object has none.
    soname: Vec<u8>,
    needed: Vec<Vec<u8>>,
}

impl Entry {
    /// Whether ld.so takes this object for the library of this name.
    pub(crate) fn has_name(&self, soname: &str) -> bool {
        self.soname == soname.as_bytes()
    }

    /// Whether the object lists the name as a dependency.
    pub(crate) fn needs(&self, soname: &str) -> bool {
        self.needed.iter().any(|name| name == soname.as_bytes())
    }

    pub(crate) fn is_program(&self) -> bool {
        self.path.as_os_str().is_empty()
    }
}

/// The names in an object's dynamic section, in bytes.
#[derive(Default)]
struct DynamicStrings {
    soname: Vec<u8>,
    needed: Vec<Vec<u8>>,
    run_path: Option<Vec<u8>>,
}

/// The list now, in loading order. No thread forks meanwhile.
pub(crate) fn read_list() -> Vec<Entry> {
    unsafe extern "C" fn push(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
        // SAFETY: `read_list` passes its vector, and does not use it meanwhile.
        let list = unsafe { &mut *list.cast::<Vec<Entry>>() };
        // SAFETY: ld.so passes a structure that describes a loaded object.
        let info = unsafe { &*info };
        if !info.dlpi_name.is_null() {
            // SAFETY: the name ends in NUL, and stays as long as the object is listed.
            let path = to_path(unsafe { CStr::from_ptr(info.dlpi_name) });
            // The kernel's part of the process, which ld.so searches nothing for.
            if path.as_os_str().as_bytes().starts_with(b"linux-vdso") {
                return 0;
            }
            // SAFETY: `info` comes from ld.so.
            let strings = unsafe { dynamic_strings(info) }.unwrap_or_default();
            let DynamicStrings { soname, needed, run_path } = strings;
            let run_path = run_path.map(OsString::from_vec);
            list.push(Entry { path, base: info.dlpi_addr as usize, run_path, soname, needed });
        }
        0
    }
    let mut list = Vec::new();
    // SAFETY: the callback keeps no pointer and calls nothing in ld.so.
    unsafe { libc::dl_iterate_phdr(Some(push), (&raw mut list).cast()) };
    list
}

/// The number of objects that ld.so has ever loaded. No thread forks meanwhile.
pub(crate) fn load_count() -> u64 {
    unsafe extern "C" fn read(info: *mut libc::dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
        // SAFETY: ld.so passes a structure of this type, and `load_count` its number.
        unsafe { *count.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the callback keeps no pointer and calls nothing in ld.so.
    unsafe { libc::dl_iterate_phdr(Some(read), (&raw mut count).cast()) };
    count
}

/// The names in a loaded object's dynamic section.
///
/// Reads the object's memory and not its file, which may have been renamed or replaced since.
///
/// # Safety
/// `info` comes from `dl_iterate_phdr` and describes a loaded object.
unsafe fn dynamic_strings(info: &libc::dl_phdr_info) -> Option<DynamicStrings> {
    /// An entry of the dynamic section (System V ABI).
    #[repr(C)]
    struct Dyn {
        tag: usize,
        value: usize,
    }
    const DT_NEEDED: usize = 1;
    const DT_STRTAB: usize = 5;
    const DT_SONAME: usize = 14;
    const DT_RPATH: usize = 15;
    const DT_RUNPATH: usize = 29;
    // SAFETY: ld.so keeps that many program headers at that address.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr as usize;
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let mut entry = std::ptr::with_exposed_provenance::<Dyn>(base.wrapping_add(dynamic.p_vaddr as usize));
    let (mut strtab, mut soname, mut rpath, mut runpath, mut needed) = (None, None, None, None, Vec::new());
    loop {
        // SAFETY: the dynamic section is mapped, and an entry with tag 0 ends it.
        let Dyn { tag, value } = unsafe { entry.read() };
        match tag {
            0 => break,
            DT_STRTAB => strtab = Some(value),
            DT_SONAME => soname = Some(value),
            DT_RPATH => rpath = Some(value),
            DT_RUNPATH => runpath = Some(value),
            DT_NEEDED => needed.push(value),
            _ => {}
        }
        // SAFETY: this entry was not the last.
        entry = unsafe { entry.add(1) };
    }
    // glibc makes the address absolute when it loads the object; musl, and the kernel's vDSO, do not.
    let strtab = strtab.map(|value| if value < base { base.wrapping_add(value) } else { value })?;
    let text = |offset: usize| {
        let text = std::ptr::with_exposed_provenance(strtab.wrapping_add(offset));
        // SAFETY: the string table is mapped, and each string ends in NUL.
        unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
    };
    Some(DynamicStrings {
        soname: soname.map(text).unwrap_or_default(),
        needed: needed.into_iter().map(text).collect(),
        run_path: runpath.or(rpath).map(text),
    })
}

fn to_path(name: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}

/// The file behind a path in ld.so's list. A relative directory in LD_LIBRARY_PATH gives a path relative to the working
/// directory at the time of loading; then the kernel knows the file.
pub(crate) fn absolute(path: PathBuf) -> PathBuf {
    if path.is_absolute() {
        return path;
    }
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let files = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(line.get(start..)?)))
    });
    let mut same_name = files.filter(|file| path.file_name().is_some() && file.file_name() == path.file_name());
    same_name.next().map(Path::to_owned).unwrap_or(path)
}
