//! Compares memory on the GPU, which is a thousand times as fast as copying it to the host.

use std::ffi::{CString, c_void};
use std::ptr::from_mut;

use cudarc::driver::DriverError;
use cudarc::driver::result::{launch_kernel, module};
use cudarc::driver::sys::{CUfunction, CUresult};

use super::{Gpu, Memory};

/// The kernel, which every driver for CUDA 9 or newer compiles.
const KERNEL: &str = concat!(include_str!("comparison.ptx"), "\0");
/// The threads of a block, and the maximum number of blocks.
const THREADS: u32 = 256;
const MAX_BLOCKS: u64 = 4096;
/// The number of bytes that a thread compares at once.
const WORD: usize = 4;

/// Compares memory on one GPU.
pub struct Comparer {
    function: CUfunction,
    /// The result of the kernel, a 4-byte number.
    found: Memory,
}

impl Comparer {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Returns an error if the driver cannot compile the kernel.
    pub fn new(gpu: &Gpu) -> Result<Self, DriverError> {
        gpu.context.bind_to_thread()?;
        let invalid = |_| DriverError(CUresult::CUDA_ERROR_INVALID_VALUE);
        let name = CString::new("differ").map_err(invalid)?;
        // SAFETY: the image is text that ends with a zero.
        let module = unsafe { module::load_data(KERNEL.as_ptr().cast()) }?;
        // SAFETY: the module is loaded, and never unloaded.
        let function = unsafe { module::get_function(module, name) }?;
        Ok(Comparer { function, found: gpu.zeroed(WORD)? })
    }

    /// Waits for the queued work. Returns whether all of these pairs of memory have the same bytes.
    ///
    /// # Errors
    /// Returns an error if the queued work has failed, if two sizes differ, or if a size is not a multiple of 4.
    pub fn are_equal<'m>(
        &mut self,
        gpu: &Gpu,
        pairs: impl IntoIterator<Item = (&'m Memory, &'m Memory)>,
    ) -> Result<bool, DriverError> {
        gpu.fill(&mut self.found, 0)?;
        for (one, other) in pairs {
            if one.len() != other.len() || !one.len().is_multiple_of(WORD) {
                return Err(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE));
            }
            self.compare(gpu, one, other)?;
        }
        Ok(gpu.download(&self.found)?.iter().all(|byte| *byte == 0))
    }

    fn compare(&self, gpu: &Gpu, one: &Memory, other: &Memory) -> Result<(), DriverError> {
        let mut addresses = [one.start(), other.start(), (one.len() / WORD) as u64, self.found.start()];
        let [one, other, words, found] = &mut addresses;
        let blocks = words.div_ceil(u64::from(THREADS)).clamp(1, MAX_BLOCKS) as u32;
        let mut parameters = [one, other, words, found].map(|parameter| from_mut(parameter).cast::<c_void>());
        let stream = gpu.stream.cu_stream();
        // SAFETY: the kernel has four parameters of 8 bytes, reads this number of words of both, and writes to `found`.
        unsafe { launch_kernel(self.function, (blocks, 1, 1), (THREADS, 1, 1), 0, stream, &mut parameters) }
    }
}
