//! Tests how the loader finds, initializes and calls layers, with layers written in C.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{
    Child, ChildOutput, FakeLibrary, Library, Subject, TempDir, Version, drop_in, drop_in_alone, not_run, run_compiler,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const VERSION: Version = Version::new(9, 19, 0);

struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new();
        for library in [Library::Graph, Library::Ops] {
            FakeLibrary::new(library, VERSION).build(&dir.file(library));
        }
        World { dir }
    }

    fn layer(&self, name: &str, definitions: &[(&str, &str)]) -> PathBuf {
        let file = self.dir.path().join(format!("libcudnn_layer_{name}.so"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("layers/recorder.c");
        let mut compiler = support::c_compiler();
        compiler.args(["-shared", "-fPIC", "-Wall", "-Werror"]).arg(format!("-DNAME=\"{name}\""));
        for (macro_name, code) in definitions {
            compiler.arg(format!("-D{macro_name}={code}"));
        }
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist");
        run_compiler(compiler.args(["-I", include]).arg(source).arg("-o").arg(&file));
        file
    }

    fn child(&self, layers: &str) -> Child {
        Child::new(DRIVER, Subject::Loader, self.dir.path()).env("CUDNN_LAYERS", layers)
    }

    /// Runs a program with these layers, which the loader finds next to the fake libraries. It must exit with 0.
    fn run(&self, layers: &str, args: &[&str]) -> ChildOutput {
        self.child(layers).env("CUDNN_LAYER_PATH", self.dir.path()).run_successfully(args)
    }

    /// Calls `cudnnGetVersion` with these layers and the drop-in, whose functions the layers can also call.
    fn run_with_drop_in(&self, layers: &str) -> ChildOutput {
        let output = Child::new(DRIVER, Subject::Shim, &drop_in().join("lib"))
            .env("CUDNN_LOADER_DIR", self.dir.path())
            .env("CUDNN_LAYER_PATH", self.dir.path())
            .env("CUDNN_LAYERS", layers)
            .env("LD_PRELOAD", drop_in().join("lib/libcudnn.so.9"))
            .run(&["cudnnGetVersion"]);
        assert_eq!((output.code, output.returned("cudnnGetVersion")), (Some(0), Some("91900")), "{output:#?}");
        output
    }
}

/// Returns the lines that a layer printed, without the name prefix.
fn printed<'a>(output: &'a ChildOutput, layer: &str) -> Vec<&'a str> {
    let prefix = format!("{layer} ");
    output.stderr.lines().filter_map(|line| line.strip_prefix(&prefix)).collect()
}

#[test]
fn a_layer_is_queried_once_and_wraps_the_function() {
    let world = World::new();
    world.layer("one", &[]);
    let output = world.run("one", &["cudnnGetVersion", "cudnnGetVersion", "cudnnCreateTensorDescriptor"]);
    assert_eq!(
        printed(&output, "one"),
        [
            "begin one 91900",
            "wrap cudnnGetVersion 1",
            "loaded libcudnn_graph.so.9 0",
            "first-call cudnnGetVersion 0",
            "before cudnnGetVersion 0",
            "after cudnnGetVersion 91900",
            // The driver fetches the last error after every call.
            "wrap cudnnGetLastErrorString 1",
            "first-call cudnnGetLastErrorString 0",
            "before cudnnGetVersion 0",
            "after cudnnGetVersion 91900",
            "loaded libcudnn_ops.so.9 0",
            "wrap cudnnCreateTensorDescriptor 1",
            "first-call cudnnCreateTensorDescriptor 0",
        ],
        "{output:#?}"
    );
}

#[test]
fn the_first_layer_in_the_list_is_the_outermost() {
    let world = World::new();
    let inner = world.layer("inner", &[]);
    world.layer("outer", &[]);
    let output = world.run(&format!("outer,{}", inner.display()), &["cudnnGetVersion"]);
    let around = |line: &&str| line.contains(" before ") || line.contains(" after ");
    let lines: Vec<&str> = output.stderr.lines().filter(around).collect();
    assert_eq!(
        lines,
        [
            "outer before cudnnGetVersion 0",
            "inner before cudnnGetVersion 0",
            "inner after cudnnGetVersion 91900",
            "outer after cudnnGetVersion 91900",
        ]
    );
}

#[test]
fn without_layers_no_layer_is_queried() {
    let world = World::new();
    world.layer("one", &[]);
    for layers in ["", " , "] {
        let output = world.run(layers, &["cudnnGetVersion"]);
        assert_eq!(output.stderr, "", "{output:#?}");
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"));
    }
}

