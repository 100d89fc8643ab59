//! Linux, and the systems for which there is no cuDNN.

pub(crate) mod fork;
