//! Reads ld.so's list of loaded objects.

use std::ffi::{CStr, OsStr, OsString, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::library::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, Library};

/// A loaded program or library.
pub struct ObjectEntry {
    /// The path under which ld.so found the file, or empty for the program itself.
    pub path: PathBuf,
    /// `DT_RUNPATH`, or `DT_RPATH` if `DT_RUNPATH` is missing.
    pub run_path: Option<OsString>,
    /// `DT_SONAME`, or empty if the object does not define it.
    soname: Vec<u8>,
    needed: Vec<Vec<u8>>,
    library: Library,
    range: Range<usize>,
}

impl ObjectEntry {
    /// Returns the library, which the caller keeps loaded while the result is in use. All other functions of this type
    /// may be called after the library was unloaded.
    pub fn library(&self) -> Library {
        self.library
    }

    /// Returns whether this code or data is part of the object.
    pub fn contains(&self, address: *const c_void) -> bool {
        self.range.contains(&address.addr())
    }

    /// Returns whether this is the file at a path, or the library that ld.so uses for a name without a directory.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let name = path.as_os_str().as_bytes();
        let has_name = || self.soname == name || self.path.file_name() == path.file_name();
        self.path == path || !name.contains(&b'/') && has_name()
    }

    pub(super) fn is_loaded_at(&self, base: usize) -> bool {
        self.library.base() == base
    }

    /// Returns whether ld.so uses this object for the library with this name.
    pub fn has_name(&self, soname: &str) -> bool {
        self.soname == soname.as_bytes()
    }

    /// Returns whether the object lists this name as a dependency.
    pub fn needs(&self, soname: &str) -> bool {
        self.needed.iter().any(|name| name == soname.as_bytes())
    }

    /// Returns whether this is the program itself.
    pub fn is_program(&self) -> bool {
        self.path.as_os_str().is_empty()
    }
}

/// A copy of ld.so's list in preallocated memory. ld.so holds locks during the copy, and an allocator might acquire
/// other locks or call ld.so.
#[derive(Default)]
struct Copied {
    objects: Vec<CopiedObject>,
    /// The NUL-terminated names of each object: path, SONAME, run path, and dependencies.
    text: Vec<u8>,
    /// The required capacity for the complete list: objects, and bytes of text.
    required: [usize; 2],
}

/// A loaded object. The names are a range in [`Copied`].
struct CopiedObject {
    library: Library,
    range: Range<usize>,
    has_run_path: bool,
    text: Range<usize>,
}

impl Copied {
    fn push_text(&mut self, text: &[u8]) {
        self.required[1] += text.len() + 1;
        if self.text.capacity() - self.text.len() > text.len() {
            self.text.extend_from_slice(text);
            self.text.push(0);
        }
    }

    /// # Safety
    /// As for [`Library::new`].
    unsafe fn push(&mut self, info: &libc::dl_phdr_info, path: &[u8]) {
        // SAFETY: guaranteed by the caller.
        let library = unsafe { Library::new(info) };
        // SAFETY: the offsets come from the dynamic section.
        let text = |offset| unsafe { library.text(offset) };
        let start = self.text.len();
        let run_path = library.value(DT_RUNPATH).or_else(|| library.value(DT_RPATH));
        self.push_text(path);
        self.push_text(library.value(DT_SONAME).map(text).unwrap_or_default());
        self.push_text(run_path.map(text).unwrap_or_default());
        library.dynamic().filter(|(tag, _)| *tag == DT_NEEDED).for_each(|(_, offset)| self.push_text(text(offset)));
        self.required[0] += 1;
        if self.objects.len() < self.objects.capacity() {
            let (range, text) = (library.range(), start..self.text.len());
            self.objects.push(CopiedObject { library, range, has_run_path: run_path.is_some(), text });
        }
    }

    /// Clears the copy and reserves the capacity that was missing in the last attempt. Returns whether any was.
    fn grow(&mut self) -> bool {
        let [objects, text] = std::mem::take(&mut self.required);
        let is_short = objects > self.objects.len() || text > self.text.len();
        if is_short {
            self.objects.clear();
            self.text.clear();
            // The list may grow in the meantime.
            self.objects.reserve(objects + objects / 4);
            self.text.reserve(text + text / 4);
        }
        is_short
    }

    fn into_entries(self) -> Vec<ObjectEntry> {
        let entry = |CopiedObject { library, range, has_run_path, text }| {
            let text = self.text.get(text).and_then(|text| text.strip_suffix(b"\0")).unwrap_or_default();
            let mut names = text.split(|byte| *byte == 0).map(<[u8]>::to_vec);
            let mut next = || names.next().unwrap_or_default();
            let (path, soname, run_path) = (OsString::from_vec(next()), next(), OsString::from_vec(next()));
            let run_path = has_run_path.then_some(run_path);
            ObjectEntry { path: path.into(), run_path, soname, needed: names.collect(), library, range }
        };
        self.objects.into_iter().map(entry).collect()
    }
}

/// Returns the loaded objects in loading order. Delays forks by other threads.
pub fn read_list() -> Vec<ObjectEntry> {
    unsafe extern "C" fn push(info: *mut libc::dl_phdr_info, _: usize, copied: *mut c_void) -> c_int {
        // SAFETY: `read_list` passes this value, and does not access it during the call.
        let copied = unsafe { &mut *copied.cast::<Copied>() };
        // SAFETY: ld.so passes a structure that describes a loaded object.
        let info = unsafe { &*info };
        if !info.dlpi_name.is_null() {
            // SAFETY: the name is NUL-terminated, and is valid as long as the object is listed.
            let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
            // Skip the vDSO of the kernel, which does not depend on any library.
            if path.starts_with(b"linux-vdso") {
                return 0;
            }
            // SAFETY: `info` comes from ld.so, which keeps the object loaded during this call. Later users keep the
            // library loaded.
            unsafe { copied.push(info, path) };
        }
        0
    }
    // This capacity is sufficient for most programs.
    let mut copied = Copied { required: [64, 16 << 10], ..Copied::default() };
    while copied.grow() {
        // SAFETY: the callback neither stores pointers nor calls ld.so.
        unsafe { libc::dl_iterate_phdr(Some(push), (&raw mut copied).cast()) };
    }
    copied.into_entries()
}

/// Returns the number of objects that ld.so has loaded since the process started. Delays forks by other threads.
pub fn load_count() -> u64 {
    unsafe extern "C" fn read(info: *mut libc::dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
        // SAFETY: ld.so passes a structure of this type, and `load_count` passes a pointer to an integer.
        unsafe { *count.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the callback neither stores pointers nor calls ld.so.
    unsafe { libc::dl_iterate_phdr(Some(read), (&raw mut count).cast()) };
    count
}

/// Returns the absolute path of a listed file. If LD_LIBRARY_PATH contains relative directories, ld.so's paths are
/// relative to the working directory at loading time. The path then comes from the kernel.
pub fn absolute(path: PathBuf) -> PathBuf {
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
