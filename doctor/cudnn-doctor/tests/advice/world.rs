//! A Python environment with stand-in wheels, and test cases that break it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use cudnn_probe::Library;
use cudnn_probe::release_facts::has_library;
use serde_json::Value;
use support::{FakeLibrary, FakeNvml, TempDir, Version, site_packages};

use crate::Shared;

#[derive(Clone, Copy)]
pub(crate) struct Cudnn {
    pub(crate) version: Version,
    pub(crate) cuda_major: u32,
}

impl Cudnn {
    pub(crate) fn libraries(self) -> &'static TempDir {
        static BUILT: std::sync::Mutex<Vec<(Version, u32, &'static TempDir)>> = std::sync::Mutex::new(Vec::new());
        let mut built = BUILT.lock().unwrap();
        let Cudnn { version, cuda_major } = self;
        if let Some((_, _, dir)) = built.iter().find(|(other, cuda, _)| (*other, *cuda) == (version, cuda_major)) {
            return dir;
        }
        let dir: &'static TempDir = Box::leak(Box::new(TempDir::new()));
        for library in Library::ALL.iter().copied().filter(|library| has_library(version, *library)) {
            let ptx = if cuda_major == 12 { 8 } else { 9 };
            FakeLibrary::new(library, version)
                .with_ptx(ptx)
                .with_run_path(run_path(cuda_major))
                .build(&dir.file(library));
        }
        built.push((version, cuda_major, dir));
        dir
    }

    pub(crate) fn copy_to(self, dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        for library in Library::ALL {
            let file = self.libraries().file(*library);
            if file.exists() {
                std::fs::copy(file, dir.join(library.file_name())).unwrap();
            }
        }
    }
}

fn run_path(cuda_major: u32) -> &'static str {
    match cuda_major {
        12 => "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib",
        _ => "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib:$ORIGIN/../../cu13/lib",
    }
}

pub(crate) fn pack(wheels: &Path, name: &str, version: &str, requires: &[&str], fill: impl FnOnce(&Path)) {
    let staging = TempDir::new();
    fill(staging.path());
    let project = name.replace('-', "_");
    let dist_info = format!("{project}-{version}.dist-info");
    let metadata = staging.path().join(&dist_info);
    std::fs::create_dir(&metadata).unwrap();
    let requires: String = requires.iter().map(|requirement| format!("Requires-Dist: {requirement}\n")).collect();
    let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}");
    std::fs::write(metadata.join("METADATA"), text).unwrap();
    std::fs::write(metadata.join("WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n").unwrap();
    let files = files_below(staging.path());
    let files = files.iter().map(|file| file.strip_prefix(staging.path()).unwrap().display().to_string());
    let record: String = files.chain([format!("{dist_info}/RECORD")]).map(|file| format!("{file},,\n")).collect();
    std::fs::write(metadata.join("RECORD"), record).unwrap();
    zip(staging.path(), &wheels.join(format!("{project}-{version}-py3-none-any.whl")));
}

/// Returns the unpacked files of a wheel, because copying is faster than unpacking.
fn unpacked(wheel: &Path) -> PathBuf {
    wheel.with_file_name("unpacked").join(wheel.file_stem().unwrap())
}

/// Packs a directory without compression, which would slow down pip, and keeps the unpacked files.
fn zip(dir: &Path, wheel: &Path) {
    let script = "
import pathlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    for file in pathlib.Path().rglob('*'):
        wheel.write(file)
";
    let mut zip = Command::new(tools().path().join("bin/python3"));
    let output = zip.args(["-I", "-c", script]).arg(wheel).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let unpacked = unpacked(wheel);
    std::fs::create_dir_all(unpacked.parent().unwrap()).unwrap();
    let copy = Command::new("cp").arg("-a").arg(dir).arg(unpacked).output().unwrap();
    assert!(copy.status.success(), "{copy:?}");
}

