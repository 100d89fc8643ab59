//! The progress of commands that work on one graph after the other, and their end after an interruption.

use std::fmt::Display;
use std::time::Duration;

use cudnn_cli::output::{count, remark};
use cudnn_cli::temporary;
use cudnn_os::interruption::Signal;

/// Returns the progress, with an estimate of the remaining time.
pub(crate) fn progress(done: usize, total: usize, elapsed: Duration) -> String {
    let left = elapsed.as_secs_f64() / done as f64 * (total - done) as f64;
    let left = match left {
        _ if done == 0 => String::new(),
        ..100.0 => format!(", {left:.0} s left"),
        _ => format!(", {:.0} min left", left / 60.0),
    };
    format!("{done} of {}{left}", count(total, "graph"))
}

/// Terminates the program by the signal that has interrupted it. Call this after the report about what is done.
pub(crate) fn end_if_interrupted(interrupted: Option<Signal>, done: impl Display) {
    if let Some(signal) = interrupted {
        remark(format_args!("interrupted: {done}"));
        temporary::end_by(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_estimates_the_time_that_is_left() {
        for (done, total, seconds, text) in [
            (0, 1, 3, "0 of 1 graph"),
            (3, 282, 1, "3 of 282 graphs, 93 s left"),
            (1, 100, 60, "1 of 100 graphs, 99 min left"),
        ] {
            assert_eq!(progress(done, total, Duration::from_secs(seconds)), text);
        }
    }
}
