//! Tests the log. The loader's entries go to the same destination as cuDNN's or into a separate file in the same
//! directory, with or without cuDNN.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cudnn_loader::logging::{LogEntry, LogSeverity, parse};
use cudnn_probe::{Library, Version};
use support::{Child, ChildOutput, Share, Subject, TempDir, drop_in_alone, lib_dir};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const LEVEL: &str = "CUDNN_LOGLEVEL_DBG";
const DESTINATION: &str = "CUDNN_LOGDEST_DBG";

fn run(child: Child, args: &[&str]) -> ChildOutput {
    child.run_successfully(args)
}

fn functions(entries: &[LogEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.function.as_deref().unwrap_or("?")).collect()
}

/// Returns the loader's log file in a directory, identified by the suffix, or cuDNN's.
fn log_file(dir: &Path, is_loaders: bool) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|file| file.to_str().unwrap().ends_with(".loader") == is_loaders).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

/// Returns the entries of a file, in which every line must belong to a complete entry.
fn entries_of(file: &Path) -> Vec<LogEntry> {
    let log = std::fs::read_to_string(file).unwrap();
    let entries = parse(&log);
    let lines = log.lines().filter(|line| !line.is_empty());
    let strange: Vec<&str> = lines.filter(|line| line.get(1..3).is_none_or(|mark| mark != "! ")).collect();
    assert!(strange.is_empty(), "{strange:#?}");
    for entry in &entries {
        assert!(entry.function.is_some() && entry.time.is_some() && entry.thread.is_some(), "{entry:#?}");
    }
    entries
}

fn read(dir: &Path) -> Vec<LogEntry> {
    entries_of(&log_file(dir, true))
}

#[test]
fn the_loader_writes_a_file_next_to_cudnns() {
    for (id, version) in [("jit-cu12-9.19.0", Version::new(9, 19, 0)), ("jit-cu13-9.27.0", Version::new(9, 27, 0))] {
        let Some(real) = lib_dir(id) else { return };
        let logs = TempDir::new();
        let child = Child::new(DRIVER, Subject::Loader, &real).env(LEVEL, "3");
        let child = child.env(DESTINATION, logs.path().join("cudnn_%Y%m%d_%i.log"));
        run(child, &["~cudnnGetVersion", "~cudnnCreateTensorDescriptor", "~cudnnGetVersion"]);
        let entries = read(logs.path());
        let mut functions_once = functions(&entries);
        functions_once.dedup();
        let expected = [
            "cudnn_loader::search",
            "cudnn_loader::select",
            "cudnn_loader::load",
            // A JIT wheel does not include the ops library.
            "cudnnCreateTensorDescriptor",
        ];
        assert_eq!(functions_once, expected, "{id}");
        let failed = entries.iter().find(|entry| entry.function.as_deref() == Some("cudnnCreateTensorDescriptor"));
        let failed = failed.unwrap();
        assert_eq!((failed.severity, failed.traceback.len()), (LogSeverity::Error, 1), "{failed:#?}");
        assert_eq!((failed.version, failed.gpu), (Some(version), None), "{failed:#?}");
        let reason = failed.traceback.first().unwrap();
        assert_eq!(reason.status, "CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE");
        assert!(reason.reason.starts_with("cudnnCreateTensorDescriptor cannot be called: "), "{reason:?}");
        assert!(reason.reason.contains("does not include libcudnn_ops.so.9"), "{reason:?}");
        assert!(failed.arguments.iter().any(|more| more.value.starts_with("help: Install")), "{failed:#?}");
        let times: Vec<&String> = entries.iter().filter_map(|entry| entry.time.as_ref()).collect();
        assert!(times.is_sorted(), "{times:?}");
        // Only cuDNN writes to cuDNN's file. It has the same format and the name that cuDNN chooses.
        let cudnns = log_file(logs.path(), false);
        assert_eq!(log_file(logs.path(), true), PathBuf::from(format!("{}.loader", cudnns.display())));
        let entries = entries_of(&cudnns);
        let reported = functions(&entries);
        assert!(reported.iter().filter(|function| **function == "cudnnGetVersion").count() >= 2, "{reported:?}");
        assert!(!reported.iter().any(|function| function.starts_with("cudnn_loader::")), "{reported:?}");
    }
}

