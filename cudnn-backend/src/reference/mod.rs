//! Provides input values, and computes convolutions on the CPU. Independent of descriptors and the GPU.

mod compare;
mod convolution;
mod values;

pub use compare::compare;
pub use convolution::convolve;
pub use values::{decode, encode, noise};
