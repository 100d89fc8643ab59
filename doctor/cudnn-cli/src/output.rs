//! Prints command output as text or JSON. A closed pipe or a full disk terminates the command without a panic. Colors
//! are disabled if the output is not a terminal or NO_COLOR is set.

use std::error::Error;
use std::fmt::{Arguments, Display};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use cudnn_os::errors::is_closed_pipe;
use serde_json::{Map, Value, json};

use crate::{escape, temporary};

/// The schema version of the JSON documents described in docs/json.md. It changes when a key is removed or its
/// meaning changes.
pub const SCHEMA: u32 = 2;

/// The exit status if the reader closes the pipe, which is the same as after SIGPIPE.
const BROKEN_PIPE: i32 = 128 + 13;

/// The output format of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    Text,
    /// One JSON document for programs.
    Json,
}

impl Format {
    /// Returns the format that the option `--json` selects.
    pub fn new(is_json: bool) -> Format {
        if is_json { Format::Json } else { Format::Text }
    }

    /// Prints a report, either as a document with these keys and the schema, or as text.
    pub fn report(self, keys: impl FnOnce() -> Value, text: impl FnOnce()) {
        if self == Format::Text {
            return text();
        }
        let mut members = Map::from_iter([("schema".to_owned(), SCHEMA.into())]);
        if let Value::Object(keys) = keys() {
            members.extend(keys);
        }
        document(&Value::Object(members));
    }
}

/// The result of a command, or the reason why it could not be executed.
pub type CommandResult = Result<Outcome, Box<dyn Error>>;

/// The outcome of a command, which determines its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// 0: nothing is wrong.
    Fine,
    /// 1: warnings, no errors.
    Warnings,
    /// 2: errors.
    Errors,
    /// 3: the command could not be executed.
    Failed,
}

impl Outcome {
    /// Converts the exit status of another process of this program.
    pub fn from_status(code: Option<i32>) -> Outcome {
        match code {
            Some(0) => Outcome::Fine,
            Some(1) => Outcome::Warnings,
            Some(2) => Outcome::Errors,
            _ => Outcome::Failed,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Warnings => ExitCode::from(1),
            Outcome::Errors => ExitCode::from(2),
            Outcome::Failed => ExitCode::from(3),
        }
    }
}

/// Prints a line.
#[macro_export]
macro_rules! outln {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

pub use crate::outln;

/// Implements [`outln!`].
pub fn line(text: Arguments<'_>) {
    write(std::io::stdout(), format_args!("{}\n", escape::lines(&text.to_string())));
}

/// Prints a line with a colored label.
pub fn labeled(label: &'static str, color: AnsiColor, text: impl Display) {
    let style: Style = color.on_default().bold();
    let text = text.to_string();
    write(anstream::stdout(), format_args!("{style}{label}{style:#}{}\n", escape::lines(&text)));
}

/// Prints a JSON document.
pub fn document(value: &Value) {
    write(std::io::stdout(), format_args!("{}\n", escape::json(&format!("{value:#}"))));
}

/// Prints generated text without escaping, for a manual page or shell completions.
pub fn generated(text: &[u8]) {
    write(std::io::stdout(), format_args!("{}\n", String::from_utf8_lossy(text).trim_end()));
}

/// Prints the help or the version in color.
pub fn help(text: &clap::builder::StyledStr) {
    write(anstream::stdout(), format_args!("{}", text.ansi()));
}

/// Prints a remark to stderr.
pub fn remark(text: impl Display) {
    let text = text.to_string();
    // Errors are ignored, because stderr may be closed.
    let _ = writeln!(std::io::stderr(), "{}", escape::lines(&text));
}

/// Reports why the command could not be executed.
pub fn fail(format: Format, error: impl Display) -> Outcome {
    if format == Format::Json {
        document(&json!({ "schema": SCHEMA, "error": error.to_string() }));
    }
    remark(error);
    Outcome::Failed
}

/// Formats a count such as `1 plan` or `2 plans`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let plural = match noun.ends_with('s') {
        _ if number == N::from(1) => "",
        true => "es",
        false => "s",
    };
    format!("{number} {noun}{plural}")
}

/// Returns a time in milliseconds, for JSON.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn write(mut to: impl Write, text: Arguments<'_>) {
    if let Err(error) = to.write_fmt(text).and_then(|()| to.flush()) {
        if is_closed_pipe(&error) {
            // The reader closed the pipe, so a message is unnecessary.
            temporary::exit(BROKEN_PIPE);
        }
        remark(format_args!("cannot write the output: {error}"));
        temporary::exit(3);
    }
}
