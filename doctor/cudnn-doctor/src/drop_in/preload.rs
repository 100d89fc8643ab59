//! Preloads the drop-in into one program by LD_PRELOAD, without changing any installation.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::path::interpreter_words;
use cudnn_cli::programs::doctor;
use cudnn_os::files::is_executable;
use cudnn_os::program::executable;
use cudnn_os::rights::{changes_rights, is_noexec};
use cudnn_probe::facts::read_start;
use cudnn_probe::image::elf_interpreter;
use cudnn_rules::drop_in::PRELOAD;
use cudnn_rules::refusal::Refusal;
use cudnn_rules::remedy::Remedy;
use cudnn_rules::shell::split_list;

/// The length of an ELF header up to the machine field, in bytes.
const HEADER: u64 = 20;
/// The maximum depth of scripts that use another script as interpreter.
const MAX_SCRIPTS: usize = 4;
/// The number of bytes read from a script.
const MAX_LINE: u64 = 4096;

/// Returns the path of this library for LD_PRELOAD.
pub(crate) fn name(library: &Path) -> Result<PathBuf, Refusal> {
    if is_noexec(library) {
        let message = format!("{} is on a file system that is mounted noexec", library.printable());
        return Err(
            Refusal::new(message).help("copy its directory to another file system, then name the copy with --from")
        );
    }
    if !is_whole(library) {
        let message = format!("{PRELOAD} cannot contain the path {}", library.printable());
        return Err(Refusal::new(message).help(
            "copy its directory to a path without spaces, colons or dollar signs, then name the copy with --from",
        ));
    }
    Ok(library.to_owned())
}

pub(crate) fn value(name: &Path, before: Option<OsString>) -> OsString {
    let before = before.unwrap_or_default();
    match split_list(PRELOAD, &before).first() {
        None => name.into(),
        Some(first) if first == name => before,
        Some(_) => [name.as_os_str(), &before].join(OsStr::new(":")),
    }
}

/// Returns whether ld.so reads this name unchanged. It splits the value at spaces and colons, and expands `$`.
fn is_whole(name: &Path) -> bool {
    !name.as_os_str().as_encoded_bytes().iter().any(|byte| b" :$".contains(byte))
}

/// Checks whether LD_PRELOAD works for this command. Returns a remark if only child processes are affected.
pub(crate) fn check_program(command: &OsStr) -> Result<Option<String>, Refusal> {
    let Some(program) = find(command).and_then(program_of) else { return Ok(None) };
    let name = program.printable();
    if changes_rights(&program) {
        let message = format!(
            "{name} runs with different rights than yours (it is set-user-ID, set-group-ID or has capabilities): ld.so \
             ignores {PRELOAD} for it and removes it from the environment of its child processes"
        );
        let help = format!("have it start the program through the doctor: `{} run -- PROGRAM`", doctor());
        return Err(Refusal::new(message).help(Remedy::new(help)));
    }
    // If the kernel rejects a file, the C library runs it as a shell script.
    if !is_for_this_machine(&program) {
        let message = format!("{name} is not built for this processor: ld.so cannot put the drop-in in front of it");
        return Err(Refusal::new(message).help("run it on a machine with that processor, with the drop-in for it"));
    }
    let is_musl =
        |loader: &Path| loader.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-musl"));
    match elf_interpreter(&program) {
        None => Ok(Some(format!(
            "note: {name} is statically linked: the drop-in has no effect on it, only on programs that it starts"
        ))),
        Some(loader) if is_musl(&loader) => Err(Refusal::new(format!(
            "{name} is built for musl, but the drop-in for glibc: {} would abort the program",
            loader.printable()
        ))),
        Some(_) => Ok(None),
    }
}

/// Finds the file of a command as the operating system would.
pub(crate) fn find(command: &OsStr) -> Option<PathBuf> {
    let path = Path::new(command);
    if path.components().count() != 1 || command.as_encoded_bytes().contains(&b'/') {
        return Some(path.to_owned());
    }
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(path)).find(|file| is_executable(file))
}

/// Returns the program, or the interpreter of a script, even if `env` starts it.
pub(crate) fn program_of(mut file: PathBuf) -> Option<PathBuf> {
    for _ in 0..MAX_SCRIPTS {
        let start = read_start(&file, MAX_LINE).ok()?;
        let Some(mut words) = interpreter_words(&start) else {
            return start.starts_with(b"\x7fELF").then_some(file);
        };
        file = words.next()?.into();
        if file.file_name().is_some_and(|name| name == "env") {
            // `#!/usr/bin/env -S A=1 python3 -u`
            file = find(words.find(|word| !word.starts_with('-') && !word.contains('='))?.as_ref())?;
        }
    }
    None
}

fn is_for_this_machine(program: &Path) -> bool {
    let kind = |file: &Path| {
        let header = read_start(file, HEADER).ok()?;
        Some((header.get(4..6)?.to_owned(), header.get(18..20)?.to_owned()))
    };
    let own = executable().ok().and_then(|own| kind(&own));
    own.is_none() || kind(program) == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_first_and_only_once() {
        let library = Path::new("/nowhere/libcudnn.so.9");
        for (before, expected) in [
            (None, "/nowhere/libcudnn.so.9"),
            (Some(""), "/nowhere/libcudnn.so.9"),
            (Some("/a.so /b.so"), "/nowhere/libcudnn.so.9:/a.so /b.so"),
            (Some("/nowhere/libcudnn.so.9 /b.so"), "/nowhere/libcudnn.so.9 /b.so"),
            (Some("/a.so:/nowhere/libcudnn.so.9"), "/nowhere/libcudnn.so.9:/a.so:/nowhere/libcudnn.so.9"),
        ] {
            assert_eq!(value(library, before.map(OsString::from)), expected, "{before:?}");
        }
    }

    #[test]
    fn names_that_ld_so_would_split_or_expand_are_known() {
        for name in ["/a b/x", "/a:b/x", "/a$ORIGIN/x"] {
            assert!(!is_whole(Path::new(name)), "{name}");
        }
        assert!(is_whole(Path::new("/a;b\n\"'/x")));
    }
}
