//! `list` and `explain` as a user runs them.
#![allow(clippy::unwrap_used, reason = "a test says so by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use cudnn_probe::Library;
use serde_json::Value;
use support::{FakeLibrary, TempDir, Version, lib_dir};

/// Runs the doctor with nothing in its environment but these variables.
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
    let (_, said) = doctor(&[arguments, &["--json"]].concat(), variables);
    serde_json::from_str(&said).unwrap()
}

#[test]
fn list_shows_what_is_installed_and_marks_what_would_be_used() {
    let (Some(used), Some(other)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let (code, said) = doctor(&["list", other.to_str().unwrap()], &[("LD_LIBRARY_PATH", &used)]);
    assert_eq!(code, Some(0), "{said}");
    let row = |version: &str| said.lines().find(|line| line.contains(version)).unwrap().to_owned();
    assert!(row("9.19.0").contains("->") && row("9.19.0").contains("pip nvidia-cudnn-jit-cu12"), "{said}");
    assert!(!row("9.27.0").contains("->") && row("9.27.0").contains("JIT only"), "{said}");
    assert!(said.contains("The marked one would be used: LD_LIBRARY_PATH comes first"), "{said}");
    let value = json(&["list", other.to_str().unwrap()], &[("LD_LIBRARY_PATH", &used)]);
    assert_eq!(value.get("schema"), Some(&Value::from(1)));
    let installations = value.get("installations").and_then(Value::as_array).unwrap();
    let told: Vec<(&Value, &Value)> =
        installations.iter().filter_map(|one| Some((one.get("version")?, one.get("used")?))).collect();
    assert_eq!(told, [(&"9.19.0".into(), &true.into()), (&"9.27.0".into(), &false.into())]);
}

#[test]
fn list_with_nothing_installed_says_so_and_exits_with_2() {
    let (code, said) = doctor(&["list"], &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("No cuDNN is installed here"), "{said}");
}

#[test]
fn list_names_what_is_wrong_and_what_is_missing() {
    let folder = TempDir::new();
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&folder.file(Library::Graph));
    std::fs::write(folder.file(Library::Ops), "not a library").unwrap();
    let (code, said) = doctor(&["list"], &[("LD_LIBRARY_PATH", folder.path())]);
    assert_eq!(code, Some(2), "{said}");
    for words in ["partial", "wrong: libcudnn_ops.so.9 is not an ELF file", "missing: libcudnn.so.9, libcudnn_cnn.so.9"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn explain_names_each_file_with_the_rule_and_a_mix_of_releases() {
    let (Some(older), Some(newer)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let shim = older.join("libcudnn.so.9");
    let shim = shim.to_str().unwrap();
    let (code, said) = doctor(&["explain", shim], &[]);
    assert_eq!(code, Some(0), "{said}");
    for words in ["libcudnn.so.9 would open, when it is used:", "(9.19.0): RUNPATH of", "libcudnn_ops.so.9", "not here"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    // The older shim's own folder is beaten by LD_LIBRARY_PATH: its libraries would be of another release.
    let (code, said) = doctor(&["explain", shim], &[("LD_LIBRARY_PATH", &newer)]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("(9.27.0): LD_LIBRARY_PATH"), "{said}");
    assert!(said.contains("Wrong: two releases would be mixed: 9.27.0 of"), "{said}");
    let value = json(&["explain", shim], &[("LD_LIBRARY_PATH", &newer)]);
    let problems = value.get("problems").and_then(Value::as_array).unwrap();
    // The newer engines need the driver's library, which not every machine has.
    let mixes = problems.iter().filter(|problem| problem.to_string().contains("mixed")).count();
    assert_eq!(mixes, 1, "{value}");
}

#[test]
fn explain_tells_what_a_library_lacks_and_engines_of_another_installation() {
    let version = Version::new(9, 19, 0);
    let (own, other) = (TempDir::new(), TempDir::new());
    for library in [Library::Graph, Library::Ops, Library::EnginesPrecompiled] {
        FakeLibrary::new(library, version).with_ptx(8).build(&own.file(library));
    }
    // The shim's stand-in would have every function of the others, and hide what they need.
    let shim = own.file(Library::Shim);
    support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9,-rpath,$ORIGIN"], &shim);
    let path = [("LD_LIBRARY_PATH", own.path())];
    let (code, said) = doctor(&["explain", shim.to_str().unwrap()], &path);
    assert_eq!(code, Some(0), "{said}");

    FakeLibrary::new(Library::Ops, version).with_ptx(8).needing("libnowhere.so.1").build(&own.cleared(Library::Ops));
    let (code, said) = doctor(&["explain", shim.to_str().unwrap()], &path);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("libnowhere.so.1 is not found; libcudnn_ops.so.9 needs it"), "{said}");

    FakeLibrary::new(Library::Ops, version).with_ptx(8).build(&own.cleared(Library::Ops));
    FakeLibrary::new(Library::EnginesPrecompiled, version).with_ptx(9).build(&other.file(Library::EnginesPrecompiled));
    let both = std::env::join_paths([other.path(), own.path()]).unwrap();
    let (code, said) = doctor(&["explain", shim.to_str().unwrap()], &[("LD_LIBRARY_PATH", both.as_ref())]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("libcudnn_engines_precompiled.so.9 would be taken from") && said.contains("9.19.0"),
        "{said}"
    );
}

#[test]
fn explain_of_a_static_program_finds_nothing_wrong() {
    let folder = TempDir::new();
    let program = folder.path().join("program");
    support::compile("int main(void) { return 0; }", &["-static"], &program);
    let (code, said) = doctor(&["explain", program.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn explain_of_a_program_that_is_linked_to_a_missing_cudnn_says_who_needs_it() {
    let folder = TempDir::new();
    let library = folder.path().join("libneeds.so");
    let stub = folder.path().join("libcudnn.so.9");
    support::compile("", &["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9"], &stub);
    support::compile("", &["-shared", "-nostdlib", "-Wl,--no-as-needed", stub.to_str().unwrap()], &library);
    std::fs::remove_file(stub).unwrap();
    let (code, said) = doctor(&["explain", library.to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("libcudnn.so.9 is not found; libneeds.so needs it"), "{said}");
}

/// A process that has loaded these libraries and does nothing; ended when dropped.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new(libraries: &[&Path]) -> Self {
        let preload = std::env::join_paths(libraries).unwrap();
        let child = Command::new("sleep").arg("60").env_clear().env("LD_PRELOAD", preload).spawn().unwrap();
        let sleeper = Sleeper(child);
        // The linker is done when the process sleeps: its command line is the program's own by then.
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
fn pid_tells_what_a_process_has_loaded_and_what_does_not_belong_together() {
    let Some(older) = lib_dir("jit-cu12-9.19.0") else { return };
    let graph = older.join("libcudnn_graph.so.9");
    let fine = Sleeper::new(&[&graph]);
    let (code, said) = doctor(&["pid", &fine.0.id().to_string()], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("cuDNN        9.19.0") && said.contains(graph.to_str().unwrap()), "{said}");

    let folder = TempDir::links_to(&older);
    std::fs::copy(&graph, folder.cleared(Library::Graph)).unwrap();
    let copy = folder.file(Library::Graph);
    let cublas = folder.path().join("libcublasLt.so.13");
    support::compile("", &["-shared", "-nostdlib"], &cublas);
    let mixed = Sleeper::new(&[&copy, &cublas, &older.join("libcudnn.so.9")]);
    std::fs::remove_file(&copy).unwrap();
    let (code, said) = doctor(&["pid", &mixed.0.id().to_string()], &[]);
    assert_eq!(code, Some(2), "{said}");
    for words in ["cuDNN from 2 folders in one process", "(removed from disk since)", "start the process again"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("CUDA 12 (cuDNN) and CUDA 13 (cuBLAS)"), "{said}");
}

#[test]
fn pid_tells_of_the_very_files_that_are_mapped() {
    let (Some(older), Some(newer)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    let folder = TempDir::new();
    let graph = folder.file(Library::Graph);
    std::fs::copy(older.join("libcudnn_graph.so.9"), &graph).unwrap();
    let running = Sleeper::new(&[&graph]);
    std::fs::remove_file(&graph).unwrap();
    std::fs::copy(newer.join("libcudnn_graph.so.9"), &graph).unwrap();
    let (code, said) = doctor(&["pid", &running.0.id().to_string()], &[]);
    assert_eq!(code, Some(2), "{said}");
    // Who may not follow the kernel's link to it is told nothing rather than the new file's version.
    assert!(said.contains("(replaced on disk since)") && !said.contains("9.27.0"), "{said}");

    // Two releases in one folder.
    let ops = folder.file(Library::Ops);
    FakeLibrary::new(Library::Ops, Version::new(9, 18, 0)).build(&ops);
    let mixed = Sleeper::new(&[&graph, &ops]);
    let (code, said) = doctor(&["pid", &mixed.0.id().to_string()], &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("2 releases of cuDNN in one process"), "{said}");
}

#[test]
fn pid_of_no_process_is_an_error_in_words() {
    let (code, said) = doctor(&["pid", "4194304", "--json"], &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("\"error\"") && said.contains("cannot be looked into"), "{said}");
}

#[test]
fn env_prints_lines_that_a_shell_takes_and_that_lead_to_the_installation() {
    let folder = TempDir::new();
    let strange = folder.path().join("it's a (folder)");
    std::fs::create_dir(&strange).unwrap();
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&strange.join("libcudnn_graph.so.9"));
    let (code, lines) = doctor(&["env", strange.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{lines}");
    // The linker would split or expand these, whatever the shell leaves of them.
    for name in ["a:b", "a;b", "$LIB"] {
        let unusable = folder.path().join(name);
        std::fs::create_dir(&unusable).unwrap();
        FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&unusable.join("libcudnn_graph.so.9"));
        let (code, said) = doctor(&["env", unusable.to_str().unwrap()], &[]);
        assert!(code == Some(3) && said.is_empty(), "{name}: {said}");
    }
    let program = env!("CARGO_BIN_EXE_cudnn-doctor");
    let script = format!("{lines}\nexec {program} list --json");
    let output = Command::new("/bin/sh").args(["-c", &script]).env_clear().output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let used = value.pointer("/installations/0/folder").and_then(Value::as_str);
    assert_eq!(used, strange.to_str(), "{value}");
}

#[test]
fn fetch_lists_releases_and_refuses_one_that_is_not_known() {
    let (code, said) = doctor(&["fetch"], &[]);
    assert!(code == Some(0) && said.contains("cu13-9.28.0") && !said.contains("libclang"), "{said}");
    assert_eq!(doctor(&["fetch", "cu12-9.99.0"], &[]).0, Some(3));
}

#[test]
fn a_release_is_fetched_into_a_folder_and_found_there() {
    let Some(cache) = lib_dir("jit-cu12-9.19.0").and_then(|folder| Some(folder.ancestors().nth(4)?.to_owned())) else {
        return;
    };
    // What is there already is not fetched: the cache itself is the folder, so that this needs no network.
    let (code, said) = doctor(&["fetch", "jit-cu12-9.19.0", "--into", cache.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nvidia/cudnn_jit/lib") && said.contains("cudnn-doctor env"), "{said}");
}

#[test]
fn what_the_doctor_is_asked_and_cannot_do_is_no_finding() {
    for arguments in [
        &["no-such-command"][..],
        &["list", "/no/such/folder"],
        &["check", "--minimum", "nine"],
        &["check", "--function", "cudnnNothing"],
    ] {
        assert_eq!(doctor(arguments, &[]).0, Some(3), "{arguments:?}");
    }
    assert_eq!(doctor(&["--help"], &[]).0, Some(0));
}

#[test]
fn colours_are_for_terminals_and_control_characters_of_names_are_not_painted() {
    let folder = TempDir::new();
    let strange = folder.path().join("a\x1b[31m\nb");
    std::fs::create_dir(&strange).unwrap();
    std::fs::write(strange.join("libcudnn_graph.so.9"), "no library").unwrap();
    for command in ["list", "check"] {
        let (_, plain) = doctor(&[command], &[("LD_LIBRARY_PATH", &strange)]);
        assert!(!plain.contains('\x1b') && plain.contains(r"a\u{1b}[31m\nb"), "{plain}");
    }
    let (_, painted) = doctor(&["check"], &[("CLICOLOR_FORCE", Path::new("1"))]);
    assert!(painted.contains("\x1b["), "{painted:?}");
    let (_, plain) = doctor(&["check"], &[("NO_COLOR", Path::new("1")), ("CLICOLOR_FORCE", Path::new("0"))]);
    assert!(!plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn a_log_of_each_release_is_summed_up_and_its_first_error_explained() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/logs"));
    for version in ["9.0.0", "9.10.2", "9.19.0", "9.27.0", "9.28.0"] {
        let file = folder.join(format!("{version}.log"));
        let (code, said) = doctor(&["log", file.to_str().unwrap()], &[]);
        assert_eq!(code, Some(2), "{said}");
        for words in [
            &format!("cuDNN {version}, 1 process"),
            "cudnnBackendFinalize",
            "The first error: cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED: cudaGetDeviceCount(&count) != cudaSuccess",
            "handle: location=host; addr=",
            "no driver, no GPU, or one that it cannot use",
        ] {
            assert!(said.contains(words), "{version}: {words}: {said}");
        }
    }
    // Written by the loader alone.
    let (code, said) = doctor(&["log", folder.join("none.log").to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{said}");
    for words in ["no cuDNN, 1 process", "0 calls", "The first error: cudnn_loader::search", "What to do: "] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (code, said) = doctor(&["log", "/etc/passwd"], &[]);
    assert!(code == Some(0) && said.contains("No entry of cuDNN's"), "{said}");
    assert_eq!(doctor(&["log", "/dev/null"], &[]).0, Some(3));
}

#[test]
fn the_manual_and_the_completions_have_every_command() {
    let (_, manual) = doctor(&["man"], &[]);
    let (_, completions) = doctor(&["completions", "bash"], &[]);
    for command in ["check", "list", "explain", "pid", "fetch", "env", "demo", "facts", "preload", "log"] {
        assert!(manual.contains(command) && completions.contains(command), "{command}");
    }
}
