//! Tests `run`: programs with and without the drop-in, and properties that must not change.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod beside;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};

use beside::Prefix;
use support::{FOREIGN, PythonEnvironment, TempDir, lib_dir, not_run, write_program};

fn command(prefix: &Prefix, arguments: &[&str]) -> Command {
    let arguments: Vec<&OsStr> = ["run"].iter().chain(arguments).map(OsStr::new).collect();
    prefix.command(&arguments)
}

fn run(prefix: &Prefix, arguments: &[&str]) -> Output {
    command(prefix, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Prints which `libcudnn.so.9` a program gets by name.
const WHOSE: &str = "
import ctypes
cudnn = ctypes.CDLL('libcudnn.so.9')
cudnn.cudnnGetVersion.restype = ctypes.c_size_t
print(hasattr(cudnn, 'cudnnShimGetVersion'), cudnn.cudnnGetVersion())
";

#[test]
fn a_program_gets_the_drop_in_and_its_usual_cudnn() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let prefix = Prefix::new();
    let mut python = command(&prefix, &["--", "python3", "-c", WHOSE]);
    let output = python.env("LD_LIBRARY_PATH", &release).output().unwrap();
    assert_eq!(text(&output.stdout), "True 91900\n", "{output:?}");
}

#[test]
fn the_doctor_replaces_itself_with_the_program() {
    let prefix = Prefix::new();
    let mut shell = command(&prefix, &["--", "sh", "-c", "echo $$; grep Sig... /proc/self/status; kill -TERM $$"]);
    let child = shell.stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().next(), Some(id.to_string().as_str()));
    assert_eq!(output.status.signal(), Some(15));
    // `run` must not ignore or block more signals. For example, a closed pipe kills the program.
    let signals = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!(signals("SigBlk:"), "0000000000000000");
    let ignored = u64::from_str_radix(&signals("SigIgn:"), 16).unwrap();
    assert_eq!(ignored & 1 << (13 - 1), 0, "{printed}");
    for status in [0, 1, 3, 42, 255] {
        let output = run(&prefix, &["--", "sh", "-c", &format!("exit {status}")]);
        assert_eq!(output.status.code(), Some(status));
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    }
}

/// Writes what a process has inherited to a file, except the variables that `run` sets.
const INHERITED: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **arguments, char **variables) {
    char targets[64][256] = {{0}}, dir[256];
    for (int file = 0; file < 64; file++) {
        char link[32];
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        readlink(link, targets[file], 255);
    }
    FILE *to = fopen(arguments[1], "w");
    for (int file = 0; file < 64; file++)
        if (targets[file][0])
            fprintf(to, "file %d: %s\n", file, targets[file]);
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int signal = 1; signal <= 64; signal++) {
        struct sigaction action;
        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            fprintf(to, "ignored: %d\n", signal);
        if (sigismember(&blocked, signal) == 1)
            fprintf(to, "blocked: %d\n", signal);
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int orphans = 0, death = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &orphans);
    prctl(PR_GET_PDEATHSIG, &death);
    fprintf(to, "%s %d in %s\n", arguments[0], count, getcwd(dir, sizeof dir));
    fprintf(to, "umask %o, niceness %d, files %ld of %ld, prctl %d %d\n", umask(0), getpriority(PRIO_PROCESS, 0),
            (long)limit.rlim_cur, (long)limit.rlim_max, orphans, death);
    for (; *variables; variables++)
        if (strncmp(*variables, "LD_PRELOAD=", 11) && strncmp(*variables, "CUDNN_", 6))
            fprintf(to, "%s\n", *variables);
    return fclose(to);
}
"#;

/// Changes what children inherit, between fork and exec.
type Change = fn();

