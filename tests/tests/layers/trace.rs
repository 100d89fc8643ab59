//! Tests the layer `trace`: the contents of trace files and messages, in all kinds of programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use support::{
    Child, ChildOutput, Subject, TempDir, Version, c_compiler, client, copy_fake_set, copy_program, doctor, drop_in,
    lib_dir, run_compiler,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const JIT: &str = "jit-cu12-9.19.0";

fn traced() -> Option<&'static TempDir> {
    static CLIENT: OnceLock<Option<TempDir>> = OnceLock::new();
    CLIENT.get_or_init(|| client("trace.c", &drop_in().join("lib"), &["-lpthread"])).as_ref()
}

fn child(cudnn: &Path) -> Option<Child> {
    let child = Child::bare(traced()?.path().join("client"))
        .env("LD_LIBRARY_PATH", drop_in().join("lib"))
        .env("CUDNN_LOADER_DIR", cudnn)
        .env("CUDNN_LAYERS", "trace");
    Some(child)
}

/// Returns the events of a file. After a normal exit, the file is complete JSON.
fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the events of an unfinished file after the repair that the guide prints. The last record may be incomplete.
fn events_without_end(file: &Path) -> Vec<Value> {
    const GUIDE: &str = include_str!("../../../docs/guide/trace.md");
    let repair = GUIDE.lines().find(|line| line.ends_with(" >whole.json")).unwrap();
    let dir = TempDir::new();
    std::fs::copy(file, dir.path().join("trace.json")).unwrap();
    let output = Command::new("sh").args(["-c", repair]).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    events(&dir.path().join("whole.json"))
}

fn name(event: &Value) -> &str {
    event["name"].as_str().unwrap_or_default()
}

fn named<'a>(events: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| name(event) == wanted).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn fake_set() -> TempDir {
    let dir = TempDir::new();
    copy_fake_set(Version::new(9, 19, 0), dir.path());
    dir
}

/// A Rust program that contains the loader searches for layers in its own directory, but not next to the drop-in.
#[test]
fn run_traces_a_program_that_contains_the_loader() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let (file, program) = (dir.path().join("trace.json"), dir.path().join("program"));
    copy_program(DRIVER, &program);
    let mut run = Command::new(doctor());
    run.arg("run").arg("--from").arg(drop_in().join("lib")).arg("--trace").arg(&file).arg("--").arg(&program);
    let output = run.arg("cudnnGetVersion").env_clear().env("CUDNN_LOADER_DIR", &cudnn).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(named(&events(&file), "cudnnGetVersion").len(), 1);
}

#[test]
fn a_record_contains_the_time_the_thread_the_arguments_and_the_status() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let output = Child::new(DRIVER, Subject::Loader, &cudnn)
        .env("CUDNN_LAYER_PATH", drop_in().join("lib"))
        .env("CUDNN_LAYERS", "trace")
        .env("CUDNN_TRACE", &file)
        .run_successfully(&["cudnnGetVersion", "create", "~cudnnGetErrorString", "~cudnnCreateTensorDescriptor"]);
    assert_eq!(output.stderr, "", "{output:#?}");
    let events = events(&file);
    let create = named(&events, "cudnnCreate")[0];
    assert_eq!(create["ph"], "X");
    assert!(create["dur"].as_f64().unwrap() > 0.0 && create["ts"].as_f64().unwrap() > 0.0, "{create}");
    assert!(create["pid"] == create["tid"] && create["pid"].as_u64().unwrap() > 0, "{create}");
    assert_eq!(create["args"]["status"], "CUDNN_STATUS_NOT_INITIALIZED (1001)");
    assert!(create["args"]["handle: cudnnHandle_t *"].as_str().unwrap().starts_with("0x"), "{create}");
    let string = named(&events, "cudnnGetErrorString")[0];
    assert_eq!(string["args"]["status: cudnnStatus_t"], "CUDNN_STATUS_SUCCESS (0)", "{string}");

    let in_category =
        |category: &str| -> Vec<&str> { events.iter().filter(|event| event["cat"] == category).map(name).collect() };
    assert_eq!(in_category("load"), ["load libcudnn_graph.so.9"]);
    assert!(in_category("first call").contains(&"resolve cudnnCreate"), "{events:#?}");
    assert_eq!(in_category("failure"), ["cannot load libcudnn_ops.so.9", "failed cudnnCreateTensorDescriptor"]);
    let failed = named(&events, "failed cudnnCreateTensorDescriptor")[0];
    assert!(failed["args"]["report"].as_str().unwrap().contains("does not include libcudnn_ops.so.9"), "{failed}");
}