#[test]
fn a_function_that_cannot_be_resolved_is_an_event() {
    let world = World::new();
    std::fs::remove_file(world.dir.file(Library::Ops)).unwrap();
    world.layer("one", &[]);
    let output = world.run("one", &["cudnnGetVersion", "~cudnnCreateTensorDescriptor"]);
    let printed = printed(&output, "one");
    for line in ["load-failed libcudnn_ops.so.9 3009", "call-failed cudnnCreateTensorDescriptor 3009"] {
        assert!(printed.contains(&line), "{line}: {output:#?}");
    }
    assert!(!printed.contains(&"wrap cudnnCreateTensorDescriptor 1"), "{output:#?}");
}

#[test]
fn first_calls_from_64_threads_query_every_function_once() {
    let world = World::new();
    world.layer("one", &[("IN_WRAP", "usleep(500)")]);
    let output = world.run("one", &["race"]);
    let mut asked = BTreeMap::<&str, u32>::new();
    for line in printed(&output, "one").into_iter().filter_map(|line| line.strip_prefix("wrap ")) {
        *asked.entry(line).or_default() += 1;
    }
    assert!(asked.len() > 20, "{} functions: {:.2000}", asked.len(), format!("{output:?}"));
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
    assert_eq!(printed(&output, "one").iter().filter(|line| line.starts_with("begin ")).count(), 1);
    assert!(output.returned("race").is_some_and(|text| text.ends_with(" 0 wrong")), "{output:#?}");
}

/// While a layer is busy for longer than a second, other first calls bypass it.
#[test]
fn a_layer_can_detect_calls_that_bypassed_it() {
    let world = World::new();
    let before = ("BEFORE", "print(\"missed\", \"\", host->missed_calls(host) > 0)");
    let missed = |output: &ChildOutput| {
        let lines = printed(output, "one");
        lines.iter().rev().find(|line| line.starts_with("missed")).map(|line| line.ends_with('1'))
    };
    if !support::is_emulated("a_layer_can_detect_calls_that_bypassed_it", "an emulator is slow") {
        world.layer("one", &[("IN_WRAP", "usleep(100)"), before]);
        assert_eq!(missed(&world.run("one", &["race", "cudnnGetVersion"])), Some(false));
    }
    let busy = "if (!strcmp(function, \"cudnnGetVersion\")) usleep(1500000)";
    world.layer("one", &[("IN_WRAP", busy), before]);
    assert_eq!(missed(&world.run("one", &["race", "cudnnGetVersion"])), Some(true));
}

/// A layer waits for a thread that waits for the layer. If every call waited, the alarm would end the process.
#[test]
fn calls_do_not_wait_again_for_a_layer_that_is_busy() {
    let world = World::new();
    let calls = "extern size_t cudnnGetVersion(void) __attribute__((weak)); \
        static void *call(void *data) { for (int i = 0; i < 600; i++) cudnnGetVersion(); return data; }";
    let thread = "alarm(60); pthread_t thread; pthread_create(&thread, 0, call, 0); pthread_join(thread, 0)";
    world.layer("one", &[("FUNCTIONS", calls), ("IN_BEGIN", thread)]);
    world.run_with_drop_in("one");
}

/// All of these calls must reach cuDNN and return.
#[test]
fn a_layer_may_call_cudnn() {
    let next = "((size_t (*)(void))host->next(host, \"cudnnGetVersion\"))()";
    let begin = format!("print(\"in-begin\", \"\", (long){next})");
    let wrap = format!("print(\"in-wrap\", \"\", (long){next})");
    let before = format!(
        "static int depth; if (!depth++) {{ print(\"in-call\", \"\", (long){next}); \
         print(\"none\", \"\", host->next(host, \"cudnnNoSuchFunction\") == 0); }}"
    );
    let world = World::new();
    world.layer("outer", &[("IN_BEGIN", &begin), ("IN_WRAP", &wrap), ("BEFORE", &before)]);
    world.layer("inner", &[]);
    let output = world.run("outer,inner", &["cudnnGetVersion"]);
    let outer = printed(&output, "outer");
    for line in ["in-begin  91900", "in-wrap  91900", "in-call  91900", "none  1"] {
        assert!(outer.contains(&line), "{line}: {output:#?}");
    }
    // The calls come from the outer layer's initialization, from two queries for a function, from within the program's
    // call, and from the program.
    let inner = printed(&output, "inner");
    assert_eq!(inner.iter().filter(|line| **line == "before cudnnGetVersion 0").count(), 5, "{output:#?}");
    assert_eq!(inner.iter().filter(|line| **line == "wrap cudnnGetVersion 1").count(), 1, "{output:#?}");
}

