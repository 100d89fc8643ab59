//! The dynamic linker, asked in the few ways that loading needs. The one module that opens libraries; it knows nothing
//! of which to open or why.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A library that this process holds, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: a handle is a token that dlsym takes from any thread; it is never closed.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Opens the library at this absolute path, with all that it needs. On failure, the linker's own words.
pub(crate) fn open(path: &Path) -> Result<Handle, String> {
    // The words are read by this crate too, so they must not be in the user's language.
    let _english = CLocale::set();
    // SAFETY: the library's constructors run. That is what loading cuDNN means: the file has been identified, and the
    // caller of a cuDNN function wants cuDNN's code to run.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(leak).map_err(|error| dlerror_text(&error))
}

/// A library that the process holds, whoever loaded it.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    pub(crate) handle: Handle,
    /// Its file, as the linker found it; absolute.
    pub(crate) path: PathBuf,
}

/// All that is loaded, as the linker listed it once, in the order in which it was.
pub(crate) struct LoadedObjects(Vec<Entry>);

/// What is loaded now.
pub(crate) fn list() -> LoadedObjects {
    LoadedObjects(loaded())
}

impl LoadedObjects {
    /// The library that calls itself by this name and is loaded here, which the linker would give to whoever asks for it.
    pub(crate) fn find(&self, soname: &str) -> Option<LoadedObject> {
        // Looked up in the linker's list first: opening by a name that is not in it would search hundreds of folders.
        let listed = self.0.iter().find(|loaded| loaded.strings.soname == soname.as_bytes())?;
        // SAFETY: RTLD_NOLOAD runs no code: it only looks at what is there.
        let library = unsafe { Library::open(Some(soname), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) }.ok()?;
        Some(LoadedObject { handle: leak(library), path: absolute(listed.path.clone()) })
    }

    /// Is a library that calls itself so loaded here?
    pub(crate) fn contains(&self, soname: &str) -> bool {
        self.0.iter().any(|loaded| loaded.strings.soname == soname.as_bytes())
    }

    /// The file of NVIDIA's shim, if the process has loaded it: a library of its name that is not this code's own.
    pub(crate) fn nvidia_shim(&self, soname: &str) -> Option<PathBuf> {
        let own = containing_base();
        let is_other = |loaded: &&Entry| {
            loaded.strings.soname == soname.as_bytes() && Some(loaded.base) != own && !is_drop_in(&loaded.path)
        };
        self.0.iter().find(is_other).map(|loaded| absolute(loaded.path.clone()))
    }

    /// The file of the shared library that this code is in; none where it is in the program itself.
    pub(crate) fn containing_library(&self) -> Option<PathBuf> {
        let own = containing_base()?;
        let listed = self.0.iter().find(|loaded| loaded.base == own)?;
        (!listed.path.as_os_str().is_empty()).then(|| absolute(listed.path.clone()))
    }

    /// Does anything that is loaded need a library of this name from the start?
    pub(crate) fn needs(&self, soname: &str) -> bool {
        self.0.iter().any(|loaded| loaded.needs(soname))
    }

    /// The run paths of all that is loaded.
    pub(crate) fn run_paths(self, soname: &str) -> Vec<RunPath> {
        let of_one = |loaded: Entry| {
            let needs = loaded.needs(soname);
            Some(RunPath { of: loaded.path, dirs: loaded.strings.run_path?, needs })
        };
        self.0.into_iter().filter_map(of_one).collect()
    }
}

/// Is this loaded library the drop-in, another copy of it perhaps?
fn is_drop_in(path: &Path) -> bool {
    // SAFETY: RTLD_NOLOAD runs no code: it only looks at what is there.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) };
    // SAFETY: nothing is called.
    library.is_ok_and(|library| unsafe { library.get::<*const c_void>(b"cudnnShimGetVersion\0") }.is_ok())
}

/// Where the object that this code is in begins in memory.
fn containing_base() -> Option<usize> {
    // SAFETY: a structure of pointers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer; the address is this function's own.
    let found = unsafe { libc::dladdr(containing_base as *const c_void, &raw mut info) };
    (found != 0).then(|| info.dli_fbase.expose_provenance())
}

/// A loaded object's own folders to search: DT_RPATH or DT_RUNPATH.
#[derive(Debug)]
pub(crate) struct RunPath {
    /// The object's file; empty for the program itself.
    pub(crate) of: PathBuf,
    /// As the object has it: folders with colons between them, `$ORIGIN` in them.
    pub(crate) dirs: Vec<u8>,
    /// Does the object need a library of this name?
    pub(crate) needs: bool,
}

/// Never closed: handles, streams and callbacks outlive any notion of unloading.
fn leak(library: Library) -> Handle {
    Handle(library.into_raw())
}

/// libloading puts the linker's words into its error's source.
pub(crate) fn dlerror_text(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } | libloading::Error::DlSym { source } => source.to_string(),
        other => other.to_string(),
    }
}

/// This thread's messages in English, for as long as the value lives.
struct CLocale {
    own: libc::locale_t,
    before: libc::locale_t,
}

