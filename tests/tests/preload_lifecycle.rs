//! Tests a preload while the program exits, forks, or loads a plugin. All waits are limited, and the program must not
//! crash.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::{
    Child, ChildOutput, FakeLibrary, Library, Share, Subject, TempDir, Version, client, drop_in, drop_in_alone, lib_dir,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

/// The drop-in, a program that is linked to it, and the cuDNN that it loads.
struct Program {
    dir: TempDir,
    ours: TempDir,
    cudnn: PathBuf,
}

impl Program {
    fn new(source: &str, release: &str) -> Option<Program> {
        let cudnn = lib_dir(release)?;
        let ours = drop_in_alone();
        let dir = client(source, ours.path(), &["-I", header().to_str().unwrap(), "-pthread"])?;
        Some(Program { dir, ours, cudnn })
    }

    fn run(&self, preload: &str, args: &[&str]) -> ChildOutput {
        self.finish(self.child(preload), args)
    }

    fn child(&self, preload: &str) -> Child {
        Child::bare(self.dir.path().join("client"))
            .env("LD_LIBRARY_PATH", self.ours.path())
            .env("CUDNN_LOADER_DIR", &self.cudnn)
            .env("CUDNN_LOADER_PRELOAD", preload)
    }

    fn finish(&self, child: Child, args: &[&str]) -> ChildOutput {
        let start = Instant::now();
        let output = child.run_successfully(args);
        assert!(start.elapsed() < Duration::from_secs(30), "{args:?} took {:?}", start.elapsed());
        output
    }

    fn plugin(&self) -> PathBuf {
        let file = self.dir.path().join("libplugin.so");
        let header = header();
        let flags = ["-DPLUGIN", "-shared", "-fPIC", "-I", header.to_str().unwrap()];
        let built = client("preload.c", self.ours.path(), &flags).expect("the headers are there");
        std::fs::copy(built.path().join("client"), &file).unwrap();
        file
    }
}

fn header() -> PathBuf {
    drop_in().join("include")
}

/// Exits at times that are spread over the preload, 1 ms apart. Before the exit waited for the current step, 7 of 40
/// processes crashed here, and 32 of 40 with the full release.
fn exits(release: &str) {
    let Some(program) = Program::new("preload.c", release) else { return };
    for value in ["libraries", "engines", "files,contexts"] {
        for delay in (0..40).share(3) {
            program.run(value, &["exit", &(delay * 1000).to_string()]);
        }
    }
    let engines = program.run("engines", &["exit", "500000"]);
    assert_eq!(engines.stdout, "returns\n", "{engines:#?}");
}

#[test]
fn a_program_that_returns_from_main_at_any_moment_does_not_crash() {
    exits("jit-cu12-9.19.0");
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn a_program_that_returns_from_main_at_any_moment_does_not_crash_with_a_full_release() {
    exits("cu12-9.10.2");
}

/// The same from safe Rust, where 35 of 40 crashed.
fn rust_exits(release: &str) {
    let Some(real) = lib_dir(release) else { return };
    for delay in (0..40).share(3) {
        let output = Child::new(DRIVER, Subject::Loader, &real).run(&["background", &format!("sleep:{delay}")]);
        assert_eq!(output.code, Some(0), "after {delay} ms: {output:#?}");
    }
}

#[test]
fn a_rust_program_that_returns_from_main_during_a_preload_does_not_crash() {
    rust_exits("jit-cu12-9.19.0");
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn a_rust_program_that_returns_from_main_during_a_preload_does_not_crash_with_a_full_release() {
    rust_exits("cu12-9.10.2");
}

#[test]
fn a_child_that_is_forked_at_any_moment_exits_normally() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for delay in (0..40).share(3) {
        let output = program.run("files,contexts", &["fork", &(delay * 1000).to_string()]);
        assert!(output.stdout.contains("child = 0\n"), "{output:#?}");
    }
}

/// One thread starts the preloads while another one forks and exits. Previously, 13 of 60 children or parents crashed.
#[test]
fn a_process_that_forks_and_exits_while_preloads_start_does_not_crash() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for round in (0..60).share(3) {
        let output = program.run("", &["start-fork", &(round * 50).to_string()]);
        assert!(output.stdout.contains("child = 0\n"), "{output:#?}");
    }
}

#[test]
fn a_child_does_not_wait_for_the_preload_of_its_parent() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    let output = program.run("", &["child-waits"]);
    assert_eq!(output.stdout, "child = 0, parent = 0\nreturns\n", "{output:#?}");
}

#[test]
fn waiting_for_several_preloads_returns_the_first_failure() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    // Only a limited number of preloads is stored.
    for later in ["1", "40"] {
        let output = program.run("", &["first-failure", later]);
        assert!(output.stdout.contains("failed = 1, again = 1\n"), "{output:#?}");
        assert!(output.stdout.contains(" failed: "), "the report describes the failed preload: {output:#?}");
    }
}

