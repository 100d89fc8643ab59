//! Tests the subcommands except `check` and `demo`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cudnn_frameworks::{Dependents, mapped_libraries};
use cudnn_probe::Library;
use serde_json::Value;
use support::{ExtensionLibrary, FakeLibrary, TempDir, Version, lib_dir};

/// Runs the doctor with only these variables. Returns the exit status and stdout.
fn doctor(arguments: &[&str], variables: &[(&str, &Path)]) -> (Option<i32>, String) {
    let Output { status, stdout, .. } = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned())
}

fn json(arguments: &[&str], variables: &[(&str, &Path)]) -> Value {
    let (_, stdout) = doctor(&[arguments, &["--json"]].concat(), variables);
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn list_marks_the_installation_that_the_loader_would_use() {
    let (Some(used), Some(other)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let (code, stdout) = doctor(&["list", other.to_str().unwrap()], &[("LD_LIBRARY_PATH", &used)]);
    assert_eq!(code, Some(0), "{stdout}");
    let row = |version: &str| stdout.lines().find(|line| line.contains(version)).unwrap().to_owned();
    assert!(row("9.19.0").contains("->") && row("9.19.0").contains("pip nvidia-cudnn-jit-cu12"), "{stdout}");
    assert!(!row("9.27.0").contains("->") && row("9.27.0").contains("JIT only"), "{stdout}");
    assert!(stdout.contains("The loader uses the marked one (found: LD_LIBRARY_PATH)"), "{stdout}");
    let value = json(&["list", other.to_str().unwrap()], &[("LD_LIBRARY_PATH", &used)]);
    assert_eq!(value.get("schema"), Some(&Value::from(2)));
    let installations = value.get("installations").and_then(Value::as_array).unwrap();
    let found: Vec<(&Value, &Value)> =
        installations.iter().filter_map(|one| Some((one.get("version")?, one.get("used")?))).collect();
    assert_eq!(found, [(&"9.19.0".into(), &true.into()), (&"9.27.0".into(), &false.into())]);
}

#[test]
fn list_without_an_installation_exits_with_2() {
    let (code, stdout) = doctor(&["list"], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("No cuDNN was found"), "{stdout}");
}

#[test]
fn list_names_unusable_and_missing_libraries() {
    let dir = TempDir::new();
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&dir.file(Library::Graph));
    std::fs::write(dir.file(Library::Ops), "not a library").unwrap();
    let (code, stdout) = doctor(&["list"], &[("LD_LIBRARY_PATH", dir.path())]);
    assert_eq!(code, Some(2), "{stdout}");
    for text in ["partial", "error: libcudnn_ops.so.9 is not an ELF file", "missing: libcudnn.so.9, libcudnn_cnn.so.9"]
    {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
}

#[test]
fn explain_names_every_file_with_the_search_rule() {
    let (Some(older), Some(newer)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let shim = older.join("libcudnn.so.9");
    let shim = shim.to_str().unwrap();
    let (code, stdout) = doctor(&["explain", shim], &[]);
    assert_eq!(code, Some(0), "{stdout}");
    for text in ["when first used, libcudnn.so.9 opens:", "(9.19.0): RUNPATH of", "libcudnn_ops.so.9", "not installed"]
    {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
    // LD_LIBRARY_PATH has priority over the RUNPATH of the older shim. This shim works with newer libraries, but not
    // for a different CUDA.
    let (_, stdout) = doctor(&["explain", shim], &[("LD_LIBRARY_PATH", &newer)]);
    assert!(stdout.contains("(9.27.0): LD_LIBRARY_PATH"), "{stdout}");
    let value = json(&["explain", shim], &[("LD_LIBRARY_PATH", &newer)]);
    let problems = value.get("problems").and_then(Value::as_array).unwrap();
    let mixes = problems.iter().filter(|problem| problem.to_string().contains("two CUDA majors would be mixed"));
    assert_eq!(mixes.count(), 1, "{value}");
    // The newer engines need the driver, which may be missing here.
    let is_known =
        |problem: &Value| ["two CUDA majors", "libcuda.so.1"].iter().any(|it| problem.to_string().contains(it));
    assert!(problems.iter().all(is_known), "{value}");
}

#[test]
fn explain_finds_missing_dependencies_and_engines_of_another_installation() {
    let version = Version::new(9, 19, 0);
    let (ours, other) = (TempDir::new(), TempDir::new());
    for library in [Library::Graph, Library::Ops, Library::EnginesPrecompiled] {
        FakeLibrary::new(library, version).with_ptx(8).build(&ours.file(library));
    }
    // A fake shim defines the functions of the other libraries, and so hides missing dependencies.
    let shim = ours.file(Library::Shim);
    support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9,-rpath,$ORIGIN"], &shim);
    let path = [("LD_LIBRARY_PATH", ours.path())];
    let (code, stdout) = doctor(&["explain", shim.to_str().unwrap()], &path);
    assert_eq!(code, Some(0), "{stdout}");

    FakeLibrary::new(Library::Ops, version).with_ptx(8).needing("libnowhere.so.1").build(&ours.cleared(Library::Ops));
    let (code, stdout) = doctor(&["explain", shim.to_str().unwrap()], &path);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("libnowhere.so.1 was not found; libcudnn_ops.so.9 needs it"), "{stdout}");

    FakeLibrary::new(Library::Ops, version).with_ptx(8).build(&ours.cleared(Library::Ops));
    FakeLibrary::new(Library::EnginesPrecompiled, version).with_ptx(9).build(&other.file(Library::EnginesPrecompiled));
    let both = std::env::join_paths([other.path(), ours.path()]).unwrap();
    let (code, stdout) = doctor(&["explain", shim.to_str().unwrap()], &[("LD_LIBRARY_PATH", both.as_ref())]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(
        stdout.contains("libcudnn_engines_precompiled.so.9 would be loaded from") && stdout.contains("9.19.0"),
        "{stdout}"
    );
}

#[test]
fn explain_follows_the_run_path_of_a_sub_library_that_a_program_is_linked_to() {
    let (ours, other) = (TempDir::new(), TempDir::new());
    for (dir, version) in [(&ours, Version::new(9, 19, 0)), (&other, Version::new(9, 10, 2))] {
        FakeLibrary::new(Library::Graph, version).build(&dir.file(Library::Graph));
    }
    FakeLibrary::new(Library::Ops, Version::new(9, 19, 0))
        .needing("libcudnn_graph.so.9")
        .build(&ours.file(Library::Ops));
    let program = ours.path().join("program");
    let (ops, run_path) = (ours.file(Library::Ops), format!("-Wl,--enable-new-dtags,-rpath,{}", ours.path().display()));
    let options = ["-Wl,--no-as-needed", ops.to_str().unwrap(), &run_path];
    support::compile("int main(void) { return 0; }", &options, &program);
    let (code, stdout) = doctor(&["explain", program.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{stdout}");
    let (code, stdout) = doctor(&["explain", program.to_str().unwrap()], &[("LD_LIBRARY_PATH", other.path())]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("(9.10.2): LD_LIBRARY_PATH"), "{stdout}");
    assert!(stdout.contains("(9.19.0): RUNPATH of program"), "{stdout}");
    assert!(stdout.contains("error: two releases would be mixed: 9.10.2 in"), "{stdout}");
}

#[test]
fn explain_of_a_static_program_finds_no_problems() {
    let dir = TempDir::new();
    let program = dir.path().join("program");
    support::compile("int main(void) { return 0; }", &["-static"], &program);
    let (code, stdout) = doctor(&["explain", program.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{stdout}");
}

#[test]
fn explain_names_the_file_that_is_linked_to_a_missing_cudnn() {
    let dir = TempDir::new();
    let library = dir.path().join("libneeds.so");
    let stub = dir.path().join("libcudnn.so.9");
    support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9"], &stub);
    support::compile("", &["-shared", "-nostdlib", "-Wl,--no-as-needed", stub.to_str().unwrap()], &library);
    std::fs::remove_file(stub).unwrap();
    let (code, stdout) = doctor(&["explain", library.to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("libcudnn.so.9 was not found; libneeds.so needs it"), "{stdout}");
}

/// A sleeping process with these libraries. It is killed when dropped.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new(libraries: &[&Path]) -> Self {
        let preload = std::env::join_paths(libraries).unwrap();
        let child = Command::new("sleep").arg("60").env_clear().env("LD_PRELOAD", preload).spawn().unwrap();
        let sleeper = Sleeper(child);
        // ld.so maps the libraries before the program starts.
        let maps = || std::fs::read_to_string(format!("/proc/{}/maps", sleeper.0.id())).unwrap_or_default();
        while !libraries.iter().all(|library| maps().contains(&library.display().to_string())) {
            std::thread::yield_now();
        }
        sleeper
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pid_shows_loaded_libraries_and_mixes() {
    let Some(older) = lib_dir("jit-cu12-9.19.0") else { return };
    let graph = older.join("libcudnn_graph.so.9");
    let fine = Sleeper::new(&[&graph]);
    let (code, stdout) = doctor(&["pid", &fine.0.id().to_string()], &[]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("cuDNN        9.19.0") && stdout.contains(graph.to_str().unwrap()), "{stdout}");

    let dir = TempDir::links_to(&older);
    std::fs::copy(&graph, dir.cleared(Library::Graph)).unwrap();
    let copy = dir.file(Library::Graph);
    let cublas = dir.path().join("libcublasLt.so.13");
    support::compile("", &["-shared", "-nostdlib"], &cublas);
    let mixed = Sleeper::new(&[&copy, &cublas, &older.join("libcudnn.so.9")]);
    std::fs::remove_file(&copy).unwrap();
    let (code, stdout) = doctor(&["pid", &mixed.0.id().to_string()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    for text in ["cuDNN from 2 directories in one process", "(deleted from disk since)", "restart the process"] {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
    assert!(stdout.contains("CUDA 12 (cuDNN) and CUDA 13 (cuBLAS)"), "{stdout}");
}

#[test]
fn pid_reads_the_mapped_files_instead_of_their_replacements() {
    let (Some(older), Some(newer)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let dir = TempDir::new();
    let graph = dir.file(Library::Graph);
    std::fs::copy(older.join("libcudnn_graph.so.9"), &graph).unwrap();
    let running = Sleeper::new(&[&graph]);
    std::fs::remove_file(&graph).unwrap();
    std::fs::copy(newer.join("libcudnn_graph.so.9"), &graph).unwrap();
    let (code, stdout) = doctor(&["pid", &running.0.id().to_string()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    // The deleted file is unreadable, and the new file's version would be wrong.
    assert!(stdout.contains("(replaced on disk since)") && !stdout.contains("9.27.0"), "{stdout}");

    let ops = dir.file(Library::Ops);
    FakeLibrary::new(Library::Ops, Version::new(9, 18, 0)).build(&ops);
    let mixed = Sleeper::new(&[&graph, &ops]);
    let (code, stdout) = doctor(&["pid", &mixed.0.id().to_string()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("2 releases of cuDNN in one process"), "{stdout}");
}

#[test]
fn pid_shows_libraries_in_loading_order_with_their_dependents() {
    let (dir, apart) = (TempDir::new(), TempDir::new());
    // ld.so reports the path through the link, but the kernel reports the real one.
    std::os::unix::fs::symlink(apart.path(), dir.path().join("link")).unwrap();
    let run_path = dir.path().join("link");
    let library = |soname: &str, needed: &str| {
        let library = ExtensionLibrary::new().with_soname(soname).needing(needed);
        library.with_runpath(run_path.to_str().unwrap())
    };
    let [first, last] = ["libfirst.so", "liblast.so"].map(|name| dir.path().join(name));
    let [needed, deeper] = ["libneeded.so", "libdeeper.so"].map(|name| apart.path().join(name));
    library("libfirst.so", "libneeded.so").build(&first);
    library("liblast.so", "libneeded.so").needing("liblast.so").build(&last);
    library("libneeded.so", "libdeeper.so").build(&needed);
    library("libdeeper.so", "libneeded.so").build(&deeper);
    let running = Sleeper::new(&[&first, &last]);
    // Wait until the program has started and all dependencies are loaded.
    let started = std::time::Instant::now();
    let mapped = loop {
        let mapped = mapped_libraries(running.0.id()).unwrap();
        let is_complete = mapped.iter().any(|one| one.path == deeper && one.load_index.is_some());
        if is_complete || started.elapsed() > std::time::Duration::from_secs(5) {
            break mapped;
        }
    };
    let index = |wanted: &Path| mapped.iter().find(|one| one.path == wanted).and_then(|one| one.load_index);
    let libc = mapped.iter().find(|one| one.path.ends_with("libc.so.6")).and_then(|one| one.load_index);
    let order = [index(&first), index(&last), libc, index(&needed), index(&deeper)];
    assert!(order.iter().all(Option::is_some) && order.is_sorted_by(|one, other| one < other), "{mapped:#?}");
    assert!(mapped.iter().all(|one| !one.deleted && one.file.is_some()), "{mapped:#?}");
    let dependents = Dependents::new(&mapped);
    for (library, expected) in [(&first, &[][..]), (&last, &[]), (&needed, &[&first, &last]), (&deeper, &[&needed])] {
        let this = mapped.iter().find(|one| one.path == *library).unwrap();
        let mut found = dependents.of(this);
        found.sort_unstable();
        assert_eq!(found, expected, "{library:?}: {mapped:#?}");
    }
}

#[test]
fn pid_of_a_missing_process_is_an_error() {
    let (code, stdout) = doctor(&["pid", "4194304", "--json"], &[]);
    assert_eq!(code, Some(3), "{stdout}");
    assert!(stdout.contains("\"error\"") && stdout.contains("cannot inspect process 4194304"), "{stdout}");
}

#[test]
fn env_prints_shell_lines_that_select_the_installation() {
    let dir = TempDir::new();
    let strange = dir.path().join("it's a (dir)");
    std::fs::create_dir(&strange).unwrap();
    for library in [Library::Shim, Library::Graph] {
        FakeLibrary::new(library, Version::new(9, 19, 0)).build(&strange.join(library.file_name()));
    }
    let (code, lines) = doctor(&["env", strange.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{lines}");
    // ld.so splits or expands these names even if the shell quotes them.
    for name in ["a:b", "a;b", "$LIB"] {
        let unusable = dir.path().join(name);
        std::fs::create_dir(&unusable).unwrap();
        for library in [Library::Shim, Library::Graph] {
            FakeLibrary::new(library, Version::new(9, 19, 0)).build(&unusable.join(library.file_name()));
        }
        assert_eq!(doctor(&["env", unusable.to_str().unwrap()], &[]), (Some(3), String::new()));
        let (_, listed) = doctor(&["list", unusable.to_str().unwrap()], &[]);
        assert!(listed.contains("make a symbolic link to it") && !listed.contains("eval"), "{listed}");
    }
    let program = env!("CARGO_BIN_EXE_cudnn-doctor");
    let script = format!("{lines}\nexec {program} list --json");
    let output = Command::new("/bin/sh").args(["-c", &script]).env_clear().output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let used = value.pointer("/installations/0/directory").and_then(Value::as_str);
    assert_eq!(used, strange.to_str(), "{value}");
}

#[test]
fn fetch_lists_releases_and_rejects_an_unknown_one() {
    let (code, stdout) = doctor(&["fetch"], &[]);
    assert!(code == Some(0) && stdout.contains("cu13-9.") && !stdout.contains("libclang"), "{stdout}");
    assert_eq!(doctor(&["fetch", "cu12-9.99.0"], &[]).0, Some(3));
    let dir = TempDir::new();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).args(["fetch", "cu12", "--into"]).arg(&link).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && text.contains("is not a directory: --into requires one"), "{text}");
}

#[test]
fn fetch_keeps_a_release_in_a_given_directory() {
    let Some(cache) = lib_dir("jit-cu12-9.19.0").and_then(|dir| Some(dir.ancestors().nth(4)?.to_owned())) else {
        return;
    };
    // `--into` the cache avoids a download.
    let (code, stdout) = doctor(&["fetch", "jit-cu12-9.19.0", "--into", cache.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("nvidia/cudnn_jit/lib") && stdout.contains("cudnn-doctor env"), "{stdout}");
}

#[test]
fn invalid_arguments_exit_with_3() {
    for arguments in [
        &["no-such-command"][..],
        &["list", "/no/such/dir"],
        &["check", "--minimum", "nine"],
        &["check", "--function", "cudnnNothing"],
    ] {
        assert_eq!(doctor(arguments, &[]).0, Some(3), "{arguments:?}");
    }
    assert_eq!(doctor(&["--help"], &[]).0, Some(0));
}

#[test]
fn untrusted_names_cannot_color_reorder_or_forge_lines() {
    let dir = TempDir::new();
    let strange = dir.path().join("a\x1b[31m\nerror\u{202e}b");
    std::fs::create_dir(&strange).unwrap();
    std::fs::write(strange.join("libcudnn_graph.so.9"), "no library").unwrap();
    for command in ["list", "check"] {
        let (_, plain) = doctor(&[command], &[("LD_LIBRARY_PATH", &strange)]);
        assert!(!plain.contains('\x1b') && plain.contains(r"a\u{1b}[31m\nerror\u{202e}b"), "{plain}");
    }
    let (_, painted) = doctor(&["check"], &[("CLICOLOR_FORCE", Path::new("1"))]);
    assert!(painted.contains("\x1b["), "{painted:?}");
    let (_, plain) = doctor(&["check"], &[("NO_COLOR", Path::new("1")), ("CLICOLOR_FORCE", Path::new("0"))]);
    assert!(!plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn log_summarizes_each_release_and_explains_the_first_error() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/logs"));
    for version in ["9.0.0", "9.10.2", "9.19.0", "9.27.0", "9.28.0"] {
        let file = dir.join(format!("{version}.log"));
        let (code, stdout) = doctor(&["log", file.to_str().unwrap()], &[]);
        assert_eq!(code, Some(2), "{stdout}");
        for text in [
            &format!("cuDNN {version}, 1 process"),
            "cudnnBackendFinalize",
            "The first error: cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED: cudaGetDeviceCount(&count) != cudaSuccess",
            "handle: location=host; addr=",
            "no driver, no GPU, or a GPU that it cannot use",
        ] {
            assert!(stdout.contains(text), "{version}: {text}: {stdout}");
        }
    }
    // Other tools prepend a prefix to every line.
    let text = std::fs::read_to_string(dir.join("9.28.0.log")).unwrap();
    let logs = TempDir::new();
    let file = logs.path().join("prefixed.log");
    let (_, plain) = doctor(&["log", dir.join("9.28.0.log").to_str().unwrap()], &[]);
    for prefix in ["[rank0]: ", "2026-11-22T08:31:07.1234Z ", "pod/worker-0 | ", "[1,0]<stderr>:"] {
        let prefixed: String = text.lines().map(|line| format!("{prefix}{line}\n")).collect();
        std::fs::write(&file, format!("{prefix}Loading I! things\n{prefixed}")).unwrap();
        assert_eq!(doctor(&["log", file.to_str().unwrap()], &[]), (Some(2), plain.clone()), "{prefix}");
    }
    let (code, stdout) = doctor(&["log", dir.join("none.log").to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    for text in ["no cuDNN, 1 process", "0 calls", "The first error: cudnn_loader::search", "Set CUDNN_LOADER_DIR"] {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
    // Without a loaded cuDNN, only the loader's log exists.
    let both = logs.path().join("both.log");
    std::fs::copy(dir.join("none.log"), logs.path().join("both.log.loader")).unwrap();
    assert_eq!(doctor(&["log", both.to_str().unwrap()], &[]), (code, stdout.clone()));
    std::fs::copy(dir.join("9.28.0.log"), &both).unwrap();
    let (code, stdout) = doctor(&["log", both.to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    for text in ["cuDNN 9.28.0", "cudnnBackendFinalize", "The first error: cudnn_loader::search"] {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
    // After a crash, an entry's last lines are missing. Unrelated text may look like an entry.
    let file = logs.path().join("cut.log");
    let first = "E! CuDNN (v91900 56) function cudnnCreate() called:\n";
    let reason = "e!     Info: Traceback contains 1 message(s)\n\
                  e!         Error: CUDNN_STATUS_NOT_INITIALIZED; Reason: x\n";
    for (log, code, texts) in [
        (
            format!("{first}{reason}"),
            2,
            &[
                "cuDNN 9.19.0, an unknown process",
                "1 error",
                "The first error: cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED: x",
                "The entry is incomplete",
                "no driver, no GPU, or a GPU that it cannot use",
            ][..],
        ),
        // A check that passed comes first in the list.
        (
            format!(
                "{first}{}e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: y\n",
                reason.replace("NOT_INITIALIZED", "SUCCESS")
            ),
            2,
            &["The first error: cudnnCreate: CUDNN_STATUS_BAD_PARAM: y\n"],
        ),
        (first.into(), 2, &["cuDNN 9.19.0, an unknown process", "The first error: cudnnCreate\n"]),
        (first.replace("E!", "I!"), 0, &["cuDNN 9.19.0, an unknown process", "1 call of 1 function"]),
        (
            (0..12).map(|number| first.replace("E!", "I!").replace("Create", &format!("F{number}"))).collect(),
            0,
            &["12 calls of 12 functions", "       2  2 other functions (`--json` lists them)"],
        ),
        (first.repeat(3), 2, &["3 errors", "2 more errors are not shown (`--json` lists all)."]),
        (first.repeat(1002), 2, &["1001 more errors are not shown (`--json` lists the first 1000)."]),
        ("E! Error 404\nI! am a line\n".into(), 0, &["The text has no log entries"]),
    ] {
        std::fs::write(&file, &log).unwrap();
        let (found, stdout) = doctor(&["log", file.to_str().unwrap()], &[]);
        assert_eq!(found, Some(code), "{log}: {stdout}");
        assert!(texts.iter().all(|text| stdout.contains(text)), "{log}: {stdout}");
    }
    // PowerShell appends UTF-16, with a byte order mark only in new files.
    for (before, mark, after) in
        [("", "", ""), ("", "\u{feff}", ""), (first, "", ""), (first, "gr\u{f6}\u{df}e\n", first)]
    {
        for convert in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
            let appended = mark.encode_utf16().chain(first.encode_utf16()).flat_map(convert);
            let bytes = before.bytes().chain(appended).chain(after.bytes());
            std::fs::write(&file, bytes.collect::<Vec<u8>>()).unwrap();
            let (code, stdout) = doctor(&["log", file.to_str().unwrap()], &[]);
            let errors = 1 + [before, after].iter().filter(|text| !text.is_empty()).count();
            assert!(code == Some(2) && stdout.contains(&format!(", {errors} error")), "{stdout}");
        }
    }
    let (code, stdout) = doctor(&["log", "/etc/passwd"], &[]);
    assert!(code == Some(0) && stdout.contains("The text has no log entries"), "{stdout}");
    assert_eq!(doctor(&["log", "/dev/null"], &[]).0, Some(3));
}

#[test]
fn facts_explains_one_finding() {
    let (code, text) = doctor(&["facts", "c014"], &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("  C014 ") && text.lines().count() < 5, "{text}");
    let findings = &json(&["facts", "c014"], &[])["findings"];
    assert!(text.contains(findings[0]["cause"].as_str().unwrap()), "{findings}");
    assert_eq!(doctor(&["facts", "C999"], &[]).0, Some(3));
}

#[test]
fn facts_explains_one_status() {
    for text in ["CUDNN_STATUS_NOT_INITIALIZED", "not_initialized", "1001"] {
        let (code, stdout) = doctor(&["facts", text], &[]);
        assert!(code == Some(0) && stdout.starts_with("CUDNN_STATUS_NOT_INITIALIZED (1001): no driver"), "{stdout}");
        assert_eq!(json(&["facts", text], &[])["statuses"][0]["number"], 1001);
    }
}

#[test]
fn a_named_directory_must_exist() {
    let dir = support::TempDir::new();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [file, dir.path().join("nothing")] {
        let path = path.to_str().unwrap();
        for command in [&["layers", "--beside"][..], &["list"], &["frameworks"]] {
            let arguments = [command, &[path, "--json"]].concat();
            let (code, text) = doctor(&arguments, &[]);
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!((code, document["error"].as_str()), (Some(3), Some(&*format!("no such directory: {path}"))));
        }
    }
}

#[test]
fn the_manual_and_the_completions_have_every_subcommand() {
    let (_, manual) = doctor(&["man"], &[]);
    let (_, completions) = doctor(&["completions", "bash"], &[]);
    for command in [
        "check",
        "list",
        "explain",
        "pid",
        "fetch",
        "env",
        "demo",
        "facts",
        "preload",
        "log",
        "layers",
        "install",
        "uninstall",
        "run",
    ] {
        assert!(manual.contains(command) && completions.contains(command), "{command}");
    }
    let pages = manual.lines().filter_map(|line| line.strip_prefix("cudnn\\-doctor\\-")?.strip_suffix("(1)"));
    let pages: Vec<String> = pages.map(|page| page.replace('\\', "")).collect();
    assert!(pages.len() > 10, "{manual}");
    for page in pages {
        let (code, text) = doctor(&["man", &page], &[]);
        assert_eq!(code, Some(0), "{page}");
        assert!(text.contains(&format!(".TH cudnn-doctor-{page} 1")), "{text}");
    }
    assert_eq!(doctor(&["man", "nothing"], &[]).0, Some(3));
}

/// Returns the lines of a help text that are commands, without comments.
fn examples(help: &str) -> Vec<String> {
    let examples = help.split("Examples:").nth(1).unwrap_or_default().lines();
    let command = |line: &str| {
        let line = line.strip_prefix("  ")?;
        let is_command = ["cudnn-doctor ", "CUDNN_", "eval "].iter().any(|start| line.starts_with(start));
        is_command
            .then(|| line.split("   ").next().unwrap_or_default().split("  ").next().unwrap_or_default().to_owned())
    };
    examples.filter_map(command).collect()
}

#[test]
fn every_example_of_the_help_texts_runs() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let Some(cache) = release.ancestors().nth(4) else { return };
    let home = TempDir::new();
    let path = |below: &str| {
        let path = home.path().join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    let wheel = path("venvs/train/lib/python3.12/site-packages/nvidia/cudnn/lib/x");
    for name in ["libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_engines_runtime_compiled.so.9"] {
        std::fs::copy(release.join(name), wheel.with_file_name(name)).unwrap();
    }
    support::compile("int main(void) { return 0; }", &[], &path("my-program"));
    support::compile("", &["-shared", "-nostdlib"], &path(".../torch/lib/libtorch_cuda.so"));
    support::write_program(path("bin/pgrep"), "#!/bin/sh\necho $PPID\n");
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/logs/9.19.0.log");
    support::write_program(path("bin/python"), format!("#!/bin/sh\ncp {log} \"$CUDNN_LOGDEST_DBG\"\n"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cudnn-doctor"), path("bin/cudnn-doctor")).unwrap();
    let search_path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());

    let mut count = 0;
    for subcommand in ["check", "list", "explain", "pid", "demo", "env", "fetch", "preload", "log"] {
        let (_, help) = doctor(&[subcommand, "--help"], &[]);
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{help}");
        for example in examples {
            count += 1;
            let output = Command::new("/bin/sh")
                .args(["-c", &example])
                .current_dir(home.path())
                .env_clear()
                .env("PATH", &search_path)
                .env("HOME", home.path())
                .env("CUDNN_FETCH_CACHE", cache)
                .env("LD_LIBRARY_PATH", wheel.parent().unwrap())
                .output()
                .unwrap();
            assert!(matches!(output.status.code(), Some(0..=2)), "{example}: {output:?}");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!stderr.contains("Usage:") && !stderr.contains("not found\n"), "{example}: {stderr}");
        }
    }
    assert!(count >= 20, "{count}");
}

/// Without cuDNN, C010 is an error, which the option hides.
#[test]
fn fix_says_which_codes_it_looked_for() {
    let (code, stdout) = doctor(&["fix", "--no-load", "--only", "C031"], &[]);
    assert_eq!((code, stdout.as_str()), (Some(0), "No problems found for the selected codes: C031\n"));
}

const CALL: &str = "I! CuDNN (v91900 56) function cudnnCreate() called:\n";

/// Returns the exit status and the output of `log` for a text.
fn print_log(text: &str, options: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    let command = command.args(["log", "-"]).args(options).env_clear();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned())
}

#[test]
fn log_explains_what_other_programs_print() {
    for (text, code, expected) in [
        ("Invalid handle. Cannot load symbol cublasLtCreate\nAborted\n", 2, "could not use cuBLASLt"),
        ("Error: CUDNN_STATUS_X; Reason: cudaVersionMajor != nvrtcVersionMajor", 2, "an NVRTC for another CUDA major"),
        (
            "GET was unable to find an engine to execute this computation\n",
            2,
            "\"find an engine to execute\": no engine",
        ),
        ("[cudnn_frontend] Error: No execution plans support the graph.\n", 2, "run --explain -- PROGRAM"),
        ("CRITICAL WARNING: PyTorch 2.9.1 & CuDNN Compatibility Issue Detected\n", 2, "SGLANG_DISABLE_CUDNN_CHECK=1"),
        ("OSError: libcudnn.so.9: cannot open shared object file\n", 2, "libcudnn ... cannot open"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED\n", 2, "1  CUDNN_STATUS_NOT_INITIALIZED ("),
        (
            "\u{1b}[31mWarning: CUDNN_STATUS_SUCCESS; Reason: falls back\u{1b}[0m\n",
            1,
            "CUDNN_STATUS_SUCCESS: falls back\n",
        ),
        // The summary of a log includes messages on other lines.
        (&format!("{CALL}RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM\n"), 2, "1 function, 0 warnings, 1 error\n"),
        (&format!("{CALL}Warning: CUDNN_STATUS_SUCCESS; Reason: x\n"), 1, "1 function, 1 warning, 0 errors\n"),
        (&format!("{CALL}e!     Error: CUDNN_STATUS_BAD_PARAM; Reason: x\n"), 2, "1 function, 0 warnings, 1 error\n"),
        (
            &format!("{CALL}i!     status: val=CUDNN_STATUS_BAD_PARAM (2000);\n"),
            0,
            "1 function, 0 warnings, 0 errors\n",
        ),
        // A reason may contain an empty line.
        (
            &format!("{}\n\ne!     Error: CUDNN_STATUS_BAD_PARAM; Reason: x\n", CALL.replace("I!", "E!")),
            2,
            "0 functions, 0 warnings, 1 error\n",
        ),
        // An engine that refuses an operation is only a warning.
        (
            &format!("{}w!     Error: CUDNN_STATUS_NOT_SUPPORTED; Reason: x\n", CALL.replace("I!", "W!")),
            1,
            "0 functions, 1 warning, 0 errors\n",
        ),
        ("\u{1f}\u{fffd}", 0, "no known messages"),
        ("Traceback (most recent call last):\nValueError\n", 0, "no log entries"),
    ] {
        let (status, stdout) = print_log(text, &[]);
        assert!(status == Some(code) && stdout.contains(expected), "{text}: {status:?} {stdout}");
    }
    let both = "W! CuDNN (v91900 56) function cudnnCreate() called:\n\nNo valid engine configs\n";
    assert_eq!(print_log(both, &[]).0, Some(2));
    let dir = TempDir::new();
    for (start, program) in [
        (&b"\x1f\x8b\x08\0"[..], "`zcat"),
        (b"BZh91AY", "bzcat"),
        (b"\xfd7zXZ\0\0", "xzcat"),
        (b"\x28\xb5\x2f\xfd$", "zstdcat"),
        (b"\x04\x22\x4d\x18d", "lz4cat"),
    ] {
        std::fs::write(dir.path().join("log"), start).unwrap();
        let mut compressed = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        let output = compressed.args(["log", "log"]).current_dir(dir.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && stderr.contains(program), "{output:?}");
    }
    let warning = "W! CuDNN (v91900 56) function cudnnBackendFinalize() called:\n\
                   w!     Info: Traceback contains 2 message(s)\n\
                   w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: the cause\n\
                   w!         Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: a caller\n\
                   w! Process=1; Thread=1; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n";
    let (status, stdout) = print_log(&warning.repeat(809), &[]);
    assert!(status == Some(1) && stdout.contains("     809  CUDNN_STATUS_NOT_SUPPORTED: the cause"), "{stdout}");
    assert!(!stdout.contains("a caller"), "{stdout}");
    let (_, stdout) = print_log(&warning.repeat(2), &["--json"]);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    let count = value.pointer("/reasons/0/count").and_then(Value::as_u64);
    assert_eq!((count, value.pointer("/reasons/1")), (Some(2), None), "{stdout}");
}

#[test]
fn log_tells_processes_apart_by_their_prefixes() {
    let entry = |process: u32, reason: &str| {
        format!(
            "E! CuDNN (v91900 56) function cudnnCreate() called:\n\
             e!     Info: Traceback contains 1 message(s)\n\
             e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: {reason}\n\
             e! Process={process}; Thread={process}; GPU=NULL; Handle=NULL; StreamId=NULL.\n"
        )
    };
    let (one, other) = (entry(10, "one"), entry(20, "other"));
    let ranks = one.lines().zip(other.lines()).map(|(one, other)| format!("[rank0]: {one}\n[rank1]: {other}\n"));
    // Docker and Kubernetes prepend the time.
    let both = format!("{one}{other}");
    let timed = both.lines().enumerate().map(|(time, line)| format!("10:00:0{time} {line}\n"));
    // A progress bar does not end its line.
    let beside_bar = format!("{one} 10%|# | 1/10 [00:01]{other}");
    // The first process fails once, before the other.
    let once: String = one.lines().map(|line| format!("[rank1]: {line}\n")).collect();
    let often: String = other.repeat(2).lines().map(|line| format!("[rank0]: {line}\n")).collect();
    for text in [ranks.collect::<String>(), timed.collect::<String>(), beside_bar, once + &often] {
        let (status, stdout) = print_log(&text, &["--json"]);
        let value: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((status, &value["processes"]), (Some(2), &2.into()), "{text}{stdout}");
        let found = [0, 1].map(|at| (&value["errors"][at]["thread"], &value["errors"][at]["reasons"][0]["reason"]));
        assert_eq!(found, [(&10.into(), &"one".into()), (&20.into(), &"other".into())], "{text}{stdout}");
        assert_eq!(value["errors"][0]["reasons"].as_array().map(Vec::len), Some(1), "{text}{stdout}");
    }
}

#[test]
fn log_reads_a_file_of_any_length_as_a_stream() {
    let dir = TempDir::new();
    let file = dir.path().join("cudnn.log");
    let call = "\nI! CuDNN (v91900 56) function cudnnCreate() called:\n\
                i! Process=1; Thread=1; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n";
    let error = "\nE! CuDNN (v91900 56) function cudnnCreate() called:\n\
                 e!     Info: Traceback contains 1 message(s)\n\
                 e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: at the end\n\
                 e! Process=1; Thread=1; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n";
    let long_line = "x".repeat(200_000);
    std::fs::write(&file, format!("{}{long_line}\n{error}", call.repeat(20_000))).unwrap();
    let (code, stdout) = doctor(&["log", file.to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("20000 calls of 1 function") && stdout.contains("at the end"), "{stdout}");
}

#[test]
fn the_drop_in_does_not_count_as_a_second_cudnn() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = TempDir::new();
    let drop_in = dir.file(Library::Shim);
    let code = "void cudnnShimPreloadStart(void) {} const char version[] = \"cudnn-shim drop-in 7.8.9\";";
    support::compile(code, &["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9"], &drop_in);
    let running = Sleeper::new(&[&drop_in, &release.join("libcudnn_graph.so.9")]);
    let (code, stdout) = doctor(&["pid", &running.0.id().to_string()], &[]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("drop-in") && stdout.contains("7.8.9"), "{stdout}");
    let (code, stdout) = doctor(&["explain", drop_in.to_str().unwrap()], &[("CUDNN_LOADER_DIR", &release)]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("the drop-in, which loads"), "{stdout}");
    let path = std::env::join_paths([dir.path(), &release]).unwrap();
    let (_, stdout) = doctor(&["check", "--no-load"], &[("LD_LIBRARY_PATH", path.as_ref())]);
    assert!(!stdout.contains("C021"), "{stdout}");
}

#[test]
fn a_crash_of_cudnn_does_not_end_the_doctor() {
    let dir = TempDir::new();
    let code = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }\n";
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).build(&dir.file(Library::Graph));
    for command in ["demo", "preload"] {
        let (code, _) = doctor(&[command], &[("CUDNN_LOADER_DIR", dir.path())]);
        assert_eq!(code, Some(2), "{command}");
    }
    let value = json(&["preload"], &[("CUDNN_LOADER_DIR", dir.path())]);
    assert!(value.get("error").is_some_and(|error| error.to_string().contains("signal")), "{value}");
}

#[test]
fn explain_finds_mixes_missing_graph_libraries_and_dangling_links() {
    let dir = TempDir::new();
    let shim = dir.file(Library::Shim);
    support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9,-rpath,$ORIGIN"], &shim);
    let explain = || doctor(&["explain", shim.to_str().unwrap()], &[]);
    let (code, stdout) = explain();
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("libcudnn_graph.so.9 was not found: NVIDIA's shim aborts"), "{stdout}");

    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&dir.file(Library::Graph));
    std::os::unix::fs::symlink("nowhere", dir.file(Library::Cnn)).unwrap();
    let (code, stdout) = explain();
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("libcudnn_cnn.so.9 was passed over") && stdout.contains("nowhere"), "{stdout}");

    std::fs::remove_file(dir.file(Library::Cnn)).unwrap();
    FakeLibrary::new(Library::Ops, Version::new(9, 18, 0)).build(&dir.file(Library::Ops));
    let (code, stdout) = explain();
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("two releases are mixed in") && stdout.contains("is 9.18.0"), "{stdout}");

    // Engines import symbols but contain no version.
    std::fs::remove_file(dir.file(Library::Ops)).unwrap();
    let engine = FakeLibrary::new(Library::EnginesPrecompiled, Version::new(9, 19, 0));
    engine.build(&dir.file(Library::EnginesPrecompiled));
    let (code, stdout) = explain();
    assert_eq!(code, Some(0), "{stdout}");
    engine.with_undefined("cudnn_of_another_release").build(&dir.cleared(Library::EnginesPrecompiled));
    let (code, stdout) = explain();
    assert_eq!(code, Some(2), "{stdout}");
    let expected = "they lack 1 of the symbols that it needs, such as cudnn_of_another_release";
    assert!(stdout.contains(expected), "{stdout}");
}

#[test]
fn list_shows_how_to_use_an_installation_that_the_search_does_not_find() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let (_, stdout) = doctor(&["list", release.to_str().unwrap()], &[]);
    assert!(
        stdout.contains("it does not search these directories") && stdout.contains("cudnn-doctor env /"),
        "{stdout}"
    );
}

#[test]
fn pid_reports_a_shim_whose_first_call_would_abort() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let alone = TempDir::new();
    let shim = alone.file(Library::Shim);
    std::fs::copy(release.join("libcudnn.so.9"), &shim).unwrap();
    let running = Sleeper::new(&[&shim]);
    let (code, stdout) = doctor(&["pid", &running.0.id().to_string()], &[]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("will not find libcudnn_graph.so.9: NVIDIA's shim aborts"), "{stdout}");
    let complete = Sleeper::new(&[&release.join("libcudnn.so.9")]);
    let (code, stdout) = doctor(&["pid", &complete.0.id().to_string()], &[]);
    assert_eq!(code, Some(0), "{stdout}");
}

#[test]
fn list_searches_below_a_root_and_finds_nested_environments() {
    let root = TempDir::new();
    for below in ["a/venv/lib/python3.12/site-packages/nvidia/cudnn/lib", "b/c/cudnn-9/lib"] {
        let dir = root.path().join(below);
        std::fs::create_dir_all(&dir).unwrap();
        FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&dir.join("libcudnn_graph.so.9"));
    }
    // A link to a parent directory must not cause endless recursion.
    std::os::unix::fs::symlink("..", root.path().join("a/up")).unwrap();
    let value = json(&["list", root.path().to_str().unwrap()], &[]);
    let found = value.get("installations").and_then(Value::as_array).unwrap();
    let dirs: Vec<&str> = found.iter().filter_map(|one| one.get("directory")?.as_str()).collect();
    assert_eq!(dirs.len(), 2, "{value}");
    assert!(
        dirs.iter().any(|dir| dir.ends_with("nvidia/cudnn/lib")) && dirs.iter().any(|dir| dir.ends_with("cudnn-9/lib"))
    );
}

#[test]
fn a_pipe_or_a_damaged_file_in_place_of_cudnn_does_not_end_demo_and_preload() {
    let dir = TempDir::new();
    let graph = dir.file(Library::Graph);
    let is_made = Command::new("mkfifo").arg(&graph).status().is_ok_and(|status| status.success());
    assert!(is_made);
    for content in [None, Some("no library"), Some("\x7fELF\x02\x01\x01")] {
        if let Some(content) = content {
            std::fs::remove_file(&graph).unwrap();
            std::fs::write(&graph, content).unwrap();
        }
        for arguments in [&["demo", "--offline"][..], &["preload", "--no-context"]] {
            let (code, stdout) = doctor(arguments, &[("CUDNN_LOADER_DIR", dir.path())]);
            assert_eq!(code, Some(2), "{arguments:?}: {stdout}");
        }
    }
}

/// A shell evaluates stdout, so the message goes to stderr.
#[test]
fn env_names_the_installations_that_it_did_not_select() {
    let root = TempDir::new();
    for name in ["a", "b"] {
        let dir = root.path().join(name).join("lib");
        std::fs::create_dir_all(&dir).unwrap();
        FakeLibrary::new(Library::Graph, Version::new(9, 28, 0)).build(&dir.join("libcudnn_graph.so.9"));
    }
    let run = |dir: &Path| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        String::from_utf8(command.arg("env").arg(dir).env_clear().output().unwrap().stderr).unwrap()
    };
    let (several, one) = (run(root.path()), run(&root.path().join("b")));
    assert!(several.contains("contains several installations") && several.contains("/b/lib"), "{several}");
    assert!(!one.contains("several"), "{one}");
}