#[test]
fn a_cudnn_that_the_process_loaded_itself_keeps_its_file() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let child = Child::bare(DRIVER).env(LEVEL, "3").within(logs.path()).env(DESTINATION, "cudnn_%Y_%i.log");
    let open = format!("open:{}", real.join(Library::Graph.file_name()).display());
    run(child, &[&open, "~cudnnGetVersion", "~cudnnCreateTensorDescriptor", "~cudnnGetVersion"]);
    let entries = read(logs.path());
    let reported = functions(&entries);
    for function in ["cudnn_loader::search", "cudnn_loader::select", "cudnnCreateTensorDescriptor"] {
        assert!(reported.contains(&function), "{reported:?}");
    }
    let cudnns = entries_of(&log_file(logs.path(), false));
    assert_eq!(functions(&cudnns).last(), Some(&"cudnnGetVersion"));
}

#[test]
fn threads_that_race_write_complete_entries() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let child = Child::new(DRIVER, Subject::Loader, &real).env(LEVEL, "3");
    run(child.env(DESTINATION, logs.path().join("race.log")), &["race"]);
    let entries = read(logs.path());
    let mut failed = BTreeMap::<&str, usize>::new();
    for entry in entries.iter().filter(|entry| entry.severity == LogSeverity::Error) {
        *failed.entry(entry.function.as_deref().unwrap()).or_default() += 1;
    }
    // One error for every combination of 64 threads and a function that is missing in this release.
    let thread_failures =
        failed.iter().filter(|(name, _)| name.starts_with("cudnnCreate") && !name.ends_with("Create"));
    let counts: Vec<(&&str, &usize)> = thread_failures.collect();
    assert!(counts.len() > 10 && counts.iter().all(|(_, count)| **count == 64), "{counts:?}");
}

