//! Tests that commands need bounded time and memory for huge, hostile or endless input.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cudnn_probe::Library;
use support::{FakeLibrary, TempDir, Version, compile, write_program};

const DOCTOR: &str = env!("CARGO_BIN_EXE_cudnn-doctor");
const VERSION: Version = Version::new(9, 19, 0);

/// Runs a command within this time. Returns the exit status and stdout.
fn within(seconds: u64, command: &mut Command) -> (Option<i32>, String) {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code(), reader.join().unwrap());
        }
        if start.elapsed() > Duration::from_secs(seconds) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} takes more than {seconds} s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(DOCTOR);
    command.args(arguments).env_clear();
    if arguments.first() == Some(&"check") {
        command.arg("--verbose");
    }
    command
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pid_reads_each_file_of_a_process_with_thousands_once() {
    let dir = TempDir::new();
    let program = dir.path().join("program");
    let code = "#include <fcntl.h>\n#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>\n
        int main(void) {
            char name[64];
            for (int i = 0; i < 6000; i++) {
                snprintf(name, sizeof name, \"libcudnn_%d.so\", i);
                int file = open(name, O_CREAT | O_RDWR, 0644);
                if (ftruncate(file, 4096)) return 1;
                mmap(0, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_SHARED, file, 0);
                close(file);
            }
            puts(\"ready\");
            fflush(stdout);
            pause();
        }";
    compile(code, &[], &program);
    let child = Command::new(&program).current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    running.0.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
    let (code, stdout) = within(20, &mut doctor(&["pid", &running.0.id().to_string()]));
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("has mapped 6000 files named like cuDNN's and CUDA's: 256 were read"), "{stdout}");
}

#[test]
fn log_reads_a_long_file_with_a_hole_in_little_memory() {
    let dir = TempDir::new();
    let file = dir.path().join("cudnn.log");
    let error = "\nE! CuDNN (v91900 56) function cudnnCreate() called:\n\
                 e!     Info: Traceback contains 1 message(s)\n\
                 e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: at the end\n\
                 e! Process=1; Thread=1; GPU=NULL; Handle=NULL; StreamId=NULL.\n\n";
    // The log has a hole that reads as zeros and a line longer than the available memory before the only error.
    let mut log = std::fs::File::create(&file).unwrap();
    log.set_len(160 << 20).unwrap();
    std::io::Seek::seek(&mut log, std::io::SeekFrom::End(0)).unwrap();
    for _ in 0..160 {
        log.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    log.write_all(error.as_bytes()).unwrap();
    // Limits the address space, in KiB.
    let script = format!("ulimit -v 131072; exec {DOCTOR} log {}", file.display());
    let (code, stdout) = within(60, Command::new("/bin/sh").args(["-c", &script]).env_clear());
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("1 error") && stdout.contains("at the end"), "{stdout}");
}

#[test]
fn log_rejects_an_endless_file() {
    let dir = TempDir::new();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for file in ["/proc/kmsg", "/dev/zero", pipe.to_str().unwrap()] {
        let (code, stdout) = within(10, &mut doctor(&["log", file]));
        assert!(code == Some(3) || (file == "/proc/kmsg" && code == Some(0)), "{file}: {code:?} {stdout}");
    }
}

/// Files in /proc look regular, but reads of some of them block.
#[test]
fn no_command_waits_for_a_file_in_proc_instead_of_cudnn() {
    let dir = TempDir::new();
    for library in [Library::Graph, Library::EnginesRuntimeCompiled] {
        FakeLibrary::new(library, VERSION).build(&dir.file(library));
    }
    std::os::unix::fs::symlink("/proc/kmsg", dir.file(Library::Shim)).unwrap();
    let shim = dir.file(Library::Shim);
    for arguments in [&["check"][..], &["check", "--no-load"], &["check", "--verify"], &["explain"], &["list"]] {
        let mut command = doctor(arguments);
        command.env("LD_LIBRARY_PATH", dir.path());
        let (code, stdout) = within(20, &mut command);
        assert!(matches!(code, Some(2 | 3)), "{arguments:?}: {code:?} {stdout}");
    }
    let _ = within(20, &mut doctor(&["explain", shim.to_str().unwrap()]));
}

#[test]
fn check_does_not_wait_for_a_grandchild_that_holds_its_pipe() {
    let dir = TempDir::new();
    let code = "int fork(void); unsigned sleep(unsigned); void _exit(int);
        __attribute__((constructor)) static void construct(void) { if (!fork()) { sleep(30); _exit(0); } }";
    FakeLibrary::new(Library::Graph, VERSION).with_code(code).build(&dir.file(Library::Graph));
    let (code, stdout) = within(20, doctor(&["check"]).env("CUDNN_LOADER_DIR", dir.path()));
    assert!(matches!(code, Some(0..=2)), "{stdout}");
}

#[test]
fn explain_follows_a_run_path_of_any_length() {
    let dir = TempDir::new();
    let last = dir.path().join("last");
    std::fs::create_dir(&last).unwrap();
    FakeLibrary::new(Library::Shim, VERSION).build(&last.join("libcudnn.so.9"));
    let mut run_path: Vec<String> = (0..300).map(|number| format!("/nix/store/{number:040}/lib")).collect();
    run_path.push("$ORIGIN/last".into());
    let program = dir.path().join("program");
    let flag = format!("-Wl,-rpath,{}", run_path.join(":"));
    let shim = last.join("libcudnn.so.9");
    compile("int main(void) { return 0; }", &["-Wl,--no-as-needed", &flag, shim.to_str().unwrap()], &program);
    let (_, stdout) = within(20, &mut doctor(&["explain", program.to_str().unwrap()]));
    assert!(stdout.contains("last/libcudnn.so.9: RUNPATH of program"), "{stdout}");
}

/// Returns a library with only a dynamic section.
fn elf(soname: &str, needed: &[String], run_path: &str) -> Vec<u8> {
    const HEADERS: u64 = 64 + 2 * 56;
    let mut strings = vec![0];
    let mut string = |text: &str| {
        let offset = strings.len() as u64;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        offset
    };
    // DT_SONAME, DT_RUNPATH, DT_NEEDED.
    let mut entries = vec![(14, string(soname)), (29, string(run_path))];
    entries.extend(needed.iter().map(|name| (1, string(name))));
    let dynamic_len = 16 * (entries.len() as u64 + 3);
    let total = HEADERS + dynamic_len + strings.len() as u64;
    // DT_STRTAB, DT_STRSZ, DT_NULL.
    entries.extend([(5, HEADERS + dynamic_len), (10, strings.len() as u64), (0, 0)]);
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
    file.extend(machine.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for number in [0u64, 64, 0] {
        file.extend(number.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for number in [64u16, 56, 2, 0, 0, 0] {
        file.extend(number.to_le_bytes());
    }
    // PT_LOAD and PT_DYNAMIC.
    for (kind, start, len, alignment) in [(1u32, 0, total, 4096u64), (2, HEADERS, dynamic_len, 8)] {
        file.extend(kind.to_le_bytes());
        file.extend(4u32.to_le_bytes());
        for number in [start, start, start, len, len, alignment] {
            file.extend(number.to_le_bytes());
        }
    }
    for (tag, value) in entries {
        file.extend(u64::to_le_bytes(tag));
        file.extend(u64::to_le_bytes(value));
    }
    file.extend(strings);
    file
}

#[test]
fn explain_of_hostile_libraries_terminates() {
    let dir = TempDir::new();
    let names = |prefix: &str| -> Vec<String> { (0..1000).map(|number| format!("{prefix}{number}")).collect() };
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(dir.path().join(name), bytes).unwrap();
    for name in names("mesh") {
        write(&name, elf(&name, &names("mesh"), "$ORIGIN"));
    }
    // The run paths have thousands of directories or very long names, and there are a thousand dependencies.
    write("dirs", elf("dirs", &names("absent"), &vec!["$ORIGIN/x"; 4096].join(":")));
    write("long", elf("long", &names("absent"), &vec!["$ORIGIN".repeat(500); 270].join(":")));
    for (file, lookup) in [("mesh0", "mesh"), ("dirs", "absent999"), ("long", "absent999")] {
        let path = dir.path().join(file);
        let (code, stdout) = within(30, &mut doctor(&["explain", path.to_str().unwrap()]));
        assert!(matches!(code, Some(0 | 2)), "{file}: {code:?}");
        assert!(stdout.contains(lookup), "{file}: {stdout}");
    }
}

#[test]
fn fetch_and_demo_run_no_module_of_the_working_directory() {
    let dir = TempDir::new();
    let marker = dir.path().join("ran");
    for module in ["pip.py", "json.py", "runpy.py", "sitecustomize.py", "encodings.py"] {
        std::fs::write(dir.path().join(module), format!("open({:?}, 'w')\n", marker.display().to_string())).unwrap();
    }
    let cache = TempDir::new();
    let into = cache.path().join("into");
    for arguments in
        [&["fetch", "jit-cu12-9.19.0"][..], &["fetch", "jit-cu12-9.19.0", "--into", into.to_str().unwrap()], &["demo"]]
    {
        let mut command = doctor(arguments);
        command.current_dir(dir.path()).env("CUDNN_FETCH_CACHE", cache.path()).env("HOME", cache.path());
        // pip fails immediately.
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("PIP_NO_INDEX", "1");
        let _ = within(60, &mut command);
        assert!(!marker.exists(), "{arguments:?}");
    }
    assert!(Path::new(&dir.path().join("pip.py")).exists());
}

struct Machine {
    cudnn: TempDir,
    driver: TempDir,
}

impl Machine {
    /// Creates a working cuDNN, and a library with this name and code.
    fn new(name: &str, code: &str) -> Machine {
        let (cudnn, driver) = (TempDir::new(), TempDir::new());
        FakeLibrary::new(Library::Graph, VERSION).build(&cudnn.file(Library::Graph));
        let flags = ["-shared", "-fPIC", "-w", &format!("-Wl,-soname,{name}")];
        compile(code, &flags, &driver.path().join(name));
        Machine { cudnn, driver }
    }

    fn doctor(&self, arguments: &[&str]) -> Command {
        let mut command = doctor(arguments);
        command.env("CUDNN_LOADER_DIR", self.cudnn.path()).env("LD_LIBRARY_PATH", self.driver.path());
        command
    }
}

fn check_with_driver(code: &str) -> String {
    within(60, &mut Machine::new("libcuda.so.1", code).doctor(&["check"])).1
}

fn constructor(code: &str) -> String {
    format!(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n#include <unistd.h>\n
         __attribute__((constructor)) static void construct(void) {{ {code} }}"
    )
}

fn errors(seconds: u64, command: &mut Command) -> (Option<i32>, String) {
    let dir = TempDir::new();
    let file = dir.path().join("stderr");
    let mut script = Command::new("/bin/sh");
    script
        .args(["-c", "exec \"$@\" 2> \"$FILE\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    script.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("FILE", &file);
    let (code, _) = within(seconds, &mut script);
    (code, std::fs::read_to_string(&file).unwrap())
}

#[test]
fn a_driver_that_hangs_is_named_and_not_tried_again() {
    for code in ["pause();", "for (volatile int i = 0;; i++) {}"] {
        let machine = Machine::new("libcuda.so.1", &constructor(code));
        let (status, text) = within(4, &mut machine.doctor(&["check", "--timeout", "1"]));
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains("C003") && text.contains("no progress for 1 s"), "{text}");
        assert!(text.contains("while it opened libcuda.so.1") && !text.contains("C050"), "{text}");
    }
    let machine = Machine::new("libcuda.so.1", &constructor("pause();"));
    // After `preload` hangs, a second child process opens only the driver.
    let (status, text) = errors(8, &mut machine.doctor(&["preload", "--timeout", "1"]));
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("error: the driver hung: the process made no progress for 1 s"), "{text}");
    assert!(text.contains("a process that only opened libcuda.so.1"), "{text}");
    let (status, text) = errors(8, &mut machine.doctor(&["demo", "--offline", "--timeout", "1"]));
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("while it started the driver") && text.contains("nvidia-smi"), "{text}");
}

/// Docker's health checks know only two statuses.
#[test]
fn the_health_check_of_the_guide_ends_if_the_driver_hangs() {
    let guide = include_str!("../../../docs/guide/upgrade-gate.md");
    let instruction = guide.split("HEALTHCHECK").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (_, check) = instruction.split_once("CMD ").unwrap();
    assert!(check.contains("--timeout 20"), "{check}");
    let check = check.replace("--timeout 20", "--timeout 1");
    let bin = TempDir::new();
    let run = |machine: Option<&Machine>| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &check]).env_clear().env("PATH", bin.path());
        if let Some(machine) = machine {
            shell.env("CUDNN_LOADER_DIR", machine.cudnn.path()).env("LD_LIBRARY_PATH", machine.driver.path());
        }
        shell.output().unwrap()
    };
    let doctor = bin.path().join("cudnn-doctor");
    for (status, expected) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        write_program(&doctor, format!("#!/bin/sh\nexit {status}\n"));
        assert_eq!(run(None).status.code(), Some(expected), "{status}");
    }
    std::fs::remove_file(&doctor).unwrap();
    std::os::unix::fs::symlink(DOCTOR, &doctor).unwrap();
    // The library writes the id of the process that hangs.
    let file = bin.path().join("process");
    let code = format!(
        "FILE *file = fopen({:?}, \"w\"); fprintf(file, \"%d\", getpid()); fclose(file); pause();",
        file.display().to_string()
    );
    let output = run(Some(&Machine::new("libcuda.so.1", &constructor(&code))));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && text.contains("C003") && text.contains("no progress for 1 s"), "{text}");
    let process = std::fs::read_to_string(&file).unwrap();
    assert!(std::fs::read_link(format!("/proc/{process}/exe")).is_err(), "{process} still exists");
}

