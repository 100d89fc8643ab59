//! Resolves cuDNN functions to their addresses.
//!
//! - [`installation`] selects the cuDNN that this process uses.
//! - [`libraries`] loads the sub-libraries of that installation.
//! - [`attempts`] caches results and limits how often failures are retried.
//! - [`graph_plugins`] checks the libraries that graph opens itself.
//! - [`in_memory`] reads versions from loaded libraries.
//!
//! The resolver emits events and returns errors. It must not depend on logging, last-error texts or the C API.

pub(crate) mod attempts;
pub(crate) mod graph_plugins;
pub(crate) mod in_memory;
pub(crate) mod installation;
pub(crate) mod libraries;
