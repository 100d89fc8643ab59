//! Executes the commands of findings about frameworks. Stand-in wheels have the names, requirements, run paths and
//! version files of the real ones.

use std::path::Path;
use std::sync::OnceLock;

use cudnn_probe::Library;
use support::{ExtensionLibrary, Share, TempDir};

use crate::world::{Case, World, pack};
use crate::{CU12_OLDER, Shared, overwrite, remove};

const BESIDE: &str = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cublas/lib:$ORIGIN";
const PJRT: &str = "jax_plugins/xla_cuda12/xla_cuda_plugin.so";
const PROVIDER: &str = "onnxruntime/capi/libonnxruntime_providers_cuda.so";

/// Loads the CUDA provider like ONNX Runtime.
const ONNXRUNTIME: &str = r#"
import ctypes, os, sys
__version__ = "1.31.1"
get_available_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
SessionOptions = object


class InferenceSession:
    def __init__(self, model, options, providers):
        self.providers = providers
        try:
            ctypes.CDLL(os.path.join(os.path.dirname(__file__), "capi/libonnxruntime_providers_cuda.so"))
        except OSError as error:
            sys.stderr.write(f"[E:onnxruntime:Default] Failed to load the library with error: {error}\n")
            self.providers = ["CPUExecutionProvider"]

    def get_providers(self):
        return self.providers

    def run(self, outputs, inputs):
        return [inputs["x"]]
"#;

/// The subset of numpy that the run needs.
const NUMPY: &str = include_str!("../stand_ins/numpy.py");

