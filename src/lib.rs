//! The drop-in C library: not built yet.