/// Returns the log entries of a child without cuDNN, by severity.
fn written(set: &[(&str, &str)], args: &[&str]) -> (BTreeMap<LogSeverity, Vec<String>>, ChildOutput) {
    let (nothing, logs) = (TempDir::new(), TempDir::new());
    let mut child = Child::bare(DRIVER).within(logs.path()).env("CUDNN_LOADER_DIR", nothing.path());
    for (name, value) in set {
        child = child.env(name, value);
    }
    let output = run(child, args);
    let mut by_severity: BTreeMap<LogSeverity, Vec<String>> = BTreeMap::new();
    let files: Vec<PathBuf> = std::fs::read_dir(logs.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for entry in parse(&text).into_iter().chain(parse(&output.stdout)).chain(parse(&output.stderr)) {
        by_severity.entry(entry.severity).or_default().push(entry.function.unwrap());
    }
    (by_severity, output)
}

#[test]
fn the_variables_have_the_same_meaning_as_in_cudnn_even_without_it() {
    use LogSeverity::{Error, Info};
    let all = [Info, Error];
    for (set, severities) in [
        (&[][..], &[][..]),
        (&[(DESTINATION, "log")], &[]),
        (&[(LEVEL, "")], &[]),
        (&[(LEVEL, "0")], &[]),
        (&[(LEVEL, "1")], &[Error]),
        (&[(LEVEL, "2")], &[Error]),
        (&[(LEVEL, "3")], &all),
        (&[(LEVEL, "99")], &all),
        (&[(LEVEL, "-1")], &[]),
        (&[(LEVEL, "0x3")], &all),
        (&[(LEVEL, "4294967297")], &[Error]),
        (&[(LEVEL, "99999999999999999999")], &[]),
        (&[(LEVEL, "three")], &[]),
        (&[(LEVEL, "3"), (DESTINATION, "NULL")], &[]),
        (&[(LEVEL, "3"), (DESTINATION, "")], &[]),
        (&[(LEVEL, "3"), (DESTINATION, "stdout")], &all),
        (&[(LEVEL, "3"), (DESTINATION, "stderr")], &all),
        (&[(LEVEL, "3"), (DESTINATION, " NULL ")], &[]),
        (&[(LEVEL, "3"), (DESTINATION, "log \t")], &all),
        (&[(LEVEL, "3"), (DESTINATION, "log_%Y-%m-%d_%i_%n.txt")], &all),
        (&[(LEVEL, "3"), (DESTINATION, "/no/such/directory/log")], &[]),
        (&[(LEVEL, "3"), (DESTINATION, ".")], &[]),
        (&[("CUDNN_LOGINFO_DBG", "1")], &[Info]),
        (&[("CUDNN_LOGERR_DBG", "1"), (DESTINATION, "log")], &[Error]),
        (&[("CUDNN_LOGERR_DBG", "1"), ("CUDNN_LOGINFO_DBG", "1")], &all),
        (&[("CUDNN_LOGERR_DBG", "1"), (LEVEL, "0")], &[]),
    ] {
        let (written, output) = written(set, &["cudnnCreate"]);
        assert_eq!(written.keys().copied().collect::<Vec<_>>(), severities, "{set:?}: {output:#?}");
        assert_eq!(output.returned("cudnnCreate"), Some("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)"));
        let to_stdout = set.contains(&(DESTINATION, "stdout"));
        assert_eq!(output.stdout.contains("! CuDNN (v0)"), to_stdout, "{set:?}: {output:#?}");
        let to_file = set.iter().any(|(name, value)| *name == DESTINATION && value.starts_with("log"));
        assert_eq!(
            output.stderr.contains("! CuDNN (v0)"),
            !severities.is_empty() && !to_stdout && !to_file,
            "{set:?}: {output:#?}"
        );
        if let Some(errors) = written.get(&Error) {
            assert_eq!(errors.as_slice(), ["cudnn_loader::search", "cudnnCreate"], "{set:?}");
        }
    }
}

#[test]
fn an_unusable_installation_is_a_warning() {
    let (damaged, logs) = (TempDir::new(), TempDir::new());
    std::fs::write(damaged.file(Library::Graph), b"\x7fELF").unwrap();
    let child = Child::bare(DRIVER).env("LD_LIBRARY_PATH", damaged.path()).env(LEVEL, "2");
    run(child.env(DESTINATION, logs.path().join("log")), &["cudnnCreate"]);
    let entries = read(logs.path());
    let warning = entries.first().unwrap();
    assert_eq!((warning.severity, warning.function.as_deref()), (LogSeverity::Warning, Some("cudnn_loader::search")));
    let reason = warning.traceback.first().unwrap();
    assert_eq!((reason.kind.as_str(), reason.status.as_str()), ("Warning", "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"));
    assert!(reason.reason.contains(damaged.name()), "{reason:?}");
    assert_eq!(entries.iter().filter(|entry| entry.severity == LogSeverity::Error).count(), 2);
}

#[test]
fn a_hostile_path_cannot_forge_an_entry() {
    let logs = TempDir::new();
    let dir = logs.path().join("a\nE! CuDNN (v90000) function cudnnForged() called:\n\u{1b}[31m");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join(Library::Graph.file_name()), b"\x7fELF").unwrap();
    let child = Child::new(DRIVER, Subject::Loader, &dir).env(LEVEL, "3").env(DESTINATION, "stdout");
    let output = run(child, &["~cudnnCreate"]);
    let entries = parse(&output.stdout);
    assert!(!functions(&entries).contains(&"cudnnForged") && !output.stdout.contains('\u{1b}'), "{output:#?}");
    let mentions_it = |entry: &&LogEntry| entry.traceback.iter().any(|reason| reason.reason.contains("Forged"));
    assert!(entries.iter().filter(mentions_it).count() == 3, "{entries:#?}");
}