fn wheel(
    dir: &Path,
    (name, version): (&str, &str),
    requires: &[&str],
    texts: &[(&str, &str)],
    libraries: &[(&str, ExtensionLibrary)],
) {
    pack(dir, name, version, requires, |dir| {
        for (path, text) in texts {
            let file = dir.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        for (path, library) in libraries {
            library.build(&dir.join(path));
        }
    });
}

pub(crate) fn wheels() -> &'static TempDir {
    static WHEELS: Shared = OnceLock::new();
    WHEELS.get_or_init(|| {
        let wheels = TempDir::new();
        let dir = wheels.path();
        let library = ExtensionLibrary::new;
        let torch = |soname: &str| library().with_rpath(BESIDE).with_soname(soname);
        wheel(
            dir,
            ("torch", "2.8.0"),
            &["nvidia-cudnn-cu12==9.19.0.56; platform_system == \"Linux\"", "nvidia-cublas-cu12 (==12.9.1.4)"],
            &[("torch/version.py", "__version__ = '2.8.0+cu128'\ncuda: Optional[str] = '12.8'\n")],
            &[
                ("torch/lib/libtorch_global_deps.so", torch("libtorch_global_deps.so").needing("libcublas.so.12")),
                (
                    "torch/lib/libtorch_cuda.so",
                    torch("libtorch_cuda.so").needing("libcudnn.so.9").needing("libcublas.so.12"),
                ),
                ("torch/lib/libtorch_python.so", torch("libtorch_python.so").needing("libtorch_cuda.so")),
                (
                    "torch/_C.cpython-312-x86_64-linux-gnu.so",
                    library().with_rpath("$ORIGIN/lib").needing("libtorch_python.so"),
                ),
            ],
        );
        // The lower version makes most cases choose the CUDA 12 build.
        wheel(
            dir,
            ("torch", "2.7.1"),
            &["nvidia-cudnn-cu13==9.19.0.56; platform_system == \"Linux\""],
            &[("torch/version.py", "__version__ = '2.7.1+cu130'\ncuda: Optional[str] = '13.0'\n")],
            &[("torch/lib/libtorch_cuda.so", torch("libtorch_cuda.so").needing("libcudnn.so.9"))],
        );
        // This build is for cuDNN 8.
        wheel(
            dir,
            ("torch", "2.3.1"),
            &["nvidia-cudnn-cu12 (==8.9.7.29)"],
            &[("torch/version.py", "__version__ = '2.3.1+cu121'\ncuda: Optional[str] = '12.1'\n")],
            &[("torch/lib/libtorch_cuda.so", torch("libtorch_cuda.so").needing("libcudnn.so.8"))],
        );
        let runpath = "$ORIGIN/../nvidia/cudnn/lib:$ORIGIN/../nvidia/cublas/lib";
        let tensorflow = |soname: &str| library().with_runpath(runpath).with_soname(soname);
        wheel(
            dir,
            ("tensorflow", "2.18.1"),
            &["nvidia-cudnn-cu12 ==9.19.0.56 ; extra == 'and-cuda'"],
            &[(
                "tensorflow/python/platform/build_info.py",
                "build_info = collections.OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9'), \
                 ('is_cuda_build', True)])\n",
            )],
            &[
                ("tensorflow/libtensorflow_framework.so.2", tensorflow("libtensorflow_framework.so.2")),
                ("tensorflow/libtensorflow_cc.so.2", tensorflow("libtensorflow_cc.so.2")),
            ],
        );
        let info =
            |cuda: &str| format!("package_name = 'onnxruntime-gpu'\n__version__ = '1.22.0'\ncuda_version = '{cuda}'\n");
        let info_file = "onnxruntime/capi/build_and_package_info.py";
        let by_name = library().with_text("libcudnn.so");
        for (version, cuda, library) in [
            ("1.22.0", "12.8", library().needing("libcudnn.so.9")),
            ("1.24.4", "12.8", by_name.clone()),
            (
                "1.31.1",
                "13.0",
                ["libcublasLt.so.13", "libcurand.so.10", "libcufft.so.12", "libcudart.so.13"]
                    .iter()
                    .fold(by_name, |library, name| library.needing(name)),
            ),
        ] {
            let texts = [(info_file, info(cuda)), ("onnxruntime/__init__.py", ONNXRUNTIME.to_owned())];
            let texts = texts.each_ref().map(|(path, text)| (*path, text.as_str()));
            wheel(dir, ("onnxruntime-gpu", version), &[], &texts, &[(PROVIDER, library)]);
        }
        wheel(dir, ("numpy", "2.3.0"), &[], &[("numpy/__init__.py", NUMPY)], &[]);
        for (name, version, file) in [
            ("curand", "10.4.0.35", "curand.so.10"),
            ("cufft", "12.0.0.61", "cufft.so.12"),
            ("cuda-runtime", "13.0.96", "cudart.so.13"),
        ] {
            let (file, soname) = (format!("nvidia/cu13/lib/lib{file}"), format!("lib{file}"));
            wheel(dir, (&format!("nvidia-{name}"), version), &[], &[], &[(&file, library().with_soname(&soname))]);
        }
        let cpu = "package_name = 'onnxruntime'\n__version__ = '1.22.0'\n";
        wheel(dir, ("onnxruntime", "1.22.0"), &[], &[(info_file, cpu)], &[]);
        for (version, shim) in [("4.5.0", Some("libcudnn-74a4c495.so.9.1.0")), ("4.8.5", None)] {
            let name = format!("libctranslate2-bc15bf3f.so.{version}");
            let inner = library().with_soname(&name).with_text("libcublas.so.12");
            let inner = shim.map_or(inner.clone(), |shim| inner.needing(shim));
            let extension = library().with_rpath("$ORIGIN/../ctranslate2.libs").needing(&name);
            let mut libraries = vec![
                ("ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so".to_owned(), extension),
                (format!("ctranslate2.libs/{name}"), inner),
            ];
            libraries.extend(shim.map(|shim| {
                (format!("ctranslate2.libs/{shim}"), library().with_soname(shim).with_rpath("ctranslate2.libs"))
            }));
            let libraries: Vec<_> = libraries.iter().map(|(path, library)| (path.as_str(), library.clone())).collect();
            wheel(dir, ("ctranslate2", version), &[], &[], &libraries);
        }
        wheel(dir, ("jaxlib", "0.8.3"), &[], &[], &[]);
        wheel(dir, ("jaxlib", "0.7.2"), &[], &[], &[]);
        let plugin = library().with_rpath("$ORIGIN/../../nvidia/cudnn/lib").with_text("cudnnCreate");
        wheel(dir, ("jax-cuda12-pjrt", "0.8.3"), &[], &[], &[(PJRT, plugin)]);
        let cudnn = "nvidia-cudnn-cu12<10.0,>=9.8; sys_platform == \"linux\" and extra == \"with-cuda\"";
        let versions = [("jax_cuda12_plugin/_versions.so", library())];
        wheel(dir, ("jax-cuda12-plugin", "0.8.3"), &["jax-cuda12-pjrt==0.8.3", cudnn], &[], &versions);
        let cuda = [
            ("cuda_runtime", "libcudart.so.12"),
            ("cusparse", "libcusparse.so.12"),
            ("cusolver", "libcusolver.so.11"),
            ("cufft", "libcufft.so.11"),
        ];
        let files = cuda.map(|(module, name)| (format!("nvidia/{module}/lib/{name}"), library().with_soname(name)));
        let files: Vec<_> = files.iter().map(|(path, library)| (path.as_str(), library.clone())).collect();
        wheel(dir, ("cuda-libraries", "12.8"), &[], &[], &files);
        wheels
    })
}

