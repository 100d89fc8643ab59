//! The loader on real cuDNN.
