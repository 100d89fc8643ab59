//! The rows of the table. Each was read from the wheels of the releases that it names.

use super::{ByName, Comparison, Dlls, FindsWheels, Kind, OnWindows, PythonStep, VersionFile, Wheel};

/// What most rows have.
const ROW: Kind = Kind {
    name: "",
    id: "",
    packages: &[],
    fallback_packages: &[],
    rocm_packages: &[],
    rocm_library: None,
    conda_packages: &[],
    cpu_packages: &[],
    module: "",
    version_file: VersionFile::None,
    libraries: &[],
    also_opens: &[],
    always_there: &[],
    kernels: None,
    compiles_at_run_time: false,
    opens_first: &[],
    opens_by_name: None,
    opens_cuda: &[],
    on_windows: OnWindows::Unexamined,
    finds_wheels: None,
    same_version: &[],
    is_cudnn_optional: false,
    comparison: Comparison::Major,
};

/// All known frameworks.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "PyTorch",
        id: "torch",
        packages: &["torch"],
        rocm_library: Some("lib/libtorch_hip.so"),
        conda_packages: &["pytorch", "libtorch"],
        module: "torch",
        version_file: VersionFile::Assignments { path: "version.py", cuda: "cuda", cudnn: "" },
        libraries: &["_C.*so", "lib/libtorch_python.so", "lib/libtorch_cuda.so"],
        also_opens: &["lib/libtorch_global_deps.so"],
        always_there: &["lib/libtorch*.so"],
        kernels: Some("lib/libtorch_cuda.so"),
        opens_first: &[PythonStep::Dependencies {
            file: "lib/libtorch_global_deps.so",
            // 2.9 and 2.11 were read; 2.10 is taken to be as 2.9.
            on_success: &[((2, 11), TORCH_WHEELS), ((2, 5), TORCH_COMPILERS)],
            on_failure: TORCH_WHEELS,
        }],
        // Its `__init__.py` opens all DLLs of `lib`, those of cuDNN and CUDA among them. Read in its repository; no
        // wheel for CUDA was examined.
        on_windows: OnWindows::Dlls(Dlls {
            opens: Some("lib/*.dll"),
            adds_library_bin: true,
            module: "_C.*pyd",
            kernels: "lib/torch_cuda.dll",
            contains_cudnn: true,
            ..DLLS
        }),
        comparison: Comparison::Minor,
        ..ROW
    },
    Kind {
        name: "TensorFlow",
        id: "tensorflow",
        packages: &[
            "tensorflow",
            "tensorflow-gpu",
            "tensorflow-cpu",
            "tensorflow-intel",
            "tf-nightly",
            "tf-nightly-cpu",
        ],
        rocm_packages: &["tensorflow-rocm"],
        conda_packages: &["tensorflow", "tensorflow-base", "libtensorflow_cc"],
        cpu_packages: &["tensorflow-cpu", "tensorflow-intel", "tf-nightly-cpu"],
        module: "tensorflow",
        version_file: VersionFile::Tuples {
            path: "python/platform/build_info.py",
            cuda: "cuda_version",
            cudnn: "cudnn_version",
            is_gpu: "is_cuda_build",
        },
        libraries: &["libtensorflow_framework.so.2", "libtensorflow_cc.so.2"],
        // One of the two, by release.
        also_opens: &["python/_pywrap_tensorflow_internal.so", "python/_pywrap_tensorflow_common.so"],
        always_there: &["libtensorflow_framework.so.2"],
        kernels: Some("libtensorflow_cc.so.2"),
        compiles_at_run_time: true,
        opens_by_name: Some(ByName { from: "libtensorflow_framework.so.2", depends_on_release: false }),
        on_windows: OnWindows::WithoutGpu {
            since: (2, 11),
            url: "https://github.com/tensorflow/tensorflow/releases/tag/v2.11.1",
        },
        comparison: Comparison::Minor,
        ..ROW
    },
    Kind {
        name: "JAX",
        id: "jax",
        packages: &["jax-cuda12-plugin", "jax-cuda13-plugin"],
        rocm_packages: &["jax-rocm"],
        conda_packages: &["jaxlib"],
        fallback_packages: &["jaxlib"],
        cpu_packages: &["jaxlib"],
        module: "jax_plugins/xla_cuda{}",
        libraries: &["xla_cuda_plugin.so"],
        always_there: &["xla_cuda_plugin.so"],
        kernels: Some("xla_cuda_plugin.so"),
        compiles_at_run_time: true,
        opens_first: &[PythonStep::NvidiaModules(JAX_MODULES)],
        opens_by_name: Some(ByName { from: "xla_cuda_plugin.so", depends_on_release: false }),
        opens_cuda: &[(12, XLA_OF_CUDA_12), (13, XLA_OF_CUDA_13)],
        on_windows: OnWindows::WithoutGpu { since: (0, 0), url: "https://docs.jax.dev/en/latest/installation.html" },
        same_version: &["jaxlib"],
        comparison: Comparison::Minor,
        ..ROW
    },
    Kind {
        name: "ONNX Runtime",
        id: "onnxruntime",
        // Both write to the same directory: the file shows which one came last.
        packages: &["onnxruntime-gpu", "onnxruntime", "onnxruntime-openvino"],
        rocm_packages: &["onnxruntime-rocm", "onnxruntime-migraphx"],
        conda_packages: &["onnxruntime", "onnxruntime-cpp"],
        cpu_packages: &["onnxruntime", "onnxruntime-openvino"],
        module: "onnxruntime",
        version_file: VersionFile::Assignments {
            path: "capi/build_and_package_info.py",
            cuda: "cuda_version",
            cudnn: "cudnn_version",
        },
        // The TensorRT provider needs TensorRT, which few have, and is loaded only if a program asks for it.
        libraries: &["capi/libonnxruntime_providers_cuda.so"],
        also_opens: &["capi/onnxruntime_pybind11_state.*so", "capi/libonnxruntime_providers_shared.so"],
        always_there: &["capi/libonnxruntime_providers_cuda.so"],
        kernels: Some("capi/libonnxruntime_providers_cuda.so"),
        opens_by_name: Some(ByName { from: "capi/libonnxruntime_providers_cuda.so", depends_on_release: true }),
        // 1.31.1 was examined: it opens cuDNN by name. Older releases import it.
        on_windows: OnWindows::Dlls(Dlls {
            module: "capi/onnxruntime_pybind11_state.pyd",
            provider: Some("capi/onnxruntime_providers_cuda.dll"),
            kernels: "capi/onnxruntime_providers_cuda.dll",
            opens_by_name: Some("capi/onnxruntime_providers_cuda.dll"),
            ..DLLS
        }),
        finds_wheels: Some(FindsWheels {
            function: "onnxruntime.preload_dlls()",
            since: "1.21",
            module: "torch",
            before: "its first session",
        }),
        ..ROW
    },
    Kind {
        name: "CTranslate2",
        id: "ctranslate2",
        packages: &["ctranslate2"],
        conda_packages: &["ctranslate2"],
        module: "ctranslate2",
        // The extension library's RPATH leads to the others.
        libraries: &["_ext.*so"],
        always_there: &["_ext.*so"],
        kernels: Some("../ctranslate2.libs/libctranslate2-*.so*"),
        opens_by_name: Some(ByName { from: "../ctranslate2.libs/libctranslate2-*.so*", depends_on_release: true }),
        opens_cuda: &[(12, &["libcublas.so.12"])],
        // 4.5.0 and 4.8.5 were examined: the shim of cuDNN is beside `ctranslate2.dll`, which imports it in 4.5.0 alone.
        on_windows: OnWindows::Dlls(Dlls {
            opens: Some("*.dll"),
            module: "_ext.*pyd",
            kernels: "ctranslate2.dll",
            opens_by_name: Some("ctranslate2.dll"),
            opens_cuda: &[(12, &["cublas64_12.dll"])],
            searches_bin_of: Some("CUDA_PATH"),
            ..DLLS
        }),
        ..ROW
    },
    Kind {
        name: "CuPy",
        id: "cupy",
        packages: &["cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy"],
        rocm_packages: &["cupy-rocm"],
        conda_packages: &["cupy", "cupy-core"],
        module: "cupy",
        version_file: VersionFile::Json { path: ".data/_wheel.json", cuda: "cuda", cudnn: "cudnn" },
        libraries: &["../cupy_backends/cuda/libs/cudnn.*so"],
        also_opens: &["_core/core.*so"],
        always_there: &["../cupy_backends/cuda/libs/*.so"],
        compiles_at_run_time: true,
        is_cudnn_optional: true,
        ..ROW
    },
    Kind {
        name: "PaddlePaddle",
        id: "paddle",
        packages: &["paddlepaddle-gpu", "paddlepaddle"],
        cpu_packages: &["paddlepaddle"],
        module: "paddle",
        version_file: VersionFile::Assignments {
            path: "version/__init__.py",
            cuda: "cuda_version",
            cudnn: "cudnn_version",
        },
        libraries: &["base/libpaddle.so", "libs/libphi.so"],
        always_there: &["libs/libphi.so", "base/libpaddle.so"],
        kernels: Some("libs/libphi.so"),
        opens_by_name: Some(ByName { from: "libs/libphi.so", depends_on_release: false }),
        ..ROW
    },
    Kind {
        name: "TensorRT",
        id: "tensorrt",
        packages: &["tensorrt-cu13-libs", "tensorrt-cu12-libs", "tensorrt-libs"],
        fallback_packages: &["tensorrt-cu13", "tensorrt-cu12", "tensorrt"],
        module: "tensorrt_libs",
        libraries: &["libnvinfer.so.*"],
        always_there: &["libnvinfer.so.*"],
        compiles_at_run_time: true,
        ..ROW
    },
    Kind {
        name: "Transformer Engine",
        id: "transformer-engine",
        packages: &["transformer-engine-cu13", "transformer-engine-cu12"],
        fallback_packages: &["transformer-engine"],
        module: "transformer_engine",
        libraries: &["wheel_lib/libtransformer_engine.so", "libtransformer_engine.so", "../libtransformer_engine.so"],
        always_there: &[
            "wheel_lib/libtransformer_engine.so",
            "libtransformer_engine.so",
            "../libtransformer_engine.so",
        ],
        kernels: Some("wheel_lib/libtransformer_engine.so"),
        opens_first: &[PythonStep::ToolkitOrWheel {
            variables: &["CUDNN_HOME", "CUDNN_PATH", "CUDA_HOME", "CUDA_PATH"],
            toolkit: "/usr/local/cuda",
            wheels: &["nvidia/cudnn/lib", "nvidia/cuda_cudnn/lib"],
        }],
        comparison: Comparison::Patch,
        ..ROW
    },
];

