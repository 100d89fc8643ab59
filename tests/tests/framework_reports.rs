//! Eighteen problems that people reported to the trackers of frameworks. Each is an environment with the metadata, run
//! paths and names of the real packages; their libraries are stand-ins. `cudnn-doctor frameworks` must name the cause
//! and a remedy. docs/what-goes-wrong-with-frameworks.md has its output; `CUDNN_TESTS_WRITE=1` rewrites that file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use cudnn_probe::release_facts::has_library;
use serde_json::Value;
use support::{
    ExtensionLibrary, FakeLibrary, FakeNvml, Library, PythonEnvironment, PythonPackage, TempDir, Version,
    check_document, copy_fake_set,
};

/// A situation: what people saw and where, the environment, and what the doctor must say.
struct Situation {
    report: &'static str,
    title: &'static str,
    build: fn(&World),
    /// The code of each finding, with fragments of its text and help. There are no others of this severity or above.
    findings: &'static [(&'static str, &'static [&'static str])],
}

/// The files of a situation, and the environment variables of every process in it.
struct World {
    root: TempDir,
    venv: PythonEnvironment,
    variables: Mutex<Vec<(&'static str, PathBuf)>>,
}

impl World {
    fn new() -> World {
        let root = TempDir::new();
        let venv = PythonEnvironment::venv(&root.path().join("venv")).pip();
        World { root, venv, variables: Mutex::default() }
    }

    fn set(&self, name: &'static str, value: impl Into<PathBuf>) {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner).push((name, value.into()));
    }

    /// A directory below the root with a complete cuDNN.
    fn cudnn(&self, below: &str, version: Version) -> PathBuf {
        let dir = self.root.path().join(below);
        std::fs::create_dir_all(&dir).unwrap();
        copy_fake_set(version, &dir);
        dir
    }

    /// A GPU and a driver, as NVML reports them.
    fn gpu(&self, driver: &'static str, gpu: &'static str, compute_capability: (u32, u32)) {
        let dir = self.root.path().join("driver");
        std::fs::create_dir(&dir).unwrap();
        FakeNvml { driver, gpu, compute_capability }.build(&dir);
        self.set("LD_LIBRARY_PATH", dir);
    }

