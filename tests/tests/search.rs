//! Checks the order of the searched directories, and directories that must never be searched, in sandboxes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cudnn_probe::{Candidate, Host, Origin, ProbeError, Requirements, Search, select};
use support::{FakeLibrary, Library, TempDir, Version};

const VERSION: Version = Version::new(9, 19, 0);

/// Returns the candidates of a search, relative to the root of the sandbox, with their origins.
fn candidates(search: &Search, root: &Path) -> Vec<(String, Origin)> {
    search
        .candidates()
        .map(|Candidate { dir, origin, .. }| (dir.strip_prefix(root).unwrap_or(&dir).display().to_string(), origin))
        .collect()
}

fn make_dir(root: &Path, below: &str) -> PathBuf {
    let dir = root.join(below);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Creates a sandbox with an installation for every stage of the search.
fn full_sandbox(root: &Path) -> Host {
    make_dir(root, "venv/lib/python3.9/site-packages/nvidia/cudnn/lib");
    make_dir(root, "venv/lib/python3.12/site-packages/nvidia/cudnn/lib");
    make_dir(root, "venv/lib/python3.12/site-packages/nvidia/cudnn_jit/lib");
    // The environment includes the packages of the base Python, but not of a different Python version.
    make_dir(root, "base/lib/python3.12/site-packages/nvidia/cudnn/lib");
    make_dir(root, "base/lib/python3.13/site-packages/nvidia/cudnn/lib");
    let home = make_dir(root, "base/bin");
    let settings = format!("home = {}\ninclude-system-site-packages = true\n", home.display());
    std::fs::write(root.join("venv/pyvenv.cfg"), settings).unwrap();
    make_dir(root, "conda/lib/python3.11/site-packages/nvidia/cudnn/lib");
    make_dir(root, "py/lib/python3.10/dist-packages/nvidia/cudnn/lib");
    std::fs::write(make_dir(root, "py/bin").join("python3"), "").unwrap();
    Host::sandbox(root)
        .executable(root.join("app/bin/program"))
        .env("VIRTUAL_ENV", root.join("venv"))
        .env("CONDA_PREFIX", root.join("conda"))
        .env("PATH", root.join("py/bin"))
        .env("LD_LIBRARY_PATH", root.join("first").into_os_string())
        .env("CUDA_HOME", root.join("cuda"))
}

#[test]
fn directories_are_searched_in_the_documented_order() {
    let world = TempDir::new();
    let root = world.path();
    let run_path = |dir: &str, of: &str| vec![Candidate::new(root.join(dir), Origin::RunPath(root.join(of)))];
    let search = Search::new(full_sandbox(root))
        .add_adjacent(root.join("shim"))
        .run_paths(run_path("plugins", "app/bin/program"), run_path("other-plugins", "plugin.so"));
    let venv = || Origin::VirtualEnvironment(root.join("venv"));
    let conda = || Origin::Conda(root.join("conda"));
    let expected = [
        ("shim", Origin::AdjacentToLibrary),
        ("app/bin", Origin::Adjacent),
        ("app/bin/lib", Origin::Adjacent),
        ("app/lib", Origin::Adjacent),
        ("plugins", Origin::RunPath(root.join("app/bin/program"))),
        ("venv/lib/python3.12/site-packages/nvidia/cudnn/lib", venv()),
        ("venv/lib/python3.12/site-packages/nvidia/cudnn_jit/lib", venv()),
        ("venv/lib/python3.9/site-packages/nvidia/cudnn/lib", venv()),
        (
            "base/lib/python3.12/site-packages/nvidia/cudnn/lib",
            Origin::BasePython { root: root.join("base"), environment: root.join("venv") },
        ),
        ("conda/lib/python3.11/site-packages/nvidia/cudnn/lib", conda()),
        ("conda/lib", conda()),
        ("first", Origin::LibraryPath),
        ("other-plugins", Origin::RunPath(root.join("plugin.so"))),
        ("py/lib/python3.10/dist-packages/nvidia/cudnn/lib", Origin::Python(root.join("py"))),
    ];
    let found = candidates(&search, root);
    for (index, (dir, origin)) in expected.into_iter().enumerate() {
        assert_eq!(found.get(index), Some(&(dir.to_owned(), origin)), "{found:#?}");
    }
    let origins: Vec<&Origin> = found.iter().map(|(_, origin)| origin).collect();
    let place = |wanted: &Origin| origins.iter().position(|origin| *origin == wanted);
    assert!(place(&Origin::LibraryPath) < place(&Origin::LdDefault), "{found:#?}");
    assert!(place(&Origin::LdDefault) < place(&Origin::CudaVariable("CUDA_HOME".into())), "{found:#?}");
    assert!(place(&Origin::CudaVariable("CUDA_HOME".into())) < place(&Origin::WellKnown), "{found:#?}");
    let toolkit_dirs = found.iter().filter(|(_, origin)| *origin == Origin::CudaVariable("CUDA_HOME".into()));
    let toolkit_dirs: Vec<&str> = toolkit_dirs.filter_map(|(dir, _)| dir.strip_prefix("cuda/")).collect();
    // A Jetson's toolkit uses different names than a server's.
    let targets: &[&str] = if cfg!(target_arch = "aarch64") {
        &["lib64", "lib", "targets/sbsa-linux/lib", "targets/aarch64-linux/lib"]
    } else {
        &["lib64", "lib", "targets/x86_64-linux/lib"]
    };
    assert_eq!(toolkit_dirs, targets, "{found:#?}");
}

#[test]
fn a_complete_installation_precedes_a_jit_only_one_from_the_same_stage() {
    let world = TempDir::new();
    let root = world.path();
    let graph = |dir: &str, is_complete: bool| {
        let dir = make_dir(root, dir);
        FakeLibrary::new(Library::Graph, VERSION).build(&dir.join(Library::Graph.file_name()));
        if is_complete {
            FakeLibrary::new(Library::Ops, VERSION).build(&dir.join(Library::Ops.file_name()));
        }
    };
    let (in_venv, in_base) =
        ("lib/python3.12/site-packages/nvidia/cudnn_jit/lib", "lib/python3.12/site-packages/nvidia/cudnn/lib");
    graph("jit", false);
    graph("other-jit", false);
    graph("full", true);
    graph(&format!("venv/{in_venv}"), false);
    graph(&format!("py/{in_base}"), true);
    graph(&format!("py-jit/{in_venv}"), false);
    for python in ["py", "py-jit"] {
        std::fs::write(make_dir(root, &format!("{python}/bin")).join("python3"), "").unwrap();
    }
    let path = |dirs: &[&str]| std::env::join_paths(dirs.iter().map(|dir| root.join(dir))).unwrap();
    let (venv, py, py_jit) = (format!("venv/{in_venv}"), format!("py/{in_base}"), format!("py-jit/{in_venv}"));
    // The active environment, the Python on PATH, LD_LIBRARY_PATH, the selected candidate, and earlier rejected
    // candidates.
    for (environment, python, library_path, expected, rejected) in [
        (None, "py-jit", &["full"][..], "full", 0),
        (None, "py", &["jit"], "jit", 0),
        (None, "py", &[], &*py, 0),
        (None, "py-jit", &["jit", "nowhere", "full"], "full", 1),
        (None, "py-jit", &["nowhere", "jit", "other-jit", "nowhere"], "jit", 1),
        (None, "py-jit", &[], &*py_jit, 0),
        (Some("venv"), "py", &["full"], &*venv, 0),
    ] {
        let mut host = Host::sandbox(root).env("PATH", path(&[&format!("{python}/bin")]));
        if let Some(environment) = environment {
            host = host.env("VIRTUAL_ENV", root.join(environment));
        }
        let selection = select(&Search::new(host.env("LD_LIBRARY_PATH", path(library_path))), &Requirements::new());
        let case = format!("{environment:?} {python} {library_path:?}: {selection:#?}");
        assert_eq!(selection.rejected.len(), rejected, "{case}");
        assert_eq!(selection.into_result().unwrap().dir, std::fs::canonicalize(root.join(expected)).unwrap(), "{case}");
    }
}

/// Any user may create a library in such a directory.
#[test]
fn directories_that_another_user_may_have_created_are_not_searched_next_to_a_program() {
    let world = TempDir::new();
    let root = world.path();
    let shared = make_dir(root, "app/lib");
    let search = Search::new(full_sandbox(root));
    if cudnn_os::rights::is_root() {
        std::os::unix::fs::chown(&shared, Some(65534), None).unwrap();
        make_dir(root, "app/bin");
        assert!(!candidates(&search, root).contains(&("app/lib".into(), Origin::Adjacent)), "of another user");
        std::os::unix::fs::chown(root.join("app/bin"), Some(65534), None).unwrap();
    }
    for (mode, is_searched) in [(0o755, true), (0o777, true), (0o1777, false), (0o1755, true)] {
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).unwrap();
        let found = candidates(&search, root).contains(&("app/lib".into(), Origin::Adjacent));
        assert_eq!(found, is_searched, "{mode:o}");
    }
}

