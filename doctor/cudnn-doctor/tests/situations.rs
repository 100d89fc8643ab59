//! Tests situations where commands must agree with each other and report skipped work.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod again;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_probe::Library;
use cudnn_probe::release_facts::has_library;
use serde_json::Value;
use support::{ExtensionLibrary, FakeLibrary, TempDir, Version, copy_program, not_run, write_program};

const DOCTOR: &str = env!("CARGO_BIN_EXE_cudnn-doctor");
const VERSION: Version = Version::new(9, 19, 0);
const JIT: [Library; 3] = [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled];

struct Output {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

fn doctor(arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
    let run = |options: &[&OsStr]| {
        let mut command = Command::new(DOCTOR);
        command
            .args(arguments)
            .args(options)
            .env_clear()
            .env("XDG_DATA_HOME", support::own_release_facts())
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    };
    if arguments.first() == Some(&"check") { again::check(run).into() } else { run(&[]).into() }
}

fn check(options: &[&str], variables: &[(&str, &Path)]) -> Vec<Value> {
    let output = doctor(&[&["check", "--no-load", "--json"], options].concat(), variables);
    let value: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout));
    value["findings"].as_array().unwrap().clone()
}

fn with_code<'a>(findings: &'a [Value], code: &str) -> Vec<&'a Value> {
    findings.iter().filter(|finding| finding["code"] == code).collect()
}

fn build(dir: &Path, libraries: &[Library], version: Version) {
    std::fs::create_dir_all(dir).unwrap();
    for library in libraries {
        FakeLibrary::new(*library, version).with_ptx(8).build(&dir.join(library.file_name()));
    }
}

/// Returns the libraries of release 9.19.0.
fn all() -> Vec<Library> {
    let later = [Library::Ext, Library::EnginesTensorIr];
    Library::ALL.iter().copied().filter(|library| !later.contains(library)).collect()
}

#[test]
fn a_set_without_a_usable_shim_is_reported_by_every_command() {
    let dir = TempDir::new();
    build(dir.path(), &JIT, VERSION);
    let shim = dir.file(Library::Shim);
    let variables = [("CUDNN_LOADER_DIR", dir.path())];
    let whole = std::fs::read(&shim).unwrap();
    let path = dir.path().to_str().unwrap();
    assert_eq!(doctor(&["env", path], &[]).stdout.lines().count(), 2);
    for (shim_file, code, expected) in
        [(None, "C012", "libcudnn.so.9 is missing"), (Some(&whole[..whole.len() / 2]), "C013", "is truncated")]
    {
        std::fs::remove_file(&shim).unwrap();
        if let Some(bytes) = shim_file {
            std::fs::write(&shim, bytes).unwrap();
        }
        let findings = check(&[], &variables);
        let found = with_code(&findings, code);
        assert!(found.len() == 1 && found[0].to_string().contains(expected), "{findings:#?}");
        let explained = doctor(&["explain"], &variables);
        assert_eq!(explained.code, Some(3), "{}", explained.stdout);
        assert!(!explained.stderr.contains("No usable cuDNN was found"), "{}", explained.stderr);
        assert!(explained.stderr.contains("libcudnn.so.9"), "{}", explained.stderr);
        // LD_LIBRARY_PATH would lead programs to a damaged shim, or to the shim of a different installation.
        let lines = doctor(&["env", path], &[]);
        assert_eq!((lines.code, lines.stdout.lines().count()), (Some(2), 1), "{}", lines.stdout);
        assert!(lines.stdout.starts_with("export CUDNN_LOADER_DIR="), "{}", lines.stdout);
        assert!(lines.stderr.contains("programs that load cuDNN by that name"), "{}", lines.stderr);
        std::fs::write(&shim, &whole).unwrap();
    }
}

#[test]
fn a_shim_of_another_release_is_reported_in_the_same_and_in_another_directory() {
    for (version, conflict) in
        [(Version::new(9, 4, 0), "is of a cuDNN before 9.5.0"), (Version::new(9, 28, 0), "is of cuDNN 9.28.0 or newer")]
    {
        let dir = TempDir::new();
        build(dir.path(), &all(), VERSION);
        let shim = FakeLibrary::new(Library::Shim, version);
        shim.build(&dir.cleared(Library::Shim));
        let variables = [("LD_LIBRARY_PATH", dir.path())];
        let findings = check(&[], &variables);
        let found = with_code(&findings, "C014");
        assert!(found.len() == 1 && found[0].to_string().contains(conflict), "{findings:#?}");
        for command in ["list", "explain"] {
            let output = doctor(&[command], &variables);
            assert_eq!(output.code, Some(2), "{command}: {}", output.stdout);
            assert!(output.stdout.contains(conflict), "{command}: {}", output.stdout);
        }
        // This directory is searched before the directory of the libraries.
        let other = TempDir::new();
        shim.build(&other.file(Library::Shim));
        let _ = dir.cleared(Library::Shim);
        let path = std::env::join_paths([other.path(), dir.path()]).unwrap();
        let findings = check(&[], &[("LD_LIBRARY_PATH", path.as_ref())]);
        let found = with_code(&findings, "C022");
        assert!(found.len() == 1 && found[0].to_string().contains(conflict), "{findings:#?}");
        assert!(with_code(&findings, "C021").is_empty(), "{findings:#?}");
    }
    for id in ["jit-cu12-9.19.0", "jit-cu13-9.27.0"] {
        let Some(dir) = support::lib_dir(id) else { continue };
        let findings = check(&[], &[("LD_LIBRARY_PATH", &dir)]);
        assert!(with_code(&findings, "C014").is_empty(), "{id}: {findings:#?}");
    }
}

/// Creates an environment with the wheel's libraries and these records. Returns the directory of the libraries.
fn wheel(root: &TempDir, records: &[(&str, &str)]) -> PathBuf {
    let packages = root.path().join("lib/python3.12/site-packages");
    let dir = packages.join("nvidia/cudnn/lib");
    build(&dir, &all(), VERSION);
    // The doctor uses pip only together with a Python.
    std::fs::create_dir_all(packages.join("pip")).unwrap();
    write_program(root.path().join("bin/python3"), "#!/bin/sh\nexit 1\n");
    for (name, hash) in records {
        let record = packages.join(format!("{name}.dist-info"));
        std::fs::create_dir(&record).unwrap();
        let line = |library: &Library| {
            let file = dir.join(library.file_name());
            let hash = if *hash == "right" { cudnn_fetch::sha256(&file).unwrap() } else { String::new() };
            let hash = if hash.is_empty() { hash } else { format!("sha256={hash}") };
            format!("nvidia/cudnn/lib/{library},{hash},{}\n", std::fs::metadata(&file).unwrap().len())
        };
        std::fs::write(record.join("RECORD"), all().iter().map(line).collect::<String>()).unwrap();
    }
    dir
}

#[test]
fn all_help_texts_of_a_report_name_the_same_package_and_cuda_major() {
    let root = TempDir::new();
    let dir = wheel(&root, &[("nvidia_cudnn_cu12-9.19.0.56", "")]);
    std::fs::remove_file(dir.join("libcudnn_cnn.so.9")).unwrap();
    let function = ["--function", "cudnnCausalConv1dForward"];
    let lacking = ["--function", "cudnnConvolutionForward"];
    for (options, major, minimum) in [
        ([&function[..], &["--cuda", "13"]].concat(), "13", ""),
        ([&function[..], &["--cuda", "13", "--minimum", "9.20"]].concat(), "13", ""),
        ([&function[..], &["--minimum", "9.20"]].concat(), "12", ">=9.22.0"),
        ([&lacking[..], &["--cuda", "13"]].concat(), "13", ""),
        (lacking.to_vec(), "12", ""),
    ] {
        let findings = check(&options, &[("CUDNN_LOADER_DIR", &dir)]);
        let fixes: Vec<&Value> = ["C018", "C019"].iter().flat_map(|code| with_code(&findings, code)).collect();
        assert!(!fixes.is_empty(), "{options:?}: {findings:#?}");
        assert!(fixes.iter().all(|fix| fix["commands"] == fixes[0]["commands"]), "{options:?}: {fixes:#?}");
        let mut installs = 0;
        for finding in &findings {
            for command in finding["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()) {
                if command.contains("nvidia-cudnn-") && !command.contains(" uninstall ") {
                    installs += 1;
                    assert!(command.contains(&format!("nvidia-cudnn-cu{major}")), "{options:?}: {finding:#?}");
                    assert!(command.contains(minimum), "{options:?}: {command}");
                }
            }
        }
        assert!(installs >= fixes.len(), "{options:?}: {findings:#?}");
    }
}

#[test]
fn verify_reports_the_files_it_compared() {
    let hashed = TempDir::new();
    let hashed = wheel(&hashed, &[("nvidia_cudnn_cu12-9.19.0.56", "right")]).parent().map(|_| hashed).unwrap();
    let unhashed = TempDir::new();
    let dirs = [hashed.path().join("lib/python3.12/site-packages/nvidia/cudnn/lib"), wheel(&unhashed, &[])];
    for (dir, is_verified) in dirs.iter().zip([true, false]) {
        let variables = [("CUDNN_LOADER_DIR", dir.as_path())];
        let findings = check(&["--verify"], &variables);
        let found = with_code(&findings, "C026");
        assert_eq!(found.is_empty(), is_verified, "{findings:#?}");
        assert!(with_code(&findings, "C024").is_empty(), "{findings:#?}");
        for finding in found {
            assert!(finding["message"].as_str().unwrap().starts_with("no library in "), "{finding:#?}");
            let line = finding["commands"][0].as_str().unwrap();
            let sums = Command::new("sh").args(["-c", line]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&sums.stdout).lines().count(), all().len(), "{line}");
        }
        let text = doctor(&["check", "--no-load", "--verify"], &variables).stdout;
        let expected = if is_verified { "verified  by the sha256" } else { "verified  no library" };
        assert!(text.contains(expected), "{text}");
        assert!(with_code(&check(&[], &variables), "C026").is_empty());
        // Neither a changed file nor an unusable installation is verified.
        for (library, is_listed) in [(Library::Ops, is_verified), (Library::Graph, false)] {
            std::fs::write(dir.join(library.file_name()), "").unwrap();
            let text = doctor(&["check", "--no-load", "--verify"], &variables).stdout;
            let line = text.lines().find(|line| line.starts_with("verified")).unwrap_or_default().to_owned();
            assert!(!line.contains(library.file_name()), "{text}");
            assert_eq!(line.contains("libcudnn_cnn.so.9"), is_listed, "{text}");
            assert!(library != Library::Graph || line.is_empty(), "{text}");
        }
    }
}

#[test]
fn the_python_that_pyenv_would_start_is_searched_without_running_it() {
    let home = TempDir::new();
    let root = home.path().join(".pyenv");
    let ran = home.path().join("RAN");
    let shim = root.join("shims/python3");
    write_program(&shim, format!("#!/usr/bin/env bash\ntouch '{}'\nexec pyenv exec python3 \"$@\"\n", ran.display()));
    write_program(root.join("versions/3.11.7/bin/python3"), "#!/bin/sh\nexit 1\n");
    let lib = root.join("versions/3.11.7/lib/python3.11/site-packages/nvidia/cudnn/lib");
    build(&lib, &all(), VERSION);
    let path = std::env::join_paths([root.join("shims"), "/usr/bin".into()]).unwrap();
    let variables = |version: &'static str| {
        [("PATH", Path::new(&path)), ("HOME", home.path()), ("PYENV_VERSION", Path::new(version))]
    };
    for (version, is_found) in [("3.11.7", true), ("3.11", true), ("3.12", false)] {
        let findings = check(&[], &variables(version));
        let none = with_code(&findings, "C010");
        if Path::new("/usr/lib/python3/dist-packages/nvidia").exists() && none.is_empty() {
            return not_run("pyenv's Python", "this machine's own Python has a cuDNN");
        }
        assert_eq!(none.is_empty(), is_found, "{version}: {findings:#?}");
        if is_found {
            let text = doctor(&["list"], &variables(version)).stdout;
            assert!(text.contains("the marked one in programs that pyenv starts"), "{text}");
            let note = with_code(&findings, "C020")[0].to_string();
            assert!(note.contains("this project's loader finds it in programs that pyenv starts"), "{note}");
        } else {
            let text = none[0].to_string();
            assert!(text.contains("belongs to pyenv; which Python it starts is not known"), "{text}");
            assert_eq!(none[0]["commands"][0], "pyenv versions", "{text}");
            for command in ["check", "install"] {
                let output = doctor(&[command, "--python", shim.to_str().unwrap()], &variables(version));
                assert_eq!(output.code, Some(3), "{}", output.stderr);
                for part in ["belongs to pyenv; which Python it starts is not known", "pyenv versions"] {
                    assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
                }
            }
        }
    }
    assert!(!ran.exists());
    // mise's shims are links to mise.
    let mise = home.path().join("mise/mise");
    write_program(&mise, "#!/bin/sh\nexit 1\n");
    std::fs::create_dir(home.path().join("links")).unwrap();
    std::os::unix::fs::symlink(&mise, home.path().join("links/python3")).unwrap();
    let findings = check(&[], &[("PATH", &home.path().join("links"))]);
    let none = with_code(&findings, "C010");
    assert!(none[0]["commands"][0].as_str().unwrap().starts_with("mise exec -- "), "{none:#?}");
}

#[test]
fn list_names_both_wheels_of_one_directory() {
    let root = TempDir::new();
    let dir = wheel(&root, &[("nvidia_cudnn_cu12-9.19.0.56", ""), ("nvidia_cudnn_cu13-9.19.0.56", "")]);
    let output = doctor(&["list"], &[("CUDNN_LOADER_DIR", &dir)]);
    let both = "pip nvidia-cudnn-cu12 9.19.0.56, pip nvidia-cudnn-cu13 9.19.0.56";
    assert!(output.stdout.contains(&format!("installed over each other: {both}")), "{}", output.stdout);
    let value = doctor(&["list", "--json"], &[("CUDNN_LOADER_DIR", &dir)]).stdout;
    let value: Value = serde_json::from_str(&value).unwrap();
    assert_eq!(value["installations"][0]["other_packages"][0]["name"], "nvidia-cudnn-cu13", "{value:#}");
}

