//! Uses a recent enough cuDNN with a GPU, and otherwise falls back to the CPU and prints the reason.
//!
//! `cargo run -p cudnn-loader --example cpu_fallback [MINIMUM_VERSION]`

use std::error::Error;

use cudnn_loader::{self as cudnn, Function, Options, Version};

fn main() -> Result<(), Box<dyn Error>> {
    let minimum = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => Version::new(9, 1, 0),
    };
    let backend = match Cudnn::open(minimum) {
        Ok(cudnn) => Backend::Cudnn(cudnn),
        Err(reason) => {
            println!("CPU: {reason}");
            Backend::Cpu
        }
    };
    println!("relu: {:?}", backend.relu(&[-2.0, -0.5, 0.0, 3.0]));
    Ok(())
}

/// The place where the program computes, which is selected once.
enum Backend {
    Cudnn(Cudnn),
    Cpu,
}

impl Backend {
    fn relu(&self, values: &[f32]) -> Vec<f32> {
        if let Backend::Cudnn(cudnn) = self {
            // A real program would call `cudnnBackendExecute` here: see the examples of the crate cudnn-backend.
            println!("cuDNN {} with the handle {:?}", cudnn.version, cudnn.handle);
        }
        values.iter().map(|value| value.max(0.0)).collect()
    }
}

/// A usable cuDNN with a handle.
struct Cudnn {
    version: Version,
    handle: cudnn::cudnnHandle_t,
}

impl Cudnn {
    /// Fails if cuDNN is missing, too old or damaged, or if there is no GPU. The fallback handles all of them alike.
    fn open(minimum: Version) -> Result<Self, Box<dyn Error>> {
        let installation = Options::new().minimum_version(minimum).load()?;
        // Loads the library now. A damaged file is then found before the computation starts.
        Function::CudnnBackendExecute.resolve()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is valid for writes.
        unsafe { cudnn::check!(cudnn::cudnnCreate(&mut handle)) }?;
        Ok(Cudnn { version: installation.version, handle })
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used again.
        let _ = unsafe { cudnn::cudnnDestroy(self.handle) };
    }
}
