//! Executes every command that `check` prints. A case breaks a real environment or directory, and `sh` runs the
//! commands literally. Then the finding must be gone, with all other files unchanged. Most wheels are small stand-ins
//! with NVIDIA's names.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod apt;
mod commands;
mod conda;
mod frameworks;
mod healthy;
mod moves;
mod paths;
mod pythons;
mod random;
mod tools;
mod user_site;
mod world;

use std::path::Path;

use cudnn_probe::Library;
use support::{Share, TempDir, Version, Wheel};
use world::{Case, Cudnn, World};

const V9_18: Version = Version::new(9, 18, 0);
const V9_19: Version = Version::new(9, 19, 0);
const CU12: Cudnn = Cudnn { version: V9_19, cuda_major: 12 };
const CU12_OLDER: Cudnn = Cudnn { version: V9_18, cuda_major: 12 };
const CU13: Cudnn = Cudnn { version: V9_19, cuda_major: 13 };

fn overwrite(world: &World, from: Cudnn, library: Library) {
    let file = world.wheel_dir().join(library.file_name());
    std::fs::remove_file(&file).unwrap();
    std::fs::copy(from.libraries().file(library), file).unwrap();
}

fn remove(world: &World, library: Library) {
    std::fs::remove_file(world.wheel_dir().join(library.file_name())).unwrap();
}

fn cuda_library(world: &World, below: &str) -> std::path::PathBuf {
    world.site_packages().join("nvidia").join(below)
}

/// Executes each finding's commands with pip. `repair` covers plans for damaged packages, and `random` covers uv.
#[test]
fn commands_repair_wheels() {
    let cases: Vec<Case> = vec![
        Case::new("a damaged library", "C013", &["nvidia-cudnn-cu12"], |world| {
            std::fs::write(world.wheel_dir().join(Library::Ops.file_name()), "no library").unwrap();
        }),
        Case::new("two wheels in one directory", "C023", &["nvidia-cudnn-cu12", "nvidia-cudnn-cu13"], |_| {}),
        Case::new("two wheels, and libraries of both", "C015", &["nvidia-cudnn-cu13", "nvidia-cudnn-cu12"], |world| {
            overwrite(world, CU13, Library::Ops);
        }),
        Case::new("for another CUDA", "C018", &["nvidia-cudnn-cu12"], |_| {}).options(&["--cuda", "13"]),
        Case::new("a known issue", "C017", &["nvidia-cudnn-cu12==9.10.2.21"], |_| {}),
        Case::new("nothing, for CUDA 13", "C010", &[], |_| {}).options(&["--cuda", "13"]),
        Case::new("no cuBLAS for CUDA 13", "C030", &["nvidia-cudnn-cu13"], |_| {}),
        Case::new("a deleted cuBLAS", "C030", &["nvidia-cudnn-cu12", "nvidia-cublas-cu12"], |world| {
            std::fs::remove_file(cuda_library(world, "cublas/lib/libcublasLt.so.12")).unwrap();
        }),
        Case::new("no NVRTC for CUDA 13", "C031", &["nvidia-cudnn-cu13"], |_| {}),
        Case::new("a GPU that is too old", "C040", &["nvidia-cudnn-cu13"], |_| {}).with_old_gpu(),
        Case::new("a driver that is too old", "C002", &["nvidia-cudnn-cu13"], |_| {}).with_old_driver(),
    ];
    for case in cases.iter().share(6) {
        case.run(&World::new("env", true));
    }
}

