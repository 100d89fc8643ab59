//! Runs C and C++ programs with the drop-in library, installed in every way, and with NVIDIA's shim.

use std::path::{Path, PathBuf};

use cudnn_probe::Library;
use support::{
    Child, ChildOutput, FakeLibrary, TempDir, Version, c_compiler, client, drop_in, drop_in_alone,
    errata_for_all_releases, lib_dir, not_run, put_drop_in, run_compiler, tuned_for_all_releases,
};

const VERSION: &str = "91900";

fn cudnn() -> Option<PathBuf> {
    lib_dir("jit-cu12-9.19.0")
}

/// Runs a client. Returns its output about cuDNN's functions, and the mapped shims.
fn run(client: &TempDir, variables: &[(&str, &Path)], args: &[&str]) -> (String, Vec<String>) {
    let child = Child::bare(client.path().join("client"));
    let child = variables.iter().fold(child, |child, (name, value)| child.env(name, value));
    let output: ChildOutput = child.run(&[args, &["maps"]].concat());
    assert!(output.code == Some(0) && !output.stderr.contains(" is off: "), "{output:#?}");
    let (maps, text): (Vec<&str>, Vec<&str>) = output.stdout.lines().partition(|line| line.starts_with("mapped "));
    let is_shim = |line: &&str| line.ends_with("/libcudnn.so.9");
    (text.join("\n"), maps.into_iter().filter(is_shim).map(|line| line.replace("mapped ", "")).collect())
}

#[test]
fn a_client_of_nvidias_shim_runs_the_same_with_the_drop_in_however_it_is_installed() {
    let Some(cudnn) = cudnn() else { return };
    let Some(client) = client("client.c", &cudnn, &[]) else { return };
    let alone = drop_in_alone();
    let ours = alone.path().join("libcudnn.so.9");
    let args = ["cudnnGetVersion", "plain", "texts"];
    let (theirs, shims) = run(&client, &[("LD_LIBRARY_PATH", &cudnn)], &args);
    assert_eq!(shims, [std::fs::canonicalize(&cudnn).unwrap().join("libcudnn.so.9").display().to_string()]);
    assert!(theirs.contains(&format!("cudnnGetVersion = {VERSION}")), "{theirs}");
    // A JIT-only cuDNN has no libcudnn_ops. There, the two shims differ, and the drop-in reports the reason.
    let without_ops = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.starts_with("cudnnBackendCreateDescriptor"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };

    let (text, shims) = run(&client, &[("LD_PRELOAD", &ours), ("LD_LIBRARY_PATH", &cudnn)], &args);
    assert_eq!(without_ops(&text), without_ops(&theirs));
    assert!(text.contains("cannot be called: "), "{text}");
    assert_eq!(shims, [ours.display().to_string()], "preloaded");

    let both = std::env::join_paths([alone.path(), &cudnn]).unwrap();
    let (text, shims) = run(&client, &[("LD_LIBRARY_PATH", both.as_ref())], &args);
    assert_eq!(without_ops(&text), without_ops(&theirs));
    assert_eq!(shims, [ours.display().to_string()], "first on the library path");

    let replaced = TempDir::links_to(&cudnn);
    put_drop_in(replaced.path());
    let (text, shims) = run(&client, &[("LD_LIBRARY_PATH", replaced.path())], &args);
    assert_eq!(without_ops(&text), without_ops(&theirs));
    assert_eq!(shims, [replaced.file(Library::Shim).display().to_string()], "in place of NVIDIA's file");
}

#[test]
fn a_client_of_the_drop_in_runs_with_nvidias_shim() {
    let Some(cudnn) = cudnn() else { return };
    let Some(client) = client("client.c", drop_in_alone().path(), &[]) else { return };
    let (text, shims) = run(&client, &[("LD_LIBRARY_PATH", &cudnn)], &["cudnnGetVersion", "cudnnDestroy", "report"]);
    assert!(text.contains(&format!("cudnnGetVersion = {VERSION}")), "{text}");
    assert!(text.contains("cudnnShimGetReport = none"), "{text}");
    assert_eq!(shims.len(), 1);
}

