//! Tests `cudnn-doctor` on Windows, with NVIDIA's DLLs and with broken sets of them: findings, messages and advice.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use support::{
    ChildOutput, Library, PythonEnvironment, TempDir, Version, copy_fake_dlls, extension_dll, lib_dir, windows,
};

const RELEASE: &str = windows::RELEASE;

/// With this locale, Wine interprets file names as UTF-8.
const LOCALE: &str = "C.UTF-8";

/// A directory that simulates a machine, with virtual environments and DLL directories below a path with a space and
/// non-ASCII letters.
struct World {
    dir: TempDir,
}

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| windows::build("cudnn-doctor", "cudnn-doctor", &[]))
}

impl World {
    fn new() -> World {
        World { dir: TempDir::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("Größe 1").join(name)
    }

    /// Creates a directory with links to these DLLs of the release, or copies of their first bytes.
    fn dlls(&self, name: &str, libraries: &[Library]) -> PathBuf {
        let real = lib_dir(RELEASE).unwrap();
        let dir = self.path(name);
        std::fs::create_dir_all(&dir).unwrap();
        for library in libraries {
            let name = library.windows_name();
            std::os::unix::fs::symlink(real.join(name), dir.join(name)).unwrap();
        }
        dir
    }

    /// Creates a virtual environment with a wheel of these DLLs. Returns the root.
    fn venv(&self, name: &str, libraries: &[Library]) -> PathBuf {
        let root = self.path(name);
        self.dlls(&format!("{name}/Lib/site-packages/nvidia/cudnn/bin"), libraries);
        std::fs::create_dir_all(root.join("Scripts")).unwrap();
        std::fs::write(root.join("Scripts/python.exe"), "").unwrap();
        std::fs::write(root.join("pyvenv.cfg"), "home = C:\\Python312\r\nversion = 3.12.4\r\n").unwrap();
        root
    }
}

fn doctor(variables: &[(&str, &str)], arguments: &[&str]) -> ChildOutput {
    let child = windows::child(program()).env("LC_ALL", LOCALE);
    let child = variables.iter().fold(child, |child, (name, value)| child.env(name, value));
    arguments.iter().fold(child, |child, argument| child.argument(*argument)).run(&[])
}

fn json(variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    let output = doctor(variables, &[&["--json"], arguments].concat());
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the findings of `check`: code, message, notes, help and commands.
fn findings(variables: &[(&str, &str)], arguments: &[&str]) -> Vec<(String, String)> {
    let report = json(variables, &[&["check"], arguments].concat());
    let text = |finding: &Value| {
        let list = |key: &str| {
            let values = finding[key].as_array().into_iter().flatten();
            values.filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        };
        let one = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        [one("message"), list("notes"), one("help"), list("commands")].join("\n")
    };
    let findings = report["findings"].as_array().unwrap_or_else(|| panic!("{report}"));
    findings.iter().map(|finding| (finding["code"].as_str().unwrap().to_owned(), text(finding))).collect()
}

/// Asserts that the text contains no Linux terms, which are meaningless on Windows.
fn assert_no_words_of_linux(text: &str) {
    for word in
        ["ld.so", "LD_LIBRARY_PATH", "libcudnn", "libcuda", "RPATH", "RUNPATH", "SONAME", "sudo", "chmod", "/bin/"]
    {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_wheel_in_a_virtual_environment_is_found_loaded_and_explained() {
    if lib_dir(RELEASE).is_none() {
        return;
    }
    let world = World::new();
    let venv = world.venv("venv", Library::ALL);
    let root = windows::path(&venv);
    let variables = [("VIRTUAL_ENV", root.as_str())];
    let dir = format!("{root}\\Lib\\site-packages\\nvidia\\cudnn\\bin");

    let list = json(&variables, &["list"]);
    let first = &list["installations"][0];
    assert_eq!(
        (&first["used"], &first["version"]),
        (&Value::Bool(true), &Value::from(windows::fill_in_release("VERSION"))),
        "{list}"
    );
    assert_eq!((first["directory"].as_str(), first["os"].as_str()), (Some(dir.as_str()), Some("Windows")), "{list}");

    // A missing driver and missing CUDA DLLs are not errors, because cuDNN is loaded in a child process.
    let output = doctor(&variables, &["check"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_no_words_of_linux(&output.stdout);
    let found = findings(&variables, &[]);
    let codes: Vec<&str> = found.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(codes, ["C001", "C020", "C030", "C031"], "{found:#?}");
    for (code, expected) in [
        ("C001", "nvcuda.dll, the driver's library, was not found"),
        ("C020", "is not on PATH"),
        ("C020", "$env:PATH = \""),
        ("C030", "cublasLt64_13.dll was not found"),
        ("C031", "nvrtc64_130_0.dll was not found"),
    ] {
        assert!(
            found.iter().any(|(one, text)| one == code && text.contains(expected)),
            "{code} {expected}: {found:#?}"
        );
    }

    let on_path = [variables[0], ("WINEPATH", dir.as_str())];
    let found = findings(&on_path, &[]);
    assert!(found.iter().all(|(code, _)| code != "C020" && code != "C021" && code != "C022"), "{found:#?}");

    // NVIDIA's shim opens the others by name, wherever the shim is installed.
    let explained = doctor(&variables, &["explain"]);
    assert_eq!(explained.code, Some(2), "{explained:?}");
    assert!(explained.stdout.contains("it is next to"), "{explained:?}");
    assert_no_words_of_linux(&explained.stdout);
    let explained = doctor(&on_path, &["explain"]);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    let line = explained.stdout.lines().find(|line| line.trim_start().starts_with("cudnn_graph64_9.dll")).unwrap();
    assert!(line.ends_with(&windows::fill_in_release("(VERSION): PATH")), "{line}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn broken_sets_of_dlls_are_named() {
    if lib_dir(RELEASE).is_none() {
        return;
    }
    let world = World::new();
    let full = world.dlls("full", Library::ALL);
    let full_dir = windows::path(&full);
    let used = ("CUDNN_LOADER_DIR", full_dir.as_str());
    let contains = |found: &[(String, String)], code: &str, fragments: &[&str]| {
        let is_it = |(one, text): &&(String, String)| one == code && fragments.iter().all(|part| text.contains(part));
        assert!(found.iter().any(|finding| is_it(&finding)), "{code} {fragments:?}: {found:#?}");
        found.iter().for_each(|(_, text)| assert_no_words_of_linux(text));
    };

    // Only cudnn64_9.dll is on PATH, as programs ship it.
    let alone = windows::path(&world.dlls("alone", &[Library::Shim]));
    let found = findings(&[used, ("WINEPATH", &alone)], &["--no-load"]);
    contains(&found, "C012", &["Windows finds", "but not cudnn_graph64_9.dll, which it opens by name"]);

    // Another installation without ops is first on PATH. Its shim opens the second installation's ops.
    let without_ops: Vec<Library> = Library::ALL.iter().copied().filter(|one| *one != Library::Ops).collect();
    let partial = windows::path(&world.dlls("partial", &without_ops));
    let found = findings(&[used, ("WINEPATH", &format!("{partial};{full_dir}"))], &["--no-load"]);
    contains(
        &found,
        "C022",
        &["Windows finds another cudnn64_9.dll", "Windows would mix two installations", "cudnn_ops64_9.dll: PATH"],
    );

    // The directory is empty, a DLL is damaged, and a DLL is for a different processor.
    let found = findings(&[("CUDNN_LOADER_DIR", &windows::path(&world.path("nothing")))], &[]);
    contains(
        &found,
        "C010",
        &["CUDNN_LOADER_DIR is set to", "cudnn_graph64_9.dll", "Remove-Item Env:CUDNN_LOADER_DIR"],
    );
    let damaged = world.dlls("damaged", &without_ops);
    std::fs::write(damaged.join("cudnn_ops64_9.dll"), "<html>").unwrap();
    let damaged = windows::path(&damaged);
    let found = findings(&[("CUDNN_LOADER_DIR", &damaged)], &[]);
    contains(&found, "C013", &["cudnn_ops64_9.dll", "is not a DLL"]);
    for (name, machine, expected) in [("32 bits", 0x14c_u16, "32-bit x86"), ("arm", 0xaa64, "aarch64")] {
        let dir = world.dlls(name, &without_ops);
        let mut bytes = std::fs::read(full.join("cudnn_ops64_9.dll")).unwrap();
        let header = u32::from_le_bytes(bytes[0x3c..0x40].try_into().unwrap()) as usize;
        bytes[header + 4..header + 6].copy_from_slice(&machine.to_le_bytes());
        std::fs::write(dir.join("cudnn_ops64_9.dll"), bytes).unwrap();
        let found = findings(&[("CUDNN_LOADER_DIR", &windows::path(&dir))], &["--no-load"]);
        contains(&found, "C013", &["cudnn_ops64_9.dll", expected]);
    }

    // The program needs cuDNN 9, but cuDNN 8 is installed.
    let older = world.path("older");
    std::fs::create_dir_all(&older).unwrap();
    std::fs::copy(full.join("cudnn64_9.dll"), older.join("cudnn64_8.dll")).unwrap();
    let found = findings(&[("WINEPATH", &windows::path(&older))], &["--no-load"]);
    contains(&found, "C010", &["cuDNN 8"]);
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_program_is_examined_from_its_file() {
    if lib_dir(RELEASE).is_none() {
        return;
    }
    let world = World::new();
    let full = world.dlls("full", Library::ALL);
    let dir = world.path("program dir");
    std::fs::create_dir_all(&dir).unwrap();
    let missing = dir.join("zlibwapi.dll");
    windows::compile("__declspec(dllexport) int inflate_it(void) { return 1; }", &["-shared"], &missing);
    let code =
        "int cudnnGetVersion(void); int inflate_it(void); int main(void) { return cudnnGetVersion() + inflate_it(); }";
    let flags = [full.join("cudnn64_9.dll"), missing.clone()].map(|file| file.to_str().unwrap().to_owned());
    let program = dir.join("program.exe");
    windows::compile(code, &[&flags[0], &flags[1]], &program);
    std::fs::remove_file(missing).unwrap();
    let program = windows::path(&program);
    let found = findings(&[], &["--no-load", "--for", &program]);
    let (_, text) = found.iter().find(|(code, _)| code == "C082").unwrap_or_else(|| panic!("{found:#?}"));
    assert!(text.contains("cudnn64_9.dll was not found; program.exe needs it"), "{text}");
    assert!(text.contains("zlibwapi.dll was not found; program.exe needs it"), "{text}");
    let explained = doctor(&[("WINEPATH", &windows::path(&full))], &["explain", &program]);
    assert!(explained.stdout.contains("cudnn_graph64_9.dll") && explained.stdout.contains(": PATH"), "{explained:?}");
    assert!(explained.stdout.contains("zlibwapi.dll was not found"), "{explained:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn env_sets_the_variables_of_each_shell() {
    if lib_dir(RELEASE).is_none() {
        return;
    }
    let world = World::new();
    let full = windows::path(&world.dlls("it's $full", Library::ALL));
    let powershell = doctor(&[], &["env", "--shell", "powershell", &full]);
    // PowerShell decodes a program's output in a legacy encoding.
    assert!(powershell.stdout.is_ascii() && powershell.code == Some(0), "{powershell:?}");
    let expected = full.replace('$', "`$").replace('ö', "$([char]0xf6)").replace('ß', "$([char]0xdf)");
    let lines: Vec<&str> = powershell.stdout.lines().collect();
    assert_eq!(lines[0], format!("$env:CUDNN_LOADER_DIR = \"{expected}\""));
    assert_eq!(lines[1], format!("$env:PATH = \"{expected}\" + $(if ($env:PATH) {{ ';' + $env:PATH }})"));

    // cmd runs the printed lines, because it started the doctor. Wine's cmd cannot read non-ASCII names from files.
    let plain = World { dir: TempDir::new() };
    let dir = plain.dir.path().join("a b");
    std::fs::create_dir(&dir).unwrap();
    for library in Library::ALL {
        let name = library.windows_name();
        std::os::unix::fs::symlink(lib_dir(RELEASE).unwrap().join(name), dir.join(name)).unwrap();
    }
    let (script, dir) = (plain.dir.path().join("use.cmd"), windows::path(&dir));
    let doctor_path = windows::path(program());
    let text = format!(
        "@\"{doctor_path}\" env \"{dir}\" >\"%~dp0lines.cmd\"\r\n@call \"%~dp0lines.cmd\" >nul\r\n\
         @echo [%CUDNN_LOADER_DIR%]\r\n@echo [%PATH%]\r\n@\"{doctor_path}\" --json list\r\n"
    );
    std::fs::write(&script, text).unwrap();
    let cmd = windows::child(Path::new("cmd.exe")).env("LC_ALL", LOCALE).argument("/c");
    let output = cmd.argument(windows::path(&script)).run(&[]);
    let lines = std::fs::read_to_string(plain.dir.path().join("lines.cmd")).unwrap();
    let expected = [format!("set \"CUDNN_LOADER_DIR={dir}\""), format!("call set \"PATH={dir};%PATH%\"")];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected, "{output:?}");
    let list = output.stdout.find('{').and_then(|start| serde_json::from_str::<Value>(&output.stdout[start..]).ok());
    let used = list.unwrap_or_else(|| panic!("{output:?}"))["installations"][0]["directory"].clone();
    assert_eq!(used.as_str(), Some(dir.as_str()), "{output:?}");
    assert!(output.stdout.contains(&format!("[{dir};C:\\windows\\system32;")), "{output:?}");
    // As described in the guide, in an interactive cmd.
    let guide = include_str!("../../../docs/guide/doctor.md");
    let typed = guide.lines().map(str::trim).find(|line| line.contains("& call \"%TEMP%")).unwrap();
    let typed = typed.replacen("cudnn-doctor env", &format!("\"{doctor_path}\" env \"{dir}\""), 1);
    let input = plain.dir.path().join("input");
    std::fs::write(&input, format!("{typed}\r\nset PATH\r\nexit\r\n")).unwrap();
    let typing = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/wine"))
        .arg("cmd.exe")
        .env("LC_ALL", LOCALE)
        .env_remove("WINEPATH")
        .stdin(std::fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&typing.stdout);
    assert!(
        shown.contains(&format!("\nPATH={dir};C:\\windows\\system32;"))
            || shown.contains(&format!(">PATH={dir};C:\\windows\\system32;")),
        "{typing:?}"
    );

    let percent = windows::path(&world.dlls("100%", Library::ALL));
    let refused = doctor(&[], &["env", "--shell", "cmd", &percent]);
    assert!(refused.code == Some(3) && refused.stderr.contains("--shell powershell"), "{refused:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_drop_in_is_recognized_next_to_a_program_and_in_a_wheel() {
    let Some(real) = lib_dir(RELEASE) else { return };
    let world = World::new();
    let program = world.path("program/program.exe");
    let dir = program.parent().unwrap();
    std::fs::create_dir_all(dir).unwrap();
    windows::client("windows.c", &real.join("../include"), &[], &program);
    let drop_in = windows::drop_in().join("bin/cudnn64_9.dll");
    std::fs::copy(&drop_in, dir.join("cudnn64_9.dll")).unwrap();
    let (cudnn, name) = (windows::path(&real), windows::path(&program));
    let variables = [("CUDNN_LOADER_DIR", cudnn.as_str())];
    let found = findings(&variables, &["--no-load", "--for", &name]);
    assert!(!found.iter().any(|(code, _)| ["C012", "C020", "C021", "C082"].contains(&code.as_str())), "{found:#?}");
    let explained = doctor(&variables, &["explain", &name]);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    assert!(
        explained
            .stdout
            .contains(&windows::fill_in_release(&format!("the drop-in, which loads cuDNN VERSION in {cudnn}"))),
        "{explained:?}"
    );
    let mut running = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/wine"))
        .args([&name, "wait"])
        .env("CUDNN_LOADER_DIR", &cudnn)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut id = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut id).unwrap();
    let shown = doctor(&[], &["pid", id.trim()]);
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("drop-in ") && shown.stdout.contains("cudnn_graph64_9.dll"), "{shown:?}");

    // The drop-in is installed in a wheel that recorded another file. The loader does not search below this root.
    let venv = world.venv("venv", Library::ALL);
    let bin = venv.join("Lib/site-packages/nvidia/cudnn/bin");
    std::fs::remove_file(bin.join("cudnn64_9.dll")).unwrap();
    std::fs::copy(&drop_in, bin.join("cudnn64_9.dll")).unwrap();
    let info = venv.join(windows::fill_in_release("Lib/site-packages/nvidia_cudnn_cu13-WHEEL.dist-info"));
    std::fs::create_dir(&info).unwrap();
    std::fs::write(info.join("METADATA"), windows::fill_in_release("Name: nvidia-cudnn-cu13\nVersion: WHEEL\n"))
        .unwrap();
    std::fs::write(info.join("RECORD"), "nvidia/cudnn/bin/cudnn64_9.dll,sha256=x,265584\n").unwrap();
    let root = windows::path(&venv);
    let report = json(&[("VIRTUAL_ENV", &root)], &["check", "--no-load", "--verify"]);
    let codes: Vec<&Value> = report["findings"].as_array().unwrap().iter().map(|finding| &finding["code"]).collect();
    assert!(!codes.contains(&&Value::from("C024")), "{report}");
    assert_eq!(report["verified"], Value::Array(Vec::new()), "{report}");
    let listed = doctor(&[], &["list", &root]);
    assert!(listed.stdout.contains("it does not search these directories. To use one:"), "{listed:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn pid_shows_the_dlls_that_a_process_has_loaded() {
    let Some(real) = lib_dir(RELEASE) else { return };
    let world = World::new();
    let program = world.path("program.exe");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let code = r#"
        #include <windows.h>
        #include <stdio.h>
        int wmain(int count, wchar_t **arguments) {
            for (int i = 1; i < count; i++)
                if (!LoadLibraryExW(arguments[i], 0, LOAD_WITH_ALTERED_SEARCH_PATH)) return 2;
            printf("%lu\n", GetCurrentProcessId());
            fflush(stdout);
            getchar();
            return 0;
        }"#;
    windows::compile(code, &["-municode"], &program);
    let libraries = [Library::Graph, Library::Ops].map(|library| windows::path(&real.join(library.windows_name())));
    let mut running = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/wine"))
        .arg(&program)
        .args(&libraries)
        .env("LC_ALL", LOCALE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut id = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut id).unwrap();
    let report = json(&[], &["pid", id.trim()]);
    drop(running.stdin.take());
    running.wait().unwrap();
    let is_cudnn = |library: &&Value| library["product"] == "cuDNN";
    let loaded: Vec<&Value> = report["libraries"].as_array().unwrap().iter().filter(is_cudnn).collect();
    let files: Vec<&str> = loaded.iter().map(|library| library["file"].as_str().unwrap()).collect();
    assert_eq!(files, libraries, "{report}");
    assert_eq!(
        (&loaded[0]["version"], &report["problems"]),
        (&Value::from(windows::fill_in_release("VERSION")), &Value::Array(Vec::new())),
        "{report}"
    );
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_log_and_a_missing_process_are_reported_and_output_is_utf_8() {
    let world = World::new();
    std::fs::create_dir_all(world.path("x")).unwrap();
    let log = world.path("x/log größe.txt");
    let entry = "E! CuDNN (v92800 17) function cudnnCreate() called:\n\
                 e!         Error: CUDNN_STATUS_NOT_INITIALIZED; Reason: cudaGetDeviceCount(&count) != cudaSuccess\n\
                 e! Time: 2026-11-22T08:00:00.000000 (0d+0h+0m+0s since start)\n\
                 e! Process=8; Thread=9; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n";
    std::fs::write(&log, entry).unwrap();
    let output = doctor(&[], &["log", &windows::path(&log)]);
    assert!(output.code == Some(2) && output.stdout.contains("cudaGetDeviceCount"), "{output:?}");
    for name in ["NUL", "CON", r"\\.\pipe\x"] {
        let output = doctor(&[], &["log", name]);
        assert_eq!(output.code, Some(3), "{output:?}");
    }
    let missing = doctor(&[], &["pid", "4294967292"]);
    assert!(missing.code == Some(3) && missing.stderr.contains("cannot inspect process 4294967292"), "{missing:?}");
    assert_no_words_of_linux(&missing.stderr);
    let shown = doctor(&[], &["list", &windows::path(&world.path("Größe\u{202e}x"))]);
    assert!(shown.stderr.contains("Größe") && shown.stderr.contains(r"\u{202e}"), "{shown:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn facts_are_saved_for_a_report() {
    let world = World::new();
    std::fs::create_dir_all(world.path("x")).unwrap();
    let file = world.path("x/facts.json");
    let output = doctor(&[], &["check", "--no-load", "--save-facts", &windows::path(&file)]);
    let saved = std::fs::read(&file).unwrap_or_default();
    let saved: Value = serde_json::from_slice(&saved).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(saved["saved_facts"], 1, "{saved}");
}

/// A colon after a drive letter is not a separator.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_python_of_an_environment_is_recreated() {
    let world = World::new();
    // venv rejects environment names that contain the separator of PATH.
    for (name, is_possible) in [("venv", true), ("a;b", false)] {
        let root = world.venv(name, &[]);
        let bin = root.join("Lib/site-packages/nvidia/cudnn/bin");
        copy_fake_dlls(Version::new(9, 10, 2), 8, &bin);
        let info = root.join("Lib/site-packages/nvidia_cudnn_cu12-9.10.2.21.dist-info");
        std::fs::create_dir(&info).unwrap();
        std::fs::write(info.join("METADATA"), "Name: nvidia-cudnn-cu12\nVersion: 9.10.2.21\n").unwrap();
        std::fs::write(info.join("RECORD"), "nvidia/cudnn/bin/cudnn_graph64_9.dll,,\n").unwrap();
        std::fs::remove_file(root.join("Scripts/python.exe")).unwrap();
        let report = json(&[("VIRTUAL_ENV", &windows::path(&root))], &["check", "--no-load"]);
        for (code, installs) in [("C028", false), ("C017", true), ("C030", true), ("C031", true)] {
            let findings = report["findings"].as_array().unwrap();
            let finding =
                findings.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("{report:#}"));
            let commands = finding["commands"].to_string();
            assert_eq!(commands.contains("-m venv"), is_possible, "{code}: {finding:#}");
            assert_eq!(commands.contains("pip install"), is_possible && installs, "{code}: {finding:#}");
            assert_eq!(finding["help"].to_string().contains("semicolon"), !is_possible, "{code}: {finding:#}");
        }
    }
}

/// Creates a virtual environment with PyTorch for CUDA 12.8, which bundles cuDNN, and ONNX Runtime, which does not.
fn with_frameworks(world: &World) -> PathBuf {
    let root = world.path("frameworks");
    let environment = PythonEnvironment::at(&root, "Lib/site-packages");
    let file = |path: &str| {
        let file = environment.import_dir().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    };
    for (path, text) in [("Scripts/python.exe", ""), ("pyvenv.cfg", "home = C:\\Python312\r\nversion = 3.12.4\r\n")] {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    environment.package("torch", "2.9.1+cu128").file("torch/version.py", "cuda: Optional[str] = '12.8'\n");
    let dlls: [(&str, &[&str]); 6] = [
        ("torch/_C.cp312-win_amd64.pyd", &["torch_python.dll"]),
        ("torch/lib/torch_python.dll", &["torch_cuda.dll", "KERNEL32.dll"]),
        ("torch/lib/torch_cuda.dll", &["cudnn64_9.dll", "cublas64_12.dll"]),
        ("torch/lib/cublas64_12.dll", &[]),
        ("onnxruntime/capi/onnxruntime_pybind11_state.pyd", &["KERNEL32.dll"]),
        ("onnxruntime/capi/onnxruntime_providers_cuda.dll", &["cudnn64_9.dll", "cublas64_12.dll"]),
    ];
    for (path, imports) in dlls {
        extension_dll(&file(path), imports, "");
    }
    copy_fake_dlls(Version::new(9, 10, 2), 8, &environment.import_dir().join("torch/lib"));
    environment.package("onnxruntime-gpu", "1.22.0").file(
        "onnxruntime/capi/build_and_package_info.py",
        "package_name = 'onnxruntime-gpu'\n__version__ = '1.22.0'\ncuda_version = '12.4'\n",
    );
    environment.package("tensorflow", "2.18.0").file("tensorflow/__init__.py", "");
    root
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_cudnn_of_every_framework_is_found_by_the_rules_of_windows() {
    let world = World::new();
    let root = with_frameworks(&world);
    let site = format!("{}\\Lib\\site-packages", windows::path(&root));
    let shim = format!("{site}\\torch\\lib\\cudnn64_9.dll");
    let frameworks = |variables: &[(&str, &str)]| json(variables, &["frameworks", &windows::path(&root)]);
    let report = frameworks(&[]);
    let environment = &report["environments"][0];
    let of = |environment: &Value, id: &str| {
        let all = environment["frameworks"].as_array().unwrap();
        all.iter().find(|framework| framework["id"] == id).unwrap_or_else(|| panic!("{environment}")).clone()
    };
    let torch = of(environment, "torch");
    assert_eq!(torch["loads"][0]["file"].as_str(), Some(shim.as_str()), "{torch}");
    assert_eq!((&torch["loads"][0]["version"], &torch["missing_cudnn"]), (&"9.10.2".into(), &Value::Array(vec![])));
    let tensorflow = of(environment, "tensorflow");
    assert_eq!((&tensorflow["uses_gpu"], &tensorflow["needs_cudnn"]), (&false.into(), &false.into()), "{tensorflow}");
    let ort = of(environment, "onnxruntime");
    assert_eq!(ort["missing_cudnn"], serde_json::json!(["cudnn64_9.dll"]), "{ort}");
    let findings = environment["findings"].to_string();
    assert!(findings.contains("would not find cudnn64_9.dll"), "{findings}");
    assert!(findings.contains("preload_dlls()") && !findings.contains("PyTorch 2.9.1+cu128 would"), "{findings}");
    assert_no_words_of_linux(&findings);

    // Windows uses PATH to find the provider, and the DLLs that cuDNN opens by name.
    let dir = world.path("on path");
    std::fs::create_dir_all(&dir).unwrap();
    copy_fake_dlls(Version::new(9, 19, 0), 8, &dir);
    let report = frameworks(&[("WINEPATH", &windows::path(&dir))]);
    let ort = of(&report["environments"][0], "onnxruntime");
    assert_eq!(ort["loads"][0]["rule"], "PATH", "{ort}");
    assert_eq!(
        (&ort["loads"][1]["version"], &ort["missing_cudnn"]),
        (&"9.19.0".into(), &Value::Array(vec![])),
        "{ort}"
    );

    // The text output also names them.
    let text = doctor(&[], &["frameworks", &windows::path(&root)]);
    assert!(text.stdout.contains("no build for Windows uses a GPU"), "{text:?}");
    assert_no_words_of_linux(&text.stdout);
}
