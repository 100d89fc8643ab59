//! Lock-free types for sharing results between threads, which can all be used under ld.so's lock.
//!
//! - [`slot`] holds a function's address.
//! - [`once`] publishes a value once.
//! - [`turn`] admits one thread at a time.
//! - [`gate`] protects work from interruption.

pub(crate) mod gate;
pub(crate) mod once;
pub(crate) mod primitives;
pub(crate) mod slot;
pub(crate) mod turn;
