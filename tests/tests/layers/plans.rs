//! Tests the layer `plans`: it must not change a program's results, and cached plans are not rebuilt.

use std::collections::HashSet;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use cudnn_layers::plans::{VariableUse, variable_use};
use cudnn_store::plans::{Settings, Store, StoredPlan};
use support::{
    Child, ChildOutput, FakeLibrary, Library, PlanningLibraries, Subject, TempDir, Version, Wheel, is_full, lib_dir,
};

pub(super) const PLANNER: &str = env!("CARGO_BIN_EXE_planner");
const VERSION: Version = Version::new(9, 19, 0);
const GETENV: &str = include_str!("../../layers/environment.c");

/// A plan store, and a fake cuDNN with plans that contain exactly their inputs.
struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new();
        let code = include_str!("../../layers/planner.c");
        let graph = FakeLibrary::new(Library::Graph, VERSION).with_code(code).with_body("LOG; return 0;");
        graph.build(&dir.file(Library::Graph));
        World { dir }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("plans")
    }

    fn run(&self, layers: &str, args: &[&str]) -> ChildOutput {
        let output = self.child().run(&[&[layers], args].concat());
        assert_eq!((output.code, output.signal), (Some(0), None), "{layers} {args:?}: {}", output.stderr);
        assert!(output.stderr.contains("\n0 descriptors were not destroyed"), "{layers} {args:?}: {}", output.stderr);
        output
    }

    /// Like `run`, for a program that does not destroy all descriptors.
    fn run_ending_early(&self, layers: &str, args: &[&str]) -> ChildOutput {
        let output = self.child().run(&[&[layers], args].concat());
        assert_eq!((output.code, output.signal), (Some(0), None), "{layers} {args:?}: {}", output.stderr);
        output
    }

    fn child(&self) -> Child {
        Child::new(PLANNER, Subject::Loader, self.dir.path())
            .env("CUDNN_PLANS_DIR", self.store())
            .env("CUDNN_LOGLEVEL_DBG", "3")
    }

    /// Returns the cached plans.
    fn files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.store()).into_iter().flatten().map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|extension| extension == "plan")).collect()
    }

    /// Makes all cached plans appear unused. Programs with a log callback receive the log themselves.
    fn forget_uses(&self) {
        for file in self.files() {
            let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
    }

    fn was_used(&self) -> bool {
        self.files().iter().any(|file| file.metadata().unwrap().modified().unwrap() != SystemTime::UNIX_EPOCH)
    }
}

/// Counts the plans in the log.
pub(super) fn count(output: &ChildOutput, what: &str) -> usize {
    output.stderr.lines().filter(|line| line.contains(&format!("plan {what}"))).count()
}

/// Returns the first line that differs, with some preceding lines.
fn difference(expected: &str, found: &str) -> Option<String> {
    let (mut expected_lines, mut found_lines) = (expected.lines(), found.lines());
    let mut context: Vec<&str> = Vec::new();
    loop {
        match (expected_lines.next(), found_lines.next()) {
            (None, None) => return None,
            (a, b) if a == b => context.extend(a),
            (a, b) => {
                let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
                let at = a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
                let around = |line: &str| line.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
                let context = context.split_off(context.len().saturating_sub(12));
                let context: Vec<String> = context.iter().map(|line| line.chars().take(100).collect()).collect();
                return Some(format!("{}\nnot {}\nbut {}", context.join("\n"), around(a), around(b)));
            }
        }
    }
}

/// Compares statuses, texts, attributes and results with and without the layer, for empty and full stores, with and
/// without a trace, and for one or several threads. An ordinary run tries fewer programs.
#[test]
fn random_programs_see_no_difference() {
    if support::is_emulated("random_programs_see_no_difference", "an emulator is slow") {
        return;
    }
    let world = World::new();
    let (programs, threads) = if is_full() { (500, "800") } else { (200, "400") };
    let args = ["0", &programs.to_string(), "1"];
    let without = world.run("none", &args).stdout;
    assert!(without.lines().filter(|line| line.starts_with("computed")).count() > 2 * programs, "{without}");
    let cold = world.run("plans", &args);
    assert_eq!(difference(&without, &cold.stdout), None, "with an empty store");
    assert!(count(&cold, "built in") > programs / 2, "{}", cold.stderr);
    let warm = world.run("plans", &args);
    assert_eq!(difference(&without, &warm.stdout), None, "with a full store");
    assert!(count(&warm, "restored in") > programs && count(&warm, "built in") == 0, "{}", warm.stderr);
    for layers in ["trace,plans", "plans,trace"] {
        let both = world.run(layers, &args);
        assert_eq!(difference(&without, &both.stdout), None, "{layers}");
        // The count is the same, because layers share their knowledge of descriptors without side effects.
        assert_eq!(count(&both, "restored in"), count(&warm, "restored in"), "{layers}: {}", both.stderr);
    }
    let args = ["0", threads, "8"];
    let without = world.run("none", &args).stdout;
    assert_eq!(difference(&without, &world.run("plans", &args).stdout), None, "in several threads");
}

