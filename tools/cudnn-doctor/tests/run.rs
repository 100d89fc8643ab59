//! Tests `run` with programs that get the drop-in, programs that run without it, and properties that must stay
//! unchanged.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod beside;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};

use beside::Prefix;
use support::{FOREIGN, TempDir, lib_dir, not_run, write_program};

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

/// Prints which `libcudnn.so.9` a program gets if it opens the library by name.
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
    // `run` must not ignore or block additional signals: a closed pipe still kills the program.
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
    // A nested run makes no further changes.
    let doctor = prefix.doctor().display().to_string();
    let output = run(&prefix, &["--", &doctor, "run", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    assert_eq!(text(&output.stdout).trim(), lib);
}

/// ld.so splits LD_PRELOAD at spaces and colons, and it expands `$`.
#[test]
fn a_drop_in_at_any_path_is_preloaded() {
    let Some(release) = lib_dir("jit-cu12-9.19.0") else { return };
    let (prefix, world) = (Prefix::new(), TempDir::new());
    for name in [b"a b".as_slice(), b"a:b", b"$ORIGIN", b"new\nline", b"gr\xf6sse", b"a;b'\""] {
        let dir = world.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&dir).unwrap();
        for file in ["libcudnn.so.9", "libcudnn_layers.so"] {
            std::fs::copy(prefix.lib().join(file), dir.join(file)).unwrap();
        }
        // In the second round, the link already exists.
        for _ in 0..2 {
            let arguments = ["run".as_ref(), "--from".as_ref(), dir.as_os_str(), "--layers".as_ref(), "trace".as_ref()];
            let program = ["--", "python3", "-c", WHOSE].map(OsStr::new);
            let mut python = prefix.command(&[&arguments, &program[..]].concat());
            let output = python.env("LD_LIBRARY_PATH", &release).output().unwrap();
            assert_eq!(text(&output.stdout), "True 91900\n", "{name:?}: {output:?}");
            // The layer is also found through the link.
            let stderr = text(&output.stderr);
            assert!(
                stderr.contains("cudnn-trace summary for process") && !stderr.contains("ERROR"),
                "{name:?}: {stderr}"
            );
        }
    }
    // Other users could create links in this directory. The group of root contains only root, unlike this one.
    const OTHER_GROUP: u32 = 12_345;
    let links = world.path().join(".local/share/cudnn-doctor-links");
    let home = world.path().to_owned();
    let with_links = |mode: Option<u32>| {
        if let Some(mode) = mode {
            std::fs::set_permissions(&links, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut program = command(&prefix, &["--from", world.path().join("a b").to_str().unwrap(), "--", "true"]);
        let clear_umask = || {
            // SAFETY: umask only changes a number in the child.
            unsafe { libc::umask(0) };
            Ok(())
        };
        // SAFETY: the closure only makes one system call.
        unsafe { program.env("HOME", &home).pre_exec(clear_umask) };
        program.output().unwrap()
    };
    for (mode, is_used) in [(None, true), (Some(0o775), false), (Some(0o757), false), (Some(0o755), true)] {
        if mode == Some(0o775) && std::os::unix::fs::chown(&links, None, Some(OTHER_GROUP)).is_err() {
            not_run("a_drop_in_at_any_path_is_preloaded", "only root can choose any group");
            continue;
        }
        let output = with_links(mode);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.success(), is_used, "{mode:?}: {stderr}");
        assert!(is_used || stderr.contains("other users may write to the directory of the link"), "{mode:?}: {stderr}");
        let made = std::fs::metadata(&links).unwrap().permissions().mode();
        assert!(mode.is_some() || made & 0o777 == 0o755, "{made:o}");
    }
    // All possible link names contain such characters.
    let home = world.path().join("my home");
    std::fs::create_dir(&home).unwrap();
    let mut refused = command(&prefix, &["--from", world.path().join("a b").to_str().unwrap(), "--", "true"]);
    let output = refused.env("HOME", &home).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.code() == Some(3) && stderr.contains("LD_PRELOAD cannot contain"), "{stderr}");
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

/// A trace of an earlier run must not count. The process that waits for the program must not be a child of the program
/// or hold pipes of it open.
#[test]
fn a_trace_that_was_not_written_is_reported() {
    let (prefix, dir) = (Prefix::new(), TempDir::new());
    let file = dir.path().join("trace.json");
    let script = "read -r children </proc/$$/task/$$/children; echo \"[$children]\"; exit 42";
    for is_there in [false, true] {
        if is_there {
            std::fs::write(&file, "[\n{\"name\":\"process_name\"}\n]\n").unwrap();
        }
        let output = run(&prefix, &["--trace", file.to_str().unwrap(), "--", "sh", "-c", script]);
        assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(42), "[]"), "{output:?}");
        let expected = format!("no trace was written to {}", file.display());
        assert!(text(&output.stderr).contains(&expected), "{output:?}");
    }
    // The same applies to a program that adopts orphans. In that case, a missing trace is not reported.
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
    // No program was started.
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
        // Starts the program by path and through PATH.
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
    // Empty names and missing programs.
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
    // The last mode sets the set-group-ID bit, but the kernel ignores it because the group may not execute the file.
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