/// Owner, group and mode of a file.
type Access = (u32, u32, u32);

/// Tests a world-writable or safe directory above the program's, and the type of `lib` in it.
#[test]
fn directories_that_another_user_may_have_created_are_never_found() {
    const VICTIM: u32 = 65533;
    const ATTACKER: u32 = 65534;
    if !cudnn_os::rights::is_root() {
        let test = "directories_that_another_user_may_have_created_are_never_found";
        return support::not_run(test, "only root can make files of other users");
    }
    enum Lib {
        None,
        Dir(Access),
        /// The owner of the link, and its target directory.
        Link(u32, Access),
        LinkToNowhere(u32),
    }
    use Lib::{Dir, Link, LinkToNowhere, None as Nothing};
    let (safe, open): (Access, Access) = ((0, 0, 0o755), (0, 0, 0o777));
    let cases = [
        (0o1777, Dir((VICTIM, VICTIM, 0o755)), Some("t/lib")),
        (0o1777, Dir(safe), Some("t/lib")),
        (0o1777, Dir((0, 0, 0o775)), Some("t/lib")),
        // A user who may write to a directory can have moved it there.
        (0o1777, Dir(open), None),
        (0o1777, Dir((0, ATTACKER, 0o775)), None),
        (0o1777, Dir((VICTIM, ATTACKER, 0o775)), None),
        (0o1777, Dir((ATTACKER, 0, 0o755)), None),
        (0o1777, Link(ATTACKER, open), None),
        (0o1777, Link(ATTACKER, safe), None),
        (0o1777, Link(ATTACKER, (0, ATTACKER, 0o775)), None),
        // A link may have another name, which any user can create.
        (0o1777, Link(0, open), None),
        (0o1777, Link(VICTIM, safe), None),
        (0o1777, Nothing, None),
        (0o1775, Link(ATTACKER, open), None),
        (0o755, Dir(open), Some("t/lib")),
        (0o755, Dir((0, 0, 0o1777)), None),
        (0o755, Dir((ATTACKER, 0, 0o755)), None),
        (0o755, Link(0, safe), Some("target")),
        (0o755, Link(VICTIM, open), Some("target")),
        (0o755, Link(VICTIM, (0, 0, 0o1777)), None),
        (0o755, Link(VICTIM, (ATTACKER, 0, 0o755)), None),
        (0o755, LinkToNowhere(0), None),
        (0o755, Nothing, Some("t/lib")),
        (0o777, Link(ATTACKER, open), None),
    ];
    for (case, (mode, lib, expected)) in cases.into_iter().enumerate() {
        let world = TempDir::new();
        let root = world.path();
        let give = |path: &Path, (user, group, mode): Access| {
            std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let build = make_dir(root, "t/build");
        give(&build, (VICTIM, VICTIM, 0o755));
        let link = |owner| {
            std::os::unix::fs::symlink(root.join("target"), root.join("t/lib")).unwrap();
            std::os::unix::fs::lchown(root.join("t/lib"), Some(owner), Some(owner)).unwrap();
        };
        match lib {
            Nothing => {}
            Dir(access) => give(&make_dir(root, "t/lib"), access),
            Link(owner, access) => {
                give(&make_dir(root, "target"), access);
                link(owner);
            }
            LinkToNowhere(owner) => link(owner),
        }
        give(&root.join("t"), (0, 0, mode));
        let found = candidates(&Search::new(Host::sandbox(root).executable(build.join("program"))), root);
        let beside: Vec<&str> =
            found.iter().filter(|(_, origin)| *origin == Origin::Adjacent).map(|(dir, _)| dir.as_str()).collect();
        let expected: Vec<&str> = ["t/build", "t/build/lib"].into_iter().chain(expected).collect();
        assert_eq!(beside, expected, "case {case}, in {mode:o}");
    }
}

/// In such directories, all users may create files next to other users' files.
#[test]
fn directories_like_tmp_are_not_searched() {
    let world = TempDir::new();
    let root = world.path();
    let shared = make_dir(root, "tmp");
    make_dir(root, "tmp/lib/python3.12/site-packages/nvidia/cudnn/lib");
    std::fs::write(make_dir(root, "tmp/bin").join("python3"), "").unwrap();
    let host = Host::sandbox(root).executable(shared.join("program")).env("PATH", root.join("tmp/bin"));
    let search = Search::new(host).add_loaded(&shared).add_adjacent(&shared);
    for (mode, is_searched) in [(0o755, true), (0o1777, false)] {
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).unwrap();
        let found = candidates(&search, root);
        let origins = [Origin::Loaded, Origin::AdjacentToLibrary, Origin::Adjacent, Origin::Python(shared.clone())];
        for origin in origins {
            let is_found = found.iter().any(|(dir, other)| *other == origin && dir != "tmp/lib" && dir != "lib");
            assert_eq!(is_found, is_searched, "{mode:o} {origin}: {found:#?}");
        }
    }
}

