//! Starts child processes in a Windows job. Windows terminates all processes of a job when this process exits.

use std::fs::File;
use std::io::{Error, Result};
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Child as Started, Command, ExitStatus};

use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, GetProcessIoCounters, IO_COUNTERS, OpenThread,
    ResumeThread, THREAD_SUSPEND_RESUME, WaitForSingleObject,
};

use super::handle::owned;

/// Exit codes of processes that crashed or that Windows terminated.
const FAULTS: [(u32, &str); 11] = [
    (0xc000_0005, "access violation"),
    (0xc000_0017, "no memory"),
    (0xc000_001d, "illegal instruction"),
    (0xc000_0094, "integer division by zero"),
    (0xc000_00fd, "stack overflow"),
    (0xc000_012d, "commit limit"),
    (0xc000_0135, "a DLL was not found"),
    (0xc000_0139, "a DLL lacks a function"),
    (0xc000_0142, "the initialization of a DLL failed"),
    (0xc000_0374, "heap corruption"),
    (0xc000_0409, "fail-fast: an abort, or a damaged stack"),
];

// Disables message boxes, which would wait for a click, in this process and all children.
pub fn prepare() {
    // SAFETY: the call only changes a setting of this process.
    unsafe { SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX) };
}

// The job of the parent terminates this process.
pub fn end_with_parent() {}

/// Returns `Ok`, because programs on Windows may have no standard output.
pub fn check_output() -> Result<()> {
    Ok(())
}

/// Returns whether this process was started with a standard input.
pub fn has_input() -> bool {
    !std::io::stdin().as_raw_handle().is_null()
}

// The job terminates the child.
pub fn end_child_with_this_process(_command: &mut Command) {}

// Directories cannot be locked here.
pub fn keep_open(_command: &mut Command, _file: &File) {}

pub fn keep_from_interruption(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

// Interruptions are not caught on Windows, so this is never called.
pub fn end_group(child: &mut Started) -> Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

// Returns an error, because Windows cannot replace a running program.
pub fn become_program(_command: &mut Command, _then: Option<&dyn Fn()>) -> Error {
    std::io::ErrorKind::Unsupported.into()
}

// Returns the exit code, if it indicates a crash.
pub fn crash_number(status: ExitStatus) -> Option<i32> {
    let code = status.code()?;
    ((code as u32) >> 28 == 0xc).then_some(code)
}

pub fn failure(status: ExitStatus) -> String {
    match crash_number(status) {
        Some(code) => {
            let code = code as u32;
            let fault = FAULTS.iter().find(|(known, _)| *known == code);
            format!("crashed with code {code:#010x}{}", fault.map_or(String::new(), |(_, text)| format!(" ({text})")))
        }
        None => format!("failed with {status}"),
    }
}

/// The time to wait for terminated processes to disappear, in milliseconds.
const KILL_LIMIT: u32 = 2000;

const ENDED: u32 = 1;

pub struct Child {
    started: Started,
    job: OwnedHandle,
    has_session: bool,
}

impl Child {
    pub fn start(mut command: Command, has_session: bool) -> Result<Child> {
        let job = new_job()?;
        // The child is started suspended, so that it is in the job before it can start other processes.
        command.creation_flags(if has_session { CREATE_NO_WINDOW | CREATE_SUSPENDED } else { CREATE_SUSPENDED });
        let mut started = command.spawn()?;
        // SAFETY: both handles are open.
        let is_in_job = unsafe { AssignProcessToJobObject(job.as_raw_handle(), started.as_raw_handle()) } != 0;
        let resumed = if is_in_job { resume(started.id()) } else { Err(Error::last_os_error()) };
        if let Err(error) = resumed {
            let _ = started.kill();
            return Err(error);
        }
        Ok(Child { started, job, has_session })
    }

    pub fn has_ended(&self) -> bool {
        self.wait(0)
    }

    fn wait(&self, milliseconds: u32) -> bool {
        // SAFETY: the handle is open.
        unsafe { WaitForSingleObject(self.started.as_raw_handle(), milliseconds) == WAIT_OBJECT_0 }
    }

    pub fn end(&mut self) -> Result<Option<ExitStatus>> {
        if self.has_session || !self.has_ended() {
            // SAFETY: the handle is open.
            unsafe { TerminateJobObject(self.job.as_raw_handle(), ENDED) };
        }
        self.wait(KILL_LIMIT);
        self.started.try_wait()
    }

    pub fn activity(&self) -> Option<(u64, u64)> {
        let handle = self.started.as_raw_handle();
        let mut io = IO_COUNTERS::default();
        let mut memory = PROCESS_MEMORY_COUNTERS::default();
        // SAFETY: the handle is open, and all output pointers and sizes are valid.
        let is_known = unsafe {
            GetProcessIoCounters(handle, &raw mut io) != 0
                && K32GetProcessMemoryInfo(handle, &raw mut memory, size_of::<PROCESS_MEMORY_COUNTERS>() as u32) != 0
        };
        is_known.then(|| (io.ReadTransferCount + io.OtherTransferCount, u64::from(memory.PageFaultCount)))
    }
}

fn new_job() -> Result<OwnedHandle> {
    // SAFETY: the attributes and the name may be null.
    let handle = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
    let job = owned(handle)?;
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let len = size_of_val(&limits) as u32;
    // SAFETY: the handle is open, and the structure has the right type and size.
    let is_set = unsafe {
        SetInformationJobObject(job.as_raw_handle(), JobObjectExtendedLimitInformation, (&raw const limits).cast(), len)
    };
    if is_set == 0 { Err(Error::last_os_error()) } else { Ok(job) }
}

/// Resumes a process that was started suspended and still has a single thread.
fn resume(process: u32) -> Result<()> {
    // SAFETY: the arguments are plain integers.
    let threads = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut entry = THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..THREADENTRY32::default() };
    // SAFETY: the handle is open, and the structure contains the correct size.
    let mut has_entry = unsafe { Thread32First(threads.as_raw_handle(), &raw mut entry) } != 0;
    while has_entry {
        if entry.th32OwnerProcessID == process {
            // SAFETY: the arguments are plain integers.
            let thread = owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) })?;
            // SAFETY: the handle is open, with the right to resume.
            let count = unsafe { ResumeThread(thread.as_raw_handle()) };
            return if count == u32::MAX { Err(Error::last_os_error()) } else { Ok(()) };
        }
        // SAFETY: the handle is open, and the structure contains the correct size.
        has_entry = unsafe { Thread32Next(threads.as_raw_handle(), &raw mut entry) } != 0;
    }
    Err(Error::other("the child process has no thread"))
}