/// Runs the commands in broken environments. `commands` is the expected number of lines.
fn run(commands: usize, case: &Case) {
    let lines = case.run(&World::new("env", true).with_wheels(wheels().path()));
    assert_eq!(lines.len(), commands, "{lines:#?}");
}

fn damage(world: &World, path: &str) {
    std::fs::write(world.site_packages().join(path), "no library").unwrap();
}

const CUDNN: &str = "nvidia-cudnn-cu12";
const CUBLAS: &str = "nvidia-cublas-cu12";

#[test]
fn commands_give_frameworks_their_cudnn() {
    let no_cudnn = ["torch", CUBLAS];
    let torch = ["torch", CUBLAS, CUDNN];
    let onnxruntime = ["onnxruntime-gpu==1.22.0", CUDNN];
    let delete = |world: &World| std::fs::remove_dir_all(world.wheel_dir()).unwrap();
    let nothing = |_: &World| {};
    for (commands, case) in [
        (1, Case::new("PyTorch without cuDNN", "C070", &no_cudnn, nothing)),
        (1, Case::new("PyTorch, deleted cuDNN", "C070", &torch, delete)),
        (
            1,
            Case::new("PyTorch, damaged shim", "C070", &torch, |world| damage(world, "nvidia/cudnn/lib/libcudnn.so.9")),
        ),
        (1, Case::new("PyTorch, deleted library", "C087", &torch, |world| remove(world, Library::Ops))),
        (1, Case::new("ONNX Runtime without a run path", "C070", &onnxruntime, nothing)),
        (2, Case::new("ONNX Runtime without cuDNN", "C070", &onnxruntime[..1], nothing)),
        (3, Case::new("ONNX Runtime, deleted cuDNN", "C070", &onnxruntime, delete)),
        (2, Case::new("CTranslate2 with a shim alone", "C070", &["ctranslate2==4.5.0", CUBLAS], nothing)),
        (2, Case::new("ONNX Runtime that can do without", "C085", &["onnxruntime-gpu==1.24.4"], nothing)),
        (1, Case::new("TensorFlow, older", "C071", &["tensorflow", CUBLAS, "nvidia-cudnn-cu12==9.18.0.56"], nothing)),
        (
            1,
            Case::new("TensorFlow, overwritten", "C071", &["tensorflow", CUBLAS, CUDNN], |world| {
                for library in Library::ALL.iter().filter(|library| CU12_OLDER.libraries().file(**library).exists()) {
                    overwrite(world, CU12_OLDER, *library);
                }
            }),
        ),
        (1, Case::new("PyTorch for cuDNN 8 without cuDNN", "C070", &["torch==2.3.1", CUBLAS], nothing)),
        (1, Case::new("PyTorch for cuDNN 8 with cuDNN 9", "C070", &["torch==2.3.1", CUBLAS, CUDNN], nothing)),
        (1, Case::new("PyTorch for cuDNN 8, as it requires", "C073", &["torch==2.3.1", CUBLAS, CUDNN], nothing)),
    ]
    .into_iter()
    .share(6)
    {
        run(commands, &case);
    }
    // Search paths cannot contain a colon or semicolon.
    let case = Case::new("ONNX Runtime without a run path", "C070", &onnxruntime, nothing);
    let found = case.found(&World::new("e:n;v", true).with_wheels(wheels().path()));
    assert!(found[0]["help"].as_str().unwrap().contains("make a symbolic link to it"), "{found:#?}");
}