pub(crate) fn stand_ins() -> &'static TempDir {
    static WHEELS: Shared = OnceLock::new();
    WHEELS.get_or_init(|| {
        let wheels = TempDir::new();
        let cudnn = |cuda_major: u32, version: Version, full: &str| {
            // NVIDIA's wheels accept any cuBLAS for CUDA 13 or newer.
            let cublas = if cuda_major == 12 { "nvidia-cublas-cu12" } else { "nvidia-cublas<14" };
            pack(wheels.path(), &format!("nvidia-cudnn-cu{cuda_major}"), full, &[cublas], |dir| {
                Cudnn { version, cuda_major }.copy_to(&dir.join("nvidia/cudnn/lib"));
                std::fs::write(dir.join("nvidia/__init__.py"), "").unwrap();
            });
        };
        cudnn(12, Version::new(9, 19, 0), "9.19.0.56");
        cudnn(12, Version::new(9, 18, 0), "9.18.0.56");
        cudnn(12, Version::new(9, 10, 2), "9.10.2.21");
        cudnn(13, Version::new(9, 19, 0), "9.19.0.56");
        let plain = |name: &str, version: &str, files: &[&str]| {
            pack(wheels.path(), name, version, &[], |dir| {
                for file in files {
                    let file = dir.join(file);
                    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                    let soname = format!("-Wl,-soname,{}", file.file_name().unwrap().display());
                    support::compile("", &["-shared", "-nostdlib", "-Wl,-rpath,$ORIGIN", &soname], &file);
                }
            });
        };
        let parts = ["ops_infer", "ops_train", "cnn_infer", "cnn_train", "adv_infer", "adv_train"];
        let parts = parts.map(|part| format!("nvidia/cudnn/lib/libcudnn_{part}.so.8"));
        let shim = ["nvidia/cudnn/lib/libcudnn.so.8"];
        let cudnn_8: Vec<&str> = shim.into_iter().chain(parts.iter().map(String::as_str)).collect();
        plain("nvidia-cudnn-cu12", "8.9.7.29", &cudnn_8);
        let cublas = ["nvidia/cublas/lib/libcublasLt.so.12", "nvidia/cublas/lib/libcublas.so.12"];
        plain("nvidia-cublas-cu12", "12.9.1.4", &cublas);
        plain("nvidia-cublas", "13.1.0.3", &["nvidia/cu13/lib/libcublasLt.so.13"]);
        // This library must not be installed for CUDA 13.
        plain("nvidia-cublas", "14.0.0.1", &["nvidia/cu14/lib/libcublasLt.so.14"]);
        let nvrtc = ["nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9"];
        plain("nvidia-cuda-nvrtc-cu12", "12.9.86", &nvrtc);
        let nvrtc = ["nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cu13/lib/libnvrtc-builtins.so.13.0"];
        plain("nvidia-cuda-nvrtc", "13.0.88", &nvrtc);
        plain("neighbour", "1.0", &["nvidia/neighbour/lib/libneighbour.so.9", "nvidia/cudnn/lib/libneighbour.so"]);
        wheels
    })
}

/// Returns an environment with pip, also in `bin`. Packages are links, so that copies have few files.
fn tools() -> &'static TempDir {
    static TOOLS: Shared = OnceLock::new();
    TOOLS.get_or_init(|| {
        let tools = TempDir::new();
        support::venv_with_pip(tools.path());
        let packages = Box::leak(Box::new(TempDir::new())).path();
        for entry in std::fs::read_dir(site_packages(tools.path())).unwrap() {
            let (link, package) = (entry.as_ref().unwrap().path(), packages.join(entry.unwrap().file_name()));
            std::fs::rename(&link, &package).unwrap();
            std::os::unix::fs::symlink(package, link).unwrap();
        }
        tools
    })
}

fn bare() -> &'static TempDir {
    static BARE: Shared = OnceLock::new();
    BARE.get_or_init(|| {
        let bare = TempDir::new();
        let output = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(bare.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        bare
    })
}

