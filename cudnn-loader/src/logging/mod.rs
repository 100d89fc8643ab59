//! Access to cuDNN's log, including this crate's own entries: pass them to a closure, write them to a file, or parse
//! them.
//!
//! ```no_run
//! use cudnn_loader::logging::{self, Destination, LogSeverity};
//!
//! // Before the first call or after it:
//! logging::set_hook(&[LogSeverity::Warning, LogSeverity::Error], |event| eprintln!("{}: {}", event.entry.severity, event.entry))?;
//! // Or, in cuDNN's format:
//! logging::write_to(LogSeverity::up_to(3), Destination::File("cudnn_%Y%m%d_%i.log".into()))?;
//! # Ok::<(), cudnn_loader::Error>(())
//! ```
//!
//! # The loader's entries
//! The loader uses cuDNN's log format for its own entries: searching, selecting and loading an installation, with all
//! rejected candidates and failures. A single log explains a failure, even if cuDNN is never loaded. These entries use
//! the function names `cudnn_loader::search`, `::select` and `::load`. If a call fails because cuDNN is missing, the
//! error entry contains the name of the called function.
//!
//! # Environment variables
//! Unless the program calls [`set_hook`] or [`write_to`], cuDNN's variables configure the log. Like cuDNN, the loader
//! reads them once:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CUDNN_LOGLEVEL_DBG` | 0 off, 1 errors, 2 also warnings, 3 also calls; larger values mean 3 |
//! | `CUDNN_LOGDEST_DBG` | `NULL`, `stdout`, `stderr` (the default), or a file: see [`Destination::File`] |
//! | `CUDNN_LOGERR_DBG`, `CUDNN_LOGWARN_DBG`, `CUDNN_LOGINFO_DBG` | older: `1` enables one severity if no level is set |
//!
//! On stdout and stderr, the loader's entries appear between cuDNN's. For a file destination, the loader writes a
//! second file with `.loader` appended to the name, because cuDNN truncates the file when it is loaded and writes at
//! offsets that it tracks. [`parse`] reads either file. In secure-execution mode (setuid programs), the loader ignores
//! these variables.

pub(crate) mod callback;
mod entry;
mod hook;
pub(crate) mod loader_events;
mod message;
pub(crate) mod reasons;
mod sink;

pub use entry::{Argument, LogEntry, LogSeverity, Reason, parse};
#[cfg(feature = "log")]
pub use hook::to_log;
#[cfg(feature = "tracing")]
pub use hook::to_tracing;
pub use hook::{LogEvent, set_hook, write_to};
pub use sink::Destination;
pub(crate) use sink::{is_enabled_by_environment, read_variables};
