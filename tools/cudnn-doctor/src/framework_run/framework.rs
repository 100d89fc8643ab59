//! Lists the frameworks that can be run.

/// A framework that can be run.
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
    /// The name, the module, which is also the name on the command line, the package with CUDA, and the program that makes
    /// its steps, without the part that all share.
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

    /// The name of the package with CUDA.
    pub(super) fn wheel(self) -> &'static str {
        let [_, _, wheel, _] = self.facts();
        wheel
    }

    pub(super) fn script(self) -> &'static str {
        let [.., script] = self.facts();
        script
    }

    /// The package with the framework and this CUDA, as pip takes it.
    pub(super) fn package(self, cuda_major: u32) -> String {
        match self {
            Framework::Jax => format!("jax[cuda{cuda_major}]"),
            Framework::Tensorflow => "tensorflow[and-cuda]".to_owned(),
            _ => self.wheel().to_owned(),
        }
    }

    /// The package without CUDA that owns the same files as the one with CUDA.
    pub(super) fn cpu_package(self) -> Option<&'static str> {
        match self {
            Framework::Tensorflow => Some("tensorflow-cpu"),
            Framework::Onnxruntime => Some("onnxruntime"),
            Framework::Torch | Framework::Jax | Framework::Ctranslate2 => None,
        }
    }
}