pub(crate) struct World {
    home: TempDir,
    name: OsString,
    variables: Vec<(&'static str, OsString)>,
    find_links: OsString,
    nvml: Option<TempDir>,
}

impl World {
    pub(crate) fn new(name: impl Into<OsString>, has_pip: bool) -> World {
        let find_links = stand_ins().path().as_os_str().to_owned();
        let world = World { home: TempDir::new(), name: name.into(), variables: Vec::new(), find_links, nvml: None };
        // Otherwise, root's directories would be in /opt.
        std::fs::create_dir_all(world.home().join(".local/share")).unwrap();
        let environment = world.environment();
        // Hard links are fast. An installation of pip needs several seconds.
        let original = if has_pip { tools() } else { bare() };
        std::fs::create_dir_all(environment.parent().unwrap()).unwrap();
        let output = Command::new("cp").arg("-al").arg(original.path()).arg(&environment).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        if has_pip {
            // A copied script would start the pip of the original environment.
            let script = "#!/bin/sh\nexec \"$VIRTUAL_ENV/bin/python3\" -I -m pip \"$@\"\n";
            support::write_program(environment.join("bin/pip"), script);
        }
        world
    }

    /// Adds a real release as a wheel.
    pub(crate) fn with_real_wheel(mut self, release: &Path) -> World {
        static REAL: Shared = OnceLock::new();
        let real = REAL.get_or_init(|| {
            let dir = TempDir::new();
            let staging = TempDir::new();
            let copy = Command::new("cp").arg("-a").arg(release.join(".")).arg(staging.path()).output().unwrap();
            assert!(copy.status.success(), "{copy:?}");
            let _ = std::fs::remove_file(staging.path().join("requirement.txt"));
            zip(staging.path(), &dir.path().join("nvidia_cudnn_jit_cu12-9.19.0.56-py3-none-any.whl"));
            dir
        });
        self.find_links.push(" ");
        self.find_links.push(real.path());
        self
    }

    pub(crate) fn with_wheels(mut self, dir: &Path) -> World {
        self.find_links.push(" ");
        self.find_links.push(dir);
        self
    }

    pub(crate) fn made_by_uv(self) -> World {
        let file = self.environment().join("pyvenv.cfg");
        let text = std::fs::read_to_string(&file).unwrap();
        // The file is a link.
        std::fs::remove_file(&file).unwrap();
        std::fs::write(file, format!("{text}uv = 0.9.0\n")).unwrap();
        self
    }

