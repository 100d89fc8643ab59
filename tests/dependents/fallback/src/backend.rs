//! The choice between cuDNN and the CPU, made once. Knows nothing of the command line.

use std::error::Error;
use std::fmt;

use cudnn_loader::{self as cudnn, Function, Options, Version};

/// What computes.
pub enum Backend {
    Cudnn {
        version: Version,
        handle: cudnn::cudnnHandle_t,
    },
    /// And why it is not cuDNN.
    Cpu {
        reason: String,
    },
}

impl Backend {
    /// cuDNN, if it is at least this one and has a GPU; the CPU otherwise.
    pub fn new(minimum: Version) -> Backend {
        match open(minimum) {
            Ok((version, handle)) => Backend::Cudnn { version, handle },
            Err(error) => Backend::Cpu { reason: error.to_string() },
        }
    }

    /// Nothing here is worth a GPU: the program is about the choice.
    pub fn relu(&self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|value| value.max(0.0)).collect()
    }
}

/// A version that is too old, a function that is missing, and a machine without a GPU are one kind of failure to a program
/// that has another way.
fn open(minimum: Version) -> Result<(Version, cudnn::cudnnHandle_t), Box<dyn Error>> {
    let installation = Options::new().minimum_version(minimum).load()?;
    Function::CudnnBackendExecute.resolve()?;
    let mut handle = std::ptr::null_mut();
    // SAFETY: the handle is valid for writes.
    unsafe { cudnn::check!(cudnn::cudnnCreate(&mut handle)) }?;
    Ok((installation.version, handle))
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backend::Cudnn { version, .. } => write!(f, "cuDNN {version}"),
            Backend::Cpu { reason } => write!(f, "CPU: {reason}"),
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Backend::Cudnn { handle, .. } = self {
            // SAFETY: the handle is live, and nothing uses it afterwards.
            let _ = unsafe { cudnn::cudnnDestroy(*handle) };
        }
    }
}