#[test]
fn a_program_inherits_what_the_doctor_has_inherited() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    let (program, report) = (dir.path().join("program"), dir.path().join("report"));
    support::compile(INHERITED, &["-w"], &program);
    let ignore_signals = || {
        for signal in [libc::SIGINT, libc::SIGPIPE, libc::SIGCHLD, libc::SIGXFSZ] {
            // SAFETY: no handler is installed.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    };
    let change_settings = || {
        let files = libc::rlimit { rlim_cur: 200, rlim_max: 300 };
        // SAFETY: the calls change only settings of this process, and all pointers are valid.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut signals, libc::SIGUSR1);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
            libc::dup2(libc::STDIN_FILENO, 9);
            libc::umask(0o27);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files);
            libc::setpriority(libc::PRIO_PROCESS, 0, 7);
        }
    };
    let close_streams = || {
        // SAFETY: the new program has no owners of these descriptors.
        (0..3).for_each(|stream| _ = unsafe { libc::close(stream) });
    };
    let changes: [(Change, &str); 4] = [
        (|| {}, "prctl 0 0"),
        (ignore_signals, "ignored: 17\n"),
        (change_settings, "umask 27, niceness 7, files 200 of 300"),
        (close_streams, "in /"),
    ];
    for (change, expected) in changes {
        let run = |start: &[&OsStr]| {
            // Unlike `Command`, `env` does not sort variables.
            let mut command = Command::new("env");
            command.args(["-i", "PATH=/usr/bin:/bin", "Z=1", "A=2"]).args(start).arg(&program).arg(&report);
            command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let change = move || {
                change();
                Ok(())
            };
            // SAFETY: the closure only makes system calls.
            let status = unsafe { command.pre_exec(change) }.status().unwrap();
            assert!(status.success(), "{status}");
            let text = std::fs::read_to_string(&report).unwrap();
            std::fs::remove_file(&report).unwrap();
            text
        };
        let doctor = prefix.doctor();
        let direct = run(&[]);
        assert!(direct.contains(expected), "{direct}");
        assert_eq!(run(&[doctor.as_os_str(), "run".as_ref(), "--validate".as_ref(), "--".as_ref()]), direct);
    }
}

