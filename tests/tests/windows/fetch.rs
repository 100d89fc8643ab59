//! Tests `fetch` and `demo` of the doctor on Windows. A fake Python records the command line, and installs a small
//! wheel as pip would. These tests do not cover a real pip on Windows.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use support::{ChildOutput, TempDir, lib_dir, windows};

const RELEASE: &str = windows::RELEASE;

/// Records the arguments and pip's variables. Then it installs the files of `SOURCE` below the directory after
/// `--target`, or exits with the code in `CODE`.
const PYTHON: &str = r#"
    #include <windows.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <wchar.h>
    static void copy(const wchar_t *from, const wchar_t *to, const wchar_t *name) {
        wchar_t source[1024], target[1024];
        swprintf(source, 1024, L"%ls\\%ls", from, name);
        swprintf(target, 1024, L"%ls\\%ls", to, name);
        for (wchar_t *part = target + 3; (part = wcschr(part, L'\\')); part++) {
            *part = 0;
            CreateDirectoryW(target, 0);
            *part = L'\\';
        }
        if (!CopyFileW(source, target, 1)) exit(77);
    }
    int wmain(int count, wchar_t **arguments) {
        FILE *record = _wfopen(_wgetenv(L"RECORD"), L"wb");
        const wchar_t *target = 0;
        for (int i = 0; i < count; i++) {
            char line[2048];
            WideCharToMultiByte(CP_UTF8, 0, arguments[i], -1, line, sizeof line, 0, 0);
            fprintf(record, "%s\n", line);
            if (!wcscmp(arguments[i], L"--target")) target = arguments[i + 1];
        }
        fprintf(record, "safe path %ls, temporary %d\n", _wgetenv(L"PYTHONSAFEPATH"),
                !wcsncmp(_wgetenv(L"TEMP"), target, wcslen(_wgetenv(L"TEMP"))));
        fclose(record);
        if (_wgetenv(L"CODE")) return _wtoi(_wgetenv(L"CODE"));
        copy(_wgetenv(L"SOURCE"), target, L"nvidia\\cudnn\\bin\\cudnn_graph64_9.dll");
        copy(_wgetenv(L"SOURCE"), target, L"nvidia_cudnn.dist-info\\RECORD");
        return 0;
    }"#;

struct World {
    dir: TempDir,
    path: Vec<PathBuf>,
}

impl World {
    fn new() -> World {
        let world = World { dir: TempDir::new(), path: Vec::new() };
        let graph = world.path("wheel/nvidia/cudnn/bin/cudnn_graph64_9.dll");
        let record = world.path("wheel/nvidia_cudnn.dist-info/RECORD");
        for file in [&graph, &record] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        std::fs::write(&graph, "no DLL").unwrap();
        let hash = cudnn_fetch::sha256(&graph).unwrap();
        std::fs::write(record, format!("nvidia/cudnn/bin/cudnn_graph64_9.dll,sha256={hash},6\n")).unwrap();
        world
    }

    /// Returns a path below a directory with a space and non-ASCII letters.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("Größe 1").join(name)
    }

    /// Copies a fake Python into a directory of `PATH`.
    fn with(mut self, program: &str) -> World {
        let file = self.path(program);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(stand_in(), &file).unwrap();
        self.path.push(file.parent().unwrap().to_owned());
        self
    }

    /// Runs the doctor. Returns the output, and the lines that the fake Python recorded.
    fn run(&self, variables: &[(&str, &str)], arguments: &[&str]) -> (ChildOutput, Vec<String>) {
        let record = self.path("record");
        let _ = std::fs::remove_file(&record);
        let path: Vec<&Path> = self.path.iter().map(PathBuf::as_path).collect();
        let child = windows::child(doctor())
            .env("WINEPATH", windows::path_list(&path))
            .env("RECORD", windows::path(&record))
            .env("SOURCE", windows::path(&self.path("wheel")))
            .env("CUDNN_FETCH_CACHE", windows::path(&self.path("cache")));
        let child = variables.iter().fold(child, |child, (name, value)| child.env(name, value));
        let output = child.within(self.dir.path()).run(arguments);
        let lines = std::fs::read_to_string(record).unwrap_or_default();
        (output, lines.lines().map(str::to_owned).collect())
    }
}

fn doctor() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| windows::build("cudnn-doctor", "cudnn-doctor", &[]))
}

