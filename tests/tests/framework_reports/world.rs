//! Builds the files and packages of a situation, with the metadata, names and run paths of the real wheels.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use cudnn_probe::release_facts::has_library;
use serde_json::Value;
use support::{
    ExtensionLibrary, FakeLibrary, FakeNvml, Library, PythonEnvironment, PythonPackage, TempDir, Version, copy_fake_set,
};

/// The files of a situation, and the environment variables for all processes.
pub(super) struct World {
    pub(super) root: TempDir,
    pub(super) venv: PythonEnvironment,
    pub(super) variables: Mutex<Vec<(&'static str, PathBuf)>>,
}

impl World {
    pub(super) fn new() -> World {
        let root = TempDir::new();
        let venv = PythonEnvironment::venv(&root.path().join("venv")).pip();
        World { root, venv, variables: Mutex::default() }
    }

    pub(super) fn set(&self, name: &'static str, value: impl Into<PathBuf>) {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner).push((name, value.into()));
    }

    /// Creates a directory with a complete cuDNN.
    pub(super) fn cudnn(&self, below: &str, version: Version) -> PathBuf {
        let dir = self.root.path().join(below);
        std::fs::create_dir_all(&dir).unwrap();
        copy_fake_set(version, &dir);
        dir
    }

    /// Adds a GPU and a driver, as NVML reports them.
    pub(super) fn gpu(&self, driver: &'static str, gpu: &'static str, compute_capability: (u32, u32)) {
        let dir = self.root.path().join("driver");
        std::fs::create_dir(&dir).unwrap();
        FakeNvml { driver, gpu, compute_capability }.build(&dir);
        self.set("LD_LIBRARY_PATH", dir);
    }

    pub(super) fn doctor(&self, options: &[&str]) -> String {
        let output = self.command("frameworks").arg(self.venv.root()).args(options).output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns all findings of `check` in the active environment, and the exit status.
    pub(super) fn check(&self, options: &[&str]) -> (Vec<Value>, i32) {
        let mut command = self.command("check");
        let output =
            command.args(["--no-load", "--json"]).args(options).env("VIRTUAL_ENV", self.venv.root()).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document["findings"].as_array().unwrap().clone(), output.status.code().unwrap())
    }

    fn command(&self, command: &str) -> Command {
        let doctor = support::doctor();
        let variables = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        let mut started = Command::new(&doctor);
        // The commands name the doctor as the shell finds it.
        started.arg(command).env_clear().env("PATH", doctor.parent().unwrap());
        started.envs(variables.iter().map(|(name, value)| (name, value)));
        started
    }
}

pub(super) const V9_1_0: Version = Version::new(9, 1, 0);
pub(super) const V9_10_2: Version = Version::new(9, 10, 2);

pub(super) fn cudnn_wheel(venv: &PythonEnvironment, version: &str) {
    venv.package("nvidia-cudnn-cu12", version);
    let dir = venv.import_dir().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&dir).unwrap();
    copy_fake_set(release(version), &dir);
}

/// Returns the release of a wheel, such as 9.10.2 for `9.10.2.21`.
fn release(wheel_version: &str) -> Version {
    wheel_version.rsplit_once('.').unwrap().0.parse().unwrap()
}

pub(super) fn cublas_wheel(venv: &PythonEnvironment) {
    let mut package = venv.package("nvidia-cublas-cu12", "12.8.4.1");
    for name in ["libcublas.so.12", "libcublasLt.so.12"] {
        let path = format!("nvidia/cublas/lib/{name}");
        package = package.library(&path, &ExtensionLibrary::new().with_soname(name));
    }
}

/// Installs PyTorch's wheel for CUDA 12: the version file, the libraries with their RPATHs, and the requirements.
pub(super) fn torch(venv: &PythonEnvironment, version: &str, cuda: &str, cudnn: &str) -> PythonPackage {
    let beside = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cublas/lib:$ORIGIN";
    let library = || ExtensionLibrary::new().with_rpath(beside);
    venv.package("torch", version)
        .requires(&format!("nvidia-cudnn-cu12=={cudnn}; platform_system == \"Linux\""))
        .requires("nvidia-cublas-cu12==12.8.4.1; platform_system == \"Linux\"")
        .file(
            "torch/version.py",
            &format!("__version__ = '{version}+cu{}'\ncuda: Optional[str] = '{cuda}'\n", cuda.replace('.', "")),
        )
        .library(
            "torch/lib/libtorch_global_deps.so",
            &library().with_soname("libtorch_global_deps.so").needing("libcublas.so.12"),
        )
        .library(
            "torch/lib/libtorch_cuda.so",
            &library()
                .with_soname("libtorch_cuda.so")
                .needing("libcudnn.so.9")
                .needing("libcublas.so.12")
                .with_gpu_code(4, &["7.0", "7.5", "8.0", "8.6", "9.0"]),
        )
        .library(
            "torch/lib/libtorch_python.so",
            &library().with_soname("libtorch_python.so").needing("libtorch_cuda.so"),
        )
        .library(
            "torch/_C.cpython-312-x86_64-linux-gnu.so",
            &ExtensionLibrary::new().with_rpath("$ORIGIN/lib").needing("libtorch_python.so"),
        )
}

