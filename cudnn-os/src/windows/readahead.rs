//! Reads files ahead of time on Windows.

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

const MOST: u64 = 8 << 20;

pub fn request(path: &Path, parts: impl IntoIterator<Item = Range<u64>>) -> io::Result<()> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let view = View::of(&file)?;
    let ranges = parts.into_iter().filter_map(|part| {
        let end = part.end.min(length).min(part.start.saturating_add(MOST));
        // Windows rejects the whole request if a range is empty, as for a part after the GPU code.
        let size = end.checked_sub(part.start).filter(|size| *size > 0)?;
        Some(WIN32_MEMORY_RANGE_ENTRY {
            VirtualAddress: view.0.Value.wrapping_byte_add(part.start as usize),
            NumberOfBytes: size as usize,
        })
    });
    let ranges: Vec<WIN32_MEMORY_RANGE_ENTRY> = ranges.collect();
    if ranges.is_empty() {
        return Ok(());
    }
    // SAFETY: the ranges are inside the mapped view.
    let has_requested = unsafe { PrefetchVirtualMemory(GetCurrentProcess(), ranges.len(), ranges.as_ptr(), 0) } != 0;
    if has_requested { Ok(()) } else { Err(io::Error::last_os_error()) }
}

struct View(MEMORY_MAPPED_VIEW_ADDRESS);

impl View {
    fn of(file: &File) -> io::Result<Self> {
        // SAFETY: the file is open. Size 0 maps the complete file.
        let mapping = unsafe {
            CreateFileMappingW(file.as_raw_handle() as HANDLE, null_mut(), PAGE_READONLY, 0, 0, std::ptr::null())
        };
        if mapping.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping was just created. Size 0 maps the complete file.
        let view = unsafe { MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) };
        let error = io::Error::last_os_error();
        // SAFETY: the handle is open, and the view keeps the mapping alive.
        unsafe { CloseHandle(mapping) };
        if view.Value.is_null() { Err(error) } else { Ok(View(view)) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the view was mapped by this type, and all uses of it have ended.
        unsafe { UnmapViewOfFile(self.0) };
    }
}