#[test]
fn arguments_and_variables_are_unchanged() {
    let prefix = Prefix::new();
    let hostile = OsStr::from_bytes(b"a b\n'\xff\"$(id)");
    let mut arguments: Vec<&OsStr> =
        ["run", "printf", r"%s|", "--json", "--timeout", "0", "--", "-h"].map(OsStr::new).into();
    arguments.push(hostile);
    let output = prefix.command(&arguments).output().unwrap();
    assert_eq!(output.stdout, b"--json|--timeout|0|--|-h|a b\n'\xff\"$(id)|", "{output:?}");
    let lib = prefix.lib().join("libcudnn.so.9").display().to_string();
    for (before, expected) in
        [("", lib.clone()), ("/usr/lib/x.so", format!("{lib}:/usr/lib/x.so")), (&lib, lib.clone())]
    {
        let mut print = command(&prefix, &["--", "sh", "-c", "echo \"$LD_PRELOAD\" \"$OTHER\""]);
        let output = print.env("LD_PRELOAD", before).env("OTHER", hostile).output().unwrap();
        let expected = [expected.as_bytes(), b" ", hostile.as_bytes(), b"\n"].concat();
        assert_eq!(output.stdout, expected, "{output:?}");
    }
    // A nested run makes no more changes.
    let doctor = prefix.doctor().display().to_string();
    let output = run(&prefix, &["--", &doctor, "run", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    assert_eq!(text(&output.stdout).trim(), lib);
}

/// ld.so splits LD_PRELOAD at spaces and colons, and expands `$`.
#[test]
fn a_drop_in_at_a_path_that_ld_so_changes_is_refused() {
    let (prefix, world) = (Prefix::new(), TempDir::new());
    for (name, is_refused) in [
        (b"a b".as_slice(), true),
        (b"a:b", true),
        (b"$ORIGIN", true),
        (b"new\nline", false),
        (b"gr\xf6sse", false),
        (b"a;b'\"", false),
    ] {
        let dir = world.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&dir).unwrap();
        std::fs::copy(prefix.lib().join("libcudnn.so.9"), dir.join("libcudnn.so.9")).unwrap();
        let arguments = ["run".as_ref(), "--from".as_ref(), dir.as_os_str(), "--".as_ref(), "true".as_ref()];
        let output = prefix.command(&arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(if is_refused { 3 } else { 0 }), "{name:?}: {stderr}");
        assert_eq!(stderr.contains("LD_PRELOAD cannot contain the path"), is_refused, "{name:?}: {stderr}");
        assert!(!stderr.contains("ERROR"), "{name:?}: {stderr}");
    }
}

#[test]
fn options_set_the_corresponding_variables() {
    let prefix = Prefix::new();
    let names = ["CUDNN_LAYERS", "CUDNN_TRACE", "CUDNN_LOADER_VERBOSE_ERRORS", "CUDNN_LOADER_PRELOAD"];
    let script = names.map(|name| format!("${{{name}-unset}}")).join("|");
    for (options, before, expected) in [
        (&[][..], "", "|unset|unset|unset"),
        (&[], "trace", "trace|unset|unset|unset"),
        (&["--plans"], "", "plans|unset|unset|unset"),
        (&["--plans"], "trace", "trace,plans|unset|unset|unset"),
        (&["--validate"], "plans", "validate,plans|unset|unset|unset"),
        (&["--validate"], "trace,validate", "trace,validate|unset|unset|unset"),
        (&["--trace", "t.%i.json"], "plans", "trace,plans|/t.%i.json|unset|unset"),
        (&["--capture", "c", "--validate"], "trace", "capture,validate,trace|unset|unset|unset"),
        (&["--capture", "c", "--trace", "/t"], "", "capture,trace|/t|unset|unset"),
        (&["--layers", "plans,trace", "--trace", "/tmp/%i/t"], "trace", "plans,trace|/tmp/%i/t|unset|unset"),
        (&["--verbose-errors", "--preload", "files,libraries"], "", "|unset|1|files,libraries"),
    ] {
        let script = format!("echo \"{script}\"");
        let mut shell = command(&prefix, &[options, &["--", "sh", "-c", &script]].concat());
        let output = shell.current_dir("/").env("CUDNN_LAYERS", before).output().unwrap();
        assert_eq!(text(&output.stdout).trim(), expected, "{options:?}: {output:?}");
    }
}

#[test]
fn a_trace_is_written() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    let file = dir.path().join("trace.json");
    let mut python = command(&prefix, &["--trace", file.to_str().unwrap(), "--", "python3", "-c", WHOSE]);
    let output = python.env("LD_LIBRARY_PATH", &release).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace = std::fs::read_to_string(file).unwrap();
    assert!(trace.contains("cudnnGetVersion"), "{trace}");
    assert_eq!(text(&output.stderr), "", "{output:?}");
}

