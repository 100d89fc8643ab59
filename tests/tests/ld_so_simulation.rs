//! Compares the simulation of ld.so with ld.so itself, which LD_TRACE_LOADED_OBJECTS makes load the program without
//! running it. It must choose the predicted file for every name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_probe::Host;
use cudnn_probe::ld_so::{Resolution, SearchPath, Simulation};
use support::{Child, Subject, TempDir, compile, lib_dir};

/// Cases: a description, then one file a line and the environment variables, where `{}` is the root directory. A line
/// has the path of the file, then optionally `needs NAME,..`, `rpath PATH` (DT_RPATH), `runpath PATH` (DT_RUNPATH),
/// `soname NAME`, or else `text`, `foreign` (for a different processor), `dir`, `link TARGET`. The file `prog` is the
/// program.
const CASES: &[(&str, &str)] = &[
    ("the library is missing on all paths", "prog needs liba.so"),
    ("the library path", "prog needs liba.so\nx/liba.so\nLD_LIBRARY_PATH={}/x"),
    ("the library path, first directory first", "prog needs liba.so\nx/liba.so\ny/liba.so\nLD_LIBRARY_PATH={}/y:{}/x"),
    ("the library path with a semicolon", "prog needs liba.so\nx/liba.so\nLD_LIBRARY_PATH=/nowhere;{}/x"),
    ("the library path with a missing directory", "prog needs liba.so\nx/liba.so\nLD_LIBRARY_PATH={}/none:{}/x"),
    ("RUNPATH", "prog needs liba.so runpath {}/x\nx/liba.so"),
    ("RPATH", "prog needs liba.so rpath {}/x\nx/liba.so"),
    ("the library path beats RUNPATH", "prog needs liba.so runpath {}/x\nx/liba.so\ny/liba.so\nLD_LIBRARY_PATH={}/y"),
    ("RPATH beats the library path", "prog needs liba.so rpath {}/x\nx/liba.so\ny/liba.so\nLD_LIBRARY_PATH={}/y"),
    ("several directories in a RUNPATH", "prog needs liba.so runpath /nowhere:{}/x:{}/y\nx/liba.so\ny/liba.so"),
    ("$ORIGIN in a RUNPATH", "prog needs liba.so runpath $ORIGIN/x\nx/liba.so"),
    ("${ORIGIN} in an RPATH", "prog needs liba.so rpath ${ORIGIN}/x\nx/liba.so"),
    ("$ORIGIN twice in a RUNPATH", "prog needs liba.so runpath $ORIGIN/none:${ORIGIN}/x\nx/liba.so"),
    (
        "$LIB in a RUNPATH",
        "prog needs liba.so runpath {}/$LIB\nlib/x86_64-linux-gnu/liba.so\nlib64/liba.so\nlib/liba.so",
    ),
    ("an unknown token stays as it is", "prog needs liba.so runpath {}/$NONE\n$NONE/liba.so\nx/liba.so"),
    ("a longer name than $ORIGIN is not a token", "prog needs liba.so runpath {}/$ORIGIN_x\n$ORIGIN_x/liba.so"),
    ("a RUNPATH longer than 4 KB", "prog needs liba.so runpath {long}{}/x\nx/liba.so"),
    (
        "$ORIGIN of a library",
        "prog needs liba.so runpath $ORIGIN/x\nx/liba.so needs libb.so runpath $ORIGIN\nx/libb.so",
    ),
    (
        "$ORIGIN of a library that is found through a symlink",
        "prog needs liba.so runpath $ORIGIN/x\nreal/liba.so needs libb.so runpath $ORIGIN\nx/liba.so link ../real/liba.so\n\
         real/libb.so\nx/libb.so",
    ),
    ("RUNPATH is not inherited", "prog needs liba.so runpath {}/x\nx/liba.so needs libb.so\nx/libb.so"),
    ("RPATH is inherited", "prog needs liba.so rpath {}/x\nx/liba.so needs libb.so\nx/libb.so"),
    (
        "a library with a RUNPATH does not inherit RPATH",
        "prog needs liba.so rpath {}/x\nx/liba.so needs libb.so runpath {}/y\nx/libb.so\ny/libb.so",
    ),
    (
        "an RPATH in the middle of the chain",
        "prog needs liba.so runpath {}/x\nx/liba.so needs libb.so rpath {}/y\ny/libb.so needs libc1.so\ny/libc1.so",
    ),
    (
        "the nearest RPATH of the chain first",
        "prog needs liba.so rpath {}/x\nx/liba.so needs libb.so rpath {}/y\nx/libb.so\ny/libb.so",
    ),
    (
        "a name that is already loaded resolves to the same file for every requester",
        "prog needs liba.so,libb.so runpath {}/x\nx/liba.so\nx/libb.so needs liba.so runpath {}/y\ny/liba.so",
    ),
    (
        "breadth first: the program's dependencies come before a library's dependencies",
        "prog needs liba.so,libb.so runpath {}/x\nx/liba.so needs libb.so runpath {}/y\nx/libb.so\ny/libb.so",
    ),
    (
        "a library with another soname is known by both names",
        "prog needs liba.so,libb.so runpath {}/x\nx/liba.so soname libb.so\nx/libb.so",
    ),
    (
        "the same file under two names is one",
        "prog needs liba.so,libb.so runpath {}/x\nx/liba.so\nx/libb.so link liba.so",
    ),
    (
        "a library for another architecture is skipped",
        "prog needs liba.so runpath {}/x:{}/y\nx/liba.so foreign\ny/liba.so",
    ),
    ("a text file of that name is an error", "prog needs liba.so runpath {}/x:{}/y\nx/liba.so text\ny/liba.so"),
    ("a directory of that name is an error", "prog needs liba.so runpath {}/x:{}/y\nx/liba.so dir\ny/liba.so"),
    ("a dangling symlink is skipped", "prog needs liba.so runpath {}/x:{}/y\nx/liba.so link nothing\ny/liba.so"),
    ("a glibc-hwcaps directory", "prog needs liba.so runpath {}/x\nx/liba.so\nx/glibc-hwcaps/x86-64-v2/liba.so"),
    (
        "the best glibc-hwcaps directory",
        "prog needs liba.so runpath {}/x\nx/glibc-hwcaps/x86-64-v2/liba.so\nx/glibc-hwcaps/x86-64-v3/liba.so",
    ),
    (
        "a glibc-hwcaps directory in the library path",
        "prog needs liba.so\nx/liba.so\nx/glibc-hwcaps/x86-64-v2/liba.so\nLD_LIBRARY_PATH={}/x",
    ),
    ("a preloaded library", "prog needs liba.so runpath {}/x\nx/liba.so\ny/libp.so\nLD_PRELOAD={}/y/libp.so"),
    (
        "a preloaded library replaces one of the same name",
        "prog needs liba.so runpath {}/x\nx/liba.so\ny/liba.so\nLD_PRELOAD={}/y/liba.so",
    ),
    (
        "the dependencies of a preloaded library",
        "prog needs liba.so runpath {}/x\nx/liba.so\ny/libp.so needs libq.so runpath $ORIGIN\ny/libq.so\nLD_PRELOAD={}/y/libp.so",
    ),
    ("a library preloaded by name", "prog rpath {}/x\nx/libp.so\nLD_PRELOAD=libp.so"),
    ("a preloaded library that is missing", "prog needs liba.so runpath {}/x\nx/liba.so\nLD_PRELOAD=libnone.so"),
    ("an empty part of the library path is the working directory", "prog needs libcargo.so\nLD_LIBRARY_PATH=:/nowhere"),
    ("$ORIGIN in the library path", "prog needs liba.so\nx/liba.so\nLD_LIBRARY_PATH=$ORIGIN/x"),
    ("without the default directories", "prog needs libz.so.1 nodefaults"),
    ("the cache or the default directories", "prog needs libz.so.1"),
    ("the library path beats the cache", "prog needs libz.so.1\nx/libz.so.1\nLD_LIBRARY_PATH={}/x"),
    ("RUNPATH beats the cache", "prog needs libz.so.1 runpath {}/x\nx/libz.so.1"),
    (
        "NVIDIA's layout: cuDNN's dependencies are in adjacent wheels",
        "prog needs libcudnn_ops.so.9 runpath {}/nvidia/cudnn/lib\n\
         nvidia/cudnn/lib/libcudnn_ops.so.9 needs libcudnn_graph.so.9,libcublasLt.so.12 \
         runpath $ORIGIN:$ORIGIN/../../cublas/lib\nnvidia/cudnn/lib/libcudnn_graph.so.9\nnvidia/cublas/lib/libcublasLt.so.12",
    ),
    (
        "a system's cuDNN on the library path beats a wheel's RUNPATH for some libraries",
        "prog needs libcudnn_ops.so.9 runpath {}/wheel\nwheel/libcudnn_ops.so.9 needs libcudnn_graph.so.9 runpath $ORIGIN\n\
         wheel/libcudnn_graph.so.9\nsystem/libcudnn_graph.so.9\nLD_LIBRARY_PATH={}/system",
    ),
];

