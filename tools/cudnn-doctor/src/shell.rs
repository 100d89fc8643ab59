//! Formats shell lines for pasting, quoted by the rules of cudnn-probe. On Windows they are for PowerShell, unless
//! the user selects another shell for `env`.

use cudnn_probe::facts::{self, PathFacts};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::rights::{is_root, others_may_write};
use cudnn_os::IS_WINDOWS;
use cudnn_os::files::{bytes_of, path_from_bytes};
use cudnn_os::processes::names_of_parents;
use cudnn_os::program::{executable, launcher};
use cudnn_probe::Os;

use crate::packages::{Command, data_dir, path_dirs, powershell_literal, quoted, quoted_for_sh};

/// A supported shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[allow(clippy::enum_variant_names, reason = "it is the name of that shell")]
pub(crate) enum Shell {
    /// A POSIX shell: bash, zsh, dash.
    Sh,
    /// PowerShell.
    #[value(name = "powershell")]
    PowerShell,
    /// Windows' cmd.
    Cmd,
}

/// The default shell for pasted lines.
const HERE: Shell = match Os::HOST {
    Os::Windows => Shell::PowerShell,
    _ => Shell::Sh,
};

/// The variable with the directories searched by the system's library loader.
pub(crate) const SEARCH_PATH: &str = match Os::HOST {
    Os::Windows => "PATH",
    _ => "LD_LIBRARY_PATH",
};

/// The separator for writing that variable and `PATH`.
pub(crate) const SEPARATOR: char = match Os::HOST {
    Os::Windows => ';',
    _ => ':',
};

impl Shell {
    /// Returns the shell that started this program, or the default shell if it is unknown.
    pub(crate) fn detect() -> Shell {
        let of_name = |name: &String| match name.trim_end_matches(".exe") {
            "cmd" => Some(Shell::Cmd),
            "powershell" | "pwsh" => Some(Shell::PowerShell),
            "bash" | "sh" | "zsh" | "dash" => Some(Shell::Sh),
            _ => None,
        };
        let names: Vec<String> = facts::ask("names of parent processes", "", names_of_parents);
        names.iter().find_map(of_name).unwrap_or(HERE)
    }

    /// Returns the line that sets a variable, or `None` if the shell cannot represent the value.
    pub(crate) fn set(self, name: &str, value: impl AsRef<OsStr>) -> Option<String> {
        let value = value.as_ref();
        Some(match self {
            Shell::Sh => format!("export {name}={}", quoted_for_sh(value)),
            Shell::PowerShell => format!("$env:{name} = {}", powershell_literal(value)),
            Shell::Cmd => format!("set \"{name}={}\"", for_cmd(value)?),
        })
    }

    /// Returns the line that puts a directory first on the loader's search path. Returns `None` if the path cannot
    /// contain its name: ld.so splits at colons and semicolons and expands `$`, and Windows splits at semicolons.
    pub(crate) fn prepend(self, dir: &Path) -> Option<String> {
        let name = SEARCH_PATH;
        if is_split(dir) {
            return None;
        }
        Some(match (self, Os::HOST) {
            // POSIX-like shells on Windows use their own path format.
            (Shell::Sh, Os::Windows) => {
                format!("export {name}=\"$(cygpath -u {}):${name}\"", quoted_for_sh(dir))
            }
            (Shell::Sh, _) => format!("export {name}={}\"${{{name}:+{SEPARATOR}${name}}}\"", quoted_for_sh(dir)),
            (Shell::PowerShell, _) => {
                let dir = powershell_literal(dir);
                format!("$env:{name} = {dir} + $(if ($env:{name}) {{ '{SEPARATOR}' + $env:{name} }})")
            }
            // `call` expands the line a second time, which `for` does not do. In a batch file the first expansion has
            // already happened. `call` also doubles `^`.
            (Shell::Cmd, _) => {
                let dir = for_cmd(dir.as_os_str()).filter(|dir| !dir.contains('^'))?;
                format!("call set \"{name}={dir}{SEPARATOR}%{name}%\"")
            }
        })
    }
}

/// Returns a value that is safe in `set \"NAME=VALUE\"`. cmd expands `%` even in quotes and reads a single line.
fn for_cmd(value: &OsStr) -> Option<&str> {
    let value = value.to_str()?;
    (!value.contains(['%', '"']) && !value.contains(char::is_control)).then_some(value)
}

/// Quotes a path as one argument.
pub(crate) fn quoted_path(path: &Path) -> String {
    quoted(path)
}

/// Returns the doctor's name if it is on `PATH`, otherwise its full path, as a shell word.
pub(crate) fn doctor() -> String {
    doctor_command([""; 0]).to_string()
}

/// Returns the doctor as a command with these arguments.
pub(crate) fn doctor_command<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Command {
    const NAME: &str = "cudnn-doctor";
    let arguments = arguments.into_iter().map(Into::into);
    let Ok(program) = facts::ask("doctor", "", executable) else { return Command::new(NAME, arguments) };
    let words: Vec<OsString> = facts::ask("launcher of doctor", "", launcher);
    let mut words = words.into_iter();
    if let Some(loader) = words.next() {
        return Command::new(loader, words.chain([program.into_os_string()]).chain(arguments));
    }
    let name = format!("{NAME}{}", std::env::consts::EXE_SUFFIX);
    let first = path_dirs().into_iter().map(|dir| dir.join(&name)).find(|file| file.leads_to_file());
    let real = |file: PathBuf| cudnn_probe::canonicalize(file).ok();
    let is_this = first.and_then(real).is_some_and(|file| Some(file) == real(program.clone()));
    if is_this { Command::new(NAME, arguments) } else { Command::new(program, arguments) }
}