impl CLocale {
    fn set() -> Option<Self> {
        // SAFETY: the name ends in NUL, and no locale is changed: a new one is made.
        let own = unsafe { libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), std::ptr::null_mut()) };
        if own.is_null() {
            return None;
        }
        // SAFETY: the locale is live until `drop`, which takes it from the thread first.
        Some(CLocale { own, before: unsafe { libc::uselocale(own) } })
    }
}

impl Drop for CLocale {
    fn drop(&mut self) {
        // SAFETY: the locale that the thread had before; who made it is still using it.
        unsafe { libc::uselocale(self.before) };
        // SAFETY: made by `set`, and used by nobody any more.
        unsafe { libc::freelocale(self.own) };
    }
}

/// One entry of the linker's list.
struct Entry {
    path: PathBuf,
    /// Where it begins in memory.
    base: usize,
    strings: DynamicStrings,
}

impl Entry {
    fn needs(&self, soname: &str) -> bool {
        self.strings.needed.iter().any(|name| name == soname.as_bytes())
    }
}

/// What an object says of itself and of others by name, in bytes.
#[derive(Default)]
struct DynamicStrings {
    /// The name that it gives itself; empty for what has none.
    soname: Vec<u8>,
    needed: Vec<Vec<u8>>,
    /// DT_RUNPATH, or DT_RPATH where there is none.
    run_path: Option<Vec<u8>>,
}

/// All that is loaded, in the order in which it was.
fn loaded() -> Vec<Entry> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
        // SAFETY: `loaded` passes its own vector, which nobody else uses meanwhile.
        let list = unsafe { &mut *list.cast::<Vec<Entry>>() };
        // SAFETY: the linker passes a structure of its own, which describes a library that is loaded.
        let info = unsafe { &*info };
        if !info.dlpi_name.is_null() {
            // SAFETY: the name ends in NUL, and stays while the linker lists it.
            let path = path(unsafe { CStr::from_ptr(info.dlpi_name) });
            // SAFETY: `info` is the linker's.
            let strings = unsafe { strings(info) }.unwrap_or_default();
            list.push(Entry { path, base: info.dlpi_addr as usize, strings });
        }
        0
    }
    let mut list = Vec::new();
    // SAFETY: the callback keeps nothing and calls nothing of the linker's.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut list).cast()) };
    list
}

/// The names in a loaded object's dynamic section.
///
/// Read from its memory, not from its file: the file may have been renamed or replaced since.
///
/// # Safety
/// `info` is what `dl_iterate_phdr` gives of a loaded library.
unsafe fn strings(info: &libc::dl_phdr_info) -> Option<DynamicStrings> {
    /// An entry of the dynamic section, as the System V ABI has it.
    #[repr(C)]
    struct Entry {
        tag: usize,
        value: usize,
    }
    const NEEDED: usize = 1;
    const STRINGS: usize = 5;
    const SONAME: usize = 14;
    const RPATH: usize = 15;
    const RUNPATH: usize = 29;
    // SAFETY: the linker keeps as many program headers there as it says.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr as usize;
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let mut entry = std::ptr::with_exposed_provenance::<Entry>(base.wrapping_add(dynamic.p_vaddr as usize));
    let (mut strings, mut soname, mut rpath, mut runpath, mut needed) = (None, None, None, None, Vec::new());
    loop {
        // SAFETY: the dynamic section is mapped, and an entry with tag 0 ends it.
        let Entry { tag, value } = unsafe { entry.read() };
        match tag {
            0 => break,
            STRINGS => strings = Some(value),
            SONAME => soname = Some(value),
            RPATH => rpath = Some(value),
            RUNPATH => runpath = Some(value),
            NEEDED => needed.push(value),
            _ => {}
        }
        // SAFETY: the entry that ends the section has not been reached.
        entry = unsafe { entry.add(1) };
    }
    // glibc turns the address into an absolute one when it loads the library; musl, and the kernel's vDSO, do not.
    let strings = strings.map(|value| if value < base { base.wrapping_add(value) } else { value })?;
    let text = |offset: usize| {
        let text = std::ptr::with_exposed_provenance(strings.wrapping_add(offset));
        // SAFETY: the strings are mapped, and every one ends in NUL.
        unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
    };
    Some(DynamicStrings {
        soname: soname.map(text).unwrap_or_default(),
        needed: needed.into_iter().map(text).collect(),
        run_path: runpath.or(rpath).map(text),
    })
}

/// The address of a function or datum in the library, or in those that it needs.
pub(crate) fn symbol(handle: &Handle, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle was never closed, and the name ends in NUL.
    let address = unsafe { libc::dlsym(handle.0, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn path(name: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}

/// A relative path, as a relative part of LD_LIBRARY_PATH gives it, was relative to the working directory of then. The
/// kernel knows which file it was.
fn absolute(path: PathBuf) -> PathBuf {
    if path.is_absolute() {
        return path;
    }
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let files = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(line.get(start..)?)))
    });
    let mut named_so = files.filter(|file| path.file_name().is_some() && file.file_name() == path.file_name());
    named_so.next().map(Path::to_owned).unwrap_or(path)
}

/// Does this process run with more rights than the user who started it, so that variables are not to be believed?
pub fn is_secure_execution() -> bool {
    // SAFETY: the call reads the process's own auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