#[test]
fn a_hanging_driver_costs_ten_seconds_by_default() {
    let machine = Machine::new("libcuda.so.1", &constructor("pause();"));
    let start = Instant::now();
    let (_, text) = within(20, &mut machine.doctor(&["check"]));
    assert!(text.contains("C003") && start.elapsed() > Duration::from_secs(9), "{text}");
}

#[test]
fn a_slow_disk_does_not_count_as_a_hang() {
    // Reads slowly, for twice the time that is allowed without progress.
    let code = "char c; int file = open(\"/proc/self/exe\", 0);
        for (int i = 0; i < 40; i++) { pread(file, &c, 1, 0); usleep(50000); }";
    let machine =
        Machine::new("libcuda.so.1", &format!("{}\nint cuInit(int flags) {{ return 0; }}", constructor(code)));
    let (_, text) = within(20, &mut machine.doctor(&["check", "--timeout", "1"]));
    assert!(["C001", "C003", "C050"].iter().all(|code| !text.contains(code)), "{text}");
}

#[test]
fn a_cudnn_that_hangs_is_named_with_its_library() {
    let machine = Machine::new("libother.so", "");
    let code = constructor("pause();");
    FakeLibrary::new(Library::Ops, VERSION).with_code(&code).build(&machine.cudnn.cleared(Library::Ops));
    let (status, text) = within(4, &mut machine.doctor(&["check", "--timeout", "1"]));
    assert!(status == Some(2) && text.contains("C050"), "{text}");
    assert!(text.contains("while it loaded libcudnn_ops.so.9") && text.contains("--timeout 600"), "{text}");
    let (status, text) = errors(8, &mut machine.doctor(&["demo", "--offline", "--timeout", "1"]));
    assert!(status == Some(2) && text.contains("error: cuDNN hung: the process made no progress for 1 s"), "{text}");
}

