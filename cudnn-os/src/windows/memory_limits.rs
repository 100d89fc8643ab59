//! Explains crashes of child processes by memory limits on Windows, which grants memory only up to the combined size of
//! RAM and paging file. Loading the CUDA DLLs takes several gigabytes.

use windows_sys::Win32::System::JobObjects::{
    JOB_OBJECT_LIMIT_JOB_MEMORY, JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectExtendedLimitInformation, QueryInformationJobObject,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

/// Exit codes after a failed memory allocation: out of memory, insufficient quota, commit limit.
const CODES: [u32; 4] = [0xc000_0017, 0xc000_0044, 0xc000_009a, 0xc000_012d];

/// Messages about failed memory allocations. Windows localizes the messages of the errors 8, 14 and 1455.
const REFUSALS: [&str; 8] = [
    "bad_alloc",
    "bad allocation",
    "memory allocation of",
    "out of memory",
    "paging file is too small",
    "os error 8)",
    "os error 14)",
    "1455",
];

#[derive(Clone, Debug, Default)]
pub struct MemoryLimits {
    /// The limit of the current job in bytes.
    job: Option<u64>,
    /// The limit for all processes and the available rest, in bytes.
    commit: Option<(u64, u64)>,
}

impl MemoryLimits {
    pub fn read() -> MemoryLimits {
        MemoryLimits { job: job_limit(), commit: commit_limit() }
    }

    pub fn explains(&self, code: Option<i32>, stderr: &str) -> Option<String> {
        let is_code = code.is_some_and(|code| CODES.contains(&(code as u32)));
        let text = stderr.to_ascii_lowercase();
        if !is_code && !REFUSALS.iter().any(|refusal| text.contains(refusal)) {
            return None;
        }
        let job = self.job.map(|limit| format!("the processes of its job may have {}", megabytes(limit)));
        let commit = self.commit.map(|(limit, left)| {
            let (limit, left) = (megabytes(limit), megabytes(left));
            format!("RAM and the paging file together have {limit}, of which {left} were left")
        });
        let limits: Vec<String> = job.into_iter().chain(commit).collect();
        Some(format!("it ran out of memory: {}", limits.join("; ")))
    }

    pub fn explains_message(&self, message: &str) -> Option<String> {
        // Messages of the loader contain the number in this form. In program output, it may have a different meaning.
        let is_refusal = message.contains("error 8: ") || message.contains("error 14: ");
        self.explains(is_refusal.then_some(CODES[0] as i32), message)
    }
}

fn job_limit() -> Option<u64> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    let (job, len) = (std::ptr::null_mut(), size_of_val(&limits) as u32);
    // SAFETY: a null handle refers to the job of this process, and the structure has the right type and size.
    let is_known = unsafe {
        let limits = (&raw mut limits).cast();
        QueryInformationJobObject(job, JobObjectExtendedLimitInformation, limits, len, std::ptr::null_mut())
    };
    let flags = limits.BasicLimitInformation.LimitFlags;
    let by_process = (flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY != 0).then_some(limits.ProcessMemoryLimit);
    let by_job = (flags & JOB_OBJECT_LIMIT_JOB_MEMORY != 0).then_some(limits.JobMemoryLimit);
    let limit = by_process.into_iter().chain(by_job).min().filter(|_| is_known != 0)?;
    u64::try_from(limit).ok()
}

fn commit_limit() -> Option<(u64, u64)> {
    let mut status = MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..MEMORYSTATUSEX::default() };
    // SAFETY: the structure contains the correct size.
    let is_known = unsafe { GlobalMemoryStatusEx(&raw mut status) } != 0;
    is_known.then_some((status.ullTotalPageFile, status.ullAvailPageFile))
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_is_a_lack_of_memory() {
        let limits = MemoryLimits { job: None, commit: Some((8_000_000_000, 1_000_000)) };
        let refused = limits.explains_message("The paging file is too small for this operation to complete.");
        assert!(refused.is_some_and(|text| text.contains("have 8000 MB, of which 1 MB were left")));
        assert!(limits.explains(Some(0xc000_012d_u32 as i32), "").is_some());
        assert_eq!(limits.explains(Some(0xc000_0005_u32 as i32), ""), None);
        // In program output, the error number may have a different meaning.
        let message = r#"{"message":"cannot be loaded: error 8: Not enough memory resources"}"#;
        assert!(limits.explains_message(message).is_some());
        assert_eq!(limits.explains(Some(1), "CUDA error 8: x"), None);
        assert!(MemoryLimits::read().commit.is_some_and(|(limit, _)| limit > 0));
    }
}
