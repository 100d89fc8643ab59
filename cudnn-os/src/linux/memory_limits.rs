//! Explains crashes of child processes by memory limits, which children inherit from this process.

use std::path::{Path, PathBuf};

use super::memory::limit_of;

/// About twice the address space of a program that loads the largest GPU libraries.
const SCARCE: u64 = 8 << 30;

/// A stack below this size may cause crashes. The usual size is 8 MB.
const SMALL_STACK: u64 = 1 << 20;

/// Signals after a failed memory allocation: SIGABRT, SIGBUS, SIGKILL and SIGSEGV.
const SIGNALS: [i32; 4] = [6, 7, 9, 11];
const SIGKILL: i32 = 9;

/// Messages of C, C++, Rust and ld.so about failed memory allocations.
const REFUSALS: [&str; 7] = [
    "bad_alloc",
    "foreign exception",
    "memory allocation of",
    "failed to map segment",
    "cannot allocate memory",
    "cannot create shared object descriptor",
    "out of memory",
];

/// The memory limits of this process.
#[derive(Clone, Debug, Default)]
pub struct MemoryLimits {
    /// Descriptions and sizes in bytes of resource limits.
    rlimits: Vec<(&'static str, u64)>,
    /// The stack limit in bytes.
    stack: Option<u64>,
    cgroup: Option<Cgroup>,
}

#[derive(Clone, Debug)]
struct Cgroup {
    limit: u64,
    dir: PathBuf,
    kill_count: u64,
}

impl MemoryLimits {
    /// Reads the limits of this process.
    pub fn read() -> MemoryLimits {
        let names = [
            (libc::RLIMIT_AS, "each process's address space (`ulimit -v`)"),
            (libc::RLIMIT_DATA, "each process's data (`ulimit -d`)"),
        ];
        MemoryLimits {
            rlimits: names.into_iter().filter_map(|(resource, name)| Some((name, limit_of(resource)?))).collect(),
            stack: limit_of(libc::RLIMIT_STACK),
            cgroup: Cgroup::read(&read(Path::new("/proc/self/cgroup"))),
        }
    }

    /// Explains how a child ran out of memory, from its signal and its text on standard error. The limits must be read
    /// before the child is started. Returns `None` if the child exited for another reason.
    pub fn explains(&self, signal: Option<i32>, stderr: &str) -> Option<String> {
        if let Some(cgroup) = &self.cgroup
            && signal == Some(SIGKILL)
            && kill_count(&cgroup.dir) > cgroup.kill_count
        {
            let limit = megabytes(cgroup.limit);
            return Some(format!("the kernel killed it: its control group is limited to {limit} of memory"));
        }
        let is_crash = signal.is_some_and(|signal| SIGNALS.contains(&signal));
        if let Some(stack) = self.stack.filter(|stack| is_crash && *stack < SMALL_STACK) {
            return Some(format!("its stack is limited to {} kB (`ulimit -s`); 8192 are usual", stack >> 10));
        }
        let (name, limit) = self.rlimits.iter().min_by_key(|(_, limit)| *limit)?;
        let limit = format!("{name} is limited to {}", megabytes(*limit));
        if is_refusal(stderr) {
            return Some(format!("it ran out of memory: {limit}"));
        }
        let is_scarce = self.rlimits.iter().any(|(_, limit)| *limit < SCARCE);
        (is_scarce && is_crash).then(|| format!("it probably ran out of memory: {limit}"))
    }

    /// Names the limit that explains this message about insufficient memory.
    pub fn explains_message(&self, message: &str) -> Option<String> {
        self.explains(None, message)
    }
}

/// Returns whether the text reports a failed memory allocation.
fn is_refusal(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    REFUSALS.iter().any(|refusal| text.contains(refusal))
}

impl Cgroup {
    /// Finds the group in `/proc/self/cgroup`, or the innermost parent group with a limit.
    fn read(own: &str) -> Option<Cgroup> {
        let field = |line: &str| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_v1 = controllers.split(',').any(|controller| controller == "memory");
            let (root, file) = if is_v1 {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            } else if controllers.is_empty() {
                ("/sys/fs/cgroup", "memory.max")
            } else {
                return None;
            };
            Some((PathBuf::from(root), path.trim_start_matches('/').to_owned(), file))
        };
        own.lines().filter_map(field).find_map(|(root, path, file)| {
            // In a container, the path may be relative to the host, and the root is the group of the container.
            let inner = root.join(path);
            let mut dirs = inner.ancestors().take_while(|dir| dir.starts_with(&root));
            dirs.find_map(|dir| {
                let limit: u64 = read(&dir.join(file)).trim().parse().ok()?;
                // Without a limit, cgroup v1 reports a huge number.
                (limit < 1 << 60).then(|| Cgroup { limit, dir: dir.to_owned(), kill_count: kill_count(dir) })
            })
        })
    }
}

/// Returns the number of processes in a control group that the kernel killed because memory ran out.
fn kill_count(dir: &Path) -> u64 {
    let count = |name: &str| {
        let text = read(&dir.join(name));
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
        count.trim().parse().ok()
    };
    count("memory.events").or_else(|| count("memory.oom_control")).unwrap_or(0)
}

/// Reads a short text file of the kernel, or returns an empty string.
fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_address_space(limit: u64) -> MemoryLimits {
        MemoryLimits { rlimits: vec![("each process's address space", limit)], stack: Some(8 << 20), cgroup: None }
    }

    #[test]
    fn a_crash_is_blamed_on_a_limit_only_if_one_is_in_force() {
        let limited = with_address_space(2_097_152_000);
        let explained = limited.explains(Some(6), "terminate called after throwing 'std::bad_alloc'");
        assert!(explained.is_some_and(|text| text.contains("ran out of memory") && text.contains("2097 MB")));
        assert!(limited.explains(Some(6), "").is_some_and(|text| text.contains("probably")));
        assert_eq!(limited.explains(Some(4), ""), None);
        assert_eq!(MemoryLimits::default().explains(Some(6), "std::bad_alloc"), None);
        let roomy = with_address_space(99_999_999_999_999);
        assert_eq!(roomy.explains(Some(11), ""), None);
        let small = MemoryLimits { stack: Some(64 << 10), ..roomy.clone() };
        assert!(small.explains(Some(11), "").is_some_and(|text| text.contains("64 kB (`ulimit -s`)")));
        assert_eq!(small.explains(Some(4), ""), None);
        assert!(roomy.explains_message("libx.so: failed to map segment from shared object").is_some());
    }

    #[test]
    fn a_kill_is_blamed_on_the_control_group_if_it_counts_one() {
        let dir = std::env::temp_dir().join(format!("cudnn-os-cgroup-{}", std::process::id()));
        let _ = std::fs::create_dir_all(&dir);
        let events =
            |count: u64| std::fs::write(dir.join("memory.events"), format!("low 0\noom 9\noom_kill {count}\n"));
        let _ = events(3);
        let cgroup = Cgroup { limit: 64 << 20, dir: dir.clone(), kill_count: kill_count(&dir) };
        let limits = MemoryLimits { cgroup: Some(cgroup), ..MemoryLimits::default() };
        assert_eq!(limits.explains(Some(9), ""), None);
        let _ = events(4);
        assert!(limits.explains(Some(9), "").is_some_and(|text| text.contains("67 MB")), "{limits:?}");
        let _ = std::fs::remove_dir_all(&dir);
    }
}
