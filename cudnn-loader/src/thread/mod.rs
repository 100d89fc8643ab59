//! Guards for the state of the calling thread: cancellation, signals, re-entrancy. Knows nothing of cuDNN.

pub(crate) mod cancel;
pub(crate) mod reentrancy;
pub(crate) mod signals;
