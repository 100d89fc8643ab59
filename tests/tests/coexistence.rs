//! Runs a program that uses cuDNN in surroundings that hook or load the same functions: with NVIDIA's shim, with the
//! drop-in, and with the drop-in and all layers. The drop-in must never be worse. The test compares the results with
//! docs/data/coexistence.csv, which `CUDNN_TESTS_WRITE=1` rewrites.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{
    Child, ChildOutput, Library, PlanningLibraries, Share, TempDir, check_rows, client, compile, csv_line, drop_in,
    errata_for_all_releases, full_releases, lib_dir, not_run, put_drop_in, tuned_for_all_releases,
};

struct Surrounding {
    description: &'static str,
    /// The program: `guest`, `host`, or a guest that was built with a sanitizer.
    program: &'static str,
    /// Variables, in which `@` stands for the directory with the compiled files.
    variables: &'static [(&'static str, &'static str)],
    /// Arguments of the guest, with `@` as above. `%` stands for the directory of the subject.
    arguments: &'static [&'static str],
}

const fn guest(
    description: &'static str,
    variables: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
) -> Surrounding {
    Surrounding { description, program: "guest", variables, arguments }
}

const fn built(description: &'static str, program: &'static str, arguments: &'static [&'static str]) -> Surrounding {
    Surrounding { description, program, variables: &[], arguments }
}

const SURROUNDINGS: &[Surrounding] = &[
    guest("none", &[], &[]),
    guest("a hook of `dlsym` that changes nothing", &[("LD_PRELOAD", "@/dlsym-0.so")], &[]),
    guest(
        "a hook of `dlsym` that prefers global symbols for names with \"cu\"",
        &[("LD_PRELOAD", "@/dlsym-1.so")],
        &[],
    ),
    guest("the same, without a fallback", &[("LD_PRELOAD", "@/dlsym-2.so")], &[]),
    guest("a hook of `dlopen` that changes nothing", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "")], &[]),
    guest("… that removes directories", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "bare")], &[]),
    guest("… that adds `RTLD_GLOBAL`", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "global")], &[]),
    guest("… that adds `RTLD_DEEPBIND`", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "deep")], &[]),
    guest("… that opens lazily", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "lazy")], &[]),
    guest("… that opens a new namespace each time", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "namespace")], &[]),
    guest(
        "… that returns the program instead of the library",
        &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "program")],
        &[],
    ),
    guest("… that fails", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "fails")], &[]),
    guest("… that returns an invalid handle", &[("LD_PRELOAD", "@/dlopen.so"), ("HOOK", "invalid")], &[]),
    guest("jemalloc, preloaded", &[("LD_PRELOAD", "libjemalloc.so.2")], &[]),
    guest("tcmalloc, preloaded", &[("LD_PRELOAD", "libtcmalloc_minimal.so.4")], &[]),
    built("a program built with AddressSanitizer", "guest-address", &[]),
    built("a program built with ThreadSanitizer", "guest-thread", &[]),
    built("a program built with UndefinedBehaviorSanitizer", "guest-undefined", &[]),
    built("a module that is opened with `RTLD_DEEPBIND`", "host", &["deepbind"]),
    built("a module in a namespace of its own (`dlmopen`)", "host", &["namespace"]),
    guest("a module linked to `libcudnn_graph.so.9`, opened before the first call", &[], &["before", "%/module.so"]),
    guest("the same module, opened later", &[], &["after", "%/module.so"]),
    guest("an NVTX tool", &[("NVTX_INJECTION64_PATH", "@/nvtx.so")], &[]),
    guest("`LD_BIND_NOW`", &[("LD_BIND_NOW", "1")], &[]),
    guest("`LD_AUDIT`", &[("LD_AUDIT", "@/audit.so")], &[]),
    guest("a constructor that calls cuDNN while a thread does", &[], &["constructor", "@/constructor.so"]),
    guest("forks while threads use cuDNN", &[], &["fork"]),
];

/// Returns the share of the surroundings that this run tries.
fn surroundings() -> impl Iterator<Item = &'static Surrounding> {
    SURROUNDINGS.iter().share(3)
}

