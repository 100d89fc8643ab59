//! Tests `cudnn-doctor check --run` with short modules that fail like real frameworks.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cudnn_probe::{Library, Version};
use serde_json::Value;
use support::{FakeLibrary, TempDir};

/// A working PyTorch. Tests append text to replace parts.
const TORCH: &str = r#"
import contextlib, ctypes, os, sys, types

__version__ = "2.9.1+cu128"
version = types.SimpleNamespace(cuda="12.8")
float32 = "float32"


class Tensor:
    def __init__(self, values, device="cpu"):
        self.values, self.device = values, device

    def cuda(self):
        return Tensor(self.values, "cuda")

    def cpu(self):
        return Tensor(self.values)

    def reshape(self, shape):
        return self

    def flip(self, dim):
        return self

    def __truediv__(self, number):
        return Tensor([value / number for value in self.values], self.device)

    half = float = flatten = lambda self: self

    def tolist(self):
        return self.values


class LSTM:
    def __init__(self, *sizes):
        pass

    def cuda(self):
        return self

    def __call__(self, x):
        return x, None


def tensor(values, dtype):
    return Tensor(values)


class sdpa_kernel(contextlib.nullcontext):
    pass


def conv2d(x, w):
    return x


functional = types.SimpleNamespace(conv2d=lambda x, w: conv2d(x, w), scaled_dot_product_attention=lambda q, k, v: q)
attention = types.ModuleType("torch.nn.attention")
attention.SDPBackend = types.SimpleNamespace(CUDNN_ATTENTION=1)
attention.sdpa_kernel = sdpa_kernel
nn = types.ModuleType("torch.nn")
nn.functional, nn.attention, nn.LSTM = functional, attention, LSTM
sys.modules.update({"torch.nn": nn, "torch.nn.attention": attention})
no_grad = contextlib.nullcontext
cudnn = types.SimpleNamespace(version=lambda: 91002)
backends = types.SimpleNamespace(cudnn=cudnn)
cuda = types.SimpleNamespace(
    is_available=lambda: True,
    init=lambda: None,
    get_device_capability=lambda device: (9, 0),
    get_device_name=lambda device: "A GPU",
)


def fault(error):
    def function(*arguments):
        raise error

    return function
"#;

/// The subset of numpy that the scripts need.
const NUMPY: &str = include_str!("stand_ins/numpy.py");

struct Environment {
    dir: TempDir,
    site_packages: PathBuf,
}

impl Environment {
    fn new() -> Environment {
        let script = "import os, sys; print(os.path.realpath(sys.executable)); print('%d.%d' % sys.version_info[:2])";
        let output = Command::new("python3").args(["-c", script]).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let [program, version] = output.lines().collect::<Vec<_>>()[..] else { panic!("{output}") };
        let dir = TempDir::new();
        let site_packages = dir.path().join(format!("lib/python{version}/site-packages"));
        std::fs::create_dir_all(&site_packages).unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        let home = Path::new(program).parent().unwrap();
        std::fs::write(dir.path().join("pyvenv.cfg"), format!("home = {}\n", home.display())).unwrap();
        std::os::unix::fs::symlink(program, dir.path().join("bin/python3")).unwrap();
        Environment { dir, site_packages }
    }

    fn module(self, name: &str, code: &str) -> Environment {
        std::fs::create_dir(self.site_packages.join(name)).unwrap();
        std::fs::write(self.site_packages.join(name).join("__init__.py"), code).unwrap();
        self
    }

    fn torch(fault: &str) -> Environment {
        Environment::new().module("torch", &format!("{TORCH}\n{fault}\n"))
    }

    fn doctor(&self, framework: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        command.args(["check", "--json", "--run", framework]).env_clear().env("VIRTUAL_ENV", self.dir.path());
        command.env("PATH", "/usr/bin:/bin").current_dir(self.dir.path());
        command
    }

    fn check(&self, framework: &str) -> Value {
        document(&mut self.doctor(framework))
    }
}

