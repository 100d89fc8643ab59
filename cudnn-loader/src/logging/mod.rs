//! cuDNN's log, with this crate's entries in it: pass entries to a closure, write them to a file, or parse them.
//!
//! ```no_run
//! use cudnn_loader::logging::{self, Destination, Severity};
//!
//! // Before the first call or after it:
//! logging::set_hook(&[Severity::Warning, Severity::Error], |event| eprintln!("{}: {}", event.entry.severity, event.entry))?;
//! // Or, in cuDNN's form:
//! logging::write_to(Severity::up_to(3), Destination::File("cudnn_%Y%m%d_%i.log".into()))?;
//! # Ok::<(), cudnn_loader::Error>(())
//! ```
//!
//! # The loader's entries
//! The loader logs what it searches, rejects, selects, loads and fails to load, in the form of cuDNN's entries. So one
//! log explains a failure, even if cuDNN never gets loaded. The functions are named `cudnn_loader::search`, `::select`
//! and `::load`. A call that fails because cuDNN cannot be loaded is an error of the function that was called.
//!
//! # Environment variables
//! Unless the program calls [`set_hook`] or [`write_to`], cuDNN's variables decide. They are read once, as cuDNN reads
//! them:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CUDNN_LOGLEVEL_DBG` | 0 nothing, 1 errors, 2 and warnings, 3 and calls; larger values are clipped |
//! | `CUDNN_LOGDEST_DBG` | `NULL`, `stdout`, `stderr` (the default), or a file: see [`Destination::File`] |
//! | `CUDNN_LOGERR_DBG`, `CUDNN_LOGWARN_DBG`, `CUDNN_LOGINFO_DBG` | older: `1` each for one severity, if there is no level |
//!
//! On stdout and stderr the loader's entries appear among cuDNN's. If the destination is a file, the loader writes
//! another file beside it, with `.loader` at the end of the name: cuDNN empties its file when it is loaded, and writes
//! at offsets that it counts. In secure-execution mode (setuid programs) the loader ignores these variables.
//! [`parse`] reads either file.

pub(crate) mod callback;
mod entry;
mod hook;
pub(crate) mod loader_events;
mod message;
pub(crate) mod reasons;
mod sink;

pub use entry::{Argument, Entry, Reason, Severity, parse};
#[cfg(feature = "log")]
pub use hook::to_log;
#[cfg(feature = "tracing")]
pub use hook::to_tracing;
pub use hook::{Event, set_hook, write_to};
pub use sink::Destination;

/// Reads the variables of the log, if nothing has read them yet.
pub(crate) fn read_variables() {
    sink::env_config();
}

/// Whether the environment requests a log, which cuDNN writes as long as it has no callback.
pub(crate) fn writes_to_file() -> bool {
    sink::env_config().mask != 0
}