#[test]
fn a_callback_gets_the_loaders_entries_too() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let nothing = TempDir::new();
    let errors = |output: &ChildOutput| -> Vec<String> {
        output.stdout.lines().filter(|line| line.starts_with("callback 1")).map(str::to_owned).collect()
    };
    for subject in [Subject::Loader, Subject::Shim] {
        let drop_in = drop_in_alone();
        let child = |dir: &Path| match subject {
            Subject::Loader => Child::new(DRIVER, subject, dir),
            Subject::Shim => Child::new(DRIVER, subject, drop_in.path()).env("CUDNN_LOADER_DIR", dir),
        };
        // As with cuDNN, errors cannot be masked. The environment's destination receives no further entries.
        let output = run(child(&real).env(LEVEL, "3"), &["callback:0", "~cudnnCreateTensorDescriptor"]);
        assert_eq!(output.returned("cudnnSetCallback"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:#?}");
        let reported = errors(&output);
        assert!(
            reported.iter().any(|line| {
                line == "callback 1 5 3009 \"CuDNN (v91900) function cudnnCreateTensorDescriptor() called:\""
            }),
            "{output:#?}"
        );
        assert!(!output.stderr.contains("function cudnnCreateTensorDescriptor()"), "{output:#?}");
        // The callback can also be set without cuDNN, and receives the reason.
        let output = run(child(nothing.path()), &["callback:14", "~cudnnCreate"]);
        assert_eq!(output.returned("cudnnSetCallback"), Some("CUDNN_STATUS_SUCCESS (0)"));
        let reported = errors(&output);
        for function in ["cudnn_loader::search", "cudnnSetCallback", "cudnnCreate"] {
            assert!(
                reported.contains(&format!("callback 1 5 1008 \"CuDNN (v0) function {function}() called:\"")),
                "{function}: {output:#?}"
            );
        }
    }
}

#[test]
fn a_hook_set_before_the_first_use_loads_no_library_and_receives_all_entries() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run(Child::new(DRIVER, Subject::Loader, &real), &["log", "maps", "~cudnnGetVersion"]);
    let (before, after) = output.stdout.split_once("event").unwrap();
    assert_eq!((output.returned("log"), before.contains("mapped")), (Some("Ok(())"), false), "{output:#?}");
    for reported in ["info: cudnn_loader::load(", "info: cudnnGetVersion: 0"] {
        assert!(after.contains(reported), "{reported}: {output:#?}");
    }
    // These entries are not about a device.
    assert!(output.stdout.lines().filter(|line| line.starts_with("event")).all(|line| line.ends_with("None")));
    let nothing = TempDir::new();
    let output = run(Child::new(DRIVER, Subject::Loader, nothing.path()), &["log:panic", "cudnnGetVersion"]);
    assert!(output.stdout.contains("event error: cudnn_loader::search: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"));
    assert_eq!(output.returned("cudnnGetVersion"), Some("0"), "{output:#?}");
}

/// Returns an entry without the parts that differ between runs.
fn constant(entry: &LogEntry) -> String {
    let arguments: Vec<String> = entry
        .arguments
        .iter()
        .filter(|argument| !argument.value.contains("addr=") && argument.name != "duration")
        .map(|argument| format!("{}={}", argument.name, argument.value))
        .collect();
    format!("{} {:?} {arguments:?} {:?}", entry.severity, entry.function, entry.traceback)
}

