//! Prints a command's output as text or JSON. A write error ends the command, or only the output: see
//! [`continue_without_output`]. Colors need a terminal, and NO_COLOR disables them.

use std::error::Error;
use std::fmt::{Arguments, Display};
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use cudnn_os::child::check_output;
use cudnn_os::errors::is_closed_pipe;
use serde_json::{Map, Value, json};

use crate::{escape, temporary};

/// The schema version of JSON documents (docs/json.md). It changes if a key is removed or changes in meaning.
pub const SCHEMA: u32 = 2;

/// The exit status after the reader has closed the pipe, as after SIGPIPE.
const BROKEN_PIPE: i32 = 128 + 13;

static CONTINUES: AtomicBool = AtomicBool::new(false);
/// The exit status after a write error, or 0.
static FAILURE: AtomicI32 = AtomicI32::new(0);

/// The error of commands that print no document.
pub const ONLY_TEXT: &str = "this command does not support --json, because it prints text";

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

    /// Prints a report: a document with these keys and the schema, or text.
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

    /// Prints the last report of a command, like [`Format::report`]. An error means that the report is a partial
    /// result, so that the document also has the key `error`.
    pub fn conclude(
        self,
        outcome: Result<Outcome, String>,
        keys: impl FnOnce() -> Value,
        text: impl FnOnce(),
    ) -> Outcome {
        let error = match outcome {
            Ok(outcome) => {
                self.report(keys, text);
                return outcome;
            }
            Err(error) => error,
        };
        if self == Format::Text {
            text();
        }
        remark(&error);
        let with_error = || {
            let mut keys = keys();
            if let Some(keys) = keys.as_object_mut() {
                keys.insert("error".to_owned(), error.into());
            }
            keys
        };
        self.report(with_error, || ());
        Outcome::Failed(Reported(()))
    }
}

/// The result of a command, or the reason why it could not be executed.
pub type CommandResult = Result<Outcome, Box<dyn Error>>;

/// The outcome of a command, which determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// 0: nothing is wrong.
    Fine,
    /// 1: warnings, no errors.
    Warnings,
    /// 2: errors.
    Errors,
    /// 3: the command could not be executed.
    Failed(Reported),
}

/// Proof that the reason of a failure was printed. Only this module can create one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reported(());

impl Outcome {
    /// Converts the exit status of this program in another process. Returns `None` if the command failed.
    pub fn from_status(code: Option<i32>) -> Option<Outcome> {
        match code {
            Some(0) => Some(Outcome::Fine),
            Some(1) => Some(Outcome::Warnings),
            Some(2) => Some(Outcome::Errors),
            _ => None,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Warnings => ExitCode::from(1),
            Outcome::Errors => ExitCode::from(2),
            Outcome::Failed(_) => ExitCode::from(3),
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

/// Prints generated text without escaping, such as a manual page.
///
/// # Errors
/// Returns an error for JSON.
pub fn generated(text: &[u8], format: Format) -> CommandResult {
    if format == Format::Json {
        return Err(ONLY_TEXT.into());
    }
    write(std::io::stdout(), format_args!("{}\n", String::from_utf8_lossy(text).trim_end()));
    Ok(Outcome::Fine)
}

/// Prints the help or the version with colors.
pub fn help(text: &clap::builder::StyledStr) {
    write(anstream::stdout(), format_args!("{}", text.ansi()));
}

/// Prints a remark to stderr.
pub fn remark(text: impl Display) {
    let text = text.to_string();
    // stderr may be closed.
    let _ = writeln!(std::io::stderr(), "{}", escape::lines(&text));
}

/// Reports why the command could not be executed.
pub fn fail(format: Format, error: impl Display) -> Outcome {
    let text = error.to_string();
    // Writing the output may end the program.
    remark(&text);
    if format == Format::Json {
        document(&json!({ "schema": SCHEMA, "error": text }));
    }
    Outcome::Failed(Reported(()))
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

/// Returns a time in milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Lets a command that writes files continue without output. At the end, it calls [`end_if_output_failed`].
pub fn continue_without_output() {
    CONTINUES.store(true, Ordering::Relaxed);
}

/// Fails like other output if stdout is closed, but prints nothing.
pub fn require_output() {
    write(std::io::stdout(), format_args!(""));
}

/// Ends the program if writing the output failed.
pub fn end_if_output_failed() {
    match FAILURE.load(Ordering::Relaxed) {
        0 => {}
        status => temporary::exit(status),
    }
}

fn write(mut to: impl Write, text: Arguments<'_>) {
    if FAILURE.load(Ordering::Relaxed) != 0 {
        return;
    }
    let written = check_output().and_then(|()| to.write_fmt(text)).and_then(|()| to.flush());
    let Err(error) = written else { return };
    // A message is unnecessary if the reader closed the pipe.
    let is_closed = is_closed_pipe(&error);
    if !is_closed {
        remark(format_args!("cannot write the output: {error}"));
    }
    FAILURE.store(if is_closed { BROKEN_PIPE } else { 3 }, Ordering::Relaxed);
    if !CONTINUES.load(Ordering::Relaxed) {
        end_if_output_failed();
    }
}
