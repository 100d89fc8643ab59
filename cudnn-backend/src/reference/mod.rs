//! Computes the same convolution on the CPU to check the GPU's result, and provides the input values. Independent of
//! descriptors and the GPU.

mod compare;
mod convolution;
mod values;

pub use compare::{WrongResult, compare};
pub use convolution::convolve;
pub use values::{decode, encode, noise};
