//! Tests `install` and `uninstall` with real wheels and pip, also if they are killed, run concurrently, or refuse to
//! work.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod beside;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use beside::Prefix;
use cudnn_probe::Library;
use serde_json::{Value, json};
use support::{
    FOREIGN, FakeLibrary, PythonEnvironment, TempDir, Version, Wheel, copy_fake_set, lib_dir, not_run, release,
};

const KEPT: &str = "libcudnn.9.kept-by-cudnn-doctor";

/// The release before the pinned one.
const BEFORE: Wheel = Wheel {
    package: "nvidia-cudnn-jit-cu12",
    version: "9.18.1.3",
    sha256: "8dfbc80627aea1418aa4dac1b8d2637d5c9b0ab7fb7f56cb31486f8d0a2ac24e",
};

/// Returns a directory's entries: the target of a link, or the inode, mode, time and hash of a file.
fn entries(dir: &Path) -> BTreeMap<OsString, String> {
    let entry = |path: PathBuf| {
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_symlink() {
            return format!("link to {:?}", std::fs::read_link(&path).unwrap());
        }
        // Commands never touch large files, so the inode and the time are enough.
        let is_small = metadata.is_file() && metadata.len() < 2 << 20;
        let hash = if is_small { cudnn_fetch::sha256(&path) } else { None };
        let (inode, mode, time) = (metadata.ino(), metadata.mode(), metadata.mtime_nsec());
        format!("inode {inode}, mode {mode:o}, {} s {time} ns, {hash:?}", metadata.mtime())
    };
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| (name.clone(), entry(dir.join(name)))).collect()
}

fn run(prefix: &Prefix, arguments: &[&OsStr]) -> Output {
    prefix.command(arguments).output().unwrap()
}