/// A layer below can change the graph, and the store would then contain the plan for the other graph.
#[test]
fn plans_are_not_cached_with_an_unknown_layer_below() {
    let world = World::new();
    let args = ["0", "20", "1"];
    let without = world.run("none", &args).stdout;
    // A layer of another library may also be called `trace`.
    for layers in ["plans,other", "plans,trace,other", "plans,impostor", "plans,trace,impostor"] {
        let inside = world.run(layers, &args);
        assert_eq!(difference(&without, &inside.stdout), None, "{layers}");
        assert!(inside.stderr.contains("runs below plans and may change graphs"), "{layers}: {}", inside.stderr);
        assert!(!world.store().exists(), "{layers}");
    }
    for what in ["built in", "restored in"] {
        let outside = world.run("other,plans", &args);
        assert!(count(&outside, what) > 5, "{what}: {}", outside.stderr);
    }
}

/// A plan that differs in one step from a cached plan must be built separately.
#[test]
fn different_plans_are_not_confused_with_cached_plans() {
    let world = World::new();
    let without = world.run("none", &["variants"]).stdout;
    assert!(without.lines().count() > 300, "{without}");
    let plans = without.lines().filter_map(|line| line.split_once("] {")).map(|(_, plan)| plan);
    // Two of the devices differ only by index.
    let different: HashSet<String> =
        plans.map(|plan| plan.replace("\"cudaDeviceId\":2", "\"cudaDeviceId\":0")).collect();
    assert!(different.len() > 100, "{without}");
    for round in ["an empty store", "a full store"] {
        let with = world.run("plans", &["variants"]);
        assert_eq!(difference(&without, &with.stdout), None, "with {round}");
        assert!(count(&with, "restored in") > 90, "with {round}: {}", with.stderr);
        // Every plan is built once, even if the attributes were set in a different order.
        assert!(count(&with, "built in") <= different.len(), "with {round}: {}", with.stderr);
    }
}

/// Returns the number of attacking programs, with one to three plans each. `CUDNN_TESTS_ATTACKS` raises it.
fn attacks(default: &str) -> String {
    std::env::var("CUDNN_TESTS_ATTACKS").unwrap_or_else(|_| default.to_owned())
}

/// A program's arrays may be shorter than the program claims, if cuDNN reads only the first part.
#[test]
fn the_layer_reads_no_more_memory_than_cudnn() {
    let world = World::new();
    let without = world.child().run(&["none", "bounds"]);
    assert_eq!((without.stdout.lines().count(), without.code), (4, Some(0)), "{without:#?}");
    for layers in ["plans", "trace", "trace,plans"] {
        let with = world.child().run(&[layers, "bounds"]);
        assert_eq!((&with.stdout, with.code), (&without.stdout, Some(0)), "{layers}: {with:#?}");
    }
}

/// cuDNN accepts undocumented calls: an element count where it reads one element, or another type. A program with a
/// different value in such a call must receive a different plan.
#[test]
fn undocumented_calls_are_not_confused() {
    let world = World::new();
    let args = ["attack", "0", &attacks("300")];
    let without = world.run("none", &args).stdout;
    for (layers, round) in [("plans", "an empty store"), ("plans", "a full store"), ("trace,plans", "a trace")] {
        let with = world.run(layers, &args);
        assert_eq!(difference(&without, &with.stdout), None, "with {round}");
        assert!(count(&with, "restored in") > 200, "with {round}: {}", with.stderr);
        assert!(with.stderr.contains("was set to undeclared elements"), "{}", with.stderr);
    }
}

