//! Tests which directories Python imports from and which environments are active.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_frameworks::Environment;
use cudnn_probe::{Host, Search};
use support::{ExtensionLibrary, PythonEnvironment, TempDir, binutils, dynamic_entries};

#[test]
fn tools_and_ld_so_accept_fake_extension_libraries() {
    let dir = TempDir::new();
    let file = dir.path().join("_C.so");
    let library = ExtensionLibrary::new().needing("libc.so.6").with_rpath("$ORIGIN/../nvidia/cudnn/lib");
    library.with_text("libcudnn.so.9").with_gpu_code(2, &["8.0", "9.0+PTX"]).build(&file);
    assert_eq!(dynamic_entries(&file, "NEEDED"), ["libc.so.6"]);
    assert_eq!(dynamic_entries(&file, "RPATH"), ["$ORIGIN/../nvidia/cudnn/lib"]);
    assert!(binutils("readelf", &["-p", ".rodata"], &file).contains("libcudnn.so.9"));
    assert!(binutils("readelf", &["-S", "-W"], &file).contains(".nv_fatbin"));
    assert_eq!(format!("{:?}", cudnn_probe::gpu_code(&file).unwrap().len()), "2");
    let output = Command::new("true").env("LD_PRELOAD", &file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

fn import_dirs(environment: &Environment, world: &Path) -> Vec<String> {
    let shown = |dir: &PathBuf| dir.strip_prefix(world).unwrap_or(dir).display().to_string();
    environment.import_dirs.iter().map(shown).collect()
}

fn make(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
}

#[test]
fn import_directories_have_the_order_of_python() {
    let world = TempDir::new();
    let world = world.path();
    let home = world.join("home");
    for dir in ["lib/python3.11/dist-packages", "lib/python3/dist-packages", "local/lib/python3.11/dist-packages"] {
        make(&world.join("usr").join(dir));
    }
    make(&world.join("usr/lib/python3.9/dist-packages"));
    make(&world.join("usr/bin"));
    std::fs::write(world.join("usr/bin/python3.11"), "").unwrap();
    symlink("python3.11", world.join("usr/bin/python3")).unwrap();
    for python in ["3.11", "3.12"] {
        make(&home.join(format!(".local/lib/python{python}/site-packages")));
    }
    make(&world.join("extra"));
    let usr = world.join("usr");
    let venv = world.join("venv");
    PythonEnvironment::venv(&venv);
    let with_system = world.join("with-system");
    PythonEnvironment::venv_of(&with_system, &usr, true).into_dir("lib/python3.11/site-packages");
    std::fs::remove_dir_all(with_system.join("lib/python3.12")).unwrap();
    let settings = std::fs::read_to_string(with_system.join("pyvenv.cfg")).unwrap().replace("3.12.3", "3.11.2");
    std::fs::write(with_system.join("pyvenv.cfg"), settings).unwrap();
    PythonEnvironment::conda(&world.join("conda"));
    let fedora = PythonEnvironment::venv(&world.join("fedora"));
    symlink("lib", fedora.root().join("lib64")).unwrap();
    let linked = PythonEnvironment::venv(&world.join("linked")).into_dir("packages64/python3.12/site-packages");
    symlink("packages64", linked.root().join("lib64")).unwrap();
    let split = PythonEnvironment::venv(&world.join("split"));
    split.into_dir("lib64/python3.12/site-packages");
    make(&world.join("target/torch"));
    PythonEnvironment::at(&world.join("threads"), "lib/python3.13t/site-packages");

    let host = Host::sandbox(world).env("HOME", &home);
    let system =
        ["usr/local/lib/python3.11/dist-packages", "usr/lib/python3/dist-packages", "usr/lib/python3.11/dist-packages"];
    let user = "home/.local/lib/python3.11/site-packages";
    let with_user = [&[user], &system[..]].concat();
    let included = [&["with-system/lib/python3.11/site-packages"], &with_user[..]].concat();
    let python_path = format!("relative:{}:{}", world.join("extra").display(), world.join("none").display());
    for (root, host, python, expected) in [
        ("venv", &host, Some((3, 12)), &["venv/lib/python3.12/site-packages"][..]),
        ("usr", &host, Some((3, 11)), &with_user),
        ("usr", &host.clone().env("PYTHONNOUSERSITE", "1"), Some((3, 11)), &system),
        ("with-system", &host, Some((3, 11)), &included),
        (
            "conda",
            &host,
            Some((3, 12)),
            &["home/.local/lib/python3.12/site-packages", "conda/lib/python3.12/site-packages"],
        ),
        ("fedora", &host, Some((3, 12)), &["fedora/lib/python3.12/site-packages"]),
        (
            "linked",
            &host,
            Some((3, 12)),
            &["linked/lib64/python3.12/site-packages", "linked/lib/python3.12/site-packages"],
        ),
        (
            "split",
            &host,
            Some((3, 12)),
            &["split/lib64/python3.12/site-packages", "split/lib/python3.12/site-packages"],
        ),
        ("target", &host, None, &["target"]),
        ("threads", &host, Some((3, 13)), &["threads/lib/python3.13t/site-packages"]),
        ("none", &host, None, &[]),
        (
            "venv",
            &host.clone().env("PYTHONPATH", python_path),
            Some((3, 12)),
            &["extra", "venv/lib/python3.12/site-packages"],
        ),
    ] {
        let environment = Environment::at(&world.join(root), host);
        assert_eq!(import_dirs(&environment, world), expected, "{root}");
        assert_eq!(environment.python, python, "{root}");
    }
}

/// Code in `.pth` files must not be executed.
#[test]
fn path_files_add_directories() {
    let world = TempDir::new();
    let world = world.path();
    for dir in ["source", "late"] {
        make(&world.join(dir));
    }
    let venv = PythonEnvironment::venv(&world.join("venv"));
    make(&venv.import_dir().join("below"));
    let source = world.join("source").display().to_string();
    let text =
        format!("\u{feff}# comment\nimport os; os.mkdir('{source}/run')\n\nbelow\r\n{source}\n/none\n{source}\n");
    let venv = venv.with_pth("a.pth", &text).with_pth("b.pth", "../../../../late\nimport\tsys\n.");
    let venv = venv.with_pth(".hidden.pth", &world.join("hidden").display().to_string());
    make(&world.join("hidden"));
    let environment = Environment::at(venv.root(), &Host::sandbox(world));
    let site = "venv/lib/python3.12/site-packages";
    let expected = [site, &format!("{site}/below"), "source", &format!("{site}/../../../../late")];
    assert_eq!(import_dirs(&environment, world), expected);
    assert!(!world.join("source/run").exists());
}

#[test]
fn the_most_specific_environment_comes_first() {
    let world = TempDir::new();
    let world = world.path();
    for root in ["venv", "other"] {
        PythonEnvironment::venv(&world.join(root));
    }
    PythonEnvironment::conda(&world.join("conda"));
    PythonEnvironment::at(&world.join("usr"), "lib/python3/dist-packages").python3();
    symlink("conda", world.join("link")).unwrap();
    let path = |root: &str| world.join(root).join("bin");
    let host = || Host::sandbox(world).env("HOME", world.join("home"));
    for (host, expected) in [
        (host(), &["usr"][..]),
        (host().env("PATH", path("usr")), &["usr"]),
        (host().env("PATH", path("other")), &["other", "usr"]),
        (host().env("VIRTUAL_ENV", world.join("venv")).env("PATH", path("venv")), &["venv", "usr"]),
        (host().env("VIRTUAL_ENV", world.join("gone")).env("PATH", path("venv")), &["venv", "usr"]),
        (host().env("CONDA_PREFIX", world.join("link")).env("PATH", path("conda")), &["link", "usr"]),
        (
            host()
                .env("VIRTUAL_ENV", world.join("venv"))
                .env("CONDA_PREFIX", world.join("conda"))
                .env("PATH", std::env::join_paths([path("other"), path("usr")]).unwrap()),
            &["venv", "conda", "other", "usr"],
        ),
    ] {
        let host = host.env("PYTHONPATH", world.join("other"));
        let environments = Environment::active(&Search::new(host.clone()));
        let has_path = |found: &Environment| found.import_dirs.contains(&world.join("other"));
        assert!(
            environments.iter().enumerate().all(|(index, found)| has_path(found) == (index == 0)),
            "{environments:?}"
        );
        let roots: Vec<_> =
            environments.iter().map(|found| found.root.strip_prefix(world).unwrap().to_owned()).collect();
        assert_eq!(roots, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{host:?}");
    }
}