#[test]
fn an_explicit_directory_is_the_only_candidate() {
    let world = TempDir::new();
    let root = world.path();
    let environment = full_sandbox(root).env("CUDNN_LOADER_DIR", root.join("named"));
    let by_variable = Search::new(environment.clone()).add_loaded(root.join("loaded"));
    assert_eq!(candidates(&by_variable, root), [("named".into(), Origin::Variable("CUDNN_LOADER_DIR".into()))]);
    let in_code = Search::new(environment).explicit(root.join("explicit"));
    assert_eq!(candidates(&in_code, root), [("explicit".into(), Origin::Explicit)]);
}

#[test]
fn the_directory_of_a_loaded_library_comes_first() {
    let world = TempDir::new();
    let search = Search::new(full_sandbox(world.path())).add_loaded(world.path().join("loaded"));
    let found = candidates(&search, world.path());
    assert_eq!(found.first(), Some(&("loaded".into(), Origin::Loaded)));
    assert!(found.len() > 1);
}

#[test]
fn without_a_virtual_environment_pips_other_directories_are_searched() {
    let world = TempDir::new();
    let root = world.path();
    make_dir(root, "home/.local/lib/python3.12/site-packages/nvidia/cudnn/lib");
    make_dir(root, "usr/local/lib/python3.12/dist-packages/nvidia/cudnn/lib");
    std::fs::write(make_dir(root, "usr/bin").join("python3"), "").unwrap();
    let environment = Host::sandbox(root).env("PATH", root.join("usr/bin")).env("HOME", root.join("home"));
    let found = candidates(&Search::new(environment.clone()), root);
    let dirs: Vec<&str> = found.iter().map(|(dir, _)| dir.as_str()).take(2).collect();
    assert_eq!(
        dirs,
        [
            "home/.local/lib/python3.12/site-packages/nvidia/cudnn/lib",
            "usr/local/lib/python3.12/dist-packages/nvidia/cudnn/lib"
        ]
    );
    // Python then imports no packages of the other directory.
    make_dir(root, "base/lib/python3.12/site-packages/nvidia/cudnn/lib");
    let elsewhere = environment.clone().env("PYTHONUSERBASE", root.join("base"));
    let found = candidates(&Search::new(elsewhere), root);
    let dirs: Vec<&str> = found.iter().map(|(dir, _)| dir.as_str()).filter(|dir| dir.contains("site-pack")).collect();
    assert_eq!(dirs, ["base/lib/python3.12/site-packages/nvidia/cudnn/lib"]);
    let in_venv = candidates(&Search::new(environment.env("VIRTUAL_ENV", root.join("venv"))), root);
    assert!(in_venv.iter().all(|(_, origin)| !matches!(origin, Origin::Python(_))), "{in_venv:#?}");
}