#[test]
fn the_drop_in_finds_cudnn_through_the_run_path_that_would_find_nvidias_shim() {
    let Some(cudnn) = cudnn() else { return };
    let ours = drop_in_alone();
    let ours = ours.path().join("libcudnn.so.9");
    let real = std::fs::canonicalize(&cudnn).unwrap();
    for dtags in ["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"] {
        let run_path = format!("-Wl,-rpath,$ORIGIN:{}", cudnn.display());
        let Some(client) = client("client.c", &cudnn, &[dtags, &run_path]) else { return };
        let (text, shims) = run(&client, &[("LD_PRELOAD", &ours)], &["cudnnGetVersion", "report"]);
        assert!(text.contains(&format!("cudnnGetVersion = {VERSION}")), "{text}");
        assert!(text.contains(&format!("in {real:?} (run path of ")), "{text}");
        assert_eq!(shims, [ours.display().to_string()]);
    }
}

/// The order of `ctypes.CDLL("libcudnn.so.9").cudnnGetVersion()` followed by `import torch`.
#[test]
fn a_call_before_loading_a_framework_does_not_block_its_cudnn() {
    let Some(cudnn) = cudnn() else { return };
    let alone = drop_in_alone();
    let ours = alone.path().join("libcudnn.so.9");
    let framework = alone.path().join("libframework.so");
    let run_path = format!("-Wl,-rpath,{}", cudnn.display());
    support::compile(
        "int framework;",
        &["-shared", "-fPIC", "-Wl,--no-as-needed", ours.to_str().unwrap(), &run_path],
        &framework,
    );
    let early = Child::bare(env!("CARGO_BIN_EXE_driver")).env("LD_PRELOAD", &ours).argument("--shim").argument(&ours);
    let open = format!("open:{}", framework.display());
    let output = early.run(&["~cudnnGetVersion", &open, "cudnnGetVersion"]);
    let versions: Vec<&str> =
        output.stdout.lines().filter_map(|line| line.strip_prefix("cudnnGetVersion = ")).collect();
    assert_eq!(versions, ["0", VERSION], "{output:#?}");
}

#[test]
fn its_own_directory_comes_first_unless_another_is_named() {
    let (Some(cudnn), Some(other)) = (cudnn(), lib_dir("jit-cu13-9.27.0")) else { return };
    let beside = TempDir::links_to(&cudnn);
    put_drop_in(beside.path());
    let Some(client) = client("client.c", &cudnn, &[]) else { return };
    let paths = std::env::join_paths([beside.path(), &other]).unwrap();
    let (text, _) = run(&client, &[("LD_LIBRARY_PATH", paths.as_ref())], &["cudnnGetVersion", "report"]);
    assert!(
        text.contains(&format!("cudnnGetVersion = {VERSION}"))
            && text.contains("(next to the library that loads cuDNN)"),
        "{text}"
    );
    let variables = [("LD_LIBRARY_PATH", paths.as_ref()), ("CUDNN_LOADER_DIR", other.as_path())];
    let (text, _) = run(&client, &variables, &["cudnnGetVersion"]);
    assert!(text.contains("cudnnGetVersion = 92700"), "{text}");
}

#[test]
fn nvidias_shim_next_to_the_drop_in_is_reported_and_never_used() {
    let Some(cudnn) = cudnn() else { return };
    let Some(client) = client("client.c", &cudnn, &[]) else { return };
    let ours = drop_in_alone();
    let ours = ours.path().join("libcudnn.so.9");
    let theirs = std::fs::canonicalize(&cudnn).unwrap().join("libcudnn.so.9");
    // A framework opens the shim by an absolute path. The drop-in then loads cuDNN from that directory.
    let open = format!("open:{}", theirs.display());
    let (text, shims) = run(&client, &[("LD_PRELOAD", &ours)], &[&open, "cudnnGetVersion", "report"]);
    assert!(text.contains(&format!("cudnnGetVersion = {VERSION}")), "{text}");
    assert!(
        text.contains(&format!("NVIDIA's shim is loaded too; calls that reach it bypass the drop-in: {theirs:?}")),
        "{text}"
    );
    assert_eq!(shims.len(), 2);
}

