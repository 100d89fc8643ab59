//! Represents one line of a plan, with remarks for the text of a finding.

use std::fmt;

use crate::packages::Command;

/// The PowerShell cmdlet that removes a file. Only PowerShell can run it.
pub(crate) const REMOVE_ITEM: &str = "Remove-Item";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Programs that run in sequence until one fails.
    Run(Vec<Command>),
    /// A line that must run in the shell that starts the user's programs.
    Shell(String),
}

impl From<Command> for Line {
    fn from(command: Command) -> Self {
        Line::Run(vec![command])
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Run(commands) => {
                let all: Vec<String> = commands.iter().map(Command::to_string).collect();
                f.write_str(&all.join(" && "))
            }
            Line::Shell(line) => f.write_str(line),
        }
    }
}

/// An addition to the text of a finding.
#[derive(PartialEq, Eq)]
pub(super) enum Remark {
    /// Placed before the text.
    Before(String),
    /// Appended to the text in parentheses.
    Aside(String),
    /// Replaces the text, because the action has to be done by hand.
    Instead(String),
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
        }
    }
}

/// An action rendered as lines, with remarks for the text of a finding.
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

/// Explains why the lines use a symbolic link.
pub(super) fn by_link(reason: &str) -> Remark {
    Remark::Aside(format!("through a symbolic link, because {reason}"))
}