/// Calls by the public name, which go through all layers, work too.
#[test]
fn a_layer_may_call_cudnn_when_it_receives_an_event() {
    let world = World::new();
    let call = "extern size_t cudnnGetVersion(void) __attribute__((weak)); if (cudnnGetVersion) cudnnGetVersion()";
    world.layer("one", &[("IN_EVENT", call)]);
    let output = world.run_with_drop_in("one");
    let printed = printed(&output, "one");
    assert!(printed.iter().filter(|line| line.starts_with("before ")).count() > 1, "{output:#?}");
}

/// The program runs as if there were no layers, and the loader reports the reason.
#[test]
fn a_failing_layer_is_skipped_with_a_message() {
    let world = World::new();
    world.layer("refuses", &[("STATUS", "7")]);
    world.layer("good", &[]);
    let dir = world.dir.path();
    std::fs::write(dir.join("libcudnn_layer_text.so"), "no library").unwrap();
    support::compile("int nothing;", &["-shared", "-fPIC"], &dir.join("libcudnn_layer_empty.so"));
    for (layer, reason) in [
        ("refuses", "cudnnLayerBegin returned 7"),
        ("text", "libcudnn_layer_text.so"),
        ("empty", "it does not export cudnnLayerBegin"),
        ("missing", why_missing()),
        ("/no/such/file.so", "does not exist"),
        ("./relative.so", "is neither a name"),
    ] {
        let output = world.run(&format!("{layer},good"), &["cudnnGetVersion"]);
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
        assert!(printed(&output, "good").contains(&"after cudnnGetVersion 91900"), "{output:#?}");
        let message = output.stderr.lines().find(|line| line.starts_with("cudnn_loader: layer")).unwrap_or_default();
        assert!(message.contains(layer) && message.contains(reason), "{layer}: {output:#?}");
    }
}

/// The log of these programs has no destination, or cannot be written.
#[test]
fn a_failing_layer_is_reported_on_stderr_without_a_log() {
    let world = World::new();
    let missing = world.dir.path().join("missing/log.txt");
    for destination in ["NULL", "", "/dev/full", missing.to_str().unwrap()] {
        let child = world.child("missing").env("CUDNN_LOGLEVEL_DBG", "3").env("CUDNN_LOGDEST_DBG", destination);
        let output = child.run(&["cudnnGetVersion"]);
        assert!(output.stderr.contains("cudnn_loader: layer \"missing\" is off"), "{destination}: {output:#?}");
    }
}

/// The functions of the layer would call themselves.
#[test]
fn a_layer_that_is_listed_twice_is_initialized_once() {
    let world = World::new();
    let layer = world.layer("one", &[]);
    for layers in ["one,one".to_owned(), format!("one,{}", layer.display())] {
        let output = world.run(&layers, &["cudnnGetVersion"]);
        assert_eq!(printed(&output, "one").iter().filter(|line| line.starts_with("begin")).count(), 1, "{output:#?}");
        assert!(output.stderr.contains("it is listed twice"), "{output:#?}");
    }
}

/// Otherwise ld.so would crash the process.
#[test]
fn a_truncated_layer_is_skipped() {
    let world = World::new();
    let layer = world.layer("one", &[]);
    let whole = std::fs::read(&layer).unwrap();
    for length in [0, 100, 1000, whole.len() / 2] {
        std::fs::write(&layer, &whole[..length]).unwrap();
        let output = world.run("one", &["cudnnGetVersion"]);
        assert!(output.stderr.contains("layer \"one\" is off"), "{length}: {output:#?}");
    }
}

/// Returns the loader's message about a missing layer. If the whole workspace is built, this project's layers are next
/// to the driver, where the loader finds them.
fn why_missing() -> &'static str {
    let are_beside = Path::new(DRIVER).with_file_name("libcudnn_layers.so").exists();
    if are_beside { "it has no layer of this name" } else { "was not found as" }
}