/// Metadata with invalid UTF-8 makes all operations of many pip releases fail.
#[test]
fn commands_remove_metadata_that_pip_cannot_decode() {
    let world = World::new("env", true);
    let packages = ["nvidia-cudnn-cu12", "nvidia-cublas-cu12"];
    let case = Case::new("metadata in Latin-1", "C080", &packages, |world| {
        let info = world.site_packages().join("nvidia_cudnn_cu12-9.19.0.56.dist-info");
        std::fs::write(info.join("INSTALLER"), "pip\n").unwrap();
        let mut text = std::fs::read(info.join("METADATA")).unwrap();
        text.extend(b"Author: Ren\xe9\n");
        std::fs::write(info.join("METADATA"), text).unwrap();
    });
    let found = case.found(&world);
    let notes = found[0]["notes"].to_string();
    assert!(notes.contains("METADATA that is not valid UTF-8") && notes.contains("UnicodeDecodeError"), "{found:#?}");
    let commands = case.run(&world);
    let line = &commands[0];
    assert!(line.starts_with("mv ") && line.contains(" install ") && line.contains(" && rm -r "), "{commands:?}");
    let pip = "\"$VIRTUAL_ENV/bin/python3\" -I -m pip";
    world.sh(&format!("{pip} list && {pip} check && {pip} uninstall --yes nvidia-cudnn-cu12"));
    assert!(!world.wheel_dir().join("libcudnn.so.9").exists());
}

/// A user may have set pip's variables for other packages.
#[test]
fn commands_repair_an_environment_regardless_of_pip_variables() {
    for (name, value) in [
        ("PIP_TARGET", "elsewhere"),
        ("PIP_PREFIX", "elsewhere"),
        ("PIP_USER", "1"),
        ("PIP_REQUIREMENT", "requirements.txt"),
    ]
    .into_iter()
    .share(6)
    {
        let world = World::new("env", true);
        let value = if value == "1" { value.into() } else { world.home().join(value).into_os_string() };
        let world = world.variable(name, value);
        let case = Case::new("pip's variables", "C012", &["nvidia-cudnn-cu12"], |world| remove(world, Library::Cnn));
        let commands = case.run(&world);
        assert!(commands[0].starts_with(&format!("env -u {name} ")), "{commands:?}");
    }
}

#[test]
fn commands_keep_the_wheel_that_the_driver_can_run() {
    let world = World::new("env", true);
    let both = ["nvidia-cudnn-cu12", "nvidia-cudnn-cu13"];
    // The driver is only too old for the other wheel.
    for code in ["C002", "C023"] {
        let commands = Case::new("two wheels, an old driver", code, &both, |_| {}).with_old_driver().run(&world);
        assert!(commands.last().unwrap().ends_with("install nvidia-cudnn-cu12==9.19.0.56"), "{commands:?}");
    }
}

#[test]
fn commands_repair_a_real_release() {
    let Some(release) = support::release("jit-cu12-9.19.0") else { return };
    let package = "nvidia-cudnn-jit-cu12";
    let world = || World::new("env", true).with_real_wheel(&release);
    // No JIT-only wheel for CUDA 11 exists. pip installs the replacement before it removes the old package.
    let world_11 = world();
    let commands = Case::new("for CUDA 11", "C018", &[package], |_| {}).options(&["--cuda", "11"]).commands(&world_11);
    assert!(commands[0].ends_with("-m pip install nvidia-cudnn-cu11"), "{commands:?}");
    assert!(commands[1].ends_with("-m pip uninstall --yes nvidia-cudnn-jit-cu12"), "{commands:?}");
    let packages = [package];
    let cases = [
        Case::new("a truncated graph", "C010", &packages, |world| {
            let file = world.site_packages().join("nvidia/cudnn_jit/lib/libcudnn_graph.so.9");
            let bytes = std::fs::read(&file).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        }),
        Case::new("no NVRTC", "C031", &packages, |_| {}),
        Case::new("no convolutions", "C019", &packages, |_| {}).options(&["--function", "cudnnConvolutionForward"]),
    ];
    for case in cases.iter().share(6) {
        case.run(&world());
    }
}

#[test]
fn commands_repair_environments_without_pip() {
    let remove_ops = |world: &World| std::fs::remove_file(world.wheel_dir().join("libcudnn_ops.so.9")).unwrap();
    let cases = [
        Case::new("without pip", "C012", &["nvidia-cudnn-cu12"], remove_ops),
        Case::new("two wheels without pip", "C023", &["nvidia-cudnn-cu12", "nvidia-cudnn-cu13"], |_| {}),
    ];
    // Installing pip takes seconds.
    for case in cases.iter().share(2) {
        case.run(&World::new("env", false));
    }
    // uv created the environment but is missing here.
    let commands = commands_without_tools(&World::new("env", false).made_by_uv(), remove_ops);
    assert!(commands.iter().all(|command| !command.starts_with("uv ")), "{commands:?}");
}