#[test]
fn an_exception_that_a_callback_throws_reaches_the_client() {
    let Some(cudnn) = cudnn() else { return };
    let Some(client) = client("throws.cpp", &cudnn, &[]) else { return };
    let theirs = run(&client, &[("LD_LIBRARY_PATH", &cudnn)], &[]).0;
    let alone = drop_in_alone();
    let paths = std::env::join_paths([alone.path(), &cudnn]).unwrap();
    let ours = run(&client, &[("LD_LIBRARY_PATH", paths.as_ref())], &[]).0;
    let caught = "cudnnSetCallback = 0\ncall 1: caught, from the callback\ncall 2: caught, from the callback\n";
    let (not_thrown, thrown) = ("nothing was thrown", "caught, from the callback");
    // NVIDIA's shim does not report libraries that fail to load.
    assert_eq!(theirs, format!("{caught}another library: {not_thrown}\nthen = 3009"));
    assert_eq!(ours, format!("{caught}another library: {thrown}\nthen = 3009"));
    let (capture, rules) = (alone.path().join("app.cudnncap"), errata_for_all_releases(alone.path()));
    let rankings = tuned_for_all_releases(alone.path());
    let all = "capture,errata,explain,tuned,plans,trace";
    for layers in ["trace", "plans", "explain", "validate", "errata", "tuned", "capture", all] {
        let variables: [(&str, &Path); 7] = [
            ("LD_LIBRARY_PATH", paths.as_ref()),
            ("CUDNN_LAYER_PATH", &drop_in().join("lib")),
            ("CUDNN_LAYERS", layers.as_ref()),
            ("CUDNN_CAPTURE", &capture),
            ("CUDNN_ERRATA", &rules),
            ("CUDNN_TUNED", &rankings),
            ("CUDNN_TRACE", &alone.path().join("trace.json")),
        ];
        assert_eq!(run(&client, &variables, &[]).0, ours, "{layers}");
    }
    // The layer gets this number from the loader, because it must not call cuDNN at startup.
    assert!(std::fs::read_to_string(capture).unwrap().contains("\"cudart\":1"), "the CUDA version is missing");
}

#[test]
fn every_form_of_dlopen_can_open_it() {
    let Some(cudnn) = cudnn() else { return };
    let alone = drop_in_alone();
    let file = alone.path().join("libcudnn.so.9");
    // The program is not linked to the drop-in, so dlopen is the first to load it.
    let program = alone.path().join("opens");
    support::compile(include_str!("../clients/dlopen.c"), &["-ldl"], &program);
    for way in ["local", "global", "versioned", "namespace"] {
        let child = Child::bare(&program).env("CUDNN_LOADER_DIR", &cudnn);
        let output = child.run(&[file.to_str().unwrap(), way]);
        assert_eq!(output.returned("cudnnGetVersion"), Some(VERSION), "{way}: {output:#?}");
    }
}

#[test]
fn another_copy_of_the_drop_in_is_not_mistaken_for_nvidias_shim() {
    let Some(cudnn) = cudnn() else { return };
    let Some(client) = client("client.c", &cudnn, &[]) else { return };
    let (ours, copy) = (drop_in_alone(), drop_in_alone());
    let open = format!("open:{}", copy.path().join("libcudnn.so.9").display());
    let file = ours.path().join("libcudnn.so.9");
    let variables = [("LD_PRELOAD", file.as_path()), ("CUDNN_LOADER_DIR", cudnn.as_path())];
    let (text, shims) = run(&client, &variables, &[&open, "cudnnGetVersion", "report"]);
    assert!(!text.contains("NVIDIA's shim is loaded too"), "{text}");
    assert_eq!(shims.len(), 2);
}

/// A variable in the global environment must not affect programs that don't use cuDNN.
#[test]
fn a_program_that_does_not_use_cudnn_preloads_nothing() {
    let Some(cudnn) = cudnn() else { return };
    let ours = drop_in_alone();
    let child = Child::bare("/bin/sh")
        .env("LD_PRELOAD", ours.path().join("libcudnn.so.9"))
        .env("CUDNN_LOADER_DIR", &cudnn)
        .env("CUDNN_LOADER_PRELOAD", "libraries");
    let output =
        child.run(&["-c", "sleep 0.2; grep -c libcudnn_graph /proc/self/maps; grep -c libcudnn_graph /proc/$$/maps"]);
    assert_eq!(output.stdout, "0\n0\n", "{output:#?}");
}