#[test]
fn a_virtual_environment_with_system_packages_includes_those_of_its_python() {
    let world = TempDir::new();
    let root = world.path();
    let wheels = [
        "venv/lib/python3.11/site-packages/nvidia/cudnn/lib",
        "home/.local/lib/python3.11/site-packages/nvidia/cudnn/lib",
        "usr/local/lib/python3.11/dist-packages/nvidia/cudnn/lib",
        "usr/lib/python3.11/site-packages/nvidia/cudnn/lib",
        "usr/lib/python3/dist-packages/nvidia/cudnn/lib",
    ];
    for wheel in wheels.iter().chain(&["usr/lib/python3.12/dist-packages/nvidia/cudnn/lib"]) {
        make_dir(root, wheel);
    }
    let bin = make_dir(root, "usr/bin");
    std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
    std::fs::write(make_dir(root, "venv/bin").join("python3"), "").unwrap();
    let settings = root.join("venv/pyvenv.cfg");
    let host = || Host::sandbox(root).env("HOME", root.join("home"));
    let active = || host().env("VIRTUAL_ENV", root.join("venv"));
    let on_path = || host().env("PATH", root.join("venv/bin"));
    let found = |host: Host| -> Vec<String> {
        let dirs = candidates(&Search::new(host), root).into_iter().map(|(dir, _)| dir);
        dirs.filter(|dir| dir.contains("nvidia")).collect()
    };
    let home = bin.display().to_string();
    for text in [
        format!("home = {home}\ninclude-system-site-packages = true\nversion = 3.11.4\n"),
        format!("include-system-site-packages=true\r\nhome={home}\r\n"),
        format!("home = {}\ninclude-system-site-packages = true", root.join("bin").display()),
    ] {
        std::fs::write(&settings, &text).unwrap();
        assert_eq!(found(active()), wheels, "{text}");
        assert_eq!(found(active().env("PATH", root.join("venv/bin"))), wheels, "{text}");
        assert_eq!(found(on_path()).get(..wheels.len()), Some(&wheels.map(str::to_owned)[..]), "{text}");
        assert!(found(active().secure_execution(true)).is_empty(), "{text}");
    }
    for text in [
        format!("home = {home}\ninclude-system-site-packages = false\n"),
        format!("home = {home}\n"),
        "home = ../usr/bin\ninclude-system-site-packages = true\n".into(),
        "home = /nowhere/bin\ninclude-system-site-packages = true\n".into(),
        "include-system-site-packages = true\n".into(),
    ] {
        std::fs::write(&settings, &text).unwrap();
        assert_eq!(found(active()), wheels[..1], "{text}");
        // The same environment on PATH, without VIRTUAL_ENV.
        assert_eq!(found(on_path()), wheels[..1], "{text}");
    }
    // Reading a pipe would block.
    std::fs::remove_file(&settings).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&settings).status().unwrap().success());
    assert_eq!(found(active()), wheels[..1]);
}