/// A Rust program that contains the loader searches for layers in the program's own directory, and not the drop-in's.
#[test]
fn the_doctor_traces_a_program_that_contains_the_loader() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let mut arguments: Vec<OsString> = ["run", "--from"].map(OsString::from).into();
    arguments.extend([drop_in().join("lib").into_os_string(), "--trace".into(), file.clone().into(), "--".into()]);
    let child = arguments.into_iter().fold(Child::bare(doctor()), Child::argument);
    let output = child.argument(DRIVER).env("CUDNN_LOADER_DIR", &cudnn).run(&["cudnnGetVersion"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    assert!(!named(&events(&file), "cudnnGetVersion").is_empty(), "{output:#?}");
}

#[test]
fn calls_that_returned_are_in_the_file_however_the_process_ends() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    for (end, signal) in [("kill", Some(9)), ("segv", Some(11)), ("_exit", None), ("exit", None)] {
        for busy in [false, true] {
            let Some(child) = child(&cudnn) else { return };
            let (hot, end_option) = ("hot:32", format!("end:{end}"));
            let args = ["calls:1000", if busy { hot } else { "memory" }, "calls:100", &end_option];
            let output = child.env("CUDNN_TRACE", &file).run(&args);
            assert_eq!(output.signal, signal, "{output:#?}");
            let events = if end == "exit" { events(&file) } else { events_without_end(&file) };
            let calls = named(&events, "cudnnGetVersion").len();
            assert!(if busy { calls >= 1100 } else { calls == 1100 }, "{calls} {output:#?}");
            assert!(events.iter().all(|event| event["ph"].is_string()));
            // Records of the backend API are longer than records of functions without arguments.
            let size = std::fs::metadata(&file).unwrap().len();
            assert!((100..500).contains(&(size / events.len() as u64)), "{size} bytes for {} events", events.len());
        }
    }
}

#[test]
fn the_repair_of_the_guide_keeps_all_complete_records_of_every_cut() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let Some(child) = child(&cudnn) else { return };
    assert_eq!(child.env("CUDNN_TRACE", &file).run(&["calls:1"]).code, Some(0));
    let (whole, all) = (std::fs::read(&file).unwrap(), events(&file));
    let is_record_end = |bytes: &&[u8]| bytes.starts_with(b"\"ph\":\"") && bytes.ends_with(b"\"}");
    for cut in 0..=whole.len() {
        let start = &whole[..cut];
        if cut < 3 || cut % 17 == 0 || start.ends_with(b"}") || start.ends_with(b"\n") {
            std::fs::write(&file, start).unwrap();
            let complete = start.windows(9).filter(is_record_end).count();
            assert_eq!(events_without_end(&file), all[..complete], "{cut}");
        }
    }
}

#[test]
fn no_call_of_many_threads_is_lost() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let Some(child) = child(&cudnn) else { return };
    let output = child.env("CUDNN_TRACE", &file).run(&["threads:200"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    assert_eq!(named(&events(&file), "cudnnGetVersion").len(), 20_000);
}

/// Handlers interrupt the layer anywhere, and return or leave by `siglongjmp`.
#[test]
fn signal_handlers_may_call_cudnn_and_leave() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    for (name, most) in [("handler", 100), ("jump", 200)] {
        let Some(child) = child(&cudnn) else { return };
        let output = child.env("CUDNN_TRACE", &file).run(&[&format!("{name}:100"), "calls:10"]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
        let returned: usize = output.returned("returned").unwrap().parse().unwrap();
        let calls = named(&events(&file), "cudnnGetVersion").len();
        // The file may contain the call that the handler left.
        assert!((returned + 110..=returned + most + 10).contains(&calls), "{calls} {output:#?}");
    }
}

#[test]
fn every_process_writes_its_own_file() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let test = "every_process_writes_its_own_file, after a raw fork";
    let is_emulated = support::is_emulated(test, "an emulator does not clear pages in child processes");
    // A program that has closed all descriptors has lost the lock on the trace file.
    for (pattern, before, fork) in [
        ("trace.json", "calls:1", "fork"),
        ("trace.json", "close-all", "fork"),
        ("trace-%i.json", "calls:1", "fork"),
        ("trace.json", "calls:1", "raw-fork"),
    ] {
        if is_emulated && fork == "raw-fork" {
            continue;
        }
        let dir = TempDir::new();
        let Some(child) = child(&cudnn) else { return };
        let child = child.env("CUDNN_TRACE", dir.path().join(pattern));
        let output = child.run_successfully(&["calls:2", before, fork, "calls:3"]);
        let files = files(dir.path());
        assert_eq!(files.len(), 2, "{files:?}");
        let all = if before == "close-all" { 5 } else { 6 };
        let processes: BTreeMap<u64, usize> = files
            .iter()
            .map(|file| {
                let events = events(file);
                let processes: Vec<u64> = events.iter().map(|event| event["pid"].as_u64().unwrap()).collect();
                assert!(processes.iter().all(|process| *process == processes[0]), "{}", file.display());
                (processes[0], named(&events, "cudnnGetVersion").len())
            })
            .collect();
        let child: u64 = output.returned("child").unwrap().parse().unwrap();
        assert_eq!(processes.get(&child), Some(&3), "{processes:?} {output:#?}");
        assert!(processes.values().any(|calls| *calls == all), "{processes:?}");
    }
}