/// Returns the command that checks the environment at this root.
pub(crate) fn command_for_environment(root: &Path) -> String {
    format!("{} check --python {}", doctor(), quoted_path(root))
}

/// Returns the line that makes a shell use the cuDNN in this directory.
pub(crate) fn use_dir(dir: &Path) -> String {
    let (doctor, dir) = (doctor(), quoted_path(dir));
    match Os::HOST {
        Os::Windows => format!("{doctor} env --shell powershell {dir} | Out-String | Invoke-Expression"),
        _ => format!("eval \"$({doctor} env {dir})\""),
    }
}

/// Returns the line that sets a variable.
pub(crate) fn set_variable(name: &str, value: impl AsRef<OsStr>) -> String {
    HERE.set(name, value).unwrap_or_default()
}

/// Returns the line that removes a variable.
pub(crate) fn unset_variable(name: &str) -> String {
    match Os::HOST {
        Os::Windows => format!("Remove-Item Env:{name}"),
        _ => format!("unset {name}"),
    }
}

/// Returns the line that puts a directory first on [`SEARCH_PATH`]: see [`Shell::prepend`].
pub(crate) fn search_first(dir: &Path) -> Option<String> {
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
pub(crate) fn kept_entries(name: &str, value: &OsStr, entries: &[OsString]) -> OsString {
    let kept: Vec<OsString> = split_list(name, value).into_iter().filter(|entry| !entries.contains(entry)).collect();
    kept.join(OsStr::new(SEPARATOR.encode_utf8(&mut [0; 4])))
}

/// Returns a name of the directory that the search path can contain, if necessary a link.
pub(crate) fn name_for_search(dir: &Path) -> PathBuf {
    let link = || link_name(dir).map(|(_, name)| name);
    if is_split(dir) { link().unwrap_or_else(|| dir.to_owned()) } else { dir.to_owned() }
}

/// Splits a list variable into its entries. ld.so also splits `LD_LIBRARY_PATH` at semicolons, and `LD_PRELOAD` at
/// spaces.
pub(crate) fn split_list(name: &str, value: &OsStr) -> Vec<OsString> {
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
pub(crate) struct Link {
    pub(crate) name: PathBuf,
    /// The commands that create or replace the link.
    pub(crate) commands: Vec<Command>,
}

impl Link {
    /// Returns the commands as one line.
    pub(crate) fn line(&self) -> String {
        self.commands.iter().map(Command::to_string).collect::<Vec<_>>().join(" && ")
    }
}

/// Returns a link with a name that the search path can contain, for a directory with an unsuitable name. Returns
/// `None` on Windows, or if the user cannot write to any suitable directory. The command avoids directories that
/// other users can write to, because they could redirect the link.
pub(crate) fn link_to(dir: &Path) -> Option<Link> {
    let (links, name) = link_name(dir).filter(|(links, _)| !others_may_write(links))?;
    let make = Command::new("mkdir", ["-p", "-m", "755"]).and([links]);
    let link = Command::new("ln", ["-sfn"]).and([dir, &name]);
    Some(Link { name, commands: vec![make, link] })
}

/// Returns the directory for such links, then the name of the link for this directory.
pub(crate) fn link_name(dir: &Path) -> Option<(PathBuf, PathBuf)> {
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

/// Returns whether the loader would split or expand the name of this directory.
fn is_split(dir: &Path) -> bool {
    let separators: &[u8] = if IS_WINDOWS { b";" } else { b":;$" };
    dir.as_os_str().as_encoded_bytes().iter().any(|byte| separators.contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_os::escape::is_unsafe;

    #[test]
    fn a_line_to_paste_has_no_character_that_a_terminal_would_interpret() {
        for unsafe_one in ('\0'..=char::MAX).filter(|c| is_unsafe(*c)) {
            for shell in [Shell::Sh, Shell::PowerShell] {
                let line = shell.set("X", format!("a{unsafe_one}b")).unwrap_or_default();
                assert!(line.is_ascii() && !line.contains(char::is_control), "{line:?}");
            }
            assert!(!quoted(format!("a{unsafe_one}b")).contains(unsafe_one));
        }
    }

    #[test]
    fn each_shell_sets_a_variable_in_its_way() {
        for (shell, value, expected) in [
            (Shell::Sh, "/a b", Some("export X='/a b'")),
            (Shell::PowerShell, r"C:\a $b", Some(r"$env:X = 'C:\a $b'")),
            (Shell::PowerShell, r"C:\gr\u{f6}", Some(r"$env:X = ")),
            (Shell::Cmd, r"C:\a b & c", Some(r#"set "X=C:\a b & c""#)),
            (Shell::Cmd, r"C:\%PATH%", None),
            (Shell::Cmd, "a\nb", None),
        ] {
            let line = shell.set("X", value);
            assert_eq!(line.is_some(), expected.is_some(), "{value}: {line:?}");
            assert!(line.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{value}");
        }
    }

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
