//! Reads and writes captures: files with the work that a program has given to cuDNN.
//!
//! A capture consists of JSON lines with one [`Record`] each, so that a killed process loses at most the last line. The
//! layer `capture` of cudnn-layers appends them, and `cudnn-lab replay` reads them.
//!
//! ```
//! use cudnn_store::captures::{Capture, Record, StartRecord};
//!
//! let start = Record::Start(StartRecord { format: 1, cudnn: 91_900, cudart: 13_000 });
//! let capture = Capture::parse(start.to_line().as_bytes())?;
//! assert_eq!(capture.records, [start]);
//! # Ok::<(), String>(())
//! ```
//!
//! | module | purpose |
//! | --- | --- |
//! | `record` | the records |
//! | `ids` | compares the ids of graphs with their content |
//! | `failure` | the descriptors that show a failure again |
//! | `files` | the names of the files with the values of tensors |
//! | `process` | the records of each process |
//! | `read` | reads files |
//! | `status` | the status of a call, by its name |

mod failure;
mod files;
mod ids;
mod process;
mod read;
mod record;
mod status;

pub use files::{is_file_name, values_dir};
pub use process::{CapturedPlan, Process};
pub use read::Capture;
pub use record::{
    CallRecord, CountRecord, DataRecord, DeviceRecord, Engine, ExecutionRecord, FORMAT, FailureRecord, GraphRecord,
    IncompleteRecord, Memory, PlanRecord, ProposalsRecord, Record, START, StartRecord, Tensor, hexadecimal, is_search,
};
pub use status::Status;
