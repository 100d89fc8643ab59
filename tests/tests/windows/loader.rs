//! Tests the loader on Windows, in Rust programs and through the drop-in: the DLLs that it selects, and the errors
//! about unusable DLLs.

use std::path::{Path, PathBuf};

use support::{Child, ChildOutput, Library, TempDir, Version, lib_dir, windows};

const RELEASE: &str = windows::RELEASE;

fn client() -> Option<(TempDir, PathBuf)> {
    let real = lib_dir(RELEASE)?;
    let dir = TempDir::new();
    windows::client("client.c", &real.join("../include"), &["-lpsapi"], &dir.path().join("program.exe"));
    std::fs::copy(windows::drop_in().join("bin/cudnn64_9.dll"), dir.path().join("cudnn64_9.dll")).unwrap();
    Some((dir, real))
}

fn run(dir: &TempDir) -> Child {
    // Wine derives the encoding of variables and arguments from this locale.
    windows::child(&dir.path().join("program.exe")).env("LC_ALL", "C.UTF-8")
}

/// Creates a directory with links to NVIDIA's DLLs, without the shim and some others.
fn cudnn_without(real: &Path, without: &[Library]) -> TempDir {
    let dir = TempDir::new();
    for library in &Library::ALL[1..] {
        if !without.contains(library) {
            let name = library.windows_name();
            std::os::unix::fs::symlink(real.join(name), dir.path().join(name)).unwrap();
        }
    }
    dir
}

