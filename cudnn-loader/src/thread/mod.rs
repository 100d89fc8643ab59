//! Threads: guards for the state of the calling one (cancellation, signals, re-entrancy), and new ones. Knows nothing
//! of cuDNN.

pub(crate) mod cancel;
pub(crate) mod descriptors;
pub(crate) mod fork;
pub(crate) mod reentrancy;
pub(crate) mod signals;
pub(crate) mod spawn;