/// cuDNN reads some variables when it is loaded and others when it plans. Programs set them in between.
#[test]
fn a_variable_that_is_set_late_is_noticed() {
    let world = World::new();
    let run = |layers: &str, variables: &[(&str, &str)]| {
        let mut child = world.child();
        for (name, value) in variables {
            child = child.env(name, value);
        }
        child.run(&[layers, "1", "4"])
    };
    let flags = ("CUDNN_JIT_FLAGS_DBG", "fast");
    let cases: &[&[(&str, &str)]] = &[
        &[],
        &[("PLANNER_SETS_LATE", "1")],
        &[("PLANNER_SETS_LATE", "2")],
        &[flags],
        // The value was `fast` when cuDNN was loaded, or changed to it later.
        &[flags, ("PLANNER_SETS_AFTER_LOAD", "precise")],
        &[("PLANNER_SETS_AFTER_LOAD", "fast")],
    ];
    let expected: Vec<String> = cases.iter().map(|variables| run("none", variables).stdout).collect();
    assert!(expected[0] != expected[1] && expected[0] != expected[3], "{}", expected[0]);
    for _ in 0..2 {
        for (variables, expected) in cases.iter().zip(&expected) {
            assert_eq!(difference(expected, &run("plans", variables).stdout), None, "{variables:?}");
        }
    }
}

/// The environment may have changed between loading cuDNN and adding the layer.
#[test]
fn plans_are_not_cached_if_cudnn_was_loaded_before_the_layer_was_added() {
    let world = World::new();
    let without = world.run("none", &["1", "4"]).stdout;
    for _ in 0..2 {
        let output = world.child().env("PLANNER_LOADS_FIRST", "1").run(&["plans", "1", "4"]);
        assert_eq!(difference(&without, &output.stdout), None);
        assert!(count(&output, "not cached: libcudnn_graph was loaded before") > 0, "{}", output.stderr);
    }
    assert!(!world.store().exists());
}

/// Another thread may call `setenv` while the layer checks variables, so it reads them by name.
#[test]
fn the_environment_is_read_as_a_whole_only_when_cudnn_is_loaded() {
    let world = World::new();
    let interposer = world.dir.path().join("environment.so");
    support::compile(GETENV, &["-shared", "-fPIC"], &interposer);
    for what in ["built in", "restored in"] {
        let child = world.child().env("LD_PRELOAD", &interposer).env("PLANNER_CALLS_FIRST", "1");
        let output = child.run(&["plans", "1", "4"]);
        assert_eq!((output.code, output.signal), (Some(0), None), "{}", output.stderr);
        assert!(count(&output, what) > 0, "{}", output.stderr);
    }
}