/// Installers cannot create files below such a link.
#[test]
fn commands_replace_a_directory_that_is_a_link_to_itself_or_to_nothing() {
    fn link(world: &World, target: &str) {
        let nvidia = world.site_packages().join("nvidia");
        let _ = std::fs::remove_dir_all(&nvidia);
        std::os::unix::fs::symlink(target, nvidia).unwrap();
    }
    let (to_itself, to_nothing) = (|world: &World| link(world, "nvidia"), |world: &World| link(world, "nowhere"));
    for (name, packages, breaking) in [
        ("a link to itself", &["nvidia-cudnn-cu12"][..], to_itself as fn(&World)),
        ("a link to nothing", &["nvidia-cudnn-cu12"], to_nothing),
        ("a link to nothing, without cuDNN", &[], to_nothing),
    ]
    .into_iter()
    .share(6)
    {
        let commands = Case::new(name, "C010", packages, breaking).run(&World::new("env", true));
        assert!(commands[0].starts_with("rm ") && commands[0].ends_with("/nvidia"), "{name}: {commands:?}");
    }
}

#[test]
fn known_issues_of_one_release_need_one_upgrade() {
    let world = World::new("env", true);
    let found = Case::new("two issues", "C017", &["nvidia-cudnn-cu12==9.10.2.21"], |_| {}).found(&world);
    let commands: Vec<&serde_json::Value> = found.iter().map(|finding| &finding["commands"]).collect();
    assert!(commands.len() == 2 && commands[0] == commands[1], "{found:#?}");
    assert!(commands[0].to_string().contains(">=9.15.1"), "{found:#?}");
}

#[test]
fn uv_commands_repair_environments() {
    if cfg!(not(target_arch = "x86_64")) {
        return support::not_run("the commands of uv", "the wheel is for x86-64");
    }
    let Some(uv) = Wheel::UV.unpacked() else { return };
    let world = || World::new("env", false).made_by_uv().first_on_path(&uv.join("bin"));
    let remove_ops = |world: &World| std::fs::remove_file(world.wheel_dir().join("libcudnn_ops.so.9")).unwrap();
    Case::new("uv", "C012", &["nvidia-cudnn-cu12"], remove_ops).run(&world());
    Case::new("two wheels of uv", "C023", &["nvidia-cudnn-cu12", "nvidia-cudnn-cu13"], |_| {}).run(&world());
    // uv links files to a cache, so damage affects the cache too.
    let damaged = |world: &World| {
        world.sh("uv pip install --python \"$VIRTUAL_ENV/bin/python3\" nvidia-cudnn-cu12");
        std::fs::write(world.wheel_dir().join(Library::Ops.file_name()), "no library").unwrap();
    };
    // The commands leave intact files in the cache.
    let next = "uv venv next; uv pip install --python next/bin/python3 nvidia-cudnn-cu12";
    let by_symbolic_links = world().variable("UV_LINK_MODE", "symlink");
    for world in [world(), by_symbolic_links] {
        world.sh(next);
        let commands = Case::new("uv, damaged in place", "C013", &[], damaged).run(&world);
        assert!(commands.len() == 1 && commands[0].contains(" --link-mode copy --no-cache "), "{commands:?}");
        world.sh("test -e next/lib/python*/site-packages/nvidia/cudnn/lib/libcudnn_cnn.so.9");
    }
}