#[test]
fn a_thread_that_started_a_preload_may_exit_and_the_drop_in_may_be_closed() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    assert_eq!(program.run("", &["start-in-thread"]).stdout, "closed = 0\nreturns\n");
}

#[test]
fn a_log_callback_on_a_thread_of_a_preload_may_exit_fork_and_wait() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for (how, expected) in
        [("exit", "exits\n"), ("fork", "child = 0\nwait = 0\nreturns\n"), ("start", ""), ("wait", ""), ("run", "")]
    {
        for _ in (0..8).share(3) {
            let output = program.run("", &["callback", how]);
            let is_expected = if expected.is_empty() {
                output.stdout.contains(&format!("{how} = 0\n")) && output.stdout.ends_with("returns\n")
            } else {
                output.stdout == expected
            };
            assert!(is_expected, "{how}: {output:#?}");
        }
    }
}

/// A preload makes about ten log entries. Previously, every entry started another preload, in an endless loop.
#[test]
fn a_log_callback_that_starts_a_preload_for_each_entry_does_not_run_out_of_threads() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    let output = program.run("", &["start-each"]);
    assert_eq!(output.stdout, "wait = 0\nfew threads = 1\nwait = 0\nreturns\n", "{output:#?}");
}

/// cuDNN throws std::bad_alloc through C functions, which terminated the process.
#[test]
fn engines_are_not_registered_where_the_address_space_is_limited() {
    if support::is_emulated(
        "engines_are_not_registered_where_the_address_space_is_limited",
        "an emulator does not limit the address space",
    ) {
        return;
    }
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    let output = program.run("", &["limit"]);
    let lines: Vec<&str> = output.stdout.lines().filter(|line| line.contains("register engines")).collect();
    assert!(
        matches!(lines[..], [line] if line.contains("skipped: the address space limit is below 16 GiB")),
        "{output:#?}"
    );
}

/// The variable is intended for programs that are not aware of the preload.
#[test]
fn preloading_files_and_contexts_does_not_load_cudnn() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for (value, loads, registers) in [
        ("files,contexts", false, false),
        ("files", false, false),
        ("contexts", false, false),
        ("libraries", true, false),
        ("files,contexts,engines", true, true),
    ] {
        let report = program.run(value, &["report"]).stdout;
        assert_eq!(report.contains("load libcudnn"), loads, "{value}: {report}");
        assert!(report.contains("read libcudnn_graph"), "{value}: {report}");
        assert_eq!(report.contains("register engines"), registers, "{value}: {report}");
        assert_eq!(report.contains("start the driver"), value != "files" && value != "libraries", "{value}: {report}");
    }
}

/// Previously, with the libraries loaded, 27 of 120 crashed, and some hung.
fn exits_in_threads(release: &str) {
    let Some(program) = Program::new("preload.c", release) else { return };
    for delay in (0..60).share(3) {
        program.run("files,contexts", &["exit-in-thread", &(delay * 200).to_string()]);
    }
}

#[test]
fn a_program_that_preloads_files_and_contexts_may_exit_in_any_thread_at_any_moment() {
    exits_in_threads("jit-cu12-9.19.0");
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn a_program_that_preloads_a_full_release_may_exit_in_any_thread_at_any_moment() {
    exits_in_threads("cu12-9.10.2");
}

/// A thread of the preload may be reading ld.so's list. Previously, 12 of 164 children hung.
#[test]
fn a_child_forked_during_a_preload_may_read_the_list_of_ld_so() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for delay in (0..80).share(3) {
        let output = program.run(
            if delay % 2 == 0 { "files,contexts" } else { "libraries" },
            &["fork-list", &(delay * 100).to_string()],
        );
        assert!(output.stdout.contains("child = 0\n"), "{output:#?}");
    }
}

/// A thread of the preload called `getenv`. Previously, 45 of 300 programs crashed, and 7 of 700 programs that set 50
/// variables.
#[test]
fn a_program_may_set_variables_during_a_preload_of_files() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for _ in (0..60).share(3) {
        program.run("files", &["set-variables", "8000"]);
    }
}

/// The preload reads no files there. Previously, 31 of 150 programs lost data in their pipes.
#[test]
fn a_program_may_close_all_descriptors_if_threads_cannot_unshare_theirs() {
    if support::is_emulated(
        "a_program_may_close_all_descriptors_if_threads_cannot_unshare_theirs",
        "an emulator does not support seccomp",
    ) {
        return;
    }
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for delay in (0..40).share(3) {
        let output = program.run("files", &["deny", "close-all", &(delay * 80).to_string()]);
        assert_eq!(output.stdout, "lost = 0, version = 1\nreturns\n", "{output:#?}");
    }
    let report = program.run("files", &["deny", "report"]).stdout;
    assert!(report.contains("cannot unshare the file descriptor table") && !report.contains("read lib"), "{report}");
}

/// Previously, every step of the preload waited ten seconds for the exit, which waited for the preload.
#[test]
fn a_destructor_may_wait_for_a_preload() {
    if support::is_emulated("a_destructor_may_wait_for_a_preload", "an emulator is slow") {
        return;
    }
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    let start = Instant::now();
    program.run("", &["wait-at-exit"]);
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
}