/// A trace of an earlier run does not count. The process that waits must not be a child of the program or hold pipes of
/// it open.
#[test]
fn a_trace_that_was_not_written_is_reported() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    let file = dir.path().join("trace.json");
    let script = "read -r children </proc/$$/task/$$/children; echo \"[$children]\"; exit 42";
    for is_there in [false, true] {
        if is_there {
            std::fs::write(&file, "[\n{\"name\":\"process_name\",\"cat\":\"cudnn\"}\n]\n").unwrap();
        }
        let output = run(&prefix, &["--trace", file.to_str().unwrap(), "--", "sh", "-c", script]);
        assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(42), "[]"), "{output:?}");
        let expected = format!("no trace was written to {}", file.display());
        assert!(text(&output.stderr).contains(&expected), "{output:?}");
    }
    // A program that adopts orphans adopts the waiting process. Then a missing trace is not reported.
    let mut subreaper = command(&prefix, &["--trace", file.to_str().unwrap(), "--", "sh", "-c", script]);
    let adopt_orphans = || {
        // SAFETY: the call only changes a setting of the child.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        Ok(())
    };
    // SAFETY: the closure only makes one system call.
    let output = unsafe { subreaper.pre_exec(adopt_orphans) }.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(42), "[]"), "{output:?}");
    assert!(!text(&output.stderr).contains("no trace"), "{output:?}");
    let mut child = command(&prefix, &["--trace", file.to_str().unwrap(), "--", "sh", "-c", "exec >&-; read -r line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut all = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    let output = run(&prefix, &["--trace", file.to_str().unwrap(), "--", "/nowhere/program"]);
    assert_eq!((output.status.code(), text(&output.stderr).lines().count()), (Some(127), 1), "{output:?}");
}

#[test]
fn programs_that_cannot_load_the_drop_in_are_recognized() {
    let (prefix, world) = (Prefix::new(), TempDir::new());
    let file = |name: &str| world.path().join(name);
    support::compile("int main(void) { return 0; }", &[], &file("plain"));
    support::compile("int main(void) { return 7; }", &["-static"], &file("static"));
    let musl = file("ld-musl-x86_64.so.1");
    let interpreter = format!("-Wl,--dynamic-linker={}", musl.display());
    support::compile("int main(void) { return 0; }", &[&interpreter], &file("musl"));
    let mut foreign = std::fs::read(file("plain")).unwrap();
    foreign[18] = FOREIGN.1;
    write_program(file("foreign"), foreign);
    write_program(file("script"), format!("#! {} -x\n", file("script2").display()));
    write_program(file("script2"), format!("#!{}\n", file("static").display()));
    write_program(file("round"), format!("#!{}\n", file("round").display()));
    std::fs::write(file("unexecutable"), "").unwrap();
    for (name, status, expected) in [
        ("plain", 0, ""),
        ("static", 7, "is statically linked"),
        ("script", 7, "is statically linked"),
        ("foreign", 3, "is not built for this processor"),
        ("musl", 3, "is built for musl"),
        ("round", 126, "cannot start"),
        ("unexecutable", 126, "cannot start"),
        ("nothing", 127, "cannot find program"),
        (".", 126, "cannot start"),
    ] {
        let path = file(name).display().to_string();
        let by_path = command(&prefix, &["--", &path]).output().unwrap();
        assert_eq!(by_path.status.code(), Some(status), "{name}: {by_path:?}");
        let stderr = text(&by_path.stderr);
        assert!(stderr.contains(expected) && (!expected.is_empty() || stderr.is_empty()), "{name}: {stderr}");
        if [0, 7, 3].contains(&status) {
            let by_name = command(&prefix, &["--", name]).env("PATH", world.path()).output().unwrap();
            assert_eq!((by_name.status.code(), text(&by_name.stderr)), (Some(status), stderr), "{name}");
        }
    }
    assert_eq!(run(&prefix, &["--", ""]).status.code(), Some(127));
    assert_eq!(run(&prefix, &[]).status.code(), Some(3));
    assert_eq!(run(&prefix, &["--"]).status.code(), Some(3));
}

#[test]
fn a_program_with_elevated_privileges_is_rejected() {
    let (prefix, world) = (Prefix::new(), TempDir::new());
    if !std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        not_run("a program with other rights", "only root can change the user");
        return;
    }
    // The kernel ignores the last mode's set-group-ID bit, because the group may not execute the file.
    for (mode, status) in [(0o755, 0), (0o4755, 3), (0o2755, 3), (0o2745, 0)] {
        let program = world.path().join(format!("program-{mode:o}"));
        support::compile("int main(void) { return 0; }", &[], &program);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = command(&prefix, &["--", program.to_str().unwrap()]);
        let output = command.uid(65534).gid(65534).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{mode:o}: {stderr}");
        assert_eq!(stderr.contains("ld.so ignores LD_PRELOAD"), status == 3, "{mode:o}: {stderr}");
    }
}