    fn doctor(&self, options: &[&str]) -> String {
        let doctor = support::doctor();
        let variables = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        let output = Command::new(&doctor)
            .arg("frameworks")
            .arg(self.venv.root())
            .args(options)
            .env_clear()
            // The commands name the doctor as the shell finds it.
            .env("PATH", doctor.parent().unwrap())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

const V9_1_0: Version = Version::new(9, 1, 0);
const V9_10_2: Version = Version::new(9, 10, 2);

/// The wheel of cuDNN for CUDA 12.
fn cudnn_wheel(venv: &PythonEnvironment, version: &str) {
    venv.package("nvidia-cudnn-cu12", version);
    let dir = venv.import_dir().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&dir).unwrap();
    let numbers: Vec<u32> = version.split('.').take(3).map(|number| number.parse().unwrap()).collect();
    copy_fake_set(Version::new(numbers[0], numbers[1], numbers[2]), &dir);
}

/// The wheel of cuBLAS for CUDA 12.
fn cublas_wheel(venv: &PythonEnvironment) {
    let mut package = venv.package("nvidia-cublas-cu12", "12.8.4.1");
    for name in ["libcublas.so.12", "libcublasLt.so.12"] {
        let path = format!("nvidia/cublas/lib/{name}");
        package = package.library(&path, &ExtensionLibrary::new().with_soname(name));
    }
}

/// PyTorch's wheel for CUDA 12: its version file, its libraries with their RPATHs, what it requires.
fn torch(venv: &PythonEnvironment, version: &str, cuda: &str, cudnn: &str) -> PythonPackage {
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

/// PyTorch's wheel for CUDA 13 with what it requires.
fn torch_for_cuda_13(venv: &PythonEnvironment) {
    let version = Version::new(9, 19, 0);
    venv.package("nvidia-cudnn-cu13", "9.19.0.56");
    let dir = venv.import_dir().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&dir).unwrap();
    for library in Library::ALL.iter().filter(|library| has_library(version, **library)) {
        FakeLibrary::new(*library, version).with_ptx(9).build(&dir.join(library.file_name()));
    }
    let mut cublas = venv.package("nvidia-cublas", "13.1.0.3");
    for name in ["libcublas.so.13", "libcublasLt.so.13"] {
        cublas = cublas.library(&format!("nvidia/cu13/lib/{name}"), &ExtensionLibrary::new().with_soname(name));
    }
    let rpath = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cu13/lib:$ORIGIN";
    venv.package("torch", "2.11.0")
        .requires("nvidia-cudnn-cu13==9.19.0.56; platform_system == \"Linux\"")
        .requires("nvidia-cublas==13.1.0.3; platform_system == \"Linux\"")
        .file("torch/version.py", "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n")
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

/// PyTorch with all that it requires.
fn complete_torch(venv: &PythonEnvironment, version: &str, cuda: &str, cudnn: &str) {
    torch(venv, version, cuda, cudnn);
    cudnn_wheel(venv, cudnn);
    cublas_wheel(venv);
}

/// CTranslate2's wheel with the shim that it contains.
fn ctranslate2(venv: &PythonEnvironment, version: &str, shim: &str) {
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

/// A wheel of CTranslate2 that does not use cuDNN.
fn new_ctranslate2(venv: &PythonEnvironment) {
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

/// ONNX Runtime's wheel, whose CUDA provider has no run path.
fn onnxruntime(venv: &PythonEnvironment, version: &str, cuda: &str, needs: &[&str]) {
    let provider = needs.iter().fold(ExtensionLibrary::new(), |library, name| library.needing(name));
    venv.package("onnxruntime-gpu", version)
        .file(
            "onnxruntime/capi/build_and_package_info.py",
            &format!("package_name = 'onnxruntime-gpu'\n__version__ = '{version}'\ncuda_version = '{cuda}'\n"),
        )
        .library("onnxruntime/capi/onnxruntime_pybind11_state.so", &ExtensionLibrary::new())
        .library("onnxruntime/capi/libonnxruntime_providers_cuda.so", &provider);
}

/// TensorFlow's wheel, whose RUNPATH comes after LD_LIBRARY_PATH.
fn tensorflow(venv: &PythonEnvironment, version: &str, cudnn: &str) {
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

/// The wheels of CUDA 12 that JAX's plugin opens, beside cuBLAS's.
fn cuda_wheels(venv: &PythonEnvironment) {
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

/// JAX's plugin for CUDA 12.
fn jax(venv: &PythonEnvironment, version: &str, cudnn: &str) {
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

const SITUATIONS: [Situation; 18] = [
    Situation {
        report: "faster-whisper#1182, CTranslate2#1826",
        title: "CTranslate2 contains a shim of cuDNN 9.1 whose libraries are in a wheel, beside PyTorch.",
        build: |world| {
            complete_torch(&world.venv, "2.6.0", "12.4", "9.1.0.70");
            ctranslate2(&world.venv, "4.5.0", "libcudnn-74a4c495.so.9.1.0");
        },
        findings: &[
            ("C070", &["CTranslate2 4.5.0 would not find libcudnn_", "export LD_LIBRARY_PATH="]),
            ("C074", &["CTranslate2 4.5.0 would not find libcublas.so.12", "export LD_LIBRARY_PATH="]),
        ],
    },
    Situation {
        report: "whisperX#901, faster-whisper#1080",
        title: "CTranslate2 4.4 is built for cuDNN 8; PyTorch has brought cuDNN 9.",
        build: |world| {
            complete_torch(&world.venv, "2.6.0", "12.4", "9.1.0.70");
            ctranslate2(&world.venv, "4.4.0", "libcudnn-463fd6d5.so.8.9.7");
        },
        findings: &[
            (
                "C070",
                &["CTranslate2 4.4.0 would not find libcudnn_ops_infer.so.8", "install CTranslate2 4.5.0 or newer"],
            ),
            ("C074", &["CTranslate2 4.4.0 would not find libcublas.so.12"]),
        ],
    },
    Situation {
        report: "tensorflow#60913",
        title: "TensorFlow 2.18 is built with cuDNN 9.3; PyTorch has brought 9.1.",
        build: |world| {
            complete_torch(&world.venv, "2.5.1", "12.4", "9.1.0.70");
            tensorflow(&world.venv, "2.18.1", "9.3.0.75");
        },
        findings: &[(
            "C071",
            &["TensorFlow 2.18.1 would load cuDNN 9.1.0, but accepts 9.3", "install nvidia-cudnn-cu12==9.3.0.75"],
        )],
    },
    Situation {
        report: "TransformerEngine#2373",
        title: "Transformer Engine searches CUDA_HOME first, which has an older cuDNN than the wheel.",
        build: |world| {
            cudnn_wheel(&world.venv, "9.12.0.46");
            let toolkit = world.cudnn("cuda/lib64", V9_1_0);
            world.set("CUDA_HOME", toolkit.parent().unwrap());
            let all = ["", "_graph", "_ops", "_cnn", "_adv", "_engines_precompiled", "_engines_runtime_compiled"];
            let library = all
                .iter()
                .fold(ExtensionLibrary::new(), |library, part| library.needing(&format!("libcudnn{part}.so.9")));
            world
                .venv
                .package("transformer_engine_cu12", "2.20.2")
                .library("transformer_engine/wheel_lib/libtransformer_engine.so", &library);
        },
        findings: &[("C071", &["Transformer Engine 2.20.2 would load cuDNN 9.1.0", "start it without CUDA_HOME"])],
    },
    Situation {
        report: "onnxruntime#21684",
        title: "ONNX Runtime's build for CUDA 11 in an environment with CUDA 12.",
        build: |world| {
            cublas_wheel(&world.venv);
            let cudnn = world.root.path().join("cudnn8");
            std::fs::create_dir(&cudnn).unwrap();
            for name in ["libcudnn.so.8", "libcudnn_ops_infer.so.8", "libcudnn_cnn_infer.so.8"] {
                ExtensionLibrary::new().with_soname(name).build(&cudnn.join(name));
            }
            world.set("LD_LIBRARY_PATH", cudnn);
            let needs = ["libcublasLt.so.11", "libcublas.so.11", "libcudnn.so.8"];
            onnxruntime(&world.venv, "1.18.1", "11.8", &needs);
        },
        findings: &[("C074", &["ONNX Runtime 1.18.1 would not find libcublasLt.so.11", "built for CUDA 11.8"])],
    },
    Situation {
        report: "onnxruntime#25609",
        title: "ONNX Runtime has no run path to the wheel of cuDNN that is installed.",
        build: |world| {
            cudnn_wheel(&world.venv, "9.10.2.21");
            onnxruntime(&world.venv, "1.22.0", "12.8", &["libcudnn.so.9"]);
        },
        findings: &[("C070", &["ONNX Runtime 1.22.0 would not find libcudnn.so.9", "export LD_LIBRARY_PATH="])],
    },
    Situation {
        report: "onnxruntime#22198",
        title: "ONNX Runtime 1.20 wants cuDNN 9; the environment has 8.",
        build: |world| {
            world
                .venv
                .package("nvidia-cudnn-cu12", "8.9.7.29")
                .library("nvidia/cudnn/lib/libcudnn.so.8", &ExtensionLibrary::new().with_soname("libcudnn.so.8"));
            onnxruntime(&world.venv, "1.20.2", "12.2", &["libcudnn.so.9"]);
        },
        findings: &[("C070", &["ONNX Runtime 1.20.2 would not find libcudnn.so.9", "nvidia-cudnn-cu12"])],
    },
    Situation {
        report: "onnxruntime#26996, ultralytics#21092",
        title: "onnxruntime was installed after onnxruntime-gpu, and has replaced its files.",
        build: |world| {
            world.gpu("580.65.06", "NVIDIA H200", (9, 0));
            onnxruntime(&world.venv, "1.22.0", "12.8", &[]);
            world.venv.package("onnxruntime", "1.22.0").file(
                "onnxruntime/capi/build_and_package_info.py",
                "package_name = 'onnxruntime'\n__version__ = '1.22.0'\n",
            );
        },
        findings: &[(
            "C079",
            &["built without GPU support", "uninstall", "--force-reinstall", "onnxruntime-gpu==1.22.0"],
        )],
    },
    Situation {
        report: "whisperX#1297",
        title: "An older cuDNN is on LD_LIBRARY_PATH: PyTorch's shim opens its libraries.",
        build: |world| {
            complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
            let older = world.cudnn("older", V9_1_0);
            world.set("LD_LIBRARY_PATH", older);
        },
        findings: &[("C072", &["PyTorch 2.8.0 would mix cuDNN 9.10.2", "9.1.0", "on LD_LIBRARY_PATH"])],
    },
    Situation {
        report: "pytorch#165812",
        title: "torch is in lib64, the wheel of cuDNN in lib: torch's RPATH misses it. CUDA is the system's.",
        build: |world| {
            let lib64 = world.venv.into_dir("lib64/python3.12/site-packages");
            torch(&lib64, "2.9.1", "12.8", "9.10.2.21");
            cudnn_wheel(&world.venv, "9.10.2.21");
            world.venv.package("nvidia-cublas-cu12", "12.8.4.1");
            let toolkit = world.root.path().join("cuda/lib64");
            for name in ["libcublas.so.12", "libcublasLt.so.12"] {
                ExtensionLibrary::new().with_soname(name).build(&toolkit.join(name));
            }
            world.set("LD_LIBRARY_PATH", toolkit);
        },
        findings: &[("C070", &["PyTorch 2.9.1 would not find libcudnn.so.9", "export LD_LIBRARY_PATH="])],
    },
    Situation {
        report: "sleap-nn#632",
        title: "PyTorch is installed without the packages that it requires.",
        build: |world| {
            torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
            cublas_wheel(&world.venv);
        },
        findings: &[
            ("C070", &["PyTorch 2.8.0 would not find libcudnn.so.9", "install nvidia-cudnn-cu12==9.10.2.21"]),
            ("C073", &["requires nvidia-cudnn-cu12==9.10.2.21", "not installed"]),
        ],
    },
    Situation {
        report: "jax#18032, jax#16078",
        title: "PyTorch was installed after JAX, and has replaced its cuDNN by an older one.",
        build: |world| {
            jax(&world.venv, "0.8.3", "9.8");
            cuda_wheels(&world.venv);
            complete_torch(&world.venv, "2.7.1", "12.6", "9.5.1.17");
        },
        findings: &[("C071", &["JAX 0.8.3 would load cuDNN 9.5.1, but accepts 9.8", "nvidia-cudnn-cu12"])],
    },
    Situation {
        report: "sglang PR 22719",
        title: "The files of cuDNN are deleted; pip regards the package as installed.",
        build: |world| {
            complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
            std::fs::remove_dir_all(world.venv.import_dir().join("nvidia/cudnn/lib")).unwrap();
        },
        findings: &[("C070", &["PyTorch 2.8.0 would not find libcudnn.so.9", "--force-reinstall"])],
    },
    Situation {
        report: "pytorch#167244, Kokoro-FastAPI#306",
        title: "PyTorch has no kernels for a new GPU.",
        build: |world| {
            world.gpu("580.65.06", "NVIDIA GeForce RTX 5090", (12, 0));
            complete_torch(&world.venv, "2.6.0", "12.4", "9.1.0.70");
        },
        findings: &[("C076", &["PyTorch 2.6.0 has no kernels for NVIDIA GeForce RTX 5090 (compute capability 12.0)"])],
    },
    Situation {
        report: "sglang#11395, pytorch PR 162531",
        title: "PyTorch for CUDA 13 with a driver for CUDA 12.",
        build: |world| {
            world.gpu("570.86.15", "NVIDIA H100", (9, 0));
            torch_for_cuda_13(&world.venv);
        },
        findings: &[("C075", &["PyTorch 2.11.0 is built for CUDA 13.0, which driver 570.86.15 does not run"])],
    },
    Situation {
        report: "tensorflow/docs PR 2251",
        title: "Another environment's cuDNN is on LD_LIBRARY_PATH, which comes before TensorFlow's RUNPATH.",
        build: |world| {
            cudnn_wheel(&world.venv, "9.10.2.21");
            tensorflow(&world.venv, "2.20.0", "9.3.0.75");
            let conda = world.cudnn("conda/lib", V9_1_0);
            world.set("LD_LIBRARY_PATH", conda);
        },
        findings: &[("C071", &["TensorFlow 2.20.0 would load cuDNN 9.1.0", "on LD_LIBRARY_PATH"])],
    },
    Situation {
        report: "jax#22416",
        title: "JAX's plugin is not of the release of jaxlib.",
        build: |world| {
            jax(&world.venv, "0.8.3", "9.8");
            cuda_wheels(&world.venv);
            cudnn_wheel(&world.venv, "9.10.2.21");
            std::fs::remove_dir_all(world.venv.import_dir().join("jaxlib-0.8.3.dist-info")).unwrap();
            world.venv.package("jaxlib", "0.7.2");
        },
        findings: &[("C073", &["JAX 0.8.3 requires jaxlib==0.8.3, but 0.7.2 is installed"])],
    },
    Situation {
        report: "faster-whisper#1080",
        title: "CTranslate2 opens cuBLAS by name, and ld.so does not find the wheel.",
        build: |world| {
            new_ctranslate2(&world.venv);
            cuda_wheels(&world.venv);
        },
        findings: &[("C074", &["CTranslate2 4.8.5 would not find libcublas.so.12", "export LD_LIBRARY_PATH="])],
    },
];

#[test]
fn the_doctor_names_the_cause_and_a_remedy() {
    let mut text = String::from(
        "# What goes wrong with frameworks\n\n\
         Problems that people have reported to the trackers of frameworks, each rebuilt as an environment with the\n\
         metadata, names and run paths of the real packages, and what `cudnn-doctor frameworks` prints. `…` is the\n\
         directory of the situation.\n\n\
         This command generates the page and compares it with what happens, on Linux x86-64 without a GPU. A fake NVML\n\
         reports the GPUs:\n\n\
         ```sh\ncargo test -p cudnn-tests --test framework_reports\n```\n",
    );
    for (index, situation) in SITUATIONS.iter().enumerate() {
        let world = World::new();
        (situation.build)(&world);
        let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
        let found = document["environments"][0]["findings"].as_array().unwrap();
        let printed = world.doctor(&[]);
        let serious: Vec<&str> = found
            .iter()
            .filter(|finding| finding["severity"] != "note")
            .map(|finding| finding["code"].as_str().unwrap())
            .collect();
        let expected: Vec<&str> = situation.findings.iter().map(|(code, _)| *code).collect();
        assert_eq!(serious, expected, "{}: {printed}", situation.title);
        for (code, fragments) in situation.findings {
            let finding = found.iter().find(|finding| finding["code"] == *code).unwrap();
            assert!(finding["help"].is_string(), "{finding:#}");
            let all = finding.to_string();
            for fragment in *fragments {
                assert!(all.contains(fragment), "{fragment:?} is missing: {finding:#}");
            }
        }
        let clean = printed.replace(&world.root.path().display().to_string(), "…");
        let lines = clean.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let lines: String = lines.map(|line| format!("    {line}\n")).collect();
        text += &format!("\n## {}. {}\n\nReported as {}.\n\n{lines}", index + 1, situation.title, situation.report);
    }
    check_document("docs/what-goes-wrong-with-frameworks.md", &text);
}

/// An environment in which all is well has no finding, with and without a GPU.
#[test]
fn the_doctor_is_silent_where_nothing_is_wrong() {
    let world = World::new();
    complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
    jax(&world.venv, "0.8.3", "9.8");
    cuda_wheels(&world.venv);
    world.gpu("580.65.06", "NVIDIA H200", (9, 0));
    // It does not use cuDNN.
    new_ctranslate2(&world.venv);
    ExtensionLibrary::new().with_soname("libcublas.so.12").build(&world.root.path().join("driver/libcublas.so.12"));
    let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
    let environment = &document["environments"][0];
    assert_eq!(environment["findings"], Value::Array(Vec::new()), "{document:#}");
    let ids: Vec<&str> =
        environment["frameworks"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["torch", "jax", "ctranslate2"]);
    assert_eq!(environment["frameworks"][0]["loads"][0]["version"], V9_10_2.to_string(), "{document:#}");
}

/// The findings in this world, but for notes, and each as text.
fn codes(world: &World) -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
    let found = document["environments"][0]["findings"].as_array().unwrap();
    let serious = found.iter().filter(|finding| finding["severity"] != "note");
    serious.map(|finding| (finding["code"].as_str().unwrap().to_owned(), finding.to_string())).collect()
}

#[track_caller]
fn has(world: &World, expected: &[(&str, &[&str])]) {
    let found = codes(world);
    let names: Vec<&str> = found.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(names, expected.iter().map(|(code, _)| *code).collect::<Vec<_>>(), "{found:#?}");
    for ((_, text), (_, fragments)) in found.iter().zip(expected) {
        for fragment in *fragments {
            assert!(text.contains(fragment), "{fragment:?} is missing: {text}");
        }
    }
}

/// Puts the drop-in in place of the shim in this directory.
fn drop_in(dir: &Path) {
    let file = dir.join("libcudnn.so.9");
    let _ = std::fs::remove_file(&file);
    std::fs::create_dir_all(dir).unwrap();
    FakeLibrary::new(Library::Shim, V9_10_2).with_code("int cudnnShimVersion(void) { return 0; }\n").build(&file);
}

#[test]
fn what_the_drop_in_loads_is_judged() {
    let torch_with = |fill: &dyn Fn(&Path)| {
        let world = World::new();
        complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
        let dir = world.venv.import_dir().join("nvidia/cudnn/lib");
        fill(&dir);
        drop_in(&dir);
        world
    };
    let refill = |dir: &Path, version: Version, ptx: u16| {
        std::fs::remove_dir_all(dir).unwrap();
        std::fs::create_dir_all(dir).unwrap();
        for library in Library::ALL.iter().filter(|library| has_library(version, **library)) {
            FakeLibrary::new(*library, version).with_ptx(ptx).build(&dir.join(library.file_name()));
        }
    };
    has(&torch_with(&|_| {}), &[]);
    let older = torch_with(&|dir| refill(dir, V9_1_0, 8));
    let texts: &[&str] = &["would load cuDNN 9.1.0", "install --force-reinstall", "put the drop-in in its place again"];
    has(&older, &[("C071", texts)]);
    let other_cuda = torch_with(&|dir| refill(dir, V9_10_2, 9));
    has(&other_cuda, &[("C071", &["would load a cuDNN for CUDA 13", "selected by the drop-in"])]);
    let named = torch_with(&|_| {});
    named.set("CUDNN_LOADER_DIR", named.cudnn("older", V9_1_0));
    has(&named, &[("C071", &["would load cuDNN 9.1.0", "unset CUDNN_LOADER_DIR"])]);
    // LD_PRELOAD has it, and no cuDNN is there.
    let none = World::new();
    torch(&none.venv, "2.8.0", "12.8", "9.10.2.21");
    cublas_wheel(&none.venv);
    let preload = none.root.path().join("preload");
    drop_in(&preload);
    none.set("LD_PRELOAD", preload.join("libcudnn.so.9"));
    let texts: &[&str] = &["would not find libcudnn_graph.so.9", "install nvidia-cudnn-cu12==9.10.2.21"];
    has(&none, &[("C070", texts), ("C073", &[])]);
}

/// A virtual environment imports the base Python's PyTorch, whose run path does not lead into the virtual environment.
#[test]
fn cudnn_is_installed_where_the_framework_searches() {
    let world = World::new();
    let base = PythonEnvironment::at(&world.root.path().join("base"), "lib/python3.12/site-packages").python3().pip();
    PythonEnvironment::venv_of(world.venv.root(), base.root(), true);
    torch(&base, "2.8.0", "12.8", "9.10.2.21");
    cudnn_wheel(&base, "9.1.0.70");
    cublas_wheel(&base);
    let command = format!("{}/pip install nvidia-cudnn-cu12==9.10.2.21", base.import_dir().display());
    has(&world, &[("C071", &[&command]), ("C073", &[&command])]);
}

/// Another user's Python is not missing: a command that makes the environment again would remove its packages.
#[test]
fn a_python_that_this_user_may_not_read_is_not_missing() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let world = World::new();
    let closed = PythonEnvironment::at(&world.root.path().join("closed"), "lib/python3.12/site-packages").python3();
    let python = world.venv.root().join("bin/python3");
    std::fs::remove_file(&python).unwrap();
    symlink(closed.root().join("bin/python3"), &python).unwrap();
    torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
    cudnn_wheel(&world.venv, "9.1.0.70");
    cublas_wheel(&world.venv);
    let mode = |dir: &Path, mode: u32| std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(world.root.path(), 0o755);
    mode(closed.root(), 0);
    let mut command = Command::new(support::doctor());
    command.arg("frameworks").arg(world.venv.root()).env_clear();
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    mode(closed.root(), 0o700);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("C071") && text.contains("this user may not read the Python of"), "{output:?}");
    assert!(!text.contains("rm -") && !text.contains("-m venv"), "{text}");
    let pip = format!("sudo {} -I -m pip install nvidia-cudnn-cu12==9.10.2.21", python.display());
    assert_eq!(text.contains(&pip), is_root, "{text}");
}

/// Packages that most environments have: metadata, a record, modules.
fn other_packages(venv: &PythonEnvironment, count: usize) {
    for index in 0..count {
        let mut package = venv.package(&format!("package-{index}"), "1.2.3");
        for line in 0..20 {
            package = package.metadata(&format!("Requires-Dist: package-{line}>=1.0; python_version >= \"3.9\""));
        }
        for file in 0..40 {
            package = package.file(&format!("package_{index}/module_{file}.py"), "");
        }
        let library = ExtensionLibrary::new();
        package.library(&format!("package_{index}/_core.cpython-312-x86_64-linux-gnu.so"), &library);
    }
}

/// All nine frameworks, and nothing wrong. PyTorch's library with the kernels has a gigabyte.
fn all_frameworks(world: &World) {
    let venv = &world.venv;
    complete_torch(venv, "2.8.0", "12.8", "9.10.2.21");
    let kernels = ExtensionLibrary::new()
        .with_soname("libtorch_cuda.so")
        .with_rpath("$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cublas/lib:$ORIGIN")
        .needing("libcudnn.so.9")
        .needing("libcublas.so.12")
        .with_padding(1 << 30)
        .with_gpu_code(2000, &["7.0", "7.5", "8.0", "8.6", "9.0"]);
    write_sparse(&venv.import_dir().join("torch/lib/libtorch_cuda.so"), &kernels.bytes());
    tensorflow(venv, "2.20.0", "9.3.0.75");
    jax(venv, "0.8.3", "9.8");
    cuda_wheels(venv);
    onnxruntime(venv, "1.22.0", "12.8", &["libcudnn.so.9"]);
    new_ctranslate2(venv);
    venv.package("cupy-cuda12x", "14.2.0")
        .file("cupy/.data/_wheel.json", r#"{"cuda": "12.x", "packaging": "pip"}"#)
        .library("cupy_backends/cuda/libs/nvrtc.cpython-312-x86_64-linux-gnu.so", &ExtensionLibrary::new());
    let beside = ExtensionLibrary::new().with_runpath("$ORIGIN/../../nvidia/cudnn/lib");
    venv.package("paddlepaddle-gpu", "3.0.0")
        .file("paddle/version/__init__.py", "cuda_version = '12.6'\ncudnn_version = '9.5.1'\n")
        .library("paddle/libs/libphi.so", &beside)
        .library("paddle/base/libpaddle.so", &beside);
    venv.package("tensorrt-cu12-libs", "10.9.0.34")
        .library("tensorrt_libs/libnvinfer.so.10", &ExtensionLibrary::new().with_soname("libnvinfer.so.10"));
    venv.package("transformer_engine_cu12", "2.2.0")
        .library("transformer_engine/libtransformer_engine.so", &ExtensionLibrary::new().needing("libcudnn.so.9"));
    let dirs = ["cudnn", "cublas"].map(|module| venv.import_dir().join("nvidia").join(module).join("lib"));
    world.set("LD_LIBRARY_PATH", PathBuf::from(std::env::join_paths(dirs).unwrap()));
}

/// Writes a file without its zeros.
fn write_sparse(file: &Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    const BLOCK_LEN: usize = 1 << 16;
    let written = std::fs::File::create(file).unwrap();
    written.set_len(bytes.len() as u64).unwrap();
    for (index, block) in bytes.chunks(BLOCK_LEN).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
        written.write_all_at(block, (index * BLOCK_LEN) as u64).unwrap();
    }
}

/// docs/measurements/frameworks-check.md has its numbers.
#[test]
#[ignore = "a measurement of a release build: see docs/measurements/frameworks-check.md"]
fn check_is_quick_in_an_environment_with_all_frameworks() {
    const ROUNDS: usize = 20;
    const MAX_MS: f64 = 150.0;
    let world = World::new();
    all_frameworks(&world);
    let count = std::fs::read_dir(world.venv.import_dir()).unwrap().flatten();
    let count = count.filter(|entry| entry.path().extension().is_some_and(|name| name == "dist-info")).count();
    other_packages(&world.venv, 300 - count);
    for (name, gpu) in [("without a GPU", false), ("with a GPU", true)] {
        if gpu {
            let dir = world.root.path().join("driver");
            std::fs::create_dir(&dir).unwrap();
            FakeNvml { driver: "580.65.06", gpu: "NVIDIA H200", compute_capability: (9, 0) }.build(&dir);
            let mut variables = world.variables.lock().unwrap_or_else(PoisonError::into_inner);
            let (_, path) = variables.first_mut().unwrap();
            let dirs: Vec<PathBuf> = std::env::split_paths(path.as_os_str()).chain([dir]).collect();
            *path = std::env::join_paths(dirs).unwrap().into();
        }
        for options in [&["check", "--json"][..], &["check", "--no-load", "--json"]] {
            let mut command = Command::new("/bin/sh");
            command
                .args(["-c", "\"$@\"; grep rchar /proc/$$/io >&2", "sh"])
                .arg(support::doctor())
                .args(options)
                .env_clear()
                .env("VIRTUAL_ENV", world.venv.root())
                .envs(world.variables.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
            let output = command.output().unwrap();
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let codes = document["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap());
            let codes: Vec<&str> = codes.filter(|code| *code >= "C070").collect();
            assert!(codes.is_empty(), "{document:#}");
            let mut times: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let start = std::time::Instant::now();
                    command.output().unwrap();
                    start.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let median = times[ROUNDS / 2];
            let read = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            println!("{name}, {options:?}: {median:.1} ms ({:.1} to {:.1}), {read}", times[0], times[ROUNDS - 1]);
            assert!(cfg!(debug_assertions) || median < MAX_MS, "{times:?}");
        }
    }
}
