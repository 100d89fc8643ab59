//! Lines for a shell: quotes all output that is meant to be pasted, by the probe's rules. On Windows, lines are for
//! PowerShell, unless `env` is asked for another shell.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_probe::Os;
use cudnn_probe::packages::{Command, powershell_literal, quoted, quoted_for_sh};

use crate::platform::{
    data_dir, executable, is_root, is_search_path_separator, launcher, names_of_parents, others_may_write,
    split_search_path,
};

/// The shells whose lines are known.
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

/// The shell for lines that are pasted.
const HERE: Shell = match Os::HOST {
    Os::Windows => Shell::PowerShell,
    _ => Shell::Sh,
};

/// The variable with the directories that the system's loader of libraries searches.
pub(crate) const SEARCH_PATH: &str = match Os::HOST {
    Os::Windows => "PATH",
    _ => "LD_LIBRARY_PATH",
};

/// What is between the directories on that variable and on `PATH`, to be written.
pub(crate) const SEPARATOR: char = match Os::HOST {
    Os::Windows => ';',
    _ => ':',
};

impl Shell {
    /// The shell that has started this program; the usual one if that is unknown.
    pub(crate) fn detect() -> Shell {
        let of_name = |name: &String| match name.trim_end_matches(".exe") {
            "cmd" => Some(Shell::Cmd),
            "powershell" | "pwsh" => Some(Shell::PowerShell),
            "bash" | "sh" | "zsh" | "dash" => Some(Shell::Sh),
            _ => None,
        };
        names_of_parents().iter().find_map(of_name).unwrap_or(HERE)
    }

    /// The line that sets a variable; `None` for a value that the shell cannot be given.
    pub(crate) fn set(self, name: &str, value: impl AsRef<OsStr>) -> Option<String> {
        let value = value.as_ref();
        Some(match self {
            Shell::Sh => format!("export {name}={}", quoted_for_sh(value)),
            Shell::PowerShell => format!("$env:{name} = {}", powershell_literal(value)),
            Shell::Cmd => format!("set \"{name}={}\"", for_cmd(value)?),
        })
    }

    /// The line that puts a directory first on the variable that the system's loader searches; `None` for a name that it
    /// cannot contain: ld.so splits it at colons and semicolons, and expands `$`; Windows splits it at semicolons.
    pub(crate) fn prepend(self, dir: &Path) -> Option<String> {
        let name = SEARCH_PATH;
        if is_split(dir) {
            return None;
        }
        Some(match (self, Os::HOST) {
            // The shells of Windows that are like POSIX's have paths of their own.
            (Shell::Sh, Os::Windows) => {
                format!("export {name}=\"$(cygpath -u {}):${name}\"", quoted_for_sh(dir))
            }
            (Shell::Sh, _) => format!("export {name}={}\"${{{name}:+{SEPARATOR}${name}}}\"", quoted_for_sh(dir)),
            (Shell::PowerShell, _) => {
                let dir = powershell_literal(dir);
                format!("$env:{name} = {dir} + $(if ($env:{name}) {{ '{SEPARATOR}' + $env:{name} }})")
            }
            // `call` expands the line once more: `for` does not, and a batch file has done so already. It doubles `^`.
            (Shell::Cmd, _) => {
                let dir = for_cmd(dir.as_os_str()).filter(|dir| !dir.contains('^'))?;
                format!("call set \"{name}={dir}{SEPARATOR}%{name}%\"")
            }
        })
    }
}

/// A value between the quotes of `set \"NAME=VALUE\"`. No quotes keep cmd from expanding `%`, and it reads one line.
fn for_cmd(value: &OsStr) -> Option<&str> {
    let value = value.to_str()?;
    (!value.contains(['%', '"']) && !value.contains(char::is_control)).then_some(value)
}

/// A path as one argument.
pub(crate) fn quoted_path(path: &Path) -> String {
    quoted(path)
}