pub(super) fn cudnn_wheel_for_cuda_13(venv: &PythonEnvironment, version: &str) {
    venv.package("nvidia-cudnn-cu13", version);
    let version = release(version);
    let dir = venv.import_dir().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&dir).unwrap();
    for library in Library::ALL.iter().filter(|library| has_library(version, **library)) {
        FakeLibrary::new(*library, version).with_ptx(9).build(&dir.join(library.file_name()));
    }
}

pub(super) fn torch_for_cuda_13(venv: &PythonEnvironment, version: &str, cudnn: &str) {
    cudnn_wheel_for_cuda_13(venv, cudnn);
    let mut cublas = venv.package("nvidia-cublas", "13.1.0.3");
    for name in ["libcublas.so.13", "libcublasLt.so.13"] {
        cublas = cublas.library(&format!("nvidia/cu13/lib/{name}"), &ExtensionLibrary::new().with_soname(name));
    }
    let rpath = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cu13/lib:$ORIGIN";
    venv.package("torch", version)
        .requires(&format!("nvidia-cudnn-cu13=={cudnn}; platform_system == \"Linux\""))
        .requires("nvidia-cublas==13.1.0.3; platform_system == \"Linux\"")
        .file("torch/version.py", &format!("__version__ = '{version}+cu130'\ncuda: Optional[str] = '13.0'\n"))
        .library(
            "torch/lib/libtorch_cuda.so",
            &ExtensionLibrary::new()
                .with_rpath(rpath)
                .with_soname("libtorch_cuda.so")
                .needing("libcudnn.so.9")
                .needing("libcublas.so.13")
                .with_gpu_code(4, &["7.5", "8.0", "8.6", "9.0"]),
        );
}

pub(super) fn complete_torch(venv: &PythonEnvironment, version: &str, cuda: &str, cudnn: &str) {
    torch(venv, version, cuda, cudnn);
    cudnn_wheel(venv, cudnn);
    cublas_wheel(venv);
}

/// Installs CTranslate2's wheel with the bundled shim.
pub(super) fn ctranslate2(venv: &PythonEnvironment, version: &str, shim: &str) {
    let library = format!("libctranslate2-bc15bf3f.so.{version}");
    let extension = ExtensionLibrary::new().with_rpath("$ORIGIN/../ctranslate2.libs").needing(&library);
    venv.package("ctranslate2", version)
        .file("ctranslate2/version.py", &format!("__version__ = \"{version}\"\n"))
        .library("ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so", &extension)
        .library(
            &format!("ctranslate2.libs/{library}"),
            &ExtensionLibrary::new().with_soname(&library).needing(shim).with_text("libcublas.so.12"),
        )
        .library(
            &format!("ctranslate2.libs/{shim}"),
            &ExtensionLibrary::new().with_soname(shim).with_rpath("ctranslate2.libs"),
        );
}

pub(super) fn new_ctranslate2(venv: &PythonEnvironment) {
    let inner = "libctranslate2-bc15bf3f.so.4.8.5";
    venv.package("ctranslate2", "4.8.5")
        .library(
            "ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so",
            &ExtensionLibrary::new().with_rpath("$ORIGIN/../ctranslate2.libs").needing(inner),
        )
        .library(
            &format!("ctranslate2.libs/{inner}"),
            &ExtensionLibrary::new().with_soname(inner).with_text("libcublas.so.12"),
        );
}

/// Installs ONNX Runtime's wheel, with a CUDA provider that was linked without a run path.
pub(super) fn onnxruntime(venv: &PythonEnvironment, version: &str, cuda: &str, needs: &[&str]) {
    let provider = needs.iter().fold(ExtensionLibrary::new(), |library, name| library.needing(name));
    venv.package("onnxruntime-gpu", version)
        .file(
            "onnxruntime/capi/build_and_package_info.py",
            &format!("package_name = 'onnxruntime-gpu'\n__version__ = '{version}'\ncuda_version = '{cuda}'\n"),
        )
        .library("onnxruntime/capi/onnxruntime_pybind11_state.so", &ExtensionLibrary::new())
        .library("onnxruntime/capi/libonnxruntime_providers_cuda.so", &provider);
}

