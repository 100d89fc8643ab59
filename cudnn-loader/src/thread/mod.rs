//! Threads: forks and re-entrancy of the calling one, and new ones. Knows nothing of cuDNN.

pub(crate) mod fork;
pub(crate) mod reentrancy;
pub(crate) mod spawn;
