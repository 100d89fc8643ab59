//! Reads and writes captures: files with the work that a program has given to cuDNN.
//!
//! A capture consists of JSON lines, one [`Record`] per line. The layer `capture` of cudnn-layers appends them, and
//! `cudnn-lab replay` reads them. A process that is killed loses at most the last line.
//!
//! ```
//! use cudnn_capture_file::{Capture, Record, Start};
//!
//! let start = Record::Start(Start { format: 1, cudnn: 91_900, cudart: 13_000 });
//! let capture = Capture::parse(start.to_line().as_bytes())?;
//! assert_eq!(capture.records, [start]);
//! # Ok::<(), cudnn_capture_file::Error>(())
//! ```
//!
//! | module | purpose |
//! | --- | --- |
//! | `names` | cuDNN's names of kinds and attributes |
//! | `graph` | a graph as a list of descriptors, with an id that depends only on the content |
//! | `value` | the elements of an attribute as JSON and as bytes |
//! | `tensors` | the tensors that operations read and write, and the size of elements |
//! | `record` | the records |
//! | `ids` | compares the ids of graphs with their content |
//! | `failure` | the descriptors that show a failure again |
//! | `files` | the names of the files with the values of tensors |
//! | `capture` | reads files |
//!
//! This crate is independent of layers and of the loader. It does not call cuDNN.

mod capture;
mod failure;
mod files;
mod graph;
mod ids;
mod names;
mod record;
mod tensors;
mod value;

pub use capture::{Capture, Error, Problem};
pub use files::{is_file_name, values_dir};
pub use graph::{Attribute, Graph, MAX_NODES, Node};
pub use record::{
    Call, Count, Data, Device, Engine, Execution, FORMAT, Failure, GraphRecord, Incomplete, Memory, Plan, Proposals,
    Record, Start, Tensor, attribute_name, hexadecimal, is_status_name, status_name,
};
pub use tensors::element_bits;
pub use value::{Value, element_size};