/// The columns: the directory with the shim, and whether layers run.
const COLUMNS: [(&str, &str, bool); 3] = [
    ("NVIDIA's shim", "nvidia", false),
    ("the drop-in", "drop-in", false),
    ("the drop-in with all layers", "drop-in", true),
];
const WAYS: [&str; 2] = ["run path", "`LD_LIBRARY_PATH`"];
const RUNS: usize = COLUMNS.len() * WAYS.len();
const LAYERS: &str = "explain,validate,errata,tuned,capture,plans,trace";

const RUN_PATH: &str = "-Wl,-rpath,$ORIGIN/cudnn";

/// The outcome of a run, from best to worst.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// The output of NVIDIA's shim without surroundings.
    Same,
    /// The same output, but the layers could not be opened.
    WithoutLayers,
    Error(String),
    /// A signal, a hang, or another output.
    Failure(String),
}

impl Outcome {
    fn rank(&self) -> u8 {
        match self {
            Outcome::Same | Outcome::WithoutLayers => 0,
            Outcome::Error(_) => 1,
            Outcome::Failure(_) => 2,
        }
    }

    fn text(&self) -> String {
        match self {
            Outcome::Same => "ok".into(),
            Outcome::WithoutLayers => "ok, without layers".into(),
            Outcome::Error(text) => text.clone(),
            Outcome::Failure(text) => text.clone(),
        }
    }
}

struct Matrix {
    dir: TempDir,
    cudnn: PathBuf,
    libraries: PlanningLibraries,
}

impl Matrix {
    fn new(test: &str, release: &str) -> Option<Self> {
        let (libraries, cudnn) = (PlanningLibraries::with_nvrtc(test)?, lib_dir(release)?);
        let matrix = Matrix { dir: TempDir::new(), cudnn, libraries };
        let at = |name: &str| matrix.dir.path().join(name);
        std::fs::write(at("h200.json"), cudnn_backend::device::H200).unwrap();
        for subject in ["nvidia", "drop-in"] {
            std::fs::create_dir_all(at(subject).join("cudnn")).unwrap();
            for library in Library::ALL.iter().filter(|library| matrix.cudnn.join(library.file_name()).exists()) {
                let file = at(subject).join("cudnn").join(library.file_name());
                std::os::unix::fs::symlink(matrix.cudnn.join(library.file_name()), file).unwrap();
            }
        }
        put_drop_in(&at("drop-in/cudnn"));
        matrix.compile_programs()?;
        matrix.compile_modules();
        Some(matrix)
    }

    fn compile_programs(&self) -> Option<()> {
        let sanitized =
            ["address", "thread", "undefined"].map(|name| (format!("guest-{name}"), format!("-fsanitize={name}")));
        let [address, thread, undefined] = &sanitized;
        let programs: [(&str, &[&str]); 5] = [
            ("guest", &["-rdynamic"]),
            ("guest.so", &["-shared", "-fPIC"]),
            (&address.0, &[&address.1]),
            (&thread.0, &[&thread.1]),
            (&undefined.0, &[&undefined.1, "-fno-sanitize-recover"]),
        ];
        for (name, flags) in programs {
            let built = client("guest/guest.c", &self.cudnn, &[flags, &[RUN_PATH, "-pthread"]].concat())?;
            for subject in ["nvidia", "drop-in"] {
                std::fs::copy(built.path().join("client"), self.dir.path().join(subject).join(name)).unwrap();
            }
        }
        let host = include_str!("../clients/guest/host.c");
        for subject in ["nvidia", "drop-in"] {
            compile(host, &["-ldl"], &self.dir.path().join(subject).join("host"));
        }
        Some(())
    }

    fn compile_modules(&self) {
        let library = |name: &str, code: &str, flags: &[&str]| {
            let flags = [&["-shared", "-fPIC", "-w", "-ldl"], flags].concat();
            compile(code, &flags, &self.dir.path().join(name));
        };
        let hook = include_str!("../clients/guest/dlsym_hook.c");
        for mode in 0..3 {
            library(&format!("dlsym-{mode}.so"), hook, &[&format!("-DMODE={mode}")]);
        }
        library("dlopen.so", include_str!("../clients/guest/dlopen_hook.c"), &[]);
        library("audit.so", include_str!("../clients/guest/audit.c"), &[]);
        library("nvtx.so", include_str!("../clients/guest/nvtx.c"), &[]);
        let module = include_str!("../clients/guest/module.c");
        library("constructor.so", module, &["-DCONSTRUCTOR", "-Wl,--unresolved-symbols=ignore-all"]);
        let graph = self.cudnn.join("libcudnn_graph.so.9").display().to_string();
        let flags = [&format!("{RUN_PATH},--no-as-needed,--unresolved-symbols=ignore-in-shared-libs"), &graph];
        for subject in ["nvidia", "drop-in"] {
            library(&format!("{subject}/module.so"), module, &flags.map(String::as_str));
        }
    }

