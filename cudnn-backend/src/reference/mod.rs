//! Provides input values, and computes a convolution on the CPU to check the GPU's result. Independent of descriptors
//! and the GPU.

mod compare;
mod convolution;
mod values;

pub use compare::{WrongResult, compare};
pub use convolution::convolve;
pub use values::{decode, encode, noise};