#[test]
fn a_path_to_a_file_means_its_directory() {
    let world = TempDir::new();
    let file = make_dir(world.path(), "lib").join("libcudnn_graph.so.9");
    std::fs::write(&file, "").unwrap();
    let search = Search::new(Host::sandbox(world.path())).explicit(&file);
    assert_eq!(candidates(&search, world.path()), [("lib".into(), Origin::Explicit)]);
}

#[test]
fn variables_and_adjacent_directories_are_ignored_in_secure_execution_mode() {
    let world = TempDir::new();
    let root = world.path();
    let environment = full_sandbox(root).env("CUDNN_LOADER_DIR", root.join("named")).secure_execution(true);
    let found = candidates(&Search::new(environment), root);
    for (dir, origin) in &found {
        assert!(matches!(origin, Origin::LdCache | Origin::LdDefault | Origin::WellKnown), "{dir} ({origin})");
        // A user other than root often installs it.
        assert_ne!(dir, "opt/conda/lib");
    }
    assert!(!found.is_empty());
}

#[test]
fn the_working_directory_is_never_searched() {
    let world = TempDir::new();
    let mut environment = Host::sandbox(world.path());
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX", "PATH", "CUDA_HOME", "CUDA_PATH", "CUDNN_PATH"] {
        environment = environment.env(variable, ".");
    }
    // ld.so interprets an empty entry of the path as the working directory.
    let search = Search::new(environment.env("LD_LIBRARY_PATH", ":.;relative::lib"));
    for Candidate { dir, origin, .. } in search.candidates() {
        assert!(dir.is_absolute(), "{dir:?} ({origin})");
    }
    // If the directory is specified explicitly, the search rejects it and does not continue elsewhere.
    let named = Search::new(Host::sandbox(world.path()).env("CUDNN_LOADER_DIR", "."));
    let found = select(&named, &Requirements::default());
    assert!(found.installation.is_none());
    assert!(matches!(found.rejected.as_slice(), [one] if matches!(one.error, ProbeError::NotAbsolute)), "{found:?}");
}

