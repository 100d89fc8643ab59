//! Provides thread creation, fork handling, protected sections and re-entrancy guards.

pub(crate) mod fork;
pub(crate) mod reentrancy;
pub(crate) mod sections;
pub(crate) mod spawn;
