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
    text: Vec<u8>,
    needed: Vec<Range<usize>>,
    /// The required capacity for the complete list: objects, bytes of text, and dependency names.
    required: [usize; 3],
}

/// A loaded object. Names are ranges in [`Copied`].
struct CopiedObject {
    library: Library,
    range: Range<usize>,
    path: Range<usize>,
    strings: DynamicStrings,
}

#[derive(Default)]
struct DynamicStrings {
    soname: Range<usize>,
    needed: Range<usize>,
    run_path: Option<Range<usize>>,
}

impl Copied {
    fn push_text(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.required[1] += text.len();
        if self.text.capacity() - start >= text.len() {
            self.text.extend_from_slice(text);
        }
        start..self.text.len()
    }

    fn push_needed(&mut self, name: &[u8]) {
        let name = self.push_text(name);
        self.required[2] += 1;
        if self.needed.len() < self.needed.capacity() {
            self.needed.push(name);
        }
    }

    fn push(&mut self, object: CopiedObject) {
        self.required[0] += 1;
        if self.objects.len() < self.objects.capacity() {
            self.objects.push(object);
        }
    }

    /// Clears the copy and reserves the capacity that was missing in the last attempt. Returns whether any was.
    fn grow(&mut self) -> bool {
        let [objects, text, needed] = std::mem::take(&mut self.required);
        let is_short = objects > self.objects.len() || text > self.text.len() || needed > self.needed.len();
        if is_short {
            self.objects.clear();
            self.text.clear();
            self.needed.clear();
            // The list may grow in the meantime.
            self.objects.reserve(objects + objects / 4);
            self.text.reserve(text + text / 4);
            self.needed.reserve(needed + needed / 4);
        }
        is_short
    }

    fn into_entries(self) -> Vec<ObjectEntry> {
        let bytes = |range: &Range<usize>| self.text.get(range.clone()).unwrap_or_default().to_vec();
        let entry = |object: &CopiedObject| {
            let DynamicStrings { soname, needed, run_path } = &object.strings;
            ObjectEntry {
                path: OsString::from_vec(bytes(&object.path)).into(),
                run_path: run_path.as_ref().map(|run_path| OsString::from_vec(bytes(run_path))),
                soname: bytes(soname),
                needed: self.needed.get(needed.clone()).unwrap_or_default().iter().map(bytes).collect(),
                library: object.library,
                range: object.range.clone(),
            }
        };
        self.objects.iter().map(entry).collect()
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
            let path = copied.push_text(path);
            // SAFETY: `info` comes from ld.so, which keeps the object loaded during this call. Later users keep the
            // library loaded.
            let library = unsafe { Library::new(info) };
            let strings = dynamic_strings(&library, copied);
            copied.push(CopiedObject { library, range: library.range(), path, strings });
        }
        0
    }
    // This capacity is sufficient for most programs.
    let mut copied = Copied { required: [64, 16 << 10, 512], ..Copied::default() };
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

fn dynamic_strings(library: &Library, copied: &mut Copied) -> DynamicStrings {
    // SAFETY: the offsets come from the dynamic section.
    let text = |offset| unsafe { library.text(offset) };
    let soname = library.value(DT_SONAME).map(|offset| copied.push_text(text(offset))).unwrap_or_default();
    let run_path = library.value(DT_RUNPATH).or_else(|| library.value(DT_RPATH));
    let run_path = run_path.map(|offset| copied.push_text(text(offset)));
    let start = copied.needed.len();
    let needed = library.dynamic().filter(|(tag, _)| *tag == DT_NEEDED);
    needed.for_each(|(_, offset)| copied.push_needed(text(offset)));
    DynamicStrings { soname, needed: start..copied.needed.len(), run_path }
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