    pub(crate) fn first_on_path(self, dir: &Path) -> World {
        let doctor = Path::new(env!("CARGO_BIN_EXE_cudnn-doctor")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap();
        let dirs = [dir.to_owned(), doctor].into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(dirs).unwrap();
        self.variable("PATH", path)
    }

    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> World {
        self.set_variable(name, value);
        self
    }

    pub(crate) fn set_variable(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn environment(&self) -> PathBuf {
        self.home().join(&self.name)
    }

    pub(crate) fn site_packages(&self) -> PathBuf {
        site_packages(&self.environment())
    }

    pub(crate) fn wheel_dir(&self) -> PathBuf {
        self.site_packages().join("nvidia/cudnn/lib")
    }

    /// Runs a program in the home directory with only the world's variables.
    pub(crate) fn command(&self, program: &str) -> Command {
        let doctor = Path::new(env!("CARGO_BIN_EXE_cudnn-doctor")).parent().unwrap().to_owned();
        let mut path = vec![doctor, tools().path().join("bin")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut command = Command::new(program);
        command
            .current_dir(self.home())
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.home())
            .env("XDG_DATA_HOME", support::own_release_facts())
            .env("VIRTUAL_ENV", self.environment())
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", &self.find_links)
            .env("PIP_NO_COMPILE", "1")
            .env("UV_OFFLINE", "1")
            .env("UV_FIND_LINKS", self.find_links.to_str().unwrap().replace(' ', ","))
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(nvml) = &self.nvml {
            command.env("LD_LIBRARY_PATH", nvml.path());
        }
        command
    }

    pub(crate) fn sh(&self, script: &str) -> Output {
        self.shell("sh", script)
    }

    pub(crate) fn shell(&self, shell: &str, script: &str) -> Output {
        let output = self.command(shell).args(["-c", &format!("set -e\n{script}")]).output().unwrap();
        assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Installs the wheel `NAME==VERSION` faster than pip, or the newest one if no version is given.
    pub(crate) fn unpack(&self, requirement: &str) {
        let (name, version) = requirement.split_once("==").unwrap_or((requirement, ""));
        let start = format!("{}-{version}", name.replace('-', "_"));
        let dirs = self.find_links.to_str().unwrap().split(' ');
        let files = dirs.flat_map(|dir| std::fs::read_dir(dir).unwrap()).map(|entry| entry.unwrap().path());
        let is_wanted = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with(&start);
        // Names order the versions, except for cuDNN 9.10 and cuDNN 8, because the numbers have equally many digits.
        let newest =
            files.filter(is_wanted).max_by_key(|file| (!file.to_str().unwrap().contains("9.10."), file.clone()));
        let wheel = newest.unwrap_or_else(|| panic!("no wheel for {requirement}"));
        let files = unpacked(&wheel).join(".");
        let output = Command::new("cp").arg("-a").arg(files).arg(self.site_packages()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    pub(crate) fn findings(&self, options: &[&str]) -> Vec<Value> {
        self.findings_after("sh", "", options)
    }

    /// Returns the findings of `check` in a shell that has run these lines.
    pub(crate) fn findings_after(&self, shell: &str, lines: &str, options: &[&str]) -> Vec<Value> {
        self.report_after(shell, lines, options)["findings"].as_array().unwrap().clone()
    }

    /// Returns the report of `check` in a shell that has run these lines.
    pub(crate) fn report_after(&self, shell: &str, lines: &str, options: &[&str]) -> Value {
        let result = self.home().join("result.json");
        let no_load = if options.contains(&"--run") { "" } else { "--no-load" };
        let options = options.join(" ");
        let script = format!("{lines}\ncudnn-doctor check {no_load} --json {options} >result.json || true");
        self.shell(shell, &script);
        let text = std::fs::read_to_string(&result).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// An installation that is broken in one way, and the code of the expected finding.
pub(crate) struct Case<'a> {
    name: &'static str,
    code: &'static str,
    packages: &'a [&'a str],
    breaking: Box<dyn Fn(&World) + 'a>,
    options: &'a [&'a str],
    nvml: Option<FakeNvml>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        name: &'static str,
        code: &'static str,
        packages: &'a [&'a str],
        breaking: impl Fn(&World) + 'a,
    ) -> Self {
        let breaking = Box::new(breaking);
        Case { name, code, packages, breaking, options: &[], nvml: None }
    }

    pub(crate) fn options(mut self, options: &'a [&'a str]) -> Self {
        self.options = options;
        self
    }

    pub(crate) fn with_old_gpu(mut self) -> Self {
        self.nvml = Some(FakeNvml { driver: "580.65.06", gpu: "A GPU", compute_capability: (6, 1) });
        self
    }

    pub(crate) fn with_old_driver(mut self) -> Self {
        self.nvml = Some(FakeNvml { driver: "570.86.10", gpu: "A GPU", compute_capability: (9, 0) });
        self
    }

    fn prelude(&self, world: &World) -> String {
        let mut lines = String::new();
        if let Some(nvml) = &self.nvml {
            let dir = world.home().join("nvml");
            if !dir.exists() {
                std::fs::create_dir(&dir).unwrap();
                nvml.build(&dir);
            }
            lines += &format!("export LD_LIBRARY_PATH='{}'\n", dir.display());
        }
        lines
    }

    /// Installs and breaks the packages. Returns the commands of the finding.
    pub(crate) fn commands(&self, world: &World) -> Vec<String> {
        self.commands_in(&self.arrange(world))
    }

    /// Installs and breaks the packages. Returns all findings.
    fn arrange(&self, world: &World) -> Vec<Value> {
        // The last package overwrites files of the others.
        for package in self.packages.iter().chain([&"neighbour"]) {
            world.unpack(package);
        }
        (self.breaking)(world);
        world.findings_after("sh", &self.prelude(world), self.options)
    }

    fn commands_in(&self, findings: &[Value]) -> Vec<String> {
        let found = findings.iter().find(|finding| finding["code"] == self.code);
        let found = found.unwrap_or_else(|| panic!("{}: {} is not found: {findings:#?}", self.name, self.code));
        commands_of(found, findings)
    }

    /// Installs and breaks the packages. Returns the findings with the code.
    pub(crate) fn found(&self, world: &World) -> Vec<Value> {
        let mut findings = self.arrange(world);
        findings.retain(|finding| finding["code"] == self.code);
        findings
    }

    /// Executes and returns the commands. Afterwards the finding must be gone, new errors must not appear, and files of
    /// other packages must be unchanged.
    pub(crate) fn run(&self, world: &World) -> Vec<String> {
        let findings = self.arrange(world);
        let (mut before, errors_before) = (self.commands_in(&findings), errors(&findings));
        assert!(!before.is_empty(), "{}: {} has no command", self.name, self.code);
        let neighbours = || -> Vec<_> {
            let mut files = files_below(&world.environment());
            files.retain(|file| file.to_string_lossy().contains("neighbour"));
            files.into_iter().map(|file| (std::fs::read(&file).unwrap(), file)).collect()
        };
        let others = neighbours();
        let execute = |commands: &[String]| {
            world.findings_after("sh", &format!("{}{}", self.prelude(world), commands.join("\n")), self.options)
        };
        let mut after = execute(&before);
        // The finding may have waited for another fix.
        if let Some(left) = after.iter().find(|finding| finding["code"] == self.code) {
            let second = commands_of(left, &after);
            if !second.is_empty() && second != before {
                before.extend(second);
                after = execute(&before);
            }
        }
        let is_gone = after.iter().all(|finding| finding["code"] != self.code);
        assert!(is_gone, "{}: {} after {before:#?}: {after:#?}", self.name, self.code);
        let new: Vec<_> = errors(&after).into_iter().filter(|code| !errors_before.contains(code)).collect();
        // If libraries were removed, the user has to install replacements.
        let is_removal = before.iter().any(|command| command.starts_with("rm "));
        assert!(new.is_empty() || is_removal, "{}: {new:?} after {before:#?}: {after:#?}", self.name);
        assert_eq!(neighbours(), others, "{}", self.name);
        before
    }
}

/// Returns the commands of a finding, or the commands of the finding that the help says to fix first.
fn commands_of(finding: &Value, findings: &[Value]) -> Vec<String> {
    let help = finding["help"].as_str().unwrap_or_default();
    let first = help.strip_prefix("fix ").and_then(|rest| rest.split(' ').next());
    let first = first.and_then(|code| findings.iter().find(|finding| finding["code"] == code));
    let commands = first.unwrap_or(finding)["commands"].as_array().unwrap();
    commands.iter().map(|command| command.as_str().unwrap().to_owned()).collect()
}

/// Returns the codes of all findings with severity error.
fn errors(findings: &[Value]) -> BTreeSet<String> {
    let is_error = |finding: &&Value| finding["severity"] == "error";
    findings.iter().filter(is_error).map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

/// Returns the files and links below a directory.
pub(crate) fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let list = if entry.file_type().unwrap().is_dir() { &mut dirs } else { &mut files };
            list.push(entry.path());
        }
    }
    files.sort();
    files
}
