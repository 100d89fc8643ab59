//! Puts the drop-in in front of one program by LD_PRELOAD. Changes no installation.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use cudnn_os::files::{is_executable, open_without_waiting, symlink};
use cudnn_os::program::executable;
use cudnn_os::rights::{belongs_to_user, changes_rights, create_own_dir, is_noexec, others_may_write};
use cudnn_probe::internal::elf_interpreter;

use crate::escape::Printable;
use crate::refusal::Refusal;
use crate::remedy::Remedy;
use crate::shell::{doctor, link_name, split_list};

/// The variable with the libraries that ld.so loads before all others.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// The bytes of an ELF header up to the machine.
const HEADER: usize = 20;
/// The most interpreters of scripts that follow each other.
const MAX_SCRIPTS: usize = 4;
/// The most that is read of a script.
const MAX_LINE: usize = 4096;

/// The name of this library that the variable can contain: its own, or one through a link to its directory.
pub(crate) fn name(library: &Path) -> Result<PathBuf, Refusal> {
    if is_noexec(library) {
        let message = format!("{} is on a file system that is mounted noexec", library.printable());
        return Err(Refusal::new(message).help("copy its directory to another file system, and name that by --from"));
    }
    if is_whole(library) { Ok(library.to_owned()) } else { through_link(library) }
}

/// The value with this name first, and what was in it before after that.
pub(crate) fn value(name: &Path, before: Option<OsString>) -> OsString {
    let before = before.unwrap_or_default();
    match split_list(PRELOAD, &before).first() {
        None => name.into(),
        Some(first) if first == name => before,
        Some(_) => [name.as_os_str(), &before].join(OsStr::new(":")),
    }
}

/// Does ld.so take this for one name, as it is? It splits the value at spaces and colons, and replaces what `$` begins.
fn is_whole(name: &Path) -> bool {
    !name.as_os_str().as_encoded_bytes().iter().any(|byte| b" :$".contains(byte))
}

/// The library's name through a link to its directory.
fn through_link(library: &Path) -> Result<PathBuf, Refusal> {
    let refusal = |reason: &str| {
        Refusal::new(format!("{PRELOAD} cannot contain the name {}: {reason}", library.printable())).help(
            "copy its directory to one without a space, a colon or a dollar sign in its name, and name that by --from",
        )
    };
    let (Some(dir), Some(file)) = (library.parent(), library.file_name()) else { return Err(refusal("it is no file")) };
    let (links, link) = link_name(dir).ok_or_else(|| refusal("no directory of this user could have a link to it"))?;
    if !is_whole(&link) {
        return Err(refusal("and a link to it would be in a directory with such a name, too"));
    }
    make_link(dir, &links, &link)
        .map_err(|error| refusal(&format!("making the link {}: {error}", link.printable())))?;
    Ok(link.join(file))
}

/// Makes a link, unless it is there. Other programs may be using it.
fn make_link(dir: &Path, links: &Path, link: &Path) -> std::io::Result<()> {
    create_own_dir(links)?;
    // Who can change links could have other libraries loaded.
    if !belongs_to_user(links) || others_may_write(links) {
        return Err(std::io::Error::other("other users may write to the directory of the link"));
    }
    let leads_there = || std::fs::read_link(link).is_ok_and(|target| target == dir);
    if !leads_there() {
        let new = tempfile::Builder::new().prefix(".new-").make_in(links, |name| symlink(dir, name))?;
        std::fs::rename(new.path(), link)?;
    }
    if leads_there() { Ok(()) } else { Err(std::io::Error::other("another process has changed it")) }
}

/// What ld.so makes of the variable for this command: nothing to say, a remark, or why it would have no effect.
pub(crate) fn check_program(command: &OsStr) -> Result<Option<String>, Refusal> {
    let Some(program) = find(command).and_then(program_of) else { return Ok(None) };
    let name = program.printable();
    if changes_rights(&program) {
        let message = format!(
            "{name} runs with other rights than yours (it is set-user-ID, set-group-ID or has capabilities): ld.so ignores \
             {PRELOAD} for it, and takes it away from the programs that it starts"
        );
        let help = format!("let it start the doctor, which starts the program: `{} run -- PROGRAM`", doctor());
        return Err(Refusal::new(message).help(Remedy::new(help)));
    }
    // The C library would also start a shell with what the kernel refuses, as with a script without a first line.
    if !is_for_this_machine(&program) {
        let message = format!("{name} is not built for this processor: ld.so cannot put the drop-in in front of it");
        return Err(Refusal::new(message).help("run it where its processor is, with the drop-in for that"));
    }
    let is_musl =
        |loader: &Path| loader.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-musl"));
    match elf_interpreter(&program) {
        None => Ok(Some(format!(
            "note: {name} is statically linked: the drop-in is not in front of it, but in front of programs that it starts"
        ))),
        Some(loader) if is_musl(&loader) => Err(Refusal::new(format!(
            "{name} is built for musl, and the drop-in for glibc: {} would end the program",
            loader.printable()
        ))),
        Some(_) => Ok(None),
    }
}

/// The file of a command, as the system would find it.
pub(crate) fn find(command: &OsStr) -> Option<PathBuf> {
    let path = Path::new(command);
    if path.components().count() != 1 || command.as_encoded_bytes().contains(&b'/') {
        return Some(path.to_owned());
    }
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(path)).find(|file| is_executable(file))
}

/// The program in this file, or the one that the kernel starts for this script.
pub(crate) fn program_of(mut file: PathBuf) -> Option<PathBuf> {
    for _ in 0..MAX_SCRIPTS {
        let start = start_of(&file, MAX_LINE)?;
        let Some(line) = start.strip_prefix(b"#!") else {
            return start.starts_with(b"\x7fELF").then_some(file);
        };
        let line = line.split(|byte| *byte == b'\n').next()?;
        file = std::str::from_utf8(line).ok()?.split_whitespace().next()?.into();
    }
    None
}

/// Has this program the class, byte order and machine of the doctor?
fn is_for_this_machine(program: &Path) -> bool {
    let kind = |file: &Path| {
        let header = start_of(file, HEADER)?;
        Some((header.get(4..6)?.to_owned(), header.get(18..20)?.to_owned()))
    };
    let own = executable().ok().and_then(|own| kind(&own));
    own.is_none() || kind(program) == own
}

/// The first bytes of a regular file. A pipe would wait.
fn start_of(file: &Path, len: usize) -> Option<Vec<u8>> {
    let file = open_without_waiting(file).ok().filter(|file| file.metadata().is_ok_and(|file| file.is_file()))?;
    let mut start = Vec::new();
    file.take(len as u64).read_to_end(&mut start).ok()?;
    Some(start)
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