#[test]
fn explain_rejects_a_file_that_is_not_a_library() {
    let dir = TempDir::new();
    let text = dir.path().join("notes.txt");
    std::fs::write(&text, "some text").unwrap();
    for file in [Path::new("/dev/zero"), dir.path(), &text] {
        let output = doctor(&["explain", file.to_str().unwrap()], &[]);
        assert_eq!(output.code, Some(3), "{file:?}");
        assert!(!output.stderr.contains("Reinstall"), "{}", output.stderr);
        assert!(output.stderr.contains("Name a program or a shared library"), "{}", output.stderr);
    }
    let graph = dir.file(Library::Graph);
    std::fs::write(&graph, "some text").unwrap();
    let output = doctor(&["explain", graph.to_str().unwrap()], &[]);
    assert!(output.stderr.contains("Reinstall this cuDNN"), "{}", output.stderr);
}

/// Without /proc, a program cannot determine its own path.
#[test]
fn check_finds_the_same_libraries_as_ld_so_in_a_root_without_proc() {
    let root = TempDir::new();
    let lib = root.path().join("lib");
    build(&lib, &all(), VERSION);
    copy_program(DOCTOR, root.path().join("doctor"));
    copy_program("/bin/sh", root.path().join("bin/sh"));
    let listed = Command::new("ldd").arg(DOCTOR).output().unwrap();
    for word in String::from_utf8_lossy(&listed.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        copy_program(word, root.path().join(word.trim_start_matches('/')));
    }
    let mut chroot = Command::new("chroot");
    chroot.arg(root.path()).args(["/doctor", "check", "--no-load", "--json"]).env_clear();
    let output = chroot.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LD_LIBRARY_PATH", "/lib").output();
    let Some(output) = output.ok().filter(|output| output.status.code().is_some_and(|code| code < 3)) else {
        return not_run("a root without /proc", "this user may not change the root");
    };
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["version"], "9.19.0", "{value:#}");
    assert!(with_code(value["findings"].as_array().unwrap(), "C020").is_empty(), "{value:#}");
}

#[test]
fn a_file_that_cudnn_opens_by_a_versioned_name_is_checked() {
    let old = Version::new(9, 10, 2);
    let ops = |version: Version, ptx: u16| Some(FakeLibrary::new(Library::Ops, version).with_ptx(ptx));
    let engines = FakeLibrary::new(Library::EnginesPrecompiled, VERSION).with_ptx(8).with_undefined("cudnn_removed");
    // Fields: the file name, the contents, and the finding.
    for (name, contents, code) in [
        ("libcudnn_ops.so.9.19.0", ops(old, 8), Some("C014")),
        ("libcudnn_ops.so.9.19", ops(VERSION, 9), Some("C015")),
        ("libcudnn_ops.so.9.19.0", None, Some("C013")),
        ("libcudnn_engines_precompiled.so.9.19.0", Some(engines), Some("C014")),
        ("libcudnn_ops.so.9.19.0", ops(VERSION, 8), None),
        ("libcudnn_ops.so.9.10.2", ops(old, 8), None),
    ] {
        let dir = TempDir::new();
        support::copy_fake_set(VERSION, dir.path());
        let file = dir.path().join(name);
        match &contents {
            Some(library) => library.build(&file),
            None => std::fs::write(&file, "no library").unwrap(),
        }
        let variables = [("LD_LIBRARY_PATH", dir.path())];
        let errors = || -> Vec<Value> {
            check(&[], &variables).into_iter().filter(|finding| finding["severity"] == "error").collect()
        };
        let found = errors();
        assert_eq!(found.len(), usize::from(code.is_some()), "{name}: {found:#?}");
        assert_eq!(doctor(&["list"], &variables).code, Some(if code.is_some() { 2 } else { 0 }), "{name}");
        let Some(code) = code else { continue };
        assert_eq!(found[0]["code"], code, "{found:#?}");
        assert!(found[0]["message"].as_str().unwrap().contains(name), "{found:#?}");
        assert!(found[0].to_string().contains("it tries this name first"), "{found:#?}");
        let line = found[0]["commands"][0].as_str().unwrap();
        assert!(Command::new("sh").args(["-c", line]).status().unwrap().success(), "{line}");
        assert!(!file.exists() && errors().is_empty(), "{line}");
    }
}

/// Fills the directory like NVIDIA's archive of a release: files with full names, and links to them.
fn unpack(version: Version, dir: &Path) {
    let unpacked = TempDir::new();
    support::copy_fake_set(version, unpacked.path());
    for entry in std::fs::read_dir(unpacked.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let full_name = format!("{name}.{}.{}", version.minor, version.patch);
        std::fs::copy(unpacked.path().join(&name), dir.join(&full_name)).unwrap();
        let _ = std::fs::remove_file(dir.join(&name));
        std::os::unix::fs::symlink(full_name, dir.join(&name)).unwrap();
    }
}

#[test]
fn the_release_in_use_is_kept_if_a_directory_has_two_complete_ones() {
    let dir = TempDir::new();
    unpack(Version::new(9, 28, 1), dir.path());
    unpack(VERSION, dir.path());
    let c014 = || -> Vec<Value> {
        let findings = check(&[], &[("CUDNN_LOADER_DIR", dir.path())]);
        with_code(&findings, "C014").into_iter().cloned().collect()
    };
    let commands = |finding: &Value| -> Vec<String> {
        finding["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    let is_note = |found: &[Value]| {
        let [note] = found else { panic!("{found:#?}") };
        let names_both = ["9.19.0", "9.28.1"].iter().all(|version| note["message"].as_str().unwrap().contains(version));
        assert!(note["severity"] == "note" && names_both, "{note:#?}");
        // The note only shows how to remove the other release.
        let line = commands(note).join("\n");
        assert!(line.contains("libcudnn_ops.so.9.28.1") && !line.contains("9.19.0"), "{line}");
    };
    is_note(&c014());
    std::fs::remove_file(dir.path().join("libcudnn_ops.so.9")).unwrap();
    std::os::unix::fs::symlink("libcudnn_ops.so.9.28.1", dir.path().join("libcudnn_ops.so.9")).unwrap();
    let found = c014();
    let [error] = &found[..] else { panic!("{found:#?}") };
    let help = error["help"].as_str().unwrap();
    assert!(error["severity"] == "error" && help.contains("9.19.0") && help.contains("9.28.1"), "{error:#?}");
    let is_there = |version: &str| dir.path().join(format!("libcudnn_graph.so.{version}")).exists();
    for line in commands(error) {
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
    }
    assert!(is_there("9.19.0") && is_there("9.28.1"), "{error:#?}");
    is_note(&c014());
}

/// Without Git LFS, large files are pointers, and servers may send web pages.
#[test]
fn a_text_in_place_of_a_library_is_named() {
    for (text, expected, has_commands) in [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "`git lfs pull`", false),
        ("<!DOCTYPE html>\n<html><title>404</title></html>\n", "the file is a web page", true),
    ] {
        for (library, code) in [(Library::Graph, "C011"), (Library::Ops, "C013")] {
            let dir = TempDir::new();
            support::copy_fake_set(VERSION, dir.path());
            std::fs::write(dir.cleared(library), text).unwrap();
            let findings = check(&[], &[("LD_LIBRARY_PATH", dir.path())]);
            let found = with_code(&findings, code);
            let [finding] = &found[..] else { panic!("{findings:#?}") };
            assert!(finding["help"].as_str().unwrap().contains(expected), "{finding:#?}");
            assert_eq!(!finding["commands"].as_array().unwrap().is_empty(), has_commands, "{finding:#?}");
        }
    }
}

fn change_architecture(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let other: u16 = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    bytes[18..20].copy_from_slice(&other.to_le_bytes());
    std::fs::remove_file(file).unwrap();
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn every_library_for_another_architecture_is_unusable() {
    for library in all().into_iter().filter(|library| *library != Library::Graph) {
        let dir = TempDir::new();
        support::copy_fake_set(VERSION, dir.path());
        change_architecture(&dir.file(library));
        let variables = [("LD_LIBRARY_PATH", dir.path())];
        let findings = check(&[], &variables);
        let found = with_code(&findings, "C013");
        assert!(found.len() == 1 && found[0].to_string().contains("is built for"), "{library}: {findings:#?}");
        assert!(found[0].to_string().contains(library.file_name()), "{library}: {findings:#?}");
        assert_eq!(doctor(&["list"], &variables).code, Some(2), "{library}");
        let explained = doctor(&["explain"], &variables);
        assert_ne!(explained.code, Some(0), "{library}: {}", explained.stdout);
    }
}

#[test]
fn a_shim_that_ld_so_skips_is_blamed_instead_of_the_search_path() {
    type Damage = Box<dyn Fn(&Path)>;
    let link = |target: &'static str| {
        move |file: &Path| {
            std::fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink(target, file).unwrap();
        }
    };
    let damages: [(&str, Damage); 3] = [
        ("another architecture", Box::new(change_architecture)),
        ("dangling", Box::new(link("/nowhere/libcudnn.so.9"))),
        ("a loop", Box::new(link("libcudnn.so.9"))),
    ];
    for (name, damage) in damages {
        let dir = TempDir::new();
        support::copy_fake_set(VERSION, dir.path());
        damage(&dir.file(Library::Shim));
        let findings = check(&[], &[("LD_LIBRARY_PATH", dir.path())]);
        assert_eq!(with_code(&findings, "C013").len(), 1, "{name}: {findings:#?}");
        assert!(with_code(&findings, "C020").is_empty(), "{name}: {findings:#?}");
        let lines = doctor(&["env", dir.path().to_str().unwrap()], &[]);
        assert_eq!((lines.code, lines.stdout.lines().count()), (Some(2), 1), "{name}: {}", lines.stdout);
    }
}

/// What ld.so (glibc 2.36) does if the first of two directories contains something other than a library:
///
/// - A directory, an empty file and any text end the search with an error.
/// - A named pipe is opened, which waits for a writer.
/// - A socket and a loop of links end the search of `LD_LIBRARY_PATH`, with an error that omits the path.
/// - A dangling link and an unreadable file are skipped.
#[test]
fn whatever_has_the_name_of_the_shim_is_reported_as_ld_so_treats_it() {
    const SOCKET: &str = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"libcudnn.so.9\")'";
    for (script, ends_search, message) in [
        ("mkdir libcudnn.so.9", true, "is a directory"),
        (": >libcudnn.so.9", true, "is empty"),
        ("echo text >libcudnn.so.9", true, "is not an ELF file"),
        ("yes text | head -c 1000 >libcudnn.so.9", true, "is not an ELF file"),
        ("ln -s /dev/null libcudnn.so.9", true, "is a pipe, a socket or a device"),
        ("ln -s libcudnn.so.9 libcudnn.so.9", true, "symbolic links"),
        (SOCKET, true, "is a pipe, a socket or a device"),
        ("mkfifo libcudnn.so.9", true, "is a pipe, a socket or a device"),
        ("ln -s nowhere libcudnn.so.9", false, "is a symbolic link to \"nowhere\""),
    ] {
        let (odd, good, home) = (TempDir::new(), TempDir::new(), TempDir::new());
        support::copy_fake_set(VERSION, good.path());
        let made = Command::new("sh").args(["-c", script]).current_dir(odd.path()).status().unwrap();
        assert!(made.success(), "{script}");
        let both = PathBuf::from(format!("{}:{}", odd.path().display(), good.path().display()));
        if script != "mkfifo libcudnn.so.9" {
            let open = ["-c", "import ctypes; ctypes.CDLL('libcudnn.so.9')"];
            let opened = Command::new("python3").args(open).env("LD_LIBRARY_PATH", &both).output().unwrap();
            assert_eq!(opened.status.success(), !ends_search, "{script}: {opened:?}");
        }
        for (path, of_end) in [(both.as_path(), "error"), (odd.path(), "warning")] {
            let findings = check(&[], &[("LD_LIBRARY_PATH", path), ("HOME", home.path())]);
            let severity = if ends_search { of_end } else { "note" };
            let found = with_code(&findings, "C013");
            let [finding] = &found[..] else { panic!("{script}: {findings:#?}") };
            let text = finding["message"].as_str().unwrap();
            assert!(text.contains("/libcudnn.so.9 ") && text.contains(message), "{script}: {text}");
            assert_eq!(finding["severity"], severity, "{script}: {finding:#?}");
            let commands = finding["commands"].to_string();
            assert!(!script.starts_with("mkdir") || commands.contains("rm -r "), "{script}: {commands}");
        }
    }
}

#[test]
fn the_cudnn_next_to_the_drop_in_is_checked() {
    let (root, beside) = (TempDir::new(), TempDir::new());
    let used = wheel(&root, &[]);
    let drop_in = FakeLibrary::new(Library::Shim, VERSION).with_code("int cudnnShimVersion(void) { return 0; }\n");
    drop_in.build(&beside.file(Library::Shim));
    let variables = [("VIRTUAL_ENV", root.path()), ("LD_LIBRARY_PATH", beside.path())];
    let program = root.path().join("program");
    let shim = beside.file(Library::Shim);
    support::compile("int main(void) { return 0; }", &["-Wl,--no-as-needed", shim.to_str().unwrap()], &program);
    let explain = || doctor(&["explain", program.to_str().unwrap()], &variables).stdout;
    // If the directory of the drop-in contains no cuDNN, it loads the cuDNN that the loader selects.
    let findings = check(&[], &variables);
    assert!(with_code(&findings, "C021").is_empty(), "{findings:#?}");
    assert!(explain().contains(&format!("which loads cuDNN 9.19.0 in {}", used.display())), "{}", explain());
    // The library next to the drop-in is from a different release.
    FakeLibrary::new(Library::Graph, Version::new(9, 10, 2)).build(&beside.file(Library::Graph));
    let findings = check(&[], &variables);
    let other = with_code(&findings, "C021");
    assert!(other.len() == 1 && other[0].to_string().contains("loads another cuDNN: 9.10.2 in"), "{findings:#?}");
    let missing = with_code(&findings, "C012");
    let dir = beside.path().to_str().unwrap();
    assert!(missing.len() == 1 && missing[0]["message"].as_str().unwrap().contains(dir), "{findings:#?}");
    let commands = missing[0]["commands"].as_array().unwrap();
    let command = commands.first().and_then(|command| command.as_str()).unwrap();
    let start = format!("export LD_LIBRARY_PATH={}", used.display());
    assert!(commands.len() == 1 && command.starts_with(&start), "{findings:#?}");
    assert!(explain().contains(&format!("which loads cuDNN 9.10.2 in {dir}")), "{}", explain());
}