    /// Runs the guest in surroundings. Also returns whether layers have recorded the run.
    fn run(&self, surrounding: &Surrounding, run: usize, plan: &str) -> (ChildOutput, bool) {
        let (_, name, has_layers) = COLUMNS[run / WAYS.len()];
        let dir = self.dir.path().join(name);
        let display = |path: &Path| path.display().to_string();
        let at = |text: &str| text.replace('@', &display(self.dir.path())).replace('%', &display(&dir));
        let own = TempDir::new();
        let own_file = |name: &str| own.path().join(name).display().to_string();
        let mut variables = BTreeMap::from([
            ("LD_LIBRARY_PATH".to_owned(), self.libraries.path.clone()),
            // Ignore leaks of cuDNN.
            ("ASAN_OPTIONS".to_owned(), "detect_leaks=0".to_owned()),
        ]);
        variables.extend(surrounding.variables.iter().map(|(name, value)| ((*name).to_owned(), at(value))));
        if run % WAYS.len() == 1 {
            let path = format!("{}:{}", dir.join("cudnn").display(), self.libraries.path);
            variables.insert("LD_LIBRARY_PATH".to_owned(), path);
        }
        let trace = own_file("trace.json");
        if has_layers {
            variables.extend([
                ("CUDNN_LAYERS".to_owned(), LAYERS.to_owned()),
                ("CUDNN_LAYER_PATH".to_owned(), drop_in().join("lib").display().to_string()),
                ("CUDNN_ERRATA".to_owned(), errata_for_all_releases(own.path()).display().to_string()),
                ("CUDNN_TUNED".to_owned(), tuned_for_all_releases(own.path()).display().to_string()),
                ("CUDNN_CAPTURE".to_owned(), own_file("guest.cudnncap")),
                ("CUDNN_PLANS_DIR".to_owned(), own_file("plans")),
                ("CUDNN_TRACE".to_owned(), trace.clone()),
            ]);
        }
        // The limits end endless loops and deadlocks. Compiling takes a second, and everything else much less.
        let cpu_seconds = if Path::new(plan).exists() { 2 } else { 60 };
        let limited = format!("ulimit -c 0; ulimit -t {cpu_seconds}; exec timeout -s KILL 30 env \"$@\"");
        let mut arguments = vec!["-c".to_owned(), limited, "sh".to_owned()];
        arguments.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
        arguments.push(dir.join(surrounding.program).display().to_string());
        let mut guest_arguments = surrounding.arguments;
        if surrounding.program == "host" {
            arguments.push(dir.join("guest.so").display().to_string());
            arguments.extend(guest_arguments.iter().map(|argument| (*argument).to_owned()));
            guest_arguments = &[];
        }
        arguments.extend([at("@/h200.json"), plan.to_owned()]);
        arguments.extend(guest_arguments.iter().map(|argument| at(argument)));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = Child::bare("/bin/sh").env("PATH", "/usr/bin:/bin").run(&arguments);
        let has_layers = Path::new(&trace).exists() && !output.stderr.contains(" is off: ");
        (output, has_layers)
    }