fn succeed(prefix: &Prefix, command: &str, dir: &Path) -> String {
    let output = run(prefix, &[command.as_ref(), dir.as_os_str()]);
    assert_eq!(output.status.code(), Some(0), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn paste(command: &str) {
    let output = Command::new("/bin/sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

fn printed<'a>(text: &'a str, before: &str) -> &'a str {
    let command = text.lines().find_map(|line| line.split_once(before)).unwrap_or_else(|| panic!("{text}")).1;
    command.strip_suffix(" again.").unwrap_or(command)
}

fn is_drop_in(dir: &Path) -> bool {
    let bytes = std::fs::read(dir.join("libcudnn.so.9")).unwrap();
    bytes.windows(18).any(|window| window == b"cudnn-shim drop-in")
}

fn put_copies(release: &Path, dir: &Path) {
    for file in std::fs::read_dir(release).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
}

fn put_links(release: &Path, dir: &Path) {
    for file in std::fs::read_dir(release).unwrap().map(|entry| entry.unwrap()) {
        symlink(file.path(), dir.join(file.file_name())).unwrap();
    }
}

/// Creates an environment with the unpacked wheel. Returns the directory of cuDNN.
fn venv_with_wheel(unpacked: &Path, root: &Path) -> PathBuf {
    let venv = PythonEnvironment::venv(root);
    let copy = Command::new("cp").arg("-a").arg(unpacked.join(".")).arg(venv.import_dir()).status().unwrap();
    assert!(copy.success());
    venv.import_dir().join("nvidia/cudnn_jit/lib")
}

/// Returns a cuDNN and the cache that its files are hard links to, as created by uv and conda.
fn linked_to_cache() -> Option<(TempDir, TempDir)> {
    let release = lib_dir("jit-cu12-9.19.0")?;
    let cache = TempDir::new();
    put_copies(&release, cache.path());
    let dir = TempDir::copy_of(cache.path());
    Some((cache, dir))
}

fn pack(unpacked: &Path, name: &str, into: &Path) {
    let entries = std::fs::read_dir(unpacked).unwrap().map(|entry| entry.unwrap().file_name());
    let entries = entries.filter(|name| *name != "requirement.txt" && *name != "bin");
    let mut zip = Command::new("python3");
    zip.args(["-I", "-m", "zipfile", "-c"]).arg(into.join(name)).args(entries).current_dir(unpacked);
    let output = zip.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn findings(prefix: &Prefix, environment: &Path) -> Vec<Value> {
    let mut command = prefix.command(&["check", "--no-load", "--json"].map(OsStr::new));
    let output = command.env("VIRTUAL_ENV", environment).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["findings"].as_array().unwrap().clone()
}

fn found(prefix: &Prefix, environment: &Path, code: &str) -> Option<Value> {
    findings(prefix, environment).into_iter().find(|finding| finding["code"] == code)
}

const USE: &str = "
import ctypes, sys
cudnn = ctypes.CDLL(sys.argv[1])
cudnn.cudnnGetVersion.restype = ctypes.c_size_t
handle = ctypes.c_void_p()
print(cudnn.cudnnGetVersion(), cudnn.cudnnCreate(ctypes.byref(handle)) in (0, 1001), hasattr(cudnn, 'cudnnShimGetVersion'))
";

#[test]
fn the_drop_in_survives_upgrades_of_a_real_environment() {
    let (Some(release), Some(before)) = (release("jit-cu12-9.19.0"), BEFORE.unpacked()) else { return };
    if support::is_emulated("the life of a real environment", "the older wheel is for x86-64") {
        return;
    }
    let (wheels, home, prefix) = (TempDir::new(), TempDir::new(), Prefix::new());
    pack(&before, "nvidia_cudnn_jit_cu12-9.18.1.3-py3-none-any.whl", wheels.path());
    pack(&release, "nvidia_cudnn_jit_cu12-9.19.0.56-py3-none-any.whl", wheels.path());
    let real = home.path().join("real");
    support::venv_with_pip(&real);
    let venv = home.path().join("venv");
    symlink("real", &venv).unwrap();
    let python = venv.join("bin/python3");
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(&python);
        pip.args(["-I", "-m", "pip"]).args(arguments).env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels.path());
        let output = pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    pip(&["install", "--no-deps", "nvidia-cudnn-jit-cu12==9.18.1.3"]);
    let site = Command::new(&python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).output();
    let site = PathBuf::from(String::from_utf8(site.unwrap().stdout).unwrap().trim());
    let dir = std::fs::canonicalize(site.join("nvidia/cudnn_jit/lib")).unwrap();
    let uses = || {
        let mut program = Command::new(&python);
        let output = program.args(["-c", USE]).arg(dir.join("libcudnn.so.9")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let install = || {
        let output = prefix.command(&["install".as_ref(), "--python".as_ref(), venv.as_ref()]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };

    let start = entries(&dir);
    let known_to_pip = pip(&["show", "--files", "nvidia-cudnn-jit-cu12"]);
    assert_eq!(uses(), "91801 True False");
    let text = install();
    assert!(text.contains("is in front of cuDNN 9.18.1 in"), "{text}");
    assert_eq!(uses(), "91801 True True");
    assert!(dir.join("libcudnn_layers.so").exists());
    assert!(install().contains("already in front"));
    let check = |environment: &Path| {
        let arguments = ["check".as_ref(), "--no-load".as_ref(), "--python".as_ref(), environment.as_os_str()];
        run(&prefix, &arguments)
    };
    let output = check(&venv);
    let text_of_check = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = env!("CARGO_PKG_VERSION");
    assert!(text_of_check.contains(&format!("in front of it: the drop-in {version}")), "{output:?}");
    let output = check(Path::new("/nowhere"));
    assert!(
        output.status.code() == Some(3) && String::from_utf8_lossy(&output.stderr).contains("is neither a Python"),
        "{output:?}"
    );
    let list: Value =
        serde_json::from_slice(&run(&prefix, &["list".as_ref(), "--json".as_ref(), dir.as_os_str()]).stdout).unwrap();
    // The list may include installations of this machine.
    let mut listed = list["installations"].as_array().unwrap().iter();
    let listed = listed.find(|installation| installation["directory"] == dir.to_str().unwrap());
    assert_eq!(listed.map(|installation| &installation["drop_in"]), Some(&version.into()), "{list}");
    for code in ["C014", "C024", "C110", "C111"] {
        assert_eq!(found(&prefix, &venv, code), None, "{code}");
    }
    assert_eq!(pip(&["show", "--files", "nvidia-cudnn-jit-cu12"]), known_to_pip);
    paste(printed(&text, "remove the drop-in: "));
    assert_eq!((entries(&dir), uses()), (start, "91801 True False".into()));

    install();
    pip(&["install", "--no-deps", "--upgrade", "nvidia-cudnn-jit-cu12"]);
    assert_eq!(uses(), "91900 True False");
    assert!(dir.join(KEPT).exists() && dir.join("libcudnn_layers.so").exists());
    let finding = found(&prefix, &venv, "C110").unwrap();
    assert!(finding["notes"].to_string().contains("the sha256 differs"), "{finding:#}");
    finding["commands"].as_array().unwrap().iter().for_each(|command| paste(command.as_str().unwrap()));
    assert_eq!((found(&prefix, &venv, "C110"), uses()), (None, "91900 True True".into()));
    assert_eq!(succeed(&prefix, "uninstall", &venv), succeed_text(&dir));
    let upgraded = entries(&dir);
    assert!(upgraded.len() == 3 && uses() == "91900 True False", "{upgraded:?}");

    pip(&["install", "--no-deps", "nvidia-cudnn-jit-cu12==9.18.1.3"]);
    install();
    pip(&["install", "--no-deps", "--upgrade", "nvidia-cudnn-jit-cu12"]);
    let finding = found(&prefix, &venv, "C110").unwrap();
    let other = finding["help"].as_str().unwrap().split('`').nth(1).unwrap().to_owned();
    paste(&other);
    assert_eq!((entries(&dir).len(), uses()), (3, "91900 True False".into()));

    install();
    std::fs::copy(before.join("nvidia/cudnn_jit/lib/libcudnn.so.9"), dir.join(KEPT)).unwrap();
    let finding = found(&prefix, &venv, "C111").unwrap();
    assert!(finding["notes"].to_string().contains("the sha256 differs"), "{finding:#}");
    let output = run(&prefix, &["uninstall".as_ref(), dir.as_os_str()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && stderr.contains("the sha256 differs"), "{output:?}");
    for command in finding["commands"].as_array().unwrap().iter().map(|command| command.as_str().unwrap()) {
        paste(&format!("export PIP_NO_INDEX=1 PIP_FIND_LINKS={}; {command}", wheels.path().display()));
    }
    assert_eq!((found(&prefix, &venv, "C111"), uses()), (None, "91900 True True".into()));

    // The original shim was removed.
    std::fs::remove_file(dir.join(KEPT)).unwrap();
    let finding = found(&prefix, &venv, "C111").unwrap();
    assert!(finding["notes"].to_string().contains("was not saved as libcudnn.9.kept-by-cudnn-doctor"), "{finding:#}");
    for command in finding["commands"].as_array().unwrap().iter().map(|command| command.as_str().unwrap()) {
        paste(&format!("export PIP_NO_INDEX=1 PIP_FIND_LINKS={}; {command}", wheels.path().display()));
    }
    assert_eq!((found(&prefix, &venv, "C111"), uses()), (None, "91900 True True".into()));

    pip(&["uninstall", "--yes", "nvidia-cudnn-jit-cu12"]);
    assert_eq!(entries(&dir).into_keys().collect::<Vec<_>>(), [KEPT, "libcudnn_layers.so"]);
    let left = entries(&dir);
    let output = run(&prefix, &["install".as_ref(), venv.as_os_str()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && stderr.contains("but no cuDNN"), "{output:?}");
    assert_eq!(entries(&dir), left);
    std::fs::copy(prefix.lib().join("libcudnn.so.9"), dir.join("libcudnn.so.9")).unwrap();
    assert_eq!(run(&prefix, &["install".as_ref(), venv.as_os_str()]).status.code(), Some(3));
    paste(stderr.lines().last().unwrap().trim());
    assert_eq!(entries(&dir).len(), 0);
}

fn succeed_text(dir: &Path) -> String {
    format!("NVIDIA's libcudnn.so.9 is in front of cuDNN 9.19.0 in {} again.\n", dir.display())
}

/// Calls cuDNN, and prints whether the library with the layers was loaded.
const USE_LAYERS: &str = "
import ctypes, sys
cudnn = ctypes.CDLL(sys.argv[1])
cudnn.cudnnBackendCreateDescriptor(15, ctypes.byref(ctypes.c_void_p()))
print('libcudnn_layers' in open('/proc/self/maps').read())
";

#[test]
fn layers_are_on_without_variables_until_uninstall() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let (prefix, dir, other) = (Prefix::new(), TempDir::new(), TempDir::new());
    put_copies(&release, dir.path());
    let start = entries(dir.path());
    let [rankings, invalid, colon] = ["a:tuned.json", "invalid.json", "in:valid"].map(|name| other.path().join(name));
    std::fs::write(&rankings, support::RANKINGS).unwrap();
    [&invalid, &colon].into_iter().for_each(|file| std::fs::write(file, r#"{"errata":1}"#).unwrap());
    let listable = other.path().join("valid.json");
    std::fs::copy(&rankings, &listable).unwrap();
    let install = |options: &[&OsStr]| {
        let arguments = [&["install".as_ref(), "--json".as_ref()], options, &["--".as_ref(), dir.path().as_os_str()]];
        let output = prefix.command(&arguments.concat()).env("CUDNN_TUNED", &listable).output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), value, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let uses = |variables: &[(&str, &str)]| {
        let mut program = Command::new("python3");
        program.args(["-I", "-c", USE_LAYERS]).arg(dir.path().join("libcudnn.so.9")).env("CUDNN_LOGLEVEL_DBG", "1");
        let output = program.envs(variables.iter().copied()).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (text[0].trim() == "True", text.concat())
    };
    // Without valid rankings, the layer would stay off.
    let [layers, tuned] = [OsStr::new("--layers=errata,tuned"), OsStr::new("--layers=tuned,plans")];
    for (options, expected) in [
        (vec![layers], "CUDNN_ERRATA is not set"),
        (vec![tuned], "CUDNN_TUNED is not set"),
        (vec![tuned, "--tuned".as_ref(), invalid.as_ref()], "neither \"rules\" nor \"tuned\""),
        (vec![tuned, "--tuned".as_ref(), colon.as_ref()], "/in:valid: it contains neither \"rules\" nor \"tuned\""),
        (vec!["--layers=plans".as_ref(), "--tuned=/nowhere.json".as_ref()], "programs still load the same files"),
        (vec!["--layers=nothing".as_ref()], "the layer nothing cannot be used"),
    ] {
        let (status, _, refused) = install(&options);
        assert!(status == Some(3) && refused.contains(expected), "{refused}");
        assert_eq!(entries(dir.path()), start);
    }
    let list = dir.path().join("cudnn_layers.list");
    std::fs::create_dir(&list).unwrap();
    let (status, _, refused) = install(&["--layers=plans".as_ref()]);
    assert!(status == Some(3) && refused.contains("programs still load the same files"), "{refused}");
    std::fs::remove_dir(&list).unwrap();
    assert_eq!(entries(dir.path()), start);
    // Programs ignore options that other users can change.
    let shim = dir.path().join("libcudnn.so.9");
    let rights = shim.metadata().unwrap().permissions();
    std::fs::set_permissions(&shim, PermissionsExt::from_mode(0o775)).unwrap();
    let (_, installed, text) = install(&[tuned, "--tuned".as_ref(), rankings.as_ref()]);
    std::fs::set_permissions(dir.path().join(KEPT), rights).unwrap();
    assert_eq!((&installed["change"], &installed["layers_on"]), (&"installed".into(), &"tuned,plans".into()), "{text}");
    for file in [&list, &dir.path().join("cudnn_layers.tuned.json")] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644, "{file:?}");
    }
    let (is_on, text) = uses(&[]);
    assert!(is_on && !text.contains(" is off"), "{text}");
    assert!(!uses(&[("CUDNN_LAYERS", ",")]).0);
    let (_, configured, text) = install(&[tuned]);
    assert_eq!(configured["change"], "configured", "{text}");
    let (_, again, text) = install(&[]);
    assert_eq!((&again["change"], &again["layers_on"]), (&"none".into(), &"tuned,plans".into()), "{text}");
    for command in ["list", "layers"] {
        let mut doctor = prefix.command(&[command.as_ref()]);
        if command == "layers" {
            doctor.arg("--beside");
        }
        let output = doctor.arg(dir.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let expected =
            if command == "list" { ", with the layers tuned,plans" } else { "cudnn_layers.list\"):\n  tuned: " };
        assert!(text.contains(expected), "{command}: {text}");
    }
    std::fs::remove_file(dir.path().join("cudnn_layers.tuned.json")).unwrap();
    let (_, text) = uses(&[]);
    assert!(text.contains("CUDNN_TUNED is not set"), "{text}");
    let (_, configured, text) = install(&["--layers=plans".as_ref()]);
    assert_eq!((&configured["change"], &configured["layers_on"]), (&"configured".into(), &"plans".into()), "{text}");
    let problems = || {
        let of = |command: &str, option: &OsStr, key: &str| {
            let mut doctor = prefix.command(&[command.as_ref(), "--json".as_ref(), option]);
            let output = doctor.arg(if command == "layers" { dir.path() } else { "--no-load".as_ref() });
            let output = output.env("CUDNN_LOADER_DIR", dir.path()).output().unwrap();
            let value: Value = serde_json::from_slice(&output.stdout).unwrap();
            (value[key].clone(), output.status.code())
        };
        let (in_check, _) = of("check", "--verbose".as_ref(), "layer_problems");
        let (in_layers, status) = of("layers", "--beside".as_ref(), "list_problem");
        (in_check, in_layers, status)
    };
    assert_eq!(problems(), (json!([]), Value::Null, Some(0)));
    std::fs::write(&list, "plans,nothing\n").unwrap();
    let (in_check, in_layers, status) = problems();
    assert!(in_check[0].as_str().unwrap().contains("cudnn_layers.list stays off: "), "{in_check}");
    assert_eq!((in_layers, status), (Value::Null, Some(2)));
    std::fs::remove_file(&list).unwrap();
    std::fs::create_dir(&list).unwrap();
    let (in_check, in_layers, status) = problems();
    assert!(in_layers.as_str().unwrap().ends_with(", because it cannot be read (is a directory, not a file)"));
    assert_eq!((in_check, status), (json!([in_layers]), Some(2)));
    std::fs::remove_dir(&list).unwrap();
    install(&["--layers=plans".as_ref()]);
    // Other users could add files to the directory.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(!uses(&[]).0);
    let (in_check, in_layers, status) = problems();
    assert!(in_layers.as_str().unwrap().ends_with("list, because other users can add files to its directory"));
    assert_eq!((in_check, status), (json!([in_layers]), Some(2)));
    let (status, _, refused) = install(&["--layers=plans".as_ref()]);
    assert!(status == Some(3) && refused.contains("programs would ignore "), "{refused}");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    succeed(&prefix, "uninstall", dir.path());
    let (now, start) = (entries(dir.path()), start);
    assert_eq!(now.keys().collect::<Vec<_>>(), start.keys().collect::<Vec<_>>());
}

/// The drop-in may lack functions of a newer release than this doctor knows.
#[test]
fn the_drop_in_is_not_installed_again_in_front_of_an_unknown_release() {
    let prefix = Prefix::new();
    for (minor, expected) in [(19, " install "), (99, " uninstall ")] {
        let dir = TempDir::new();
        support::copy_fake_set(support::Version::new(9, minor, 0), dir.path());
        std::fs::copy(prefix.lib().join("libcudnn.so.9"), dir.file(Library::Shim)).unwrap();
        let mut check = prefix.command(&["check", "--no-load", "--json"].map(OsStr::new));
        let output = check.env("CUDNN_LOADER_DIR", dir.path()).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut findings = report["findings"].as_array().unwrap().iter();
        let finding = findings.find(|finding| finding["code"] == "C111").unwrap_or_else(|| panic!("{report:#}"));
        let commands = finding["commands"].as_array().unwrap();
        assert!(commands.last().unwrap().as_str().unwrap().contains(expected), "{finding:#}");
    }
}

#[test]
fn leftovers_are_removed_even_with_another_cudnn() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let (prefix, root) = (Prefix::new(), TempDir::new());
    let venv = PythonEnvironment::venv(root.path());
    let put = |package: &str| {
        let dir = venv.import_dir().join("nvidia").join(package).join("lib");
        std::fs::create_dir_all(&dir).unwrap();
        put_copies(&release, &dir);
        std::fs::canonicalize(dir).unwrap()
    };
    let old = put("cudnn_jit");
    succeed(&prefix, "install", root.path());
    for library in Library::ALL {
        let _ = std::fs::remove_file(old.join(library.file_name()));
    }
    let new = put("cudnn");
    let start = entries(&new);
    assert!(succeed(&prefix, "uninstall", root.path()).contains("leftover files from"));
    assert_eq!((entries(&old).len(), entries(&new)), (0, start.clone()));
    // An incomplete cuDNN also counts, but the one with the drop-in is selected.
    succeed(&prefix, "install", root.path());
    let old = put("cudnn_jit");
    std::fs::remove_file(old.join(Library::Graph.file_name())).unwrap();
    assert!(succeed(&prefix, "uninstall", root.path()).contains("again"));
    assert_eq!(entries(&new), start);
    assert_eq!(run(&prefix, &["install".as_ref(), root.path().as_os_str()]).status.code(), Some(3));
}

/// pip's records still list the deleted libraries.
#[test]
fn a_recorded_shim_is_restored_without_its_libraries() {
    let Some(release) = release("jit-cu12-9.19.0") else { return };
    let (prefix, root) = (Prefix::new(), TempDir::new());
    let dir = venv_with_wheel(&release, root.path());
    succeed(&prefix, "install", root.path());
    for library in Library::ALL.iter().filter(|library| **library != Library::Shim) {
        let _ = std::fs::remove_file(dir.join(library.file_name()));
    }
    assert!(succeed(&prefix, "uninstall", &dir).contains("again"));
    assert_eq!(entries(&dir).into_keys().collect::<Vec<_>>(), ["libcudnn.so.9"]);
    assert!(!is_drop_in(&dir));
    // A leftover file of `install` must not turn the directory into a cuDNN.
    std::fs::write(dir.join(KEPT), "").unwrap();
    let before = entries(&dir);
    let output = run(&prefix, &["install".as_ref(), dir.as_os_str()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && stderr.contains("none of cuDNN's other libraries"), "{stderr}");
    assert_eq!(entries(&dir), before);
}

/// An interrupted upgrade removed only graph.
#[test]
fn an_incomplete_cudnn_gets_its_shim_back() {
    let Some((_cache, dir)) = linked_to_cache() else { return };
    let prefix = Prefix::new();
    let start = entries(dir.path());
    succeed(&prefix, "install", dir.path());
    std::fs::remove_file(dir.file(Library::Graph)).unwrap();
    assert!(succeed(&prefix, "uninstall", dir.path()).contains("again"));
    let mut left = start;
    left.remove(OsStr::new(Library::Graph.file_name()));
    assert_eq!(entries(dir.path()), left);
}

#[test]
fn a_file_of_a_shared_cache_is_never_written_to() {
    let Some((cache, dir)) = linked_to_cache() else { return };
    let prefix = Prefix::new();
    let (cached, start) = (entries(cache.path()), entries(dir.path()));
    succeed(&prefix, "install", dir.path());
    assert!(is_drop_in(dir.path()));
    assert_eq!(entries(cache.path()), cached);
    let links = |dir: &Path, name: &str| std::fs::metadata(dir.join(name)).unwrap().nlink();
    assert_eq!((links(dir.path(), KEPT), links(dir.path(), "libcudnn.so.9")), (2, 1));
    let file = dir.path().join("libcudnn.so.9");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend(b"another build");
    std::fs::write(&file, bytes).unwrap();
    assert!(succeed(&prefix, "install", dir.path()).contains("in place of another drop-in"));
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(prefix.lib().join("libcudnn.so.9")).unwrap());
    succeed(&prefix, "uninstall", dir.path());
    assert_eq!((entries(cache.path()), entries(dir.path())), (cached, start));
    assert!(succeed(&prefix, "uninstall", dir.path()).contains("nothing to remove"));
}

/// conda environments and archives have such links.
#[test]
fn a_shim_that_is_a_link_is_restored_as_a_link() {
    let Some((_cache, dir)) = linked_to_cache() else { return };
    let prefix = Prefix::new();
    let shim = dir.file(Library::Shim);
    std::fs::rename(&shim, dir.path().join("libcudnn.so.9.19.0")).unwrap();
    symlink("libcudnn.so.9.19.0", &shim).unwrap();
    let start = entries(dir.path());
    succeed(&prefix, "install", dir.path());
    assert!(is_drop_in(dir.path()) && !shim.is_symlink() && dir.path().join(KEPT).is_symlink());
    succeed(&prefix, "uninstall", dir.path());
    assert_eq!(entries(dir.path()), start);
}

#[test]
fn names_that_a_shell_would_interpret_work() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let prefix = Prefix::new();
    for name in [b"a\nb".as_slice(), b"gr\xf6sse", b"it's $HOME;x:y ", b"--python", "\u{202e}x".as_bytes()] {
        let dir = TempDir::new();
        let cudnn = dir.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&cudnn).unwrap();
        for file in std::fs::read_dir(&release).unwrap().map(|entry| entry.unwrap()) {
            support::link_or_copy(&file.path(), &cudnn.join(file.file_name())).unwrap();
        }
        let start = entries(&cudnn);
        let text = succeed(&prefix, "install", &cudnn);
        assert!(is_drop_in(&cudnn), "{name:?}");
        assert_eq!(text.lines().count(), 4, "{text}");
        paste(printed(&text, "remove the drop-in: "));
        assert_eq!(entries(&cudnn), start, "{name:?}");
        paste(printed(&text, "then run "));
        assert!(is_drop_in(&cudnn), "{name:?}");
    }
}

/// Kills the process at the nth call that changes a directory or file.
const KILLER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
static void step(void) {
    static int count;
    const char *at = getenv("KILL_AT");
    if (at && ++count == atoi(at)) kill(getpid(), SIGKILL);
}
#define CALL(name, parameters, arguments) \
    int name parameters { step(); int (*next) parameters = dlsym(RTLD_NEXT, #name); return next arguments; }
CALL(rename, (const char *a, const char *b), (a, b))
CALL(link, (const char *a, const char *b), (a, b))
CALL(linkat, (int a, const char *b, int c, const char *d, int e), (a, b, c, d, e))
CALL(symlink, (const char *a, const char *b), (a, b))
CALL(unlink, (const char *a), (a))
CALL(fchmod, (int a, unsigned b), (a, b))
CALL(fsync, (int a), (a))
int open64(const char *path, int flags, ...) {
    va_list list; va_start(list, flags); int mode = va_arg(list, int); va_end(list);
    if (flags & (O_CREAT | O_WRONLY | O_RDWR)) step();
    int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    return next(path, flags, mode);
}
"#;

#[test]
fn a_kill_at_any_step_leaves_the_old_or_the_new_state() {
    let Some((_cache, dir)) = linked_to_cache() else { return };
    let (prefix, tools) = (Prefix::new(), TempDir::new());
    let killer = tools.path().join("killer.so");
    support::compile(KILLER, &["-shared", "-fPIC", "-w", "-ldl"], &killer);
    let start = entries(dir.path());
    let drop_in = std::fs::read(prefix.lib().join("libcudnn.so.9")).unwrap();
    let nvidia = std::fs::read(dir.file(Library::Shim)).unwrap();
    for command in ["install", "uninstall"] {
        let mut kills = 0;
        for step in 1.. {
            if command == "uninstall" {
                succeed(&prefix, "install", dir.path());
            }
            let mut cut_off = prefix.command(&[command.as_ref(), dir.path().as_os_str()]);
            let status = cut_off.env("LD_PRELOAD", &killer).env("KILL_AT", step.to_string()).output().unwrap().status;
            let shim = std::fs::read(dir.file(Library::Shim)).unwrap();
            assert!(shim == drop_in || shim == nvidia, "{command} {step}: a file that is neither");
            assert!(shim == nvidia || dir.path().join(KEPT).exists(), "{command} {step}: nothing leads back");
            if status.success() {
                break;
            }
            kills += 1;
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status:?}");
            if step % 2 == 0 {
                succeed(&prefix, "install", dir.path());
                assert_eq!(std::fs::read(dir.file(Library::Shim)).unwrap(), drop_in);
            }
            succeed(&prefix, "uninstall", dir.path());
            assert_eq!(entries(dir.path()), start, "{command} {step}");
        }
        assert!(kills >= if command == "install" { 8 } else { 2 }, "{command}: {kills}");
    }
}

#[test]
fn concurrent_commands_wait_for_each_other() {
    let Some((_cache, dir)) = linked_to_cache() else { return };
    let prefix = Prefix::new();
    let start = entries(dir.path());
    for commands in [["install"; 2], ["install", "uninstall"], ["uninstall"; 2]] {
        let start = |index: usize| {
            let mut command = prefix.command(&[commands[index % 2].as_ref(), dir.path().as_os_str()]);
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        let running: Vec<_> = (0..8).map(start).collect();
        for mut running in running {
            assert_eq!(running.wait().unwrap().code(), Some(0), "{commands:?}");
        }
    }
    assert_eq!(entries(dir.path()), start);
}

/// ld.so terminates a program that calls a function missing from the drop-in.
#[test]
fn a_drop_in_without_functions_of_the_shim_is_rejected() {
    let version = Version::new(9, 28, 0);
    let (prefix, dir, other) = (Prefix::new(), TempDir::new(), TempDir::new());
    copy_fake_set(version, dir.path());
    let newer = "int cudnnNewer(void) { return 0; }\nint cudnnNewest(void) { return 0; }\n";
    FakeLibrary::new(Library::Shim, version).with_code(newer).build(&dir.cleared(Library::Shim));
    let shim = dir.file(Library::Shim);
    let (program, run_path) = (other.path().join("program"), format!("-Wl,-rpath,{}", dir.path().display()));
    let code = "int cudnnNewer(void); int main(void) { return cudnnNewer(); }";
    support::compile(code, &["-Wl,--no-as-needed", shim.to_str().unwrap(), &run_path], &program);
    assert!(Command::new(&program).status().unwrap().success());
    let before = entries(dir.path());

    let loader_dir = |command: &mut Command| command.env("CUDNN_LOADER_DIR", dir.path()).output().unwrap();
    let is_refused = |output: Output| {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(3) && stderr.contains("cudnnNewer"), "{output:?}");
    };
    is_refused(run(&prefix, &["install".as_ref(), dir.path().as_os_str()]));
    assert_eq!(entries(dir.path()), before);
    // The program's run path leads to one cuDNN, and the search selects the other.
    is_refused(run(&prefix, &["run".as_ref(), "--".as_ref(), program.as_os_str()]));
    is_refused(loader_dir(&mut prefix.command(&["run", "--", "true"].map(OsStr::new))));

    // cuDNN was upgraded after the installation of the drop-in.
    let codes = |command: &mut Command| {
        let output = loader_dir(command.args(["check", "--no-load", "--json"]));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["findings"].as_array().unwrap().clone()
    };
    let old = |findings: Vec<Value>| findings.into_iter().find(|finding| finding["code"] == "C112");
    assert_eq!(old(codes(&mut prefix.command(&[]))), None);
    let on_path = codes(prefix.command(&[]).env("LD_LIBRARY_PATH", prefix.lib()));
    assert!(old(on_path).unwrap().to_string().contains("cudnnNewer"));
    std::fs::rename(&shim, dir.path().join(KEPT)).unwrap();
    std::fs::copy(prefix.lib().join("libcudnn.so.9"), &shim).unwrap();
    let finding = old(codes(&mut prefix.command(&[]))).unwrap();
    assert_eq!(finding["severity"], "error");
    is_refused(run(&prefix, &["run".as_ref(), "--".as_ref(), program.as_os_str()]));
    finding["commands"].as_array().unwrap().iter().for_each(|command| paste(command.as_str().unwrap()));
    assert_eq!((old(codes(&mut prefix.command(&[]))), entries(dir.path())), (None, before));
}

/// How a case changes the directory, and a part of the expected message.
type Case<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);

#[test]
fn unrecognized_files_are_rejected_and_kept() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let prefix = Prefix::new();
    let shim = |dir: &Path| dir.join("libcudnn.so.9");
    let write = |dir: &Path, text: &[u8]| {
        std::fs::remove_file(shim(dir)).unwrap();
        std::fs::write(shim(dir), text).unwrap();
    };
    let put_drop_in = |dir: &Path| write(dir, &std::fs::read(prefix.lib().join("libcudnn.so.9")).unwrap());
    let nvidia = std::fs::read(shim(&release)).unwrap();
    let cases: [Case<'_>; 12] = [
        ("no library", &|dir| write(dir, b"no library"), "is not an ELF file"),
        ("a truncated one", &|dir| write(dir, &nvidia[..60_000]), "is truncated"),
        (
            "a library of somebody else",
            &|dir| {
                std::fs::remove_file(shim(dir)).unwrap();
                support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9"], &shim(dir));
            },
            "is not NVIDIA's shim",
        ),
        (
            "for another processor",
            &|dir| {
                let mut bytes = nvidia.clone();
                bytes[18] = FOREIGN.1;
                write(dir, &bytes);
            },
            "aarch64",
        ),
        ("the drop-in without NVIDIA's shim", &put_drop_in, "was not saved as"),
        (
            "the drop-in with a damaged shim",
            &|dir| {
                put_drop_in(dir);
                std::fs::write(dir.join(KEPT), b"damaged").unwrap();
            },
            "so it could not be restored",
        ),
        (
            "the drop-in kept in place of NVIDIA's shim",
            &|dir| {
                put_drop_in(dir);
                std::fs::copy(shim(dir), dir.join(KEPT)).unwrap();
            },
            "is the drop-in, not NVIDIA's",
        ),
        (
            "a directory",
            &|dir| {
                std::fs::remove_file(shim(dir)).unwrap();
                std::fs::create_dir(shim(dir)).unwrap();
            },
            "is a directory",
        ),
        (
            "a pipe",
            &|dir| {
                std::fs::remove_file(shim(dir)).unwrap();
                assert!(Command::new("mkfifo").arg(shim(dir)).status().unwrap().success());
            },
            "pipe",
        ),
        (
            "a link that leads nowhere",
            &|dir| {
                std::fs::remove_file(shim(dir)).unwrap();
                symlink("libcudnn.so.9.0.0", shim(dir)).unwrap();
            },
            "link",
        ),
        ("no shim", &|dir| std::fs::remove_file(shim(dir)).unwrap(), "has no libcudnn.so.9"),
        ("somebody else's layers", &|dir| std::fs::write(dir.join("libcudnn_layers.so"), b"").unwrap(), "is not this"),
    ];
    for (name, change, expected) in cases {
        let dir = TempDir::new();
        put_links(&release, dir.path());
        std::fs::remove_file(shim(dir.path())).unwrap();
        std::fs::copy(shim(&release), shim(dir.path())).unwrap();
        change(dir.path());
        let before = entries(dir.path());
        for command in ["install", "uninstall"] {
            let output = run(&prefix, &[command.as_ref(), dir.path().as_os_str()]);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_clean = command == "uninstall" && ["no shim", "somebody else's layers"].contains(&name);
            let (status, text) = if is_clean { (0, "") } else { (3, expected) };
            assert_eq!(output.status.code(), Some(status), "{name}: {output:?}");
            assert!(stderr.contains(text) && !stderr.contains("panicked"), "{name}: {stderr}");
            assert_eq!(entries(dir.path()), before, "{name}: {command}");
        }
    }
}

#[test]
fn a_shim_that_differs_from_its_wheel_is_kept() {
    let Some(release) = release("jit-cu12-9.19.0") else { return };
    let (prefix, root) = (Prefix::new(), TempDir::new());
    let dir = venv_with_wheel(&release, root.path());
    let file = dir.join("libcudnn.so.9");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.push(0);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let before = entries(&dir);
    let output = run(&prefix, &["install".as_ref(), "--python".as_ref(), root.path().as_os_str()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && stderr.contains("the sha256 differs"), "{stderr}");
    assert!(stderr.contains("--force-reinstall") || stderr.contains("again"), "{stderr}");
    assert_eq!(entries(&dir), before);
}

#[test]
fn an_ambiguous_target_is_rejected() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let prefix = Prefix::new();
    let world = TempDir::new();
    let venv = |name: &str| PythonEnvironment::venv(&world.path().join(name));
    let put = |dir: PathBuf| {
        std::fs::create_dir_all(&dir).unwrap();
        put_links(&release, &dir);
        dir
    };
    let two = venv("two");
    let dirs = [put(two.import_dir().join("nvidia/cudnn/lib")), put(two.import_dir().join("other/lib"))];
    let shared = put(world.path().join("shared/cudnn/lib"));
    let linking = venv("linking");
    symlink(world.path().join("shared"), linking.import_dir().join("nvidia")).unwrap();
    let _empty = venv("empty");
    for (arguments, expected) in [
        (&["--python", "two"][..], "2 installations"),
        (&["two"], "2 installations"),
        (&["linking"], "is outside of it"),
        (&["--python", "empty"], "no cuDNN 9"),
        (&["empty"], "no cuDNN 9"),
        (&["nowhere"], "is not a directory"),
        (&["--python", "nowhere"], "is neither a Python"),
        (&[], "no Python"),
        (&["two", "--python", "two"], "cannot be used with"),
    ] {
        for subcommand in ["install", "uninstall"] {
            let all = [&[subcommand], arguments].concat();
            let all: Vec<&OsStr> = all.into_iter().map(OsStr::new).collect();
            let output = prefix.command(&all).current_dir(world.path()).env("PATH", "/nowhere").output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(3), "{arguments:?}: {stderr}");
            assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        }
    }
    std::fs::create_dir(world.path().join("without-python")).unwrap();
    for (variable, root) in [("VIRTUAL_ENV", "nowhere"), ("VIRTUAL_ENV", "without-python"), ("CONDA_PREFIX", "nowhere")]
    {
        let mut wrong = prefix.command(&["install".as_ref()]);
        let output = wrong.env(variable, world.path().join(root)).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(3) && stderr.contains(&format!("{variable} is ")), "{output:?}");
    }
    // For example, a system upgrade removed the Python.
    let lost = venv("lost");
    let in_lost = put(lost.import_dir().join("nvidia/cudnn/lib"));
    std::fs::remove_dir_all(world.path().join("lost/bin")).unwrap();
    let output = prefix.command(&["install".as_ref()]).env("VIRTUAL_ENV", lost.root()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("which has no Python"), "{stderr}");
    paste(stderr.lines().last().unwrap().trim());
    assert!(is_drop_in(&in_lost));
    let arguments = ["check", "--no-load", "--json", "--python", "lost"].map(OsStr::new);
    let output = prefix.command(&arguments).current_dir(world.path()).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["findings"].to_string().contains("C028"), "{document:#}");

    // Leftovers of an uninstalled cuDNN must not count as an installation.
    let left = two.import_dir().join("nvidia/cudnn_jit/lib");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join(KEPT), "").unwrap();
    // Without a drop-in next to the doctor, the printed commands contain `--from`.
    let elsewhere = Prefix::without_drop_in();
    let from = prefix.lib();
    let install_two = ["install".as_ref(), "two".as_ref(), "--from".as_ref(), from.as_os_str()];
    let output = elsewhere.command(&install_two).current_dir(world.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let commands: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("      ")).collect();
    assert_eq!(commands.len(), 2, "{stderr}");
    commands.iter().for_each(|command| paste(command));
    assert!(dirs.iter().all(|dir| is_drop_in(dir)));
    let output = prefix.command(&["install", "linking"].map(OsStr::new)).current_dir(world.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    paste(stderr.lines().find_map(|line| line.strip_prefix("      ")).unwrap());
    assert!(is_drop_in(&shared));
}