#[test]
fn the_cudnn_that_linked_programs_get_is_also_checked() {
    let (used, other) = (TempDir::new(), TempDir::new());
    support::copy_fake_set(VERSION, used.path());
    FakeLibrary::new(Library::Shim, Version::new(9, 4, 0)).build(&other.file(Library::Shim));
    let path = std::env::join_paths([other.path(), used.path()]).unwrap();
    let findings = check(&[], &[("LD_LIBRARY_PATH", path.as_ref())]);
    let mixed = with_code(&findings, "C022");
    assert!(mixed.len() == 1 && mixed[0].to_string().contains("is of a cuDNN before 9.5.0"), "{findings:#?}");
    assert!(with_code(&findings, "C021").is_empty(), "{findings:#?}");
    support::copy_fake_set(VERSION, other.path());
    std::fs::write(other.cleared(Library::Cnn), "no library").unwrap();
    let findings = check(&[], &[("CUDNN_LOADER_DIR", used.path()), ("LD_LIBRARY_PATH", other.path())]);
    assert_eq!(with_code(&findings, "C021").len(), 1, "{findings:#?}");
    let damaged = with_code(&findings, "C013");
    assert!(damaged.len() == 1 && damaged[0].to_string().contains("get this cuDNN"), "{findings:#?}");
}

/// The CUDA of a library is only known from GPU code.
#[test]
fn an_equal_release_whose_cuda_cannot_be_read_is_no_mix() {
    let (used, other) = (TempDir::new(), TempDir::new());
    support::copy_fake_set(VERSION, used.path());
    for (ptx, code) in [(None, "C021"), (Some(8), "C021"), (Some(9), "C022")] {
        for library in all().into_iter().filter(|library| *library != Library::Shim) {
            let fake = FakeLibrary::new(library, VERSION);
            let fake = ptx.map_or(fake.clone(), |ptx| fake.with_ptx(ptx));
            fake.build(&other.cleared(library));
        }
        let findings = check(&[], &[("CUDNN_LOADER_DIR", used.path()), ("LD_LIBRARY_PATH", other.path())]);
        let found = findings.iter().map(|finding| finding["code"].as_str().unwrap());
        let found: Vec<&str> = found.filter(|code| ["C021", "C022"].contains(code)).collect();
        assert_eq!(found, [code], "{ptx:?}: {findings:#?}");
    }
}

#[test]
fn a_32_bit_library_is_not_reported_as_another_architecture() {
    for (library, code) in [(Library::Graph, "C011"), (Library::Ops, "C013")] {
        let dir = TempDir::new();
        support::copy_fake_set(VERSION, dir.path());
        let mut bytes = std::fs::read(dir.file(library)).unwrap();
        bytes[4] = 1;
        std::fs::write(dir.cleared(library), bytes).unwrap();
        let findings = check(&[], &[("LD_LIBRARY_PATH", dir.path())]);
        let found = with_code(&findings, code);
        assert!(found.len() == 1 && found[0].to_string().contains("32-bit or big-endian"), "{findings:#?}");
    }
}

/// Some programs open cuDNN by name. Only the program's data contain this name.
#[test]
fn a_program_that_opens_cudnn_by_name_gets_the_library_that_ld_so_finds() {
    let root = TempDir::new();
    let (program, dir) = (root.path().join("program"), root.path().join("cudnn"));
    build(&dir, &all(), VERSION);
    let path = program.to_str().unwrap().to_owned();
    let check = |variables: &[(&str, &Path)]| check(&["--for", &path], variables);
    let of_program = |findings: &[Value]| -> Vec<String> {
        let codes = findings.iter().filter_map(|finding| Some(finding["code"].as_str()?.to_owned()));
        codes.filter(|code| ["C081", "C082", "C083", "C084", "C089", "C100"].contains(&code.as_str())).collect()
    };
    let plain = "int main(void) { return 0; }";
    let names = "const char *const names[] = { \"libcudnn.so.9\", \"libcudnn.so.8\", \"libcudnn.so\" };";
    support::compile(&format!("{names} {plain}"), &["-w"], &program);
    let findings = check(&[]);
    let found = with_code(&findings, "C089");
    let text = found[0].to_string();
    for part in
        ["opens libcudnn.so.9 itself, according to its read-only data", "libcudnn.so or libcudnn.so.8", "no proof"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(of_program(&findings), ["C089"]);
    // Missing alternatives are harmless if one of the names is found.
    let variables = [("LD_LIBRARY_PATH", dir.as_path())];
    assert_eq!(of_program(&check(&variables)), [""; 0]);
    // The finding explains why the doctor expects the program to open cuDNN.
    std::fs::remove_file(dir.join("libcudnn_graph.so.9")).unwrap();
    std::fs::remove_file(dir.join("libcudnn_ops.so.9")).unwrap();
    let findings = check(&variables);
    let found = with_code(&findings, "C082");
    assert!(found.len() == 1 && found[0].to_string().contains("opens libcudnn.so.9 itself"), "{findings:#?}");
    // The program is linked to a library with the name.
    let library = root.path().join("libinner.so");
    support::compile(names, &["-shared", "-fPIC", "-nostdlib", "-w"], &library);
    let linked = ["-w", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", library.to_str().unwrap()];
    support::compile(plain, &linked, &program);
    let findings = check(&[]);
    assert!(with_code(&findings, "C089")[0].to_string().contains("libinner.so opens"), "{findings:#?}");
    // The doctor recognizes only complete names, and this one is built at run time.
    support::compile(&format!("const char *name = \"libcudnn.so.%d\"; {plain}"), &["-w"], &program);
    assert_eq!(of_program(&check(&[])), ["C084"]);
}

#[test]
fn all_missing_libraries_of_a_program_are_one_finding() {
    let root = TempDir::new();
    let program = root.path().join("program");
    let library = support::ExtensionLibrary::new().needing("libcudnn.so.9").needing("libcublas.so.12");
    library.needing("libcublasLt.so.12").build(&program);
    let findings = check(&["--for", program.to_str().unwrap()], &[]);
    let found = with_code(&findings, "C082");
    assert!(found.len() == 1 && found[0]["notes"].as_array().unwrap().len() == 3, "{findings:#?}");
}

#[test]
fn a_program_for_another_major_gets_no_cudnn_9() {
    let root = TempDir::new();
    let program = root.path().join("program");
    ExtensionLibrary::new().needing("libcudnn.so.8").needing("libcudart.so.11.0").build(&program);
    let findings = check(&["--for", program.to_str().unwrap()], &[("HOME", root.path())]);
    assert!(with_code(&findings, "C010").is_empty(), "{findings:#?}");
    let found = with_code(&findings, "C082");
    let [found] = found.as_slice() else { panic!("{findings:#?}") };
    assert!(found["notes"].to_string().contains("is built for cuDNN 8"), "{found:#}");
    let help = found["help"].as_str().unwrap();
    assert!(help.contains("install cuDNN 8") && help.contains("built for cuDNN 9"), "{help}");
}

/// pip installs programs as scripts that name the Python of their environment.
#[test]
fn a_script_of_an_environment_leads_to_that_environment() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(&root.path().join("venv")).python3();
    let script = root.path().join("rembg");
    write_program(&script, format!("#!{}/bin/python3\nimport rembg\n", venv.root().display()));
    let findings = check(&["--for", script.to_str().unwrap()], &[("HOME", root.path())]);
    assert!(with_code(&findings, "C010").is_empty(), "{findings:#?}");
    let commands = with_code(&findings, "C081")[0]["commands"].to_string();
    assert!(commands.contains(&format!("check --python {}", venv.root().display())), "{findings:#?}");
    write_program(&script, "#!/usr/bin/env python3\n");
    let findings = check(&["--for", script.to_str().unwrap()], &[("HOME", root.path())]);
    assert_eq!(with_code(&findings, "C081")[0]["commands"].as_array().unwrap().len(), 0, "{findings:#?}");
}

#[test]
fn the_cudnn_that_a_program_finds_is_the_one_to_check() {
    let root = TempDir::new();
    let (beside, apart) = (root.path().join("beside"), root.path().join("apart"));
    build(&beside, &all(), VERSION);
    let shim = beside.join("libcudnn.so.9");
    let main = "int main(void) { return 0; }";
    for run_path in ["-Wl,-rpath,$ORIGIN", &format!("-Wl,-rpath,{}", beside.display())] {
        let program = beside.join("app");
        support::compile(main, &["-w", "-Wl,--no-as-needed", shim.to_str().unwrap(), run_path], &program);
        let path = program.to_str().unwrap();
        let findings = check(&["--for", path], &[]);
        let foreign = ["C010", "C016", "C020", "C021", "C022", "C070", "C082", "C084"];
        let codes: Vec<&str> = findings.iter().filter_map(|finding| finding["code"].as_str()).collect();
        assert!(codes.iter().all(|code| !foreign.contains(code)), "{findings:#?}");
        let output = doctor(&["check", "--no-load", "--for", path], &[]);
        assert_ne!(output.code, Some(2), "{}", output.stdout);
        let expected = format!("program {path} loads libcudnn.so.9 (");
        assert!(output.stdout.contains(&expected) && output.stdout.contains("cuDNN   9.19.0"), "{}", output.stdout);
        build(&apart, &[Library::Graph], VERSION);
        let findings = check(&["--for", path], &[("CUDNN_LOADER_DIR", &apart)]);
        assert!(with_code(&findings, "C012").is_empty() && with_code(&findings, "C020").is_empty(), "{findings:#?}");
    }
    std::fs::remove_file(beside.join("libcudnn_cnn.so.9")).unwrap();
    let findings = check(&["--for", beside.join("app").to_str().unwrap()], &[]);
    assert!(with_code(&findings, "C012")[0].to_string().contains("libcudnn_cnn.so.9"), "{findings:#?}");
}

/// Bundlers such as PyInstaller move the shim of a package to the top directory.
#[test]
fn a_shim_apart_from_its_libraries_is_not_repaired_by_an_installation() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(&root.path().join("venv")).pip();
    let (bundle, below) = (root.path().join("bundle"), root.path().join("bundle/nvidia/cudnn/lib"));
    build(&below, &all(), VERSION);
    build(&bundle, &[Library::Shim], VERSION);
    let program = bundle.join("app");
    support::ExtensionLibrary::new().with_runpath("$ORIGIN").needing("libcudnn.so.9").build(&program);
    let findings = check(&["--for", program.to_str().unwrap()], &[("VIRTUAL_ENV", venv.root())]);
    let found = with_code(&findings, "C010");
    assert_eq!(found.len(), 1, "{findings:#?}");
    assert!(found[0]["help"].as_str().unwrap().contains(below.to_str().unwrap()), "{found:#?}");
    assert_eq!(found[0]["commands"], Value::Array(Vec::new()), "{found:#?}");
}

/// Compilers may join two strings without a zero byte between them.
#[test]
fn a_program_that_opens_cudnn_by_its_path_gets_that_file() {
    let root = TempDir::new();
    let (program, dir) = (root.path().join("program.so"), root.path().join("opt/cudnn"));
    build(&dir, &all(), VERSION);
    let path = program.to_str().unwrap();
    let shim = dir.join("libcudnn.so.9").display().to_string();
    for (text, is_found) in [
        (shim.clone(), true),
        (format!("cannot open{shim}"), true),
        (format!("/nowhere\0{shim}.%d"), true),
        (format!("{shim}.1.0"), false),
        ("/nowhere/libcudnn.so.9".to_owned(), false),
        (format!("{}\0libcudnn.so.9", dir.display()), false),
    ] {
        support::ExtensionLibrary::new().with_text(&text).build(&program);
        let output = doctor(&["check", "--no-load", "--for", path], &[]);
        let of_program = format!("program {path} loads {shim} (");
        assert_eq!(output.stdout.contains(&of_program), is_found, "{text:?}: {}", output.stdout);
        assert_eq!(output.stdout.contains("C089"), !is_found, "{text:?}: {}", output.stdout);
    }
}

#[test]
fn a_program_that_finds_a_cudnn_for_another_cuda_is_reported() {
    let root = TempDir::new();
    let (program, dir) = (root.path().join("program.so"), root.path().join("cudnn"));
    std::fs::create_dir(&dir).unwrap();
    for library in all() {
        FakeLibrary::new(library, VERSION).with_ptx(9).build(&dir.join(library.file_name()));
    }
    for name in ["libcudart.so.12", "libcublas.so.13", "libcudart.so.13"] {
        support::ExtensionLibrary::new().with_soname(name).build(&dir.join(name));
    }
    for (needs, expected) in [
        (&["libcudart.so.12"][..], Some("the program loads libcudart.so.12, and a cuDNN for CUDA 13")),
        (&["libcudart.so.13", "libcublas.so.13"], None),
        (&[], None),
    ] {
        let library = support::ExtensionLibrary::new().with_runpath(dir.to_str().unwrap()).needing("libcudnn.so.9");
        needs.iter().fold(library, |library, name| library.needing(name)).build(&program);
        let findings = check(&["--for", program.to_str().unwrap()], &[]);
        let found = with_code(&findings, "C018");
        let message = found.first().and_then(|finding| finding["message"].as_str());
        match expected {
            Some(expected) => assert!(message.is_some_and(|message| message.starts_with(expected)), "{findings:#?}"),
            None => assert_eq!(message, None, "{needs:?}"),
        }
    }
}

/// The program does not search the active environment.
#[test]
fn no_command_installs_a_package_where_the_program_does_not_search() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(&root.path().join("venv")).pip();
    let (program, dir) = (root.path().join("program.so"), root.path().join("cudnn"));
    build(&dir, &all(), VERSION);
    support::ExtensionLibrary::new().with_runpath(dir.to_str().unwrap()).needing("libcudnn.so.9").build(&program);
    let expected = format!("install a different release in {}, where the program finds cuDNN", dir.display());
    for options in [&["--minimum", "9.28"][..], &["--cuda", "13"]] {
        let options = [&["--for", program.to_str().unwrap()], options].concat();
        let findings = check(&options, &[("VIRTUAL_ENV", venv.root())]);
        let of_requirement =
            findings.iter().filter(|finding| ["C018", "C019"].iter().any(|code| finding["code"] == *code));
        let helps: Vec<&Value> = of_requirement.collect();
        assert!(!helps.is_empty(), "{options:?}: {findings:#?}");
        for finding in helps {
            assert_eq!(
                (&finding["help"], &finding["commands"]),
                (&expected.clone().into(), &Vec::<Value>::new().into())
            );
        }
    }
}

