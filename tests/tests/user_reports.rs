//! Recreates fifteen problems from public reports, from real releases where possible. The doctor must name the cause
//! and a remedy, and the loader must report it. docs/data/what-goes-wrong.json has the output of each, and of NVIDIA's
//! shim. `CUDNN_TESTS_WRITE=1` rewrites that file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cudnn_probe::Library;
use serde_json::Value;
use support::{
    Child, ChildOutput, FakeLibrary, FakeNvml, PythonEnvironment, TempDir, Version, check_document, lib_dir,
    link_or_copy, not_run,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const OLDER: Version = Version::new(9, 19, 0);

/// The directory of a wheel's libraries, relative to the environment's root.
const WHEEL: &str = "lib/python3.12/site-packages/nvidia/cudnn/lib";

/// The files of a situation, and the environment variables for all processes.
struct World {
    root: TempDir,
    variables: Vec<(&'static str, PathBuf)>,
}

/// The output of all programs in a situation, and the situation's root directory.
struct Report {
    root: TempDir,
    situation: &'static str,
    shim: Option<String>,
    doctor: String,
    loader: String,
}

impl World {
    fn new() -> World {
        World { root: TempDir::new(), variables: Vec::new() }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    fn make_dir(&self, below: &str) -> PathBuf {
        let dir = self.path(below);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Installs a real release, or some files of it, in a directory.
    fn install(&self, below: &str, from: &Path, names: Option<&[Library]>) -> PathBuf {
        let dir = self.make_dir(below);
        for library in Library::ALL.iter().filter(|library| names.is_none_or(|names| names.contains(library))) {
            let file = from.join(library.file_name());
            if file.exists() {
                link_or_copy(&file, &dir.join(library.file_name())).unwrap();
            }
        }
        dir
    }

    fn fake_libraries(&self, below: &str, version: Version, ptx: u16) -> PathBuf {
        let dir = self.make_dir(below);
        for library in Library::ALL.iter().filter(|library| cudnn_probe::release_facts::has_library(version, **library))
        {
            FakeLibrary::new(*library, version).with_ptx(ptx).build(&dir.join(library.file_name()));
        }
        dir
    }

    fn with(mut self, name: &'static str, value: impl Into<PathBuf>) -> World {
        self.variables.push((name, value.into()));
        self
    }

    fn doctor(&self, args: &[&str]) -> Doctor {
        let doctor = support::doctor();
        // The fake machine includes a Python with pip, so that the output does not depend on the test machine's Python.
        let python = PythonEnvironment::at(&self.path("python"), "lib/python3.12/site-packages").python3().pip();
        let path = std::env::join_paths([doctor.parent().unwrap(), &python.root().join("bin")]).unwrap();
        let output = Command::new(&doctor)
            .args(args)
            .env_clear()
            // The commands name the doctor as the shell finds it.
            .env("PATH", path)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        Doctor { stdout: String::from_utf8_lossy(&output.stdout).into_owned(), code: output.status.code() }
    }

    fn findings(&self, args: &[&str]) -> Vec<Value> {
        let stdout = self.doctor(&[&["check", "--json"], args].concat()).stdout;
        let document: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
        document["findings"].as_array().unwrap().clone()
    }

    /// Returns the text of the finding with this code, which must contain all fragments and a help text.
    fn finding(&self, options: &[&str], code: &str, fragments: &[&str]) -> String {
        let findings = self.findings(options);
        let found = findings.iter().find(|finding| finding["code"] == code);
        let found = found.unwrap_or_else(|| panic!("{code} is missing: {findings:#?}"));
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        let list = |key: &str| found[key].as_array().unwrap().iter().filter_map(Value::as_str);
        let notes = list("notes").map(|note| format!("\n  = note: {note}"));
        let commands = list("commands").map(|command| format!("\n          {command}"));
        let help = [format!("\n  = help: {}", text("help"))];
        let head = format!("{}[{code}]: {}", text("severity"), text("message"));
        let read_more = [format!("\n  = read more: {}", text("read_more"))];
        let all: String = [head].into_iter().chain(notes).chain(help).chain(commands).chain(read_more).collect();
        assert!(!text("help").is_empty(), "{all}");
        assert_contains(&all, fragments);
        all
    }

    fn run(&self, child: Child, args: &[&str]) -> ChildOutput {
        self.variables.iter().fold(child, |child, (name, value)| child.env(name, value)).run(args)
    }

    /// Runs the driver with the loader, which must not abort.
    fn loader(&self, args: &[&str]) -> ChildOutput {
        let output = self.run(Child::bare(DRIVER), args);
        assert_eq!(output.code, Some(0), "{output:#?}");
        output
    }

    fn report(self, situation: &'static str, shim: Option<&ChildOutput>, doctor: String, loader: String) -> Report {
        Report { root: self.root, situation, shim: shim.map(printed), doctor, loader }
    }

    fn shim(&self, shim: &Path, args: &[&str]) -> ChildOutput {
        let shim = shim.to_str().unwrap();
        self.run(Child::bare(DRIVER), &[&["--shim", shim], args].concat())
    }
}

struct Doctor {
    stdout: String,
    code: Option<i32>,
}

impl Doctor {
    /// Returns the output, which must contain all fragments.
    fn has(self, code: i32, fragments: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{}", self.stdout);
        assert_contains(&self.stdout, fragments);
        self.stdout
    }
}

/// Returns the output of a child, and the signal that killed it.
fn printed(output: &ChildOutput) -> String {
    let mut lines: Vec<String> = output.stdout.lines().map(|line| line.trim_start_matches("  | ").to_owned()).collect();
    lines.extend(output.stderr.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
    if let Some(signal) = output.signal {
        lines.push(format!("(signal {signal} ended the process)"));
    }
    lines.join("\n")
}

/// Returns the text, which must contain all fragments.
fn assert_contains<'a>(text: &'a str, fragments: &[&str]) -> &'a str {
    for fragment in fragments {
        assert!(text.contains(fragment), "{fragment:?} is missing: {text}");
    }
    text
}

fn jit() -> Option<(PathBuf, PathBuf)> {
    Some((lib_dir("jit-cu12-9.19.0")?, lib_dir("jit-cu13-9.27.0")?))
}

/// A framework bundles only NVIDIA's shim, and the other libraries are in a wheel.
fn wheel_outside_search_paths() -> Option<Report> {
    let (older, _) = jit()?;
    let world = World::new();
    let wheel = world.install(&format!("venv/{WHEEL}"), &older, None);
    let bundled = world.install("framework", &older, Some(&[Library::Shim]));
    let venv = world.path("venv");
    PythonEnvironment::venv(&venv).pip();
    let world = world.with("VIRTUAL_ENV", venv);
    let shim = world.shim(&bundled.join("libcudnn.so.9"), &["cudnnDestroy"]);
    let doctor = world.finding(
        &[],
        "C020",
        &[
            wheel.to_str().unwrap(),
            "is not on a search path",
            "export LD_LIBRARY_PATH=",
            "this project's loader finds it",
        ],
    );
    let list = world.doctor(&["list"]).has(0, &["9.19.0", "active virtual environment"]);
    assert!(list.contains("->"), "{list}");
    let loader = world.loader(&["load:", "cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("91900"));
    Some(world.report(
        "A framework bundles only NVIDIA's shim, and the wheel's directory is missing on every search path.",
        Some(&shim),
        doctor,
        printed(&loader),
    ))
}

/// One framework has loaded its own cuDNN. Then the program calls another framework's shim.
fn two_cudnns_in_one_process() -> Option<Report> {
    let (older, newer) = jit()?;
    let world = World::new();
    let first = world.install("first", &older, None).join("libcudnn_graph.so.9");
    let second = world.install("second", &newer, None);
    let open = format!("open:{}", first.display());
    let shim = world.shim(&second.join("libcudnn.so.9"), &[&open, "cudnnGetVersion"]);
    let preload = std::env::join_paths([&first, &second.join("libcudnn.so.9")]).unwrap();
    let mut sleeper =
        Command::new("sleep").arg("60").env_clear().env("LD_PRELOAD", preload).stdin(Stdio::null()).spawn().unwrap();
    let maps = format!("/proc/{}/maps", sleeper.id());
    while !std::fs::read_to_string(&maps).unwrap_or_default().contains("second/libcudnn.so.9") {
        std::thread::yield_now();
    }
    let doctor = world.doctor(&["pid", &sleeper.id().to_string()]);
    let _ = (sleeper.kill(), sleeper.wait());
    let doctor =
        doctor.has(2, &["cuDNN from 2 directories in one process: 9.19.0, ", "; then 9.27.0, ", "opened with dlopen"]);
    let at = |text: &str| doctor.find(text).unwrap_or_else(|| panic!("{text:?}: {doctor}"));
    assert!(at("first/libcudnn_graph.so.9") < at("second/libcudnn.so.9"), "{doctor}");
    // The loader adopts the loaded cuDNN instead of loading another one.
    let adopted = world.loader(&[&open, "load:", "cudnnGetVersion"]);
    assert_eq!(adopted.returned("cudnnGetVersion"), Some("91900"));
    assert_contains(&adopted.stdout, &["already loaded in this process"]);
    let rejected = world.loader(&[&open, &format!("load:path={}", second.display())]);
    assert_contains(&rejected.stdout, &[second.to_str().unwrap(), "the process has already loaded", "9.19.0"]);
    Some(world.report(
        "Two cuDNNs in one process: one framework has loaded 9.19, another bundles the shim of 9.27.",
        Some(&shim),
        doctor,
        printed(&rejected),
    ))
}

/// A program for cuDNN 8 on a machine with cuDNN 9, and vice versa.
fn program_for_cudnn_8() -> Option<Report> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    let stub = world.make_dir("app").join("libcudnn_ops_infer.so.8");
    support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn_ops_infer.so.8"], &stub);
    let program = world.path("app/program");
    support::compile("int main(void) { return 0; }", &["-w", "-Wl,--no-as-needed", stub.to_str().unwrap()], &program);
    std::fs::remove_file(stub).unwrap();
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.doctor(&["explain", program.to_str().unwrap()]).has(
        2,
        &[
            "libcudnn_ops_infer.so.8",
            "requires cuDNN 8",
            "but found cuDNN 9.19.0 in ",
            "in an environment of its own with cuDNN 8",
        ],
    );
    let reverse = World::new();
    let only_8 = reverse.make_dir("here");
    std::fs::write(only_8.join("libcudnn.so.8"), "").unwrap();
    let reverse = reverse.with("LD_LIBRARY_PATH", only_8);
    reverse.finding(&[], "C010", &["contains cuDNN 8, but cuDNN 9 is required"]);
    let loader = reverse.loader(&["cudnnDestroy"]);
    assert_contains(&loader.stdout, &["contains cuDNN 8, but cuDNN 9 is required", "help: "]);
    let loader =
        printed(&loader).replace(&reverse.root.path().display().to_string(), &world.root.path().display().to_string());
    Some(world.report(
        "A program requires cuDNN 8, but 9 is installed. For the loader: only 8 is installed.",
        None,
        doctor,
        loader,
    ))
}

/// A cuDNN is bundled with a program with an RPATH, and another one is on LD_LIBRARY_PATH.
fn rpath_and_library_path_of_two_releases() -> Option<Report> {
    let (older, newer) = jit()?;
    let world = World::new();
    let bundled = world.install("app", &older, None);
    let system = world.install("system", &newer, None);
    let program = world.path("app/program");
    support::compile(
        "#include <stdio.h>\nunsigned long cudnnGetVersion(void);\n\
         int main(void) { printf(\"cudnnGetVersion = %lu\\n\", cudnnGetVersion()); return 0; }",
        &[
            "-Wl,--no-as-needed,--disable-new-dtags,-rpath,$ORIGIN",
            "-Wl,--unresolved-symbols=ignore-in-shared-libs",
            bundled.join("libcudnn.so.9").to_str().unwrap(),
        ],
        &program,
    );
    let world = world.with("LD_LIBRARY_PATH", system.clone());
    let shim = world.run(Child::bare(&program), &[]);
    // The program's RPATH finds the shim. LD_LIBRARY_PATH precedes the shim's RUNPATH.
    assert_eq!(shim.returned("cudnnGetVersion"), Some("92700"), "{shim:#?}");
    let doctor = world.doctor(&["explain", program.to_str().unwrap()]).has(
        2,
        &[
            "app/libcudnn.so.9 (9.19.0): RPATH of ",
            "system/libcudnn_graph.so.9 (9.27.0): LD_LIBRARY_PATH",
            "two releases would be mixed: 9.27.0 in ",
        ],
    );
    let loader = world.loader(&["load:", "cudnnGetVersion", "maps"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("92700"));
    assert!(!loader.stdout.contains("app/libcudnn"), "{loader:#?}");
    Some(world.report(
        "9.19 is bundled with a program that uses an RPATH, and 9.27 is on LD_LIBRARY_PATH.",
        Some(&shim),
        doctor,
        printed(&loader),
    ))
}

fn no_unversioned_link() -> Option<Report> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    assert!(!here.join("libcudnn.so").exists());
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.doctor(&["list"]).has(0, &["->", "9.19.0", "LD_LIBRARY_PATH"]);
    let loader = world.loader(&["cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("91900"));
    Some(world.report("The `libcudnn.so` symlink to `libcudnn.so.9` is missing.", None, doctor, printed(&loader)))
}

fn no_driver() -> Option<Report> {
    if Path::new("/proc/driver/nvidia/version").exists() {
        not_run("the situation without a driver", "a driver is installed");
        return None;
    }
    let (_, newer) = jit()?;
    let world = World::new();
    let here = world.install("here", &newer, None);
    let world = world.with("LD_LIBRARY_PATH", here.clone());
    let shim = world.shim(&here.join("libcudnn.so.9"), &["create"]);
    let doctor = world.finding(&[], "C001", &["libcuda.so.1, the driver's library, was not found"]);
    // The help differs between containers, WSL and other machines.
    let doctor = doctor.lines().filter(|line| !line.contains("= help:")).collect::<Vec<_>>().join("\n");
    let loader = world.loader(&["cudnnGetVersion", "create"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("92700"));
    Some(world.report(
        "The driver's library is not visible, as in a container without the GPU runtime.",
        Some(&shim),
        doctor,
        printed(&loader),
    ))
}

/// NVML reports a GTX 1080 Ti.
fn gpu_too_old() -> Option<Report> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    FakeNvml { driver: "580.65.06", gpu: "NVIDIA GeForce GTX 1080 Ti", compute_capability: (6, 1) }.build(&here);
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.finding(
        &[],
        "C040",
        &["GTX 1080 Ti: its compute capability is 6.1", "the minimum is 7.5", "nvidia-cudnn-cu12==9.10.2.21"],
    );
    let loader = world.loader(&["cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("91900"));
    Some(world.report(
        "A GPU of compute capability 6.1, and a release from 9.11 on. (A fake NVML reports the GPU.)",
        None,
        doctor,
        printed(&loader),
    ))
}

/// A cuDNN for CUDA 12 together with libraries of CUDA 13.
fn cuda_12_among_cuda_13() -> Option<Report> {
    let world = World::new();
    let here = world.fake_libraries("here", OLDER, 8);
    support::compile("", &["-shared", "-nostdlib"], &world.make_dir("cuda").join("libcublasLt.so.13"));
    let path = std::env::join_paths([&here, &world.path("cuda")]).unwrap();
    let world = world.with("LD_LIBRARY_PATH", path);
    let doctor = world.finding(
        &[],
        "C030",
        &[
            "libcublasLt.so.12 was not found",
            "built for CUDA 12",
            "found for a different CUDA major: ",
            "cuda/libcublasLt.so.13",
            "pip install --target /opt/cublas-cuda-12 --no-deps nvidia-cublas-cu12",
        ],
    );
    let loader = world.loader(&["load:cuda=13", "load:cuda=12"]);
    assert_contains(&loader.stdout, &["is built for CUDA 12, but CUDA 13 is required"]);
    Some(world.report("cuDNN for CUDA 12 on a host with CUDA 13's libraries.", None, doctor, printed(&loader)))
}

fn bundle_lacks_libraries() -> Option<Report> {
    let world = World::new();
    let all = world.fake_libraries("all", OLDER, 8);
    let three = [Library::Shim, Library::Graph, Library::Ops];
    let here = world.install("bundle", &all, Some(&three));
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.finding(&[], "C012", &["5 of 8 libraries are missing", "libcudnn_cnn.so.9, libcudnn_adv.so.9"]);
    let loader = world.loader(&["cudnnDestroyTensorDescriptor", "cudnnDestroyConvolutionDescriptor"]);
    assert_contains(
        &loader.stdout,
        &["cudnnDestroyTensorDescriptor = CUDNN_STATUS_SUCCESS", "libcudnn_cnn.so.9", "help: "],
    );
    Some(world.report("A bundle contains three of the libraries.", None, doctor, printed(&loader)))
}

/// CUDA_HOME contains one cuDNN, and a wheel contains another.
fn cuda_home_and_wheel() -> Option<Report> {
    let (older, newer) = jit()?;
    let world = World::new();
    let toolkit = world.install("cuda/lib64", &older, None);
    world.install(&format!("venv/{WHEEL}"), &newer, None);
    let (cuda, venv) = (world.path("cuda"), world.path("venv"));
    PythonEnvironment::venv(&venv).pip();
    let world = world.with("CUDA_HOME", cuda).with("VIRTUAL_ENV", venv);
    // TransformerEngine opens the cuDNN in CUDA_HOME by path.
    let shim = world.shim(&toolkit.join("libcudnn.so.9"), &["cudnnGetVersion"]);
    assert_eq!(shim.returned("cudnnGetVersion"), Some("91900"));
    let doctor = world.doctor(&["list"]).has(0, &["found: below CUDA_HOME", "found: active virtual environment"]);
    let marked = doctor.lines().find(|line| line.starts_with("->") || line.trim_start().starts_with("->")).unwrap();
    assert!(marked.contains("9.27.0"), "{doctor}");
    world.finding(&[], "C016", &["2 cuDNN installations were found", "also found: 9.19.0 in ", "below CUDA_HOME"]);
    let loader = world.loader(&["load:", "cudnnGetVersion"]);
    assert_eq!(loader.returned("cudnnGetVersion"), Some("92700"));
    Some(world.report(
        "9.19 is below CUDA_HOME, 9.27 is the active environment's wheel, and a framework searches CUDA_HOME first.",
        Some(&shim),
        doctor,
        printed(&loader),
    ))
}

fn release_too_old() -> Option<Report> {
    let (older, _) = jit()?;
    let record = support::release("jit-cu12-9.19.0")?;
    let world = World::new();
    let wheel = world.install("venv/lib/python3.12/site-packages/nvidia/cudnn_jit/lib", &older, None);
    let mut records = std::fs::read_dir(record).unwrap().flatten().map(|entry| entry.path());
    let record = records.find(|path| path.extension().is_some_and(|kind| kind == "dist-info")).unwrap();
    let to = wheel.ancestors().nth(3).unwrap().join(record.file_name().unwrap());
    std::fs::create_dir(&to).unwrap();
    std::fs::copy(record.join("RECORD"), to.join("RECORD")).unwrap();
    let venv = world.path("venv");
    PythonEnvironment::venv(&venv).pip();
    let world = world.with("CUDNN_LOADER_DIR", wheel).with("VIRTUAL_ENV", venv);
    let doctor = world.finding(
        &["--minimum", "9.20"],
        "C018",
        &["is cuDNN 9.19.0, but 9.20.0 or newer is required", "pip nvidia-cudnn-jit-cu12 9.19.0.56", "pip install"],
    );
    let loader = world.loader(&["load:min=9.20"]);
    assert_contains(&loader.stdout, &["but 9.20.0 or newer is required", "help: "]);
    Some(world.report("The application requires 9.20, and 9.19 is installed.", None, doctor, printed(&loader)))
}

fn missing_dependency() -> Option<Report> {
    let world = World::new();
    let here = world.fake_libraries("here", OLDER, 8);
    let (_, newer) = jit()?;
    let shim = here.join("libcudnn.so.9");
    std::fs::copy(newer.join("libcudnn.so.9"), &shim).unwrap();
    FakeLibrary::new(Library::Ops, OLDER).with_ptx(8).needing("libnowhere.so.1").build(&here.join("libcudnn_ops.so.9"));
    let world = world.with("LD_LIBRARY_PATH", here);
    let shim = world.shim(&shim, &["cudnnDestroyTensorDescriptor"]);
    let doctor =
        world.finding(&[], "C051", &["libnowhere.so.1", "libcudnn_ops.so.9", "cannot open shared object file"]);
    let loader = world.loader(&["cudnnDestroyTensorDescriptor"]);
    assert_contains(
        &loader.stdout,
        &["libnowhere.so.1: cannot open shared object file", "here/libcudnn_ops.so.9", "help: "],
    );
    Some(world.report(
        "A library that cuDNN's own libraries need is missing. (All libraries except the shim are fakes.)",
        Some(&shim),
        doctor,
        printed(&loader),
    ))
}

/// The program calls a function of a later release.
fn function_of_a_later_release() -> Option<Report> {
    let (older, _) = jit()?;
    let world = World::new();
    let here = world.install("here", &older, None);
    let world = world.with("LD_LIBRARY_PATH", here);
    let function = "cudnnCausalConv1dForward";
    let doctor = world.finding(
        &["--function", function],
        "C019",
        &["cudnnCausalConv1dForward was added in cuDNN 9.22.0, but found cuDNN 9.19.0", "pip install"],
    );
    let loader = world.loader(&[function]);
    assert_contains(&loader.stdout, &["9.22.0", "9.19.0", "here", "help: "]);
    Some(world.report("A program calls a function of a later release.", None, doctor, printed(&loader)))
}

/// The libraries have the same version, but different CUDA major versions.
fn mixed_cuda_majors() -> Option<Report> {
    let world = World::new();
    let here = world.fake_libraries("here", OLDER, 8);
    FakeLibrary::new(Library::Ops, OLDER).with_ptx(9).build(&here.join("libcudnn_ops.so.9"));
    let world = world.with("LD_LIBRARY_PATH", here);
    let doctor = world.finding(&[], "C015", &["libcudnn_ops.so.9 is built for CUDA 13", "for CUDA 12"]);
    let loader = world.loader(&["cudnnDestroyTensorDescriptor"]);
    assert_contains(&loader.stdout, &["CUDA 13", "CUDA 12", "help: "]);
    Some(world.report(
        "An ops library for CUDA 13 and a graph library for CUDA 12, of the same version. (Fakes; the fault matrix \
                    uses real ones.)",
        None,
        doctor,
        printed(&loader),
    ))
}

fn not_a_library_for_this_machine() -> Option<Report> {
    let (older, _) = jit()?;
    let graph = std::fs::read(older.join("libcudnn_graph.so.9")).unwrap();
    let aarch64 = lib_dir("aarch64-jit-cu12-9.19.0")?.join("libcudnn_graph.so.9");
    let contents: [(&str, Vec<u8>); 3] = [
        ("is truncated", graph[..graph.len() / 2].to_vec()),
        ("is not an ELF file", b"<html>404</html>".to_vec()),
        ("is built for ELF machine 183, but x86-64 is required", std::fs::read(aarch64).unwrap()),
    ];
    let world = World::new();
    let here = world.make_dir("here");
    let file = here.join("libcudnn_graph.so.9");
    let world = world.with("LD_LIBRARY_PATH", here);
    let (mut doctor, mut loader) = (String::new(), String::new());
    for (named, bytes) in contents {
        let named = if cfg!(target_arch = "aarch64") && named.contains("183") { continue } else { named };
        std::fs::write(&file, bytes).unwrap();
        let named = named.replace("ELF machine 183", "aarch64");
        doctor += &world.finding(&[], "C011", &[&named]);
        doctor.push('\n');
        let output = world.loader(&["cudnnGetVersion", "cudnnDestroy"]);
        loader += assert_contains(&printed(&output), &[&named, "help: "]);
        loader.push('\n');
    }
    Some(world.report(
        "A truncated library, a text file in its place, or a library for aarch64. (For an unreadable \
                    file, see the fault matrix.)",
        None,
        doctor,
        loader,
    ))
}

type Situation = fn() -> Option<Report>;

const SITUATIONS: [Situation; 15] = [
    wheel_outside_search_paths,
    two_cudnns_in_one_process,
    program_for_cudnn_8,
    rpath_and_library_path_of_two_releases,
    no_unversioned_link,
    no_driver,
    gpu_too_old,
    cuda_12_among_cuda_13,
    bundle_lacks_libraries,
    cuda_home_and_wheel,
    release_too_old,
    missing_dependency,
    function_of_a_later_release,
    mixed_cuda_majors,
    not_a_library_for_this_machine,
];

#[test]
fn the_doctor_names_the_cause_and_a_remedy_and_the_loader_reports_it() {
    let mut records = Vec::new();
    let mut is_complete = true;
    for situation in SITUATIONS {
        let Some(report) = situation() else {
            is_complete = false;
            continue;
        };
        let clean = |text: &str| {
            let text = text.replace(&report.root.path().display().to_string(), "…");
            // Remove the directories of this machine, which the search also lists.
            let ends = ["does not exist", "contains no libcudnn_graph.so.9"];
            let is_specific =
                |line: &&str| !line.is_empty() && (line.contains('…') || !ends.iter().any(|end| line.ends_with(end)));
            let lines = text.lines().map(str::trim_end).filter(is_specific);
            lines.map(str::to_owned).collect::<Vec<String>>()
        };
        let (doctor, loader) = (clean(&report.doctor), clean(&report.loader));
        let situation = vec![report.situation.to_owned()];
        let mut record = BTreeMap::from([("situation", situation), ("cudnn-doctor", doctor), ("the loader", loader)]);
        if let Some(shim) = &report.shim {
            record.insert("NVIDIA's shim", clean(shim));
        }
        records.push(record);
    }
    if !is_complete {
        return not_run(
            "the comparison with docs/data/what-goes-wrong.json",
            "a situation cannot be built on this machine",
        );
    }
    check_document("docs/data/what-goes-wrong.json", &format!("{:#}\n", serde_json::json!(records)));
}