/// The files of cuDNN and of the store may be on a slow file system. No thread waits for them during the layer's
/// initialization. A call that waits for more than a second bypasses the layers, and plans are then not cached.
#[test]
fn a_slow_start_does_not_disable_the_layer() {
    let world = World::new();
    // Opening the pipe for reading blocks until a writer opens it.
    let slow = world.dir.path().join("libcudnn_slow.so.9");
    assert!(Command::new("mkfifo").arg(&slow).status().unwrap().success());
    let mut planner = Command::new(PLANNER)
        .args(["plans", "1", "4"])
        .env("CUDNN_LOADER_DIR", world.dir.path())
        .env("CUDNN_PLANS_DIR", world.store())
        .env("CUDNN_LOGLEVEL_DBG", "3")
        .env("PLANNER_CALLS_IN_TWO_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(planner.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "called\n");
    // Now the pipe can be opened.
    let _writer = std::fs::OpenOptions::new().read(true).write(true).open(&slow).unwrap();
    std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    let output = planner.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    // The pipe is not a library, and reads at an offset fail.
    let reported: Vec<&str> =
        stderr.lines().filter(|line| line.contains("plans are not cached: cannot read")).collect();
    assert_eq!(reported.len(), 1, "{stderr}");
    assert!(stderr.contains("not cached: the plan store or cuDNN's files cannot be used"), "{stderr}");
    assert!(!stderr.contains("bypassed this layer"), "{stderr}");
}

/// An exception of the program's log callback propagates through all calls, including calls of the layer itself.
#[test]
fn an_exception_of_a_callback_propagates() {
    let world = World::new();
    let run = |layers: &str| world.run_ending_early(layers, &["throw"]);
    let without = run("none").stdout;
    assert!(without.contains("\"cudnnBackendExecute\", \"cudnnBackendFinalize\""), "{without}");
    for (layers, is_restored) in
        [("trace", false), ("plans", true), ("plans", true), ("plans,trace", true), ("trace,plans", true)]
    {
        world.forget_uses();
        let output = run(layers);
        assert_eq!(difference(&without, &output.stdout), None, "{layers}");
        assert_eq!(world.was_used(), is_restored, "{layers}: {}", output.stderr);
    }
    // These functions do not log.
    let silent = ["cudnnGetVersion", "cudnnGetErrorString", "cudnnSetCallback"];
    for library in [Library::Ops, Library::Cnn, Library::Adv, Library::Ext] {
        FakeLibrary::new(library, VERSION)
            .with_code("extern void cudnn_log(const char *function);\n")
            .needing(Library::Graph.linux_name())
            .with_body("cudnn_log(__func__); return 0;")
            .build(&world.dir.file(library));
    }
    for layers in ["none", "trace", "plans", "trace,plans"] {
        let output = world.run_ending_early(layers, &["throw-in-each"]);
        assert_eq!(output.stdout.lines().collect::<Vec<_>>(), silent, "{layers}: {}", output.stderr);
    }
}

/// cuDNN accepts an unfinalized configuration, but refuses to return its attributes, which a callback sees.
#[test]
fn layers_read_no_configuration_that_is_not_finalized() {
    let world = World::new();
    let rules = world.dir.path().join("rules.json");
    let rule =
        r#"{"errata":1,"rules":[{"name":"a","reason":"b","operations":["matmul"],"numerical_notes":["tensor_core"]}]}"#;
    std::fs::write(&rules, rule).unwrap();
    for layers in ["none", "plans", "errata", "explain", "capture", "validate", "trace"] {
        let capture = world.dir.path().join(format!("{layers}.cudnncap"));
        let child = world.child().env("CUDNN_ERRATA", &rules).env("CUDNN_CAPTURE", capture);
        let output = child.run(&[layers, "unfinalized"]);
        assert_eq!(output.stdout, "1 left\n", "{layers}: {}", output.stderr);
    }
}

/// cuDNN logs while it finalizes the program's own descriptor for a query that the restored plan cannot answer. A
/// callback that makes the same query then receives an answer immediately.
#[test]
fn a_callback_may_ask_for_the_plan_that_is_being_finalized() {
    let world = World::new();
    for _ in 0..2 {
        world.forget_uses();
        let start = Instant::now();
        let output = world.run_ending_early("plans", &["ask-back"]);
        assert_eq!(output.stdout, "asked: true\n", "{}", output.stderr);
        assert!(world.files().len() == 1 && world.was_used(), "{}", output.stderr);
        // Otherwise, the callback would wait for itself, for half a minute.
        assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    }
}

/// If a plan outlives its handle, the restored plan also receives queries that only cuDNN's own can answer.
#[test]
fn a_restored_plan_may_outlive_its_handle() {
    let world = World::new();
    let without = world.run_ending_early("none", &["outlive"]).stdout;
    for expected in [(1, 0), (0, 1)] {
        let output = world.run_ending_early("plans", &["outlive"]);
        assert_eq!(output.stdout, without, "{}", output.stderr);
        assert_eq!((count(&output, "built in"), count(&output, "restored in")), expected, "{}", output.stderr);
    }
}

/// Fetching the last error with an empty buffer also clears it.
#[test]
fn the_last_error_is_returned_once() {
    let world = World::new();
    let without = world.run_ending_early("none", &["last-error"]).stdout;
    assert_eq!(without.matches("2000").count(), 6, "{without}");
    assert_eq!(without.matches(" \"finalized twice\" \"\"\n").count(), 1, "{without}");
    assert_eq!(without.matches(" \"\"\n").count(), 6, "{without}");
    for layers in ["plans", "plans", "trace,plans", "plans,trace"] {
        let with = world.run_ending_early(layers, &["last-error"]);
        assert_eq!(difference(&without, &with.stdout), None, "{layers}");
        // The first run builds one plan, and restores it like the others.
        assert!(count(&with, "restored in") >= 5, "{layers}: {}", with.stderr);
    }
}

/// The JSON of the plan contains a different engine than the cache key.
#[test]
fn a_cached_plan_of_a_different_engine_is_not_restored() {
    let world = World::new();
    let args = ["1", "4"];
    let without = world.run("none", &args).stdout;
    let cold = world.run("plans", &args);
    let settings = Settings { dir: Some(world.store()), ..Settings::default() };
    let (store, problems) = Store::open(&settings);
    assert!(problems.is_empty(), "{problems:?}");
    let entries: Vec<StoredPlan> = store.entries().filter_map(Result::ok).collect();
    assert!(!entries.is_empty());
    for StoredPlan { mut entry, .. } in entries {
        let plan = String::from_utf8(entry.plan).unwrap();
        let other = plan.replace("\"engine\":{\"engineId\":", "\"engine\":{\"engineId\":1");
        assert_ne!(plan, other);
        entry.plan = other.into_bytes();
        store.put(&entry).unwrap();
    }
    let with = world.run("plans", &args);
    assert_eq!(difference(&without, &with.stdout), None);
    assert_eq!(count(&with, "built in"), count(&cold, "built in"), "{}", with.stderr);
    let unusable = with.stderr.matches("cuDNN cannot restore a cached plan").count();
    assert_eq!(unusable, count(&cold, "built in"), "{}", with.stderr);
}

#[test]
fn an_unusable_store_only_disables_the_cache() {
    let world = World::new();
    let args = ["0", "20"];
    let without = world.run("none", &args).stdout;
    let path = |name: &str| world.dir.path().join(name);
    std::fs::write(path("file"), "text").unwrap();
    std::fs::create_dir(path("open")).unwrap();
    std::fs::set_permissions(path("open"), Permissions::from_mode(0o777)).unwrap();
    for (dir, reason) in [
        ("relative".into(), "absolute"),
        (path("file"), "not a directory"),
        (path("open"), "writable by other users"),
        ("/proc/plans".into(), "/proc/plans"),
    ] {
        let child = world.child().env("CUDNN_PLANS_DIR", &dir);
        let output = child.run(&["plans", args[0], args[1]]);
        assert_eq!((output.code, difference(&without, &output.stdout)), (Some(0), None), "{dir:?}: {}", output.stderr);
        let errors = output.stderr.lines().filter(|line| line.starts_with("e!") && line.contains(reason));
        assert_eq!(errors.count(), 1, "{dir:?}: {}", output.stderr);
    }
    assert_eq!(std::fs::read(path("file")).unwrap(), b"text");
    assert_eq!(std::fs::read_dir(path("open")).unwrap().count(), 0);
}

/// Sixteen processes start with the same empty store, while others are killed as they fill it.
#[test]
fn processes_share_a_store() {
    if support::is_emulated("processes_share_a_store", "an emulator is slow") {
        return;
    }
    let world = World::new();
    let args = ["0", "30"];
    let without = world.run("none", &args).stdout;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..16).map(|_| scope.spawn(|| world.run("plans", &args).stdout)).collect();
        for process in running {
            assert_eq!(difference(&without, &process.join().unwrap()), None);
        }
    });
    for round in 0..10 {
        let _ = std::fs::remove_dir_all(world.store());
        let mut process = Command::new(PLANNER)
            .args(["plans", "0", "30"])
            .env("CUDNN_LOADER_DIR", world.dir.path())
            .env("CUDNN_PLANS_DIR", world.store())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(10 + 7 * round));
        process.kill().unwrap();
        process.wait().unwrap();
        let after = world.run("plans", &args);
        assert_eq!(difference(&without, &after.stdout), None, "round {round}");
        assert!(!after.stderr.contains("unusable"), "round {round}: {}", after.stderr);
    }
    let mut lab = Command::new(support::lab());
    let verified = lab.args(["plans", "list", "--dir"]).arg(world.store()).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

