//! Tests which CUDA and cuDNN the frameworks were built for, according to their wheels' metadata and version files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use cudnn_frameworks::{Comparison, KINDS, ValueSource, pairs, releases};
use cudnn_probe::Version;
use support::ExtensionLibrary;

mod stand_ins;
use stand_ins::{Machine, framework};

/// The package and version; the cuDNN requirement; the version file and the text in it; a library and a name that it
/// needs; whether the package uses a GPU, the CUDA release, the cuDNN, and the source of the cuDNN: a `file`, a
/// `requirement`, a `document` or a `later` release than in the document.
type Case<'a> = (&'a str, &'a str, &'a str, (&'a str, &'a str), (&'a str, &'a str), &'a str);

const ORT_INFO: &str = "onnxruntime/capi/build_and_package_info.py";
const ORT_CUDA: &str = "onnxruntime/capi/libonnxruntime_providers_cuda.so";
const PADDLE: &str = "paddle/version/__init__.py";
const TF: &str = "tensorflow/python/platform/build_info.py";
const TORCH: &str = "torch/version.py";
const WHEEL_JSON: &str = "cupy/.data/_wheel.json";

const CASES: &[Case] = &[
    // Only builds from PyTorch's own index have a local version.
    (
        "torch",
        "2.15.0",
        "nvidia-cudnn-cu13==9.26.0.51; platform_system == \"Linux\"",
        (TORCH, "__version__ = '2.15.0+cu132'\ncuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n"),
        ("", ""),
        "true 13.2 9.26.0 requirement",
    ),
    (
        "torch",
        "2.1.2",
        "nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"",
        (TORCH, "__version__ = '2.1.2+cu121'\ncuda = '12.1'\nhip = None\n"),
        ("", ""),
        "true 12.1 8.9.2 requirement",
    ),
    ("torch", "2.9.1+cpu", "", (TORCH, "cuda: Optional[str] = None\nhip: Optional[str] = None\n"), ("", ""), "false"),
    ("torch", "2.9.1+cpu", "", ("", ""), ("", ""), "false"),
    (
        "torch",
        "2.9.1",
        "",
        (TORCH, "cuda: Optional[str] = None\nhip: Optional[str] = '6.2.41133'\n"),
        ("", ""),
        "rocm 6.2.41133",
    ),
    ("torch", "2.9.1+rocm6.2", "", ("", ""), ("", ""), "rocm 6.2"),
    ("torch", "2.9.1+rocm6.2.4.git1a2b", "", ("", ""), ("torch/lib/libtorch_hip.so", ""), "rocm 6.2.4"),
    ("torch", "2.9.1", "", ("", ""), ("torch/lib/libtorch_hip.so", ""), "rocm"),
    ("tensorflow-rocm", "2.18.1", "", ("", ""), ("", ""), "rocm"),
    ("tensorflow", "2.18.1", "", (TF, "[('is_cuda_build', False), ('is_rocm_build', True)]"), ("", ""), "rocm"),
    ("onnxruntime-rocm", "1.22.2", "", ("", ""), ("", ""), "rocm"),
    ("onnxruntime-migraphx", "1.23.0", "", (ORT_INFO, "package_name = 'onnxruntime-migraphx'\n"), ("", ""), "rocm"),
    ("cupy-rocm-5-0", "13.6.0", "", (WHEEL_JSON, r#"{"cuda": null, "packaging": "pip"}"#), ("", ""), "rocm"),
    ("jax-rocm7-plugin", "0.8.2", "", ("", ""), ("", ""), "rocm"),
    ("onnxruntime-openvino", "1.22.0", "", ("", ""), ("", ""), "false"),
    ("torch", "2.9.1+cu128", "", ("", ""), ("", ""), "true 12.8 9.10.2 document"),
    // A build for a different CUDA also uses a different cuDNN.
    ("torch", "2.7.1+cu118", "", ("", ""), ("", ""), "true 11.8 -"),
    ("torch", "2.16.0+cu132", "", ("", ""), ("", ""), "true 13.2 9.26.0 later"),
    (
        "tensorflow",
        "2.21.0",
        "nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == \"and-cuda\"",
        (
            TF,
            "build_info = collections.OrderedDict([('cpu_compiler', 'clang'), ('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True)])",
        ),
        ("", ""),
        "true 12.5 9.3.0 requirement",
    ),
    // conda's package omits this requirement. The file contains the major version, and the document the rest.
    (
        "tensorflow",
        "2.18.0",
        "",
        (TF, "OrderedDict([('cuda_version', '12.5'), ('cudnn_version', '9'), ('is_cuda_build', True)])"),
        ("", ""),
        "true 12.5 9.3.0 document",
    ),
    // The document is about the wheels, and this build uses a different major version.
    (
        "tensorflow",
        "2.16.2",
        "",
        (TF, "OrderedDict([('cuda_version', '12.3'), ('cudnn_version', '9'), ('is_cuda_build', True)])"),
        ("", ""),
        "true 12.3 9.0.0 file",
    ),
    ("tensorflow", "2.21.0", "", (TF, "OrderedDict([('is_cuda_build', False)])"), ("", ""), "false"),
    ("tensorflow-cpu", "2.21.0", "", ("", ""), ("", ""), "false"),
    (
        "jax-cuda12-plugin",
        "0.12.0.1",
        "nvidia-cudnn-cu12<10.0,>=9.10.2.21; sys_platform == \"linux\" and extra == \"with-cuda\"",
        ("", ""),
        ("jax_plugins/xla_cuda12/xla_cuda_plugin.so", ""),
        "true 12 9.10.2 requirement",
    ),
    (
        "jax-cuda13-plugin",
        "0.9.2",
        "",
        ("", ""),
        ("jax_plugins/xla_cuda13/xla_cuda_plugin.so", ""),
        "true 13 9.12.0 document",
    ),
    ("jaxlib", "0.12.0", "", ("", ""), ("", ""), "false"),
    ("jaxlib", "0.4.25+cuda12.cudnn89", "", ("", ""), ("", ""), "true 12 -"),
    (
        "onnxruntime-gpu",
        "1.31.1",
        "nvidia-cudnn-cu13~=9.0; extra == \"cudnn\"",
        (ORT_INFO, "package_name = 'onnxruntime-gpu'\n__version__ = '1.31.1'\ncuda_version = '13.0'\n"),
        (ORT_CUDA, "libcublas.so.13"),
        "true 13.0 9.0.0 requirement",
    ),
    // Before 1.18, only libraries contain the version. The 1.17 build from the other index is for CUDA 12.
    ("onnxruntime-gpu", "1.18.1", "", ("", ""), (ORT_CUDA, "libcudnn.so.8,libcublas.so.11"), "true 11 8.0.0 document"),
    ("onnxruntime-gpu", "1.18.1", "", ("", ""), (ORT_CUDA, "libcudnn.so.9,libcublas.so.12"), "true 12 9.0.0 file"),
    // The CPU package was installed last and overwrote the file.
    (
        "onnxruntime-gpu",
        "1.22.0",
        "",
        (ORT_INFO, "package_name = 'onnxruntime'\n__version__ = '1.22.0'\n"),
        ("", ""),
        "false",
    ),
    ("onnxruntime", "1.22.0", "", ("", ""), ("", ""), "false"),
    (
        "ctranslate2",
        "4.5.0",
        "",
        ("", ""),
        ("ctranslate2.libs/libctranslate2-bc15bf3f.so.4.5.0", "libcudnn-74a4c495.so.9.1.0"),
        "true 12 9.1.0 file",
    ),
    (
        "ctranslate2",
        "4.4.0",
        "",
        ("", ""),
        ("ctranslate2.libs/libctranslate2-d3638643.so.4.4.0", "libcudnn-463fd6d5.so.8.9.7"),
        "true 12 8.9.7 file",
    ),
    ("ctranslate2", "4.8.5", "", ("", ""), ("ctranslate2.libs/libctranslate2-a7a60d30.so.4.8.5", ""), "true 12 -"),
    (
        "cupy-cuda12x",
        "13.6.0",
        "",
        (
            WHEEL_JSON,
            r#"{"cuda": "12.x", "packaging": "pip", "nccl": {"version": "2.25.1"}, "cudnn": {"version": "8.8.1", "min_pypi_version": "8.8.1"}}"#,
        ),
        ("", ""),
        "true 12 8.8.1 file",
    ),
    ("cupy-cuda13x", "14.2.0", "", (WHEEL_JSON, r#"{"cuda": "13.x", "packaging": "pip"}"#), ("", ""), "true 13 -"),
    (
        "paddlepaddle-gpu",
        "2.6.2",
        "",
        (PADDLE, "cuda_version     = '11.8'\ncudnn_version    = '8.6.0'\n"),
        ("", ""),
        "true 11.8 8.6.0 file",
    ),
    (
        "paddlepaddle",
        "2.6.2",
        "",
        (PADDLE, "cuda_version     = 'False'\ncudnn_version    = 'False'\n"),
        ("", ""),
        "false",
    ),
    ("tensorrt-cu12-libs", "10.9.0.34", "", ("", ""), ("tensorrt_libs/libnvinfer.so.10", ""), "- 12 -"),
    ("tensorrt-libs", "8.6.1", "", ("", ""), ("tensorrt_libs/libnvinfer.so.8", "libcudnn.so.8"), "- - 8.9.0 document"),
    (
        "transformer-engine-cu13",
        "2.20.2",
        "",
        ("", ""),
        ("transformer_engine/wheel_lib/libtransformer_engine.so", "libcudnn.so.9"),
        "true 13 9.12.0 document",
    ),
];

#[test]
fn every_framework_was_built_for_the_versions_in_its_files() {
    for (package, version, requires, (file, text), (library, needs), expected) in CASES {
        let machine = Machine::new();
        let mut installed = machine.environment.package(package, version);
        if !requires.is_empty() {
            installed = installed.requires(requires);
        }
        if !file.is_empty() {
            installed = installed.file(file, text);
        }
        if !library.is_empty() {
            let names = needs.split(',').filter(|name| !name.is_empty());
            installed.library(library, &names.fold(ExtensionLibrary::new(), |library, name| library.needing(name)));
        }
        // The package may be empty otherwise.
        let modules = KINDS.iter().find(|kind| kind.packages.contains(package)).map(|kind| kind.module);
        std::fs::create_dir_all(machine.site(modules.unwrap_or("jaxlib"))).unwrap();
        let survey = machine.survey();
        let [framework] = &survey.frameworks[..] else { panic!("{package} {version}: {:?}", survey.frameworks) };
        let built_for = &framework.built_for;
        let uses_gpu = built_for.uses_gpu.as_ref().map(|stated| stated.value);
        let mut found = uses_gpu.map_or("-".to_owned(), |value| value.to_string());
        if let Some(rocm) = &built_for.rocm {
            found = format!("rocm {}", rocm.value).trim_end().to_owned();
            assert!(framework.opens.needs_none, "{package} {version}: {framework:?}");
        } else if uses_gpu != Some(false) {
            found += &match built_for.cuda.as_ref().map(|stated| stated.value) {
                Some((major, Some(minor))) => format!(" {major}.{minor}"),
                Some((major, None)) => format!(" {major}"),
                None => " -".to_owned(),
            };
            found += &match &built_for.cudnn {
                Some(stated) => format!(" {} {}", stated.value, name_of(&stated.source)),
                None => " -".to_owned(),
            };
        }
        assert_eq!(found, *expected, "{package} {version}: {built_for:?}");
    }
}

fn name_of(source: &ValueSource) -> &'static str {
    match source {
        ValueSource::File(_) => "file",
        ValueSource::Requirement(_) => "requirement",
        ValueSource::Fact { citation, is_older_than_package } => {
            assert!(releases::all().iter().any(|fact| fact.source == *citation), "{citation:?}");
            if *is_older_than_package { "later" } else { "document" }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_part_counts_as_a_framework_only_without_the_main_package() {
    let machine = Machine::new().jax();
    machine.environment.package("jaxlib", "0.12.0");
    let survey = machine.survey();
    let names: Vec<&str> = survey.frameworks.iter().map(|framework| framework.distribution.name.as_str()).collect();
    assert_eq!(names, ["jax-cuda12-plugin"]);
    // Both packages write to one directory, which is a fault.
    let machine = Machine::new().onnxruntime("1.22.0", true);
    machine.environment.package("onnxruntime", "1.22.0");
    assert_eq!(machine.survey().frameworks.len(), 2);
}

#[test]
fn a_framework_without_cudnn_of_its_own_opens_the_files_of_pytorch() {
    let users = [("vllm", "0.14.0"), ("sglang", "0.5.9"), ("flashinfer-python", "0.6.1")];
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(Version::new(9, 10, 2));
    for (package, version) in users {
        machine.environment.package(package, version);
    }
    let survey = machine.survey();
    let torch = framework(&survey, "torch");
    assert!(!torch.opens.cudnn.is_empty() && torch.kind.cudnn_loader().is_none());
    for (id, minimum) in [("vllm", None), ("sglang", Some("9.15.0")), ("flashinfer", None)] {
        let user = framework(&survey, id);
        assert_eq!(user.opens.cudnn, torch.opens.cudnn, "{id}");
        assert_eq!(user.built_for.cuda, torch.built_for.cuda, "{id}");
        assert_eq!(user.built_for.cudnn.as_ref().map(|cudnn| cudnn.value.to_string()).as_deref(), minimum, "{id}");
        assert!(std::ptr::eq(survey.cudnn_loader_of(user), torch), "{id}");
    }
    assert!(pairs(&survey, &machine.host).is_empty());
    // SGLang compares the cuDNN of one release of PyTorch.
    let machine = Machine::new().torch("2.9.0").cudart().cudnn(Version::new(9, 10, 2));
    machine.environment.package("sglang", "0.5.9");
    assert_eq!(framework(&machine.survey(), "sglang").built_for.cudnn, None);
    let machine = Machine::new();
    machine.environment.package("vllm", "0.14.0");
    assert!(framework(&machine.survey(), "vllm").opens.needs_none);
}

#[test]
fn gpu_code_is_reported_for_the_majority_of_kernels() {
    let survey = Machine::new().torch("2.9.1").survey();
    let code = framework(&survey, "torch").built_for.gpu_code.as_ref().unwrap();
    assert_eq!(code.value.iter().map(ToString::to_string).collect::<Vec<_>>(), ["8.0", "9.0"]);
    assert!(
        matches!(&code.source, ValueSource::File(file) if file.ends_with("torch/lib/libtorch_cuda.so")),
        "{code:?}"
    );
}

#[test]
fn a_version_file_that_is_a_pipe_or_a_gigabyte_is_not_read() {
    let machine = Machine::new().torch("2.9.1");
    let file = machine.site("torch/version.py");
    let huge = std::fs::File::options().write(true).open(&file).unwrap();
    huge.set_len(1 << 30).unwrap();
    let cuda = || framework(&machine.survey(), "torch").built_for.cuda.as_ref().map(|cuda| cuda.value);
    assert_eq!(cuda(), Some((12, None)));
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert_eq!(cuda(), Some((12, None)));
}

#[test]
fn releases_are_compared_as_each_framework_does() {
    let version = |text: &str| text.parse::<Version>().unwrap();
    for (comparison, wanted, found, expected) in [
        (Comparison::Minor, "9.10.2", "9.10.0", true),
        (Comparison::Minor, "9.10.2", "9.9.9", false),
        (Comparison::Minor, "8.9.2", "9.1.0", false),
        (Comparison::Patch, "9.12.1", "9.12.0", false),
        (Comparison::Patch, "9.12.0", "9.13.0", true),
        (Comparison::Major, "9.10.2", "9.0.0", true),
        (Comparison::Major, "8.9.2", "9.10.0", false),
    ] {
        assert_eq!(comparison.accepts(version(wanted), version(found)), expected, "{comparison:?} {wanted} {found}");
    }
    let of = |id: &str| KINDS.iter().find(|kind| kind.id == id).unwrap().comparison;
    assert_eq!([of("torch"), of("jax"), of("tensorflow")], [Comparison::Minor; 3]);
}