#[test]
fn a_log_that_the_program_requests_has_the_format_of_cudnn() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let args = ["~cudnnGetVersion", "~cudnnBackendFinalize", "~cudnnCreateTensorDescriptor"];
    let by_variables = TempDir::new();
    let child = Child::new(DRIVER, Subject::Loader, &real).env(LEVEL, "3");
    run(child.env(DESTINATION, by_variables.path().join("log")), &args);
    let by_code = TempDir::new();
    let write = format!("write:3,{}", by_code.path().join("log_%i").display());
    let all: Vec<&str> = [write.as_str()].into_iter().chain(args).collect();
    run(Child::new(DRIVER, Subject::Loader, &real), &all);
    // The loader writes both cuDNN's entries and its own to one file.
    let code_file = log_file(by_code.path(), false);
    let shape = |file: &Path| entries_of(file).iter().map(constant).collect::<Vec<String>>();
    let code = shape(&code_file);
    let cudnns_file = log_file(by_variables.path(), false);
    let variables = [shape(&cudnns_file), shape(&log_file(by_variables.path(), true))].concat();
    // cuDNN calls a few functions while it is loaded, before a callback can be set.
    let missing: Vec<&String> = variables.iter().filter(|entry| !code.contains(entry)).collect();
    assert!(missing.iter().all(|entry| entry.contains("cudnnGetCudartVersion")), "{missing:#?}\n{code:#?}");
    let error = |file: &Path| {
        let log = std::fs::read_to_string(file).unwrap();
        let start = log.find("\nE! CuDNN (v91900 56) function cudnnBackendFinalize()").unwrap();
        let entry = log.get(start..).unwrap().split("\n\n").next().unwrap().to_owned();
        entry.lines().filter(|line| !line.contains("Time") && !line.contains("Process")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(error(&code_file), error(&cudnns_file));
    // The program's request replaces the environment's.
    let child = Child::new(DRIVER, Subject::Loader, &real).env(LEVEL, "3").env(DESTINATION, "stdout");
    let output = run(child, &["write:1,stderr", "~cudnnGetVersion", "~cudnnBackendFinalize"]);
    assert_eq!(functions(&parse(&output.stderr)), ["cudnnBackendFinalize"], "{output:#?}");
    assert!(!output.stdout.contains("cudnnBackendFinalize()"), "{output:#?}");
}

/// Returns a child that logs everything into a file in a directory.
fn logging(real: &Path, dir: &Path, name: &str) -> Child {
    Child::new(DRIVER, Subject::Loader, real).env(LEVEL, "3").env(DESTINATION, dir.join(name))
}

/// When cuDNN receives the first callback, it closes the log file while other threads may be writing to it, and
/// corrupts the heap. Therefore no cuDNN call may run at the same time, including the loader's own calls.
#[test]
fn a_hook_combined_with_a_log_file_survives_first_calls_from_many_threads() {
    if support::is_emulated(
        "a_hook_combined_with_a_log_file_survives_first_calls_from_many_threads",
        "it takes minutes there",
    ) {
        return;
    }
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let slow_library = slow_writers(&logs);
    let open = format!("open:{}", real.join(Library::Graph.file_name()).display());
    for _ in (0..12).share(3) {
        for (is_slow, args) in [
            (false, &["log:quiet", "storm"][..]),
            // Threads that start while ld.so is opening cuDNN for another thread.
            (true, &["log:quiet", "storm:late"]),
            // The process has loaded cuDNN before the first call through the loader.
            (false, &[&open, "log:quiet", "storm"]),
        ] {
            let child = logging(&real, logs.path(), "cudnn.log");
            let output = run(if is_slow { child.env("LD_PRELOAD", &slow_library) } else { child }, args);
            assert_eq!(output.returned("storm"), Some("over"), "{output:#?}");
        }
    }
}

/// Builds a library for LD_PRELOAD that delays the log entries of `cudnnGetCudartVersion`, which the loader calls. The
/// thread that opens cuDNN and then sets the callback is delayed less than the others, which would still be writing.
fn slow_writers(dir: &TempDir) -> PathBuf {
    let file = dir.path().join("libslow.so");
    let code = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n
        static __thread int opens, is_query;
        void *dlopen(const char *file, int flags) {
            void *(*real)(const char *, int) = dlsym(RTLD_NEXT, \"dlopen\");
            if (file && strstr(file, \"libcudnn_graph\") && !(flags & RTLD_NOLOAD)) opens = 1;
            return real(file, flags);
        }
        int fputs(const char *text, FILE *file) {
            int (*real)(const char *, FILE *) = dlsym(RTLD_NEXT, \"fputs\");
            if (strstr(text, \"function \")) is_query = strstr(text, \"cudnnGetCudartVersion\") != 0;
            if (is_query && !strncmp(text, \"Time:\", 5)) usleep(opens ? 5000 : 30000);
            return real(text, file);
        }";
    support::compile(code, &["-shared", "-fPIC"], &file);
    file
}

#[test]
fn a_program_can_read_back_its_callback() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let child = || Child::new(DRIVER, Subject::Loader, &real);
    let output = run(child(), &["get-callback", "callback:2", "get-callback", "log:quiet", "get-callback"]);
    let lines = output.stdout.lines().filter(|line| line.starts_with("cudnnGetCallback = "));
    let expected = [
        "cudnnGetCallback = CUDNN_STATUS_SUCCESS (0), 0, 0, false",
        "cudnnGetCallback = CUDNN_STATUS_SUCCESS (0), 2, 5, true",
    ];
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.get(..2), Some(&expected[..]), "{output:#?}");
    assert!(lines.get(2).is_some_and(|line| line.ends_with("false")), "{output:#?}");
}

#[test]
fn the_programs_files_keep_their_flags_and_locks() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    for level in ["0", "3"] {
        let logs = TempDir::new();
        let other = logs.path().join("cudnn_profile.log");
        let lock = format!("lock:{}", other.display());
        // Another part of the program loads cuDNN.
        let open = format!("open:{}", real.join(Library::Graph.file_name()).display());
        for args in [&[&*lock][..], &[&*open, &*lock]] {
            let args = [args, &["~cudnnGetVersion", "~cudnnCreateTensorDescriptor", "locked"]].concat();
            let output = run(logging(&real, logs.path(), "cudnn_%Y.log").env(LEVEL, level), &args);
            assert_eq!(output.returned("appends"), Some("false"), "{output:#?}");
            assert_eq!(output.returned("locked"), Some("true"), "{output:#?}");
        }
        assert_eq!(std::fs::read(&other).unwrap(), b"", "{level}");
        std::fs::remove_file(&other).unwrap();
        assert_eq!(std::fs::read_dir(logs.path()).unwrap().count(), if level == "3" { 2 } else { 0 });
    }
}

#[test]
fn a_child_process_writes_its_own_file() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let child = logging(&real, logs.path(), "cudnn_%i.log");
    let output = run(child, &["~cudnnGetVersion", "spawn:~cudnnGetVersion+~cudnnCreateTensorDescriptor"]);
    assert_eq!(output.returned("spawned"), Some("Some(0)"), "{output:#?}");
    let mut sizes = Vec::new();
    let files = std::fs::read_dir(logs.path()).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.to_str().unwrap().ends_with(".loader")) {
        let log = parse(&std::fs::read_to_string(file).unwrap());
        assert_eq!(functions(&log).iter().filter(|name| **name == "cudnn_loader::search").count(), 1);
        let process = log.first().unwrap().process;
        assert!(log.iter().all(|entry| entry.process == process));
        sizes.push(log.len());
    }
    assert_eq!(sizes.len(), 2);
}

#[test]
fn a_link_at_the_path_of_the_loaders_file_is_followed() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let file = logs.path().join("file");
    std::os::unix::fs::symlink(&file, logs.path().join("log.loader")).unwrap();
    run(logging(&real, logs.path(), "log"), &["~cudnnGetVersion", "~cudnnCreateTensorDescriptor", "~cudnnGetVersion"]);
    let entries = entries_of(&file);
    let reported = functions(&entries);
    assert_eq!(reported.first(), Some(&"cudnn_loader::search"));
    assert_eq!(reported.last(), Some(&"cudnnCreateTensorDescriptor"));
}

#[test]
fn a_destination_that_cannot_be_written_only_disables_the_log() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let (logs, nothing) = (TempDir::new(), TempDir::new());
    let pipe = std::ffi::CString::new(logs.path().join("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the name is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    // The pipe is never read. With cuDNN, cuDNN itself would wait for a reader.
    for (destination, cudnn) in [("pipe", nothing.path()), (".", nothing.path()), (".", &*real), ("a/b", &*real)] {
        let child = logging(cudnn, logs.path(), destination);
        let output = run(child, &["~cudnnGetVersion", "~cudnnCreateTensorDescriptor"]);
        assert!(output.returned("cudnnCreateTensorDescriptor").is_some(), "{destination}: {output:#?}");
    }
}

#[test]
fn a_program_that_closes_all_descriptors_gets_nothing_written_into_its_files() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let (logs, nothing) = (TempDir::new(), TempDir::new());
    let victim = logs.path().join("victim");
    let lock = format!("lock:{}", victim.display());
    for cudnn in [nothing.path(), &*real] {
        let child = logging(cudnn, logs.path(), "log");
        let after = ["~cudnnCreateTensorDescriptor"; 2];
        run(child, &["~cudnnCreateRNNDescriptor", "close-all", &lock, &lock, &lock, &lock, &lock, after[0], after[1]]);
        let written = std::fs::read_to_string(&victim).unwrap();
        assert!(!written.contains("cudnnCreateTensorDescriptor"), "{written}");
    }
    // Without cuDNN, the loader writes its own file and reopens it by name.
    let log = std::fs::read_to_string(logs.path().join("log.loader")).unwrap();
    assert!(log.contains("cudnnCreateTensorDescriptor"), "{log}");
}

#[test]
fn a_log_that_the_program_requests_empties_its_file_and_no_other() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let file = logs.path().join("log");
    std::fs::write(&file, "stale").unwrap();
    let (lock, write) =
        (format!("lock:{}", logs.path().join("other").display()), format!("write:3,{}", file.display()));
    let output = run(
        Child::new(DRIVER, Subject::Loader, &real),
        &[&lock, &write, "~cudnnGetVersion", &write, "~cudnnCreateTensorDescriptor", "locked"],
    );
    assert_eq!(output.returned("appends"), Some("false"), "{output:#?}");
    let log = std::fs::read_to_string(&file).unwrap();
    let reported = parse(&log);
    // The second process has emptied the file again.
    assert!(!log.contains("stale") && !functions(&reported).contains(&"cudnnGetVersion"), "{log}");
    assert!(functions(&reported).contains(&"cudnnCreateTensorDescriptor"), "{log}");
}

#[test]
fn a_thread_that_is_cancelled_while_its_call_is_logged_does_not_end_the_process() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let write = format!("write:3,{}", logs.path().join("log").display());
    for arg in [write.as_str(), "log"] {
        let output = run(Child::new(DRIVER, Subject::Loader, &real), &[arg, "~cudnnGetVersion", "cancel"]);
        assert_eq!(output.signal, None, "{arg}: {output:#?}");
    }
}

#[test]
fn a_reader_that_closed_the_log_does_not_end_the_process() {
    let nothing = TempDir::new();
    let command = format!("{DRIVER} sigpipe ~cudnnCreate ~cudnnCreate 2>&1 >/dev/null | true; exit ${{PIPESTATUS[0]}}");
    for _ in 0..3 {
        let output = std::process::Command::new("bash")
            .args(["-c", &command])
            .env_clear()
            .env("CUDNN_LOADER_DIR", nothing.path())
            .env(LEVEL, "3")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn a_file_name_cannot_forge_lines() {
    let dir = TempDir::new();
    let target = "nowhere\nTime: forged\nProcess=1; Thread=7";
    std::os::unix::fs::symlink(target, dir.file(Library::Graph)).unwrap();
    let child = Child::new(DRIVER, Subject::Loader, dir.path()).env(LEVEL, "3").env(DESTINATION, "stdout");
    let output = run(child, &["~cudnnCreate"]);
    let is_forged = |line: &str| {
        let line = line.get(1..).unwrap_or_default();
        line.starts_with("! Time: f") || line.starts_with("! Process=1;")
    };
    let forged = output.stdout.lines().any(is_forged);
    assert!(!forged && output.stdout.contains("forged"), "{output:#?}");
}

#[test]
fn processes_that_share_a_file_name_append_complete_entries() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let logs = TempDir::new();
    let open = format!("open:{}", real.join(Library::Graph.file_name()).display());
    let spawn = format!("spawn:{open}+~cudnnGetVersion+~cudnnCreateTensorDescriptor+~cudnnGetVersion");
    run(logging(&real, logs.path(), "log"), &[&open, "~cudnnGetVersion", &spawn, "~cudnnCreateTensorDescriptor"]);
    let entries = read(logs.path());
    // The second process empties the file, as cuDNN does, and the first appends to it.
    let failed: Vec<&LogEntry> =
        entries.iter().filter(|entry| entry.function.as_deref() == Some("cudnnCreateTensorDescriptor")).collect();
    assert_eq!(failed.len(), 2, "{entries:#?}");
    assert_ne!(failed.first().unwrap().process, failed.last().unwrap().process);
}

#[test]
fn a_hook_may_call_cudnn() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output =
        run(Child::new(DRIVER, Subject::Loader, &real), &["log:calls", "~cudnnGetVersion", "~cudnnGetVersion"]);
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
}

#[test]
fn a_device_as_the_destination_does_not_create_another_file() {
    let nothing = TempDir::new();
    let child = || Child::new(DRIVER, Subject::Loader, nothing.path()).env(LEVEL, "1");
    let output = run(child().env(DESTINATION, "/dev/stderr"), &["~cudnnCreate"]);
    assert_eq!(functions(&parse(&output.stderr)), ["cudnn_loader::search", "cudnnCreate"], "{output:#?}");
    let dir = format!("{}/", nothing.path().display());
    run(child().env(DESTINATION, dir), &["~cudnnCreate"]);
    assert_eq!(std::fs::read_dir(nothing.path()).unwrap().count(), 0);
    for device in ["/dev/stderr", "/dev/null"] {
        assert!(!Path::new(&format!("{device}.loader")).exists());
    }
    // A file in memory is a file.
    let file = PathBuf::from(format!("/dev/shm/cudnn-tests-{}", std::process::id()));
    run(child().env(DESTINATION, &file), &["~cudnnCreate"]);
    std::fs::remove_file(file.with_extension("loader")).unwrap();
}

/// A query with a negative answer is not an error, but a failed call is.
#[test]
fn queries_and_skipped_steps_do_not_log_errors() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let nothing = TempDir::new();
    for dir in [real.as_path(), nothing.path()] {
        let logs = TempDir::new();
        let child = || {
            let child = Child::new(DRIVER, Subject::Loader, dir).env(LEVEL, "3");
            child.env(DESTINATION, logs.path().join("log"))
        };
        let output = run(child(), &["?cudnnCreateTensorDescriptor"]);
        assert!(output.stdout.contains("?cudnnCreateTensorDescriptor = false"), "{output:#?}");
        let text = std::fs::read_to_string(logs.path().join("log.loader")).unwrap_or_default();
        assert!(parse(&text).iter().all(|entry| entry.severity < LogSeverity::Error), "{text}");

        if dir == real {
            let output = run(child(), &["preload:"]);
            assert!(output.stdout.contains("step load libcudnn_ops.so.9 = skipped"), "{output:#?}");
            let text = std::fs::read_to_string(logs.path().join("log.loader")).unwrap_or_default();
            assert!(parse(&text).iter().all(|entry| entry.severity < LogSeverity::Error), "{text}");
        }

        run(child(), &["?cudnnCreateTensorDescriptor", "~cudnnCreateTensorDescriptor"]);
        let entries = entries_of(&logs.path().join("log.loader"));
        let errors = entries.iter().filter(|entry| entry.severity == LogSeverity::Error);
        let functions: Vec<_> = errors.filter_map(|entry| entry.function.as_deref()).collect();
        // Ten milliseconds later, the call retries the failed search and logs the failure.
        let (call, again) = functions.split_last().unwrap();
        assert_eq!(*call, "cudnnCreateTensorDescriptor");
        assert!(again.iter().all(|function| function.starts_with("cudnn_loader::")), "{functions:?}");
    }
}