/// Descriptions of an H200 and of a device with half as many multiprocessors, and a real cuDNN with a plan store.
pub(super) struct Real {
    pub(super) dir: TempDir,
    pub(super) cudnn: PathBuf,
    pub(super) libraries: PlanningLibraries,
    pub(super) devices: [String; 2],
    /// The engine with the shortest compilation time.
    engine: &'static str,
}

impl Real {
    pub(super) fn new(test: &str) -> Option<Self> {
        Self::with(test, "jit-cu12-9.19.0", "7")
    }

    /// Uses a pinned release and one of the engines for convolutions.
    pub(super) fn with(test: &str, id: &str, engine: &'static str) -> Option<Self> {
        let (libraries, cudnn) = PlanningLibraries::for_release(test, id)?;
        let dir = TempDir::new();
        let h200 = cudnn_backend::device::H200;
        let smaller = h200.replace("\"multiProcessorCount\":132", "\"multiProcessorCount\":66");
        assert_ne!(h200, smaller);
        let devices = [("h200", h200), ("smaller", &smaller)].map(|(name, device)| {
            let file = dir.path().join(format!("{name}.json"));
            std::fs::write(&file, device).unwrap();
            file.display().to_string()
        });
        Some(Real { dir, cudnn, libraries, devices, engine })
    }

