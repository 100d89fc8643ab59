//! Lines for shells that set variables, with the shell's quotes. On Windows, the default shell is PowerShell.

use std::ffi::OsStr;
use std::path::Path;

use cudnn_os::processes::names_of_parents;
use cudnn_probe::{Os, facts};

use crate::escape::Printable;
use crate::quoting::{powershell_literal, quoted_for_sh};

/// A supported shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[allow(clippy::enum_variant_names, reason = "it is the name of that shell")]
pub enum Shell {
    /// A POSIX shell: bash, zsh, dash.
    Sh,
    /// PowerShell.
    #[value(name = "powershell")]
    PowerShell,
    /// Windows' cmd.
    Cmd,
}

/// The default shell for pasted lines.
pub const HERE: Shell = match Os::HOST {
    Os::Windows => Shell::PowerShell,
    _ => Shell::Sh,
};

/// The variable with the search path of the system's library loader.
pub const SEARCH_PATH: &str = match Os::HOST {
    Os::Windows => "PATH",
    _ => "LD_LIBRARY_PATH",
};

/// The separator of directories in that variable and `PATH`.
pub const SEPARATOR: char = match Os::HOST {
    Os::Windows => ';',
    _ => ':',
};

impl Shell {
    /// Returns the shell that started this program, or the default shell.
    pub fn detect() -> Shell {
        let of_name = |name: &String| match name.trim_end_matches(".exe") {
            "cmd" => Some(Shell::Cmd),
            "powershell" | "pwsh" => Some(Shell::PowerShell),
            "bash" | "sh" | "zsh" | "dash" => Some(Shell::Sh),
            _ => None,
        };
        let names: Vec<String> = facts::ask("names of parent processes", "", names_of_parents);
        names.iter().find_map(of_name).unwrap_or(HERE)
    }

    /// Returns the line that sets a variable.
    ///
    /// # Errors
    /// Returns what to do instead if cmd cannot represent the value.
    pub fn set(self, name: &str, value: impl AsRef<OsStr>) -> Result<String, String> {
        let value = value.as_ref();
        Ok(match self {
            Shell::Sh => format!("export {name}={}", quoted_for_sh(value)),
            Shell::PowerShell => format!("$env:{name} = {}", powershell_literal(value)),
            Shell::Cmd => format!("set \"{name}={}\"", for_cmd(value, &['%', '"'])?),
        })
    }

    /// Returns the line that puts a directory first on the loader's search path.
    ///
    /// # Errors
    /// Returns what to do instead if the path or cmd cannot represent the directory.
    pub fn prepend(self, dir: &Path) -> Result<String, String> {
        let name = SEARCH_PATH;
        check_searchable(dir)?;
        Ok(match (self, Os::HOST) {
            // These shells on Windows have their own path format.
            (Shell::Sh, Os::Windows) => {
                format!("export {name}=\"$(cygpath -u {}):${name}\"", quoted_for_sh(dir))
            }
            (Shell::Sh, _) => format!("export {name}={}\"${{{name}:+{SEPARATOR}${name}}}\"", quoted_for_sh(dir)),
            (Shell::PowerShell, _) => {
                let dir = powershell_literal(dir);
                format!("$env:{name} = {dir} + $(if ($env:{name}) {{ '{SEPARATOR}' + $env:{name} }})")
            }
            // `for` does not expand the line, and a batch file expands it too early, so `call` expands it again. `call`
            // also doubles `^`.
            (Shell::Cmd, _) => {
                let dir = for_cmd(dir.as_os_str(), &['%', '"', '^'])?;
                format!("call set \"{name}={dir}{SEPARATOR}%{name}%\"")
            }
        })
    }
}

/// Returns a value that is safe in `set "NAME=VALUE"`, or an alternative to cmd if it contains these characters. cmd
/// expands `%` even in quotes, and reads one line.
fn for_cmd<'a>(value: &'a OsStr, special: &[char]) -> Result<&'a str, String> {
    let reason = match value.to_str() {
        None => "it is not Unicode".to_owned(),
        Some(text) => match text.chars().find(|found| special.contains(found) || found.is_control()) {
            None => return Ok(text),
            Some(found) if found.is_control() => "it has a control character".to_owned(),
            Some(found) => format!("it contains {found}"),
        },
    };
    let value = Path::new(value).printable();
    Err(format!("cmd cannot represent {value}, because {reason}: use PowerShell (--shell powershell)"))
}

/// Returns the line that sets a variable in the default shell.
pub fn set_variable(name: &str, value: impl AsRef<OsStr>) -> String {
    HERE.set(name, value).unwrap_or_default()
}

/// Returns the line that removes a variable in the default shell.
pub fn unset_variable(name: &str) -> String {
    match Os::HOST {
        Os::Windows => format!("Remove-Item Env:{name}"),
        _ => format!("unset {name}"),
    }
}

/// Checks whether the loader's search path can contain a directory: ld.so splits at colons and semicolons and expands
/// `$`, and Windows splits at semicolons.
///
/// # Errors
/// Returns what to do instead.
pub fn check_searchable(dir: &Path) -> Result<(), String> {
    let (separators, names, link) = match Os::HOST {
        Os::Windows => (&b";"[..], "a semicolon", "junction"),
        _ => (&b":;$"[..], "a colon, a semicolon or a dollar sign", "symbolic link"),
    };
    if !dir.as_os_str().as_encoded_bytes().iter().any(|byte| separators.contains(byte)) {
        return Ok(());
    }
    let dir = dir.printable();
    Err(format!(
        "{SEARCH_PATH} cannot contain the name of {dir}, which has {names}: make a {link} to it, and use the name of the link"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quoting::quoted;
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
            assert_eq!(line.is_ok(), expected.is_some(), "{value}: {line:?}");
            assert!(line.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{value}");
        }
    }

    #[test]
    fn a_value_that_cmd_cannot_represent_is_refused_with_the_reason() {
        for (value, expected) in
            [(r"C:\%A%", "it contains %"), (r#"a"b"#, "it contains \""), ("a\nb", "a control character")]
        {
            let refused = Shell::Cmd.set("X", value).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        assert_eq!(Shell::Cmd.set("X", "a^b").as_deref(), Ok(r#"set "X=a^b""#));
        let refused = Shell::Cmd.prepend(Path::new("a^b")).unwrap_err();
        assert!(refused.contains("it contains ^") && !refused.contains('%'), "{refused}");
    }
}