/// Returns the fake Python, which is compiled once.
fn stand_in() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, file) = PROGRAM.get_or_init(|| {
        let dir = TempDir::new();
        let file = dir.path().join("python.exe");
        windows::compile(PYTHON, &["-municode"], &file);
        (dir, file)
    });
    file
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn fetch_runs_the_installed_python_and_passes_absolute_paths_to_pip() {
    for (programs, expected) in [
        (&["Python 3.12/python.exe", "Windows/py.exe"][..], "Python 3.12\\python.exe"),
        (&["Microsoft/WindowsApps/python.exe", "Windows/py.exe"], "Windows\\py.exe -3"),
        (&["Microsoft/WindowsApps/python3.exe"], "Microsoft\\WindowsApps\\python3.exe"),
    ] {
        let world = programs.iter().fold(World::new(), |world, program| world.with(program));
        // Programs in the working directory must not run.
        std::fs::copy(stand_in(), world.dir.path().join("python.exe")).unwrap();
        let (output, lines) = world.run(&[], &["fetch", RELEASE]);
        assert_eq!(output.code, Some(0), "{output:?} {lines:?}");
        let root = windows::path(&world.path(""));
        let started = expected.replace(" -3", "");
        assert_eq!(lines[0], format!("{root}{started}"));
        let rest: Vec<&str> = lines[1..].iter().map(String::as_str).collect();
        let rest = if expected.ends_with("-3") {
            assert_eq!(rest[0], "-3");
            &rest[1..]
        } else {
            &rest[..]
        };
        assert_eq!(rest[..3], ["-m", "pip", "install"], "{lines:?}");
        let after = |option: &str| rest[rest.iter().position(|one| *one == option).unwrap() + 1];
        assert!(after("--target").starts_with(&format!("{root}cache\\")), "{lines:?}");
        assert!(after("--requirement").ends_with("\\requirement.txt"), "{lines:?}");
        assert_eq!(after("--platform"), "win_amd64");
        assert_eq!(rest.last(), Some(&"safe path 1, temporary 1"));
        let dir =
            windows::fill_in_release(&format!("{root}cache\\nvidia-cudnn-cu13-WHEEL-win_amd64\\nvidia\\cudnn\\bin"));
        assert!(output.stdout.contains(&format!("\n{dir}\n")), "{output:?}");
        assert!(output.stdout.contains("To use it: "), "{output:?}");

        // In the second run, the release is in the cache.
        let (again, lines) = world.run(&[], &["--json", "fetch", RELEASE]);
        assert_eq!((again.code, lines.len()), (Some(0), 0), "{again:?}");
        assert!(again.stdout.contains(&dir.replace('\\', "\\\\")), "{again:?}");
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_variable_names_another_python() {
    let world = World::new().with("Python 3.12/python.exe").with("other/python.exe");
    let other = windows::path(&world.path("other/python.exe"));
    let (output, lines) = world.run(&[("PYTHON", &other)], &["fetch", RELEASE]);
    assert_eq!((output.code, lines[0].as_str()), (Some(0), other.as_str()), "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn features_that_are_missing_on_windows_are_reported() {
    let world = World::new();
    let (output, _) = world.run(&[], &["fetch", RELEASE]);
    assert_eq!(output.code, Some(3), "{output:?}");
    for expected in ["cannot start python: ", "python.exe or its launcher py.exe on PATH", "PYTHON"] {
        assert!(output.stderr.contains(expected), "{output:?}");
    }
    let with_store = World::new().with("WindowsApps/python.exe");
    let (output, _) = with_store.run(&[("CODE", "9009")], &["fetch", RELEASE]);
    assert!(output.code == Some(3) && output.stderr.contains("only opens the Microsoft Store"), "{output:?}");
    let (output, _) = with_store.run(&[("CODE", "1")], &["fetch", RELEASE]);
    assert!(output.code == Some(3) && output.stderr.contains("pip exited with exit code: 1"), "{output:?}");

    // pip is not started for the other releases, which do not include Windows.
    let (output, lines) = with_store.run(&[], &["fetch", "jit-cu12-9.19.0"]);
    assert_eq!((output.code, lines.len()), (Some(3), 0), "{output:?}");
    let expected = windows::fill_in_release("jit-cu12-9.19.0 is for Linux; on Windows, fetch windows-cu13-VERSION");
    assert!(output.stderr.contains(&expected), "{output:?}");
    let (list, _) = world.run(&[], &["fetch"]);
    assert!(!list.stdout.contains("this machine") && list.stdout.contains("MB, for win_amd64"), "{list:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn demo_fetches_the_release_for_windows_or_uses_an_installed_one() {
    let world = World::new().with("Python 3.12/python.exe");
    let (offline, lines) = world.run(&[], &["demo", "--offline"]);
    assert_eq!((offline.code, lines.len()), (Some(3), 0), "{offline:?}");
    assert!(
        offline.stderr.contains(&windows::fill_in_release("nvidia-cudnn-cu13 WHEEL is not in the cache")),
        "{offline:?}"
    );
    // The fake wheel contains no working cuDNN, and the loader reports that.
    let (fetched, lines) = world.run(&[], &["demo"]);
    assert!(fetched.code == Some(2) && lines.contains(&"pip".to_owned()), "{fetched:?}");
    assert!(fetched.stderr.contains("cudnn_graph64_9.dll") && fetched.stderr.contains("is not a DLL"), "{fetched:?}");
    let Some(real) = lib_dir(RELEASE) else { return };
    let (demo, _) = world.run(&[("CUDNN_LOADER_DIR", &windows::path(&real))], &["demo", "--offline"]);
    assert!(demo.code == Some(0) && demo.stdout.contains("cudnnCreateRNNDescriptor: "), "{demo:?}");
    assert!(demo.stdout.contains("Everything up to this point works."), "{demo:?}");
}
