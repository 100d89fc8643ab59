//! Resolves cuDNN functions to their addresses.
//!
//! - [`functions`] finds the address of a function.
//! - [`libraries`] loads the libraries of the installation.
//! - [`installation`] selects the cuDNN that this process uses.
//! - [`attempts`] caches results and limits how often failures are retried.
//! - [`plugins`] checks the libraries that graph opens itself.
//! - [`in_memory`] reads versions from loaded libraries.
//!
//! The resolver emits events and returns errors. It must not depend on logging, last-error texts or the C API.

pub(crate) mod attempts;
pub(crate) mod functions;
pub(crate) mod in_memory;
pub(crate) mod installation;
pub(crate) mod libraries;
mod plugins;