#[test]
fn the_drop_in_of_another_release_is_rejected() {
    let Some((_cache, dir)) = linked_to_cache() else { return };
    let prefix = Prefix::without_drop_in();
    let from = TempDir::new();
    let lib = support::drop_in().join("lib");
    let put = |name: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let bytes = change(std::fs::read(lib.join("libcudnn.so.9")).unwrap());
        std::fs::write(from.path().join(name), bytes).unwrap();
    };
    let replaced = |bytes: Vec<u8>, old: &[u8], new: &[u8]| {
        let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
        [&bytes[..at], new, &bytes[at + old.len()..]].concat()
    };
    let version = env!("CARGO_PKG_VERSION");
    let marked = |version: &str| format!("cudnn-shim drop-in {version}").into_bytes();
    let other: String = version.chars().map(|c| if c.is_ascii_digit() { '7' } else { c }).collect();
    let start = entries(dir.path());
    let refused = |arguments: &[&OsStr], expected: &str| {
        let arguments = [&["install".as_ref(), dir.path().as_os_str()], arguments].concat();
        let output = run(&prefix, &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(3) && stderr.contains(expected), "{expected}: {stderr}");
        assert!(stderr.contains("--from"), "{stderr}");
        assert_eq!(entries(dir.path()), start);
    };
    let named = ["--from".as_ref(), from.path().as_os_str()];
    refused(&[], "is not next to it");
    refused(&named, "has no libcudnn.so.9");
    put("libcudnn.so.9", &|bytes| replaced(bytes, &marked(version), &marked(&other)));
    refused(&named, &format!("has the drop-in {other}, but this doctor is {version}"));
    put("libcudnn.so.9", &|bytes| bytes[..100_000].to_vec());
    refused(&named, "is truncated");
    put("libcudnn.so.9", &|_| b"no library".to_vec());
    refused(&named, "is not an ELF file");
    std::fs::copy(dir.file(Library::Shim), from.path().join("libcudnn.so.9")).unwrap();
    refused(&named, "that is not this project's drop-in");
    put("libcudnn.so.9", &|bytes| bytes);
    std::fs::write(from.path().join("libcudnn_layers.so"), b"damaged").unwrap();
    refused(&named, "is damaged, or not this project's");
    std::fs::remove_file(from.path().join("libcudnn_layers.so")).unwrap();
    let arguments = [&["install".as_ref(), dir.path().as_os_str()], &named[..]].concat();
    let output = run(&prefix, &arguments);
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("Layers are unavailable"),
        "{output:?}"
    );
    let dist = support::drop_in();
    let output = run(&prefix, &["install".as_ref(), dir.path().as_os_str(), "--from".as_ref(), dist.as_os_str()]);
    assert!(output.status.success() && dir.path().join("libcudnn_layers.so").exists(), "{output:?}");
    paste(printed(&String::from_utf8_lossy(&output.stdout), "then run "));
    succeed(&prefix, "uninstall", dir.path());
    assert_eq!(entries(dir.path()), start);
}

