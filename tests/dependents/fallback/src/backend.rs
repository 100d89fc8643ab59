//! Chooses between cuDNN and the CPU once. Independent of the command line.

use std::error::Error;
use std::fmt;

use cudnn_loader::{self as cudnn, Function, Options, Version};

/// A way to compute.
pub enum Backend {
    Cudnn {
        version: Version,
        handle: cudnn::cudnnHandle_t,
    },
    /// The reason why cuDNN is not used.
    Cpu {
        reason: String,
    },
}

impl Backend {
    /// Uses cuDNN if it has at least this version and finds a GPU, otherwise the CPU.
    pub fn new(minimum: Version) -> Backend {
        match open(minimum) {
            Ok((version, handle)) => Backend::Cudnn { version, handle },
            Err(error) => Backend::Cpu { reason: error.to_string() },
        }
    }

    /// Always computes on the CPU, because this program only demonstrates the choice.
    pub fn relu(&self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|value| value.max(0.0)).collect()
    }
}

/// Treats an old version, a missing function, and a machine without a GPU alike, because the program has a fallback for
/// all of them.
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
            // SAFETY: the handle is live and not used again.
            let _ = unsafe { cudnn::cudnnDestroy(*handle) };
        }
    }
}