/// For example, a system upgrade removed the Python. The commands must not run a different Python's pip.
#[test]
fn commands_restore_the_missing_python_of_an_environment() {
    let dangle = |world: &World, names: &[&str]| {
        let file = world.environment().join("pyvenv.cfg");
        // Worlds share files through hard links, and venv writes to this one.
        let settings = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, settings).unwrap();
        for name in names {
            let link = world.environment().join("bin").join(name);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink("/nowhere/python3", link).unwrap();
        }
    };
    let remove_ops = |world: &World| std::fs::remove_file(world.wheel_dir().join("libcudnn_ops.so.9")).unwrap();
    let without_python = |world: &World| dangle(world, &["python", "python3"]);
    let both = |world: &World| {
        remove_ops(world);
        without_python(world);
    };
    // A system upgrade installs a different Python.
    let upgraded = |world: &World| {
        remove_ops(world);
        dangle(world, &[]);
        let python = world.home().join("python3.99");
        support::write_program(&python, "#!/bin/sh\necho 'No module named pip'\nexit 1\n");
        for name in ["python", "python3"] {
            let link = world.environment().join("bin").join(name);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&python, link).unwrap();
        }
    };
    // Without `pyvenv.cfg`, the Python is an ordinary one.
    let stripped = |world: &World| {
        remove_ops(world);
        std::fs::remove_file(world.environment().join("pyvenv.cfg")).unwrap();
    };
    let cudnn = ["nvidia-cudnn-cu12"];
    for (has_pip, case) in [
        (true, Case::new("an upgrade", "C012", &cudnn, upgraded)),
        (true, Case::new("an upgrade, first the Python", "C028", &cudnn, upgraded)),
        (true, Case::new("stripped", "C012", &cudnn, stripped)),
        (false, Case::new("neither Python nor pip", "C012", &cudnn, both)),
        (true, Case::new("no Python", "C012", &cudnn, both)),
        (true, Case::new("neither Python nor cuDNN", "C010", &[], without_python)),
    ]
    .into_iter()
    .share(6)
    {
        let commands = case.run(&World::new("my env", has_pip));
        let is_of_another =
            |line: &String| line.contains("--break-system-packages") || line.contains("pip install --python");
        assert!(!commands.iter().any(is_of_another), "{commands:?}");
        assert!(commands.iter().any(|line| line.contains(" -m venv ")), "{commands:?}");
    }
    // venv refuses paths with a colon.
    for (code, name) in [("C012", "a:b"), ("C028", "a:b"), ("C012", "a:b;c/env")] {
        let found = Case::new("an upgrade", code, &["nvidia-cudnn-cu12"], upgraded).found(&World::new(name, true));
        assert!(found[0]["help"].as_str().unwrap().contains("venv rejects a path with a colon"), "{found:#?}");
        assert_eq!(found[0]["commands"].as_array().unwrap().len(), 0, "{found:#?}");
    }
    // After the user installs the missing Python version, the packages would work again, so commands must not remove
    // them.
    let world = World::new("env", true);
    let other = |world: &World| {
        remove_ops(world);
        let lib = world.site_packages().parent().unwrap().to_owned();
        std::fs::rename(&lib, lib.with_file_name("python3.99")).unwrap();
        dangle(world, &["python", "python3", "python3.99"]);
    };
    let case = Case::new("another version", "C012", &["nvidia-cudnn-cu12"], other);
    let found = case.found(&world);
    let text = found[0]["help"].as_str().unwrap();
    assert!(text.contains("no python3.99 is on PATH: install that"), "{text}");
    assert_eq!(found[0]["commands"].as_array().unwrap().len(), 0, "{found:#?}");
    // uv installs the Python version that the packages are for.
    let world = World::new("env", false).made_by_uv();
    let bin = world.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/true", bin.join("uv")).unwrap();
    let world = world.first_on_path(&bin);
    let commands = Case::new("uv", "C010", &[], without_python).commands(&world);
    let environment = world.environment();
    let version = world.site_packages().parent().unwrap().file_name().unwrap().to_str().unwrap().replace("python", "");
    let environment = environment.display();
    assert_eq!(
        commands,
        [
            format!("uv venv --allow-existing --python {version} {environment}"),
            format!("uv pip install --python {environment}/bin/python3 --link-mode copy --no-cache nvidia-cudnn-cu12"),
        ]
    );
}