#[test]
fn the_drop_in_is_found_where_packages_put_it() {
    let Some((_cache, dir)) = linked_to_cache() else { return };
    let start = entries(dir.path());
    for place in ["lib", "bin", "lib/python3.12/site-packages/cudnn_shim/lib", "cudnn_shim/lib"] {
        let prefix = Prefix::without_drop_in();
        let lib = prefix.path().join(place);
        std::fs::create_dir_all(&lib).unwrap();
        for name in ["libcudnn.so.9", "libcudnn_layers.so"] {
            std::fs::copy(support::drop_in().join("lib").join(name), lib.join(name)).unwrap();
        }
        // The wheel's drop-in has priority over NVIDIA's shim in a conda environment.
        if place.starts_with("lib/") {
            std::fs::copy(dir.file(Library::Shim), prefix.lib().join("libcudnn.so.9")).unwrap();
        }
        succeed(&prefix, "install", dir.path());
        assert!(is_drop_in(dir.path()), "{place}");
        succeed(&prefix, "uninstall", dir.path());
        assert_eq!(entries(dir.path()), start);
    }
}

#[test]
fn list_shows_no_installation_in_a_directory_with_only_the_drop_in() {
    let prefix = Prefix::new();
    let list = || {
        let output = run(&prefix, &["list".as_ref(), prefix.path().as_os_str()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lib = prefix.lib();
    assert!(!list().contains(lib.to_str().unwrap()), "{}", list());
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&lib.join("libcudnn_graph.so.9"));
    assert!(list().contains(lib.to_str().unwrap()), "{}", list());
}

#[test]
fn a_directory_of_another_user_is_rejected_and_kept() {
    let Some((_cache, dir)) = linked_to_cache() else { return };
    if !std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        not_run("a directory of another user", "only root can change the user");
        return;
    }
    let prefix = Prefix::new();
    let start = entries(dir.path());
    let as_nobody = |command: &str| {
        let mut command = prefix.command(&[command.as_ref(), dir.path().as_os_str()]);
        command.uid(65534).gid(65534).output().unwrap()
    };
    let output = as_nobody("install");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && stderr.contains("Permission denied"), "{stderr}");
    assert!(stderr.contains("as the owner of the directory"), "{stderr}");
    assert_eq!(entries(dir.path()), start);
    // The user cannot read this directory.
    let closed = TempDir::new();
    let venv = PythonEnvironment::venv(&closed.path().join("venv"));
    std::fs::set_permissions(closed.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let root = closed.path().join("venv");
    for (arguments, variable) in [(&["--python".as_ref(), root.as_os_str()][..], ""), (&[], root.to_str().unwrap())] {
        let mut command = prefix.command(&[&["install".as_ref()], arguments].concat());
        let output = command.env("VIRTUAL_ENV", variable).uid(65534).gid(65534).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(3) && stderr.contains("this user may not read"), "{stderr}");
    }
    drop(venv);
    succeed(&prefix, "install", dir.path());
    let installed = entries(dir.path());
    assert_eq!(as_nobody("uninstall").status.code(), Some(3));
    assert_eq!(entries(dir.path()), installed);
    succeed(&prefix, "uninstall", dir.path());
    // Files that root installs for a user belong to that user, and everybody can read them.
    for file in std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).chain([dir.path().into()]) {
        std::os::unix::fs::lchown(file, Some(65534), Some(65534)).unwrap();
    }
    std::fs::set_permissions(dir.file(Library::Shim), std::fs::Permissions::from_mode(0o640)).unwrap();
    succeed(&prefix, "install", dir.path());
    for name in ["libcudnn.so.9", "libcudnn_layers.so", KEPT] {
        assert_eq!(std::fs::metadata(dir.path().join(name)).unwrap().uid(), 65534, "{name}");
    }
    assert_eq!(std::fs::metadata(dir.file(Library::Shim)).unwrap().mode() & 0o777, 0o644);
    assert_eq!(as_nobody("uninstall").status.code(), Some(0));
}