/// The statuses are those of `env` and shells.
#[test]
fn a_program_that_cannot_start_is_distinguished_from_a_missing_one() {
    let (prefix, world) = (Prefix::new(), TempDir::new());
    let script = world.path().join("script");
    write_program(&script, "#!/nowhere/interpreter\n");
    for (program, status, expected) in [
        (script.to_str().unwrap(), 126, "the interpreter that it names does not exist"),
        ("/nowhere/program", 127, "cannot find program /nowhere/program"),
        ("no-such-program", 127, "cannot find program no-such-program"),
    ] {
        let output = run(&prefix, &["--", program]);
        assert_eq!(output.status.code(), Some(status), "{program}: {output:?}");
        assert!(text(&output.stderr).contains(expected), "{program}: {output:?}");
    }
    // For example, this is a console script of an environment that was moved.
    let output = command(&prefix, &["--", "script"]).env("PATH", world.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(126), "{output:?}");
}

#[test]
fn layers_next_to_the_drop_in_are_found() {
    let prefix = Prefix::new();
    let mut layers = prefix.command(&["layers".as_ref()]);
    let output = layers.env("CUDNN_LAYERS", "trace").output().unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("libcudnn_layers.so"), "{output:?}");
    let empty = layers.env("CUDNN_LAYERS", ",").output().unwrap();
    assert!(text(&empty.stdout).starts_with("No layers are on: CUDNN_LAYERS lists none.\n"), "{empty:?}");
    let unset = layers.env_remove("CUDNN_LAYERS").output().unwrap();
    assert!(text(&unset.stdout).starts_with("No layers are on: CUDNN_LAYERS is not set.\n"), "{unset:?}");
}