/// The doctor itself as a command: its name if `PATH` leads to it, else its path.
pub(crate) fn doctor() -> String {
    const NAME: &str = "cudnn-doctor";
    let Ok(program) = executable() else { return NAME.to_owned() };
    let mut words = launcher().into_iter();
    if let Some(loader) = words.next() {
        return Command::new(loader, words.chain([program.into_os_string()])).to_string();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = format!("{NAME}{}", std::env::consts::EXE_SUFFIX);
    let first = std::env::split_paths(&path).map(|dir| dir.join(&name)).find(|file| file.is_file());
    let real = |file: PathBuf| cudnn_probe::canonicalize(file).ok();
    let is_this = first.and_then(real).is_some_and(|file| Some(file) == real(program.clone()));
    if is_this { NAME.to_owned() } else { Command::new(program, [""; 0]).to_string() }
}

/// The command that checks the environment at this root.
pub(crate) fn command_for_environment(root: &Path) -> String {
    format!("{} check --python {}", doctor(), quoted_path(root))
}

/// The line that has the shell use the cuDNN in this directory.
pub(crate) fn use_dir(dir: &Path) -> String {
    let (doctor, dir) = (doctor(), quoted_path(dir));
    match Os::HOST {
        Os::Windows => format!("{doctor} env --shell powershell {dir} | Out-String | Invoke-Expression"),
        _ => format!("eval \"$({doctor} env {dir})\""),
    }
}

/// Is this a line of [`use_dir`]?
pub(crate) fn is_use_line(line: &str) -> bool {
    line.starts_with("eval ") || line.ends_with("| Invoke-Expression")
}

/// The line that sets a variable.
pub(crate) fn set_variable(name: &str, value: impl AsRef<OsStr>) -> String {
    HERE.set(name, value).unwrap_or_default()
}

/// The line that removes a variable.
pub(crate) fn unset_variable(name: &str) -> String {
    match Os::HOST {
        Os::Windows => format!("Remove-Item Env:{name}"),
        _ => format!("unset {name}"),
    }
}

/// The line that puts a directory first on [`SEARCH_PATH`]: see [`Shell::prepend`]. A name that cannot be there gets a link.
pub(crate) fn prepend_library_path(dir: &Path) -> Option<String> {
    HERE.prepend(dir).or_else(|| {
        let link = link_to(dir)?;
        Some(format!("{} && {}", link.command, HERE.prepend(&link.name)?))
    })
}

/// The line that takes these canonical directories away from the search path; `None` if it contains none of them.
pub(crate) fn library_path_without(dirs: &[PathBuf], library_path: &OsStr) -> Option<String> {
    let is_removed = |entry: &OsString| {
        let entry = Path::new(if entry.is_empty() { OsStr::new(".") } else { entry });
        cudnn_probe::canonicalize(entry).is_ok_and(|entry| dirs.contains(&entry))
    };
    let entries = split_search_path(library_path).into_iter();
    let (removed, kept): (Vec<OsString>, Vec<OsString>) = entries.partition(is_removed);
    if removed.is_empty() {
        return None;
    }
    Some(match kept.join(OsStr::new(SEPARATOR.encode_utf8(&mut [0; 4]))) {
        kept if kept.is_empty() => unset_variable(SEARCH_PATH),
        kept => set_variable(SEARCH_PATH, kept),
    })
}

/// The command that removes the files of cuDNN 9 from a directory: not cuDNN 8, static libraries or other files. `None` if
/// none can be seen there. It names each file: zsh runs no command with a pattern that fits none.
pub(crate) fn removal(dir: &Path) -> Option<String> {
    if Os::HOST == Os::Windows {
        let dir = powershell_literal(dir);
        return Some(format!("Get-ChildItem -LiteralPath {dir} -Filter cudnn*64_9.dll | Remove-Item"));
    }
    let is_cudnn_9 = |name: &str| {
        let Some((stem, version)) = name.split_once(".so.") else { return false };
        (stem == "libcudnn" || stem.starts_with("libcudnn_")) && (version == "9" || version.starts_with("9."))
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_cudnn_9))
        .map(|entry| dir.join(entry.file_name()))
        .collect();
    files.sort();
    let files: Vec<String> = files.iter().map(|file| quoted_path(file)).collect();
    (!files.is_empty()).then(|| format!("rm -f {}", files.join(" ")))
}

