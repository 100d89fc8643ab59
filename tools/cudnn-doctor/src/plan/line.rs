//! A line of a plan, with what the text of a finding says of it.

use std::fmt;

use crate::packages::Command;

/// The command of PowerShell that removes a file; it is no program.
pub(crate) const REMOVE_ITEM: &str = "Remove-Item";

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Programs, each of which runs only if the one before it succeeded.
    Run(Vec<Command>),
    /// What only the shell can do that starts the programs.
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

/// What the text of a finding says of lines besides.
pub(super) enum Remark {
    /// Before the text.
    Before(String),
    /// At the end of the text, in parentheses.
    Aside(String),
    /// In place of the text: there are no lines.
    Instead(String),
}

impl Remark {
    pub(super) fn applied(&self, text: &str) -> String {
        match self {
            Remark::Before(before) if text.starts_with(before) => text.to_owned(),
            Remark::Before(before) => format!("{before}{text}"),
            Remark::Aside(aside) if text.contains(aside) => text.to_owned(),
            Remark::Aside(aside) => match text.strip_suffix(':') {
                Some(text) => format!("{text} ({aside}):"),
                None => format!("{text} ({aside})"),
            },
            Remark::Instead(instead) => instead.clone(),
        }
    }
}

/// An action as lines, with what the text of a finding says of them.
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

/// The remark for lines that use a symbolic link for this reason.
pub(super) fn by_link(reason: &str) -> Remark {
    Remark::Aside(format!("by a symbolic link, since {reason}"))
}
