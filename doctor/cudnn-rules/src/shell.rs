//! Formats shell lines for pasting, quoted by the rules of cudnn-probe. On Windows they are for PowerShell, unless
//! the user selects another shell for `env`.

use cudnn_cli::command::Command;
use cudnn_cli::programs::doctor;
use cudnn_cli::quoting::quoted;
use cudnn_cli::rights::{is_root, others_may_write};
use cudnn_cli::shell::{HERE, SEPARATOR, is_split, set_variable, unset_variable};
use cudnn_probe::facts;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_os::IS_WINDOWS;
use cudnn_os::files::{bytes_of, path_from_bytes};
use cudnn_probe::Os;

use crate::packages::data_dir;

/// Quotes a path as one argument.
pub fn quoted_path(path: &Path) -> String {
    quoted(path)
}

/// Returns the command that checks the environment at this root.
pub fn command_for_environment(root: &Path) -> String {
    format!("{} check --python {}", doctor(), quoted_path(root))
}

/// Returns the line that makes a shell use the cuDNN in this directory.
pub fn use_dir(dir: &Path) -> String {
    let (doctor, dir) = (doctor(), quoted_path(dir));
    match Os::HOST {
        Os::Windows => format!("{doctor} env --shell powershell {dir} | Out-String | Invoke-Expression"),
        _ => format!("eval \"$({doctor} env {dir})\""),
    }
}

/// Returns the line that puts a directory first on the search path: see [`cudnn_cli::shell::Shell::prepend`].
pub fn search_first(dir: &Path) -> Option<String> {
    HERE.prepend(dir)
}

/// Returns the line that removes entries from a list variable.
pub(crate) fn without_entries(name: &str, entries: &[OsString]) -> String {
    match kept_entries(name, &facts::variable(name).unwrap_or_default(), entries) {
        kept if kept.is_empty() => unset_variable(name),
        kept => set_variable(name, kept),
    }
}

/// Returns the value of a list variable without these entries.
pub fn kept_entries(name: &str, value: &OsStr, entries: &[OsString]) -> OsString {
    let kept: Vec<OsString> = split_list(name, value).into_iter().filter(|entry| !entries.contains(entry)).collect();
    kept.join(OsStr::new(SEPARATOR.encode_utf8(&mut [0; 4])))
}

/// Returns a name of the directory that the search path can contain, if necessary a link.
pub fn name_for_search(dir: &Path) -> PathBuf {
    let link = || link_name(dir).map(|(_, name)| name);
    if is_split(dir) { link().unwrap_or_else(|| dir.to_owned()) } else { dir.to_owned() }
}

/// Splits a list variable into its entries. ld.so also splits `LD_LIBRARY_PATH` at semicolons, and `LD_PRELOAD` at
/// spaces.
pub fn split_list(name: &str, value: &OsStr) -> Vec<OsString> {
    match name {
        "LD_LIBRARY_PATH" => split_search_path(value),
        "LD_PRELOAD" => {
            let value = bytes_of(value);
            let entries = value.split(|byte| b" :".contains(byte)).filter(|entry| !entry.is_empty());
            entries.map(|entry| path_from_bytes(entry).into()).collect()
        }
        _ => std::env::split_paths(value).map(OsString::from).collect(),
    }
}

/// A symbolic link to a directory.
pub struct Link {
    /// The path of the link.
    pub name: PathBuf,
    /// The commands that create or replace the link.
    pub commands: Vec<Command>,
}

impl Link {
    /// Returns the commands as one line.
    pub fn line(&self) -> String {
        self.commands.iter().map(Command::to_string).collect::<Vec<_>>().join(" && ")
    }
}

/// Returns a link with a name that the search path can contain, for a directory with an unsuitable name. Returns
/// `None` on Windows, or if the user cannot write to any suitable directory. The command avoids directories that
/// other users can write to, because they could redirect the link.
pub fn link_to(dir: &Path) -> Option<Link> {
    let (links, name) = link_name(dir).filter(|(links, _)| !others_may_write(links))?;
    let make = Command::new("mkdir", ["-p", "-m", "755"]).and([links]);
    let link = Command::new("ln", ["-sfn"]).and([dir, &name]);
    Some(Link { name, commands: vec![make, link] })
}

/// Returns the directory for such links, then the name of the link for this directory.
pub fn link_name(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    if Os::HOST != Os::Linux {
        return None;
    }
    let links = data_dir().filter(|dir| is_root() || !dir.starts_with("/opt"))?.join("cudnn-doctor-links");
    // FNV-1a yields a stable name for the same directory.
    let bytes = dir.as_os_str().as_encoded_bytes();
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let name = links.join(format!("{hash:016x}"));
    (!is_split(&name)).then_some((links, name))
}

/// Returns the elements of the search path, including empty ones.
pub(crate) fn split_search_path(value: &OsStr) -> Vec<OsString> {
    if IS_WINDOWS {
        return std::env::split_paths(value).map(OsString::from).collect();
    }
    let value = bytes_of(value);
    value.split(|byte| b":;".contains(byte)).map(|element| path_from_bytes(element).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_ld_so_would_split_gets_a_link() {
        for dir in ["/opt/a:b", "/opt/a;b", "/opt/$LIB"].map(Path::new) {
            assert_eq!(search_first(dir), None, "{dir:?}");
            let Some(link) = link_to(dir) else { panic!("{dir:?}") };
            assert!(link.line().contains(&format!("ln -sfn {} ", quoted_path(dir))), "{}", link.line());
            assert!(search_first(&link.name).is_some(), "{:?}", link.name);
        }
        assert!(search_first(Path::new("/opt/a b")).is_some_and(|line| line.contains("'/opt/a b'\"$")));
    }
}
