//! Installs and runs the distributed files like users without cargo: the wheels, the archives and the static doctor.
//! `cargo test -p cudnn-tests --test distribution -- --ignored`

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use support::{TempDir, binutils, lib_dir, not_run, windows};

const LINUX: &str = "x86_64-unknown-linux-gnu";
const AARCH64: &str = "aarch64-unknown-linux-gnu";
const STATIC: &str = "x86_64-unknown-linux-musl";
const RELEASE: &str = "jit-cu12-9.19.0";

const OLDEST_GLIBC: [u32; 2] = [2, 28];

const LOAD: &str = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())";

fn xtask(arguments: &[&str]) -> PathBuf {
    PathBuf::from(stdout(&succeed(support::xtask().args(arguments))).trim())
}

/// Returns the directory with the files of a release, which is built once for all possible targets.
fn release_files() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut arguments = vec!["release-files", "--target", LINUX];
        for (target, is_possible) in [
            (STATIC, has_rust(STATIC)),
            (AARCH64, has_compiler(AARCH64)),
            (windows::TARGET, has_compiler(windows::TARGET)),
        ] {
            if is_possible {
                arguments.extend(["--target", target]);
            } else {
                not_run(&format!("the files of a release for {target}"), "the compiler or Rust's library is missing");
            }
        }
        xtask(&arguments)
    })
}

fn has_compiler(target: &str) -> bool {
    let prefix = if target == AARCH64 { "aarch64-linux-gnu" } else { "x86_64-w64-mingw32" };
    Command::new(format!("{prefix}-gcc")).arg("--version").output().is_ok() && has_rust(target)
}

/// Returns a file of a release by the end of its name, if this machine can build it.
fn release_file(end: &str) -> Option<PathBuf> {
    files(release_files()).into_iter().find(|file| file.to_string_lossy().ends_with(end))
}

