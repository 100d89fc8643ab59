//! Inspects other processes on Windows.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Error, Result};
use std::os::windows::ffi::OsStringExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};

use windows_sys::Win32::Foundation::{ERROR_SHARING_VIOLATION, HMODULE};
use windows_sys::Win32::Storage::FileSystem::{DELETE, FILE_WRITE_DATA};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::ProcessStatus::{K32EnumProcessModulesEx, K32GetModuleFileNameExW, LIST_MODULES_ALL};
use windows_sys::Win32::System::Threading::{
    OpenProcess, PROCESS_NAME_WIN32, PROCESS_QUERY_INFORMATION, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_VM_READ,
    QueryFullProcessImageNameW,
};

use super::handle::owned;

pub const MAX_ID: i64 = u32::MAX as i64;

/// The maximum length of a path in UTF-16 units, and the maximum number of modules.
const MAX_PATH: usize = 1 << 15;
const MAX_MODULES: usize = 1 << 14;

const MAX_PARENTS: usize = 8;

// Returns the DLLs in loading order, without the program.
pub fn libraries_of(process: u32) -> Result<Vec<PathBuf>> {
    // SAFETY: the arguments are plain integers.
    let process = owned(unsafe { OpenProcess(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ, 0, process) })?;
    let modules = modules(&process)?;
    Ok(modules.iter().skip(1).filter_map(|module| path_of(&process, *module)).collect())
}

fn modules(process: &OwnedHandle) -> Result<Vec<HMODULE>> {
    let mut modules: Vec<HMODULE> = vec![std::ptr::null_mut(); MAX_MODULES];
    let (size, mut needed) = (size_of_val(modules.as_slice()) as u32, 0);
    // SAFETY: the handle is open, and the buffer has this size.
    let is_known = unsafe {
        let handle = process.as_raw_handle();
        K32EnumProcessModulesEx(handle, modules.as_mut_ptr(), size, &raw mut needed, LIST_MODULES_ALL)
    };
    if is_known == 0 {
        return Err(Error::last_os_error());
    }
    modules.truncate(needed as usize / size_of::<HMODULE>());
    Ok(modules)
}

fn path_of(process: &OwnedHandle, module: HMODULE) -> Option<PathBuf> {
    let mut path = vec![0u16; MAX_PATH];
    // SAFETY: the handle is open, and the buffer has this length. The call fails for a module that was unloaded in the
    // meantime.
    let len = unsafe { K32GetModuleFileNameExW(process.as_raw_handle(), module, path.as_mut_ptr(), path.len() as u32) };
    let path = path.get(..len as usize).filter(|path| !path.is_empty())?;
    Some(OsString::from_wide(path).into())
}

// Returns the names of the programs that use this file, as far as known, or `None` if the file can be replaced.
pub fn users_of(file: &Path) -> Option<Vec<String>> {
    let opened = File::options().access_mode(DELETE | FILE_WRITE_DATA).open(file);
    let number = opened.err()?.raw_os_error()?;
    if u32::try_from(number) != Ok(ERROR_SHARING_VIOLATION) {
        return None;
    }
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let wanted = real(file);
    let uses = |process: u32| {
        let loaded = libraries_of(process).unwrap_or_default();
        loaded.iter().any(|library| library.file_name() == file.file_name() && real(library) == wanted)
    };
    let users = processes().into_iter().filter(|(id, _, _)| uses(*id));
    Some(users.map(|(id, _, name)| format!("{name} (process {id})")).collect())
}

pub fn program_of(process: u32) -> Option<PathBuf> {
    // SAFETY: the arguments are plain integers.
    let process = owned(unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, process) }).ok()?;
    let (mut path, mut len) = (vec![0u16; MAX_PATH], MAX_PATH as u32);
    // SAFETY: the handle is open, and the buffer has this length.
    let is_known = unsafe {
        QueryFullProcessImageNameW(process.as_raw_handle(), PROCESS_NAME_WIN32, path.as_mut_ptr(), &raw mut len)
    };
    let path = path.get(..len as usize).filter(|_| is_known != 0)?;
    Some(OsString::from_wide(path).into())
}

// Returns the names of parent processes, starting with the nearest, such as `cmd.exe` or `powershell.exe`.
pub fn names_of_parents() -> Vec<String> {
    let processes = processes();
    let (mut id, mut names) = (std::process::id(), Vec::new());
    for _ in 0..=MAX_PARENTS {
        let Some((_, parent, name)) = processes.iter().find(|(known, _, _)| *known == id) else { break };
        names.push(name.to_ascii_lowercase());
        id = *parent;
    }
    names.into_iter().skip(1).collect()
}

fn processes() -> Vec<(u32, u32, String)> {
    // SAFETY: the arguments are plain integers.
    let Ok(snapshot) = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) }) else { return Vec::new() };
    let mut entry = PROCESSENTRY32W { dwSize: size_of::<PROCESSENTRY32W>() as u32, ..PROCESSENTRY32W::default() };
    let mut found = Vec::new();
    // SAFETY: the handle is open, and the structure contains the correct size.
    let mut has_entry = unsafe { Process32FirstW(snapshot.as_raw_handle(), &raw mut entry) } != 0;
    while has_entry {
        let len = entry.szExeFile.iter().position(|unit| *unit == 0).unwrap_or(entry.szExeFile.len());
        let name = String::from_utf16_lossy(entry.szExeFile.get(..len).unwrap_or_default());
        found.push((entry.th32ProcessID, entry.th32ParentProcessID, name));
        // SAFETY: the handle is open, and the structure contains the correct size.
        has_entry = unsafe { Process32NextW(snapshot.as_raw_handle(), &raw mut entry) } != 0;
    }
    found
}

/// Returns `None`, because Windows has no documented function for variables of another process.
pub fn variable_of(_process: u32, _name: &str) -> Option<OsString> {
    None
}