/// What most DLLs need.
const DLLS: Dlls = Dlls {
    opens: None,
    adds_library_bin: false,
    module: "",
    provider: None,
    kernels: "",
    opens_by_name: None,
    opens_cuda: &[],
    searches_bin_of: None,
    contains_cudnn: false,
};

/// What JAX's plugin fails without.
const XLA_OF_CUDA_12: &[&str] =
    &["libcudart.so.12", "libcublas.so.12", "libcusparse.so.12", "libcusolver.so.11", "libcufft.so.11"];
const XLA_OF_CUDA_13: &[&str] =
    &["libcudart.so.13", "libcublas.so.13", "libcusparse.so.12", "libcusolver.so.12", "libcufft.so.12"];

/// What PyTorch's Python code opens, in its order. `nvtx` is the last, and optional.
const TORCH_WHEELS: &[Wheel] = &[
    ("cublas", "libcublasLt.so."),
    ("cublas", "libcublas.so."),
    ("cudnn", "libcudnn.so."),
    ("cuda_nvrtc", "libnvrtc.so."),
    ("cuda_nvrtc", "libnvrtc-builtins.so."),
    ("cuda_runtime", "libcudart.so."),
    ("cuda_cupti", "libcupti.so."),
    ("cufft", "libcufft.so."),
    ("curand", "libcurand.so."),
    ("nvjitlink", "libnvJitLink.so."),
    ("cusparse", "libcusparse.so."),
    ("cusparselt", "libcusparseLt.so."),
    ("cusolver", "libcusolver.so."),
    ("nccl", "libnccl.so."),
    ("nvshmem", "libnvshmem_host.so."),
    ("cufile", "libcufile.so."),
    ("nvtx", "libnvToolsExt.so."),
];

