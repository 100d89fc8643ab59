//! The GPU and its memory, by the driver's API, which is loaded when it is there. Knows nothing of cuDNN.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DriverError};

use super::Failure;

pub(crate) struct Gpu {
    pub(crate) name: String,
    /// The default one, which a handle has too: what is freed waits for what is queued.
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) context: Arc<CudaContext>,
}

impl Gpu {
    /// Is the driver's library here?
    pub(crate) fn has_driver() -> bool {
        // SAFETY: the driver's library is opened, as every CUDA program does.
        unsafe { cudarc::driver::sys::is_culib_present() }
    }

    /// The first GPU, or why there is none.
    pub(crate) fn first() -> Result<Gpu, String> {
        if !Gpu::has_driver() {
            return Err("libcuda.so.1, the driver's library, is not here".into());
        }
        let first = || -> Result<Option<Gpu>, DriverError> {
            if CudaContext::device_count()? == 0 {
                return Ok(None);
            }
            let context = CudaContext::new(0)?;
            Ok(Some(Gpu { name: context.name()?, stream: context.default_stream(), context }))
        };
        match first() {
            Ok(Some(gpu)) => Ok(gpu),
            Ok(None) => Err("the driver sees no device".into()),
            Err(error) => Err(format!("the driver says {error:?}")),
        }
    }

    /// Memory with these bytes in it.
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<Memory, Failure> {
        let slice = self.stream.clone_htod(bytes)?;
        let address = slice.device_ptr(&self.stream).0 as usize;
        Ok(Memory { slice, address })
    }

    /// Memory of this size.
    pub(crate) fn room(&self, bytes: usize) -> Result<Memory, Failure> {
        let slice = self.stream.alloc_zeros(bytes.max(1))?;
        let address = slice.device_ptr(&self.stream).0 as usize;
        Ok(Memory { slice, address })
    }

    /// A null pointer.
    pub(crate) fn nothing(&self) -> Result<Memory, Failure> {
        Ok(Memory { address: 0, ..self.room(1)? })
    }

    pub(crate) fn download(&self, memory: &Memory) -> Result<Vec<u8>, Failure> {
        Ok(self.stream.clone_dtoh(&memory.slice)?)
    }

    /// How long each run takes, in milliseconds, when they are queued one behind the other and find their data in the cache:
    /// the least of a few rounds. Below some hundredth of a millisecond it is what queueing costs.
    pub(crate) fn time(&self, runs: u32, mut run: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
        run()?;
        let event = || self.context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let (start, end) = (event()?, event()?);
            start.record(&self.stream)?;
            for _ in 0..runs {
                run()?;
            }
            end.record(&self.stream)?;
            least = least.min(f64::from(start.elapsed_ms(&end)?) / f64::from(runs));
        }
        Ok(least)
    }
}

pub(crate) struct Memory {
    slice: CudaSlice<u8>,
    address: usize,
}

impl Memory {
    /// So many bytes further on.
    pub(crate) fn behind(self, bytes: usize) -> Self {
        Memory { address: self.address + bytes, ..self }
    }

    pub(crate) fn address(&self) -> *const c_void {
        self.address as *const c_void
    }
}
