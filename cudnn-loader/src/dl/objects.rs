//! ld.so's list of loaded objects, read once, with the names in each object's dynamic section.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::{Handle, leak};
use crate::thread::fork::NotBesideFork;

/// A library that the process has loaded, no matter who loaded it.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    pub(crate) handle: Handle,
    /// The file, as ld.so found it; absolute.
    pub(crate) path: PathBuf,
}

/// A snapshot of ld.so's list, in loading order.
pub(crate) struct LoadedObjects(Vec<Entry>);

impl LoadedObjects {
    /// Reads the list now.
    pub(crate) fn snapshot() -> LoadedObjects {
        LoadedObjects(read_list())
    }

    /// The loaded library with this soname, which ld.so returns to every `dlopen` of the name.
    pub(crate) fn find(&self, soname: &str) -> Option<LoadedObject> {
        // The list comes first, because opening a name that is not loaded would search hundreds of directories.
        let listed = self.0.iter().find(|entry| entry.has_soname(soname))?;
        // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
        let library = unsafe { Library::open(Some(soname), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) }.ok()?;
        Some(LoadedObject { handle: leak(library), path: absolute(listed.path.clone()) })
    }

    /// Whether a library with this soname is loaded.
    pub(crate) fn contains(&self, soname: &str) -> bool {
        self.0.iter().any(|entry| entry.has_soname(soname))
    }

    /// The file of NVIDIA's shim, if the process has loaded it: a library with the shim's soname that is not the
    /// drop-in.
    pub(crate) fn nvidia_shim(&self, soname: &str) -> Option<PathBuf> {
        let containing = containing_base();
        let is_nvidias =
            |entry: &&Entry| entry.has_soname(soname) && Some(entry.base) != containing && !is_drop_in(&entry.path);
        self.0.iter().find(is_nvidias).map(|entry| absolute(entry.path.clone()))
    }

    /// The file of the shared library that contains this code; `None` if the program itself contains it.
    pub(crate) fn containing_library(&self) -> Option<PathBuf> {
        let containing = containing_base()?;
        let listed = self.0.iter().find(|entry| entry.base == containing)?;
        (!listed.path.as_os_str().is_empty()).then(|| absolute(listed.path.clone()))
    }

    /// Whether a loaded object lists this name as a dependency (`DT_NEEDED`).
    pub(crate) fn any_needs(&self, soname: &str) -> bool {
        self.0.iter().any(|entry| entry.needs(soname))
    }

    /// The run paths of all loaded objects.
    pub(crate) fn run_paths(self, soname: &str) -> Vec<RunPath> {
        let run_path = |entry: Entry| {
            let needs_soname = entry.needs(soname);
            Some(RunPath { object: entry.path, dirs: entry.strings.run_path?, needs_soname })
        };
        self.0.into_iter().filter_map(run_path).collect()
    }
}

/// The directories that a loaded object asks ld.so to search: `DT_RUNPATH`, or `DT_RPATH`.
#[derive(Debug)]
pub(crate) struct RunPath {
    /// The object's file; empty for the program itself.
    pub(crate) object: PathBuf,
    /// The unexpanded text: directories separated by colons, with tokens like `$ORIGIN`.
    pub(crate) dirs: Vec<u8>,
    /// Whether the object lists the soname that the caller asked about as a dependency.
    pub(crate) needs_soname: bool,
}

/// Whether this loaded library is the drop-in, perhaps another copy of it.
fn is_drop_in(path: &Path) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) };
    // SAFETY: the symbol is not called.
    library.is_ok_and(|library| unsafe { library.get::<*const c_void>(b"cudnnShimGetVersion\0") }.is_ok())
}

/// The load address of the object that contains this code.
fn containing_base() -> Option<usize> {
    // SAFETY: a structure of pointers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is this function's, and the answer has room.
    let found = unsafe { libc::dladdr(containing_base as *const c_void, &raw mut info) };
    (found != 0).then(|| info.dli_fbase.expose_provenance())
}

/// One object of the list.
struct Entry {
    path: PathBuf,
    /// The load address.
    base: usize,
    strings: DynamicStrings,
}

impl Entry {
    fn has_soname(&self, soname: &str) -> bool {
        self.strings.soname == soname.as_bytes()
    }

    fn needs(&self, soname: &str) -> bool {
        self.strings.needed.iter().any(|name| name == soname.as_bytes())
    }
}

/// The names in an object's dynamic section, in bytes.
#[derive(Default)]
struct DynamicStrings {
    /// `DT_SONAME`; empty if the object has none.
    soname: Vec<u8>,
    needed: Vec<Vec<u8>>,
    /// `DT_RUNPATH`, or `DT_RPATH` if there is none.
    run_path: Option<Vec<u8>>,
}

fn read_list() -> Vec<Entry> {
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
            list.push(Entry { path, base: info.dlpi_addr as usize, strings });
        }
        0
    }
    let mut list = Vec::new();
    let _guard = NotBesideFork::new();
    // SAFETY: the callback keeps no pointer and calls nothing in ld.so.
    unsafe { libc::dl_iterate_phdr(Some(push), (&raw mut list).cast()) };
    list
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
fn absolute(path: PathBuf) -> PathBuf {
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