#[test]
fn commands_give_frameworks_the_packages_that_they_need() {
    let older = ["torch", CUBLAS, "nvidia-cudnn-cu12==9.18.0.56"];
    let jax = ["jax-cuda12-plugin", "jax-cuda12-pjrt", "jaxlib==0.8.3", "cuda-libraries", CUBLAS, CUDNN];
    let other_jaxlib = ["jax-cuda12-plugin", "jax-cuda12-pjrt", "jaxlib==0.7.2", "cuda-libraries", CUBLAS, CUDNN];
    let nothing = |_: &World| {};
    let both = ["onnxruntime-gpu==1.24.4", "onnxruntime==1.22.0"];
    const RUN: [&str; 2] = ["--run", "onnxruntime"];
    let beside = [
        "onnxruntime-gpu==1.31.1",
        "numpy",
        "nvidia-cublas==13.1.0.3",
        "nvidia-curand",
        "nvidia-cufft",
        "nvidia-cuda-runtime",
        "nvidia-cudnn-cu13",
    ];
    for (commands, case) in [
        (1, Case::new("another cuDNN than required", "C073", &older, nothing)),
        (1, Case::new("two packages missing", "C073", &["torch"], nothing)),
        (1, Case::new("another jaxlib", "C073", &other_jaxlib, nothing)),
        (2, Case::new("CTranslate2 without cuBLAS", "C074", &["ctranslate2==4.8.5"], nothing)),
        (1, Case::new("CTranslate2 without a run path", "C074", &["ctranslate2==4.8.5", CUBLAS], nothing)),
        (3, Case::new("CUDA 13 in a wheel for any CUDA", "C074", &["onnxruntime-gpu==1.31.1"], nothing)),
        (3, Case::new("a run of ONNX Runtime", "C091", &["onnxruntime-gpu==1.31.1", "numpy"], nothing).options(&RUN)),
        (2, Case::new("a run beside the wheels", "C091", &beside, nothing).options(&RUN)),
        (
            1,
            Case::new("PyTorch, deleted cuBLAS", "C074", &["torch", CUBLAS, CUDNN], |world| {
                std::fs::remove_dir_all(world.site_packages().join("nvidia/cublas/lib")).unwrap();
            }),
        ),
        (2, Case::new("onnxruntime over onnxruntime-gpu", "C079", &both, nothing).with_old_gpu()),
        (
            1,
            Case::new("damaged PyTorch", "C086", &["torch", CUBLAS, CUDNN], |world| {
                for name in ["_C.cpython-312-x86_64-linux-gnu", "lib/libtorch_cuda", "lib/libtorch_python"] {
                    damage(world, &format!("torch/{name}.so"));
                }
                damage(world, "torch/lib/libtorch_global_deps.so");
            }),
        ),
        (1, Case::new("a damaged plugin of JAX", "C086", &jax, |world| damage(world, PJRT))),
    ]
    .into_iter()
    .share(6)
    {
        run(commands, &case);
    }
}

/// The wheels for both CUDA majors own the same files. No command may cause a new finding, in any order.
#[test]
fn commands_replace_a_cudnn_for_another_cuda() {
    const CUDNN_13: &str = "nvidia-cudnn-cu13";
    let (torch, tensorflow) = (["torch==2.7.1", CUDNN], ["tensorflow", CUBLAS, CUDNN_13]);
    let both = ["torch==2.7.1", CUDNN_13, CUDNN];
    let onnxruntime = ["onnxruntime-gpu==1.31.1", CUDNN];
    let nothing = |_: &World| {};
    for (commands, case) in [
        (2, Case::new("PyTorch for CUDA 13, cuDNN for CUDA 12", "C071", &torch, nothing)),
        (2, Case::new("PyTorch for CUDA 13, as it requires", "C073", &torch, nothing)),
        (2, Case::new("TensorFlow for CUDA 12, cuDNN for CUDA 13", "C071", &tensorflow, nothing)),
        (2, Case::new("PyTorch for CUDA 13, both wheels", "C071", &both, nothing)),
        (2, Case::new("PyTorch for CUDA 13, one of both wheels", "C023", &both, nothing)),
        (3, Case::new("ONNX Runtime for CUDA 13, cuDNN for CUDA 12", "C085", &onnxruntime, nothing)),
        (1, Case::new("PyTorch for CUDA 13 alone", "C010", &torch[..1], nothing)),
        (2, Case::new("ONNX Runtime for CUDA 13 alone", "C010", &onnxruntime[..1], nothing)),
    ]
    .into_iter()
    .share(6)
    {
        let world = World::new("env", true).with_wheels(wheels().path());
        let lines = case.run(&world);
        assert_eq!(lines.len(), commands, "{lines:#?}");
        let left = world.findings(&[]);
        let is_about_cuda = |code: &str| ["C015", "C023", "C071", "C073"].contains(&code);
        assert!(left.iter().all(|finding| !is_about_cuda(finding["code"].as_str().unwrap())), "{lines:#?}: {left:#?}");
    }
}

