//! The same convolution on the CPU, to check the GPU's result against, and the values to compute with. Knows nothing of
//! descriptors or the GPU.

mod compare;
mod convolution;
mod half;
mod values;

pub use compare::{WrongResult, compare};
pub use convolution::convolve;
pub use values::{decode, encode, noise};
