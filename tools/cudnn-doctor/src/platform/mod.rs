//! The differences between operating systems: only this module asks which one this is. It states facts and does system
//! calls; what they mean for cuDNN is for others to say.
//!
//! Each system has: the names of the driver's libraries and of Python's programs; child processes with their pipes, their
//! end and their limits of memory; the loaded libraries of a process; the lines of its shells.

use cudnn_probe::ProbeError;

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod os;

#[cfg(windows)]
#[path = "windows/mod.rs"]
mod os;

#[cfg(not(any(target_os = "linux", windows)))]
#[path = "other.rs"]
mod os;

pub(crate) use os::{
    CAN_LOAD, Child, Interruption, MAX_PID, MEMORY_HELP, MemoryLimits, OPEN_LIMITS_HELP, Pipe, RIGHTS_HINT,
    become_program, belongs_to_root, belongs_to_user, cannot_start, changes_rights, channel, copy_link, crash_number,
    create_own_dir, create_private_dir, data_dir, end_by, end_child_with_this_process, end_with_parent, executable,
    failure, is_closed_pipe, is_lack_of_resources, is_noexec, is_of_root, is_root, is_search_path_separator, launcher,
    loaded_libraries, lock_dir, names_of_parents, open_library, open_without_waiting, others_may_write, permit_command,
    pipe, prepare, program_of, python_in, random, receive, report, safe_working_dir, skip_hole, split_search_path,
    symbol, sync_dir, system_library, take_rights, users_of, variable_of,
};

/// Could a file not be read because too many files are open? That says nothing about the file.
pub(crate) fn is_too_many_open_files(error: &ProbeError) -> bool {
    matches!(error, ProbeError::Unreadable { error } if os::is_lack_of_files(error))
}

/// What a static doctor cannot do, and what can.
pub(crate) const STATIC: &str = "this cudnn-doctor is static: it reads files, and loads no libraries";
pub(crate) const STATIC_HELP: &str =
    "use the cudnn-doctor of the wheel, of the archive for Linux, or of cargo, which need glibc";