/// The environment's Python imports packages from a directory that a `.pth` file adds.
#[test]
fn commands_change_packages_in_a_plain_directory() {
    let world = World::new("env", true).with_wheels(wheels().path());
    for package in ["torch==2.8.0", CUBLAS, "nvidia-cudnn-cu12==9.18.0.56"] {
        world.unpack(package);
    }
    let (site, libs) = (world.site_packages(), world.home().join("py libs"));
    std::fs::create_dir(&libs).unwrap();
    for name in ["torch", "torch-2.8.0.dist-info", "nvidia"] {
        std::fs::rename(site.join(name), libs.join(name)).unwrap();
    }
    for name in ["nvidia_cublas_cu12-12.9.1.4.dist-info", "nvidia_cudnn_cu12-9.18.0.56.dist-info"] {
        std::fs::rename(site.join(name), libs.join(name)).unwrap();
    }
    std::fs::write(site.join("libs.pth"), format!("{}\n", libs.display())).unwrap();
    let findings = world.findings(&[]);
    for code in ["C071", "C073"] {
        let found = findings.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("{findings:#?}"));
        assert_eq!(found["commands"].as_array().unwrap().len(), 1, "{found:#}");
        assert!(found["commands"][0].as_str().unwrap().contains("env/bin/python3"), "{found:#}");
    }
    let found = findings.iter().find(|finding| finding["code"] == "C073").unwrap();
    world.sh(found["commands"][0].as_str().unwrap());
    let left = world.findings(&[]);
    let is_about_packages = |code: &str| ["C070", "C071", "C073", "C074", "C086", "C087"].contains(&code);
    assert!(left.iter().all(|finding| !is_about_packages(finding["code"].as_str().unwrap())), "{left:#?}");
    assert!(!site.join("nvidia").exists() && libs.join("nvidia/cublas/lib/libcublas.so.12").is_file());
}

/// The frameworks need different CUDA versions.
#[test]
fn no_command_fixes_one_framework_and_breaks_another() {
    const CODES: [&str; 4] = ["C010", "C070", "C073", "C085"];
    for packages in [["torch==2.8.0", "onnxruntime-gpu==1.31.1"], ["torch==2.7.1", "onnxruntime-gpu==1.24.4"]] {
        let world = World::new("env", true).with_wheels(wheels().path());
        for package in packages {
            world.unpack(package);
        }
        let findings = world.findings(&[]);
        let about: Vec<_> =
            findings.iter().filter(|finding| CODES.contains(&finding["code"].as_str().unwrap())).collect();
        assert_eq!(about.len(), CODES.len(), "{findings:#?}");
        for finding in about {
            assert!(finding["help"].as_str().unwrap().contains("an environment of its own"), "{finding:#}");
            assert!(!finding["commands"].to_string().contains("cudnn"), "{finding:#}");
        }
    }
}

#[test]
fn the_command_for_a_program_explains_it() {
    let world = World::new("env", true);
    let program = world.home().join("it's $a program.so");
    ExtensionLibrary::new().with_soname("program.so").needing("libcudnn.so.9").build(&program);
    let name = "'it'\\''s $a program.so'";
    let findings = world.findings(&["--for", name]);
    let found = findings.iter().find(|finding| finding["code"] == "C082").unwrap();
    let command = found["commands"][0].as_str().unwrap();
    let shown = world.sh(&format!("{command} || true")).stdout;
    assert!(String::from_utf8_lossy(&shown).contains("libcudnn.so.9"), "{command}");
}