#[test]
fn options_without_effect_are_rejected() {
    let prefix = Prefix::new();
    let without = Prefix::without_drop_in();
    for (prefix, arguments, expected) in [
        (&prefix, &["--layers", "tarce", "--", "true"][..], "the layer tarce cannot be used"),
        (&prefix, &["--layers", "../x", "--", "true"], "is neither a name"),
        (&prefix, &["--layers", "plans,tuned", "--", "true"], "the layer tuned runs below it"),
        (&prefix, &["--layers", "/nowhere.so", "--", "true"], "does not exist"),
        (&prefix, &["--trace", "/nowhere/t.json", "--", "true"], "cannot write /nowhere/t.json: No such file"),
        (&prefix, &["--trace", "/bin/sh/t.json", "--", "true"], "cannot write /bin/sh/t.json: Not a directory"),
        (&prefix, &["--trace", "/usr/bin", "--", "true"], "cannot write /usr/bin: is a directory"),
        (&prefix, &["--trace", "/tmp/%i/", "--", "true"], "cannot write /tmp/%i/: is a directory"),
        (&prefix, &["--capture", "/nowhere/c", "--", "true"], "cannot write /nowhere/c: No such file"),
        (&prefix, &["--capture", "/proc/c", "--", "true"], "would not work as requested: cannot write /proc/c: "),
        (&prefix, &["--capture", "/bin/sh", "--", "true"], "/bin/sh exists and is not a capture"),
        (&prefix, &["--capture", "/dev/null", "--", "true"], "/dev/null exists and is not a capture"),
        (&prefix, &["--trace", "/bin/sh", "--", "true"], "/bin/sh exists and is not a trace"),
        (&prefix, &["--preload", "everything", "--", "true"], "invalid value"),
        (&prefix, &["--from", "/nowhere", "--", "true"], "there is no usable drop-in in /nowhere"),
        (&without, &["--", "true"], "is not next to it"),
    ] {
        let output = run(prefix, arguments);
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(3) && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    for (layer, name, value, expected) in [
        ("capture", "CUDNN_CAPTURE_DATA", "bogus", "CUDNN_CAPTURE_DATA contains"),
        ("capture", "CUDNN_CAPTURE_DATA", ",", "CUDNN_CAPTURE_DATA contains"),
        ("explain", "CUDNN_EXPLAIN_OUTPUT", "/nowhere/e", "cannot write /nowhere/e: No such file"),
        ("plans", "CUDNN_PLANS_DIR", "relative", "relative is not an absolute path"),
        ("plans", "CUDNN_PLANS_LIMIT", "much", "is not a size"),
        ("plans", "CUDNN_PLANS_PACK", "/nowhere/pack", "/nowhere/pack"),
        ("trace", "CUDNN_TRACE_LIMIT", "much", "is not a size"),
        ("trace", "CUDNN_TRACE_LINES", "/nowhere/l", "cannot write /nowhere/l: No such file"),
        ("trace", "CUDNN_TRACE_SUMMARY", "/nowhere/s", "cannot write /nowhere/s: No such file"),
        ("validate", "CUDNN_VALIDATE", "/nowhere/v", "cannot write /nowhere/v: No such file"),
    ] {
        let mut program = command(&prefix, &["--layers", layer, "--", "echo", "started"]);
        let output = program.env("CUDNN_CAPTURE", "/tmp/no-such-capture").env(name, value).output().unwrap();
        let stderr = text(&output.stderr);
        let refusal = format!("the layer {layer} would not work as requested: ");
        assert!(output.status.code() == Some(3) && output.stdout.is_empty(), "{name}={value}: {output:?}");
        assert!(stderr.contains(&refusal) && stderr.contains(expected), "{name}={value}: {stderr}");
    }
    let output = prefix.command(&["--json", "run", "true"].map(OsStr::new)).output().unwrap();
    assert!(text(&output.stdout).contains("this command does not support --json"), "{output:?}");
    let alone = Prefix::without_drop_in();
    let lib = alone.path().join("lib");
    std::fs::create_dir(&lib).unwrap();
    std::fs::copy(prefix.lib().join("libcudnn.so.9"), lib.join("libcudnn.so.9")).unwrap();
    let output = run(&alone, &["--plans", "--", "true"]);
    assert!(output.status.code() == Some(3) && text(&output.stderr).contains("libcudnn_layers.so"), "{output:?}");
}

/// The note is for users of layers, if the program's own environment has such a release.
#[test]
fn a_frontend_whose_engines_layers_do_not_see_is_named_once() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    let environment = |name: &str| {
        let environment = PythonEnvironment::venv(&dir.path().join(name));
        let python = environment.root().join("bin/python3");
        std::fs::remove_file(&python).unwrap();
        symlink("/bin/true", python).unwrap();
        environment
    };
    for (name, version) in [("new", "1.32.0"), ("optional", "1.29.1"), ("old", "1.26.0")] {
        environment(name).with_package("nvidia-cudnn-frontend", version);
    }
    environment("without").with_package("torch", "2.9.1");
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    write_program(path("script"), format!("#!{}\n", path("new/bin/python3")));
    write_program(path("env-script"), "#!/usr/bin/env -S A=1 python3\n");
    let note = |version: &str| {
        format!(
            "note: nvidia-cudnn-frontend {version} runs some graphs with engines in Python, which do not call cuDNN. \
             Layers do not see their plans and executions\n"
        )
    };
    let (is_on, is_off) = (("CUDNN_FRONTEND_ENABLE_FROST_ENGINES", "On"), ("X", ""));
    let python = |name: &str| path(&format!("{name}/bin/python3"));
    for (options, program, variable, expected) in [
        (&["--validate"][..], python("new"), is_off, note("1.32.0")),
        (&[], python("new"), ("CUDNN_LAYERS", "validate"), note("1.32.0")),
        (&["--validate"], path("script"), is_off, note("1.32.0")),
        (&["--validate"], path("env-script"), is_off, note("1.32.0")),
        (&["--validate"], "python3".to_owned(), is_off, note("1.32.0")),
        (&["--validate"], python("optional"), is_on, note("1.29.1")),
        (&["--validate"], python("optional"), is_off, String::new()),
        (&["--validate"], python("old"), is_on, String::new()),
        (&["--validate"], python("without"), is_off, String::new()),
        (&["--validate"], "true".to_owned(), is_off, String::new()),
        (&[], python("new"), is_off, String::new()),
    ] {
        let mut program = command(&prefix, &[options, &["--", &program]].concat());
        // The active environment counts only for programs in it.
        program.env("PATH", format!("{}:/usr/bin:/bin", path("new/bin"))).env("VIRTUAL_ENV", path("new"));
        let output = program.env(variable.0, variable.1).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), expected), "{program:?}");
    }
    let doctor = prefix.doctor().display().to_string();
    let output = run(&prefix, &["--validate", "--", &doctor, "run", "--", &python("new")]);
    assert_eq!(text(&output.stderr), note("1.32.0"), "{output:?}");
}

