//! Writes a graph as a program in C++, Python or Rust.