/// Installs TensorFlow's wheel with a RUNPATH, so LD_LIBRARY_PATH takes precedence.
pub(super) fn tensorflow(venv: &PythonEnvironment, version: &str, cudnn: &str) {
    let library = ExtensionLibrary::new()
        .with_soname("libtensorflow_framework.so.2")
        .with_runpath("$ORIGIN/../nvidia/cudnn/lib:$ORIGIN/../nvidia/cublas/lib");
    venv.package("tensorflow", version)
        .requires(&format!("nvidia-cudnn-cu12=={cudnn}; extra == \"and-cuda\""))
        .file(
            "tensorflow/python/platform/build_info.py",
            "build_info = collections.OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9'), \
             ('is_cuda_build', True)])\n",
        )
        .library("tensorflow/libtensorflow_framework.so.2", &library)
        .library("tensorflow/libtensorflow_cc.so.2", &ExtensionLibrary::new().with_soname("libtensorflow_cc.so.2"));
}

/// Installs the CUDA 12 wheels that JAX's plugin opens, except cuBLAS.
pub(super) fn cuda_wheels(venv: &PythonEnvironment) {
    for (module, name) in [
        ("cuda_runtime", "libcudart.so.12"),
        ("cusparse", "libcusparse.so.12"),
        ("cusolver", "libcusolver.so.11"),
        ("cufft", "libcufft.so.11"),
        ("cublas", "libcublas.so.12"),
        ("cublas", "libcublasLt.so.12"),
    ] {
        let file = venv.import_dir().join("nvidia").join(module).join("lib").join(name);
        ExtensionLibrary::new().with_soname(name).build(&file);
    }
}

pub(super) fn jax(venv: &PythonEnvironment, version: &str, cudnn: &str) {
    venv.package("jax", version);
    venv.package("jaxlib", version);
    venv.package("jax-cuda12-pjrt", version).library(
        "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
        &ExtensionLibrary::new().with_rpath("$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../nvidia/cudnn/lib"),
    );
    venv.package("jax-cuda12-plugin", version)
        .requires(&format!("jax-cuda12-pjrt=={version}"))
        .requires(&format!("nvidia-cudnn-cu12<10.0,>={cudnn}; sys_platform == \"linux\" and extra == \"with-cuda\""))
        .library("jax_cuda12_plugin/_versions.so", &ExtensionLibrary::new());
}

/// Returns the code and text of all findings except notes.
pub(super) fn codes(world: &World) -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
    let found = document["environments"][0]["findings"].as_array().unwrap();
    let serious = found.iter().filter(|finding| finding["severity"] != "note");
    serious.map(|finding| (finding["code"].as_str().unwrap().to_owned(), finding.to_string())).collect()
}

pub(super) fn commands(world: &World, code: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
    let found = document["environments"][0]["findings"].as_array().unwrap();
    let finding = found.iter().find(|finding| finding["code"] == code).unwrap();
    finding["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// Returns the codes of the findings, except notes, in a shell that has executed these lines.
pub(super) fn codes_after(world: &World, lines: &[String]) -> Vec<String> {
    let doctor = world.command("frameworks");
    let mut shell = Command::new("/bin/sh");
    let script = format!("{}\nexec \"$0\" frameworks \"$1\" --json", lines.join("\n"));
    shell.arg("-c").arg(script).arg(doctor.get_program()).arg(world.venv.root()).env_clear();
    shell.envs(doctor.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let document: Value = serde_json::from_slice(&shell.output().unwrap().stdout).unwrap();
    let found = document["environments"][0]["findings"].as_array().unwrap();
    let serious = found.iter().filter(|finding| finding["severity"] != "note");
    serious.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
pub(super) fn has(world: &World, expected: &[(&str, &[&str])]) {
    let found = codes(world);
    let names: Vec<&str> = found.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(names, expected.iter().map(|(code, _)| *code).collect::<Vec<_>>(), "{found:#?}");
    for ((_, text), (_, fragments)) in found.iter().zip(expected) {
        for fragment in *fragments {
            assert!(text.contains(fragment), "{fragment:?} is missing: {text}");
        }
    }
}

pub(super) fn drop_in(dir: &Path) {
    let file = dir.join("libcudnn.so.9");
    let _ = std::fs::remove_file(&file);
    std::fs::create_dir_all(dir).unwrap();
    FakeLibrary::new(Library::Shim, V9_10_2).with_code("int cudnnShimVersion(void) { return 0; }\n").build(&file);
}