#[test]
fn a_variable_adds_the_reason_to_the_error_string() {
    let Some(cudnn) = cudnn() else { return };
    let Some(client) = client("client.c", &cudnn, &[]) else { return };
    let ours = drop_in_alone();
    let variables = [("LD_LIBRARY_PATH", ours.path()), ("CUDNN_LOADER_DIR", cudnn.as_path())];
    let arg = "cudnnDestroyTensorDescriptor";
    let (plain, _) = run(&client, &variables, &[arg]);
    assert!(plain.contains(&format!("{arg} = CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE (3009)")), "{plain}");
    let verbose = [variables.as_slice(), &[("CUDNN_LOADER_VERBOSE_ERRORS", Path::new("1"))]].concat();
    let (text, _) = run(&client, &verbose, &[arg, "cudnnGetErrorString"]);
    let expected = format!(
        "{arg} = CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE: {arg} cannot be called: cuDNN 9.19.0 \
         in "
    );
    assert!(text.contains(&expected), "{text}");
    assert!(
        text.contains("cudnnGetErrorString = CUDNN_STATUS_SUCCESS\n") || text.ends_with("= CUDNN_STATUS_SUCCESS"),
        "{text}"
    );
}

#[test]
fn its_own_functions_report_loaded_libraries_and_failures() {
    let Some(cudnn) = cudnn() else { return };
    let ours = drop_in_alone();
    let Some(client) = client("client.c", ours.path(), &[]) else { return };
    let variables = [("LD_LIBRARY_PATH", ours.path()), ("CUDNN_LOADER_DIR", cudnn.as_path())];
    let arg = "cudnnDestroyTensorDescriptor";
    let args = ["report", "preload:31", "report", "load-error", arg, "load-error", "preload-report"];
    let (text, _) = run(&client, &variables, &args);
    let parts: Vec<&str> = text.split("cudnnShim").collect();
    let [_, before, all, after, no_error, error, steps] = parts.as_slice() else { panic!("{text}") };
    assert!(before.contains("no cuDNN selected yet") && before.contains("libcudnn_graph.so.9: not loaded"), "{before}");
    assert!(all.starts_with("Preload = 0"), "{all}");
    assert!(after.contains("cuDNN 9.19.0") && after.contains("libcudnn_graph.so.9\", loaded in"), "{after}");
    assert!(no_error.starts_with("GetLastLoadError = 0"), "{no_error}");
    assert!(error.contains("libcudnn_ops.so.9") && error.contains("help: "), "{error}");
    assert!(steps.contains("load libcudnn_graph.so.9") && steps.contains("skipped: this installation"), "{steps}");
}

#[test]
fn each_flag_preloads_its_library() {
    let Some(cudnn) = cudnn() else { return };
    let ours = drop_in_alone();
    let Some(client) = client("client.c", ours.path(), &[]) else { return };
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/cudnn_shim.h");
    let header = std::fs::read_to_string(header).unwrap();
    let variables = [("LD_LIBRARY_PATH", ours.path()), ("CUDNN_LOADER_DIR", cudnn.as_path())];
    for library in ["graph", "ops", "cnn", "adv", "ext"] {
        let define = format!("#define CUDNN_SHIM_{} ", library.to_uppercase());
        let flag = header.lines().find_map(|line| line.strip_prefix(&define)?.strip_suffix('u')).unwrap();
        let (report, _) = run(&client, &variables, &[&format!("preload:{flag}"), "preload-report"]);
        let steps: Vec<&str> = report.lines().filter(|line| line.contains("load libcudnn_")).collect();
        let is_own = |line: &&&str| line.contains(&format!("load libcudnn_{library}.so.9"));
        let others = steps.iter().filter(|line| !is_own(line) && !line.contains("load libcudnn_graph.so.9"));
        assert!(steps.iter().any(|line| is_own(&line)) && others.count() == 0, "{flag}: {report}");
    }
}