#[test]
fn run_turns_the_layer_on_and_refuses_invalid_rules() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    std::fs::write(dir.path().join("rules.json"), "{").unwrap();
    std::fs::write(dir.path().join("tuned.json"), support::RANKINGS).unwrap();
    let print = "echo \"$CUDNN_LAYERS|$CUDNN_ERRATA\"";
    let run = |options: &[&str]| {
        let arguments = [&["run"], options, &["--", "sh", "-c", print]].concat();
        let arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(std::ffi::OsStr::new).collect();
        prefix.command(&arguments).current_dir(dir.path()).output().unwrap()
    };
    for (options, expected) in [
        (&["--errata", "known"][..], "errata|known\n"),
        (&["--errata", "known", "--plans"], "errata,plans|known\n"),
        (&["--errata", "known", "--layers", "plans"], "errata,plans|known\n"),
        (&["--errata", "known", "--trace", "trace.json"], "trace,errata|known\n"),
        (&["--explain", "--errata", "known", "--plans"], "explain,errata,plans|known\n"),
        (&["--explain=used", "--validate", "--plans"], "validate,explain,plans|\n"),
        (&["--tuned", "tuned.json", "--plans"], "tuned,plans|\n"),
        (
            &["--tuned", "tuned.json", "--errata", "known", "--layers", "trace,plans"],
            "trace,errata,tuned,plans|known\n",
        ),
        (&["--validate"], "validate|\n"),
        (&["--validate", "--errata", "known", "--trace", "trace.json"], "trace,validate,errata|known\n"),
    ] {
        let output = run(options);
        assert_eq!(text(&output.stdout), expected, "{output:?}");
    }
    let refused = run(&["--errata", "rules.json"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(text(&refused.stderr).contains("rules.json: EOF while parsing"), "{refused:?}");
    // The program may change the working directory.
    let valid = br#"{"errata":1,"rules":[{"name":"n","reason":"r","operations":["matmul"]}]}"#;
    std::fs::write(dir.path().join("rules.json"), valid).unwrap();
    let output = run(&["--errata", "rules.json"]);
    let expected = format!("errata|{}\n", dir.path().join("rules.json").display());
    assert_eq!(text(&output.stdout), expected, "{output:?}");
    // Stored facts contain newer rules than the layer.
    let issues = r#"[{"name":"n","operation":"o","effect":"e","source":"https://a.example",
        "releases":[{"from":"9.1.0","before":"9.2.0"}]}]"#;
    let stored = support::store_release_facts(&dir.path().join("data"), issues);
    let arguments = ["run", "--errata", "known,rules.json", "--", "sh", "-c", print].map(std::ffi::OsStr::new);
    let output =
        prefix.command(&arguments).env("XDG_DATA_HOME", dir.path().join("data")).current_dir(dir.path()).output();
    let expected = format!("errata|{},{}\n", stored.display(), dir.path().join("rules.json").display());
    assert_eq!(text(&output.unwrap().stdout), expected);
}