#[test]
fn a_child_exits_with_its_parent() {
    let marker = TempDir::new();
    let file = marker.path().join("process");
    let code = format!(
        "FILE *file = fopen({:?}, \"w\"); fprintf(file, \"%d\", getpid()); fclose(file); pause();",
        file.display().to_string()
    );
    let machine = Machine::new("libcuda.so.1", &constructor(&code));
    let mut parent = Running(machine.doctor(&["check"]).stdout(Stdio::null()).spawn().unwrap());
    let wait = |is_done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_done() && start.elapsed() < Duration::from_secs(8) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_done());
    };
    let process = || std::fs::read_to_string(&file).unwrap_or_default();
    wait(&|| !process().is_empty());
    parent.0.kill().unwrap();
    parent.0.wait().unwrap();
    // A zombie has no executable.
    wait(&|| std::fs::read_link(format!("/proc/{}/exe", process())).is_err());
}

#[test]
fn a_driver_that_crashes_is_blamed_instead_of_cudnn() {
    let text = check_with_driver(&constructor("abort();"));
    assert!(text.contains("C003") && text.contains("was ended by signal 6 (SIGABRT)"), "{text}");
    assert!(text.contains("while it opened libcuda.so.1") && !text.contains("C050"), "{text}");
    let start = "#include <stdlib.h>\nint cuInit(int flags) { abort(); }";
    let text = check_with_driver(start);
    assert!(text.contains("C003") && text.contains("while it started the driver (cuInit)"), "{text}");
    let machine = Machine::new("libcuda.so.1", &constructor("abort();"));
    let (status, text) = errors(8, &mut machine.doctor(&["preload"]));
    assert!(status == Some(2) && text.contains("error: the driver crashed"), "{text}");
}