/// `PATH` contains only the system's programs.
fn commands_without_tools(world: &World, breaking: impl Fn(&World)) -> Vec<String> {
    let doctor = Path::new(env!("CARGO_BIN_EXE_cudnn-doctor")).parent().unwrap();
    let path = format!("PATH={}:/usr/bin:/bin\n", doctor.display());
    world.unpack("nvidia-cudnn-cu12");
    breaking(world);
    let findings = world.findings_after("sh", &path, &[]);
    let found = findings.iter().find(|finding| finding["code"] == "C012").unwrap();
    found["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// pip refuses to install packages into the distribution's Python.
#[test]
fn commands_work_if_the_system_python_is_externally_managed() {
    let python_dirs = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let is_managed = |dir: &std::path::PathBuf| {
        let has_pip = dir.join("ensurepip").is_dir() || Path::new("/usr/lib/python3/dist-packages/pip").is_dir();
        dir.join("EXTERNALLY-MANAGED").exists() && has_pip
    };
    if !Path::new("/usr/bin/python3").exists() || !python_dirs.into_iter().any(|dir| is_managed(&dir)) {
        return support::not_run("an externally managed Python", "/usr/bin/python3 is none, or has no pip");
    }
    let doctor = Path::new(env!("CARGO_BIN_EXE_cudnn-doctor")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", doctor.display());
    let world = World::new("env", false).variable("VIRTUAL_ENV", "").variable("PATH", path);
    let before = world.findings(&[]);
    let found = before.iter().find(|finding| finding["code"] == "C010").unwrap();
    let commands: Vec<&str> = found["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let after = world.findings_after("sh", &commands.join("\n"), &[]);
    assert!(after.iter().all(|finding| finding["code"] != "C010"), "{commands:?}: {after:#?}");
}

/// Otherwise commands for a newer and for the older release would alternate.
#[test]
fn a_known_issue_has_no_command_if_no_fixed_release_fits() {
    let package = ["nvidia-cudnn-cu12==9.10.2.21"];
    let torch_with = |world: &World, cudnn: &str| {
        let info = world.site_packages().join("torch-2.8.0.dist-info");
        std::fs::create_dir_all(&info).unwrap();
        let text = "Name: torch\nVersion: 2.8.0\nRequires-Dist: nvidia-cudnn-cu12==";
        std::fs::write(info.join("METADATA"), format!("Metadata-Version: 2.1\n{text}{cudnn}\n")).unwrap();
        std::fs::write(info.join("RECORD"), "torch/version.py,,\n").unwrap();
        std::fs::create_dir_all(world.site_packages().join("torch")).unwrap();
        std::fs::write(world.site_packages().join("torch/version.py"), "cuda = '12.8'\n").unwrap();
    };
    let torch = |world: &World| torch_with(world, "9.10.2.21");
    let newer_torch = |world: &World| torch_with(world, "9.19.0.56");
    for (case, expected) in [
        (Case::new("newer PyTorch", "C073", &package, newer_torch).with_old_gpu(), "requires nvidia-cudnn-cu12==9.19"),
        (Case::new("an old GPU", "C017", &package, |_| {}).with_old_gpu(), "9.10.2 is the last"),
        (Case::new("PyTorch", "C017", &package, torch), "requires nvidia-cudnn-cu12==9.10.2.21"),
        (
            Case::new("an old GPU", "C018", &package, |_| {}).with_old_gpu().options(&["--minimum", "9.15"]),
            "is the last",
        ),
        (Case::new("PyTorch", "C018", &package, torch).options(&["--cuda", "13"]), "requires nvidia-cudnn-cu12==9.10"),
    ]
    .into_iter()
    .share(6)
    {
        let findings = case.found(&World::new("env", true));
        for finding in findings {
            assert_eq!(finding["commands"].as_array().unwrap().len(), 0, "{finding:#?}");
            assert!(finding["help"].as_str().unwrap().contains(expected), "{finding:#?}");
            assert!(finding["code"] != "C017" || finding["severity"] == "note", "{finding:#?}");
        }
    }
}

#[test]
fn the_drop_in_in_a_wheel_is_not_reported_as_damage() {
    for (library, expected) in [(Library::Shim, false), (Library::Cnn, true)] {
        let world = World::new("env", true);
        world.unpack("nvidia-cudnn-cu12");
        let file = world.wheel_dir().join(library.file_name());
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, [&bytes[..], b"\0cudnnShimGetVersion\0"].concat()).unwrap();
        let record = world.site_packages().join("nvidia_cudnn_cu12-9.19.0.56.dist-info/RECORD");
        let text = std::fs::read_to_string(&record).unwrap();
        let line = format!("nvidia/cudnn/lib/{},", library.file_name());
        let text = text.replace(&format!("{line},"), &format!("{line}sha256=x,{}", bytes.len()));
        std::fs::write(&record, text).unwrap();
        let findings = world.findings(&["--verify"]);
        assert_eq!(findings.iter().any(|finding| finding["code"] == "C024"), expected, "{library}: {findings:#?}");
        let result = std::fs::read_to_string(world.home().join("result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&result).unwrap();
        let verified = result["verified"].as_array().unwrap();
        assert!(verified.iter().all(|name| name != library.file_name()), "{library}: {verified:?}");
        remove(&world, Library::Ops);
        let findings = world.findings(&[]);
        let help = findings.iter().find(|finding| finding["code"] == "C012").unwrap()["help"].as_str().unwrap();
        let again = help.contains("then install the drop-in again");
        assert_eq!(again, library == Library::Shim, "{library}: {help}");
    }
}

/// The commands repeat `pip install --target`, unless the directory contains other packages, which pip would remove.
#[test]
fn a_directory_of_wheels_outside_of_an_environment_is_reinstalled() {
    for others in ["", "nvidia-cublas-cu12"] {
        let world = World::new("env", true);
        let target = world.home().join("libraries");
        std::fs::create_dir(&target).unwrap();
        world.sh(&format!("pip install --no-deps --target '{}' nvidia-cudnn-cu12 {others}", target.display()));
        std::fs::write(target.join("nvidia/cudnn/lib/libcudnn_cnn.so.9"), "no library").unwrap();
        let world = world.variable("CUDNN_LOADER_DIR", target.join("nvidia/cudnn/lib"));
        let case = Case::new("--target", "C013", &[], |_| {});
        if others.is_empty() {
            case.run(&world);
        } else {
            let found = case.found(&world);
            let help = format!("into {} again", target.display());
            assert!(found[0]["help"].as_str().unwrap().contains(&help), "{found:#?}");
            assert!(found[0]["commands"].as_array().unwrap().is_empty(), "{found:#?}");
        }
    }
}

/// An upgrade would be a no-op, because the record already names the newer release.
#[test]
fn a_mix_with_a_record_of_the_new_release_is_reinstalled() {
    for code in ["C014", "C017"] {
        let older = Cudnn { version: Version::new(9, 10, 2), cuda_major: 12 };
        Case::new("a mix", code, &["nvidia-cudnn-cu12"], |world| {
            overwrite(world, older, Library::Graph);
            overwrite(world, older, Library::Ops);
        })
        .run(&World::new("env", true));
    }
}

#[test]
fn commands_repair_archives_and_copied_libraries() {
    let archive = |world: &World, cudnn: Cudnn| {
        let name = format!("cudnn-linux-x86_64-{}.56_cuda{}-archive/lib", cudnn.version, cudnn.cuda_major);
        let dir = world.home().join("opt").join(name);
        cudnn.copy_to(&dir);
        dir
    };
    for (cudnn, code) in [(CU12, "C030"), (CU12, "C031"), (CU13, "C030"), (CU13, "C031")].into_iter().share(3) {
        let world = World::new("env", true);
        let dir = archive(&world, cudnn);
        Case::new("an archive", code, &[], |_| {}).run(&world.variable("LD_LIBRARY_PATH", dir));
    }
    // This cuDNN never searches the environment.
    let world = World::new("env", true);
    let dir = archive(&world, CU12);
    let world = world.variable("CUDNN_LOADER_DIR", dir);
    let case = Case::new("an installed cuBLAS", "C030", &["nvidia-cublas-cu12"], |_| {});
    assert!(case.commands(&world).iter().all(|command| command.starts_with("export ")));
    case.run(&world);

    let world = World::new("env", true);
    let dir = archive(&world, CU12_OLDER);
    Case::new("an old archive", "C018", &[], |_| {})
        .options(&["--minimum", "9.19"])
        .run(&world.variable("CUDNN_LOADER_DIR", dir));

    // The command must remove only the cuDNN 9 that was copied by hand.
    let world = World::new("env", true);
    let dir = world.home().join("copied/lib");
    CU12.copy_to(&dir);
    let adv = dir.join("libcudnn_adv.so.9");
    std::fs::remove_file(&adv).unwrap();
    std::fs::copy(CU12_OLDER.libraries().file(Library::Adv), &adv).unwrap();
    let others = ["libcudnn.so.8", "libcudnn_ops_infer.so.8.9.7", "libcudnn_static_v9.a", "libz.so.9", "cudnn.so.9"];
    for name in others {
        std::fs::write(dir.join(name), "").unwrap();
    }
    std::fs::write(dir.join("libcudnn_graph.so.9.18.0"), "").unwrap();
    let world = world.variable("LD_LIBRARY_PATH", &dir);
    let commands = Case::new("copied files", "C014", &[], |_| {}).run(&world);
    // zsh fails if a pattern matches no file.
    assert!(commands.iter().all(|command| !command.contains('*')), "{commands:?}");
    let mut left: Vec<String> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    let mut others = others.to_vec();
    others.sort_unstable();
    assert_eq!(left, others);
}

#[test]
fn commands_repair_a_shim_in_another_directory() {
    for (package, installed) in [(false, &[][..]), (true, &["nvidia-cudnn-cu12"])] {
        let world = World::new("env", true);
        let (other, copied) = (world.home().join("other"), world.home().join("copied"));
        std::fs::create_dir(&other).unwrap();
        support::FakeLibrary::new(Library::Shim, Version::new(9, 28, 0)).build(&other.join("libcudnn.so.9"));
        let world = if package {
            world.variable("LD_LIBRARY_PATH", &other)
        } else {
            CU12.copy_to(&copied);
            std::fs::remove_file(copied.join("libcudnn.so.9")).unwrap();
            let path = std::env::join_paths([&other, &copied]).unwrap();
            world.variable("LD_LIBRARY_PATH", path)
        };
        Case::new("a shim of another release", "C022", installed, |world| {
            if package {
                remove(world, Library::Shim);
            }
        })
        .run(&world);
    }
}

/// The order of the search path is already right.
#[test]
fn commands_separate_two_releases_if_the_first_lacks_a_library() {
    let world = World::new("env", true);
    let (first, second) = (world.home().join("first"), world.home().join("second"));
    CU12.copy_to(&first);
    CU12_OLDER.copy_to(&second);
    std::fs::remove_file(first.join(Library::Cnn.file_name())).unwrap();
    let world = world.variable("LD_LIBRARY_PATH", std::env::join_paths([&first, &second]).unwrap());
    Case::new("a library of the second release on the search path", "C022", &[], |_| {}).run(&world);
    // The environment has a JIT-only cuDNN, and the search path leads to a full cuDNN of a different version.
    let world = World::new("env", true);
    let second = world.home().join("second");
    CU12_OLDER.copy_to(&second);
    let world = world.variable("LD_LIBRARY_PATH", &second);
    let first = world.wheel_dir();
    let world = world.variable("CUDNN_LOADER_DIR", first);
    Case::new("a JIT-only cuDNN beside a full one", "C022", &["nvidia-cudnn-cu12"], |world| {
        for library in [Library::Ops, Library::Cnn, Library::Adv, Library::EnginesPrecompiled, Library::Heuristic] {
            let _ = std::fs::remove_file(world.wheel_dir().join(library.file_name()));
        }
    })
    .run(&world);
}

#[test]
fn one_set_of_commands_satisfies_all_requirements() {
    for (code, options) in [
        ("C019", &["--function", "cudnnConvolutionForward", "--cuda", "13"][..]),
        ("C018", &["--function", "cudnnConvolutionForward", "--cuda", "13", "--minimum", "9.19"]),
    ]
    .into_iter()
    .share(6)
    {
        let remove_cnn = |world: &World| remove(world, Library::Cnn);
        let packages = ["nvidia-cudnn-cu12==9.18.0.56"];
        Case::new("two requirements", code, &packages, remove_cnn).options(options).run(&World::new("env", true));
    }
}

/// Only `check` knows the environment.
#[test]
fn preload_refers_to_check_for_commands() {
    let output = World::new("env", true).sh("cudnn-doctor preload --no-context || true").stdout;
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("cudnn-doctor check` shows") && !output.contains("pip install"), "{output}");
}

/// A directory that all tests of this program share.
type Shared = std::sync::OnceLock<TempDir>;