/// The shim exports every function, but most libraries behind it are missing in a JIT-only cuDNN.
#[test]
fn a_program_that_calls_functions_missing_from_its_cudnn_is_reported() {
    let root = TempDir::new();
    let (dir, program) = (root.path().join("cudnn"), root.path().join("program"));
    build(&dir, &all(), VERSION);
    let shim = dir.join("libcudnn.so.9");
    let main = "int cudnnCreateTensorDescriptor(void); int cudnnConvolutionForward(void);
        int main(void) { return cudnnCreateTensorDescriptor() + cudnnConvolutionForward(); }";
    let run_path = format!("-Wl,-rpath,{}", dir.display());
    support::compile(main, &["-w", "-Wl,--no-as-needed", shim.to_str().unwrap(), &run_path], &program);
    let arguments = ["check", "--no-load", "--for", program.to_str().unwrap()];
    let found = || {
        let findings = check(&arguments[2..], &[]);
        with_code(&findings, "C019").into_iter().map(Value::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found(), [""; 0]);
    for library in all().into_iter().filter(|library| !JIT.contains(library)) {
        std::fs::remove_file(dir.join(library.file_name())).unwrap();
    }
    assert_eq!(doctor(&arguments, &[]).code, Some(2));
    let found = found();
    assert!(found.len() == 1 && found[0].contains("cudnnConvolutionForward: in libcudnn_cnn.so.9"), "{found:?}");
    assert!(found[0].contains(program.to_str().unwrap()), "{found:?}");
    // Even if pip installed this cuDNN, the program does not search the packages of the active environment.
    let record = root.path().join("nvidia_cudnn_jit_cu12-9.19.0.56.dist-info/RECORD");
    let target = root.path().join("nvidia/cudnn_jit/lib");
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::rename(&dir, &target).unwrap();
    std::os::unix::fs::symlink(&target, &dir).unwrap();
    std::fs::create_dir(record.parent().unwrap()).unwrap();
    std::fs::write(record, "nvidia/cudnn_jit/lib/libcudnn_graph.so.9,,\n").unwrap();
    let venv = support::PythonEnvironment::venv(&root.path().join("venv")).pip();
    let findings = check(&arguments[2..], &[("VIRTUAL_ENV", venv.root())]);
    let help = with_code(&findings, "C019")[0]["help"].as_str().unwrap();
    assert!(help.starts_with("install a different release in "), "{help}");
}

/// The remaining libraries look like a JIT-only package.
#[test]
fn a_full_cudnn_with_the_libraries_of_a_jit_only_one_is_incomplete() {
    let has_jit_part = |name: &str| JIT.iter().any(|library| library.file_name() == name);
    for (records, expected) in [
        (&[("nvidia_cudnn_cu12-9.19.0.56", "")][..], Some("nvidia-cudnn-cu12==9.19.0.56")),
        (&[("nvidia_cudnn_jit_cu12-9.19.0.56", "")], None),
        (&[], None),
    ] {
        let root = TempDir::new();
        let dir = wheel(&root, records);
        for library in all().iter().map(|library| library.file_name()).filter(|name| !has_jit_part(name)) {
            std::fs::remove_file(dir.join(library)).unwrap();
        }
        let findings = check(&[], &[("CUDNN_LOADER_DIR", &dir)]);
        let found = with_code(&findings, "C012");
        assert_eq!(found.len(), usize::from(expected.is_some()), "{records:?}: {findings:#?}");
        let command = found.first().map(|found| found["commands"][0].as_str().unwrap());
        assert!(command.is_none_or(|command| command.ends_with(expected.unwrap())), "{command:?}");
    }
    // NVIDIA published no JIT-only package of this release.
    let dir = TempDir::new();
    build(dir.path(), &JIT, Version::new(9, 10, 2));
    let findings = check(&[], &[("CUDNN_LOADER_DIR", dir.path())]);
    assert_eq!(with_code(&findings, "C012").len(), 1, "{findings:#?}");
}

/// pip cannot uninstall such a wheel, so its record is set aside during the reinstallation.
#[test]
fn a_wheel_with_a_damaged_record_is_still_known() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("has no RECORD, the", |record| std::fs::remove_file(record).unwrap()),
        ("has a RECORD without files", |record| std::fs::write(record, "").unwrap()),
        ("has no readable RECORD: it is a pipe", |record| {
            std::fs::remove_file(record).unwrap();
            assert!(Command::new("mkfifo").arg(record).status().unwrap().success());
        }),
        ("has a RECORD that is not text", |record| std::fs::write(record, [0xff; 9]).unwrap()),
        ("has a RECORD with empty lines", |record| {
            let text = std::fs::read_to_string(record).unwrap();
            std::fs::write(record, text.replace('\n', "\r\r\n")).unwrap();
        }),
    ];
    for ((reason, damage), (library, code)) in damages
        .iter()
        .flat_map(|damage| [(Library::Ops, "C012"), (Library::Graph, "C010")].map(|library| (*damage, library)))
    {
        let root = TempDir::new();
        let dir = wheel(&root, &[("nvidia_cudnn_cu12-9.19.0.56", "")]);
        let info = root.path().join("lib/python3.12/site-packages/nvidia_cudnn_cu12-9.19.0.56.dist-info");
        damage(&info.join("RECORD"));
        std::fs::remove_file(dir.join(library.file_name())).unwrap();
        let findings = check(&[], &[("VIRTUAL_ENV", root.path())]);
        let found = with_code(&findings, code)[0];
        let commands: Vec<&str> = found["commands"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let start = format!("mv {0} {0}.aside-1 && ", info.display());
        let end = format!("rm -r {0}.aside-1 || {{ mv -T {0}.aside-1 {0}; false; }}", info.display());
        let end = format!(" --no-deps nvidia-cudnn-cu12==9.19.0.56 && {end}");
        assert!(commands[0].starts_with(&start) && commands[0].ends_with(&end), "{reason}: {findings:#?}");
        assert_eq!(commands.len(), 1, "{reason}: {findings:#?}");
        let notes = with_code(&findings, "C080")[0]["notes"].to_string();
        assert!(notes.contains(reason), "{reason}: {notes}");
    }
    let root = TempDir::new();
    let dir = wheel(&root, &[("nvidia_cudnn_cu12-9.19.0.56", ""), ("nvidia_cudnn_cu13-9.19.0.56", "")]);
    let info = root.path().join("lib/python3.12/site-packages/nvidia_cudnn_cu13-9.19.0.56.dist-info");
    std::fs::write(info.join("RECORD"), [0xff; 9]).unwrap();
    let findings = check(&[], &[("CUDNN_LOADER_DIR", &dir)]);
    let commands = &with_code(&findings, "C023")[0]["commands"];
    let start = format!("mv {0} {0}.aside-1 && ", info.display());
    assert!(commands[0].as_str().unwrap().starts_with(&start), "{findings:#?}");
}

/// With this setting, pip would change a different environment.
#[test]
fn a_note_has_no_command_that_a_setting_forbids() {
    let root = TempDir::new();
    wheel(&root, &[("nvidia_cudnn_cu12-9.19.0.56", "")]);
    let info = root.path().join("lib/python3.12/site-packages/nvidia_cudnn_cu12-9.19.0.56.dist-info");
    std::fs::write(info.join("RECORD"), "").unwrap();
    for (settings, is_forbidden) in [("", false), ("[install]\nprefix = /elsewhere\n", true)] {
        std::fs::write(root.path().join("pip.conf"), settings).unwrap();
        let findings = check(&[], &[("VIRTUAL_ENV", root.path())]);
        let found = with_code(&findings, "C080")[0];
        assert_eq!(found["severity"], "note", "{found:#}");
        assert_eq!(found["commands"].as_array().unwrap().is_empty(), is_forbidden, "{found:#}");
        assert_eq!(found["help"].to_string().contains("has `prefix = /elsewhere`"), is_forbidden, "{found:#}");
    }
}

/// For example, files were copied over the wheel's.
#[test]
fn files_of_another_release_than_the_record_are_not_as_installed() {
    for (record, is_other) in [("nvidia_cudnn_cu12-9.19.0.56", false), ("nvidia_cudnn_cu12-9.18.0.77", true)] {
        let root = TempDir::new();
        let dir = wheel(&root, &[(record, "")]);
        let findings = check(&[], &[("CUDNN_LOADER_DIR", &dir)]);
        let notes: Vec<String> =
            with_code(&findings, "C024").iter().map(|found| found["notes"][0].to_string()).collect();
        let note = "\"libcudnn_graph.so.9 is from 9.19.0, but pip has a record of nvidia-cudnn-cu12 9.18.0\"";
        assert_eq!(notes, if is_other { vec![note] } else { Vec::new() }, "{findings:#?}");
    }
}

#[test]
fn a_library_that_is_a_link_to_itself_is_installed_again() {
    let root = TempDir::new();
    let dir = wheel(&root, &[("nvidia_cudnn_cu12-9.19.0.56", "")]);
    let file = dir.join("libcudnn_graph.so.9");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("libcudnn_graph.so.9", &file).unwrap();
    let findings = check(&[], &[("VIRTUAL_ENV", root.path())]);
    for code in ["C010", "C011"] {
        let commands = &with_code(&findings, code)[0]["commands"];
        assert_eq!(commands[0], format!("rm {}", file.display()), "{findings:#?}");
        assert!(commands[1].as_str().unwrap().ends_with("nvidia-cudnn-cu12==9.19.0.56"), "{findings:#?}");
    }
}

