//! A command for a person to run, and text as one word of a POSIX shell. Nothing here runs.

use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::escape::is_unprintable;
use crate::platform::bytes_of;

/// A command for a person to run. `Display` renders it for a POSIX shell, with each argument quoted where necessary.
///
/// ```
/// use cudnn_probe::packages::Command;
/// let command = Command::new("pip", ["install", "nvidia-cudnn-cu12>=9.10"]);
/// assert_eq!(command.to_string(), "pip install 'nvidia-cudnn-cu12>=9.10'");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Command {
    /// The program: a name to find on `PATH`, or a path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Command {
    /// A command.
    #[must_use]
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, arguments: impl IntoIterator<Item = A>) -> Self {
        Command { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// Does it need the rights of the administrator, as commands for the system's packages do?
    #[must_use]
    pub fn needs_root(&self) -> bool {
        ["apt-get", "apt-mark", "dnf", "zypper"].iter().any(|program| self.program == *program)
    }

    pub(super) fn and<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.program))?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// Commands as one line for a POSIX shell: each runs only if the one before it succeeded.
#[must_use]
pub fn command_line(commands: &[Command]) -> String {
    commands.iter().map(Command::to_string).collect::<Vec<_>>().join(" && ")
}

/// Text or a path as one word of a POSIX shell. The word is on one line and harmless on a terminal: `printf` makes
/// control characters, characters that change the direction of writing, and bytes that are not UTF-8.
///
/// `$(..)` drops line breaks at the end, and no other word of a POSIX shell is on one line. A trailing `/` keeps
/// them, so the word for such a name means a directory.
#[must_use]
pub fn quoted(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref();
    let Some(text) = text.to_str().filter(|text| !text.chars().any(is_unprintable)) else {
        let bytes = bytes_of(text);
        let end: &[u8] = if bytes.ends_with(b"\n") { b"/" } else { b"" };
        let escaped = |(index, byte): (usize, &u8)| match byte {
            // `%` and `\` are special to printf, `-` may begin an option, and `!` may recall a command.
            b'\'' | b'\\' | b'%' | b'!' => format!("\\{byte:03o}"),
            b' '..=b'~' if (index, byte) != (0, &b'-') => char::from(*byte).to_string(),
            other => format!("\\{other:03o}"),
        };
        return format!("\"$(printf '{}')\"", bytes.iter().chain(end).enumerate().map(escaped).collect::<String>());
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    // A `=` in the first word of a command would be an assignment.
    let is_word = !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain);
    if is_word { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_the_systems_packages_need_root() {
        for (program, expected) in
            [("apt-get", true), ("dnf", true), ("zypper", true), ("pip", false), ("conda", false), ("uv", false)]
        {
            assert_eq!(Command::new(program, ["install"]).needs_root(), expected, "{program}");
        }
    }

    #[test]
    fn any_text_is_one_word_of_the_shell() {
        assert_eq!(quoted("/opt/cudnn-9.1/lib"), "/opt/cudnn-9.1/lib");
        assert_eq!(quoted("/a b/$(rm)/it's"), "'/a b/$(rm)/it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("~/x"), "'~/x'");
        assert_eq!(quoted("/größe"), "'/größe'");
        assert_eq!(quoted("\u{1b}[31m it's\n1"), r#""$(printf '\033[31m it\047s\0121')""#);
        assert_eq!(quoted("\u{202e}x%"), r#""$(printf '\342\200\256x\045')""#);
        assert_eq!(quoted("-n-\u{7f}"), r#""$(printf '\055n-\177')""#);
        assert_eq!(quoted("/x\n"), r#""$(printf '/x\012/')""#);
    }
}
