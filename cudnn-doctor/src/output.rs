//! Printing for people. A reader that goes away, or a full disk, ends the command without a panic.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

pub(crate) fn line(text: Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}") {
        // Whoever closed the pipe knows; anything else is worth a word.
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            let _ = writeln!(std::io::stderr(), "cannot write the output: {error}");
        }
        std::process::exit(1);
    }
}