#[test]
fn run_names_tuned_files_by_absolute_paths_and_refuses_invalid_ones() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    let run = |options: &[&str]| {
        let arguments = [&["run"], options, &["--", "sh", "-c", "echo \"$CUDNN_LAYERS|$CUDNN_TUNED\""]].concat();
        let arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(std::ffi::OsStr::new).collect();
        prefix.command(&arguments).current_dir(dir.path()).output().unwrap()
    };
    let file = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(file("a.json"), support::RANKINGS).unwrap();
    std::fs::write(file("empty.json"), r#"{"errata":1,"tuned":[]}"#).unwrap();
    std::fs::write(file("b.json"), r#"{"errata":1,"rules":[]}"#).unwrap();
    let output = run(&["--tuned", "a.json", "--tuned", "b.json"]);
    let expected = format!("tuned|{}:{}\n", file("a.json"), file("b.json"));
    assert_eq!(text(&output.stdout), expected, "{output:?}");
    let refused = run(&["--tuned", "empty.json", "--tuned", "b.json"]);
    assert!(text(&refused.stderr).contains("the files rank no graph"), "{refused:?}");
    std::fs::write(file("b.json"), r#"{"errata":1}"#).unwrap();
    for name in ["b.json", "missing.json", "a.json:b.json"] {
        let refused = run(&["--tuned", "a.json", "--tuned", name]);
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        assert!(text(&refused.stderr).contains(name), "{refused:?}");
    }
}

/// Builds a layer with this code as its check.
fn layer_that(check: &str, dir: &TempDir) -> String {
    let code = format!(
        "#include <fcntl.h>\n#include <stdlib.h>\n#include <unistd.h>\n
         int cudnnLayerBegin(const void *host, void *layer) {{ (void)host; (void)layer; return 0; }}
         const char *cudnnLayerCheck(const char *name) {{ (void)name; {check} }}"
    );
    let file = dir.path().join("liblayer.so");
    support::compile(&code, &["-shared", "-fPIC", "-w"], &file);
    file.to_str().unwrap().to_owned()
}

#[test]
fn layers_of_others_are_asked_and_may_end_the_check() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    for (check, expected) in [
        ("return 0;", "started"),
        ("return \"no\\nlicense\";", "would not work as requested: no\\nlicense"),
        ("_exit(0);", "ended without an answer"),
        ("abort();", "SIGABRT"),
        ("close(0); return \"lost\";", "ended without an answer"),
    ] {
        let layer = layer_that(check, &dir);
        let output = run(&prefix, &["--layers", &layer, "--", "echo", "started"]);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(all.contains(expected), "{check}: {all}");
        assert_eq!(output.status.code(), Some(if expected == "started" { 0 } else { 3 }), "{check}: {all}");
    }
    let layer = layer_that("return \"no\";", &dir);
    let output = command(&prefix, &["--", "echo", "started"]).env("CUDNN_LAYERS", layer).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

/// The doctor becomes the program, so it must not wait for children of the shell that started it.
#[test]
fn a_daemon_that_starts_during_the_check_survives() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    let layer = layer_that("char c; read(open(getenv(\"FIFO\"), O_RDONLY), &c, 1); return 0;", &dir);
    // The subshell waits until the check reads. The daemon is an orphan in another session.
    let script = "mkfifo \"$FIFO\"
        ( exec 3>\"$FIFO\"; setsid sh -c 'setsid sleep 600 >/dev/null 2>&1 & echo $! > \"$DAEMON\"'; echo go >&3 ) &
        exec \"$@\"";
    let doctor = prefix.doctor();
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(&doctor).args(["run", "--layers", &layer, "--", "sh", "-c"]);
    shell.arg("kill -0 $(cat \"$DAEMON\") && echo alive; cat /proc/$$/task/$$/children");
    shell.env("FIFO", dir.path().join("fifo")).env("DAEMON", dir.path().join("daemon"));
    let output = shell.output().unwrap();
    let daemon = std::fs::read_to_string(dir.path().join("daemon")).unwrap();
    let _ = Command::new("kill").arg(daemon.trim()).status();
    assert!(text(&output.stdout).starts_with("alive\n") && !text(&output.stdout).contains(daemon.trim()), "{output:?}");
}
