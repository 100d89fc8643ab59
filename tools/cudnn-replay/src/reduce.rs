//! Makes a graph smaller while a condition holds.