#[test]
fn every_example_of_the_help_texts_works() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let prefix = Prefix::new();
    let venv = PythonEnvironment::venv(&prefix.path().join("venvs/train"));
    let dirs = [venv.import_dir().join("nvidia/cudnn/lib"), prefix.path().join("cudnn/lib")];
    for dir in &dirs {
        std::fs::create_dir_all(dir).unwrap();
        put_links(&release, dir);
    }
    support::write_program(prefix.path().join("bin/python"), "#!/bin/sh\nexit 0\n");
    std::fs::write(prefix.path().join("app.tuned.json"), support::RANKINGS).unwrap();
    let mut count = 0;
    for subcommand in ["install", "uninstall", "run"] {
        let help = run(&prefix, &[subcommand.as_ref(), "--help".as_ref()]).stdout;
        let help = String::from_utf8(help).unwrap();
        for example in help.lines().filter_map(|line| line.strip_prefix("  cudnn-doctor ")) {
            let example = format!("cudnn-doctor {}", example.split("   ").next().unwrap().split("  ").next().unwrap());
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &example]).current_dir(prefix.path()).env_clear().env("HOME", prefix.path());
            shell.env("VIRTUAL_ENV", venv.root());
            let path = format!("{}:/usr/bin:/bin", prefix.path().join("bin").display());
            let output = shell.env("PATH", path).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{example}: {output:?}");
            count += 1;
        }
        if subcommand == "install" {
            assert!(dirs.iter().all(|dir| is_drop_in(dir)));
        }
    }
    assert!(count == 15 && !dirs.iter().any(|dir| is_drop_in(dir)), "{count}");
}
