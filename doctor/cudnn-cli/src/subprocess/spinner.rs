//! Shows a spinner on stderr while a child process is working. It appears only on a terminal, and its line is cleared
//! at the end.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::child_report::{Step, Work};

/// Faster work is shown without a spinner.
const DELAY: Duration = Duration::from_millis(300);

/// The time between frames.
const INTERVAL: Duration = Duration::from_millis(100);

/// The maximum width of the line in columns, so that terminals do not wrap it.
const WIDTH: usize = 24;

pub(super) struct Spinner {
    next: Option<Instant>,
    turns: usize,
}

impl Spinner {
    pub(super) fn new(is_wanted: bool) -> Spinner {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_visible = is_wanted && !is_dumb && std::io::stderr().is_terminal();
        Spinner { next: is_visible.then(|| Instant::now() + DELAY), turns: 0 }
    }

    /// Draws the next frame when it is due.
    pub(super) fn turn(&mut self, step: Option<&Step>) {
        let Some(next) = self.next.filter(|next| *next <= Instant::now()) else { return };
        self.next = Some(next + INTERVAL);
        let frame = ["|", "/", "-", "\\"].get(self.turns % 4).copied().unwrap_or_default();
        self.turns += 1;
        show(format_args!("{:<WIDTH$}", format!("{frame} {}", text(step))));
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if self.turns > 0 {
            show(format_args!("{:WIDTH$}", ""));
            show(format_args!(""));
        }
    }
}

fn text(step: Option<&Step>) -> &'static str {
    match step.map(|step| step.work) {
        Some(Work::OpenDriver | Work::QueryNvml | Work::StartDriver) => "asking the driver",
        Some(Work::Load | Work::LoadCuda) => "loading libraries",
        Some(Work::Compute) => "computing",
        Some(Work::Fetch) => "fetching",
        None => "starting",
    }
}

/// Overwrites the previous line. Errors are ignored, because stderr may be closed.
fn show(line: std::fmt::Arguments<'_>) {
    let mut to = std::io::stderr();
    let _ = write!(to, "\r{line}").and_then(|()| to.flush());
}