/// What it opens before 2.11 when all is well.
const TORCH_COMPILERS: &[Wheel] =
    &[("cuda_nvrtc", "libnvrtc.so."), ("cuda_nvrtc", "libnvrtc-builtins.so."), ("nvjitlink", "libnvJitLink.so.")];

/// The modules below `nvidia`, and their libraries, that JAX's plugin opens: cuDNN last.
const JAX_MODULES: &[(&str, &str)] = &[
    ("cuda_runtime", "libcudart.so.12"),
    ("cu13", "libcudart.so.13"),
    ("cuda_nvrtc", "libnvrtc.so.12"),
    ("cu13", "libnvrtc.so.13"),
    ("cublas", "libcublas.so.12"),
    ("cublas", "libcublasLt.so.12"),
    ("cu13", "libcublas.so.13"),
    ("cu13", "libcublasLt.so.13"),
    ("nccl", "libnccl.so.2"),
    ("cuda_cupti", "libcupti.so.12"),
    ("cu13", "libcupti.so.13"),
    ("cusparse", "libcusparse.so.12"),
    ("cu13", "libcusparse.so.12"),
    ("cusolver", "libcusolver.so.11"),
    ("cu13", "libcusolver.so.12"),
    ("cufft", "libcufft.so.11"),
    ("cu13", "libcufft.so.12"),
    ("nvshmem", "libnvshmem_host.so.3"),
    ("cudnn", "libcudnn.so.9"),
];