fn build(root: &Path, case: &str) -> Vec<(String, String)> {
    let case = case.replace("{}", &root.display().to_string());
    let case = case.replace("{long}", &"/nowhere/a-directory-with-a-long-name:".repeat(200));
    let mut variables = Vec::new();
    for line in case.lines() {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| name.starts_with("LD_")) {
            variables.push((name.to_owned(), value.to_owned()));
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |word: &str| {
            words.iter().position(|other| *other == word).map(|index| words.get(index + 1).copied().unwrap_or_default())
        };
        let file = root.join(words[0]);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        if let Some(target) = after("link") {
            std::os::unix::fs::symlink(target, &file).unwrap();
        } else if words.contains(&"text") {
            std::fs::write(&file, "GROUP ( liba.so.1 )\n").unwrap();
        } else if words.contains(&"dir") {
            std::fs::create_dir(&file).unwrap();
        } else {
            object(&file, &after);
        }
        if words.contains(&"foreign") {
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[18] = support::FOREIGN.1;
            std::fs::write(&file, bytes).unwrap();
        }
    }
    variables
}

fn object<'a>(file: &Path, after: &dyn Fn(&str) -> Option<&'a str>) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let mut flags: Vec<String> =
        vec!["-w".into(), "-Wl,--no-as-needed".into(), "-Wl,--unresolved-symbols=ignore-all".into()];
    if name != "prog" {
        flags.extend([
            "-shared".into(),
            "-nostdlib".into(),
            format!("-Wl,-soname,{}", after("soname").unwrap_or(name)),
        ]);
    }
    // A library with that name for linking. The case tests which one ld.so loads.
    let stubs = TempDir::new();
    for needed in after("needs").into_iter().flat_map(|names| names.split(',')) {
        let stub = stubs.path().join(needed);
        compile("", &["-shared", "-nostdlib", &format!("-Wl,-soname,{needed}")], &stub);
        flags.push(stub.display().to_string());
    }
    for (arg, dtags) in [("rpath", "-Wl,--disable-new-dtags"), ("runpath", "-Wl,--enable-new-dtags")] {
        if let Some(path) = after(arg) {
            flags.extend([dtags.into(), format!("-Wl,-rpath,{path}")]);
        }
    }
    if after("nodefaults").is_some() {
        flags.push("-Wl,-z,nodefaultlib".into());
    }
    let code = if name == "prog" { "int main(void) { return 0; }" } else { "" };
    compile(code, &flags.iter().map(String::as_str).collect::<Vec<_>>(), file);
}

