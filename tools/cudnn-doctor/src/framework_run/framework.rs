//! The frameworks that can be run, and what is particular to each.

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
    pub(super) fn name(self) -> &'static str {
        match self {
            Framework::Torch => "PyTorch",
            Framework::Jax => "JAX",
            Framework::Tensorflow => "TensorFlow",
            Framework::Onnxruntime => "ONNX Runtime",
            Framework::Ctranslate2 => "CTranslate2",
        }
    }

    /// The name of its module, and on the command line.
    pub(super) fn module(self) -> &'static str {
        match self {
            Framework::Torch => "torch",
            Framework::Jax => "jax",
            Framework::Tensorflow => "tensorflow",
            Framework::Onnxruntime => "onnxruntime",
            Framework::Ctranslate2 => "ctranslate2",
        }
    }

    /// The program that makes its steps, without the part that all share.
    pub(super) fn script(self) -> &'static str {
        match self {
            Framework::Torch => include_str!("torch.py"),
            Framework::Jax => include_str!("jax.py"),
            Framework::Tensorflow => include_str!("tensorflow.py"),
            Framework::Onnxruntime => include_str!("onnxruntime.py"),
            Framework::Ctranslate2 => include_str!("ctranslate2.py"),
        }
    }

    /// The package with the framework and this CUDA, as pip takes it.
    pub(super) fn package(self, cuda_major: u32) -> String {
        match self {
            Framework::Jax => format!("jax[cuda{cuda_major}]"),
            Framework::Tensorflow => "tensorflow[and-cuda]".to_owned(),
            Framework::Torch | Framework::Onnxruntime | Framework::Ctranslate2 => self.wheel().to_owned(),
        }
    }

    /// The name of that package alone.
    pub(super) fn wheel(self) -> &'static str {
        match self {
            Framework::Torch => "torch",
            Framework::Jax => "jax",
            Framework::Tensorflow => "tensorflow",
            Framework::Onnxruntime => "onnxruntime-gpu",
            Framework::Ctranslate2 => "ctranslate2",
        }
    }

    /// The packages without CUDA that own the same files as the one with CUDA.
    pub(super) fn cpu_packages(self) -> &'static [&'static str] {
        match self {
            Framework::Tensorflow => &["tensorflow-cpu"],
            Framework::Onnxruntime => &["onnxruntime"],
            Framework::Torch | Framework::Jax | Framework::Ctranslate2 => &[],
        }
    }
}
