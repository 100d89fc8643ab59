use std::os::unix::fs::{PermissionsExt, symlink};

use support::{TempDir, write_program};

use super::*;

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn interpreters_are_native_programs_with_known_names() {
    let dir = TempDir::new();
    for (name, text, mode, expected) in [
        ("python3.12", "\x7fELF..", 0o755, true),
        ("python3.14t", "\x7fELF..", 0o755, true),
        ("pypy3", "\x7fELF..", 0o755, true),
        ("python3.11-dbg", "\x7fELF..", 0o755, true),
        ("python", "MZ..", 0o755, true),
        // A regular file without execute permission, an empty file, a script, and an unrelated program.
        ("python3.11", "\x7fELF..", 0o644, false),
        ("python3.10", "", 0o755, false),
        ("python3.9", "#!/usr/bin/env bash\n", 0o755, false),
        ("ls", "\x7fELF..", 0o755, false),
        ("python3.12-config", "\x7fELF..", 0o755, false),
    ] {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(is_interpreter(&file), expected, "{name}");
    }
    symlink(dir.path().join("python3.12"), dir.path().join("my-interpreter")).unwrap();
    assert!(is_interpreter(&dir.path().join("my-interpreter")));
    assert!(!is_interpreter(dir.path()) && !is_interpreter(&dir.path().join("nothing")));
    // A script in an environment counts if it has a Python's name.
    let bin = dir.path().join("env/bin");
    ["python3", "python3-config"].iter().for_each(|name| write_program(bin.join(name), "#!/bin/sh\n"));
    assert!(!is_python(&bin.join("python3")));
    std::fs::write(dir.path().join("env/pyvenv.cfg"), "").unwrap();
    assert!(is_python(&bin.join("python3")) && !is_python(&bin.join("python3-config")));
}

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn a_link_into_an_unpacked_image_is_recognized() {
    let world = TempDir::new();
    let bin = world.path().join("image/opt/env/bin");
    std::fs::create_dir_all(&bin).unwrap();
    symlink("/usr/bin/python3.99", bin.join("python3.99")).unwrap();
    symlink("python3.99", bin.join("python3")).unwrap();
    assert!(!is_in_unpacked_image(&bin.join("python3")), "the image has no such file");
    write_program(world.path().join("image/usr/bin/python3.99"), "");
    assert!(is_in_unpacked_image(&bin.join("python3")));
}