#[test]
fn a_crash_after_a_megabyte_of_output_is_one_short_note() {
    let code =
        "for (int i = 0; i < 1100000; i++) fputc(i % 7 ? 'x' : 27, stderr); fputs(\" the end\", stderr); abort();";
    let machine = Machine::new("libother.so", "");
    FakeLibrary::new(Library::Ops, VERSION).with_code(&constructor(code)).build(&machine.cudnn.cleared(Library::Ops));
    let (_, text) = within(20, &mut machine.doctor(&["check"]));
    assert!(text.contains("C050") && text.contains("the end"), "{} bytes", text.len());
    assert!(text.len() < 20_000 && !text.contains('\x1b'), "{} bytes", text.len());
}

#[test]
fn a_library_that_prints_a_lot_does_not_hide_the_result() {
    let code = "for (int i = 0; i < 3000000; i++) putchar(i % 80 ? '{' : '\\n');";
    let machine = Machine::new("libother.so", "");
    FakeLibrary::new(Library::Ops, VERSION).with_code(&constructor(code)).build(&machine.cudnn.cleared(Library::Ops));
    let (_, text) = within(20, &mut machine.doctor(&["check"]));
    assert!(!text.contains("C050"), "{text}");
}

/// Limits the address space, in KiB.
fn limited(machine: &Machine, arguments: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("ulimit -v 2000000; exec {DOCTOR} {arguments}")]).env_clear();
    command.env("CUDNN_LOADER_DIR", machine.cudnn.path()).env("LD_LIBRARY_PATH", machine.driver.path());
    command
}