    /// Runs everything, and returns the outcomes in rows. Panics if a result is worse with the drop-in.
    fn measure(&self) -> Vec<Vec<Outcome>> {
        // cuDNN compiles the plan once for each column, and the other runs restore it.
        let plan = |column: usize| self.dir.path().join(format!("{column}.plan")).display().to_string();
        let compile = |column: usize| self.run(&SURROUNDINGS[0], column * WAYS.len(), &plan(column)).0.stdout;
        let compiled: Vec<String> = (0..COLUMNS.len()).map(compile).collect();
        let expected = &compiled[0];
        assert!(compiled.iter().all(|stdout| stdout == expected) && expected.contains("plan of"), "{compiled:#?}");

        let (outputs, next) = (Mutex::new(BTreeMap::new()), AtomicUsize::new(0));
        let run_next = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(surrounding) = surroundings().nth(index / RUNS) else { return false };
            let (output, has_layers) = self.run(surrounding, index % RUNS, &plan(0));
            let outcome = outcome(&output, expected, surrounding.arguments);
            let lacks_layers = COLUMNS[index % RUNS / WAYS.len()].2 && !has_layers;
            let outcome = if lacks_layers && outcome == Outcome::Same { Outcome::WithoutLayers } else { outcome };
            outputs.lock().unwrap().insert(index, (outcome, output));
            true
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| while run_next() {});
            }
        });

        let outputs = Vec::from_iter(outputs.into_inner().unwrap().into_values());
        let mut worse = String::new();
        for (row, surrounding) in outputs.chunks(RUNS).zip(surroundings()) {
            for (index, (outcome, output)) in row.iter().enumerate() {
                let way = index % WAYS.len();
                if outcome.rank() > row[way].0.rank() {
                    let _ = writeln!(worse, "{}, {}: {output:#?}", surrounding.description, WAYS[way]);
                }
            }
        }
        let table: Vec<Vec<Outcome>> =
            outputs.chunks(RUNS).map(|row| row.iter().map(|cell| cell.0.clone()).collect()).collect();
        assert!(worse.is_empty(), "worse than NVIDIA's shim:\n{worse}\n{}", render(&table));
        table
    }
}

fn outcome(output: &ChildOutput, expected: &str, arguments: &[&str]) -> Outcome {
    let expected = if arguments.contains(&"fork") { &format!("{expected}0 children failed\n") } else { expected };
    match (output.signal, output.code) {
        (None, Some(0)) if output.stdout == *expected => Outcome::Same,
        (None, Some(1)) => {
            let status = output.stdout.lines().find_map(|line| line.split_once(" returned ")?.1.split(':').next());
            status.map_or_else(
                || Outcome::Failure("another output".into()),
                |status| Outcome::Error(format!("returns {status}")),
            )
        }
        (Some(libc::SIGABRT), _) => Outcome::Failure("aborts".into()),
        (Some(libc::SIGKILL | libc::SIGXCPU), _) => Outcome::Failure("hangs".into()),
        (Some(_), _) => Outcome::Failure("crashes".into()),
        (None, Some(0)) => Outcome::Failure("another output".into()),
        (None, code) => Outcome::Failure(format!("exits with {}", code.unwrap_or_default())),
    }
}

fn render(table: &[Vec<Outcome>]) -> String {
    let mut text = csv_line(["surroundings"].into_iter().chain(COLUMNS.map(|column| column.0)));
    for (row, surrounding) in table.iter().zip(surroundings()) {
        let cells = row.chunks(WAYS.len()).map(|cell| match cell {
            [one, other] if one != other => {
                format!("{}: {}; {}: {}", WAYS[0], one.text(), WAYS[1], other.text())
            }
            _ => cell[0].text(),
        });
        let cells: Vec<String> = cells.collect();
        text += &csv_line([surrounding.description].into_iter().chain(cells.iter().map(String::as_str)));
    }
    text
}

fn has_allocators(test: &str) -> bool {
    let missing = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"].into_iter().find(|name| {
        // For a missing library, ld.so prints a message and continues.
        !Child::bare("/bin/true").env("LD_PRELOAD", name).run(&[]).stderr.is_empty()
    });
    if let Some(missing) = missing {
        not_run(test, &format!("{missing} is not installed (Debian: libjemalloc2, libtcmalloc-minimal4)"));
    }
    missing.is_none()
}

const RELEASE: &str = "jit-cu12-9.19.0";

#[test]
fn the_drop_in_coexists_with_everything_that_nvidias_shim_coexists_with() {
    let test = "the_drop_in_coexists_with_everything_that_nvidias_shim_coexists_with";
    if !has_allocators(test) {
        return;
    }
    let Some(matrix) = Matrix::new(test, RELEASE) else { return };
    check_rows("docs/data/coexistence.csv", &render(&matrix.measure()));
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_drop_in_with_full_releases_coexists_with_everything_that_nvidias_shim_coexists_with() {
    let test = "the_drop_in_with_full_releases_coexists_with_everything_that_nvidias_shim_coexists_with";
    let newest = full_releases().max_by_key(|release| release.cudnn_version()).unwrap().id;
    for release in ["cu12-9.10.2", newest] {
        let Some(matrix) = Matrix::new(test, release) else { return };
        println!("{release}\n{}", render(&matrix.measure()));
    }
}
