//! What `cudnn-doctor` and `cudnn-lab` share: output, exit statuses, child processes, and lines for shells.
//!
//! The crate is internal and has an unstable API.
//!
//! | module | purpose |
//! | --- | --- |
//! | `output`, `table` | prints text or JSON, and the exit status |
//! | `escape` | makes untrusted text safe for terminals |
//! | `help` | the help in groups, manual pages and completions |
//! | `subprocess`, `child_report` | child processes that may crash or hang, and their messages |
//! | `temporary` | files that are removed even after a signal |
//! | `platform`, `rights`, `path` | what this system and this user can do |
//! | `programs`, `command`, `shell`, `quoting` | lines for people to run |

pub mod child_report;
pub mod command;
pub mod escape;
pub mod help;
pub mod output;
pub mod path;
pub mod platform;
pub mod programs;
pub mod quoting;
pub mod rights;
pub mod shell;
pub mod subprocess;
pub mod table;
pub mod temporary;
