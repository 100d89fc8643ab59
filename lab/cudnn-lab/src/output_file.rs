//! Writes the output file of a command completely or not at all, and replaces only files that the command may replace.
//!
//! A command replaces empty files, and files that begin like its own output. Other files and dangling links need
//! `--force`. A command never replaces its input, follows another user's link, or writes to a device, a pipe or a socket,
//! which could block forever.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::temporary::Temporary;
use cudnn_os::files::{canonicalize, is_replaceable, make_as_private_as};
use cudnn_os::text_file::is_trusted_link;
use cudnn_probe::FileIdentity;
use cudnn_store::captures::values_dir;

pub(crate) struct OutputKind {
    /// The name, with an article.
    pub(crate) name: &'static str,
    /// Returns whether a file that starts with these bytes is of this kind.
    pub(crate) is_start: fn(&[u8]) -> bool,
}

/// The option to replace files of other kinds.
#[derive(clap::Args)]
pub(crate) struct Replace {
    /// Replace the output file even if it is a different kind of file.
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) struct Output<'a> {
    pub(crate) file: &'a Path,
    pub(crate) kind: &'static OutputKind,
    /// The files that the command reads. A new output is as private as the first one.
    pub(crate) inputs: &'a [&'a Path],
    pub(crate) force: bool,
}

impl Output<'_> {
    /// Returns an error if the file cannot be written or replaced, before a command works for minutes.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_replaceable()?;
        let target = self.target();
        let is_writable = match target.metadata() {
            Ok(_) => File::options().append(true).open(&target).map(drop),
            Err(_) => Ok(()),
        };
        is_writable
            .and_then(|()| Temporary::file_in(dir_of(&target)).map(drop))
            .map_err(|error| self.cannot("write", &error))
    }

    /// Writes the whole file, and then atomically replaces an older one, whose permissions it gets. After a failure or
    /// an interruption, the older file remains. A new file is readable only for users who can read the first input,
    /// because that may contain private values.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut File) -> io::Result<T>) -> Result<T, String> {
        // Another program may have written the file after the first check.
        self.check_replaceable()?;
        let write = || {
            let target = self.target();
            let (temporary, mut file) = Temporary::file_in(dir_of(&target))?;
            match (target.metadata(), self.inputs.first().map(|input| input.metadata())) {
                (Ok(older), _) => file.set_permissions(older.permissions())?,
                (Err(_), Some(Ok(input))) => make_as_private_as(&file, &input)?,
                _ => {}
            }
            let written = write(&mut file)?;
            temporary.rename(&target)?;
            Ok(written)
        };
        write().map_err(|error: io::Error| self.cannot("write", &error))
    }

    pub(crate) fn is_same_file(&self, other: &Output<'_>) -> bool {
        let place = |output: &Output<'_>| {
            let dir = canonicalize(dir_of(output.file)).ok()?;
            Some(canonicalize(output.file).unwrap_or_else(|_| dir.join(output.file.file_name().unwrap_or_default())))
        };
        let identity = FileIdentity::of(self.file);
        self.file == other.file
            || place(self).is_some_and(|own| Some(own) == place(other))
            || identity.is_some() && identity == FileIdentity::of(other.file)
    }

    /// Returns the file to which a link leads.
    fn target(&self) -> PathBuf {
        canonicalize(self.file).unwrap_or_else(|_| self.file.to_owned())
    }

    fn check_replaceable(&self) -> Result<(), String> {
        let (name, target) = (self.file.printable(), self.target());
        let identity = FileIdentity::of(self.file);
        if self.inputs.iter().any(|input| identity.is_some() && identity == FileIdentity::of(input)) {
            return Err(format!("{name} is an input of this command; write to another file"));
        }
        if self.file.is_symlink() && !is_trusted_link(self.file) {
            return Err(format!(
                "{name} is a link in a directory that other users can write to; write to another file"
            ));
        }
        let dir = dir_of(&target);
        if !dir.is_dir() {
            return Err(format!("{name}: there is no directory {}", dir.printable()));
        }
        if target.is_dir() {
            return Err(format!("{name} is a directory"));
        }
        if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(format!("{name} is not a regular file; write to a file"));
        }
        let is_in = |values: PathBuf| canonicalize(dir).is_ok_and(|dir| dir.starts_with(values));
        if self.inputs.iter().any(|input| canonicalize(values_dir(input)).is_ok_and(is_in)) {
            return Err(format!(
                "{name} is in the directory with the values of the capture; write to another directory"
            ));
        }
        if self.force || is_replaceable(&target, self.kind.is_start).map_err(|error| self.cannot("read", &error))? {
            return Ok(());
        }
        Err(format!("{name} exists and is not {}; name another file, or add --force", self.kind.name))
    }

    fn cannot(&self, what: &str, error: &io::Error) -> String {
        let help = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space, or name a file on another disk",
            ErrorKind::FileTooLarge => "; raise the limit (ulimit -f)",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "; name a file in a directory that this user can write to"
            }
            _ => "",
        };
        format!("cannot {what} {}: {error}{help}", self.file.printable())
    }
}

