//! Executes commands with paths that a shell or terminal would interpret, without side effects.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use support::Share;

use crate::world::{Case, World};
use crate::{CU12, CU12_OLDER};

/// Directory names that create the file `RUN` unless quoted.
const NAMES: [&[u8]; 14] = [
    b"a b",
    b"a:b;c$LIB",
    b"it's \"quoted\"",
    b"$(touch RUN)",
    b"`touch RUN`",
    b"x;touch RUN;#",
    b"x&touch RUN",
    b"new\nline'; touch RUN; '",
    b"end\n",
    b"\x1b[31m\x1b]0;x\x07%s!!\\",
    b"\xff\xfe not UTF-8 $(touch RUN)",
    "gr\u{f6}\u{df}e \u{202e}rtl \u{2066}x".as_bytes(),
    b"*",
    b"~",
];

fn shells() -> Vec<&'static str> {
    ["sh", "bash"].into_iter().filter(|shell| Path::new("/bin").join(shell).exists()).collect()
}

fn has_run(world: &World) -> bool {
    world.home().join("RUN").exists()
}

fn assert_printable(command: &str) {
    let is_unsafe = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!command.contains(is_unsafe), "{command:?}");
}

fn variables(world: &World, shell: &str, lines: &str) -> BTreeSet<String> {
    let output = world.shell(shell, &format!("{lines}\nenv -0")).stdout;
    let is_own = |variable: &[u8]| ["_=", "SHLVL=", "OLDPWD="].iter().any(|name| variable.starts_with(name.as_bytes()));
    output
        .split(|byte| *byte == 0)
        .filter(|variable| !is_own(variable))
        .map(|variable| variable.escape_ascii().to_string())
        .collect()
}

/// Executes the commands of each finding in all shells, and checks that the finding is gone.
fn execute(world: &World, codes: &[&str], options: &[&str], must_have_command: bool) {
    let findings = world.findings(options);
    for code in codes {
        let found = findings.iter().find(|finding| finding["code"] == *code);
        let found = found.unwrap_or_else(|| panic!("{code} is not found: {findings:#?}"));
        let commands = found["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        let commands: Vec<&str> = commands.collect();
        assert!(!commands.is_empty() || !must_have_command, "{found:#?}");
        for text in ["message", "help"].map(|key| found[key].as_str().unwrap_or_default()).iter().chain(&commands) {
            assert_printable(text);
        }
        if !commands.is_empty() {
            let lines = commands.join("\n");
            let after = world.findings_after("sh", &lines, options);
            assert!(after.iter().all(|finding| finding["code"] != *code), "{commands:?}: {after:#?}");
            let understood: BTreeSet<_> = shells().iter().map(|shell| variables(world, shell, &lines)).collect();
            assert_eq!(understood.len(), 1, "{commands:?}: {understood:?}");
        }
        assert!(!has_run(world), "{commands:?}");
    }
}

#[test]
fn commands_quote_every_path() {
    for name in NAMES.into_iter().share(3) {
        let name = OsStr::from_bytes(name);
        // Search paths cannot contain such names.
        let fits = !name.as_bytes().iter().any(|byte| b":;$".contains(byte));
        let world = World::new("env", false);
        let dir = world.home().join("x").join(name);
        CU12.copy_to(&dir);
        let other = world.home().join("other");
        CU12_OLDER.copy_to(&other);

        // CUDNN_LOADER_DIR selects this cuDNN, but ld.so finds none, a different one, or a mix.
        let world = world.variable("CUDNN_LOADER_DIR", &dir);
        execute(&world, &["C020"], &[], fits);
        let world = world.variable("LD_LIBRARY_PATH", &other);
        execute(&world, &["C021", "C022"], &[], fits);

        // The variable names the parent directory.
        let world = World::new("env", false);
        let root = world.home().join(name);
        CU12.copy_to(&root.join("lib"));
        execute(&world.variable("CUDNN_LOADER_DIR", &root), &["C010"], &[], true);

        let world = World::new("env", false);
        let (old, new) = (world.home().join("old"), world.home().join(name));
        CU12_OLDER.copy_to(&old);
        CU12.copy_to(&new);
        if fits {
            let path = [old.as_os_str(), new.as_os_str()].join(OsStr::new(":"));
            execute(&world.variable("LD_LIBRARY_PATH", path), &["C018"], &["--minimum", "9.19"], true);
        }

        let world = World::new("env", false);
        let dir = world.home().join("y").join(name).join("lib");
        CU12.copy_to(&dir);
        let adv = dir.join("libcudnn_adv.so.9");
        std::fs::remove_file(&adv).unwrap();
        std::fs::copy(CU12_OLDER.libraries().file(cudnn_probe::Library::Adv), &adv).unwrap();
        execute(&world.variable("CUDNN_LOADER_DIR", &dir), &["C014"], &[], true);
        assert!(!adv.exists(), "{name:?}");
    }
}

#[test]
fn commands_quote_the_path_of_an_environment() {
    // For the first name, quotes are enough.
    let names = ["$(touch RUN) it's \"x\";a:b", "`touch RUN`;new\nline gr\u{f6}\u{df}e \u{202e}"];
    for (name, has_pip) in [(1, true), (1, false), (0, false), (0, true)].into_iter().share(2) {
        let world = World::new(names[name], has_pip);
        let remove = |world: &World| std::fs::remove_file(world.wheel_dir().join("libcudnn_cnn.so.9")).unwrap();
        let case = Case::new("an environment", "C012", &["nvidia-cudnn-cu12"], remove);
        case.run(&world);
        assert!(!has_run(&world));
    }
}

#[test]
fn env_and_list_quote_every_path() {
    for name in NAMES.into_iter().filter(|name| !name.iter().any(|byte| b":;$".contains(byte))) {
        let world = World::new("env", false);
        let dir = world.home().join(OsStr::from_bytes(name));
        CU12.copy_to(&dir);
        // `.` needs no quotes in this test.
        let list = world.sh("cudnn-doctor list . || true").stdout;
        let list = String::from_utf8(list).unwrap();
        let line = list.lines().find(|line| line.trim_start().starts_with("eval ")).unwrap();
        assert_printable(line);
        for shell in shells() {
            let message = String::from_utf8(world.shell(shell, line).stderr).unwrap();
            assert_eq!(message, "");
            let script = format!("{line}\nprintf '%s' \"$CUDNN_LOADER_DIR\"");
            let used = PathBuf::from(OsString::from_vec(world.shell(shell, &script).stdout));
            let expected = std::fs::canonicalize(&dir).unwrap();
            assert_eq!(std::fs::canonicalize(&used).ok(), Some(expected), "{shell}: {line}");
            let script = format!("{script} >/dev/null\nprintf '%s' \"${{LD_LIBRARY_PATH%%:*}}\"");
            let searched = PathBuf::from(OsString::from_vec(world.shell(shell, &script).stdout));
            assert_eq!(std::fs::canonicalize(&searched).ok(), std::fs::canonicalize(&dir).ok(), "{shell}: {line}");
        }
        assert!(!has_run(&world), "{line}");
    }
}