/// Unchanged programs use this variable, which starts a thread when ld.so loads the library.
#[test]
fn a_variable_starts_a_preload() {
    let Some(cudnn) = cudnn() else { return };
    let ours = drop_in_alone();
    let Some(client) = client("client.c", ours.path(), &[]) else { return };
    let variables = [("LD_LIBRARY_PATH", ours.path()), ("CUDNN_LOADER_DIR", cudnn.as_path())];
    for value in ["libraries,engines", "libraries"] {
        let preload = [variables.as_slice(), &[("CUDNN_LOADER_PRELOAD", Path::new(value))]].concat();
        let (text, _) = run(&client, &preload, &["preload-wait", "report", "preload-report"]);
        assert!(text.contains("cudnnShimPreloadWait = 0"), "{text}");
        assert!(text.contains("libcudnn_graph.so.9\", loaded in"), "{text}");
        assert_eq!(text.contains("register engines"), value.contains("engines"), "{text}");
    }
    // Unknown values have the same effect as an unset variable.
    for value in ["", "nonsense"] {
        let preload = [variables.as_slice(), &[("CUDNN_LOADER_PRELOAD", Path::new(value))]].concat();
        let (text, _) = run(&client, &preload, &["preload-wait", "report"]);
        assert!(text.contains("cudnnShimPreloadWait = 0") && text.contains("no cuDNN selected yet"), "{text}");
    }
    let (text, _) = run(&client, &variables, &["preload-start", "preload-wait", "report"]);
    assert!(text.contains("cudnnShimPreloadStart = 0") && text.contains("libcudnn_graph.so.9\", loaded in"), "{text}");
    // A program's own preload counts, even if the variable's preload fails because it needs a GPU.
    let preload = [variables.as_slice(), &[("CUDNN_LOADER_PRELOAD", Path::new("contexts"))]].concat();
    let (text, _) = run(&client, &preload, &["preload-start", "preload-wait", "preload-wait", "preload-report"]);
    assert_eq!(text.matches("cudnnShimPreloadWait = 0").count(), 2, "{text}");
    assert!(text.contains("load libcudnn_graph.so.9") && !text.contains("start the driver"), "{text}");
}

/// These four functions are missing in all headers, so the drop-in must pass on arguments of any type and number.
#[test]
fn functions_that_no_header_declares_receive_all_their_arguments() {
    const ARGUMENTS: &str = "long a, long b, long c, long d, long e, long f, double s, double t, double u, double v, \
                             double w, double x, double y, double z, long g, double h";
    let dir = TempDir::new();
    put_drop_in(dir.path());
    let code = format!(
        "long cudnnSetBackdoorEx({ARGUMENTS}) {{ return a + 2*b + 3*c + 4*d + 5*e + 6*f + (long)(7*s + 8*t + 9*u + 10*v \
         + 11*w + 12*x + 13*y + 14*z) + 15*g + (long)(16*h); }}\n"
    );
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(&code).build(&dir.file(Library::Graph));
    let program = dir.path().join("program");
    let code = format!(
        "#include <stdio.h>\nlong cudnnSetBackdoorEx({ARGUMENTS});\nint cudnnGetRNNDropoutLocationsInternal(void);\n\
         int main(void) {{ for (int round = 0; round < 2; round++) printf(\"%ld\\n\", cudnnSetBackdoorEx(1, 2, 3, 4, 5, 6, \
         1., 2., 3., 4., 5., 6., 7., 8., 9, 10.)); printf(\"%d\\n\", cudnnGetRNNDropoutLocationsInternal()); return 0; }}"
    );
    let library = dir.path().join("libcudnn.so.9");
    support::compile(&code, &["-Wl,--no-as-needed", library.to_str().unwrap()], &program);
    let output = Child::bare(&program).env("LD_LIBRARY_PATH", dir.path()).run(&[]);
    // 1 + 4 + 9 + ... + 36, then 7 + 16 + 27 + ... + 112, 15 * 9 and 16 * 10.
    let sum: i64 = (1..=6).map(|n| n * n).sum::<i64>() + (1..=8).map(|n| (n + 6) * n).sum::<i64>() + 135 + 160;
    assert_eq!(output.stdout, format!("{sum}\n{sum}\n3009\n"), "{output:#?}");
}

#[test]
#[ignore = "downloads CMake"]
fn cmake_finds_the_package() {
    let Some(cmake) = support::release("cmake").map(|dir| dir.join("cmake/data/bin/cmake")) else { return };
    let dir = TempDir::new();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(uses_it C)\nfind_package(cudnn-shim 0.1 REQUIRED)\n\
         add_executable(program program.c)\ntarget_link_libraries(program PRIVATE cudnn-shim::cudnn)\n",
    );
    write(
        "program.c",
        "#include <cudnn_shim.h>\n#include <stdio.h>\nint main(void) { puts(cudnnShimGetVersion()); return 0; }\n",
    );
    let build = dir.path().join("build");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let output = std::process::Command::new(&cmake).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", drop_in().display());
    run(&["-S".as_ref(), dir.path().as_ref(), "-B".as_ref(), build.as_ref(), prefix.as_ref()]);
    run(&["--build".as_ref(), build.as_ref()]);
    let output = Child::bare(build.join("program")).run(&[]);
    assert_eq!(output.stdout.trim(), env!("CARGO_PKG_VERSION"), "{output:#?}");
}

