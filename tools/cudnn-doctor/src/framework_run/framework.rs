//! Lists the supported frameworks.

/// A framework that the doctor can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Framework {
    /// PyTorch.
    #[value(alias = "pytorch")]
    Torch,
    /// JAX.
    Jax,
    /// TensorFlow.
    Tensorflow,
    /// ONNX Runtime.
    Onnxruntime,
    /// CTranslate2.
    Ctranslate2,
}

impl Framework {
    /// Returns the display name, the module name (also used on the command line), the package with CUDA support, and
    /// the script without the shared part.
    fn facts(self) -> [&'static str; 4] {
        match self {
            Framework::Torch => ["PyTorch", "torch", "torch", include_str!("torch.py")],
            Framework::Jax => ["JAX", "jax", "jax", include_str!("jax.py")],
            Framework::Tensorflow => ["TensorFlow", "tensorflow", "tensorflow", include_str!("tensorflow.py")],
            Framework::Onnxruntime => {
                ["ONNX Runtime", "onnxruntime", "onnxruntime-gpu", include_str!("onnxruntime.py")]
            }
            Framework::Ctranslate2 => ["CTranslate2", "ctranslate2", "ctranslate2", include_str!("ctranslate2.py")],
        }
    }

    pub(super) fn name(self) -> &'static str {
        let [name, ..] = self.facts();
        name
    }

    pub(super) fn module(self) -> &'static str {
        let [_, module, ..] = self.facts();
        module
    }

    /// Returns the name of the package with CUDA support.
    pub(super) fn wheel(self) -> &'static str {
        let [_, _, wheel, _] = self.facts();
        wheel
    }

    pub(super) fn script(self) -> &'static str {
        let [.., script] = self.facts();
        script
    }

    /// Returns a pip requirement for the framework with this CUDA major.
    pub(super) fn package(self, cuda_major: u32) -> String {
        match self {
            Framework::Jax => format!("jax[cuda{cuda_major}]"),
            Framework::Tensorflow => "tensorflow[and-cuda]".to_owned(),
            _ => self.wheel().to_owned(),
        }
    }

    /// Returns the CPU-only package that installs the same files as the CUDA package.
    pub(super) fn cpu_package(self) -> Option<&'static str> {
        match self {
            Framework::Tensorflow => Some("tensorflow-cpu"),
            Framework::Onnxruntime => Some("onnxruntime"),
            Framework::Torch | Framework::Jax | Framework::Ctranslate2 => None,
        }
    }
}