fn wheel() -> PathBuf {
    release_file("manylinux_2_28_x86_64.whl").unwrap()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", stdout(&output), String::from_utf8_lossy(&output.stderr));
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Creates a virtual environment, if Python can do so.
fn environment(test: &str, dir: &Path) -> Option<PathBuf> {
    let made = Command::new("python3").args(["-m", "venv"]).arg(dir).output();
    if !made.as_ref().is_ok_and(|output| output.status.success()) {
        not_run(test, &format!("python3 makes no virtual environment: {made:?}"));
        return None;
    }
    Some(dir.to_owned())
}

fn pip(environment: &Path, arguments: &[&dyn AsRef<OsStr>]) -> Output {
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-I", "-m", "pip", "--disable-pip-version-check"]).args(arguments.iter().map(AsRef::as_ref));
    succeed(&mut pip)
}

fn site_packages(environment: &Path) -> PathBuf {
    let code = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let output = succeed(Command::new(environment.join("bin/python")).args(["-I", "-c", code]));
    PathBuf::from(stdout(&output).trim())
}

/// Copies a real cuDNN to the location of the cuDNN wheel.
fn add_cudnn(site_packages: &Path, lib_dir: &Path) {
    let package = lib_dir.ancestors().nth(2).unwrap();
    std::os::unix::fs::symlink(package, site_packages.join("nvidia")).unwrap();
}

fn active(environment: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("VIRTUAL_ENV", environment).env("PATH", environment.join("bin")).env("HOME", environment);
    command
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

#[test]
#[ignore = "building the release files takes minutes"]
fn an_installed_wheel_has_the_doctor_on_path_and_a_drop_in_that_loads_a_real_cudnn() {
    let test = "the wheel in a virtual environment";
    let (Some(cudnn), dir) = (lib_dir(RELEASE), TempDir::new()) else { return };
    let Some(environment) = environment(test, &dir.path().join("venv")) else { return };
    let before = files(&environment);
    pip(&environment, &[&"install", &"--no-index", &wheel()]);
    pip(&environment, &[&"check"]);
    let site_packages = site_packages(&environment);
    add_cudnn(&site_packages, &cudnn);

    let doctor = environment.join("bin/cudnn-doctor");
    let version = stdout(&succeed(active(&environment, &doctor).arg("--version")));
    assert_eq!(version.trim(), format!("cudnn-doctor {}", env!("CARGO_PKG_VERSION")));
    let version = stdout(&succeed(active(&environment, &environment.join("bin/cudnn-lab")).arg("--version")));
    assert_eq!(version.trim(), format!("cudnn-lab {}", env!("CARGO_PKG_VERSION")));
    let checked = active(&environment, &doctor).arg("check").output().unwrap();
    let text = stdout(&checked);
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{text}{}", String::from_utf8_lossy(&checked.stderr));
    assert!(text.contains("cuDNN   9.19.0"), "{text}");

    let python = environment.join("bin/python");
    let drop_in = stdout(&succeed(active(&environment, &python).args(["-m", "cudnn_shim"])));
    assert_eq!(Path::new(drop_in.trim()), site_packages.join("cudnn_shim/lib/libcudnn.so.9"));
    let loaded = stdout(&succeed(active(&environment, &python).args(["-c", LOAD, drop_in.trim()])));
    assert_eq!(loaded.trim(), "91900");
    // The doctor finds the layers in the same directory.
    let trace = dir.path().join("trace.json");
    succeed(
        active(&environment, &python)
            .args(["-c", LOAD, drop_in.trim()])
            .env("CUDNN_LAYERS", "trace")
            .env("CUDNN_TRACE", &trace),
    );
    assert!(trace.metadata().is_ok_and(|file| file.len() > 0), "the layer wrote no trace");
    let listed = active(&environment, &doctor)
        .args(["layers", "--beside"])
        .arg(site_packages.join("cudnn_shim/lib"))
        .env("CUDNN_LAYERS", "trace")
        .output()
        .unwrap();
    assert!(stdout(&listed).contains("libcudnn_layers.so"), "{listed:?}");

    std::fs::remove_file(site_packages.join("nvidia")).unwrap();
    installs_and_runs(&environment, &site_packages, &cudnn, &dir.path().join("run.json"));
    pip(&environment, &[&"uninstall", &"--yes", &"cudnn-doctor"]);
    let is_wheel_library = |file: &PathBuf| !before.contains(file) && file.to_string_lossy().contains("cudnn");
    let left: Vec<PathBuf> = files(&environment).into_iter().filter(is_wheel_library).collect();
    assert!(left.is_empty() && !site_packages.join("cudnn_shim").exists(), "{left:?}");
}

/// Checks the doctor's commands that install the wheel's drop-in over the environment's cuDNN.
fn installs_and_runs(environment: &Path, site_packages: &Path, cudnn: &Path, trace: &Path) {
    // Copy instead of linking, because `install` changes the directory.
    let package = site_packages.join("nvidia");
    succeed(Command::new("cp").arg("-rL").arg(cudnn.ancestors().nth(2).unwrap()).arg(&package));
    let shim = package.join("cudnn_jit/lib/libcudnn.so.9");
    let nvidias = std::fs::read(&shim).unwrap();
    let drop_in = std::fs::read(site_packages.join("cudnn_shim/lib/libcudnn.so.9")).unwrap();
    let doctor = environment.join("bin/cudnn-doctor");
    let python = environment.join("bin/python");

    let mut run = active(environment, &doctor);
    run.arg("run").arg("--trace").arg(trace).arg("--").arg(&python).args(["-c", LOAD, "libcudnn.so.9"]);
    assert_eq!(stdout(&succeed(&mut run)).trim(), "91900");
    assert!(trace.metadata().is_ok_and(|file| file.len() > 0), "the layer wrote no trace");
    assert!(std::fs::read(&shim).unwrap() == nvidias, "`run` has changed the environment");

    for _ in 0..2 {
        succeed(active(environment, &doctor).arg("install"));
        assert!(std::fs::read(&shim).unwrap() == drop_in, "the drop-in must be installed");
        let loaded = stdout(&succeed(active(environment, &python).args(["-c", LOAD]).arg(&shim)));
        assert_eq!(loaded.trim(), "91900");
    }
    succeed(active(environment, &doctor).arg("uninstall"));
    assert!(std::fs::read(&shim).unwrap() == nvidias, "NVIDIA's shim must be restored");
    let left: Vec<PathBuf> = files(shim.parent().unwrap());
    assert_eq!(left.len(), files(cudnn).len(), "{left:?}");
    std::fs::remove_dir_all(&package).unwrap();
}

#[test]
#[ignore = "building the release files takes minutes"]
fn a_wheel_can_be_installed_into_a_separate_directory() {
    let dir = TempDir::new();
    let Some(environment) = environment("the wheel in a directory apart", &dir.path().join("venv")) else { return };
    let target = dir.path().join("apart");
    pip(&environment, &[&"install", &"--no-index", &"--target", &target, &wheel()]);
    succeed(Command::new(target.join("bin/cudnn-doctor")).arg("--version").env_clear());
    assert!(target.join("cudnn_shim/lib/libcudnn.so.9").exists());
    let info = target.join(format!("cudnn_doctor-{}.dist-info", env!("CARGO_PKG_VERSION")));
    for file in
        [target.join("cudnn_shim/THIRD-PARTY.txt"), info.join("licenses/LICENSE-MIT"), info.join("sboms/sbom.cdx.json")]
    {
        assert!(file.metadata().unwrap().len() > 1000, "{file:?}");
    }
    let metadata = std::fs::read_to_string(info.join("METADATA")).unwrap();
    let expression = metadata.lines().find_map(|line| line.strip_prefix("License-Expression: ")).unwrap();
    assert!(expression.starts_with("(MIT OR Apache-2.0) AND ") && expression.contains("ISC"), "{expression}");
    // Headers are in the same place as in an archive.
    assert!(target.join("cudnn_shim/include/cudnn_layer.h").exists());
}

/// Compiles with cargo's profile `dev` to save time. pipx uses pip, and a clone contains only committed files.
#[test]
#[ignore = "building the release files takes minutes"]
fn pipx_installs_from_git_and_uv_runs_a_checkout() {
    let test = "a checkout with pipx and uv";
    let dir = TempDir::new();
    let Some(tools) = environment(test, &dir.path().join("tools")) else { return };
    if !Command::new(tools.join("bin/pip")).args(["install", "--quiet", "uv", "pipx"]).status().unwrap().success() {
        return not_run(test, "pip cannot install them");
    }
    let root = support::root();
    if !root.join(".git").exists() {
        return not_run(test, "the directory is not a git checkout");
    }
    let tool = |program: &str| {
        let mut command = Command::new(tools.join("bin").join(program));
        command.env("CARGO_TARGET_DIR", root.join("target/checkout-wheel"));
        command.env("PIPX_HOME", dir.path().join("pipx")).env("PIPX_BIN_DIR", dir.path().join("bin"));
        command
    };
    let version = format!("cudnn-doctor {}", env!("CARGO_PKG_VERSION"));

    let mut pipx = tool("pipx");
    pipx.args(["install", "--pip-args=--config-settings profile=dev"]).arg(format!("git+file://{}", root.display()));
    succeed(&mut pipx);
    let doctor = dir.path().join("bin/cudnn-doctor");
    assert_eq!(stdout(&succeed(Command::new(&doctor).arg("--version"))).trim(), version);
    let lab = stdout(&succeed(Command::new(dir.path().join("bin/cudnn-lab")).arg("--version")));
    assert!(lab.starts_with("cudnn-lab "), "{lab}");
    let environment = dir.path().join("pipx/venvs/cudnn-doctor");
    let package = site_packages(&environment).join("cudnn_shim");
    for name in ["lib/libcudnn.so.9", "lib/libcudnn_layers.so", "include/cudnn_shim.h", "include/cudnn_layer.h"] {
        assert!(package.join(name).is_file(), "{name}");
    }
    if let Some(cudnn) = lib_dir(RELEASE) {
        add_cudnn(&site_packages(&environment), &cudnn);
        let mut run = active(&environment, &doctor);
        run.args(["run", "--"]).arg(environment.join("bin/python")).args(["-c", LOAD, "libcudnn.so.9"]);
        assert_eq!(stdout(&succeed(&mut run)).trim(), "91900");
    }

    let mut uv = tool("uv");
    uv.args(["tool", "run", "--config-setting", "profile=dev", "--from"])
        .arg(&root)
        .args(["cudnn-doctor", "--version"]);
    assert_eq!(stdout(&succeed(&mut uv)).trim(), version);
}

fn needed_glibc(file: &Path) -> Vec<Vec<u32>> {
    let text = binutils("objdump", &["-T"], file);
    let versions = text.split_whitespace().filter_map(|word| word.trim_matches(['(', ')']).strip_prefix("GLIBC_"));
    versions.filter_map(|version| version.split('.').map(|number| number.parse().ok()).collect()).collect()
}

#[test]
#[ignore = "building the release files takes minutes"]
fn the_wheel_for_linux_runs_with_an_old_glibc() {
    let dir = TempDir::new();
    let unpacked = unpack(&wheel(), dir.path());
    let binaries = files(&unpacked).into_iter().filter(|file| std::fs::read(file).unwrap().starts_with(b"\x7fELF"));
    let mut count = 0;
    for binary in binaries {
        let newest = needed_glibc(&binary).into_iter().max().unwrap_or_default();
        assert!(!newest.is_empty() && newest.as_slice() <= OLDEST_GLIBC.as_slice(), "{binary:?} needs {newest:?}");
        count += 1;
    }
    assert_eq!(count, 4);
    let Some(environment) = environment("auditwheel", &dir.path().join("venv")) else { return };
    let installed =
        Command::new(environment.join("bin/pip")).args(["install", "--quiet", "auditwheel==6.8.2"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return not_run("auditwheel", "pip cannot install it");
    }
    let shown = stdout(&succeed(Command::new(environment.join("bin/auditwheel")).arg("show").arg(wheel())));
    assert!(shown.contains("\"manylinux_2_28_x86_64\"") || shown.contains("manylinux_2_27"), "{shown}");
}

fn unpack(wheel: &Path, dir: &Path) -> PathBuf {
    let unpacked = dir.join("unpacked");
    succeed(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked));
    unpacked
}

/// Returns the doctor in an unpacked wheel. Python's zipfile does not make it executable.
fn doctor_in(unpacked: &Path, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let file = unpacked.join(format!("cudnn_doctor-{}.data/scripts", env!("CARGO_PKG_VERSION"))).join(name);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
#[ignore = "building the release files takes minutes"]
fn the_wheel_for_aarch64_runs_in_an_emulator() {
    let test = "the wheel for aarch64";
    let Some(wheel) = release_file("aarch64.whl") else { return };
    let dir = TempDir::new();
    let unpacked = unpack(&wheel, dir.path());
    let libraries = unpacked.join("cudnn_shim/lib");
    for file in [libraries.join("libcudnn.so.9"), libraries.join("libcudnn_layers.so")] {
        let newest = needed_glibc(&file).into_iter().max().unwrap_or_default();
        assert!(!newest.is_empty() && newest.as_slice() <= OLDEST_GLIBC.as_slice(), "{file:?} needs {newest:?}");
    }
    let doctor = doctor_in(&unpacked, "cudnn-doctor");
    // Debian's package adds a suffix to the name.
    let emulators = ["qemu-aarch64", "qemu-aarch64-static"];
    let started = emulators.iter().find_map(|name| Command::new(name).arg(&doctor).arg("--version").output().ok());
    match started {
        Some(output) => assert!(output.status.success() && stdout(&output).starts_with("cudnn-doctor "), "{output:?}"),
        None => not_run(test, "neither qemu-aarch64 nor qemu-aarch64-static is installed"),
    }
}

#[test]
#[ignore = "building the release files takes minutes"]
fn the_wheel_for_windows_runs_under_wine() {
    let test = "the wheel for Windows";
    let Some(wheel) = release_file("win_amd64.whl") else { return };
    if !has_wine() {
        return not_run(test, "Wine is not installed");
    }
    let dir = TempDir::new();
    let unpacked = unpack(&wheel, dir.path());
    let libraries = unpacked.join("cudnn_shim/bin");
    let doctor = doctor_in(&unpacked, "cudnn-doctor.exe");
    // The files must not require a compiler's DLL.
    for file in [&doctor, &libraries.join("cudnn64_9.dll"), &libraries.join("cudnn_layers.dll")] {
        let belongs_to_compiler = |name: &String| name.starts_with("libgcc") || name.starts_with("libwinpthread");
        assert_eq!(windows::imports(file).into_iter().find(belongs_to_compiler), None, "{file:?}");
    }
    let version = windows::child(&doctor).run(&["--version"]);
    assert!(version.stdout.starts_with("cudnn-doctor "), "{version:?}");
    let Some(cudnn) = lib_dir(windows::RELEASE) else { return };
    let checked = windows::child(&doctor).env("CUDNN_LOADER_DIR", windows::path(&cudnn)).run(&["check"]);
    assert!(checked.stdout.contains(&windows::fill_in_release("cuDNN   VERSION")), "{checked:?}");
}

fn has_wine() -> bool {
    Command::new("wine").arg("--version").output().is_ok()
}

fn static_doctor(dir: &Path) -> Option<PathBuf> {
    let archive = release_file("musl.tar.gz")?;
    succeed(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(dir));
    files(dir).into_iter().find(|file| file.ends_with("cudnn-doctor"))
}

fn has_rust(target: &str) -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output().unwrap();
    Path::new(stdout(&output).trim()).is_dir()
}

/// `cargo binstall` finds the archive of each target and the doctor in it through the metadata of the doctor's package.
#[test]
#[ignore = "building the release files takes minutes"]
fn the_files_of_a_release_are_complete_and_found_by_cargo_binstall() {
    let release = release_files();
    succeed(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(release));
    // Reproducible wheels contain no build times.
    let times = "import sys, zipfile; print({file.date_time[0] for file in zipfile.ZipFile(sys.argv[1]).infolist()})";
    let times = succeed(Command::new("python3").args(["-c", times]).arg(wheel()));
    assert_eq!(stdout(&times).trim(), "{1980}");
    let notes = std::fs::read_to_string(release.join("RELEASE-NOTES.md")).unwrap();
    assert!(notes.contains("### cudnn-doctor"), "{notes}");
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(support::root());
    let metadata: serde_json::Value = serde_json::from_slice(&succeed(&mut cargo).stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let doctor = packages.iter().find(|package| package["name"] == "cudnn-doctor").unwrap();
    let binstall = &doctor["metadata"]["binstall"];
    for target in [LINUX, AARCH64, STATIC, windows::TARGET, "x86_64-pc-windows-msvc"] {
        let value = |key: &str| {
            let general = &binstall[key];
            let value = binstall["overrides"][target].get(key).unwrap_or(general).as_str().unwrap();
            let extension = if target.contains("windows") { ".exe" } else { "" };
            [
                ("version", env!("CARGO_PKG_VERSION")),
                ("target", target),
                ("bin", "cudnn-doctor"),
                ("binary-ext", extension),
            ]
            .iter()
            .fold(value.to_owned(), |value, (name, text)| value.replace(&format!("{{ {name} }}"), text))
        };
        let url = value("pkg-url");
        let name = url.rsplit('/').next().unwrap();
        // A machine without the compiler for a target has no archive for it.
        let Some(archive) = release_file(name) else {
            assert!(target != LINUX, "{name}");
            continue;
        };
        let list = if name.ends_with(".zip") {
            assert_eq!(value("pkg-fmt"), "zip");
            succeed(Command::new("python3").args(["-m", "zipfile", "-l"]).arg(archive))
        } else {
            assert_eq!(value("pkg-fmt"), "tgz");
            succeed(Command::new("tar").arg("-tzf").arg(archive))
        };
        let path = value("bin-dir");
        assert!(stdout(&list).split_whitespace().any(|file| file == path), "{path}: {}", stdout(&list));
    }
}

#[test]
#[ignore = "building the release files takes minutes"]
fn the_static_doctor_reads_files_in_a_bare_root_and_reports_its_limits() {
    let (Some(cudnn), dir) = (lib_dir(RELEASE), TempDir::new()) else { return };
    let Some(doctor) = static_doctor(dir.path()) else { return };
    assert!(!binutils("readelf", &["-l"], &doctor).contains("INTERP"));
    // A root directory that contains only the doctor and cuDNN.
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("cudnn")).unwrap();
    support::copy_program(&doctor, root.join("cudnn-doctor"));
    for library in files(&cudnn) {
        std::fs::copy(&library, root.join("cudnn").join(library.file_name().unwrap())).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--root"]).arg(&root).arg("/cudnn-doctor").args(arguments);
        command.env_clear().env("CUDNN_LOADER_DIR", "/cudnn").env("PATH", std::env::var_os("PATH").unwrap());
        let output = command.output().unwrap();
        (output.status.code(), format!("{}{}", stdout(&output), String::from_utf8_lossy(&output.stderr)))
    };
    let (code, text) = run(&["--version"]);
    if code != Some(0) {
        return not_run("the static doctor in a bare root", &format!("unshare: {text}"));
    }
    for (arguments, codes, expected) in [
        (&["list"] as &[&str], [0, 1], "9.19.0"),
        (&["check", "--no-load"], [0, 1], "cuDNN   9.19.0"),
        (&["check"], [3, 3], "error[C055]: this program is static"),
        (&["demo"], [3, 3], "this program is static"),
        (&["preload"], [3, 3], "this program is static"),
        (&["env"], [0, 0], "/cudnn"),
        (&["explain", "/cudnn/libcudnn_graph.so.9"], [0, 2], "libc.so.6"),
        (&["frameworks"], [0, 0], ""),
        (&["fetch"], [0, 0], RELEASE),
        (&["layers"], [0, 0], ""),
        (&["facts"], [0, 0], "C055"),
        (&["man"], [0, 0], "cudnn-doctor"),
        (&["completions", "bash"], [0, 0], "cudnn-doctor"),
        (&["pid", "1"], [0, 3], ""),
        (&["log", "/missing"], [3, 3], "/missing"),
    ] {
        let (code, text) = run(arguments);
        assert!(
            code.is_some_and(|code| codes.contains(&code)) && text.contains(expected),
            "{arguments:?}: {code:?} {text}"
        );
    }
}

/// Two builds in different directories must produce identical libraries. The doctor is not compared, because its build
/// takes minutes and uses the same flags.
#[test]
#[ignore = "building the release files takes minutes"]
fn two_builds_in_different_directories_are_identical() {
    let dir = TempDir::new();
    let copy = dir.path().join("elsewhere/copy");
    std::fs::create_dir_all(&copy).unwrap();
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(support::root()).output();
    let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
        return not_run("two builds in different directories", "the directory is not a git checkout");
    };
    for name in stdout(&listed).split_terminator('\0') {
        let to = copy.join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        let from = support::root().join(name);
        match std::fs::read_link(&from) {
            Ok(link) => std::os::unix::fs::symlink(link, to).unwrap(),
            Err(_) => drop(std::fs::copy(from, to).unwrap()),
        }
    }
    let mut dist = support::xtask();
    dist.arg("dist").current_dir(&copy).env("CARGO_MANIFEST_DIR", copy.join("xtask"));
    let output = succeed(dist.env("CARGO_TARGET_DIR", dir.path().join("other-target")));
    let there = PathBuf::from(stdout(&output).trim());
    assert!(there.starts_with(dir.path()), "{there:?}");
    let here = support::drop_in();
    let names =
        |dir: &Path| files(dir).iter().map(|file| file.strip_prefix(dir).unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&here), names(&there));
    for name in names(&here) {
        assert!(std::fs::read(here.join(&name)).unwrap() == std::fs::read(there.join(&name)).unwrap(), "{name:?}");
    }
}
