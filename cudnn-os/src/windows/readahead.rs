//! Reading ahead of time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, PAGE_READONLY, PrefetchVirtualMemory,
    UnmapViewOfFile, WIN32_MEMORY_RANGE_ENTRY,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// The most that is read of one part.
const MOST: u64 = 8 << 20;

/// Makes the system read the start of each part of a file. Returns the number of bytes requested.
///
/// # Errors
/// The system's.
pub fn request(path: &Path, parts: Vec<Range<u64>>) -> io::Result<u64> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let view = View::of(&file)?;
    let mut bytes = 0;
    let ranges = parts.into_iter().filter_map(|part| {
        let end = part.end.min(length).min(part.start.saturating_add(MOST));
        // The system refuses all ranges if one is empty, as that of a part which follows the GPU code can be.
        let size = end.checked_sub(part.start).filter(|size| *size > 0)?;
        bytes += size;
        Some(WIN32_MEMORY_RANGE_ENTRY {
            VirtualAddress: view.0.Value.wrapping_byte_add(part.start as usize),
            NumberOfBytes: size as usize,
        })
    });
    let ranges: Vec<WIN32_MEMORY_RANGE_ENTRY> = ranges.collect();
    if ranges.is_empty() {
        return Ok(0);
    }
    // SAFETY: the ranges are in the view, which is mapped.
    let has_requested = unsafe { PrefetchVirtualMemory(GetCurrentProcess(), ranges.len(), ranges.as_ptr(), 0) } != 0;
    if has_requested { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}

/// A file in memory, to be read.
struct View(MEMORY_MAPPED_VIEW_ADDRESS);

impl View {
    fn of(file: &File) -> io::Result<Self> {
        // SAFETY: the file is open; without a size the mapping has the file's.
        let mapping = unsafe {
            CreateFileMappingW(file.as_raw_handle() as HANDLE, null_mut(), PAGE_READONLY, 0, 0, std::ptr::null())
        };
        if mapping.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping was just made; without a size the view has the file's.
        let view = unsafe { MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) };
        let error = io::Error::last_os_error();
        // SAFETY: the view keeps the mapping.
        unsafe { CloseHandle(mapping) };
        if view.Value.is_null() { Err(error) } else { Ok(View(view)) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: mapped above, and nothing has kept an address in it.
        unsafe { UnmapViewOfFile(self.0) };
    }
}