/// With a log, the message is a log entry and missing on standard error.
#[test]
fn messages_about_layers_are_written_to_the_log() {
    let world = World::new();
    let log = world.dir.path().join("log");
    let output =
        world.child("missing").env("CUDNN_LOGLEVEL_DBG", "1").env("CUDNN_LOGDEST_DBG", &log).run(&["cudnnGetVersion"]);
    assert_eq!(output.stderr, "", "{output:#?}");
    let log = std::fs::read_to_string(log.with_extension("loader")).unwrap();
    assert!(log.contains("cudnn_loader::layer") && log.contains(why_missing()), "{log}");
}

/// Such a layer writes more fields than this loader knows, and may refuse an older loader.
#[test]
fn a_layer_of_a_newer_interface_works_or_refuses() {
    let world = World::new();
    let writes_more = "memset(layer, 0, sizeof *layer + 256); layer->size = sizeof *layer + 256";
    world.layer("grown", &[("IN_BEGIN", writes_more)]);
    let output = world.run("grown", &["cudnnGetVersion"]);
    assert!(printed(&output, "grown").contains(&"after cudnnGetVersion 91900"), "{output:#?}");
    world.layer("newer", &[("IN_BEGIN", "if (host->abi < 2) return 1")]);
    let output = world.run("newer", &["cudnnGetVersion"]);
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
}

#[test]
fn a_forked_child_keeps_the_layers() {
    let world = World::new();
    world.layer("one", &[]);
    let output = world.run("one", &["cudnnGetVersion", "fork"]);
    assert!(output.stdout.contains("the child exited with 0"), "{output:#?}");
    assert!(printed(&output, "one").iter().filter(|line| line.starts_with("begin")).count() == 1, "{output:#?}");
}

/// The program forks while a thread of the parent initializes the layers. The child skips the layers and does not wait.
#[test]
fn a_child_forked_during_layer_initialization_runs_without_layers() {
    let world = World::new();
    world.layer("slow", &[("IN_BEGIN", "usleep(900000)")]);
    let output = world.run("slow", &["fork"]);
    for text in ["in the child: 91900", "the child exited with 0", "in the parent: 91900"] {
        assert!(output.stdout.contains(text), "{output:#?}");
    }
    assert_eq!(printed(&output, "slow").iter().filter(|line| line.starts_with("begin")).count(), 1, "{output:#?}");
}

#[test]
fn a_first_call_from_a_constructor_does_not_deadlock_with_layers() {
    let world = World::new();
    world.layer("one", &[("IN_WRAP", "usleep(1000)")]);
    let library = world.dir.path().join("libclient.so");
    let code = "char *getenv(const char *);
        unsigned long strtoul(const char *, char **, int);
        __attribute__((constructor)) static void construct(void) {
            const char *callback = getenv(\"CALLBACK\");
            if (callback) ((void (*)(void))strtoul(callback, 0, 10))();
        }";
    support::compile(code, &["-shared", "-fPIC"], &library);
    let output = world.run("one", &[&format!("constructor:{}", library.display())]);
    for text in ["in the constructor: 91900", "in the other thread: 91900"] {
        assert!(output.stdout.contains(text), "{output:#?}");
    }
}

#[test]
fn a_setuid_program_has_no_layers() {
    let test = "a_setuid_program_has_no_layers";
    if support::is_emulated(test, "an emulator ignores the set-user-ID bit") {
        return;
    }
    if !cudnn_os::rights::is_root() {
        return not_run(test, "only root can make a program setuid for another user");
    }
    let world = World::new();
    let layer = world.layer("one", &[]);
    let program = world.dir.path().join("driver");
    support::copy_program(DRIVER, &program);
    let load = format!("load:path={}", world.dir.path().display());
    let run = || {
        let child = Child::bare(&program).env("CUDNN_LAYERS", &layer).without_privileges();
        child.run(&[&load, "cudnnGetVersion"])
    };
    let output = run();
    assert!(printed(&output, "one").contains(&"after cudnnGetVersion 91900"), "{output:#?}");
    for command in [["chown", "65533"], ["chmod", "u+s"]] {
        assert!(Command::new(command[0]).arg(command[1]).arg(&program).status().unwrap().success());
    }
    let output = run();
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
    assert_eq!(output.stderr, "", "{output:#?}");
}

/// The C program is not aware of layers.
#[test]
fn the_examples_in_c_and_rust_count_for_a_program_with_the_drop_in() {
    let world = World::new();
    let layer = world.dir.path().join("libcudnn_layer_count.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../cudnn-layer-api/examples/count.c");
    assert!(std::fs::read_to_string(source).unwrap().lines().count() <= 40);
    let mut compiler = support::c_compiler();
    compiler.args(["-std=c11", "-pedantic", "-Wall", "-Wextra", "-shared", "-fPIC"]);
    run_compiler(compiler.arg("-I").arg(drop_in().join("include")).arg(source).arg("-o").arg(&layer));
    let alone = drop_in_alone();
    let program = world.dir.path().join("program");
    let code = "int cudnnCreateTensorDescriptor(void **); int cudnnDestroyTensorDescriptor(void *);
        int main(void) { void *a, *b; cudnnCreateTensorDescriptor(&a); cudnnCreateTensorDescriptor(&b);
                         return cudnnDestroyTensorDescriptor(b); }";
    let library = alone.path().join("libcudnn.so.9");
    support::compile(
        code,
        &["-Wl,--no-as-needed", library.to_str().unwrap(), "-Wl,--unresolved-symbols=ignore-in-shared-libs"],
        &program,
    );
    let in_rust = support::example_library("cudnn-layer-api", "cudnn_layer_count");
    for dir in [world.dir.path(), in_rust.parent().unwrap()] {
        let output = Child::bare(&program)
            .env("LD_LIBRARY_PATH", alone.path())
            .env("CUDNN_LOADER_DIR", world.dir.path())
            .env("CUDNN_LAYERS", "count")
            .env("CUDNN_LAYER_PATH", dir)
            .run(&[]);
        let report = "tensor descriptors: 2 made, 1 left\n";
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), report), "{dir:?}: {output:#?}");
    }
}