/// Reinstalling the wheel would leave this file in place.
#[test]
fn a_file_that_somebody_added_to_a_wheel_is_removed() {
    for (is_link, code) in [(false, "C014"), (true, "C013")] {
        let root = TempDir::new();
        let dir = wheel(&root, &[("nvidia_cudnn_cu12-9.19.0.56", "")]);
        let record = root.path().join("lib/python3.12/site-packages/nvidia_cudnn_cu12-9.19.0.56.dist-info/RECORD");
        let text = std::fs::read_to_string(&record).unwrap();
        let others = text.lines().filter(|line| !line.contains("libcudnn_ops")).map(|line| format!("{line}\n"));
        std::fs::write(&record, others.collect::<String>()).unwrap();
        let file = dir.join("libcudnn_ops.so.9");
        std::fs::remove_file(&file).unwrap();
        if is_link {
            std::os::unix::fs::symlink("libcudnn_graph.so.9", &file).unwrap();
        } else {
            build(&dir, &[Library::Ops], Version::new(9, 28, 0));
        }
        let findings = check(&[], &[("CUDNN_LOADER_DIR", &dir)]);
        let found = with_code(&findings, code);
        // Afterwards the release may be incomplete, and needs a reinstallation.
        let first = found.iter().map(|found| found["commands"][0].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(first, [format!("rm {}", file.display())], "{findings:#?}");
    }
}

/// The packages of an environment may be a link to another environment with separate records.
#[test]
fn a_file_of_another_environment_is_not_removed_through_a_link() {
    for record in [None, Some("9.18.0.56"), Some("9.19.0.56")] {
        let (other, world) = (TempDir::new(), TempDir::new());
        let dir = wheel(&other, &[("nvidia_cudnn_cu12-9.19.0.56", "")]);
        let venv = support::PythonEnvironment::venv(&world.path().join("venv")).pip();
        if let Some(version) = record {
            let graph = "nvidia/cudnn/lib/libcudnn_graph.so.9";
            let info_dir = format!("nvidia_cudnn_cu12-{version}.dist-info");
            venv.package("nvidia-cudnn-cu12", version);
            std::fs::write(venv.import_dir().join(info_dir).join("RECORD"), format!("{graph},,1\n")).unwrap();
        }
        let nvidia = other.path().join("lib/python3.12/site-packages/nvidia");
        std::os::unix::fs::symlink(nvidia, venv.import_dir().join("nvidia")).unwrap();
        std::fs::remove_file(dir.join("libcudnn_ops.so.9")).unwrap();
        build(&dir, &[Library::Ops], Version::new(9, 28, 0));
        let findings = check(&[], &[("VIRTUAL_ENV", venv.root()), ("CUDNN_LOADER_DIR", &dir)]);
        let commands = &with_code(&findings, "C014")[0]["commands"];
        let twice = with_code(&findings, "C023");
        // One command would change both environments.
        if record.is_some() {
            let none = serde_json::json!([]);
            assert!(*commands == none && twice.iter().all(|one| one["commands"] == none), "{record:?}: {findings:#?}");
            continue;
        }
        let owner = other.path();
        let command = commands[0].as_str().unwrap();
        assert!(command.starts_with(&format!("{}/bin/python3 ", owner.display())), "{record:?}: {command}");
        assert!(
            command.ends_with(" --force-reinstall --no-deps nvidia-cudnn-cu12==9.19.0.56"),
            "{record:?}: {command}"
        );
        assert!(twice.is_empty(), "{record:?}: {twice:#?}");
    }
}

/// An interrupted upgrade leaves the record of the older or the newer version behind.
#[test]
fn two_records_of_one_package_count_as_the_package_of_the_files() {
    for other in ["nvidia_cudnn_cu12-9.18.0.56", "nvidia_cudnn_cu12-9.27.0.42"] {
        let root = TempDir::new();
        let dir = wheel(&root, &[(other, ""), ("nvidia_cudnn_cu12-9.19.0.56", "")]);
        let findings = check(&[], &[("CUDNN_LOADER_DIR", &dir)]);
        let found = &with_code(&findings, "C023")[0];
        let message = found["message"].as_str().unwrap();
        assert!(message.starts_with("2 versions of nvidia-cudnn-cu12 are recorded"), "{message}");
        let help = found["help"].as_str().unwrap();
        assert!(help.starts_with("remove all versions of nvidia-cudnn-cu12, then install one"), "{help}");
        assert!(found["commands"].to_string().contains(" install nvidia-cudnn-cu12==9.19.0.56\""), "{found:#}");
    }
}

#[test]
fn a_file_that_no_package_owns_is_removed_instead_of_installing_the_package_again() {
    let root = TempDir::new();
    let packages = root.path().join("lib/python3.12/site-packages");
    let (dir, record) =
        (packages.join("nvidia/cudnn_jit/lib"), packages.join("nvidia_cudnn_jit_cu12-9.19.0.56.dist-info"));
    let libraries = [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled];
    build(&dir, &libraries, VERSION);
    for dir in [&packages.join("pip"), &record] {
        std::fs::create_dir_all(dir).unwrap();
    }
    write_program(root.path().join("bin/python3"), "#!/bin/sh\nexit 1\n");
    let line = |library: &Library| {
        let len = std::fs::metadata(dir.join(library.file_name())).unwrap().len();
        format!("nvidia/cudnn_jit/lib/{library},,{len}\n")
    };
    std::fs::write(record.join("RECORD"), libraries.iter().map(line).collect::<String>()).unwrap();
    let stray = dir.join(Library::Ops.file_name());
    std::fs::write(&stray, "no library").unwrap();
    let output = doctor(&["check", "--json"], &[("CUDNN_LOADER_DIR", &dir)]);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    for code in ["C013", "C051"] {
        let found = with_code(findings, code);
        let removal = serde_json::json!([format!("rm {}", stray.display())]);
        assert!(!found.is_empty() && found.iter().all(|one| one["commands"] == removal), "{code}: {findings:#?}");
    }
}

/// A normal installation would be a no-op, because conda lists the package as installed.
#[test]
fn a_conda_package_with_deleted_files_is_reinstalled() {
    let root = TempDir::new();
    let record = root.path().join("conda-meta/libcudnn-9.19.0.56-h1.json");
    std::fs::create_dir_all(root.path().join("conda-meta")).unwrap();
    std::fs::create_dir_all(root.path().join("lib")).unwrap();
    std::fs::write(record, r#"{"files": ["lib/libcudnn_graph.so.9"]}"#).unwrap();
    let findings = check(&[], &[("CONDA_PREFIX", root.path())]);
    for code in ["C010", "C011"] {
        let found = with_code(&findings, code);
        let command = found[0]["commands"][0].as_str().unwrap();
        assert!(command.contains("--force-reinstall") && command.ends_with("libcudnn=9.19.0.56"), "{findings:#?}");
    }
}

/// With `docker run --user`, the home directory is `/` or missing.
#[test]
fn commands_write_where_the_user_can_write() {
    if !cudnn_os::rights::is_root() {
        return not_run("a user without a home directory", "only root can become another user");
    }
    let (root, tools) = (TempDir::new(), TempDir::new());
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = root.path().join("cudnn-doctor");
    copy_program(DOCTOR, &program);
    let dir = root.path().join("copied");
    build(&dir, &JIT, VERSION);
    let home = root.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    std::fs::set_permissions(tools.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    write_program(tools.path().join("bin/pip"), "#!/bin/sh\n");
    write_program(tools.path().join("sudo/sudo"), "#!/bin/sh\n");
    let bin = tools.path().join("bin").display().to_string();
    let with_sudo = format!("{bin}:{}", tools.path().join("sudo").display());
    for (home, path, expected) in [
        (home.to_str().unwrap(), &bin, format!("pip install --target {}/.local/share/", home.display())),
        ("/", &bin, "export HOME=\"$(mktemp -d)\"".to_owned()),
        ("/nonexistent", &bin, "export HOME=\"$(mktemp -d)\"".to_owned()),
        ("/", &with_sudo, "sudo pip install --target /opt/nvrtc-cuda-12 ".to_owned()),
    ] {
        let child = support::Child::bare(program.to_str().unwrap()).env("HOME", home).env("PATH", path);
        let child = child.env("CUDNN_LOADER_DIR", &dir).without_privileges();
        let output = child.run(&["check", "--no-load", "--json"]);
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        let found = with_code(value["findings"].as_array().unwrap(), "C031");
        // Variables that the shell must set first are only in the help.
        let help = found[0]["help"].as_str().unwrap();
        let command = found[0]["commands"][0].as_str().unwrap_or_default();
        assert!(command.starts_with(&expected) || help.contains(&format!("`{expected}`")), "{home}: {help} {command}");
    }
}

#[test]
fn a_file_that_the_user_may_not_read_is_named() {
    let (root, bin) = (TempDir::new(), TempDir::new());
    let program = bin.path().join("cudnn-doctor");
    copy_program(DOCTOR, &program);
    let graph = root.path().join("lib/libcudnn_graph.so.9");
    build(graph.parent().unwrap(), &JIT, VERSION);
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&graph, std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::create_dir(root.path().join("conda-meta")).unwrap();
    let child = support::Child::bare(program.to_str().unwrap()).env("CONDA_PREFIX", root.path()).without_privileges();
    let output = child.run(&["check", "--no-load", "--json"]);
    let value: Value = serde_json::from_str(&output.stdout).unwrap();
    let found = with_code(value["findings"].as_array().unwrap(), "C011");
    let message = format!("{} cannot be read: Permission denied", graph.display());
    assert!(found.len() == 1 && found[0]["message"].as_str().unwrap().starts_with(&message), "{value:#}");
}

/// ONNX Runtime's provider opens cuDNN by a name that it builds at run time.
#[test]
fn missing_libraries_are_reported_for_a_program_not_linked_to_cudnn() {
    let root = TempDir::new();
    let program = root.path().join("provider.so");
    let library = support::ExtensionLibrary::new().needing("libcublasLt.so.13").needing("libcuda.so.1");
    library.needing("libnvidia-ml.so.1").build(&program);
    let findings = check(&["--for", program.to_str().unwrap()], &[]);
    let found = with_code(&findings, "C082");
    let text = found[0].to_string();
    assert!(text.contains("libcublasLt.so.13 was not found"), "{text}");
    assert!(!text.contains("libcuda.so") && !text.contains("libnvidia"), "{text}");
    assert_eq!(with_code(&findings, "C084").len(), 1, "{findings:#?}");
}

/// Newer libraries work with a shim of an older release.
#[test]
fn an_older_shim_is_a_note_and_a_newer_one_an_error() {
    let (older, newer) = (Version::new(9, 10, 2), Version::new(9, 28, 0));
    for (wheel, other, severity) in [(older, newer, "note"), (newer, older, "error")] {
        let root = TempDir::new();
        let venv = support::PythonEnvironment::venv(&root.path().join("venv"));
        let linked =
            support::ExtensionLibrary::new().needing("libcudnn.so.9").with_rpath("$ORIGIN/../../nvidia/cudnn/lib");
        venv.package("torch", "2.8.0")
            .file("torch/version.py", "cuda: Optional[str] = '12.8'\n")
            .library("torch/lib/libtorch_cuda.so", &linked);
        let dir = venv.import_dir().join("nvidia/cudnn/lib");
        std::fs::create_dir_all(&dir).unwrap();
        support::copy_fake_set(wheel, &dir);
        let apart = root.path().join("apart");
        std::fs::create_dir(&apart).unwrap();
        support::copy_fake_set(other, &apart);
        // Only the wheel has a shim, which loads the libraries of the other directory.
        std::fs::remove_file(apart.join("libcudnn.so.9")).unwrap();
        let variables = [("VIRTUAL_ENV", venv.root()), ("LD_LIBRARY_PATH", apart.as_path())];
        let findings = check(&[], &variables);
        for code in ["C022", "C072"] {
            let found = with_code(&findings, code);
            assert!(!found.is_empty() && found.iter().all(|one| one["severity"] == severity), "{code}: {findings:#?}");
        }
        let output = doctor(&["frameworks", venv.root().to_str().unwrap()], &variables);
        assert_eq!(output.code == Some(2), severity == "error", "{}", output.stdout);
        assert!(output.stdout.contains("C072"), "{}", output.stdout);
    }
}

/// `libcudnn_graph.so.9` of 9.20 opens the tensor-IR engines, which no wheel of 9.20 contains, so ld.so searches other
/// installations. 9.19 does not open them, and 9.21 contains them.
#[test]
fn a_library_that_a_release_opens_and_lacks_may_come_from_another_one() {
    for (version, is_mix) in [("9.19.0", false), ("9.20.0", true), ("9.21.0", false)] {
        for pin in ["", "==9.20.0.48"] {
            let root = TempDir::new();
            let venv = support::PythonEnvironment::venv(&root.path().join("venv")).pip().python3();
            let linked =
                support::ExtensionLibrary::new().needing("libcudnn.so.9").with_rpath("$ORIGIN/../../nvidia/cudnn/lib");
            venv.package("torch", "2.12.0")
                .requires(&format!("nvidia-cudnn-cu12{pin}"))
                .file("torch/version.py", "cuda: Optional[str] = '12.8'\n")
                .library("torch/lib/libtorch_cuda.so", &linked);
            let release: Version = version.parse().unwrap();
            let mut wheel = venv.package("nvidia-cudnn-cu12", &format!("{version}.48"));
            for library in Library::ALL.iter().filter(|library| has_library(release, **library)) {
                let path = format!("nvidia/cudnn/lib/{}", library.file_name());
                wheel = wheel.cudnn(&path, &FakeLibrary::new(*library, release).with_ptx(8).with_rpath());
            }
            let apart = root.path().join("apart");
            std::fs::create_dir(&apart).unwrap();
            support::copy_fake_set(Version::new(9, 28, 0), &apart);
            std::fs::remove_file(apart.join("libcudnn.so.9")).unwrap();
            let variables = [("VIRTUAL_ENV", venv.root()), ("LD_LIBRARY_PATH", apart.as_path())];
            let findings = check(&[], &variables);
            for code in ["C022", "C072"] {
                let found = with_code(&findings, code);
                assert_eq!(!found.is_empty(), is_mix, "{version} {code}: {findings:#?}");
                assert!(found.iter().all(|one| one["severity"] == "error"), "{found:#?}");
                let notes = found.iter().map(|one| one["notes"].to_string()).collect::<String>();
                assert_eq!(notes.contains("which its packages lack"), is_mix, "{code}: {notes}");
            }
            let help = with_code(&findings, "C022").iter().map(|one| one.to_string()).collect::<String>();
            let is_offered = help.contains("install 'nvidia-cudnn-cu12>=9.21.0'");
            assert_eq!(is_offered, is_mix && pin.is_empty(), "{version} {pin}: {help}");
        }
    }
}

/// If LD_PRELOAD contains NVIDIA's shim, every program uses the libraries next to it, regardless of the environment.
#[test]
fn a_preloaded_shim_is_removed_instead_of_upgraded() {
    for (version, ptx) in [(Version::new(9, 1, 0), 8), (VERSION, 9)] {
        let root = TempDir::new();
        let venv = support::PythonEnvironment::venv(&root.path().join("venv"));
        let linked =
            support::ExtensionLibrary::new().needing("libcudnn.so.9").with_rpath("$ORIGIN/../../nvidia/cudnn/lib");
        venv.package("torch", "2.8.0")
            .requires("nvidia-cudnn-cu12==9.19.0.56")
            .file("torch/version.py", "cuda: Optional[str] = '12.8'\n")
            .library("torch/lib/libtorch_cuda.so", &linked);
        venv.package("nvidia-cudnn-cu12", "9.19.0.56");
        build(&venv.import_dir().join("nvidia/cudnn/lib"), &all(), VERSION);
        let apart = root.path().join("apart");
        std::fs::create_dir(&apart).unwrap();
        for library in all() {
            let fake = FakeLibrary::new(library, version).with_ptx(ptx);
            fake.build(&apart.join(library.file_name()));
        }
        let preloaded = apart.join("libcudnn.so.9");
        let environment = ("VIRTUAL_ENV", venv.root());
        let is_about_cudnn = |finding: &&Value| ["C070", "C071", "C072"].iter().any(|code| finding["code"] == *code);
        for program in ["check", "frameworks"] {
            let options: &[&str] = if program == "check" { &["--no-load"] } else { &[] };
            let arguments = [&[program, "--json"], options].concat();
            let findings = |variables: &[(&str, &Path)]| -> Vec<Value> {
                let value = document(&doctor(&arguments, variables));
                let all = value.get("findings").unwrap_or_else(|| &value["environments"][0]["findings"]);
                all.as_array().unwrap().clone()
            };
            let found = findings(&[environment, ("LD_PRELOAD", &preloaded)]);
            let found: Vec<&Value> = found.iter().filter(is_about_cudnn).collect();
            assert_eq!(found.len(), 1, "{found:#?}");
            assert_eq!(found[0]["code"], "C071", "{found:#?}");
            assert_eq!(found[0]["commands"], serde_json::json!(["unset LD_PRELOAD"]), "{found:#?}");
            assert!(!findings(&[environment]).iter().any(|finding| is_about_cudnn(&finding)), "{program}");
        }
    }
}

/// The wheels for two CUDA majors own the same files.
#[test]
fn a_cudnn_for_another_cuda_is_neither_offered_nor_accepted() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(&root.path().join("venv"));
    let linked = support::ExtensionLibrary::new().needing("libcudnn.so.9");
    venv.package("torch", "2.9.1")
        .file("torch/version.py", "cuda: Optional[str] = '13.0'\n")
        .library("torch/lib/libtorch_cuda.so", &linked.clone().with_rpath("$ORIGIN/../../nvidia/cudnn/lib"));
    build(&venv.import_dir().join("nvidia/cudnn/lib"), &all(), VERSION);
    venv.package("nvidia-cudnn-cu12", "9.19.0.56");
    let frameworks = || doctor(&["frameworks", venv.root().to_str().unwrap()], &[]);
    let output = frameworks();
    assert_eq!(output.code, Some(2), "{}", output.stdout);
    for part in [
        "[C071]: PyTorch 2.9.1 is built for CUDA 13.0, and would load a cuDNN for CUDA 12",
        "uninstall --yes nvidia-cudnn-cu12",
        "'nvidia-cudnn-cu13>=9",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    let offered = "have ld.so search the directories of the wheels";
    // No run path leads to this directory.
    std::fs::remove_dir_all(venv.import_dir().join("torch-2.9.1.dist-info")).unwrap();
    let provider = "onnxruntime/capi/libonnxruntime_providers_cuda.so";
    let info = "onnxruntime/capi/build_and_package_info.py";
    let onnxruntime = venv.package("onnxruntime-gpu", "1.22.0").library(provider, &linked);
    let onnxruntime = onnxruntime.file(info, "cuda_version = '13.0'\n");
    let output = frameworks();
    assert!(output.stdout.contains("[C070]") && output.stdout.contains("uninstall --yes"), "{}", output.stdout);
    assert!(!output.stdout.contains(offered), "{}", output.stdout);
    onnxruntime.file(info, "cuda_version = '12.8'\n");
    let output = frameworks();
    assert!(output.stdout.contains(offered) && !output.stdout.contains("uninstall"), "{}", output.stdout);
    venv.package("torch", "2.9.1");
    let output = frameworks();
    assert!(output.stdout.contains("give one of them an environment of its own"), "{}", output.stdout);
    assert!(!output.stdout.contains("uninstall"), "{}", output.stdout);
}

/// Advice must mention only releases that exist.
#[test]
fn a_framework_for_cudnn_8_gets_valid_advice() {
    for (name, version, module, expected) in [
        (
            "cupy-cuda12x",
            "13.6.0",
            "cupy_backends/cuda/libs/cudnn.cpython-312-x86_64-linux-gnu.so",
            "CuPy 14.0.0 or newer, which uses no",
        ),
        (
            "cupy-cuda11x",
            "13.6.0",
            "cupy_backends/cuda/libs/cudnn.cpython-312-x86_64-linux-gnu.so",
            "no release of cupy-cuda11x",
        ),
        ("torch", "2.3.0", "torch/lib/libtorch_cuda.so", "PyTorch 2.4.0 or newer, which is built for cuDNN 9"),
    ] {
        let root = TempDir::new();
        let venv = support::PythonEnvironment::venv(root.path());
        venv.package(name, version)
            .file("cupy/.data/_wheel.json", "{}")
            .file("torch/version.py", "cuda: Optional[str] = '12.1'\n")
            .library(module, &support::ExtensionLibrary::new().needing("libcudnn.so.8"));
        let output = doctor(&["frameworks", root.path().to_str().unwrap()], &[]);
        assert!(output.stdout.contains(expected), "{name}: {}", output.stdout);
    }
}

#[test]
fn a_directory_that_is_not_an_environment_is_named() {
    let root = TempDir::new();
    let output = doctor(&["frameworks", root.path().to_str().unwrap()], &[]);
    assert!(output.code == Some(3) && output.stderr.contains("no Python environment: "), "{}", output.stderr);
    std::fs::create_dir(root.path().join("x-1.0.dist-info")).unwrap();
    let output = doctor(&["frameworks", root.path().to_str().unwrap()], &[]);
    assert!(output.code == Some(0) && output.stdout.contains("no framework was found here"), "{}", output.stdout);
}

/// Any library may have the driver's name, and so any version string.
#[test]
fn a_driver_without_a_version_is_unknown() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(&root.path().join("venv"));
    venv.package("torch", "2.8.0")
        .file("torch/version.py", "cuda: Optional[str] = '12.8'\n")
        .library("torch/lib/libtorch_cuda.so", &support::ExtensionLibrary::new());
    for (driver, shown) in [
        ("garbage", "driver  unknown: NVML reports no version, but garbage"),
        ("\\033[31m1.0", "no version, but \\u{1b}[31m1.0"),
        ("\\377\\376", "no version, but a text that is not UTF-8"),
        ("99999999999999999999.1", "no version, but 99999999999999999999.1"),
    ] {
        support::FakeNvml { driver, gpu: "A GPU", compute_capability: (9, 0) }.build(root.path());
        let variables = [("VIRTUAL_ENV", venv.root()), ("LD_LIBRARY_PATH", root.path())];
        let text = doctor(&["check", "--no-load"], &variables).stdout;
        assert!(text.contains(shown), "{driver}: {text}");
        let findings = check(&[], &variables);
        assert!(with_code(&findings, "C075").is_empty() && with_code(&findings, "C002").is_empty(), "{findings:#?}");
    }
}

#[test]
fn builds_without_cuda_are_listed_without_errors() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(root.path());
    venv.package("torch", "2.9.1")
        .file("torch/version.py", "cuda: Optional[str] = None\nhip: Optional[str] = '6.2.41133'\n")
        .library("torch/lib/libtorch_hip.so", &support::ExtensionLibrary::new());
    venv.package("tensorflow-cpu", "2.18.1").file("tensorflow/__init__.py", "");
    venv.package("onnxruntime", "1.22.0").file("onnxruntime/__init__.py", "");
    venv.package("jaxlib", "0.8.0").file("jaxlib/__init__.py", "");
    venv.package("cupy-rocm-5-0", "13.6.0").file("cupy/__init__.py", "");
    let output = doctor(&["frameworks", root.path().to_str().unwrap()], &[("COLUMNS", Path::new("300"))]);
    assert_eq!(output.code, Some(0), "{}", output.stdout);
    for (name, expected) in [
        ("PyTorch", "AMD's ROCm"),
        ("TensorFlow", "the CPU"),
        ("ONNX", "the CPU"),
        ("JAX", "the CPU"),
        ("CuPy", "AMD's ROCm"),
    ] {
        let line = output.stdout.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.contains(&format!("built for {expected}: does not use cuDNN")), "{}", output.stdout);
        assert!(!line.contains("not found") && !line.contains('?'), "{line}");
    }
}

