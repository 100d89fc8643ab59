//! Stand-ins for frameworks, with the metadata and version files of real wheels, and libraries with the same
//! dependencies.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};

use cudnn_frameworks::{Environment, Framework, OpenedFile, Survey, survey};
use cudnn_probe::Host;
use cudnn_probe::release_facts::has_library;
use support::{ExtensionLibrary, FakeLibrary, Library, PythonEnvironment, TempDir, Version};

/// A virtual environment on an otherwise empty machine.
pub(crate) struct Machine {
    dir: TempDir,
    pub(crate) environment: PythonEnvironment,
    pub(crate) host: Host,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new();
        let environment = PythonEnvironment::venv(&dir.path().join("venv"));
        let host = Host::sandbox(dir.path().join("root"));
        Machine { dir, environment, host }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<Path>) -> Self {
        self.host = self.host.env(name, value.as_ref());
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn site(&self, path: &str) -> PathBuf {
        self.environment.import_dir().join(path)
    }

    pub(crate) fn survey(&self) -> Survey {
        survey(&Environment::at(self.environment.root(), &self.host), &self.host)
    }

    /// Installs a cuDNN 9 as its wheel does.
    pub(crate) fn cudnn(self, version: Version) -> Self {
        cudnn(&self.site("nvidia/cudnn/lib"), version);
        self
    }

    /// Installs the CUDA runtime as its wheel does.
    pub(crate) fn cudart(self) -> Self {
        let file = self.site("nvidia/cuda_runtime/lib/libcudart.so.12");
        ExtensionLibrary::new().with_soname("libcudart.so.12").build(&file);
        self
    }

    /// Installs PyTorch for CUDA 12.8.
    pub(crate) fn torch(self, version: &str) -> Self {
        let near = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cuda_runtime/lib:$ORIGIN";
        let library = |needs: &[&str]| {
            needs.iter().fold(ExtensionLibrary::new().with_rpath(near), |library, name| library.needing(name))
        };
        self.environment
            .package("torch", version)
            .requires("nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"")
            .file("torch/version.py", "cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n")
            .library(
                "torch/_C.cpython-312-x86_64-linux-gnu.so",
                &ExtensionLibrary::new().with_rpath("$ORIGIN/lib").needing("libtorch_python.so"),
            )
            .library("torch/lib/libtorch_global_deps.so", &library(&["libcudart.so.12"]))
            .library(
                "torch/lib/libtorch_python.so",
                &library(&["libtorch_cuda.so", "libcudnn.so.9"]).with_soname("libtorch_python.so"),
            )
            .library(
                "torch/lib/libtorch_cuda.so",
                &library(&["libcudnn.so.9", "libcudart.so.12"])
                    .with_soname("libtorch_cuda.so")
                    .with_gpu_code(8, &["8.0", "9.0"])
                    .with_gpu_code(1, &["3.5"]),
            );
        self
    }

    /// Installs a release of ONNX Runtime that is linked to cuDNN or opens it by name.
    pub(crate) fn onnxruntime(self, version: &str, is_linked: bool) -> Self {
        let provider = ExtensionLibrary::new();
        let provider = if is_linked { provider.needing("libcudnn.so.9") } else { provider.with_text("libcudnn.so") };
        self.environment
            .package("onnxruntime-gpu", version)
            .file(
                "onnxruntime/capi/build_and_package_info.py",
                "package_name = 'onnxruntime-gpu'\n__version__ = '1.22.0'\ncuda_version = '12.2'\n",
            )
            .library("onnxruntime/capi/libonnxruntime_providers_cuda.so", &provider);
        self
    }

    /// Installs CTranslate2 with a copy of the 9.1.0 shim, or without cuDNN.
    pub(crate) fn ctranslate2(self, version: &str, has_shim: bool) -> Self {
        const SHIM: &str = "libcudnn-74a4c495.so.9.1.0";
        let inner = ExtensionLibrary::new().with_soname("libctranslate2-bc15bf3f.so.4");
        let inner = if has_shim { inner.needing(SHIM) } else { inner.with_text("libcublas.so.12") };
        let package = self
            .environment
            .package("ctranslate2", version)
            .library(
                "ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so",
                &ExtensionLibrary::new()
                    .with_rpath("$ORIGIN/../ctranslate2.libs")
                    .needing("libctranslate2-bc15bf3f.so.4"),
            )
            .library("ctranslate2.libs/libctranslate2-bc15bf3f.so.4", &inner);
        if has_shim {
            let shim = ExtensionLibrary::new().with_soname(SHIM).with_rpath("ctranslate2.libs");
            package.library(&format!("ctranslate2.libs/{SHIM}"), &shim);
        }
        self
    }

    /// Installs JAX's plugin for CUDA 12, with a run path to the wheels.
    pub(crate) fn jax(self) -> Self {
        self.environment
            .package("jax-cuda12-plugin", "0.12.0.1")
            .requires("nvidia-cudnn-cu12<10.0,>=9.10.2.21; sys_platform == \"linux\" and extra == \"with-cuda\"")
            .library(
                "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
                &ExtensionLibrary::new().with_rpath("$ORIGIN/../../nvidia/cudnn/lib").with_text("cudnnCreate"),
            );
        self
    }

    /// Installs TensorFlow, with a RUNPATH.
    pub(crate) fn tensorflow(self) -> Self {
        self.environment
            .package("tensorflow", "2.19.1")
            .requires("nvidia-cudnn-cu12==9.3.0.75; extra == \"and-cuda\"")
            .file(
                "tensorflow/python/platform/build_info.py",
                "build_info = collections.OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9'), \
                 ('is_cuda_build', True)])\n",
            )
            .library(
                "tensorflow/libtensorflow_framework.so.2",
                &ExtensionLibrary::new()
                    .with_soname("libtensorflow_framework.so.2")
                    .with_runpath("$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../nvidia/cudnn/lib"),
            );
        self
    }
}

/// Creates a cuDNN 9 with a RUNPATH in the shim, like NVIDIA's up to 9.21.0.
pub(crate) fn cudnn(dir: &Path, version: Version) {
    std::fs::create_dir_all(dir).unwrap();
    FakeLibrary::new(Library::Graph, version).build(&dir.join("libcudnn_graph.so.9"));
    let others = Library::ALL.iter().filter(|library| **library != Library::Graph && has_library(version, **library));
    for library in others {
        let name = library.file_name();
        let file = ExtensionLibrary::new().with_soname(name).with_runpath("$ORIGIN");
        let file = if *library == Library::Shim { file } else { file.needing("libcudnn_graph.so.9") };
        file.build(&dir.join(name));
    }
}

pub(crate) fn framework<'a>(survey: &'a Survey, id: &str) -> &'a Framework {
    let ids: Vec<&str> = survey.frameworks.iter().map(|framework| framework.kind.id).collect();
    survey.frameworks.iter().find(|framework| framework.kind.id == id).unwrap_or_else(|| panic!("no {id} in {ids:?}"))
}

pub(crate) fn file<'a>(framework: &'a Framework, name: &str) -> &'a OpenedFile {
    let opened = &framework.opens.cudnn;
    opened.iter().find(|opened| opened.name == name).unwrap_or_else(|| panic!("no {name} in {opened:?}"))
}

pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    std::fs::canonicalize(a).unwrap() == std::fs::canonicalize(b).unwrap()
}