/// A daemon leaves the working directory, and the directory name may contain the placeholder for the process ID.
#[test]
fn relative_names_stay_in_the_directory_of_the_first_call() {
    let fake = fake_set();
    let (dir, other) = (TempDir::new(), TempDir::new());
    let start = dir.path().join("a%i");
    std::fs::create_dir(&start).unwrap();
    let Some(child) = child(fake.path()) else { return };
    let child =
        child.env("CUDNN_TRACE", "trace.json").env("CUDNN_TRACE_LINES", "lines").env("CUDNN_TRACE_SUMMARY", "summary");
    let (cd, leave) = (format!("cd:{}", start.display()), format!("cd:{}", other.path().display()));
    let output = child.run(&[&cd, "calls:2", &leave, "fork", "calls:1"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    let names = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
    // The two traces, the lines and the summary.
    assert_eq!((names(&start), names(other.path())), (4, 0), "{:?}", files(&start));
    assert_eq!(named(&events(&start.join("trace.json")), "cudnnGetVersion").len(), 3);
}

#[test]
fn a_file_that_another_process_writes_is_not_touched() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    // Also test without hard links, and in a sandbox where new glibc threads abort.
    for first in ["memory", "deny:link", "deny:rseq"] {
        let dir = TempDir::new();
        let file = dir.path().join("trace.json");
        // The process in the file is not running, so the file is replaced.
        std::fs::write(&file, "[\n{\"name\":\"process_name\",\"cat\":\"cudnn\",\"pid\":1").unwrap();
        let mark = |number: usize| dir.path().join(format!("{number}.called")).display().to_string();
        let run = |number: usize| {
            let wait = [0, 1, 2].map(|other| format!("exists:{}", mark(other)));
            let touch = format!("touch:{}", mark(number));
            let args = [first, "calls:500", &touch, &wait[0], &wait[1], &wait[2], "calls:1"];
            Some(child(&cudnn)?.env("CUDNN_TRACE", &file).run(&args))
        };
        let outputs: Vec<Option<ChildOutput>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|number| scope.spawn(move || run(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        if outputs.iter().any(Option::is_none) {
            return;
        }
        let mut files = files(dir.path());
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        assert_eq!(files.len(), 3, "{files:?} {outputs:#?}");
        assert!(files.contains(&file), "{files:?}");
        for file in files {
            assert_eq!(named(&events(&file), "cudnnGetVersion").len(), 501, "{}", file.display());
        }
    }
}

/// Asserts that a file that cannot grow is finished with one message, and the program continues.
fn assert_ended(output: &ChildOutput, reason: &str) {
    assert_eq!(output.code, Some(0), "{output:#?}");
    let messages: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("trace.json; the program continues without it"), "{messages:?}");
    assert!(messages[0].contains(reason), "{messages:?}");
}

#[test]
fn a_program_continues_if_the_file_cannot_grow() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let Some(limited) = child(&cudnn) else { return };
    let output = limited.env("CUDNN_TRACE", &file).run(&["limit:1000000", "threads:100", "memory"]);
    assert_ended(&output, "File too large");
    assert!(output.returned("memory").is_some());
    assert!(events_without_end(&file).len() > 1000);
    let Some(bounded) = child(&cudnn) else { return };
    let bounded = bounded.env("CUDNN_TRACE", &file).env("CUDNN_TRACE_LIMIT", "100K");
    assert_ended(&bounded.run(&["threads:20"]), "the limit of 102400 bytes");
    assert!((100_000..=102_400).contains(&std::fs::metadata(&file).unwrap().len()));
    let events = events(&file);
    let is_end =
        |event: &Value| event["name"].as_str().unwrap().contains("the trace ends here: the limit of 102400 bytes");
    assert!(events.len() > 100 && events.iter().filter(|event| is_end(event)).count() == 1, "{events:?}");
    let lines = dir.path().join("trace.txt");
    let Some(bounded) = child(&cudnn) else { return };
    let bounded = bounded.env("CUDNN_TRACE_LINES", &lines).env("CUDNN_TRACE_LIMIT", "50K");
    let output = bounded.run(&["threads:20"]);
    assert_eq!(output.stderr.matches("the limit of 51200 bytes is reached").count(), 1, "{output:#?}");
    let lines = std::fs::read_to_string(&lines).unwrap();
    let end = "ends here: the limit of 51200 bytes is reached (CUDNN_TRACE_LIMIT)\n";
    assert!((50_000..51_400).contains(&lines.len()) && lines.contains(end), "{}", lines.len());
}

/// A file system in an image or in memory, which is mounted on a directory and unmounted on drop.
struct Mounted(TempDir);

impl Mounted {
    /// Mounts the file system. If that fails, prints that the test did not run and returns `None`.
    fn new(test: &str, kind: &str) -> Option<Mounted> {
        let dir = TempDir::new();
        let (image, at) = (dir.path().join("image"), dir.path().join("mounted"));
        std::fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        if kind == "tmpfs" {
            mount.args(["-t", "tmpfs", "-o", "size=4M", "none"]);
        } else {
            std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
            let made = Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image).output();
            if !made.as_ref().is_ok_and(|made| made.status.success()) {
                support::not_run(test, &format!("mkfs.{kind}: {made:?}"));
                return None;
            }
            mount.args(["-o", "loop"]).arg(&image);
        }
        let mounted = mount.arg(&at).output();
        if !mounted.as_ref().is_ok_and(|mounted| mounted.status.success()) {
            support::not_run(test, &format!("{kind} cannot be mounted: {mounted:?}"));
            return None;
        }
        Some(Mounted(dir))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("mounted")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// On btrfs, every first write to a page of a file needs space, even if the page already exists.
#[test]
fn a_program_continues_if_the_disk_is_full() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let Some(_) = traced() else { return };
    for kind in ["tmpfs", "btrfs"] {
        let Some(disk) = Mounted::new("a_program_continues_if_the_disk_is_full", kind) else { continue };
        let file = disk.path().join("trace.json");
        let fill = format!("fill:{}", disk.path().join("other").display());
        let Some(child) = child(&cudnn) else { return };
        let output = child.env("CUDNN_TRACE", &file).run(&["calls:100", &fill, "threads:100"]);
        assert_ended(&output, "No space left");
        assert!(named(&events_without_end(&file), "cudnnGetVersion").len() >= 100);
    }
}

#[test]
fn a_file_may_be_truncated_while_it_is_written() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let truncate = format!("truncate:{}", file.display());
    let Some(child) = child(&cudnn) else { return };
    let output = child.env("CUDNN_TRACE", &file).run(&["calls:1000", &truncate, "calls:1000"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("\"cudnnGetVersion\"").count(), 1000);
}

/// Runs as root and as another user with fewer rights to open files.
#[test]
fn a_program_may_close_all_descriptors() {
    let fake = fake_set();
    let lib = TempDir::new();
    for name in ["libcudnn.so.9", "libcudnn_layers.so"] {
        std::fs::copy(drop_in().join("lib").join(name), lib.path().join(name)).unwrap();
    }
    for is_privileged in [true, false] {
        let dir = TempDir::new();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let file = dir.path().join("trace.json");
        let lines = dir.path().join("lines");
        let Some(child) = child(fake.path()) else { return };
        let child = child.env("LD_LIBRARY_PATH", lib.path());
        let child = child.env("CUDNN_TRACE", &file).env("CUDNN_TRACE_LINES", &lines);
        let child = if is_privileged { child } else { child.without_privileges() };
        // A file that reuses the descriptor numbers belongs to the program.
        let other = dir.path().join("other");
        let open = format!("keep-open:{}", other.display());
        let output = child.run(&["calls:1", "close-all", &open, "calls:2000", "close-all", "calls:1"]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
        assert_eq!(named(&events(&file), "cudnnGetVersion").len(), 2002);
        let lines = std::fs::read_to_string(lines).unwrap();
        assert_eq!(lines.matches(" cudnnGetVersion()\n").count(), 2002);
        assert_eq!(std::fs::metadata(other).unwrap().len(), 0);
    }
}

/// The first writing thread reopens the file. Others must not mistake its lock for another process's.
#[test]
fn threads_may_write_after_all_descriptors_were_closed() {
    let fake = fake_set();
    let dir = TempDir::new();
    let file = dir.path().join("trace.json");
    let Some(child) = child(fake.path()) else { return };
    let rounds = ["close-all", "threads:20"].repeat(10);
    let output = child.env("CUDNN_TRACE", &file).run(&[vec!["calls:1"], rounds].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    assert_eq!(named(&events(&file), "cudnnGetVersion").len(), 20_001);
}

/// A child that never calls cuDNN inherits the parent's descriptor, and with it the lock, until the child exits. The C
/// library's `fork` closes the descriptor.
#[test]
fn a_child_without_calls_does_not_disturb_its_parent() {
    let fake = fake_set();
    // The file of the next run replaces the first one, unless a child still has it open.
    for (fork, expected) in [("hold", [1, 3]), ("raw-hold", [2, 5])] {
        let dir = TempDir::new();
        let path = |name: &str| dir.path().join(name);
        let hold = format!("{fork}:{}", path("end").display());
        let Some(first) = child(fake.path()) else { return };
        let first = first.env("CUDNN_TRACE", path("trace.json"));
        let output = first.run(&["calls:1", &hold, "close-all", "calls:1"]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
        assert_eq!(named(&events(&path("trace.json")), "cudnnGetVersion").len(), 2);
        let Some(second) = child(fake.path()) else { return };
        let output = second.env("CUDNN_TRACE", path("trace.json")).run(&["calls:3"]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
        let files = files(dir.path());
        let calls: usize = files.iter().map(|file| named(&events(file), "cudnnGetVersion").len()).sum();
        assert_eq!([files.len(), calls], expected, "{fork}: {files:?}");
        std::fs::write(path("end"), "").unwrap();
    }
}

#[test]
fn a_file_that_cannot_be_written_disables_the_layer() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let link = dir.path().join("link");
    let target = dir.path().join("target");
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let data = dir.path().join("data.json");
    std::fs::write(&data, "[1, 2]").unwrap();
    let missing = dir.path().join("missing/trace.json");
    for file in [missing, dir.path().to_owned(), "/dev/null".into(), link, target.clone(), data.clone()] {
        let Some(child) = child(&cudnn) else { return };
        let output = child.env("CUDNN_TRACE", &file).run_successfully(&["calls:1"]);
        assert!(output.stderr.contains("layer \"trace\"") && output.stderr.contains("cannot write"), "{output:#?}");
    }
    assert!(Path::new("/dev/null").exists());
    assert_eq!(std::fs::read_to_string(target).unwrap(), "precious");
    assert_eq!(std::fs::read_to_string(data).unwrap(), "[1, 2]");
    assert_eq!(files(dir.path()).len(), 3);
}

#[test]
fn memory_does_not_grow_with_calls() {
    if support::is_emulated("memory_does_not_grow_with_calls", "an emulator takes memory for code") {
        return;
    }
    let Some(cudnn) = lib_dir(JIT) else { return };
    let dir = TempDir::new();
    let Some(child) = child(&cudnn) else { return };
    let child = child.env("CUDNN_TRACE", dir.path().join("trace.json"));
    let child = child.env("CUDNN_TRACE_SUMMARY", dir.path().join("summary"));
    let output = child.run(&["calls:2000", "memory", "calls:60000", "memory"]);
    let memory: Vec<u64> =
        output.stdout.lines().filter_map(|line| line.strip_prefix("memory = ")?.parse().ok()).collect();
    assert!(memory.len() == 2 && memory[1] < memory[0] + 200, "{output:#?}");
}

#[test]
fn lines_are_complete() {
    let fake = fake_set();
    let dir = TempDir::new();
    let file = dir.path().join("lines-%i");
    let Some(child) = child(fake.path()) else { return };
    child.env("CUDNN_TRACE_LINES", &file).run_successfully(&["execute:1"]);
    let text = std::fs::read_to_string(&files(dir.path())[0]).unwrap();
    let line = text.lines().find(|line| line.contains("cudnnBackendExecute(")).unwrap();
    assert!(line.starts_with("cudnn-trace "), "{line}");
    assert!(
        line.ends_with(
            "us cudnnBackendExecute(handle: cudnnHandle_t = 0x1000, executionPlan: cudnnBackendDescriptor_t = 0x2000, \
             variantPack: cudnnBackendDescriptor_t = 0x3000) = CUDNN_STATUS_SUCCESS (0), stream 0x77"
        ),
        "{line}"
    );
}

#[test]
fn without_another_output_a_summary_is_printed_at_exit() {
    let Some(cudnn) = lib_dir(JIT) else { return };
    let Some(child) = child(&cudnn) else { return };
    let output = child.run(&["calls:100", "fork", "calls:10"]);
    let summaries: Vec<&str> = output.stderr.split("cudnn-trace summary for process ").skip(1).collect();
    assert_eq!(summaries.len(), 2, "{output:#?}");
    // The child exits first, and the parent's calls are not counted for the child.
    for (summary, calls) in summaries.iter().zip(["10", "110"]) {
        let row = summary.lines().find(|line| line.ends_with("  cudnnGetVersion")).unwrap();
        assert_eq!(row.split_whitespace().next(), Some(calls), "{summary}");
    }
    assert!(summaries[1].contains("libcudnn_graph.so.9 was loaded in "), "{output:#?}");
}

#[test]
fn the_name_of_a_program_cannot_forge_lines_of_summaries() {
    let fake = fake_set();
    let Some(client) = traced() else { return };
    let dir = TempDir::new();
    let program = dir.path().join("a\u{1b}[31m\nb");
    support::copy_program(client.path().join("client"), &program);
    let output = Child::bare(program)
        .env("LD_LIBRARY_PATH", drop_in().join("lib"))
        .env("CUDNN_LOADER_DIR", fake.path())
        .env("CUDNN_LAYERS", "trace")
        .run(&["calls:1"]);
    assert_eq!(output.stderr.matches(", a\\u{1b}[31m\\nb (cuDNN 9.19.0)").count(), 1, "{output:#?}");
    assert!(!output.stderr.contains('\u{1b}'), "{output:#?}");
}

fn compile_library(code: &str, file: &Path) {
    let source = file.with_extension("c");
    std::fs::write(&source, code).unwrap();
    let mut compiler = c_compiler();
    compiler.args(["-shared", "-fPIC", "-w"]).arg(source).arg("-o").arg(file);
    let soname = file.file_name().unwrap().to_str().unwrap();
    run_compiler(compiler.arg(format!("-Wl,-soname,{soname}")));
}

const TOOL: &str = r#"
#include <stdio.h>
struct table { size_t size; int (*module)(int, void ****, unsigned *); };
static int depth;
static int push(const char *name) { printf("push %s\n", name); return depth++; }
static int pop(void) { printf("pop\n"); return --depth; }
int InitializeInjectionNvtx2(const void *(*get)(unsigned)) {
    const struct table *table = get(1);
    void ***functions;
    unsigned size;
    if (!table || !table->module(1, &functions, &size) || size != 16) return 0;
    *functions[9] = push;
    *functions[11] = pop;
    return 1;
}
"#;

#[test]
fn an_attached_nvtx_tool_receives_ranges() {
    let fake = fake_set();
    let dir = TempDir::new();
    let tool = dir.path().join("libtool.so");
    compile_library(TOOL, &tool);
    let Some(child) = child(fake.path()) else { return };
    let output = child.env("NVTX_INJECTION64_PATH", &tool).run(&["execute:1"]);
    assert_eq!(output.stdout, "push cudnnSetStream\npop\npush cudnnBackendExecute\npop\n", "{output:#?}");
    // The system's loader would wait for the writer of a named pipe.
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let Some(child) = self::child(fake.path()) else { return };
    let output = child.env("NVTX_INJECTION64_PATH", &pipe).run(&["execute:1"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{output:#?}");
}