#[test]
fn insufficient_memory_is_not_blamed_on_cudnn() {
    let refused = "mmap(0, 4l << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED";
    for message in ["terminate called after throwing an instance of 'std::bad_alloc'", ""] {
        let code = constructor(&format!("if ({refused}) {{ fputs(\"{message}\", stderr); abort(); }}"));
        let machine = Machine::new("libother.so", "");
        FakeLibrary::new(Library::Graph, VERSION).with_code(&code).build(&machine.cudnn.cleared(Library::Graph));
        let (status, text) = within(20, &mut limited(&machine, "check --verbose"));
        assert!(status == Some(2) && text.contains("C054") && !text.contains("C050"), "{text}");
        assert!(text.contains("is limited to 2048 MB") && text.contains("ulimit -v unlimited"), "{text}");
        assert_eq!(text.contains("probably"), message.is_empty(), "{text}");
        for arguments in ["demo --offline", "preload --no-context"] {
            let (status, text) = errors(20, &mut limited(&machine, arguments));
            assert!(status == Some(2) && text.contains("ran out of memory: "), "{arguments}: {text}");
        }
        let (_, text) = within(20, &mut machine.doctor(&["check"]));
        assert!(!text.contains("C054") && !text.contains("C050"), "{text}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let dir = TempDir::new();
    let log = dir.path().join("cudnn.log");
    std::fs::write(&log, "").unwrap();
    let (log, process) = (log.to_str().unwrap(), std::process::id().to_string());
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["help", "check"],
        &["check", "--no-load"],
        &["check", "--no-load", "--json"],
        &["list"],
        &["list", "--json"],
        &["explain", "/bin/sh"],
        &["pid", &process],
        &["demo", "--offline"],
        &["env", "--json"],
        &["fetch"],
        &["preload", "--json"],
        &["log", log],
        &["facts"],
        &["man"],
        &["completions", "bash"],
    ] {
        let run = |stdout: Stdio| {
            let mut command = doctor(arguments);
            let output =
                command.env("CUDNN_LOADER_DIR", "/nowhere").stdout(stdout).stderr(Stdio::piped()).output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, stderr) = run(std::fs::File::create("/dev/full").unwrap().into());
        assert_eq!(code, Some(3), "{arguments:?}: {stderr}");
        assert_eq!(
            stderr.matches("cannot write the output: No space left on device").count(),
            1,
            "{arguments:?}: {stderr}"
        );
        // For a closed pipe, the doctor exits silently with the status of SIGPIPE.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, stderr) = run(writer.into());
        assert_eq!(code, Some(141), "{arguments:?}: {stderr}");
        assert!(stderr.lines().all(|line| line.starts_with("There is no usable cuDNN")), "{arguments:?}: {stderr}");
        let mut command = Command::new("sh");
        command.args(["-c", "\"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_cudnn-doctor")]).args(arguments);
        let output = command.env("CUDNN_LOADER_DIR", "/nowhere").stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {stderr}");
        assert_eq!(
            stderr.matches("cannot write the output: Bad file descriptor").count(),
            1,
            "{arguments:?}: {stderr}"
        );
    }
}

