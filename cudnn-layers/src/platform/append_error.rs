//! Why a record is not in the trace's file, and how long a thread waits for others before it leaves one out.

use std::time::Duration;

/// The longest that a thread waits for others.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);

/// Why a record was not written.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// Other threads were too slow. The next record may succeed.
    Busy,
    /// The file ends here.
    Broken(std::io::Error),
}