fn real(program: &Path, variables: &[(String, String)]) -> BTreeMap<String, Option<PathBuf>> {
    let output = Command::new(program)
        .env_clear()
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .envs(variables.iter().cloned())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        let file = |text: &str| PathBuf::from(text.rsplit_once(" (0x").map_or(text, |(path, _)| path));
        match line.split_once(" => ") {
            Some((name, "not found")) => found.insert(name.to_owned(), None),
            Some((name, path)) => found.insert(name.to_owned(), Some(file(path))),
            // The vDSO, ld.so itself, and libraries that were preloaded by path.
            None if line.starts_with("linux-vdso") || line.contains("ld-linux") => None,
            None => found.insert(file(line).display().to_string(), Some(file(line))),
        };
    }
    found.retain(|name, _| !name.contains("ld-linux"));
    found
}

#[test]
fn the_simulation_agrees_with_ld_so() {
    assert!(CASES.len() >= 30);
    for (about, case) in CASES {
        let world = TempDir::new();
        let variables = build(world.path(), case);
        let program = world.path().join("prog");
        let mut environment = Host::sandbox("/");
        for (name, value) in &variables {
            environment = environment.env(name, value);
        }
        let prediction = Simulation::new(&program, &environment).unwrap();
        let mut predicted = BTreeMap::new();
        for step in prediction.lookups().iter().filter(|step| !step.name.contains("ld-linux")) {
            let file = match &step.resolution {
                Resolution::Found { path, .. } => Some(path.clone()),
                _ => None,
            };
            // ld.so reports every name once.
            predicted.entry(step.name.clone()).or_insert(file);
        }
        let real = real(&program, &variables);
        if let Some(file) = prediction.lookups().iter().find_map(|step| match &step.resolution {
            Resolution::Unusable { path, .. } => Some(path),
            _ => None,
        }) {
            let output = Command::new(&program).env_clear().envs(variables).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && text.contains(&file.display().to_string()), "{about}: {text}");
            continue;
        }
        let reported: BTreeMap<_, _> = predicted.iter().filter(|(name, _)| real.contains_key(*name)).collect();
        assert_eq!(reported, real.iter().collect::<BTreeMap<_, _>>(), "{about}: {case}\n{:#?}", prediction.lookups());
        for (name, file) in &predicted {
            // If ld.so does not report a name, the library was loaded under another one.
            let known = real.values().flatten().any(|other| Some(other) == file.as_ref());
            assert!(real.contains_key(name) || known, "{about}: {name} => {file:?}\n{real:#?}");
        }
    }
}

