//! Shows a spinner on stderr while a child process is working, if stderr is a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter work is shown without a spinner.
const DELAY: Duration = Duration::from_millis(300);

const INTERVAL: Duration = Duration::from_millis(100);

/// A spinner with a text of at most 40 columns, which fits all terminals. Dropping it clears the line.
pub struct Spinner {
    next: Option<Instant>,
    turns: usize,
    /// The used columns.
    width: usize,
}

impl Spinner {
    /// Creates a spinner, which is visible only if it is wanted and stderr is a terminal.
    pub fn new(is_wanted: bool) -> Spinner {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_visible = is_wanted && !is_dumb && std::io::stderr().is_terminal();
        Spinner { next: is_visible.then(|| Instant::now() + DELAY), turns: 0, width: 0 }
    }

    /// Draws the next frame when it is due.
    pub fn turn<T: Display>(&mut self, text: impl FnOnce() -> T) {
        let Some(next) = self.next.filter(|next| *next <= Instant::now()) else { return };
        self.next = Some(next + INTERVAL);
        let frame = ["|", "/", "-", "\\"].get(self.turns % 4).copied().unwrap_or_default();
        self.turns += 1;
        let line = format!("{frame} {}", text());
        self.width = self.width.max(line.len());
        show(format_args!("{line:<width$}", width = self.width));
    }

    /// Clears the line until the next turn.
    pub fn clear(&mut self) {
        if self.width > 0 {
            show(format_args!("{:width$}", "", width = self.width));
            show(format_args!(""));
            self.width = 0;
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Overwrites the line. stderr may be closed.
fn show(line: std::fmt::Arguments<'_>) {
    let mut to = std::io::stderr();
    let _ = write!(to, "\r{line}").and_then(|()| to.flush());
}
