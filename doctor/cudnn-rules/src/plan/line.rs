//! Represents one line of a plan, with remarks for the text of a finding.

use std::fmt;

use cudnn_cli::command::Command;
use cudnn_probe::Os;

/// A line of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Programs that run in sequence until one fails.
    Run(Vec<Command>),
    /// Programs that set something aside first, and remove it at the end.
    Guarded {
        /// All programs.
        commands: Vec<Command>,
        /// The programs that restore what was set aside after a failure. `fix` does so itself.
        put_back: Vec<Command>,
    },
    /// A line that must run in the shell that starts the user's programs.
    Shell(String),
}

impl From<Command> for Line {
    fn from(command: Command) -> Self {
        Line::Run(vec![command])
    }
}

impl Line {
    /// Returns the programs that the doctor can run.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        let commands = match self {
            Line::Run(commands) | Line::Guarded { commands, .. } => commands.as_slice(),
            Line::Shell(_) => &[],
        };
        commands.iter()
    }

    pub(super) fn commands_mut(&mut self) -> impl Iterator<Item = &mut Command> {
        let (commands, put_back) = match self {
            Line::Run(commands) => (commands.as_mut_slice(), [].as_mut_slice()),
            Line::Guarded { commands, put_back } => (commands.as_mut_slice(), put_back.as_mut_slice()),
            Line::Shell(_) => ([].as_mut_slice(), [].as_mut_slice()),
        };
        commands.iter_mut().chain(put_back)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Run(commands) => f.write_str(&joined(commands, " && ")),
            Line::Guarded { commands, put_back } => f.write_str(&guarded(Os::HOST, commands, put_back)),
            Line::Shell(line) => f.write_str(line),
        }
    }
}

fn joined(commands: &[Command], separator: &str) -> String {
    commands.iter().map(Command::to_string).collect::<Vec<_>>().join(separator)
}

/// Returns a line for the user's shell that restores what was set aside if a command fails. Windows PowerShell lacks
/// `&&`.
fn guarded(os: Os, commands: &[Command], put_back: &[Command]) -> String {
    if os != Os::Windows {
        return format!("{} || {{ {}; false; }}", joined(commands, " && "), joined(put_back, "; "));
    }
    let put_back = joined(put_back, "; ");
    let after = |rest: String, command: &Command| match rest.as_str() {
        "" => command.to_string(),
        rest => format!("{command}; if ($?) {{ {rest} }} else {{ {put_back} }}"),
    };
    commands.iter().rev().fold(String::new(), after)
}

#[derive(PartialEq, Eq)]
pub(super) enum Remark {
    /// Placed before the text.
    Before(String),
    /// Appended to the text in parentheses.
    Aside(String),
    /// Replaces the text, because the user must make the change.
    Instead(String),
    /// Appended to the text, as the reason against the action.
    But(String),
}

impl Remark {
    pub(super) fn applied(self, text: String) -> String {
        match self {
            Remark::Before(before) => format!("{before}{text}"),
            Remark::Aside(aside) => match text.strip_suffix(':') {
                Some(text) => format!("{text} ({aside}):"),
                None => format!("{text} ({aside})"),
            },
            Remark::Instead(instead) => instead,
            Remark::But(reason) => format!("{}; but {reason}", text.trim_end_matches(':')),
        }
    }
}

#[derive(Default)]
pub(super) struct Rendered {
    pub(super) lines: Vec<Line>,
    pub(super) remarks: Vec<Remark>,
}

impl Rendered {
    pub(super) fn lines(lines: impl IntoIterator<Item = impl Into<Line>>) -> Self {
        Rendered { lines: lines.into_iter().map(Into::into).collect(), remarks: Vec::new() }
    }

    pub(super) fn remark(mut self, remark: Remark) -> Self {
        self.remarks.push(remark);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_shell_puts_things_back_after_a_failure() {
        let command = |words: &str| {
            let mut words = words.split(' ');
            Command::new(words.next().unwrap_or_default(), words)
        };
        let (commands, put_back) = (["mv a b", "pip x", "rm b"].map(command), ["mv b a", "mv d c"].map(command));
        for (os, expected) in [
            (Os::Linux, "mv a b && pip x && rm b || { mv b a; mv d c; false; }"),
            (
                Os::Windows,
                "mv a b; if ($?) { pip x; if ($?) { rm b } else { mv b a; mv d c } } else { mv b a; mv d c }",
            ),
        ] {
            assert_eq!(guarded(os, &commands, &put_back), expected);
        }
    }
}