/// The command that removes a file.
pub(crate) fn removal_of(file: &Path) -> String {
    match Os::HOST {
        Os::Windows => format!("Remove-Item -LiteralPath {}", powershell_literal(file)),
        _ => format!("rm {}", quoted(file)),
    }
}

/// The command that removes a directory with all that is in it.
pub(crate) fn removal_of_dir(dir: &Path) -> String {
    match Os::HOST {
        Os::Windows => format!("Remove-Item -Recurse -LiteralPath {}", powershell_literal(dir)),
        _ => format!("rm -r {}", quoted(dir)),
    }
}

/// A symbolic link to a directory.
pub(crate) struct Link {
    pub(crate) name: PathBuf,
    /// The command that makes it, or makes it again.
    pub(crate) command: String,
}

/// A link under a name that a search path can contain, for a directory whose name it cannot contain. `None` on Windows,
/// and if this user can write to no directory with such a name. The command does not use a directory of links to which
/// other users may write: they could have other libraries loaded.
pub(crate) fn link_to(dir: &Path) -> Option<Link> {
    let (links, name) = link_name(dir).filter(|(links, _)| !others_may_write(links))?;
    let command = format!("{MKDIR}{}{LINKS}{} {}", quoted(&links), quoted(dir), quoted(&name));
    Some(Link { name, command })
}

/// The directory of such links, and the name of the one for this directory.
pub(crate) fn link_name(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    if Os::HOST != Os::Linux {
        return None;
    }
    let links = data_dir().filter(|dir| is_root() || !dir.starts_with("/opt"))?.join("cudnn-doctor-links");
    // FNV-1a: the same directory gets the same name each time.
    let bytes = dir.as_os_str().as_encoded_bytes();
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let name = links.join(format!("{hash:016x}"));
    (!is_split(&name)).then_some((links, name))
}

/// What is before and between the names in [`link_to`]'s command.
const MKDIR: &str = "mkdir -p -m 755 ";
const LINKS: &str = " && ln -sfn ";

/// Does this line make a link before it sets the search path?
pub(crate) fn is_through_link(line: &str) -> bool {
    line.starts_with(MKDIR) && line.contains(LINKS)
}

/// Would the system's loader split the name of this directory, or replace a part of it?
fn is_split(dir: &Path) -> bool {
    dir.as_os_str().as_encoded_bytes().iter().any(|byte| is_search_path_separator(*byte))
}

/// The command that prints the sha256 of each library of cuDNN in a directory.
pub(crate) fn sums_of_cudnn(dir: &Path) -> String {
    match Os::HOST {
        Os::Windows => {
            format!("Get-ChildItem -LiteralPath {} -Filter cudnn*64_9.dll | Get-FileHash", powershell_literal(dir))
        }
        _ => format!("sha256sum {}/libcudnn*.so.9", quoted_path(dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::is_unsafe;

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
    fn a_directory_is_taken_away_from_the_search_path() {
        let without = |path: &str| library_path_without(&["/usr".into()], OsStr::new(path));
        assert_eq!(without("/opt/a b:/usr;/usr/../usr/:$x").as_deref(), Some("export LD_LIBRARY_PATH='/opt/a b:$x'"));
        assert_eq!(without("/usr").as_deref(), Some("unset LD_LIBRARY_PATH"));
        assert_eq!(without("/opt/a"), None);
    }

    #[test]
    fn a_directory_that_ld_so_would_split_gets_a_link() {
        for dir in ["/opt/a:b", "/opt/a;b", "/opt/$LIB"].map(Path::new) {
            assert!(HERE.prepend(dir).is_none(), "{dir:?}");
            let line = prepend_library_path(dir).unwrap_or_default();
            let name = link_to(dir).map(|link| link.name).unwrap_or_default();
            let set = line.split_once(" && export ").unwrap_or_default().1;
            assert!(is_through_link(&line) && line.contains(&format!("ln -sfn {} ", quoted(dir))), "{line}");
            assert!(set.contains(&quoted(&name)) && !set.contains(&quoted(dir)), "{line}");
        }
        assert!(prepend_library_path(Path::new("/opt/a b")).is_some_and(|line| line.contains("'/opt/a b'\"$")));
    }
}