fn document(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn finding(document: &Value) -> &Value {
    let findings = document["findings"].as_array().unwrap();
    let is_of_run = |finding: &&Value| finding["code"].as_str().is_some_and(|code| code.starts_with("C09"));
    findings.iter().find(is_of_run).unwrap_or_else(|| panic!("nothing about the run: {document:#}"))
}

#[track_caller]
fn has(finding: &Value, code: &str, texts: &[&str]) {
    assert_eq!(finding["code"], code, "{finding:#}");
    assert!(!finding["help"].as_str().unwrap_or_default().is_empty(), "{finding:#}");
    for text in texts {
        assert!(format!("{finding:#}").contains(text), "{text:?} is missing: {finding:#}");
    }
}

#[test]
fn a_working_framework_has_a_line_for_every_step() {
    let environment = Environment::torch("");
    let document = environment.check("torch");
    let run = &document["runs"][0];
    assert_eq!((&run["framework"], &run["works"]), (&"torch".into(), &true.into()), "{document:#}");
    assert_eq!(run["version"], "2.9.1+cu128");
    let steps: Vec<_> = run["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["import", "cudnn", "device", "convolution", "attention", "rnn"]);
    assert!(run["steps"].as_array().unwrap().iter().all(|step| step["outcome"] == "done"), "{run:#}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    command.args(["check", "--run", "torch", "--python"]).arg(environment.dir.path()).env_clear();
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    for line in ["PyTorch 2.9.1+cu128, by ", "  cudnn        9.10.2", "  device       A GPU (compute capability 9.0)"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_failure_is_explained_by_its_first_cause() {
    let torch =
        |fault: &str, code: &str, texts: &[&str]| has(finding(&Environment::torch(fault).check("torch")), code, texts);
    // cuDNN's log is more detailed than the framework's message. An engine that merely rejects a graph must not be
    // blamed.
    torch(
        r#"
def conv2d(x, w):
    if x.device == "cpu":
        return x
    entry = "E! CuDNN (v91002 17) function {}() called:\ne!     Info: Traceback contains 1 message(s)\n" \
        "e!         Error: {}; Reason: {}\ne! Time: 2026-11-21T11:23:10.983743 (0d+0h+0m+0s since start)\n" \
        "e! Process=1; Thread=1; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n\n"
    with open(os.environ["CUDNN_LOGDEST_DBG"], "a") as log:
        log.write(entry.format("cudnnBackendFinalize", "CUDNN_STATUS_NOT_SUPPORTED", "no engine"))
        log.write(entry.format("cudnnCreate", "CUDNN_STATUS_NOT_INITIALIZED", "cudaGetDeviceCount(&count) != cudaSuccess"))
    raise RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED")
"#,
        "C090",
        &[
            "PyTorch 2.9.1+cu128: the convolution failed: cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED: \
             cudaGetDeviceCount(&count) != cudaSuccess",
            "PyTorch's message: RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        ],
    );
    torch(
        r#"
def conv2d(x, w):
    if x.device == "cpu":
        return x
    sys.stderr.write("Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9.1, libcudnn_cnn.so.9}\n"
                     "Invalid handle. Cannot load symbol cudnnCreateConvolutionDescriptor\n")
    sys.stderr.flush()
    os.abort()
"#,
        "C090",
        &[
            "the convolution failed: Unable to load any of {libcudnn_cnn.so.9.1.0",
            "the process was ended by signal 6 (SIGABRT) while it ran a convolution in PyTorch",
            "its stderr: Invalid handle. Cannot load symbol",
        ],
    );
    torch(
        "raise ImportError('libcudnn.so.9: cannot open shared object file: No such file or directory')",
        "C090",
        &[
            "the import failed: ImportError: libcudnn.so.9: cannot open shared object file",
            "pip",
            "install nvidia-cudnn-cu12",
        ],
    );
    torch(
        "raise ImportError('libcusparseLt.so.0: cannot open shared object file: No such file or directory')",
        "C090",
        &["install the package with libcusparseLt.so.0"],
    );
    // The innermost error caused the others.
    torch(
        r#"
def conv2d(x, w):
    try:
        raise OSError("libcublas.so.13: cannot open shared object file: No such file or directory")
    except OSError:
        raise RuntimeError("something went wrong")
"#,
        "C090",
        &[
            "the convolution failed: OSError: libcublas.so.13: cannot",
            "PyTorch's message: RuntimeError: something",
            "nvidia-cublas",
        ],
    );
    torch(
        "functional.conv2d = fault(RuntimeError('CUDA error: no kernel image is available for execution on the device'))",
        "C090",
        &["no kernel image is available", "with code for this GPU"],
    );
    torch(
        "functional.conv2d = fault(RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB'))",
        "C090",
        &["nvidia-smi"],
    );
    torch(
        "functional.conv2d = lambda x, w: Tensor([float('nan') if x.device == 'cuda' else 1.0])",
        "C090",
        &["is wrong"],
    );
    torch("functional.conv2d = lambda x, w: os.kill(os.getpid(), 11)", "C090", &["signal 11 (SIGSEGV)"]);
    torch("functional.conv2d = lambda x, w: os._exit(0)", "C090", &["was ended by a library, with status 0"]);
    torch("functional.conv2d = lambda x, w: sys.exit(0)", "C090", &["SystemExit"]);
    torch(
        "functional.conv2d = fault(RuntimeError('first'))\nnn.LSTM = fault(RuntimeError('second'))",
        "C090",
        &["the convolution failed: RuntimeError: first", "the RNN failed, too: RuntimeError: second"],
    );
    torch(
        "functional.conv2d = fault(RuntimeError('\\x1b[2J\\u202e\\ud800\\x00boo'))",
        "C090",
        &["\\\\u{1b}[2J\\\\u{202e}?\\\\u{0}boo"],
    );
}

#[test]
fn a_framework_that_uses_the_cpu_instead_of_the_gpu_is_a_warning() {
    let old = "RuntimeError('The NVIDIA driver on your system is too old (found version 12080). Please update')";
    let fault = format!("cuda.is_available = lambda: False\ncuda.init = fault({old})");
    let texts =
        ["PyTorch 2.9.1+cu128 computes on the CPU: ", "is too old (found version 12080)", "update NVIDIA's driver"];
    has(finding(&Environment::torch(&fault).check("torch")), "C091", &texts);
    let without_cuda = Environment::torch("version.cuda = None");
    has(
        finding(&without_cuda.check("torch")),
        "C091",
        &[
            "this PyTorch is built without CUDA",
            "install --force-reinstall torch",
            "a build without CUDA uses no cuDNN",
        ],
    );
    let onnxruntime = r#"
import sys
__version__ = "1.22.0"
get_available_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
SessionOptions = object


class InferenceSession:
    def __init__(self, model, options, providers):
        assert b"Conv" in model
        sys.stderr.write("\x1b[1;31m[E:onnxruntime:Default] Failed to load library libonnxruntime_providers_cuda.so with "
                         "error: libcudnn.so.9: cannot open shared object file: No such file or directory\x1b[m\n")

    def get_providers(self):
        return ["CPUExecutionProvider"]
"#;
    let environment = Environment::new().module("onnxruntime", onnxruntime).module("numpy", NUMPY);
    let document = environment.check("onnxruntime");
    has(
        finding(&document),
        "C091",
        &["ONNX Runtime 1.22.0 computes on the CPU: [E:onnxruntime:Default] Failed to load"],
    );
    assert!(!finding(&document).to_string().contains("1b"), "{document:#}");
    let jax = r#"
import sys, types
__version__ = "0.7.2"
sys.stderr.write("An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed.\n")
devices = lambda: [types.SimpleNamespace(platform="cpu")]
"#;
    let environment = Environment::new().module("jax", jax);
    has(
        finding(&environment.check("jax")),
        "C091",
        &["JAX 0.7.2 computes on the CPU: ", "a CUDA-enabled jaxlib is not installed", "jax.devices() has no GPU"],
    );
}

#[test]
fn a_build_for_the_cpu_is_replaced_by_the_one_with_cuda() {
    let distribution = |environment: Environment, name: &str, version: &str| {
        let dir = environment.site_packages.join(format!("{}-{version}.dist-info", name.replace('-', "_")));
        std::fs::create_dir(&dir).unwrap();
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        std::fs::write(dir.join("METADATA"), metadata).unwrap();
        environment
    };
    let tensorflow = "import types\n__version__ = '2.21.0'\nsysconfig = \
                      types.SimpleNamespace(get_build_info=lambda: {'is_cuda_build': False})\n";
    let environment = distribution(Environment::new().module("tensorflow", tensorflow), "tensorflow-cpu", "2.21.0");
    let texts = [
        "TensorFlow 2.21.0 computes on the CPU: this TensorFlow is built without CUDA",
        "uninstall --yes tensorflow-cpu",
        "install 'tensorflow[and-cuda]'",
    ];
    has(finding(&environment.check("tensorflow")), "C091", &texts);
    let onnxruntime = "__version__ = '1.22.0'\nget_available_providers = lambda: ['CPUExecutionProvider']\n";
    let environment = distribution(Environment::new().module("onnxruntime", onnxruntime), "onnxruntime", "1.22.0");
    let texts = ["this ONNX Runtime is built without CUDA: it has CPUExecutionProvider", "uninstall --yes onnxruntime"];
    has(finding(&environment.check("onnxruntime")), "C091", &texts);
    let jax = "import types\n__version__ = '0.7.2'\ndevices = lambda: [types.SimpleNamespace(platform='cpu')]\n";
    let environment = distribution(Environment::new().module("jax", jax), "jaxlib", "0.7.2");
    let texts = ["this JAX is built without CUDA: the package jax-cuda12-plugin or", "'jax[cuda12]'"];
    has(finding(&environment.check("jax")), "C091", &texts);
    let jax = "__version__ = '0.7.2'\ndef devices():\n    raise RuntimeError(\"Unknown backend: 'cuda' requested\")\n";
    let environment = distribution(Environment::new().module("jax", jax), "jaxlib", "0.7.2");
    has(finding(&document(environment.doctor("jax").env("JAX_PLATFORMS", "cuda"))), "C091", &texts);
}

fn with_torch_13(environment: Environment) -> Environment {
    let info = environment.site_packages.join("torch-2.9.1+cu130.dist-info");
    std::fs::create_dir(&info).unwrap();
    let metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1+cu130\n\
                    Requires-Dist: nvidia-cudnn-cu13==9.13.0.50; platform_system == \"Linux\"\n";
    std::fs::write(info.join("METADATA"), metadata).unwrap();
    std::fs::write(environment.site_packages.join("torch/version.py"), "cuda = '13.0'\n").unwrap();
    environment
}

#[test]
fn other_packages_choose_the_cuda_of_the_missing_cudnn() {
    let fault = "raise ImportError('libcudnn.so.9: cannot open shared object file: No such file or directory')";
    let environment = Environment::torch(fault);
    let info = environment.site_packages.join("acme-1.0.dist-info");
    std::fs::create_dir(&info).unwrap();
    // No cuDNN 9 meets the second requirement.
    for (versions, is_met) in [("<9.20", true), (">=10", false)] {
        let metadata =
            format!("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\nRequires-Dist: nvidia-cudnn-cu13{versions}\n");
        std::fs::write(info.join("METADATA"), metadata).unwrap();
        let check = environment.check("torch");
        let command = finding(&check)["commands"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert!(command.contains(" install ") && command.contains("nvidia-cudnn-cu13"), "{versions}: {check:#}");
        assert_eq!(command.contains(versions), is_met, "{versions}: {check:#}");
    }
}

#[test]
fn installed_packages_suit_the_other_frameworks() {
    const CUDNN: &str = "nvidia-cudnn-cu13==9.13.0.50";
    let environment = with_torch_13(Environment::torch(
        "raise ImportError('libcudnn.so.9: cannot open shared object file: No such file or directory')",
    ));
    has(finding(&environment.check("torch")), "C090", &[&format!("install {CUDNN}")]);
    // JAX is missing or a CPU-only build.
    let jax = format!("install 'jax[cuda13]' {CUDNN}");
    has(finding(&environment.check("jax")), "C090", &[&jax]);
    has(finding(&environment.check("onnxruntime")), "C090", &[&format!("install onnxruntime-gpu {CUDNN}")]);
    let tensorflow = environment.check("tensorflow");
    has(finding(&tensorflow), "C090", &["PyTorch is built for CUDA 13", "an environment of its own"]);
    assert_eq!(finding(&tensorflow)["commands"].as_array().unwrap().len(), 0, "{tensorflow:#}");
    let code = "import types\n__version__ = '0.7.2'\ndevices = lambda: [types.SimpleNamespace(platform='cpu')]\n";
    let info = environment.site_packages.join("jaxlib-0.7.2.dist-info");
    std::fs::create_dir(&info).unwrap();
    std::fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: jaxlib\nVersion: 0.7.2\n").unwrap();
    has(finding(&environment.module("jax", code).check("jax")), "C091", &[&jax]);
}

#[test]
fn a_framework_that_sees_no_gpu_says_why() {
    let torch = Environment::torch("cuda.is_available = lambda: False");
    let hidden = document(torch.doctor("torch").env("CUDA_VISIBLE_DEVICES", ""));
    let texts = ["PyTorch 2.9.1+cu128 sees no GPU: CUDA_VISIBLE_DEVICES= hides the GPUs", "unset CUDA_VISIBLE_DEVICES"];
    has(finding(&hidden), "C091", &texts);
    let document = torch.check("torch");
    let findings = document["findings"].as_array().unwrap();
    // A missing driver is the reason.
    if let Some(driver) = findings.iter().find(|finding| finding["code"] == "C001") {
        let why = format!("PyTorch 2.9.1+cu128 sees no GPU: {}", driver["message"].as_str().unwrap());
        has(finding(&document), "C091", &[&why, "torch.cuda.is_available() is False"]);
        assert_eq!(finding(&document)["help"], driver["help"]);
    }
}

#[test]
fn the_environment_of_the_selected_python_is_checked() {
    let with_cudnn = |environment: Environment, version: Version| {
        let lib = environment.site_packages.join("nvidia/cudnn/lib");
        std::fs::create_dir_all(&lib).unwrap();
        FakeLibrary::new(Library::Graph, version).build(&lib.join("libcudnn_graph.so.9"));
        let torch = environment.site_packages.join("torch-2.9.1.dist-info");
        std::fs::create_dir(&torch).unwrap();
        let metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\nRequires-Dist: nvidia-nccl-cu12==2.27.5\n";
        std::fs::write(torch.join("METADATA"), metadata).unwrap();
        environment
    };
    let named = with_cudnn(
        Environment::torch("raise ImportError('libcublas.so.12: cannot open shared object file: No such file')"),
        Version::new(9, 10, 2),
    );
    let active = with_cudnn(Environment::torch(""), Version::new(9, 14, 0));
    let (named_dir, active_dir) = (named.dir.path().to_str().unwrap(), active.dir.path().to_str().unwrap());
    for python in [named.dir.path().to_owned(), named.dir.path().join("bin/python3")] {
        let path = format!("{active_dir}/bin:/usr/bin:/bin");
        let check = document(active.doctor("torch").arg("--python").arg(&python).env("PATH", path));
        assert_eq!(check["version"], "9.10.2", "{check:#}");
        assert!(check["installation"].as_str().unwrap().starts_with(named_dir), "{check:#}");
        assert!(!check.to_string().contains(active_dir), "{check:#}");
        let findings = check["findings"].as_array().unwrap();
        let commands = |code: &str| {
            let found = findings.iter().find(|finding| finding["code"] == code);
            found.unwrap_or_else(|| panic!("no {code}: {check:#}"))["commands"].to_string()
        };
        for code in ["C073", "C090"] {
            assert!(commands(code).contains(&format!("{named_dir}/bin/python3")), "{code}: {check:#}");
        }
    }
}

#[test]
fn an_older_cudnn_on_the_library_path_is_named_and_removed() {
    let dir = TempDir::new();
    let shim = dir.path().join("libcudnn.so.9");
    FakeLibrary::new(Library::Graph, Version::new(9, 1, 0)).build(&shim);
    let fault = format!(
        "ctypes.CDLL({:?})\ncudnn.version = fault(RuntimeError('cuDNN version incompatibility: PyTorch was compiled  \
         against (9, 10, 2) but found runtime version (9, 1, 0). PyTorch already comes bundled with cuDNN.'))",
        shim.display().to_string()
    );
    let environment = Environment::torch(&fault);
    let document =
        document(environment.doctor("torch").env("LD_LIBRARY_PATH", format!("{}:/opt", dir.path().display())));
    let loaded = format!("loaded from {}: libcudnn.so.9", dir.path().display());
    let texts = ["the check of cuDNN's version failed", &loaded, "export LD_LIBRARY_PATH=/opt", "(9, 1, 0)"];
    has(finding(&document), "C090", &texts);
    assert_eq!(document["runs"][0]["libraries"][0], shim.display().to_string());
}

#[test]
fn a_framework_that_hangs_or_floods_is_bounded() {
    let start = Instant::now();
    let hangs = Environment::torch("import time\nfunctional.conv2d = lambda x, w: time.sleep(1000)");
    let document = document(hangs.doctor("torch").args(["--timeout", "3"]));
    has(finding(&document), "C090", &["the convolution failed: the process made no progress for 3 s", "--timeout 600"]);
    let floods = Environment::torch(
        r#"
def conv2d(x, w):
    block = b"x" * (1 << 20)
    for _ in range(512):
        os.write(1, block)
        os.write(2, block)
    raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")
"#,
    );
    let document = floods.check("torch");
    has(finding(&document), "C090", &["CUDNN_STATUS_EXECUTION_FAILED"]);
    assert!(document.to_string().len() < 100_000, "{}", document.to_string().len());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Forks a process in the child's session and another in a new session. Both write their process ids and keep running.
const FORKS: &str = r#"
import time


def fork(prepare):
    if os.fork() == 0:
        prepare()
        if os.fork() == 0:
            with open(os.environ["PIDS"], "a") as file:
                file.write("%d\n" % os.getpid())
            time.sleep(1000)
            os._exit(0)
        os._exit(0)


fork(lambda: None)
fork(os.setsid)
while not os.path.exists(os.environ["PIDS"]) or len(open(os.environ["PIDS"]).readlines()) < 2:
    time.sleep(0.01)
"#;

#[track_caller]
fn are_gone(pids: &Path) {
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 2, "{pids}");
    for pid in pids.lines() {
        let start = Instant::now();
        while Path::new("/proc").join(pid).exists() {
            assert!(start.elapsed() < Duration::from_secs(2), "process {pid} is alive");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn no_process_of_a_framework_keeps_running() {
    let works = Environment::torch(FORKS);
    let pids = works.dir.path().join("pids");
    let check = document(works.doctor("torch").env("PIDS", &pids));
    assert_eq!(check["runs"][0]["works"], true, "{check:#}");
    are_gone(&pids);
    let hangs = Environment::torch(&format!("{FORKS}\ntime.sleep(1000)"));
    let pids = hangs.dir.path().join("pids");
    let check = document(hangs.doctor("torch").args(["--timeout", "2"]).env("PIDS", &pids));
    has(finding(&check), "C090", &["the import failed: the process made no progress for 2 s"]);
    are_gone(&pids);
    // Ctrl-C never reaches the framework's session.
    std::fs::remove_file(&pids).unwrap();
    let mut doctor = hangs.doctor("torch");
    // A shell ignores this signal in background jobs.
    let take_signal = || {
        // SAFETY: the call only resets the signal's handler in the child.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure only makes one system call.
    unsafe { doctor.pre_exec(take_signal) };
    let mut doctor = doctor.env("PIDS", &pids).stdout(Stdio::piped()).spawn().unwrap();
    while !std::fs::read_to_string(&pids).is_ok_and(|pids| pids.lines().count() == 2) {
        assert!(doctor.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-INT", &doctor.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = doctor.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(2));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\n  \"schema\": 2,\n  \"error\": \"interrupted\"\n}\n");
    are_gone(&pids);
}

#[test]
fn forged_messages_are_ignored() {
    // Writes the messages of a successful run to every open descriptor except stdout and stderr.
    const FORGE: &str = r#"
import os
LINES = b'{"begin": "import"}\n{"end": "import", "outcome": "done", "text": "forged"}\n{"finished": true}\n' \
    b'{"work": "Compute", "text": "forged"}\n{"version": "9.9.9"}\n'
for descriptor in [0, *range(3, 64)]:
    try:
        os.write(descriptor, LINES)
    except OSError:
        pass
"#;
    let environment = Environment::torch(&format!("{FORGE}\nos._exit(0)"));
    let check = environment.check("torch");
    has(finding(&check), "C090", &["was ended by a library, with status 0", "imported torch"]);
    assert!(!check.to_string().contains("9.9.9") && !check["runs"].to_string().contains("forged"), "{check:#}");
    // The same text is written before the script starts.
    let environment = Environment::torch("");
    std::fs::write(environment.site_packages.join("sitecustomize.py"), FORGE).unwrap();
    let check = environment.check("torch");
    assert_eq!(check["runs"][0]["works"], true, "{check:#}");
    assert_eq!(check["runs"][0]["steps"].as_array().unwrap().len(), 6, "{check:#}");
    // The run must not hang.
    std::fs::write(environment.site_packages.join("sitecustomize.py"), "input()\n").unwrap();
    has(finding(&environment.check("torch")), "C090", &["Python did not start", "has read the standard input"]);
    let read_by_child = "import os\nif os.fork() == 0:\n    os.read(0, 99)\n    os._exit(0)\nos.wait()\n";
    std::fs::write(environment.site_packages.join("sitecustomize.py"), read_by_child).unwrap();
    has(finding(&environment.check("torch")), "C090", &["Python did not start", "or has forked"]);
    // The process must also exit normally.
    let environment = Environment::torch("os._exit = lambda status: os.abort()");
    has(finding(&environment.check("torch")), "C090", &["the end of the process failed", "SIGABRT"]);
}

#[test]
fn variables_that_lead_python_elsewhere_are_named() {
    let environment = Environment::torch("");
    let at_home = document(environment.doctor("torch").env("PYTHONHOME", "/nowhere"));
    has(finding(&at_home), "C090", &["PyTorch: Python did not start", "from /nowhere", "unset PYTHONHOME"]);
    let script = Environment::new();
    let other_python = environment.dir.path().join("bin/python3");
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", other_python.display());
    support::write_program(script.dir.path().join("bin/python3"), text);
    let by_script = script.check("torch");
    let texts = [
        format!("Python took its modules from {}", environment.dir.path().display()),
        format!("--python {}", environment.dir.path().display()),
    ];
    has(finding(&by_script), "C092", &texts.each_ref().map(String::as_str));
    // The other Python's standard library is incomplete.
    let other_home = TempDir::new();
    let base = std::fs::canonicalize(environment.dir.path().join("bin/python3")).unwrap();
    let lib = base.parent().unwrap().parent().unwrap().join("lib");
    std::os::unix::fs::symlink(lib, other_home.path().join("lib")).unwrap();
    let without_math = Environment::torch("raise ModuleNotFoundError(\"No module named 'math'\")");
    let check = document(without_math.doctor("torch").env("PYTHONHOME", other_home.path()));
    let texts = [format!("standard library from {}", other_home.path().display()), "unset PYTHONHOME".to_owned()];
    has(finding(&check), "C090", &texts.each_ref().map(String::as_str));
    // These modules shadow Python's own.
    let package = environment.site_packages.join("package");
    std::fs::create_dir(&package).unwrap();
    std::fs::write(package.join("__init__.py"), "").unwrap();
    std::fs::write(package.join("contextlib.py"), "raise ImportError('cannot import name Array')\n").unwrap();
    let check = document(environment.doctor("torch").env("PYTHONPATH", &package));
    has(finding(&check), "C090", &["cannot import name Array", "unset PYTHONPATH"]);
    std::fs::rename(package.join("contextlib.py"), package.join("types.py")).unwrap();
    let check = document(environment.doctor("torch").env("PYTHONPATH", &package));
    has(finding(&check), "C090", &["cannot import name Array", "unset PYTHONPATH"]);
    let other = TempDir::new();
    let python_path = format!("/opt:{}", other.path().display());
    let check = || document(environment.doctor("torch").env("PYTHONPATH", &python_path));
    std::fs::write(other.path().join("json.py"), "raise SyntaxError('of Python 2')").unwrap();
    has(finding(&check()), "C090", &["Python did not start", "of Python 2", "export PYTHONPATH=/opt"]);
    std::fs::remove_file(other.path().join("json.py")).unwrap();
    // Another framework on the path may be broken or work.
    let broken = "import ctypes\nraise ImportError('torch/_C.so: undefined symbol: _PyInterpreterState_Get')\n";
    std::fs::write(other.path().join("torch.py"), broken).unwrap();
    let what = format!("Python took {0}/torch.py from {0}: PYTHONPATH leads there", other.path().display());
    has(finding(&check()), "C090", &["the import failed", &what, "export PYTHONPATH=/opt"]);
    std::fs::write(other.path().join("torch.py"), TORCH).unwrap();
    let check = check();
    has(finding(&check), "C092", &["PyTorch 2.9.1+cu128 works, but Python took", "export PYTHONPATH=/opt"]);
    assert_eq!(check["runs"][0]["works"], true, "{check:#}");
}

#[test]
fn modules_of_the_working_directory_are_not_imported() {
    let environment = Environment::torch("");
    for module in ["torch", "json", "site", "ctypes"] {
        let code = format!("open({:?}, 'w')\n", environment.dir.path().join("imported").display().to_string());
        std::fs::write(environment.dir.path().join(format!("{module}.py")), code).unwrap();
    }
    // Relative directories are resolved in the child's empty working directory.
    let document = document(environment.doctor("torch").env("PYTHONPATH", ".:"));
    assert_eq!(document["runs"][0]["works"], true, "{document:#}");
    assert!(!environment.dir.path().join("imported").exists());
}

#[test]
fn a_missing_framework_or_python_is_named() {
    let environment = Environment::new();
    let document = environment.check("torch");
    has(
        finding(&document),
        "C090",
        &["PyTorch: the import failed: ModuleNotFoundError: No module named 'torch'", "install torch"],
    );
    let mut lost = environment.doctor("torch");
    lost.env("VIRTUAL_ENV", "/nowhere/env").env("PATH", environment.dir.path().join("bin"));
    let lost = self::document(&mut lost);
    has(finding(&lost), "C090", &["No module named 'torch'", "VIRTUAL_ENV names the environment /nowhere/env, but"]);
    assert_eq!(finding(&lost)["commands"], serde_json::json!([]), "{lost:#}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    command.args(["check", "--json", "--run", "jax", "--python", "/nowhere/python3"]).env_clear();
    has(finding(&self::document(&mut command)), "C090", &["JAX cannot be run: /nowhere/python3: No such file"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    command.args(["check", "--json", "--run", "jax", "--python", "/nowhere"]).env_clear();
    has(finding(&self::document(&mut command)), "C090", &["JAX cannot be run: /nowhere: No such file"]);
}

#[test]
fn a_package_is_changed_in_its_own_directory() {
    let onnxruntime = "__version__ = '1.22.0'\nget_available_providers = lambda: ['CPUExecutionProvider']\n";
    let with = Environment::new().module("onnxruntime", onnxruntime);
    let without = Environment::new();
    let of_with = format!("{}/bin/python3", with.dir.path().display());
    let of_without = format!("{}/bin/python3 -I", without.dir.path().display());
    let by_variable = document(without.doctor("onnxruntime").env("PYTHONPATH", &with.site_packages));
    has(finding(&by_variable), "C091", &["is built without CUDA", &of_with]);
    assert!(!finding(&by_variable)["commands"].to_string().contains(&of_without), "{by_variable:#}");
    // A `.pth` file or code adds an ordinary directory.
    let elsewhere = TempDir::new();
    std::fs::create_dir(elsewhere.path().join("onnxruntime")).unwrap();
    std::fs::write(elsewhere.path().join("onnxruntime/__init__.py"), onnxruntime).unwrap();
    let dir = elsewhere.path().display();
    for (name, text) in
        [("x.pth", format!("{dir}\n")), ("sitecustomize.py", format!("import sys\nsys.path.append('{dir}')\n"))]
    {
        let file = without.site_packages.join(name);
        std::fs::write(&file, text).unwrap();
        let check = without.check("onnxruntime");
        let leads = format!("{} leads there", file.display());
        has(finding(&check), "C091", &["is built without CUDA", &leads]);
        assert_eq!(finding(&check)["commands"].as_array().unwrap().len(), 0, "{check:#}");
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_failure_of_the_doctor_itself_is_reported() {
    let environment = Environment::torch("");
    let reason = "the doctor could not run PyTorch: cannot create a directory in /";
    for command in ["check", "fix"] {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        doctor.args([command, "--json", "--run", "torch"]).env_clear().env("VIRTUAL_ENV", environment.dir.path());
        let output = doctor.env("TMPDIR", environment.dir.path().join("no")).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = document["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["code"] == "C055").unwrap();
        has(found, "C055", &[reason, "TMPDIR"]);
        assert!(document["error"].as_str().is_some_and(|error| error.contains(reason)), "{document:#}");
    }
}

#[test]
fn a_replaced_library_is_reinstalled_or_its_variable_is_fixed() {
    let (other, links) = (TempDir::new(), TempDir::new());
    let graph = other.path().join("libcudnn_graph.so.9.14.0");
    FakeLibrary::new(Library::Graph, Version::new(9, 14, 0)).build(&graph);
    let lib = links.path().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&lib).unwrap();
    std::os::unix::fs::symlink(&graph, lib.join("libcudnn_graph.so.9")).unwrap();
    let fault = format!(
        "ctypes.CDLL({:?})\nfunctional.conv2d = fault(RuntimeError('cuDNN error: \
         CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH'))",
        lib.join("libcudnn_graph.so.9").display().to_string()
    );
    let environment = Environment::torch(&fault);
    let check = document(environment.doctor("torch").env("PYTHONPATH", links.path()));
    let loaded = format!("loaded from {}: libcudnn_graph.so.9.14.0", other.path().display());
    has(finding(&check), "C090", &["libraries of two releases are mixed", &loaded, "unset PYTHONPATH"]);
    // Without the variable, the environment's package is the cause.
    let lib = environment.site_packages.join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&lib).unwrap();
    let record = environment.site_packages.join("nvidia_cudnn_cu12-9.19.0.56.dist-info");
    std::fs::create_dir(&record).unwrap();
    std::fs::write(record.join("RECORD"), "nvidia/cudnn/lib/libcudnn_graph.so.9,,\n").unwrap();
    let graph = lib.join("libcudnn_graph.so.9");
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&graph);
    let fault = format!(
        "ctypes.CDLL({:?})\nfunctional.conv2d = fault(RuntimeError('Could not load library libcudnn_ops.so.9'))",
        graph.display().to_string()
    );
    std::fs::write(environment.site_packages.join("torch/__init__.py"), format!("{TORCH}\n{fault}\n")).unwrap();
    let texts = ["(cuDNN 9.19.0): libcudnn_graph.so.9", "--force-reinstall --no-deps nvidia-cudnn-cu12==9.19.0.56"];
    has(finding(&environment.check("torch")), "C090", &texts);
}

#[test]
fn a_framework_without_the_libraries_of_cuda_gets_the_package_with_them() {
    let tensorflow = r#"
import sys, types
__version__ = "2.21.0"
sysconfig = types.SimpleNamespace(get_build_info=lambda: {"is_cuda_build": True, "cuda_version": "12.5.1"})


def list_physical_devices(kind):
    sys.stderr.write("W0000 gpu_device.cc:2342] Cannot dlopen some GPU libraries. Please make sure the missing libraries "
                     "mentioned above are installed properly.\nSkipping registering GPU devices...\n")
    return []


config = types.SimpleNamespace(list_physical_devices=list_physical_devices)
"#;
    let environment = Environment::new().module("tensorflow", tensorflow);
    let texts = ["TensorFlow 2.21.0 computes on the CPU: ", "Cannot dlopen some GPU", "install 'tensorflow[and-cuda]'"];
    has(finding(&environment.check("tensorflow")), "C091", &texts);
    // CTranslate2 4.5 bundles NVIDIA's shim without the libraries that the shim loads.
    let ctranslate2 = r#"
import ctypes, os
__version__ = "4.5.0"
ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libcudnn-74a4c495.so.9.1.0"))
"#;
    let environment = Environment::new().module("ctranslate2", ctranslate2);
    let code = "#include <stdio.h>\n#include <stdlib.h>\nint cudnnCreateTensorDescriptor(void **to) { return 0; }\n
        int cudnnCreateConvolutionDescriptor(void **to) {
            fprintf(stderr, \"Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9.1, libcudnn_cnn.so.9}\\n\");
            abort();
        }\n";
    let shim = environment.site_packages.join("ctranslate2/libcudnn-74a4c495.so.9.1.0");
    support::compile(code, &["-shared", "-fPIC", "-w"], &shim);
    let texts = ["CTranslate2 4.5.0: the convolution failed: Unable to load any of", "'ctranslate2>=4.6.3'", "SIGABRT"];
    has(finding(&environment.check("ctranslate2")), "C090", &texts);
}