/// A wheel in a virtual environment hides the base's wheel.
#[test]
fn commands_remove_a_wheel_that_hides_the_one_of_the_base() {
    let base = World::new("env", true).with_wheels(wheels().path());
    for package in ["torch==2.8.0", CUBLAS, "nvidia-cudnn-cu12==9.19.0.56"] {
        base.unpack(package);
    }
    for (of_base, commands) in [("9.19.0.56", 1), ("", 2)] {
        let world = World::new("child", true).with_wheels(wheels().path());
        world.unpack("nvidia-cudnn-cu12==9.18.0.56");
        if of_base.is_empty() {
            base.sh("\"$VIRTUAL_ENV/bin/python3\" -I -m pip uninstall --yes nvidia-cudnn-cu12");
        }
        // This adds the base's packages like a base Python does.
        let path_file = world.site_packages().join("base.pth");
        std::fs::write(path_file, format!("{}\n", base.site_packages().display())).unwrap();
        let findings = world.findings(&[]);
        let found =
            findings.iter().find(|finding| finding["code"] == "C073").unwrap_or_else(|| panic!("{findings:#?}"));
        let lines: Vec<&str> =
            found["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(lines.len(), commands, "{found:#}");
        let left = world.findings_after("sh", &lines.join("\n"), &[]);
        assert!(left.iter().all(|finding| finding["code"] != "C073"), "{lines:?}: {left:#?}");
        assert!(!world.wheel_dir().exists() && base.wheel_dir().join("libcudnn.so.9").exists(), "{lines:?}");
    }
}

/// A program must load the wheels by ONNX Runtime's function or by PyTorch.
#[test]
fn onnx_runtime_finds_the_wheels_if_a_program_preloads_them() {
    let world = World::new("env", true).with_wheels(wheels().path());
    for package in ["onnxruntime-gpu==1.22.0", CUBLAS, CUDNN] {
        world.unpack(package);
    }
    let of_code = |findings: &[serde_json::Value], code: &str| {
        findings.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("{findings:#?}")).clone()
    };
    let found = of_code(&world.findings(&[]), "C070");
    // The program may already call the function.
    assert_eq!(found["severity"], "warning", "{found:#}");
    let help = found["help"].as_str().unwrap();
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
    assert!(at("onnxruntime.preload_dlls()") < at("search the directories"), "{help}");
    assert!(!help.contains("import torch"), "{help}");
    world.unpack("torch==2.8.0");
    let found = of_code(&world.findings(&[]), "C070").to_string();
    assert!(found.contains("onnxruntime.preload_dlls()` or run `import torch` before its first session"), "{found}");
    let world = World::new("env", true).with_wheels(wheels().path());
    world.unpack("onnxruntime-gpu==1.22.0");
    let found = of_code(&world.findings(&[]), "C070");
    assert_eq!(found["severity"], "error", "{found:#}");
    assert!(found["notes"].to_string().contains("the program can call `onnxruntime.preload_dlls()`"), "{found:#}");
    assert!(!found.to_string().contains("import torch"), "{found:#}");
    assert!(found["commands"][0].as_str().unwrap().contains(" install "), "{found:#}");
}

/// The installer would refuse, or the next synchronization would undo the change.
#[test]
fn the_decisions_of_the_user_are_named_and_respected() {
    let world = World::new("env", true).with_wheels(wheels().path());
    for package in ["torch", CUBLAS, "nvidia-cudnn-cu12==9.18.0.56"] {
        world.unpack(package);
    }
    let file = world.home().join("constraints.txt");
    std::fs::write(&file, "# of the image\nnvidia_cudnn_cu12==9.18.0.56\n").unwrap();
    let found = |world: &World| {
        let findings = world.findings(&[]);
        findings.iter().find(|finding| finding["code"] == "C073").unwrap_or_else(|| panic!("{findings:#?}")).clone()
    };
    assert_ne!(found(&world)["commands"], serde_json::json!([]));
    let world = world.variable("PIP_CONSTRAINT", &file);
    let refused = found(&world);
    assert_eq!(refused["commands"], serde_json::json!([]), "{refused:#}");
    let expected = "constraints.txt decides nvidia_cudnn_cu12==9.18.0.56: change that first";
    assert!(refused["help"].as_str().unwrap().contains(expected), "{refused:#}");
    // This also applies to reinstallations.
    std::fs::remove_file(world.wheel_dir().join(Library::Cnn.file_name())).unwrap();
    let incomplete = |constraint: &str| {
        std::fs::write(&file, constraint).unwrap();
        let findings = world.findings(&[]);
        findings.iter().find(|finding| finding["code"] == "C012").unwrap_or_else(|| panic!("{findings:#?}")).clone()
    };
    let refused = incomplete("nvidia-cudnn-cu12==9.17.0.29\n");
    assert_eq!(refused["commands"], serde_json::json!([]), "{refused:#}");
    let expected = "nvidia-cudnn-cu12==9.17.0.29: change that first";
    assert!(refused["help"].as_str().unwrap().contains(expected), "{refused:#}");
    let fixed = incomplete("nvidia-cudnn-cu12==9.19.0.56\n");
    assert!(fixed["commands"][0].as_str().unwrap().ends_with(" install nvidia-cudnn-cu12==9.19.0.56"), "{fixed:#}");
    let configuration = world.home().join(".config/pip/pip.conf");
    std::fs::create_dir_all(configuration.parent().unwrap()).unwrap();
    std::fs::write(&configuration, "[install]\nprefix = /elsewhere\n").unwrap();
    let refused = found(&world);
    assert_eq!(refused["commands"], serde_json::json!([]), "{refused:#}");
    assert!(refused["help"].as_str().unwrap().contains("pip.conf has `prefix = /elsewhere`"), "{refused:#}");
}