/// The statuses match `env` and the shells: 126 if the file exists.
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
    // Like a console script of an environment that was moved.
    let output = command(&prefix, &["--", "script"]).env("PATH", world.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(126), "{output:?}");
}

/// `layers` searches the same directories as the programs that `run` starts.
#[test]
fn layers_next_to_the_drop_in_are_found() {
    let prefix = Prefix::new();
    let mut layers = prefix.command(&["layers".as_ref()]);
    let output = layers.env("CUDNN_LAYERS", "trace").output().unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("libcudnn_layers.so"), "{output:?}");
}

#[test]
fn options_without_effect_are_rejected() {
    let prefix = Prefix::new();
    let without = Prefix::without_drop_in();
    for (prefix, arguments, expected) in [
        (&prefix, &["--layers", "tarce", "--", "true"][..], "the layer tarce cannot be used"),
        (&prefix, &["--layers", "../x", "--", "true"], "is neither a name"),
        (&prefix, &["--layers", "/nowhere.so", "--", "true"], "does not exist"),
        (&prefix, &["--trace", "/nowhere/t.json", "--", "true"], "cannot be written to /nowhere/t.json: No such file"),
        (&prefix, &["--trace", "/bin/sh/t.json", "--", "true"], "cannot be written to /bin/sh/t.json: not a directory"),
        (&prefix, &["--trace", "/usr/bin", "--", "true"], "cannot be written to /usr/bin: is a directory"),
        (&prefix, &["--trace", "/tmp/%i/", "--", "true"], "cannot be written to /tmp/%i/: is a directory"),
        (&prefix, &["--capture", "/nowhere/c", "--", "true"], "cannot be written to /nowhere/c: No such file"),
        (&prefix, &["--capture", "/proc/c", "--", "true"], "the capture cannot be written to /proc/c: "),
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
    for value in ["bogus", ","] {
        let arguments = ["run", "--capture", "/tmp/no-such-capture", "--", "true"].map(OsStr::new);
        let output = prefix.command(&arguments).env("CUDNN_CAPTURE_DATA", value).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(3) && stderr.contains("CUDNN_CAPTURE_DATA contains"), "{stderr}");
    }
    let output = prefix.command(&["--json", "run", "true"].map(OsStr::new)).output().unwrap();
    assert!(text(&output.stdout).contains("run does not support --json"), "{output:?}");
    let alone = Prefix::without_drop_in();
    let lib = alone.path().join("lib");
    std::fs::create_dir(&lib).unwrap();
    std::fs::copy(prefix.lib().join("libcudnn.so.9"), lib.join("libcudnn.so.9")).unwrap();
    let output = run(&alone, &["--plans", "--", "true"]);
    assert!(output.status.code() == Some(3) && text(&output.stderr).contains("libcudnn_layers.so"), "{output:?}");
}
