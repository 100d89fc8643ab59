//! Lists the frameworks that the doctor can run.

/// A framework that the doctor can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnableFramework {
    /// PyTorch.
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

impl RunnableFramework {
    /// All frameworks that the doctor can run.
    pub const ALL: [RunnableFramework; 5] = [
        RunnableFramework::Torch,
        RunnableFramework::Jax,
        RunnableFramework::Tensorflow,
        RunnableFramework::Onnxruntime,
        RunnableFramework::Ctranslate2,
    ];

    /// Returns the display name, the module name (also used on the command line), the package with CUDA support, the
    /// extra with the libraries of CUDA, and the CPU-only package that installs the same files.
    fn facts(self) -> (&'static str, &'static str, &'static str, &'static str, Option<&'static str>) {
        match self {
            RunnableFramework::Torch => ("PyTorch", "torch", "torch", "", None),
            RunnableFramework::Jax => ("JAX", "jax", "jax", "[cuda{}]", None),
            RunnableFramework::Tensorflow => {
                ("TensorFlow", "tensorflow", "tensorflow", "[and-cuda]", Some("tensorflow-cpu"))
            }
            RunnableFramework::Onnxruntime => {
                ("ONNX Runtime", "onnxruntime", "onnxruntime-gpu", "", Some("onnxruntime"))
            }
            RunnableFramework::Ctranslate2 => ("CTranslate2", "ctranslate2", "ctranslate2", "", None),
        }
    }

    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Returns the name of the Python module, which the command line uses, too.
    pub fn module(self) -> &'static str {
        self.facts().1
    }

    pub(crate) fn wheel(self) -> &'static str {
        self.facts().2
    }

    /// Returns a pip requirement for the framework with this CUDA major.
    pub(crate) fn package(self, cuda_major: u32) -> String {
        let (.., package, extra, _) = self.facts();
        format!("{package}{}", extra.replace("{}", &cuda_major.to_string()))
    }

    /// Returns the CPU-only package that installs the same files as the CUDA package.
    pub(crate) fn cpu_package(self) -> Option<&'static str> {
        self.facts().4
    }
}