/// Returns the error of the first call into ops with this directory.
fn error(client: &TempDir, cudnn: &Path) -> (ChildOutput, String) {
    let output = run(client).env("CUDNN_LOADER_DIR", windows::path(cudnn)).run_successfully(&["plain"]);
    let text = output.last_error("cudnnCreateTensorDescriptor");
    (output, text)
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_missing_library_is_named_in_the_report() {
    let Some((client, real)) = client() else { return };
    let cudnn = cudnn_without(&real, &[Library::Ops]);
    let (output, report) = error(&client, cudnn.path());
    assert_eq!(
        output.returned("cudnnCreateTensorDescriptor"),
        Some("CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE (3009)"),
        "{output:?}"
    );
    let dir = windows::path(cudnn.path());
    assert!(report.starts_with("cudnnCreateTensorDescriptor cannot be called: "), "{report}");
    assert!(
        report.contains(&windows::fill_in_release(&format!(
            "cuDNN VERSION in \"{dir}\" does not include cudnn_ops64_9.dll"
        ))),
        "{report}"
    );
    // The backend API works without ops.
    assert_eq!(output.returned("cudnnBackendCreateDescriptor"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:?}");
}

/// Error 127 cannot be tested, because Wine replaces a missing function by a stub that terminates the program when it
/// is called.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_dll_that_error_126_hides_is_named() {
    let Some((client, real)) = client() else { return };
    let Version { major, minor, patch } = support::version(RELEASE);
    let bytes = format!("{{{patch}, {minor}, {major}, 0}}");
    let version = format!("__declspec(dllexport) const unsigned char cudnn_ops_infer_version[4] = {bytes};");
    let dir = TempDir::new();
    let cudnn = cudnn_without(&real, &[Library::Ops]);
    let absent = cudnn.path().join("cublasLt64_12.dll");
    let import = dir.path().join("absent.a");
    windows::compile(
        "__declspec(dllexport) int cublasLtGetVersion(void) { return 1; }",
        &["-shared", &format!("-Wl,--out-implib,{}", import.display())],
        &absent,
    );
    let code = format!(
        "{version}\nint cublasLtGetVersion(void);\n__declspec(dllexport) int f(void) {{ return cublasLtGetVersion(); }}"
    );
    windows::compile(&code, &["-shared", import.to_str().unwrap()], &cudnn.path().join("cudnn_ops64_9.dll"));
    std::fs::remove_file(absent).unwrap();
    let (output, report) = error(&client, cudnn.path());
    assert!(report.contains("needs cublasLt64_12.dll, which Windows did not find"), "{report}");
    assert!(report.contains("note: Windows reports: error 126: "), "{report}");
    assert!(report.contains("nvidia-cublas-cu12"), "{report}");
    assert!(output.stdout.contains("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"), "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_dll_for_another_processor_is_rejected_before_it_is_opened() {
    let Some((client, real)) = client() else { return };
    let cudnn = cudnn_without(&real, &[Library::Graph]);
    let mut graph = std::fs::read(real.join("cudnn_graph64_9.dll")).unwrap();
    let header = u32::from_le_bytes(graph[0x3c..0x40].try_into().unwrap()) as usize;
    // ARM64.
    graph[header + 4..header + 6].copy_from_slice(&[0x64, 0xaa]);
    std::fs::write(cudnn.path().join("cudnn_graph64_9.dll"), graph).unwrap();
    let (_, report) = error(&client, cudnn.path());
    assert!(report.contains("is built for aarch64"), "{report}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_cudnn_that_the_program_has_loaded_is_adopted() {
    let Some((client, real)) = client() else { return };
    let graph = windows::path(&real.join("cudnn_graph64_9.dll"));
    let open = format!("open:{graph}");
    let output = run(&client).run(&[&open, "cudnnGetVersion", "plain", "report"]);
    assert!(output.stdout.contains(&windows::fill_in_release("cudnnGetVersion = NUMBER")), "{output:?}");
    assert_eq!(output.returned("cudnnCreateTensorDescriptor"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:?}");
    assert!(output.stdout.contains(&format!("cudnn_graph64_9.dll: \"{graph}\"")), "{output:?}");
    // The loader never loads a second cuDNN.
    let other = cudnn_without(&real, &[]);
    let output = run(&client).env("CUDNN_LOADER_DIR", windows::path(other.path())).run(&[&open, "plain", "maps"]);
    let report = output.last_error("cudnnCreateTensorDescriptor");
    assert!(report.contains("already"), "{report}");
    assert_eq!(output.stdout.matches("cudnn_graph64_9.dll\r\n").count(), 2, "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_named_release_is_used_and_files_are_not_mixed() {
    let Some((client, real)) = client() else { return };
    let older = TempDir::new();
    let code = r#"
#define EXPORT __declspec(dllexport)
EXPORT const unsigned char cudnn_graph_version[4] = {2, 10, 9, 0};
EXPORT unsigned long long cudnnGetVersion(void) { return 91002; }
EXPORT unsigned long long cudnnGetCudartVersion(void) { return 13000; }
EXPORT const char *cudnnGetErrorString(int status) { return status ? "error" : "fine"; }
EXPORT void cudnnGetLastErrorString(char *text, unsigned long long size) { if (size) *text = 0; }
EXPORT int cudnnSetCallback(unsigned mask, void *data, void *function) { return 0; }
"#;
    windows::compile(code, &["-shared"], &older.path().join("cudnn_graph64_9.dll"));
    for (dir, version) in [(older.path(), "91002".to_owned()), (real.as_path(), windows::fill_in_release("NUMBER"))] {
        // The other release is on PATH.
        let other = if version == "91002" { real.as_path() } else { older.path() };
        let output = run(&client)
            .env("CUDNN_LOADER_DIR", windows::path(dir))
            .env("WINEPATH", windows::path_list(&[other]))
            .run(&["cudnnGetVersion", "plain"]);
        assert!(output.stdout.contains(&format!("cudnnGetVersion = {version}")), "{output:?}");
    }
    // A version of ops from a different release.
    std::os::unix::fs::symlink(real.join("cudnn_ops64_9.dll"), older.path().join("cudnn_ops64_9.dll")).unwrap();
    let (output, report) = error(&client, older.path());
    assert!(report.contains(&windows::fill_in_release("is cuDNN VERSION, but")), "{report}");
    assert!(output.stdout.contains("(1002)"), "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_log_is_a_file_with_the_process_id_and_the_time_in_its_name() {
    let Some((client, real)) = client() else { return };
    let logs = TempDir::new();
    let destination = |name: &str| format!("{}\\{name}", windows::path(logs.path()));
    run(&client)
        .env("CUDNN_LOADER_DIR", windows::path(&real))
        .env("CUDNN_LOGLEVEL_DBG", "3")
        .env("CUDNN_LOGDEST_DBG", destination("log_%Y_%i.txt"))
        .run_successfully(&["plain"]);
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(logs.path()).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let ours =
        names().into_iter().find(|name| name.ends_with(".txt.loader")).unwrap_or_else(|| panic!("{:?}", names()));
    let number = ours.strip_prefix("log_20").and_then(|rest| rest.get(3..)?.strip_suffix(".txt.loader"));
    assert!(number.is_some_and(|number| number.parse::<u32>().is_ok()), "{:?}", names());
    let text = std::fs::read_to_string(logs.path().join(ours)).unwrap();
    let entries = cudnn_loader::logging::parse(&text);
    assert!(entries.iter().any(|entry| entry.function.as_deref() == Some("cudnn_loader::select")), "{text}");
    // cuDNN writes its own log to the same directory.
    let theirs = names().into_iter().find(|name| name.ends_with(".txt")).unwrap_or_else(|| panic!("{:?}", names()));
    let text = std::fs::read_to_string(logs.path().join(theirs)).unwrap();
    let entries = cudnn_loader::logging::parse(&text);
    assert!(entries.iter().any(|entry| entry.function.as_deref() == Some("cudnnBackendFinalize")), "{text}");
    // The C library of Windows terminates a process at an unknown conversion specifier.
    let unknown = run(&client)
        .env("CUDNN_LOADER_DIR", r"Z:\nowhere")
        .env("CUDNN_LOGLEVEL_DBG", "3")
        .env("CUDNN_LOGDEST_DBG", destination("unknown_%Q"))
        .run(&["plain"]);
    assert_eq!(unknown.code, Some(0), "{unknown:?}");
    assert!(names().contains(&"unknown_%Q.loader".to_owned()), "{:?}", names());
    let on_stderr = run(&client)
        .env("CUDNN_LOADER_DIR", windows::path(&real))
        .env("CUDNN_LOGLEVEL_DBG", "3")
        .run(&["cudnnGetVersion"]);
    let found = cudnn_loader::logging::parse(&on_stderr.stderr);
    assert!(found.iter().any(|entry| entry.function.as_deref() == Some("cudnn_loader::load")), "{on_stderr:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_driver_is_only_loaded_from_the_system_directory() {
    let Some((client, real)) = client() else { return };
    windows::compile(
        "__declspec(dllexport) int cuInit(unsigned flags) { return 0; }",
        &["-shared"],
        &client.path().join("nvcuda.dll"),
    );
    let output = run(&client)
        .env("CUDNN_LOADER_DIR", windows::path(&real))
        .within(client.path())
        .run(&["preload:33", "preload-report"]);
    assert!(output.stdout.contains("cudnnShimPreload = 1001"), "{output:?}");
    assert!(output.stdout.contains("start the driver") && output.stdout.contains("system32"), "{output:?}");
}

/// cuDNN's engines open the driver by name when they are loaded. Without a driver, Windows would search the working
/// directory for it.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn first_calls_do_not_load_a_driver_from_the_working_directory() {
    let Some((client, real)) = client() else { return };
    let planted = TempDir::new();
    let code = r#"
        #include <windows.h>
        BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *unused) {
            HANDLE file = CreateFileA("executed", GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
            CloseHandle(file);
            return TRUE;
        }"#;
    windows::compile(code, &["-shared"], &planted.path().join("nvcuda.dll"));
    let output = run(&client).env("CUDNN_LOADER_DIR", windows::path(&real)).within(planted.path()).run_successfully(&[
        "plain",
        "cudnnGetVersion",
        "preload:159",
        "preload:64",
        "preload-report",
    ]);
    assert!(output.stdout.contains(&windows::fill_in_release("cudnnGetVersion = NUMBER")), "{output:?}");
    assert!(!planted.path().join("executed").exists(), "{output:?}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_preload_loads_all_libraries_and_reads_files_ahead() {
    let Some((client, real)) = client() else { return };
    let output = run(&client).env("CUDNN_LOADER_DIR", windows::path(&real)).run(&[
        "preload:159",
        "preload-report",
        "preload:128",
        "preload-report",
    ]);
    assert_eq!(output.stdout.matches("cudnnShimPreload = 0").count(), 2, "{output:?}");
    for library in ["graph", "ops", "cnn", "adv", "ext"] {
        let step = format!("load cudnn_{library}64_9.dll");
        assert!(output.stdout.lines().any(|line| line.contains(&step) && line.ends_with("done")), "{output:?}");
    }
    // cuBLASLt is missing.
    let ahead: Vec<&str> = output.stdout.lines().filter(|line| line.contains("  read ")).collect();
    assert!(ahead.len() >= Library::ALL.len() - 1, "{output:?}");
    assert!(ahead.iter().all(|line| line.ends_with("done")), "{ahead:#?}");
}

/// cmd includes the quotes of `set NAME="C:\a b"` in the value.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_variable_may_be_in_quotes_and_without_a_cudnn_its_wheel_is_named() {
    let Some((client, real)) = client() else { return };
    let quoted = format!("\"{}\"", windows::path(&real));
    let output = run(&client).env("CUDNN_LOADER_DIR", quoted).run(&["cudnnGetVersion"]);
    assert!(output.stdout.contains(&windows::fill_in_release("cudnnGetVersion = NUMBER")), "{output:?}");
    let output = run(&client).run(&["plain"]);
    let report = output.last_error("cudnnCreateTensorDescriptor");
    assert!(report.contains("the wheel nvidia-cudnn-cu12") && report.contains("Run `cudnn-doctor check`"), "{report}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_path_may_have_spaces_letters_of_any_script_and_more_than_260_characters() {
    let Some((client, real)) = client() else { return };
    let parent = TempDir::new();
    let long = format!("{0}/{0}/{0}", "n".repeat(100));
    for name in ["größe 名前 b", &long] {
        let dir = parent.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        for library in &Library::ALL[1..] {
            std::os::unix::fs::symlink(real.join(library.windows_name()), dir.join(library.windows_name())).unwrap();
        }
        let (output, report) = error(&client, &dir);
        assert_eq!(output.returned("cudnnCreateTensorDescriptor"), Some("CUDNN_STATUS_SUCCESS (0)"), "{report}");
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn rust_programs_load_by_requirements_and_receive_the_log() {
    let Some(real) = lib_dir(RELEASE) else { return };
    let requirements = windows::build_example("cudnn-loader", "requirements");
    let dir = windows::path(&real);
    let output = windows::child(&requirements).run(&[&windows::fill_in_release("VERSION"), &dir]);
    assert_eq!(
        output.stdout,
        windows::fill_in_release(&format!("cuDNN VERSION in {dir}\ncudnnGetVersion = NUMBER\n")),
        "{output:?}"
    );
    // By the variable, and by the path of a file.
    windows::child(&requirements).env("CUDNN_LOADER_DIR", &dir).run_successfully(&["9.0.0"]);
    let file = format!("{dir}\\cudnn_graph64_9.dll");
    assert_eq!(windows::child(&requirements).run(&["9.0.0", &file]).code, Some(0));
    let output = windows::child(&requirements).run(&["9.90.0", &dir]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains(&windows::fill_in_release("is cuDNN VERSION, but 9.90.0 or newer is required")),
        "{output:?}"
    );
    let log = windows::build_example("cudnn-loader", "log_to_stderr");
    let output = windows::child(&log).env("CUDNN_LOADER_DIR", &dir).run_successfully(&[]);
    assert!(output.stderr.contains("cudnn_loader::select("), "{output:?}");
}