/// std opens an empty file in place of a closed stream.
#[test]
fn a_closed_standard_input_is_no_empty_log() {
    for (stream, code, expected) in
        [("<&-", 3, "cannot read the standard input: it is closed\n"), ("</dev/null", 0, "")]
    {
        let mut command = Command::new("sh");
        let script = format!("\"$0\" log - {stream}");
        let output = command.args(["-c", &script, env!("CARGO_BIN_EXE_cudnn-doctor")]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stream}: {stderr}");
        assert!(stderr.ends_with(expected), "{stream}: {stderr}");
    }
}

/// A write beyond the file size limit is an output error rather than a signal that kills the doctor.
#[test]
fn a_file_size_limit_is_reported_as_an_output_error() {
    let dir = TempDir::new();
    let script = "ulimit -f 0; exec \"$0\" facts > \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_cudnn-doctor")]).arg(dir.path().join("output"));
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("cannot write the output: File too large"), "{stderr}");
}

#[test]
fn check_tests_whether_the_driver_works() {
    let stub = check_with_driver("int cuInit(int flags) { return 34; }");
    assert!(stub.contains("C001") && stub.contains("cuInit returned 34"), "{stub}");
    assert!(stub.contains("is a stub for linking"), "{stub}");
    let other = check_with_driver("int cuInit(int flags) { return 999; }");
    assert!(other.contains("C001") && other.contains("cuInit returned 999"), "{other}");
    let empty = check_with_driver("int nothing;");
    assert!(empty.contains("C001"), "{empty}");
}

#[test]
fn a_library_that_exits_during_the_load_test_is_reported() {
    let code = "void _exit(int); __attribute__((constructor)) static void construct(void) { _exit(0); }";
    let text = check_with_driver(code);
    assert!(text.contains("C003") && text.contains("was ended by a library, with status 0"), "{text}");
}

/// An empty element of LD_LIBRARY_PATH means the working directory.
#[test]
fn check_runs_no_library_of_the_working_directory() {
    let (dir, cudnn) = (TempDir::new(), TempDir::new());
    FakeLibrary::new(Library::Graph, VERSION).build(&cudnn.file(Library::Graph));
    let trace = dir.path().join("was-run");
    let code = format!(
        "int creat(const char *, int); __attribute__((constructor)) static void construct(void) {{ creat(\"{}\", 0600); }}",
        trace.display()
    );
    for name in ["libnvidia-ml.so.1", "libcuda.so.1"] {
        compile(&code, &["-shared", "-fPIC", &format!("-Wl,-soname,{name}")], &dir.path().join(name));
    }
    for options in [&["check"][..], &["check", "--no-load"], &["demo", "--offline"], &["preload"]] {
        let mut command = doctor(options);
        command.current_dir(dir.path()).env("CUDNN_LOADER_DIR", cudnn.path()).env("LD_LIBRARY_PATH", ":/nowhere");
        within(60, &mut command);
        assert!(!trace.exists(), "{options:?}");
    }
}