#[test]
fn commands_remove_leftovers_of_pip() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(root.path());
    std::fs::create_dir(venv.import_dir().join("pip")).unwrap();
    let leftover = venv.import_dir().join("~orch-2.9.1.dist-info");
    std::fs::create_dir(&leftover).unwrap();
    venv.package("torch", "2.8.0");
    venv.package("torch", "2.7.1");
    let findings = check(&[], &[("VIRTUAL_ENV", root.path())]);
    let found = with_code(&findings, "C080");
    let commands: Vec<&str> = found[0]["commands"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let [remove, again] = commands.as_slice() else { panic!("{commands:?}") };
    let [remove, again] = if remove.starts_with("rm ") { [remove, again] } else { [again, remove] };
    assert!(again.contains("torch==2.8.0") && again.contains("--force-reinstall"), "{again}");
    assert!(Command::new("sh").args(["-c", remove]).status().unwrap().success() && !leftover.exists(), "{remove}");
}

/// A virtual environment with `--system-site-packages` also finds the cuDNN of its base.
#[test]
fn no_command_of_a_note_breaks_a_framework() {
    let root = TempDir::new();
    let (base, venv) = (root.path().join("base"), root.path().join("venv"));
    let packages = "lib/python3.12/site-packages";
    let base = support::PythonEnvironment::at(&base, packages).python3();
    let venv = support::PythonEnvironment::venv_of(&venv, base.root(), true);
    let [for_12, for_13] = [&base, &venv].map(|environment| environment.import_dir().join("nvidia/cudnn/lib"));
    std::fs::create_dir_all(&for_12).unwrap();
    support::copy_fake_set(VERSION, &for_12);
    std::fs::create_dir_all(&for_13).unwrap();
    for library in all() {
        FakeLibrary::new(library, VERSION).with_ptx(9).build(&for_13.join(library.file_name()));
    }
    let linked = || ExtensionLibrary::new().needing("libcudnn.so.9");
    venv.package("torch", "2.8.0")
        .file("torch/version.py", "cuda: Optional[str] = '13.0'\n")
        .library("torch/lib/libtorch_global_deps.so", &ExtensionLibrary::new())
        .library("torch/lib/libtorch_cuda.so", &linked().with_runpath("$ORIGIN/../../nvidia/cudnn/lib"));
    venv.package("cupy-cuda12x", "13.6.0")
        .file("cupy/.data/_wheel.json", r#"{"cuda": "12.x", "cudnn": {"version": "9.1.0"}}"#)
        .library("cupy_backends/cuda/libs/cudnn.cpython-312-x86_64-linux-gnu.so", &linked());
    let findings = check(&[], &[("VIRTUAL_ENV", venv.root())]);
    let found = with_code(&findings, "C085");
    let [note] = &found[..] else { panic!("{findings:#?}") };
    // CuPy could use the cuDNN of the base, but PyTorch would then load it as well.
    assert!(note["help"].as_str().unwrap().contains("no step does so, because it would lead to C0"), "{note:#?}");
    assert_eq!(note["commands"], serde_json::json!([]), "{note:#?}");
}

/// pip renames a directory before it removes it. If pip is killed, the directory stays.
#[test]
fn a_directory_that_a_killed_pip_has_left_is_no_installation() {
    let root = TempDir::new();
    let venv = support::PythonEnvironment::venv(root.path());
    let left = ["~vidia/cudnn/lib", "nvidia/cudnn/~ib"].map(|dir| venv.import_dir().join(dir));
    for dir in &left {
        std::fs::create_dir_all(dir).unwrap();
        support::copy_fake_set(VERSION, dir);
    }
    // If no other directory exists, the renamed one may be needed.
    let findings = check(&[], &[("VIRTUAL_ENV", root.path())]);
    let commands = with_code(&findings, "C080")[0]["commands"].to_string();
    assert!(commands.contains("~vidia") && !commands.contains("~ib"), "{findings:#?}");
    std::fs::create_dir(left[1].with_file_name("lib")).unwrap();
    let name = root.path().to_str().unwrap();
    let listed = doctor(&["list", name, "--json"], &[]).stdout;
    assert!(!listed.contains('~'), "{listed}");
    assert_eq!(doctor(&["env", name], &[]).stdout, "");
    let findings = check(&[], &[("VIRTUAL_ENV", root.path())]);
    let found = with_code(&findings, "C080");
    let [finding] = &found[..] else { panic!("{findings:#?}") };
    assert!(finding["message"].as_str().unwrap().contains("have left 2 directories"), "{finding:#?}");
    for line in finding["commands"].as_array().unwrap().iter().filter_map(Value::as_str) {
        assert!(Command::new("sh").args(["-c", line]).status().unwrap().success(), "{line}");
    }
    assert!(left.iter().all(|dir| !dir.exists()), "{finding:#?}");
}

/// For example, an administrator installed the package with umask 077.
#[test]
fn an_unreadable_wheel_is_not_reported_as_missing() {
    let is_root = cudnn_os::rights::is_root();
    let closed_mode = if is_root { 0o700 } else { 0 };
    let set_mode = |dir: &Path, mode| std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    let bin = TempDir::new();
    let program = bin.path().join("cudnn-doctor");
    copy_program(DOCTOR, &program);
    for closed in ["lib/python3.12/site-packages/nvidia", "lib/python3.12/site-packages", "lib/python3.12", "lib", ""] {
        let root = TempDir::new();
        let environment = root.path().join("env");
        std::fs::create_dir(&environment).unwrap();
        build(&environment.join("lib/python3.12/site-packages/nvidia/cudnn/lib"), &all(), VERSION);
        std::fs::write(environment.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        let dir = if closed.is_empty() { environment.clone() } else { environment.join(closed) };
        let torch = environment.join("lib/python3.12/site-packages/torch");
        std::fs::create_dir_all(torch.join("lib")).unwrap();
        let record = torch.with_file_name("torch-2.4.0.dist-info");
        std::fs::create_dir(&record).unwrap();
        std::fs::write(record.join("METADATA"), "Metadata-Version: 2.1\nName: torch\nVersion: 2.4.0\n").unwrap();
        set_mode(&torch, if closed.ends_with("nvidia") { closed_mode } else { 0o755 });
        set_mode(&dir, closed_mode);
        let run = |arguments: &[&str]| {
            let child = support::Child::bare(program.to_str().unwrap()).env("VIRTUAL_ENV", &environment);
            child.without_privileges().run(arguments)
        };
        let check = || -> Vec<Value> {
            let output = run(&["check", "--no-load", "--json"]);
            let value: Value = serde_json::from_str(&output.stdout).unwrap();
            value["findings"].as_array().unwrap().clone()
        };
        let findings = check();
        let list = run(&["list"]).stdout;
        // C080 is about the framework in that directory.
        let is_of_framework = closed.ends_with("nvidia");
        for code in ["C010", "C011", "C080"].into_iter().filter(|code| *code != "C080" || is_of_framework) {
            let found = with_code(&findings, code);
            assert_eq!(found.len(), 1, "{closed} {code}: {findings:#?}");
            let (dir, message) = if code == "C080" {
                (torch.clone(), "cannot be read")
            } else {
                (dir.clone(), "cannot be read: Permission denied")
            };
            let message = format!("{} {message}", dir.display());
            assert!(found[0].to_string().contains(&message), "{closed}: {findings:#?}");
            let sudo = if is_root { "sudo " } else { "" };
            let command = format!("{sudo}chmod -R a+rX {}", dir.display());
            assert_eq!(found[0]["commands"], serde_json::json!([command]), "{closed} {code}");
        }
        assert!(list.contains(&format!("{} cannot be read", dir.display())), "{closed}: {list}");
        let command = findings[0]["commands"][0].as_str().unwrap().replace("sudo ", "");
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
        assert!(with_code(&check(), "C010").is_empty(), "{closed}");
        assert!(!run(&["list"]).stdout.contains("cannot be read"), "{closed}");
    }
}

/// Commands must not make the private parent directory of an environment public.
#[test]
fn no_command_opens_the_home_of_another_user() {
    let mode = if cudnn_os::rights::is_root() { 0o700 } else { 0 };
    let (bin, root) = (TempDir::new(), TempDir::new());
    let program = bin.path().join("cudnn-doctor");
    copy_program(DOCTOR, &program);
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    let child = support::Child::bare(program.to_str().unwrap()).env("VIRTUAL_ENV", root.path().join("env"));
    let output = child.without_privileges().run(&["check", "--no-load", "--json"]);
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let value: Value = serde_json::from_str(&output.stdout).unwrap();
    let findings = value["findings"].as_array().unwrap();
    let found = with_code(findings, "C011");
    assert!(found.len() == 1 && found[0].to_string().contains("give the user"), "{findings:#?}");
    assert!(!output.stdout.contains("chmod"), "{findings:#?}");
}

#[test]
fn conda_packages_are_installed_by_the_available_program() {
    let missing = "--yes --prefix $ --channel conda-forge --force-reinstall";
    let cache = "env CONDA_PKGS_DIRS=$/cudnn-doctor-pkgs";
    // Fields: the programs on PATH, a variable with a program, the environment, and the expected command.
    for (programs, variable, environment, expected) in [
        (&["conda", "mamba"][..], "", "env", format!("{cache} conda install {missing} --copy libcudnn=9.19.0.56")),
        (&["mamba"], "", "env", format!("{cache} mamba install {missing} libcudnn=9.19.0.56")),
        (&["micromamba", "pixi"], "", "env", format!("{cache} micromamba install {missing} libcudnn=9.19.0.56")),
        (&[], "MAMBA_EXE", "env", format!("{cache} ^/elsewhere/mamba install {missing} libcudnn=9.19.0.56")),
        (&[], "CONDA_EXE", "env", format!("{cache} ^/elsewhere/conda install {missing} --copy libcudnn=9.19.0.56")),
        (&[], "", "conda/envs/x", format!("{cache} ^/conda/bin/conda install {missing} --copy libcudnn=9.19.0.56")),
        (
            &["conda"],
            "",
            "project/.pixi/envs/default",
            "pixi reinstall --manifest-path ^/project --environment default libcudnn".to_owned(),
        ),
    ] {
        let world = TempDir::new();
        let root = world.path().join(environment);
        let lib = root.join("lib");
        build(&lib, &all(), VERSION);
        std::fs::remove_file(lib.join("libcudnn_cnn.so.9")).unwrap();
        std::fs::create_dir(root.join("conda-meta")).unwrap();
        let record = root.join("conda-meta/libcudnn-9.19.0.56-h1.json");
        std::fs::write(record, r#"{"files": ["lib/libcudnn_graph.so.9"]}"#).unwrap();
        if environment.contains(".pixi") {
            std::fs::write(root.join("conda-meta/pixi"), r#"{"environment_name": "default"}"#).unwrap();
            std::fs::write(root.ancestors().nth(3).unwrap().join("pixi.toml"), "").unwrap();
        }
        let (bin, elsewhere) = (world.path().join("bin"), world.path().join("elsewhere"));
        std::fs::create_dir(&bin).unwrap();
        programs.iter().for_each(|program| write_program(bin.join(program), "#!/bin/sh\n"));
        let file = elsewhere.join(if variable == "CONDA_EXE" { "conda" } else { "mamba" });
        write_program(&file, "#!/bin/sh\n");
        if environment.starts_with("conda/") {
            write_program(world.path().join("conda/bin/conda"), "#!/bin/sh\n");
        }
        let mut variables = vec![("CONDA_PREFIX", root.as_path()), ("PATH", bin.as_path())];
        if !variable.is_empty() {
            variables.push((variable, &file));
        }
        let findings = check(&[], &variables);
        let found = with_code(&findings, "C012");
        let line = found[0]["commands"][0].as_str().unwrap().replace(root.to_str().unwrap(), "$");
        let line = line.replace("sudo ", "").replace(world.path().to_str().unwrap(), "^");
        assert_eq!(line, expected, "{programs:?} {variable} {environment}");
        let last = found[0]["commands"][1].as_str().map(|line| line.replace(root.to_str().unwrap(), "$"));
        assert_eq!(last.is_some_and(|line| line.ends_with("rm -rf $/cudnn-doctor-pkgs")), expected.starts_with("env"));
    }
}

#[test]
fn a_machine_without_pip_gets_commands_that_install_it() {
    let home = TempDir::new();
    let dir = home.path().join("cudnn-linux-x86_64-9.19.0.56_cuda12-archive/lib");
    build(&dir, &all(), VERSION);
    let variables =
        |path: &'static str| [("LD_LIBRARY_PATH", dir.as_path()), ("HOME", home.path()), ("PATH", Path::new(path))];
    for (options, code) in [(&[][..], "C031"), (&["--minimum", "8.9"], "C018"), (&["--minimum", "9.20"], "C018")] {
        let findings = check(options, &variables("/nonexistent"));
        let found = with_code(&findings, code);
        let commands: Vec<&str> =
            found[0]["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let makes_pip = commands.iter().any(|line| line.contains("-m venv "));
        assert!(makes_pip && !commands.iter().any(|line| line.starts_with("pip ")), "{code}: {commands:#?}");
    }
    // Debian's pip is also installed as `pip3`.
    let bin = home.path().join("bin");
    write_program(bin.join("pip3"), "#!/bin/sh\n");
    let path = bin.to_str().unwrap().to_owned();
    let findings = check(&[], &[("LD_LIBRARY_PATH", &dir), ("HOME", home.path()), ("PATH", Path::new(&path))]);
    let found = with_code(&findings, "C031");
    assert!(found[0]["commands"][0].as_str().unwrap().starts_with("pip3 install "), "{found:#?}");
}

#[test]
fn a_preloaded_library_is_removed_from_ld_preload() {
    let (used, other) = (TempDir::new(), TempDir::new());
    support::copy_fake_set(VERSION, used.path());
    let ops = other.file(Library::Ops);
    FakeLibrary::new(Library::Ops, Version::new(9, 10, 2)).build(&ops);
    let findings = check(&[], &[("LD_LIBRARY_PATH", used.path()), ("LD_PRELOAD", &ops)]);
    let found = with_code(&findings, "C022");
    assert_eq!(found[0]["commands"], serde_json::json!(["unset LD_PRELOAD"]), "{findings:#?}");
}

/// A library may rely on symbols of the program that loads it.
#[test]
fn a_program_that_cannot_start_is_an_error() {
    let dir = TempDir::new();
    let (library, program) = (dir.path().join("libuser.so"), dir.path().join("program"));
    let code = "int cudnnCreate(void **); int use(void) { void *handle; return cudnnCreate(&handle); }";
    support::compile(
        code,
        &["-shared", "-fPIC", "-Wl,-soname,libuser.so", "-Wl,--unresolved-symbols=ignore-all"],
        &library,
    );
    let run_path = format!("-Wl,-rpath,{}", dir.path().display());
    let linked = ["-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", &run_path, library.to_str().unwrap()];
    let main = "int use(void); int main(void) { return use(); }";
    support::compile(main, &linked, &program);
    let found = check(&["--for", program.to_str().unwrap()], &[]);
    let unlinked = with_code(&found, "C100");
    assert!(unlinked[0]["severity"] == "error" && unlinked[0].to_string().contains("status 127"), "{found:#?}");
    assert!(with_code(&found, "C082").is_empty(), "{found:#?}");
    let found = check(&["--for", library.to_str().unwrap()], &[]);
    assert_eq!(with_code(&found, "C100")[0]["severity"], "warning", "{found:#?}");
    let interpreter = "-Wl,--dynamic-linker=/nonexistent/ld.so";
    support::compile(main, &[&linked[..], &[interpreter]].concat(), &program);
    let found = check(&["--for", program.to_str().unwrap()], &[]);
    let message = with_code(&found, "C082")[0]["message"].as_str().unwrap();
    assert!(message.ends_with("its ELF interpreter /nonexistent/ld.so does not exist"), "{found:#?}");
}

/// `pip list` shows wheel versions with a fourth number.
#[test]
fn a_minimum_may_be_the_version_of_a_wheel() {
    let dir = TempDir::new();
    build(dir.path(), &JIT, VERSION);
    let variables = [("CUDNN_LOADER_DIR", dir.path())];
    for (minimum, is_met) in [("9", true), ("9.1.0.70", true), ("9.19.0.56", true), ("9.20.0.48", false)] {
        let findings = check(&["--minimum", minimum], &variables);
        assert_eq!(with_code(&findings, "C018").is_empty(), is_met, "{minimum}: {findings:#?}");
    }
    for wrong in ["9.1.0.x", "9.1.0.", "9.1.0.70.1", ""] {
        assert_eq!(doctor(&["check", "--minimum", wrong], &variables).code, Some(3), "{wrong}");
    }
}

#[test]
fn a_variable_that_names_a_deleted_environment_is_reported() {
    let root = TempDir::new();
    let gone = root.path().join("gone");
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let findings = check(&[], &[(name, &gone)]);
        let named = with_code(&findings, "C060");
        assert!(named.len() == 1 && named[0]["message"].as_str().unwrap().starts_with(name), "{findings:#?}");
        assert_eq!(named[0]["commands"], serde_json::json!([format!("unset {name}")]));
        for (wrong, reason) in [("/etc/passwd", "it is not a directory"), ("venv", "it is not an absolute path")] {
            let findings = check(&[], &[(name, Path::new(wrong))]);
            let message = with_code(&findings, "C060")[0]["message"].as_str().unwrap();
            assert!(message.ends_with(reason), "{message}");
        }
        for known in ["", root.path().to_str().unwrap()] {
            assert_eq!(with_code(&check(&[], &[(name, Path::new(known))]), "C060").len(), 0, "{name}={known}");
        }
    }
}

/// NVIDIA's shim contains no version, and the graph library next to it may have a different one.
#[test]
fn explain_does_not_show_another_release_as_the_version_of_a_shim() {
    let dir = TempDir::new();
    build(dir.path(), &[Library::Graph, Library::Ops], Version::new(9, 0, 0));
    for (version, label) in [(Version::new(9, 0, 0), "\"9.0.0\""), (Version::new(9, 28, 0), "null")] {
        FakeLibrary::new(Library::Shim, version).build(&dir.cleared(Library::Shim));
        let output = doctor(&["explain", "--json", dir.file(Library::Shim).to_str().unwrap()], &[]);
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        let named = |name: &str| value["names"].as_array().unwrap().iter().find(|one| one["name"] == name);
        assert_eq!(named("libcudnn.so.9").unwrap()["version"].to_string(), label, "{value:#}");
        // Only a shim of release 9.28.0 loads ext.
        assert_eq!(named("libcudnn_ext.so.9").is_some(), label == "null", "{value:#}");
    }
}

/// The doctor's wheel has a directory with only the drop-in.
#[test]
fn a_directory_with_only_the_drop_in_is_not_an_installation() {
    let root = TempDir::new();
    let lib = root.path().join("lib");
    std::fs::create_dir(&lib).unwrap();
    let flags = ["-shared", "-nostdlib", "-Wl,-soname,libcudnn.so.9"];
    support::compile("void cudnnShimGetVersion(void) {}", &flags, &lib.join("libcudnn.so.9"));
    let listed = |root: &Path| {
        let output = doctor(&["list", "--json", root.to_str().unwrap()], &[]);
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        let all = value["installations"].as_array().unwrap().clone();
        all.into_iter().any(|one| one["directory"].as_str().unwrap().starts_with(root.to_str().unwrap()))
    };
    assert!(!listed(root.path()));
    build(&lib, &[Library::Graph], VERSION);
    assert!(listed(root.path()));
}

#[test]
fn without_sudo_the_help_says_that_root_must_run_the_commands() {
    if !cudnn_os::rights::is_root() {
        return not_run("commands without sudo", "only root can make what belongs to root");
    }
    let world = TempDir::new();
    let (dir, bin) = (world.path().join("cudnn"), world.path().join("bin"));
    build(&dir, &[Library::Shim, Library::Graph], VERSION);
    std::fs::write(dir.join(Library::Ops.file_name()), "no library").unwrap();
    let program = bin.join("cudnn-doctor");
    copy_program(DOCTOR, &program);
    std::fs::set_permissions(world.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for has_sudo in [false, true] {
        if has_sudo {
            copy_program("/bin/true", bin.join("sudo"));
        }
        let mut command = Command::new(&program);
        command.args(["check", "--no-load", "--json"]).env_clear().env("PATH", &bin).env("CUDNN_LOADER_DIR", &dir);
        let output = command.uid(65534).gid(65534).output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let findings = value["findings"].as_array().unwrap();
        let found = with_code(findings, "C012");
        let (help, commands) = (found[0]["help"].to_string(), found[0]["commands"].to_string());
        assert!(commands.contains("rm -f") && commands.contains("sudo ") == has_sudo, "{findings:#?}");
        assert_eq!(help.contains("as root"), !has_sudo, "{findings:#?}");
    }
}

fn doctor_in(dir: &Path, arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(DOCTOR);
    command.args(arguments).current_dir(dir).env_clear().envs(variables.iter().copied()).output().unwrap().into()
}

fn document(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", output.stdout, output.stderr))
}

/// Files are checked before use, and never executed.
#[test]
fn only_a_python_is_accepted_as_a_python() {
    let world = TempDir::new();
    let path = |name: &str| world.path().join(name);
    let marker = path("was-run");
    let text = format!("#!/bin/sh\ntouch {}\n", marker.display());
    std::fs::write(path("notes.txt"), "no program\n").unwrap();
    for name in ["bin/tool", "bin/python3-config", "elsewhere/bin/python3", "env/bin/python3-config"] {
        write_program(path(name), &text);
    }
    write_program(path("env/bin/python3"), &text);
    std::fs::write(path("env/pyvenv.cfg"), "home = /nowhere\n").unwrap();
    for wrong in ["notes.txt", "bin/tool", "bin/python3-config", "elsewhere/bin/python3", "env/bin/python3-config"] {
        let wrong = path(wrong);
        let wrong = wrong.to_str().unwrap();
        for arguments in [
            &["check", "--no-load", "--json", "--python", wrong][..],
            &["check", "--json", "--run", "torch", "--python", wrong],
            &["install", "--json", "--python", wrong],
        ] {
            let output = doctor(arguments, &[]);
            assert_eq!(output.code, Some(3), "{arguments:?}: {}", output.stdout);
            assert!(!output.stdout.contains("pip install"), "{arguments:?}: {}", output.stdout);
        }
    }
    assert!(!marker.exists());
    for right in ["env/bin/python3", "env"] {
        let output = doctor(&["check", "--no-load", "--json", "--python", path(right).to_str().unwrap()], &[]);
        assert_ne!(output.code, Some(3), "{right}: {}", output.stdout);
    }
    assert!(!marker.exists());
}

/// Without pyvenv.cfg, the interpreter of a virtual environment uses the packages of its base, which plans must not
/// change.
#[test]
fn an_environment_that_uses_other_packages_is_refused() {
    let world = TempDir::new();
    let path = |name: &str| world.path().join(name);
    write_program(path("base/bin/python3.12"), "#!/bin/sh\n");
    for dir in ["base/lib/python3.12/site-packages", "env/lib/python3.12/site-packages", "env/bin"] {
        std::fs::create_dir_all(path(dir)).unwrap();
    }
    std::os::unix::fs::symlink(path("base/bin/python3.12"), path("env/bin/python3")).unwrap();
    let env = path("env");
    for command in [&["check", "--no-load"][..], &["fix", "--no-load"], &["fix", "--yes", "--no-load"], &["install"]] {
        let output = doctor(&[command, &["--python", env.to_str().unwrap()]].concat(), &[]);
        assert_eq!(output.code, Some(3), "{command:?}: {}", output.stdout);
        let expected = format!("uses the packages in {} (pyvenv.cfg is missing)", path("base").display());
        assert!(output.stderr.contains(&expected), "{command:?}: {}", output.stderr);
    }
    let base = path("base");
    let base = doctor(&["check", "--no-load", "--python", base.to_str().unwrap()], &[]);
    assert!(!base.stderr.contains("uses the packages"), "{}", base.stderr);
}

#[test]
fn a_plan_that_recreates_a_python_promises_that_it_works() {
    let world = TempDir::new();
    let path = |name: &str| world.path().join(name);
    write_program(path("base/bin/python3.12"), "\x7fELF");
    let site = path("env/lib/python3.12/site-packages");
    let lib = site.join("nvidia/cudnn/lib");
    build(&lib, &JIT, VERSION);
    std::fs::create_dir_all(site.join("pip")).unwrap();
    std::fs::create_dir(path("env/bin")).unwrap();
    std::fs::write(path("env/pyvenv.cfg"), "home = /nowhere\n").unwrap();
    std::os::unix::fs::symlink("/nowhere/python3.12", path("env/bin/python3")).unwrap();
    let (env, bin) = (path("env"), path("base/bin"));
    let variables = [("VIRTUAL_ENV", env.as_path()), ("PATH", &bin), ("LD_LIBRARY_PATH", &lib)];
    let report = document(&doctor(&["check", "--no-load", "--json"], &variables));
    let steps = report["plan"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["kind"] == "python" && step["fixes"][0] == "C028"), "{report:#}");
    assert!(!report["after_plan"].to_string().contains("C028"), "{report:#}");
}

#[test]
fn the_environment_of_a_project_is_named_before_a_cudnn_is_installed_elsewhere() {
    let world = TempDir::new();
    let project = world.path().join("project");
    let (root, deep) = (project.join(".venv"), project.join("src/model"));
    std::fs::create_dir_all(&deep).unwrap();
    write_program(root.join("bin/python3"), "#!/bin/sh\n");
    std::fs::write(root.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let arguments = ["check", "--no-load", "--json"];
    let commands = |findings: &Value| -> Vec<String> {
        let found = with_code(findings.as_array().unwrap(), "C010")[0]["commands"].clone();
        found.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    for dir in [&project, &deep] {
        let output = document(&doctor_in(dir, &arguments, &[]));
        assert_eq!(output["inactive_environment"], root.to_str().unwrap(), "{output:#}");
        let commands = commands(&output["findings"]);
        assert_eq!(commands.len(), 1, "{commands:?}");
        let checked = Command::new("sh").args(["-c", &format!("{} --no-load --json", commands[0])]).output().unwrap();
        let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
        assert_eq!(checked["inactive_environment"], Value::Null, "{checked:#}");
        let found = with_code(checked["findings"].as_array().unwrap(), "C010")[0].to_string();
        assert!(found.contains(root.to_str().unwrap()), "{found}");
    }
    let path = PathBuf::from(std::env::var_os("PATH").unwrap());
    let variables = [("PATH", path.as_path()), ("HOME", world.path())];
    let run = document(&doctor_in(&project, &["check", "--json", "--run", "torch"], &variables));
    assert_eq!(run["inactive_environment"], root.to_str().unwrap(), "{run:#}");
    for finding in run["findings"].as_array().unwrap().iter().filter(|finding| finding["code"] == "C090") {
        let command = finding["commands"][0].as_str().unwrap();
        assert!(command.ends_with(&format!("check --python {} --run torch", root.display())), "{finding:#}");
    }
    let install = doctor_in(&project, &["install"], &variables).stderr;
    assert!(install.contains(&format!(" install {}\n", root.display())), "{install}");
    // The environment is irrelevant for a named program.
    let program = document(&doctor_in(&project, &[&arguments[..], &["--for", "/bin/sh"]].concat(), &[]));
    assert_eq!(program["inactive_environment"], Value::Null, "{program:#}");
    let other = world.path().join("other");
    std::fs::create_dir(&other).unwrap();
    // A deleted environment is inactive.
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let output = document(&doctor_in(&project, &arguments, &[(variable, Path::new("/nowhere/env"))]));
        assert_eq!(output["inactive_environment"], root.to_str().unwrap(), "{output:#}");
    }
    // A different environment is active, or the project has none.
    for (dir, variables) in [(&project, &[("VIRTUAL_ENV", other.as_path())][..]), (&other, &[])] {
        let output = document(&doctor_in(dir, &arguments, variables));
        assert_eq!(output["inactive_environment"], Value::Null, "{output:#}");
    }
}

#[test]
fn nothing_is_installed_in_another_environment_than_the_one_that_a_variable_names() {
    let world = TempDir::new();
    let path = |name: &str| world.path().join(name);
    let (base, bin, ran) = (path("base"), path("base/bin"), path("ran"));
    for name in ["python3", "pip"] {
        write_program(bin.join(name), format!("#!/bin/sh\necho > {}\n", ran.display()));
    }
    for dir in ["base/lib/python3.12/site-packages/pip", "empty/conda-meta", "closed/env/bin", "home/.local/share"] {
        std::fs::create_dir_all(path(dir)).unwrap();
    }
    std::fs::write(path("file"), "").unwrap();
    std::fs::create_dir(path("started")).unwrap();
    std::fs::write(path("started/pyvenv.cfg"), "home = /nonexistent/bin\nversion = 3.11.7\n").unwrap();
    std::os::unix::fs::symlink(path("gone"), path("dangling")).unwrap();
    let home = path("home");
    let variables = [("PATH", bin.as_path()), ("HOME", &home)];
    let help = |code: &str, more: &[(&str, &Path)]| {
        let arguments = ["fix", "--yes", "--no-load", "--json"];
        let output = document(&doctor_in(world.path(), &arguments, &[&variables[..], more].concat()));
        let found = with_code(output["findings"].as_array().unwrap(), code)[0];
        // Only the user's shell can set variables.
        assert!(output["plan"].as_array().unwrap().iter().all(|step| step["kind"] == "shell"), "{output:#}");
        assert_eq!(found["commands"], serde_json::json!([]), "{output:#}");
        assert!(!ran.exists(), "{output:#}");
        found["help"].as_str().unwrap().to_owned()
    };
    for (name, reason) in [
        ("gone", "there is no such directory"),
        ("file/env", "there is no such directory"),
        ("dangling", "there is no such directory"),
        ("file", "it is not a directory"),
        ("empty", "it has no Python"),
        ("started", "it has no Python"),
    ] {
        for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
            let root = path(name);
            let is_of_conda = variable == "CONDA_PREFIX" && ["empty", "started"].contains(&name);
            let reason = if is_of_conda { "conda has not made it" } else { reason };
            let expected = format!("{variable} names the environment {}, but {reason}: ", root.display());
            let help = help("C010", &[(variable, &root)]);
            assert!(help.starts_with(&expected) && help.contains(&format!("or unset {variable}")), "{help}");
        }
    }
    assert!(help("C010", &[("VIRTUAL_ENV", Path::new("env"))]).contains("it is not an absolute path"));
    // `--python` overrides the variables.
    let named = ["check", "--no-load", "--json", "--python", base.to_str().unwrap()];
    let gone = path("gone");
    for lost in [&[][..], &[("VIRTUAL_ENV", gone.as_path())]] {
        let output = document(&doctor_in(world.path(), &named, &[&variables[..], lost].concat()));
        let commands = with_code(output["findings"].as_array().unwrap(), "C010")[0]["commands"].to_string();
        assert!(commands.contains(&format!("{}/python3", bin.display())), "{output:#}");
    }
    // The Python on PATH is not repaired.
    let environment = support::PythonEnvironment::at(&base, "lib/python3.12/site-packages");
    let mut wheel = environment.package("nvidia-cudnn-cu12", "9.19.0.56");
    for library in all() {
        wheel = wheel.cudnn(&format!("nvidia/cudnn/lib/{}", library.file_name()), &FakeLibrary::new(library, VERSION));
    }
    std::fs::remove_file(base.join("lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9")).unwrap();
    let conda = path("conda");
    build(&conda.join("lib"), &all(), VERSION);
    std::fs::rename(conda.join("lib/libcudnn_ops.so.9"), conda.join("lib/libcudnn_ops.so.9.19.0")).unwrap();
    let bin = conda.join("bin");
    std::fs::create_dir(conda.join("conda-meta")).unwrap();
    write_program(bin.join("python3"), format!("#!/bin/sh\necho > {}\n", ran.display()));
    let lost = ("VIRTUAL_ENV", gone.as_path());
    for more in [&[lost][..], &[lost, ("PATH", &bin)]] {
        assert!(help("C012", more).starts_with("VIRTUAL_ENV names the environment"));
    }
    let (site, third) = (base.join("lib/python3.12/site-packages"), path("third"));
    build(&third.join("cudnn/lib"), &all(), VERSION);
    std::fs::rename(third.join("cudnn/lib/libcudnn_ops.so.9"), third.join("cudnn/lib/libcudnn_ops.so.9.19.0")).unwrap();
    std::fs::remove_dir_all(&site).unwrap();
    std::fs::create_dir_all(site.join("pip")).unwrap();
    std::os::unix::fs::symlink(&third, site.join("nvidia")).unwrap();
    assert!(help("C012", &[lost]).starts_with("VIRTUAL_ENV names the environment"));
}

/// For example, a part of the environment is on a larger disk.
#[test]
fn packages_behind_a_link_are_repaired_in_their_environment() {
    let Some(release) = support::lib_dir("jit-cu12-9.19.0") else { return };
    for moved in ["", "lib/python3.12/site-packages", "lib/python3.12/site-packages/nvidia"] {
        let world = TempDir::new();
        let venv = support::PythonEnvironment::venv(&world.path().join("venv")).pip();
        let wheel = venv.package("nvidia-cudnn-jit-cu12", "9.19.0.56");
        for file in std::fs::read_dir(&release).unwrap().map(|entry| entry.unwrap().path()) {
            let listed = format!("nvidia/cudnn_jit/lib/{}", file.file_name().unwrap().display());
            let wheel = wheel.clone().file(&listed, "");
            std::fs::copy(&file, wheel.import_dir().join(listed)).unwrap();
        }
        if !moved.is_empty() {
            let (place, disk) = (venv.root().join(moved), world.path().join("disk"));
            std::fs::rename(&place, &disk).unwrap();
            std::os::unix::fs::symlink(&disk, &place).unwrap();
        }
        let findings = check(&[], &[("VIRTUAL_ENV", venv.root()), ("HOME", world.path())]);
        let found = with_code(&findings, "C031");
        assert_eq!(found.len(), 1, "{moved}: {findings:#?}");
        let expected = format!("{}/bin/python3 -I -m pip install nvidia-cuda-nvrtc-cu12", venv.root().display());
        assert_eq!(found[0]["commands"], serde_json::json!([expected]), "{moved}");
    }
}

/// Without a framework, and without another sign of the CUDA that programs use.
#[test]
fn the_requirement_of_a_package_selects_the_build_to_install() {
    for (requirements, expected) in [
        (&[][..], "nvidia-cudnn-cu12"),
        (&["nvidia-cudnn-cu13>=9.10"], "nvidia-cudnn-cu13>=9.10"),
        (&["nvidia-cudnn-cu13>=9.10", "nvidia-cudnn-cu12"], "nvidia-cudnn-cu12"),
        (&["nvidia-cudnn-cu13; extra == 'gpu'"], "nvidia-cudnn-cu12"),
    ] {
        let world = TempDir::new();
        let venv = support::PythonEnvironment::venv(&world.path().join("venv")).pip().python3();
        let package = venv.package("acme", "0.7.0");
        requirements.iter().fold(package, |package, requirement| package.requires(requirement));
        let findings = check(&[], &[("VIRTUAL_ENV", venv.root()), ("HOME", world.path())]);
        let found = with_code(&findings, "C010")[0]["commands"].to_string();
        assert!(found.contains(expected), "{requirements:?}: {found}");
    }
}

/// In a container image, a conda environment may be active only through `PATH`.
#[test]
fn an_environment_of_conda_may_be_active_by_path_alone() {
    let world = TempDir::new();
    let root = world.path().join("conda");
    let bin = root.join("bin");
    write_program(bin.join("python3"), "#!/bin/sh\n");
    std::fs::create_dir(root.join("conda-meta")).unwrap();
    let variables = [("PATH", bin.as_path())];
    let findings = check(&[], &variables);
    let command = with_code(&findings, "C010")[0]["commands"].to_string();
    assert!(command.contains("conda install") && command.contains(root.to_str().unwrap()), "{command}");
    build(&root.join("lib"), &JIT, VERSION);
    let list = document(&doctor(&["list", "--json"], &variables));
    assert_eq!(list["installations"][0]["directory"], root.join("lib").to_str().unwrap(), "{list:#}");
    assert_eq!(list["installations"][0]["used"], true, "{list:#}");
    // Without conda's records, the directory is an ordinary directory of programs.
    std::fs::remove_dir(root.join("conda-meta")).unwrap();
    let list = document(&doctor(&["list", "--json"], &variables));
    let installations = list["installations"].as_array().unwrap();
    assert!(installations.iter().all(|one| one["used"] == false), "{list:#}");
}

/// The depth limit counts from the root of each environment.
#[test]
fn list_finds_deep_environments_and_names_unsearched_directories() {
    let world = TempDir::new();
    let root = world.path();
    let wheel = "lib/python3.12/site-packages/nvidia/cudnn/lib";
    let of_project = root.join("user/work/proj/.venv").join(wheel);
    build(&of_project, &JIT, VERSION);
    std::fs::write(root.join("user/work/proj/.venv/pyvenv.cfg"), "").unwrap();
    let too_deep = root.join("a/b/c/d/e/f/g/h/i/j/k/lib");
    build(&too_deep, &JIT, VERSION);
    let output = doctor(&["list", root.to_str().unwrap(), "--json"], &[]);
    let list = document(&output);
    let dirs: Vec<&str> =
        list["installations"].as_array().unwrap().iter().map(|one| one["directory"].as_str().unwrap()).collect();
    assert!(dirs.contains(&of_project.to_str().unwrap()), "{list:#}");
    assert!(!dirs.contains(&too_deep.to_str().unwrap()), "{list:#}");
    assert_eq!(list["unsearched"], serde_json::json!([root.join("a/b/c/d/e/f/g/h/i")]), "{list:#}");
    let text = doctor(&["list", root.to_str().unwrap()], &[]).stdout;
    assert!(text.contains("a/b/c/d/e/f/g/h/i"), "{text}");
    let list = document(&doctor(&["list", root.join("a/b/c/d/e/f/g/h/i").to_str().unwrap(), "--json"], &[]));
    assert_eq!(list["unsearched"], serde_json::json!([]), "{list:#}");
    assert!(list.to_string().contains(too_deep.to_str().unwrap()), "{list:#}");
}

#[test]
fn list_only_refers_to_usable_installations() {
    let (used, other) = (TempDir::new(), TempDir::new());
    // Without the graph library, this directory is not an installation.
    build(used.path(), &[Library::Shim, Library::Ops, Library::Cnn], VERSION);
    build(other.path(), &JIT, VERSION);
    let other_path = other.path().to_str().unwrap();
    for (root, variables, is_offered) in [
        (None, &[("LD_LIBRARY_PATH", used.path())][..], false),
        (Some(used.path()), &[], false),
        (Some(other.path()), &[], true),
        (Some(other.path()), &[("CUDNN_LOADER_DIR", used.path())], true),
    ] {
        let arguments: Vec<&str> = ["list"].into_iter().chain(root.and_then(Path::to_str)).collect();
        let text = doctor(&arguments, variables).stdout;
        let line = text.lines().find(|line| line.trim_start().starts_with("eval "));
        assert_eq!(line.is_some(), is_offered, "{text}");
        if let Some(line) = line {
            let script = format!("{line}\necho \"$CUDNN_LOADER_DIR\"");
            let shown = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), other_path, "{line}");
        }
        assert!(is_offered || root.is_some() || !text.contains("does not search these"), "{text}");
    }
}
