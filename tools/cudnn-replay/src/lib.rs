//! Replays captured cuDNN work.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`mod@device`] | reads and completes cuDNN's descriptions of devices |
//! | [`mod@emit`] | writes a graph as a program in C++, Python or Rust |
//! | [`mod@reduce`] | makes a graph smaller while a condition holds |
//! | [`mod@replay`] | plans and executes a graph with the loaded cuDNN |

pub mod device;
pub mod emit;
pub mod reduce;
pub mod replay;