/// Previously, 29 of 150 programs lost a pipe or data in it, or reported a healthy cuDNN as damaged.
#[test]
fn a_program_may_close_all_descriptors_during_a_preload() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for delay in (0..80).share(3) {
        // Contexts are excluded: while ld.so loads the driver's library, it has a file open among the program's
        // descriptors.
        let output = program.run("files", &["close-all", &(delay * 40).to_string()]);
        assert_eq!(output.stdout, "lost = 0, version = 1\nreturns\n", "{output:#?}");
    }
}

/// A failing call searches for cuDNN and reads ld.so's list. Previously, a child of 10 of 20 processes hung, and 5 of
/// 12 processes lost log entries, because a child emptied the file.
#[test]
fn children_of_a_process_with_failing_calls_neither_hang_nor_lose_log_entries() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    for _ in (0..40).share(3) {
        let log = program.dir.path().join("cudnn.log");
        let loader_log = program.dir.path().join("cudnn.log.loader");
        let child = program
            .child("")
            .env("CUDNN_LOADER_DIR", "/nonexistent")
            .env("CUDNN_LOGLEVEL_DBG", "1")
            .env("CUDNN_LOGDEST_DBG", &log);
        let output = program.finish(child, &["failing-calls"]);
        assert_eq!(output.stdout, "children = 0\nreturns\n", "{output:#?}");
        let text = std::fs::read_to_string(&loader_log).unwrap();
        let failures = text.matches("cudnnCreateTensorDescriptor").count();
        assert!(failures >= 16 * 20 + 5 * 20, "{failures} entries");
        std::fs::remove_file(&loader_log).unwrap();
    }
}

/// Previously, this hung.
#[test]
fn a_fork_with_a_lock_that_a_callback_needs_waits_ten_seconds_at_most() {
    if support::is_emulated("a_fork_with_a_lock_that_a_callback_needs_waits_ten_seconds_at_most", "an emulator is slow")
    {
        return;
    }
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    let start = Instant::now();
    let output = program.run("", &["lock"]);
    assert_eq!(output.stdout, "child = 0\nwait = 0\nreturns\n", "{output:#?}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

/// The constructor runs under ld.so's lock, which the threads of a preload need. Previously, seven of these twelve
/// cases hung.
#[test]
fn the_constructor_of_a_plugin_may_exit_fork_and_preload() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    let plugin = program.plugin();
    for preload in ["", "files,contexts"] {
        for (how, expected) in [
            ("exit", "exits\n"),
            ("fork", "child = 0\nreturns\n"),
            ("start", "start = 0\nreturns\n"),
            ("wait", "wait = 0\nreturns\n"),
            ("run", "run = 0\nreturns\n"),
            ("first-call", "version = 1\nreturns\n"),
        ] {
            let start = Instant::now();
            let output = program.finish(program.child(preload).env("HOW", how), &["plugin", plugin.to_str().unwrap()]);
            assert_eq!(output.stdout, expected, "{preload:?} {how}: {output:#?}");
            // If an exit or a fork meets a step that needs the lock, it waits for ten seconds at most.
            assert!(start.elapsed() < Duration::from_secs(15), "{preload:?} {how} took {:?}", start.elapsed());
        }
    }
}

/// Namespaces have separate copies of libc, and ld.so's locks fail if both copies create threads. Previously, 3 of 5
/// hung.
#[test]
fn a_preload_in_another_namespace_starts_no_thread() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    let file = program.ours.path().join("libcudnn.so.9");
    for _ in (0..8).share(3) {
        let output = program.run("", &["namespace", file.to_str().unwrap()]);
        assert_eq!(output.stdout, "start = 0, wait = 0\nstart = 0, wait = 0\nreturns\n", "{output:#?}");
    }
}

#[test]
fn a_preload_needs_no_thread() {
    let Some(program) = Program::new("preload.c", "jit-cu12-9.19.0") else { return };
    // The limit does not apply to root, and other users cannot read the cache.
    let readable = TempDir::new();
    FakeLibrary::new(Library::Graph, Version::new(9, 7, 0)).build(&readable.file(Library::Graph));
    let child = program.child("").env("CUDNN_LOADER_DIR", readable.path()).without_privileges();
    let output = program.finish(child, &["no-threads"]);
    assert_eq!(output.stdout, "start = 0\nwait = 0\nrun = 0\nreturns\n", "{output:#?}");
}

#[test]
fn a_preload_does_not_receive_signals_of_the_program() {
    let Some(program) = Program::new("lifecycle.c", "jit-cu12-9.19.0") else { return };
    for _ in (0..10).share(3) {
        program.run("files,contexts", &["exit"]);
        assert!(program.run("files,contexts", &["fork"]).stdout.contains("child = 0"));
    }
    assert_eq!(program.run("files,contexts", &["signals"]).stdout.trim(), "mine = 1, others = 0");
}