#[test]
fn strange_names_are_used_unchanged() {
    let world = TempDir::new();
    for name in [b"with\nnewline".to_vec(), b"not utf-8 \xff\xfe".to_vec(), b"with space; and %s $ORIGIN".to_vec()] {
        let strange = world.path().join(OsString::from_vec(name));
        let search = Search::new(Host::sandbox(world.path()).env("CUDNN_LOADER_DIR", &strange));
        assert_eq!(search.candidates().map(|candidate| candidate.dir).collect::<Vec<_>>(), [strange]);
    }
}

#[test]
fn an_explicit_directory_without_graph_is_explained() {
    let world = TempDir::new();
    let root = world.path();
    let error = |dir: &Path| {
        let selection = select(&Search::new(Host::sandbox(root)).explicit(dir), &Requirements::new());
        assert!(selection.installation.is_none());
        selection.rejected.into_iter().next().unwrap().error
    };
    let above = make_dir(root, "cudnn");
    assert!(matches!(error(&above), ProbeError::GraphMissing { found_in: None }));
    let lib = make_dir(root, "cudnn/lib");
    std::fs::write(lib.join("libcudnn_graph.so.9"), "").unwrap();
    let nested = error(&above);
    assert!(nested.to_string().contains("contains no libcudnn_graph.so.9, but"), "{nested}");
    assert!(matches!(error(&root.join("none")), ProbeError::NotFound));
    assert!(matches!(error(Path::new("/dev/null")), ProbeError::NotDirectory));
    assert!(matches!(error(&lib), ProbeError::UnknownFormat { .. }));
}

#[test]
fn directories_are_searched_once_under_their_first_name() {
    let world = TempDir::new();
    let root = world.path();
    let host = Host::sandbox(root).env("VIRTUAL_ENV", root.join("venv"));
    let found = |start: &str| -> Vec<String> {
        let found = candidates(&Search::new(host.clone()), root).into_iter().map(|(dir, _)| dir);
        found.filter(|dir| dir.starts_with(start)).collect()
    };
    let wheel = "python3.12/site-packages/nvidia/cudnn/lib";
    make_dir(root, &format!("venv/lib/{wheel}"));
    // Fedora uses lib64 for separate packages, but it is a link to lib on other systems.
    make_dir(root, &format!("venv/lib64/{wheel}"));
    assert_eq!(found("venv"), [format!("venv/lib/{wheel}"), format!("venv/lib64/{wheel}")]);
    std::fs::remove_dir_all(root.join("venv/lib64")).unwrap();
    std::os::unix::fs::symlink("lib", root.join("venv/lib64")).unwrap();
    assert_eq!(found("venv"), [format!("venv/lib/{wheel}")]);
    // The same holds for the directories that are built into ld.so.
    make_dir(root, "usr/lib64");
    make_dir(root, "lib64");
    let system = || [found("lib64"), found("usr/lib64")].concat();
    assert_eq!(system(), ["lib64", "usr/lib64"]);
    std::fs::remove_dir(root.join("lib64")).unwrap();
    std::os::unix::fs::symlink("usr/lib64", root.join("lib64")).unwrap();
    assert_eq!(system(), ["lib64"]);
}

