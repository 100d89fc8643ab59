//! Repairs environments without their Python, with pyenv's scripts on `PATH`, and in an unpacked container image.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Share, copy_program, write_program};

use crate::world::{Case, World};

/// Returns the root and the name of the base Python, such as `python3.12`.
fn base_python() -> (PathBuf, String) {
    let script = "import sys; print(sys.base_prefix); print('python3.%d' % sys.version_info[1])";
    let output = Command::new("python3").args(["-I", "-c", script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    (lines.next().unwrap().into(), lines.next().unwrap().to_owned())
}

/// Puts pyenv's scripts first on `PATH`, which fail because another version is selected. `version` is the installed
/// one.
fn with_pyenv(world: World, version: &Path) -> World {
    let pyenv = world.home().join("pyenv");
    let (_, name) = base_python();
    for program in ["python3", &name] {
        let text = "#!/bin/sh\n# exec pyenv exec python3\necho 'pyenv: command not found' >&2\nexit 127\n";
        write_program(pyenv.join("shims").join(program), text);
    }
    std::fs::create_dir_all(pyenv.join("versions")).unwrap();
    symlink(version, pyenv.join("versions/3.99.7")).unwrap();
    world.first_on_path(&pyenv.join("shims")).variable("PYENV_VERSION", "2.7.18")
}

fn upgrade(world: &World) {
    let python = world.home().join("python3.98");
    write_program(&python, "#!/bin/sh\necho \"a Python of another version\"\n");
    for name in ["python", "python3"] {
        let link = world.environment().join("bin").join(name);
        std::fs::remove_file(&link).unwrap();
        symlink(&python, link).unwrap();
    }
}

/// Makes the environment's links dangle. Worlds share `pyvenv.cfg`, so it is copied before venv writes to it.
fn dangle(world: &World) {
    let settings = world.environment().join("pyvenv.cfg");
    let text = std::fs::read(&settings).unwrap();
    std::fs::remove_file(&settings).unwrap();
    std::fs::write(&settings, text).unwrap();
    for name in ["python", "python3"] {
        let link = world.environment().join("bin").join(name);
        std::fs::remove_file(&link).unwrap();
        symlink("/nowhere/python3", link).unwrap();
    }
}

fn own_settings(world: &World) {
    dangle(world);
    upgrade(world);
}

#[test]
fn commands_restore_a_python_with_an_interpreter_instead_of_a_pyenv_shim() {
    let (base, _) = base_python();
    for (code, packages, breaking) in [
        ("C028", &["nvidia-cudnn-cu12"][..], own_settings as fn(&World)),
        ("C028", &["nvidia-cudnn-cu12"], dangle),
        ("C010", &[], dangle),
        ("C017", &["nvidia-cudnn-cu12==9.10.2.21"], dangle),
        ("C030", &["nvidia-cudnn-cu12"], dangle),
    ]
    .into_iter()
    .share(6)
    {
        let world = with_pyenv(World::new("env", true), &base);
        let commands = Case::new("pyenv", code, packages, breaking).run(&world);
        assert!(!commands.concat().contains("/shims/"), "{commands:#?}");
        world.sh("\"$VIRTUAL_ENV/bin/python3\" -I -m pip --version");
        assert!(!world.environment().join(".cudnn-doctor-new-python").exists());
    }
}

#[test]
fn a_failed_replacement_leaves_the_python_of_an_environment_unchanged() {
    let (_, name) = base_python();
    let fails = |world: World| {
        let version = world.home().join("broken");
        copy_program("/bin/false", version.join("bin").join(name.as_str()));
        with_pyenv(world, &version)
    };
    for code in ["C028", "C030"] {
        let world = fails(World::new("env", true));
        let commands = Case::new("a broken Python", code, &["nvidia-cudnn-cu12"], own_settings).commands(&world);
        assert!(commands[0].contains("broken") || commands[0].contains("3.99.7"), "{commands:#?}");
        // An interactive shell continues after a failure.
        world.sh(&format!("set +e\n{}\ntrue", commands.join("\n")));
        let output = world.sh("\"$VIRTUAL_ENV/bin/python3\"");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a Python of another version\n", "{commands:#?}");
    }
}

/// The links lead to files that exist only in the container.
#[test]
fn no_command_replaces_the_python_of_an_unpacked_image() {
    let world = World::new("image/opt/env", true);
    let case = Case::new("an image", "C030", &["nvidia-cudnn-cu12"], |world| {
        dangle(world);
        let image = world.home().join("image");
        write_program(image.join("nowhere/python3"), "");
    });
    let commands = case.commands(&world);
    assert!(!commands.concat().contains("venv"), "{commands:#?}");
    let findings = world.findings(&[]);
    assert!(findings.iter().all(|finding| finding["code"] != "C028"), "{findings:#?}");
}
