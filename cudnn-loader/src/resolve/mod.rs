//! From a function to its address: [`installation`] selects the one cuDNN of this process, [`libraries`] loads its
//! sub-libraries, [`attempts`] remembers for how long a failure counts, [`graph_plugins`] checks the libraries that graph opens itself, [`in_memory`] reads what loaded
//! libraries state.
//!
//! The resolver emits events and returns errors. It knows nothing of logs, of last-error texts, or of C.

pub(crate) mod attempts;
pub(crate) mod graph_plugins;
pub(crate) mod in_memory;
pub(crate) mod installation;
pub(crate) mod libraries;
