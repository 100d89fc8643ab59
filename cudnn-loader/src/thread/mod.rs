//! Provides thread creation, fork handling and re-entrancy guards.

pub(crate) mod fork;
pub(crate) mod reentrancy;
pub(crate) mod spawn;