#[test]
fn pid_escapes_hostile_names() {
    const HOSTILE: &str = "x\x1b[31m\x1b]0;t\x07\nerror: FORGED\u{202e}y\u{2066}\u{9b}z\u{200b}";
    let dir = TempDir::new();
    let hostile = dir.path().join(HOSTILE);
    std::fs::create_dir(&hostile).unwrap();
    // ld.so lists one library with a hostile path and SONAME. The other is only mapped.
    let loaded = hostile.join("libcudnn_graph.so.9");
    FakeLibrary::new(Library::Graph, VERSION).with_soname(HOSTILE).build(&loaded);
    let mapped = hostile.join(format!("libcudnn_{HOSTILE}.so"));
    std::fs::write(&mapped, "no library").unwrap();
    let program = dir.path().join("program");
    let code =
        "#include <dlfcn.h>\n#include <fcntl.h>\n#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>\n
        int main(int count, char **args) {
            if (!dlopen(args[1], RTLD_NOW)) { puts(dlerror()); return 1; }
            mmap(0, 4096, PROT_READ, MAP_SHARED, open(args[2], O_RDONLY), 0);
            puts(\"ready\");
            fflush(stdout);
            pause();
        }";
    compile(code, &["-ldl"], &program);
    let child = Command::new(&program).arg(&loaded).arg(&mapped).stdout(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    running.0.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
    let id = running.0.id().to_string();
    for arguments in [&["pid", &id][..], &["pid", &id, "--json"]] {
        let output = doctor(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let is_unsafe = |c: char| c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{200b}".contains(c));
        assert!(!text.contains(is_unsafe), "{text:?}");
        assert!(text.contains("libcudnn_graph.so.9") && text.contains("FORGED"), "{text}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("error: FORGED")), "{text}");
    }
}

#[test]
fn a_binary_log_is_rejected_quickly() {
    let dir = TempDir::new();
    let log = dir.path().join("cudnn.log");
    for (written, expected) in [(0, "it is one hole"), (5 << 20, "this is not a cuDNN log")] {
        let mut file = std::fs::File::create(&log).unwrap();
        file.write_all(&vec![0; written]).unwrap();
        file.set_len(20 << 30).unwrap();
        let (status, text) = errors(5, &mut doctor(&["log", log.to_str().unwrap()]));
        assert!(status == Some(3) && text.contains(expected), "{text}");
    }
}

#[test]
fn an_nvml_that_exits_the_process_is_reported() {
    let code = "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { exit(0); }\n";
    let machine = Machine::new("libnvidia-ml.so.1", code);
    let (_, text) = within(20, &mut machine.doctor(&["check", "--no-load"]));
    assert!(text.contains("C001") && text.contains("the library terminated the child process with status 0"), "{text}");
}

#[test]
fn an_impossible_process_id_is_rejected_with_the_valid_range() {
    let (status, text) = errors(5, &mut doctor(&["pid", "4294967296"]));
    assert!(status == Some(3) && text.contains("4194304"), "{text}");
}

/// A sandbox may return any result.
#[test]
fn a_system_without_random_numbers_is_reported() {
    let dir = TempDir::new();
    for (error, works) in [("EIO", false), ("EPERM", true), ("ENOSYS", true)] {
        let library = dir.path().join(format!("{error}.so"));
        let code = format!("#include <errno.h>\nlong getrandom(void) {{ errno = {error}; return -1; }}\n");
        compile(&code, &["-shared", "-fPIC"], &library);
        for arguments in [&["check", "--no-load"][..], &["list"], &["frameworks"]] {
            let output = doctor(arguments).env("LD_PRELOAD", &library).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code() == Some(3), !works, "{error} {arguments:?}: {output:?}");
            assert_eq!(stderr.contains("random"), !works, "{error} {arguments:?}: {stderr}");
            assert!(!stderr.contains("panicked"), "{error} {arguments:?}: {stderr}");
        }
    }
}