#[test]
fn pkg_config_finds_the_package() {
    let dist = drop_in();
    let output = std::process::Command::new("pkg-config")
        .args(["--cflags", "--libs", "cudnn-shim"])
        .env("PKG_CONFIG_PATH", dist.join("lib/pkgconfig"))
        .output();
    let Ok(output) = output else { return not_run("pkg_config_finds_the_package", "pkg-config is not installed") };
    assert!(output.status.success(), "{output:?}");
    let flags = String::from_utf8_lossy(&output.stdout).into_owned();
    let dir = TempDir::new();
    let program = dir.path().join("program");
    let source = dir.path().join("program.c");
    let code =
        "#include <cudnn_shim.h>\n#include <stdio.h>\nint main(void) { puts(cudnnShimGetVersion()); return 0; }\n";
    std::fs::write(&source, code).unwrap();
    run_compiler(c_compiler().arg(&source).arg("-o").arg(&program).args(flags.split_whitespace()));
    let output = Child::bare(&program).env("LD_LIBRARY_PATH", dist.join("lib")).run(&[]);
    assert_eq!(output.stdout.trim(), env!("CARGO_PKG_VERSION"), "{output:#?}");
}

#[test]
fn error_strings_stay_valid_and_unchanged() {
    let Some(cudnn) = cudnn() else { return };
    let alone = drop_in_alone();
    let Some(client) = client("lifecycle.c", alone.path(), &[]) else { return };
    let child = Child::bare(client.path().join("client"))
        .env("LD_LIBRARY_PATH", alone.path())
        .env("CUDNN_LOADER_DIR", &cudnn)
        .env("CUDNN_LOADER_VERBOSE_ERRORS", "1");
    let output = child.run(&["texts"]);
    assert!(output.stdout.starts_with("same = 64, distinct = 1\n"), "{output:#?}");
    for fragment in ["UNAVAILABLE: cudnnCreateTensorDescriptor cannot be called: ", "libcudnn_ops.so.9"] {
        assert!(output.stdout.contains(fragment), "{fragment:?} is missing: {output:#?}");
    }
}

#[test]
fn a_setuid_program_ignores_a_run_path_that_its_user_can_write_to() {
    if support::is_emulated(
        "a_setuid_program_ignores_a_run_path_that_its_user_can_write_to",
        "an emulator ignores the set-user-ID bit",
    ) {
        return;
    }
    if !cudnn_os::rights::is_root() {
        let why = "only root can make a program setuid for another user";
        return not_run("a_setuid_program_ignores_a_run_path_that_its_user_can_write_to", why);
    }
    let Some(cudnn) = cudnn() else { return };
    // The program finds the drop-in by an absolute path, which ld.so allows. cuDNN is next to the program.
    let alone = drop_in_alone();
    let absolute = TempDir::new();
    let rpath = format!("-Wl,-rpath,{}:$ORIGIN/cudnn:{}", alone.path().display(), absolute.path().display());
    let Some(client) = client("client.c", alone.path(), &[&rpath]) else { return };
    let beside = client.path().join("cudnn");
    std::fs::create_dir(&beside).unwrap();
    let graph = Library::Graph.file_name();
    std::fs::copy(cudnn.join(graph), beside.join(graph)).unwrap();
    let program = client.path().join("client");
    let version = |child: Child| {
        let output = child.run_successfully(&["cudnnGetVersion"]);
        output.returned("cudnnGetVersion").unwrap().to_owned()
    };
    assert_eq!(version(Child::bare(&program)), VERSION);
    let permissions = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    for dir in [client.path(), alone.path(), &beside] {
        std::fs::set_permissions(dir, permissions(0o755)).unwrap();
    }
    std::fs::set_permissions(&program, permissions(0o4755)).unwrap();
    let unprivileged_version = || version(Child::bare(&program).without_privileges());
    assert_eq!(unprivileged_version(), "0");
    // ld.so trusts the absolute directories of the run path, including the drop-in's own directory.
    for dir in [&absolute, &alone] {
        std::fs::copy(cudnn.join(graph), dir.file(Library::Graph)).unwrap();
        assert_eq!(unprivileged_version(), VERSION);
        std::fs::remove_file(dir.file(Library::Graph)).unwrap();
    }
}