#[test]
fn the_drop_in_finds_the_built_in_layers_next_to_itself() {
    let world = World::new();
    let lib = drop_in().join("lib");
    let answer = |layers: &str| {
        let output = Child::new(DRIVER, Subject::Shim, &lib)
            .env("CUDNN_LOADER_DIR", world.dir.path())
            .env("CUDNN_LAYERS", layers)
            .run(&["cudnnGetVersion"]);
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
        output.stderr
    };
    assert!(!answer("trace").contains("is off"), "{}", answer("trace"));
    let unknown = answer("nonsense");
    assert!(
        unknown.contains("layer \"nonsense\" is off") && unknown.contains("has no layer of this name"),
        "{unknown}"
    );
}

/// `cudnn-doctor layers` predicts the loader's decision for every layer.
#[test]
fn the_doctor_predicts_which_layers_are_loaded() {
    if support::is_emulated("the_doctor_predicts_which_layers_are_loaded", "the doctor is built for this machine") {
        return;
    }
    let world = World::new();
    world.layer("mine", &[]);
    let dir = world.dir.path();
    support::compile("int nothing;", &["-shared", "-fPIC"], &dir.join("libcudnn_layer_empty.so"));
    let lib = drop_in().join("lib");
    let report = |layers: &str| {
        let mut doctor = Command::new(support::doctor());
        doctor.args(["layers", "--json", "--beside", "lib"]).current_dir(drop_in());
        let output = doctor.env("CUDNN_LAYERS", layers).env("CUDNN_LAYER_PATH", dir).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), document)
    };
    assert_eq!(report("plans,trace").0, Some(0));
    let (code, good) = report("trace,mine");
    assert_eq!(code, Some(0), "{good}");
    assert_eq!(good["requested"][0]["file"], lib.join("libcudnn_layers.so").to_str().unwrap(), "{good}");
    assert_eq!(good["requested"][1]["file"], dir.join("libcudnn_layer_mine.so").to_str().unwrap(), "{good}");
    let names: Vec<_> =
        good["available"].as_array().unwrap().iter().map(|layer| layer["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["capture", "empty", "errata", "explain", "mine", "plans", "trace", "tuned", "validate"]);
    for (layer, problem) in [
        ("nonsense", "has no layer nonsense"),
        ("empty", "does not export cudnnLayerBegin"),
        ("/no/file.so", "does not exist"),
        ("../x", "is neither a name"),
        ("mine,mine", "listed twice"),
        ("trace,trace", "listed twice"),
        ("plans,trace,tuned", "the layer tuned runs below it"),
        ("plans,mine", "the layer mine runs below it"),
    ] {
        let (code, bad) = report(layer);
        assert_eq!(code, Some(2), "{bad}");
        assert!(bad["requested"][0]["problem"].as_str().unwrap().contains(problem), "{bad}");
    }
    // Another library's layer with this name may change graphs.
    world.layer("trace", &[]);
    let (_, bad) = report("plans,trace");
    assert!(bad["requested"][0]["problem"].as_str().unwrap().contains("the layer trace runs below it"), "{bad}");
}