/// Up to 9.21.0, the shim's run path is a RUNPATH, so LD_LIBRARY_PATH takes precedence. From 9.21.1, it is an RPATH,
/// which precedes LD_LIBRARY_PATH.
#[test]
fn nvidias_shim_loads_the_predicted_graph_library() {
    let (Some(older), Some(newer)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    for (shim, path, taken) in [(&older, &newer, &newer), (&newer, &older, &newer)] {
        let environment = Host::sandbox("/").env("LD_LIBRARY_PATH", path);
        let mut prediction = Simulation::new(&shim.join("libcudnn.so.9"), &environment).unwrap();
        assert!(prediction.dlopen("libcudnn_graph.so.9", 0), "{:#?}", prediction.lookups());
        let graph = prediction.loaded("libcudnn_graph.so.9").unwrap();
        assert_eq!(prediction.objects()[graph].path.parent().unwrap(), taken, "{:#?}", prediction.lookups());
        let child = Child::new(env!("CARGO_BIN_EXE_driver"), Subject::Shim, shim).env("LD_LIBRARY_PATH", path);
        let output = child.run(&["cudnnGetVersion", "maps"]);
        let mapped = format!("mapped {}", taken.join("libcudnn_graph.so.9").display());
        assert!(output.stdout.lines().any(|line| line == mapped), "{mapped}: {output:#?}");
    }
}

/// The loader makes this query for the libraries that cuDNN opens by name.
#[test]
fn a_name_is_resolved_in_the_order_of_ld_so_and_never_in_the_working_directory() {
    let world = TempDir::new();
    let root = world.path();
    build(root, "first/liba.so\nown/liba.so\nown/libb.so\nforeign/libb.so foreign\nown/libc1.so\nbin/libc1.so");
    let path = format!(":.:lib:{0}/foreign:$ORIGIN:{0}/first", root.display());
    let host = Host::sandbox(root).env("LD_LIBRARY_PATH", path).executable(root.join("bin/program"));
    let search_path = SearchPath::new(&host);
    let resolve = |name: &str| search_path.resolve(name, &[root.join("own")]);
    assert_eq!(resolve("liba.so"), Some(root.join("first/liba.so")));
    assert_eq!(resolve("libb.so"), Some(root.join("own/libb.so")));
    assert_eq!(resolve("libc1.so"), Some(root.join("bin/libc1.so")));
    for name in ["libnone.so", "Cargo.toml", "first/liba.so", ""] {
        assert_eq!(resolve(name), None, "{name}");
    }
    let privileged = SearchPath::new(&host.secure_execution(true));
    assert_eq!(privileged.resolve("liba.so", &[root.join("own")]), Some(root.join("own/liba.so")));
}