    fn run(&self, layers: &str, devices: &[String], variables: &[(&str, &Path)]) -> ChildOutput {
        let devices = devices.iter().map(String::as_str);
        let args: Vec<&str> = [layers, "real", self.engine].into_iter().chain(devices).collect();
        self.planner(&args, variables)
    }

    fn planner(&self, args: &[&str], variables: &[(&str, &Path)]) -> ChildOutput {
        let mut child = Child::new(PLANNER, Subject::Loader, &self.cudnn)
            .env("LD_LIBRARY_PATH", &self.libraries.path)
            .env("CUDNN_PLANS_DIR", self.dir.path().join("plans"))
            .env("CUDNN_LOGLEVEL_DBG", "3");
        for (name, value) in variables {
            child = child.env(name, value);
        }
        child.run_successfully(args)
    }
}

/// Asserts that the layer knows all environment variables that a real cuDNN and the compiler read while they load and
/// plan, including whether plans depend on them.
pub(super) fn assert_variables_are_known(cudnn: &Path, libraries: &str, device: &str, engine: &str) {
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name);
    support::compile(GETENV, &["-shared", "-fPIC"], &path("getenv.so"));
    std::fs::write(path("device.json"), device).unwrap();
    let device = path("device.json").display().to_string();
    let output = Child::new(PLANNER, Subject::Loader, cudnn)
        .env("LD_LIBRARY_PATH", libraries)
        .env("LD_PRELOAD", path("getenv.so"))
        .env("GETENV_RECORD", path("asked"))
        .run(&["none", "real", engine, &device]);
    assert!(output.stdout.contains(&format!("engine Some({engine})")), "{output:#?}");
    let asked = std::fs::read(path("asked")).unwrap();
    let asked = String::from_utf8_lossy(&asked);
    let compilers = ["libcudnn", "libcublas", "libnvrtc", "libnvJitLink"];
    let asked = asked.lines().filter_map(|line| line.split_once(' '));
    let asked: HashSet<(&str, &str)> =
        asked.filter(|(library, _)| compilers.iter().any(|name| library.starts_with(name))).collect();
    // If another preloaded library or static linking hid the calls, this variable would be missing.
    assert!(asked.iter().any(|(_, name)| *name == "CUDNN_JIT_FLAGS_DBG"), "{asked:?}");
    // From 9.28 for CUDA 13, graph contains the compiler, which reads fewer variables.
    assert!(asked.iter().any(|(_, name)| name.starts_with("NVRTC_")), "{asked:?}");
    let unknown = asked.iter().filter(|(_, name)| variable_use(name.as_ref()) == VariableUse::Unknown);
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new(), "{}", cudnn.display());
}

#[test]
fn variables_read_by_a_real_cudnn_are_known() {
    let Some(libraries) = support::driver_and_compiler("variables_read_by_a_real_cudnn_are_known") else {
        return;
    };
    let Some(cudnn) = lib_dir("jit-cu12-9.19.0") else { return };
    assert_variables_are_known(&cudnn, &libraries, cudnn_backend::device::H200, "7");
}

fn lines(output: &ChildOutput) -> Vec<String> {
    output.stdout.lines().map(|line| line.rsplit_once(';').unwrap_or((line, "")).0.to_owned()).collect()
}

/// cuDNN 9.19 compiles plans for two described devices, and restores them only for the same device, shape and type.
#[test]
fn plans_of_a_real_cudnn_are_restored() {
    let Some(real) = Real::new("plans_of_a_real_cudnn_are_restored") else { return };
    let run = |layers| real.run(layers, &real.devices, &[]);
    let (without, cold, warm) = (run("none"), run("plans"), run("plans"));
    assert_eq!(lines(&without).len(), 6, "{without:#?}");
    assert!(without.stdout.contains("32 channels") && without.stdout.contains("engine Some(7)"), "{without:#?}");
    let without_text = |line: &String| line.split("JSON").next().unwrap_or_default().to_owned();
    let plain = |output: &ChildOutput| lines(output).iter().map(without_text).collect::<Vec<_>>();
    assert_eq!(plain(&without), plain(&cold));
    // cuDNN generates different code every time, but a restored plan stays unchanged.
    assert_eq!(lines(&cold), lines(&warm));
    assert_eq!((count(&cold, "built in"), count(&cold, "restored in")), (6, 0), "{cold:#?}");
    assert_eq!((count(&warm, "built in"), count(&warm, "restored in")), (0, 6), "{warm:#?}");
}

