//! The model of an operation graph: a list of cuDNN's backend descriptors with their attributes.
//!
//! Layers build graphs from a program's calls, captures and cache keys store them, and tools plan and reduce them.
//!
//! ```
//! use cudnn_graph::{Graph, label};
//!
//! let text = r#"[{"kind":"TENSOR","UNIQUE_ID:3":1,"DATA_TYPE:1":2,"DIMENSIONS:3":[8,64]}]"#;
//! let graph: Graph = serde_json::from_str(text)?;
//! assert_eq!(label::describe(&graph), "tensor 1 [8,64] half");
//! assert_eq!(serde_json::to_string(&graph)?, text);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Each module imports only modules above it in this list:
//!
//! | module | purpose |
//! | --- | --- |
//! | [`names`] | converts cuDNN's numbers to names, and back |
//! | [`declared`] | the types and numbers of elements that cuDNN declares for each attribute |
//! | `value` | the elements of an attribute as JSON and as bytes |
//! | [`mod@graph`] | the list of descriptors, with JSON and id |
//! | `canonical` | the form of a graph that keys of cached plans contain |
//! | [`layout`], [`shape`] | compute strides, and the shapes that operations produce |
//! | `tensor` | the properties of tensors |
//! | `outputs` | the tensors that operations read and write |
//! | [`mod@edit`] | changes a graph, and drops what is not needed any more |
//! | [`operation`] | operations with names and roles of tensors |
//! | [`label`], [`vocabulary`] | describe a graph in one line, and list the names in it |
//! | [`mod@rebuild`] | creates cuDNN's descriptors through a trait |
#![allow(deprecated, reason = "graphs may contain deprecated attributes and types")]

mod canonical;
pub mod declared;
pub mod edit;
pub mod graph;
pub mod label;
pub mod layout;
pub mod names;
pub mod operation;
mod outputs;
pub mod rebuild;
pub mod shape;
mod tensor;
mod value;
pub mod vocabulary;

pub use graph::{Attribute, Graph, GraphBuilder, MAX_NODES, Node};
pub use operation::{Operand, Operation};
pub use tensor::element_bits;
pub use value::{Value, element_size, enumerator};