#[test]
fn directories_with_cudnn_below_a_root_are_found_once_nearest_first() {
    let world = TempDir::new();
    let root = world.path();
    let wheel = "venv/lib/python3.12/site-packages/nvidia/cudnn/lib";
    let deepest = "1/2/3/4/5/6/7/8";
    for (dir, name) in [
        ("lib", "libcudnn_graph.so.9"),
        ("b", "libcudnn_ops.so.9.19.0"),
        ("a/windows", "cudnn_graph64_9.dll"),
        ("a", "libcudnn.so.8"),
        (wheel, "libcudnn_graph.so.9"),
        (deepest, "libcudnn_graph.so.9"),
        // These files are not loadable libraries, belong to other products, are too deep, or are among headers.
        ("static", "libcudnn_graph_static_v9.a"),
        ("text", "notes-about-libcudnn_graph.so.9"),
        ("link-time", "libcudnn_graph.so"),
        ("other", "libcublas.so.12"),
        ("other/windows", "cublas64_12.dll"),
        ("1/2/3/4/5/6/7/8/9", "libcudnn_graph.so.9"),
        ("headers/include/lib", "libcudnn_graph.so.9"),
    ] {
        std::fs::write(make_dir(root, dir).join(name), "").unwrap();
        // The directory also contains other files.
        std::fs::write(root.join(dir).join("zz"), "").unwrap();
    }
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    let below = |root: &Path| -> Vec<(String, Origin)> {
        let candidates = Search::new(Host::sandbox(root)).under_root(root);
        let relative = |dir: &Path| dir.strip_prefix(root).unwrap().display().to_string();
        candidates.iter().map(|candidate| (relative(&candidate.dir), candidate.origin.clone())).collect()
    };
    let found = below(root);
    // The usual directories of toolkits and archives are reported even if they contain no libraries.
    let (usual, further): (Vec<_>, Vec<_>) = found.iter().map(|(dir, _)| dir.as_str()).partition(|dir| {
        ["", "lib", "lib64", "bin", "Library/bin"].contains(dir)
            || dir.starts_with("targets/")
            || dir.starts_with("nvidia/")
            || dir.starts_with("Lib/")
    });
    assert_eq!(further, ["a", "b", "a/windows", wheel, deepest], "{found:#?}");
    assert_eq!(usual.iter().filter(|dir| **dir == "lib").count(), 1, "{found:#?}");
    assert!(found.iter().all(|(_, origin)| *origin == Origin::UnderRoot(root.into())), "{found:#?}");
    // The root of an environment, where the wheels come first, in Python's order.
    let venv = below(&root.join("venv"));
    assert_eq!(venv.first().map(|(dir, _)| dir.as_str()), Some("lib/python3.12/site-packages/nvidia/cudnn/lib"));
    assert_eq!(venv.iter().filter(|(dir, _)| dir.ends_with("cudnn/lib") && !dir.starts_with("nvidia")).count(), 1);
}

#[test]
fn the_newest_python_comes_first_and_directories_keep_the_spelling_of_path() {
    let world = TempDir::new();
    let root = world.path();
    let wheel = |python: &str| format!("usr/lib/{python}/site-packages/nvidia/cudnn/lib");
    let newest_first = ["python3.14t", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9", "python3"];
    for python in [3, 6, 0, 5, 1, 4, 2].map(|index: usize| newest_first[index]) {
        make_dir(root, &wheel(python));
    }
    std::fs::write(make_dir(root, "usr/bin").join("python3.13"), "").unwrap();
    std::os::unix::fs::symlink("python3.13", root.join("usr/bin/python3")).unwrap();
    std::os::unix::fs::symlink("usr", root.join("same")).unwrap();
    std::fs::create_dir_all(root.join("shims/bin")).unwrap();
    std::os::unix::fs::symlink(root.join("usr/bin/python3"), root.join("shims/bin/python3")).unwrap();
    // PATH contains the environment itself, a link to it, and a directory with a link to the environment's program.
    for (path, environment) in [("usr", "usr"), ("same", "same"), ("shims", "usr")] {
        let host = Host::sandbox(root).env("PATH", root.join(path).join("bin"));
        let found = candidates(&Search::new(host), root);
        let dirs: Vec<&str> =
            found.iter().filter(|(dir, _)| dir.contains("nvidia")).map(|(dir, _)| dir.as_str()).collect();
        let expected = newest_first.map(|python| wheel(python).replacen("usr", environment, 1));
        assert_eq!(dirs, expected, "{path}: {found:#?}");
    }
}