/// Programs may describe a device with the members in any order, and with members that only other releases write.
#[test]
fn the_order_of_a_device_description_does_not_matter() {
    let Some(real) = Real::new("the_order_of_a_device_description_does_not_matter") else { return };
    assert_order_does_not_count(&real);
}

pub(super) fn assert_order_does_not_count(real: &Real) {
    let description = std::fs::read_to_string(&real.devices[0]).unwrap();
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&description).unwrap();
    let members: Vec<String> = members.iter().rev().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    let file = |name: &str, description: String| {
        let file = real.dir.path().join(name);
        std::fs::write(&file, description).unwrap();
        [file.display().to_string()]
    };
    let reversed = file("reversed.json", format!("{{ {} }}", members.join(", ")));
    let newer = file("newer.json", format!("{{ {}, \"ofAnotherRelease\": 1 }}", members.join(", ")));
    for (device, expected) in [
        (&reversed, (3, 0)),
        (&reversed, (0, 3)),
        (&[real.devices[0].clone()], (0, 3)),
        (&newer, (3, 0)),
        (&newer, (0, 3)),
    ] {
        let output = real.run("plans", device, &[]);
        assert_eq!((count(&output, "built in"), count(&output, "restored in")), expected, "{output:#?}");
    }
}

/// If an engine is read from a configuration, cuDNN preserves the configuration's knobs in it without reporting them. A
/// graph with operations that were set twice contains all of them.
#[test]
fn different_plans_from_identical_calls_are_not_confused() {
    let Some(real) = Real::new("plans_that_are_asked_for_in_the_same_words") else { return };
    let run = |layers, which: &[&str]| real.planner(&[&[layers, "alike", &real.devices[0]], which].concat(), &[]);
    let sorted = |output: &ChildOutput| {
        let mut lines: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (pair, expected) in [
        (["own", "read"], [r#"KERNEL_CFG":-1"#, r#"KERNEL_CFG":9"#]),
        (["add", "relu"], ["add: 2 operations", "relu: 1 operations"]),
    ] {
        let without = sorted(&run("none", &pair));
        assert!(without.iter().zip(expected).all(|(line, expected)| line.contains(expected)), "{without:?}");
        for which in [pair, [pair[1], pair[0]]] {
            let _ = std::fs::remove_dir_all(real.dir.path().join("plans"));
            let first = if which == pair { "plans" } else { "trace,plans" };
            for (layers, restored) in [(first, 0), ("plans", 1), ("trace,plans", 1)] {
                let output = run(layers, &which);
                assert_eq!(sorted(&output), without, "{layers} {which:?}: {output:#?}");
                assert_eq!(count(&output, "restored in"), restored, "{output:#?}");
            }
        }
    }
}

/// Code that calls libcudnn_graph directly reuses the address of a descriptor, which no layer sees.
#[test]
fn a_descriptor_that_other_code_replaces_gets_its_own_plan() {
    let Some(real) = Real::new("a_descriptor_that_other_code_replaces_gets_its_own_plan") else { return };
    let run = |layers| real.planner(&[layers, "alike", &real.devices[0], "relu", "tanh"], &[]).stdout;
    let without = run("none");
    let modes: Vec<_> = without.lines().map(|line| ["RELU", "TANH"].map(|mode| line.contains(mode))).collect();
    assert_eq!(modes, [[true, false], [false, true]], "{without}");
    for start in ["cold", "warm"] {
        assert_eq!(run("plans"), without, "{start}");
    }
}

#[test]
fn undocumented_calls_of_a_real_cudnn_are_not_confused() {
    let Some(real) = Real::new("undocumented_calls_of_a_real_cudnn_are_not_confused") else { return };
    let attacks = attacks("6");
    let run = |layers| real.planner(&[layers, "attack", "0", &attacks, &real.devices[0]], &[]);
    let without = run("none");
    assert!(without.stdout.contains("paddingValue"), "{without:#?}");
    for round in ["an empty store", "a full store"] {
        let with = run("plans");
        assert_eq!(difference(&without.stdout, &with.stdout), None, "with {round}");
        assert!(count(&with, "restored in") > 2, "with {round}: {with:#?}");
    }
}

/// NVIDIA's C++ frontend, which PyTorch and JAX also use.
pub(super) const FRONTEND: Wheel = Wheel {
    package: "nvidia-cudnn-frontend",
    version: "1.32.0",
    sha256: "8b354a8e550c083eb247f1eb39a7d69a4a269075f5a01e4fcbd2531680b17239",
};

/// The layer must be able to cache plans with every attribute that the frontend sets, with the same type.
#[test]
fn all_attributes_that_the_frontend_sets_are_supported() {
    /// A value in the program's memory that is compiled into the plan, attributes of other releases, and the elements
    /// of variant packs, which do not affect plans.
    const OTHERS: [&str; 4] = [
        "CUDNN_ATTR_TENSOR_CONSTANT_VALUE",
        "CUDNN_ATTR_OPERATION_SDPA_FWD_COMP_TYPE",
        "CUDNN_ATTR_EXECUTION_PLAN_CUDA_GRAPH_RETENTION",
        "CUDNN_ATTR_VARIANT_PACK_",
    ];
    let declared = include_str!("../../../lab/cudnn-graph/src/generated/attributes.rs");
    let Some(frontend) = FRONTEND.unpacked() else { return };
    let mut checked = HashSet::new();
    let mut dirs = vec![frontend.join("include")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let header = std::fs::read(path).unwrap();
            let header = String::from_utf8_lossy(&header).replace("SetAttribute(", "set_attribute(");
            for call in header.split("set_attribute(").skip(1) {
                let arguments: Vec<&str> = call.split(';').next().unwrap_or("").split(',').map(str::trim).collect();
                let [_, name, ty, number, ..] = arguments.as_slice() else { continue };
                let is_other = OTHERS.iter().any(|other| name.starts_with(other));
                if is_other || !name.starts_with("CUDNN_ATTR_") || !ty.starts_with("CUDNN_TYPE_") {
                    continue;
                }
                let row = declared.lines().find(|line| line.contains(&format!("(Name::{name},")));
                let row = row.unwrap_or_else(|| panic!("{name} is unsupported"));
                assert!(row.contains(&format!("Type::{ty}]")) || row.contains(&format!("Type::{ty},")), "{ty}: {row}");
                let is_one = row.contains("most: 1 }");
                assert!(!is_one || *number == "1" || number.contains("backendRaggedOffset"), "{number}: {row}");
                checked.insert((*name).to_owned());
            }
        }
    }
    assert!(checked.len() > 150, "{checked:?}");
}

/// A program's plans are rebuilt for a different device, which is not installed. A program on that device that finds
/// the pack compiles no plans.
#[test]
fn plans_are_rebuilt_for_another_device() {
    let Some(real) = Real::new("plans_are_rebuilt_for_another_device") else { return };
    let [h200, smaller] = real.devices.each_ref().map(std::slice::from_ref);
    let kept = real.run("plans", smaller, &[]);
    assert_eq!(count(&kept, "built in"), 3, "{kept:#?}");
    let pack = real.dir.path().join("app.plans");
    let pack_for = |device: &str, pack: &Path| {
        let mut lab = Command::new(support::lab());
        lab.args(["plans", "pack", "--device", device]).arg(pack).arg("--from").arg(real.dir.path().join("plans"));
        lab.env("LD_LIBRARY_PATH", &real.libraries.path).env("CUDNN_LOADER_DIR", &real.cudnn);
        let packed = lab.output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&packed.stdout), String::from_utf8_lossy(&packed.stderr));
        assert!(packed.status.success() && text.contains("3 plans"), "{text}");
        text
    };
    let note = "note: a program uses these plans only if cuDNN describes its GPU exactly like `cudnn-lab devices l4`";
    assert!(pack_for("L4", &real.dir.path().join("l4.plans")).contains(note));
    assert!(!pack_for(&h200[0], &pack).contains("note: "));
    std::fs::remove_dir_all(real.dir.path().join("plans")).unwrap();
    let there = real.run("plans", h200, &[("CUDNN_PLANS_PACK", &pack)]);
    assert_eq!((count(&there, "built in"), count(&there, "restored in")), (0, 3), "{there:#?}");
    let without = real.run("none", h200, &[]);
    let asked = |output: &ChildOutput| output.stdout.contains("engine Some(7)");
    assert!(asked(&there) && asked(&without), "{there:#?}");
}
