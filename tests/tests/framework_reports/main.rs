//! Recreates eighteen problems from the trackers of frameworks, as environments with the metadata, run paths and names
//! of the real packages, and with stand-ins for libraries. `cudnn-doctor frameworks` must name the cause and a remedy.
//! docs/data/what-goes-wrong-with-frameworks.json has the output, which `CUDNN_TESTS_WRITE=1` rewrites.

mod broken;
mod cpu;
mod cudnn_8;
mod foreign;
mod judged;
mod measured;
mod requirements;
mod world;

use std::collections::BTreeMap;

use serde_json::Value;
use support::{ExtensionLibrary, check_document};

use world::*;

/// A reported problem with its source, the environment, and the expected output of the doctor.
struct Situation {
    report: &'static str,
    title: &'static str,
    build: fn(&World),
    /// The codes of all findings except notes, with fragments of their text and help.
    findings: &'static [(&'static str, &'static [&'static str])],
}
const SITUATIONS: [Situation; 18] = [
    Situation {
        report: "faster-whisper#1182, CTranslate2#1826",
        title: "CTranslate2 bundles the shim of cuDNN 9.1, but the other libraries are in PyTorch's cuDNN wheel.",
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
        title: "CTranslate2 4.4 is built for cuDNN 8, but PyTorch has installed cuDNN 9.",
        build: |world| {
            complete_torch(&world.venv, "2.6.0", "12.4", "9.1.0.70");
            ctranslate2(&world.venv, "4.4.0", "libcudnn-463fd6d5.so.8.9.7");
        },
        findings: &[
            ("C070", &["CTranslate2 4.4.0 would not find libcudnn_ops_infer.so.8", "install ctranslate2>=4.5.0"]),
            ("C074", &["CTranslate2 4.4.0 would not find libcublas.so.12"]),
        ],
    },
    Situation {
        report: "tensorflow#60913",
        title: "TensorFlow 2.18 is built with cuDNN 9.3, but PyTorch has installed 9.1.",
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
        title: "Transformer Engine searches CUDA_HOME first, where cuDNN is older than in the wheel.",
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
        title: "ONNX Runtime's run path does not lead to the installed cuDNN wheel.",
        build: |world| {
            cudnn_wheel(&world.venv, "9.10.2.21");
            onnxruntime(&world.venv, "1.22.0", "12.8", &["libcudnn.so.9"]);
        },
        findings: &[("C070", &["ONNX Runtime 1.22.0 would not find libcudnn.so.9", "export LD_LIBRARY_PATH="])],
    },
    Situation {
        report: "onnxruntime#22198",
        title: "ONNX Runtime 1.20 needs cuDNN 9, but cuDNN 8 is installed.",
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
        title: "onnxruntime was installed after onnxruntime-gpu and has overwritten that package's files.",
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
        title: "An older cuDNN is on LD_LIBRARY_PATH, and PyTorch's shim opens those libraries.",
        build: |world| {
            complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
            let older = world.cudnn("older", V9_1_0);
            world.set("LD_LIBRARY_PATH", older);
        },
        findings: &[("C072", &["PyTorch 2.8.0 would mix cuDNN 9.10.2", "9.1.0", "on LD_LIBRARY_PATH"])],
    },
    Situation {
        report: "pytorch#165812",
        title: "torch is in lib64, but the cuDNN wheel is in lib, outside of torch's RPATH. CUDA is the system's.",
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
        title: "PyTorch was installed after JAX and has replaced cuDNN with an older release.",
        build: |world| {
            jax(&world.venv, "0.8.3", "9.8");
            cuda_wheels(&world.venv);
            complete_torch(&world.venv, "2.7.1", "12.6", "9.5.1.17");
        },
        findings: &[("C071", &["JAX 0.8.3 would load cuDNN 9.5.1, but accepts 9.8", "nvidia-cudnn-cu12"])],
    },
    Situation {
        report: "sglang PR 22719",
        title: "cuDNN's files were deleted, but pip considers the package installed.",
        build: |world| {
            complete_torch(&world.venv, "2.8.0", "12.8", "9.10.2.21");
            std::fs::remove_dir_all(world.venv.import_dir().join("nvidia/cudnn/lib")).unwrap();
        },
        findings: &[("C070", &["PyTorch 2.8.0 would not find libcudnn.so.9", "--force-reinstall"])],
    },
    Situation {
        report: "pytorch#167244, Kokoro-FastAPI#306",
        title: "PyTorch contains no kernels for a new GPU.",
        build: |world| {
            world.gpu("580.65.06", "NVIDIA GeForce RTX 5090", (12, 0));
            complete_torch(&world.venv, "2.6.0", "12.4", "9.1.0.70");
        },
        findings: &[(
            "C076",
            &[
                "PyTorch 2.6.0 has no kernels for NVIDIA GeForce RTX 5090 (compute capability 12.0)",
                "install PyTorch 2.7 or newer in a build for CUDA 12.8 (cu128) or 12.9 (cu129) or 13.0 (cu130)",
            ],
        )],
    },
    Situation {
        report: "sglang#11395, pytorch PR 162531",
        title: "PyTorch for CUDA 13 with a driver for CUDA 12.",
        build: |world| {
            world.gpu("570.86.15", "NVIDIA H100", (9, 0));
            torch_for_cuda_13(&world.venv, "2.11.0", "9.19.0.56");
        },
        findings: &[("C075", &["PyTorch 2.11.0 is built for CUDA 13.0, which driver 570.86.15 does not support"])],
    },
    Situation {
        report: "tensorflow/docs PR 2251",
        title: "Another environment's cuDNN is on LD_LIBRARY_PATH, which precedes TensorFlow's RUNPATH.",
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
        title: "JAX's plugin and jaxlib are different releases.",
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
    let mut records = Vec::new();
    for situation in SITUATIONS {
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
        records.push(BTreeMap::from([
            ("situation", vec![situation.title.to_owned()]),
            ("reported as", vec![situation.report.to_owned()]),
            ("cudnn-doctor", lines.map(str::to_owned).collect()),
        ]));
    }
    check_document("docs/data/what-goes-wrong-with-frameworks.json", &format!("{:#}\n", serde_json::json!(records)));
}
