//! Prints a command's output as text or JSON. A write error ends the command, or only the output: see
//! [`continue_without_output`]. Colors need a terminal, and NO_COLOR disables them.

use std::error::Error;
use std::fmt::{Arguments, Display};
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use cudnn_os::child::check_output;
use cudnn_os::errors::is_closed_pipe;
use cudnn_os::interruption;
use serde::Serialize;

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

    /// Makes sure that a command prints a document even if a signal ends it.
    pub fn answer_interruptions(self) {
        if self == Format::Json {
            interruption::answer_with(INTERRUPTED);
        }
    }

    /// Prints a report: a document with these keys and the schema, or text.
    pub fn report<K: Serialize>(self, keys: impl FnOnce() -> K, text: impl FnOnce()) {
        match self {
            Format::Text => text(),
            Format::Json => document(&Document { schema: SCHEMA, keys: Some(keys()), error: None }),
        }
    }

    /// Prints the last report of a command, like [`Format::report`]. An error means that the report is a partial
    /// result, so that the document also has the key `error`.
    pub fn conclude<K: Serialize>(
        self,
        outcome: Result<Outcome, String>,
        keys: impl FnOnce() -> K,
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
        if self == Format::Json {
            document(&Document { schema: SCHEMA, keys: Some(keys()), error: Some(error) });
        }
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
    print(std::io::stdout(), format_args!("{}\n", escape::lines(&text.to_string())));
}

/// Prints a line with a colored label.
pub fn labeled(label: &'static str, color: AnsiColor, text: impl Display) {
    let style: Style = color.on_default().bold();
    let text = text.to_string();
    print(anstream::stdout(), format_args!("{style}{label}{style:#}{}\n", escape::lines(&text)));
}

/// The document of an interrupted command.
const INTERRUPTED: &str = "{\n  \"schema\": 2,\n  \"error\": \"interrupted\"\n}\n";

#[derive(Serialize)]
struct Document<K> {
    schema: u32,
    #[serde(flatten)]
    keys: Option<K>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Prints a JSON document while it is serialized.
pub fn document(value: &impl Serialize) {
    interruption::answered();
    write(|| {
        let mut to = BufWriter::new(std::io::stdout().lock());
        serde_json::to_writer_pretty(escape::Json(&mut to), value)?;
        to.write_all(b"\n")?;
        to.flush()
    });
}

/// Prints generated text without escaping, such as a manual page.
///
/// # Errors
/// Returns an error for JSON.
pub fn generated(text: &[u8], format: Format) -> CommandResult {
    if format == Format::Json {
        return Err(ONLY_TEXT.into());
    }
    print(std::io::stdout(), format_args!("{}\n", String::from_utf8_lossy(text).trim_end()));
    Ok(Outcome::Fine)
}

/// Prints the help or the version with colors.
pub fn help(text: &clap::builder::StyledStr) {
    print(anstream::stdout(), format_args!("{}", text.ansi()));
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
        document(&Document::<()> { schema: SCHEMA, keys: None, error: Some(text) });
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
    print(std::io::stdout(), format_args!(""));
}

/// Ends the program if writing the output failed.
pub fn end_if_output_failed() {
    match FAILURE.load(Ordering::Relaxed) {
        0 => {}
        status => temporary::exit(status),
    }
}

fn print(mut to: impl Write, text: Arguments<'_>) {
    write(|| to.write_fmt(text).and_then(|()| to.flush()));
}

fn write(work: impl FnOnce() -> std::io::Result<()>) {
    if FAILURE.load(Ordering::Relaxed) != 0 {
        return;
    }
    let written = check_output().and_then(|()| work());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_an_interrupted_command_is_like_others() {
        let error = Some("interrupted".to_owned());
        let document = Document::<()> { schema: SCHEMA, keys: None, error };
        assert_eq!(INTERRUPTED, serde_json::to_string_pretty(&document).unwrap() + "\n");
    }
}
