//! What a command says, to people and to programs. A reader that goes away, or a full disk, ends the command without a
//! panic. Colours are left out where the output is no terminal, and where NO_COLOR says so.

use std::fmt::{Arguments, Display};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

/// For whom a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs: one JSON document, whose `schema` changes when its form does.
    Json,
}

/// How a command ended, as its exit status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 0.
    Fine,
    /// 1.
    Warnings,
    /// 2.
    Problems,
    /// 3: the doctor could not do what it was asked.
    Failed,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Warnings => ExitCode::from(1),
            Outcome::Problems => ExitCode::from(2),
            Outcome::Failed => ExitCode::from(3),
        }
    }
}

/// Prints a line.
macro_rules! outln {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use outln;

/// Prints a JSON document.
pub(crate) fn document(value: &Value) {
    // As it is: what is in it is data, also where it looks like a colour.
    write_to(std::io::stdout(), format_args!("{value:#}"));
}

/// Says something beside the output, where there is somebody to listen.
pub(crate) fn remark(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Says why the doctor could not do what it was asked.
pub(crate) fn fail(format: Format, why: impl Display) -> Outcome {
    if format == Format::Json {
        document(&json!({ "schema": 1, "error": why.to_string() }));
    }
    remark(why);
    Outcome::Failed
}

/// A word in colour.
pub(crate) fn coloured(word: &str, colour: AnsiColor) -> impl Display {
    let style: Style = colour.on_default().bold();
    format!("{style}{word}{style:#}")
}

/// A path in a line of text: one that would break the line, or paint the terminal, is shown with its escapes.
pub(crate) trait Printable {
    /// As it is, unless it has control characters.
    fn printable(&self) -> String;
}

impl Printable for Path {
    fn printable(&self) -> String {
        let text = self.to_string_lossy();
        if text.chars().any(char::is_control) { format!("{self:?}") } else { text.into_owned() }
    }
}

impl Printable for str {
    fn printable(&self) -> String {
        if self.chars().any(char::is_control) { format!("{self:?}") } else { self.to_owned() }
    }
}

pub(crate) fn line(text: Arguments<'_>) {
    write_to(anstream::stdout(), text);
}

fn write_to(mut stdout: impl Write, text: Arguments<'_>) {
    if let Err(error) = writeln!(stdout, "{text}") {
        // Whoever closed the pipe knows; anything else is worth a word.
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            let _ = writeln!(std::io::stderr(), "cannot write the output: {error}");
        }
        std::process::exit(3);
    }
}