fn dir_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    const LETTER: OutputKind = OutputKind { name: "a letter", is_start: |start| start.starts_with(b"Dear ") };

    fn write(file: &Path, inputs: &[&Path], force: bool) -> Result<(), String> {
        let output = Output { file, kind: &LETTER, inputs, force };
        output.check()?;
        output.write(|file| file.write_all(b"Dear reader"))
    }

    #[test]
    fn only_files_of_the_same_kind_are_replaced_without_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, content, is_replaced) in [
            ("letter", "Dear friend", true),
            ("empty", "", true),
            ("source.py", "import os", false),
            ("short", "D", false),
        ] {
            std::fs::write(path(name), content).unwrap();
            let written = write(&path(name), &[], false);
            assert_eq!(written.is_ok(), is_replaced, "{name}: {written:?}");
            let expected = if is_replaced { "Dear reader" } else { content };
            assert_eq!(std::fs::read_to_string(path(name)).unwrap(), expected);
            write(&path(name), &[], true).unwrap();
            assert_eq!(std::fs::read_to_string(path(name)).unwrap(), "Dear reader");
        }
        symlink(path("nowhere"), path("dangling")).unwrap();
        symlink(path("letter"), path("link")).unwrap();
        let refused = write(&path("dangling"), &[], false).unwrap_err();
        assert!(refused.contains("exists and is not a letter; name another file, or add --force"), "{refused}");
        write(&path("dangling"), &[], true).unwrap();
        assert!(!path("nowhere").exists(), "a file was created where somebody's link leads");
        write(&path("link"), &[], false).unwrap();
        assert!(path("link").is_symlink() && write(dir.path(), &[], true).unwrap_err().contains("is a directory"));
    }

    #[test]
    fn a_link_that_another_user_may_have_made_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt, lchown};

        let dir = tempfile::tempdir().unwrap();
        let [target, shared] = ["target", "shared"].map(|name| dir.path().join(name));
        let link = shared.join("link");
        std::fs::create_dir(&shared).unwrap();
        std::fs::write(&target, "Dear friend").unwrap();
        symlink(&target, &link).unwrap();
        let set_mode = |mode| std::fs::set_permissions(&shared, PermissionsExt::from_mode(mode)).unwrap();
        set_mode(0o1777);
        write(&link, &[], false).unwrap();
        std::fs::write(&target, "Dear friend").unwrap();
        // Only root can change the owner of links. Without the sticky bit, other users can replace this user's link.
        if lchown(&link, Some(65534), None).is_err() {
            set_mode(0o777);
        }
        for force in [false, true] {
            let refused = write(&link, &[], force).unwrap_err();
            assert!(refused.contains("is a link in a directory that other users can write to"), "{refused}");
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "Dear friend");
    }

    #[test]
    fn devices_pipes_and_sockets_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for file in [&pipe, &socket, Path::new("/dev/null")] {
            let output = Output { file, kind: &LETTER, inputs: &[], force: true };
            for refused in [output.check().unwrap_err(), output.write(|_| Ok(())).unwrap_err()] {
                assert!(refused.contains("is not a regular file; write to a file"), "{refused}");
            }
        }
    }

    #[test]
    fn no_option_replaces_an_input() {
        let dir = tempfile::tempdir().unwrap();
        let [input, hard, soft] = ["input", "hard", "soft"].map(|name| dir.path().join(name));
        std::fs::write(&input, "Dear friend").unwrap();
        std::fs::hard_link(&input, &hard).unwrap();
        symlink(&input, &soft).unwrap();
        for output in [&input, &hard, &soft] {
            let refused = write(output, &[Path::new("/dev/null"), &input], true).unwrap_err();
            assert!(refused.contains("is an input of this command"), "{refused}");
        }
        assert_eq!(std::fs::read_to_string(&input).unwrap(), "Dear friend");
    }

    #[test]
    fn two_names_of_a_file_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "").unwrap();
        std::fs::hard_link(path("file"), path("hard")).unwrap();
        symlink(path("file"), path("soft")).unwrap();
        std::fs::create_dir(path("sub")).unwrap();
        let is_same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(path);
            let output = |file| Output { file, kind: &LETTER, inputs: &[], force: false };
            output(&one).is_same_file(&output(&other))
        };
        for (one, other) in [("file", "hard"), ("file", "soft"), ("new", "sub/../new"), ("no/new", "no/new")] {
            assert!(is_same(one, other), "{one} {other}");
        }
        assert!(!is_same("file", "new") && !is_same("new", "sub/new") && !is_same("no/file", "file"));
    }

    #[test]
    fn a_failure_or_another_file_in_the_meantime_leaves_the_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "Dear friend").unwrap();
        let output = Output { file: &file, kind: &LETTER, inputs: &[], force: false };
        for (kind, expected) in [
            (ErrorKind::StorageFull, "no storage space; free some space, or name a file on another disk"),
            (ErrorKind::FileTooLarge, "file too large; raise the limit (ulimit -f)"),
            (ErrorKind::PermissionDenied, "permission denied; name a file in a directory that this user can write to"),
            (ErrorKind::Other, "other error"),
        ] {
            let failed = output.write(|file| file.write_all(b"Dear r").and(Err::<(), _>(kind.into())));
            assert_eq!(failed.unwrap_err(), format!("cannot write {}: {expected}", file.display()));
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "Dear friend");
        std::fs::write(&file, "other").unwrap();
        assert!(output.write(|file| file.write_all(b"Dear reader")).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "other");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
