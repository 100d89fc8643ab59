//! Writes messages without duplicates.

use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::text_file::TextFile;

use super::rules::ValidationRule;
use crate::active::Active;
use crate::report::bounded_line;
use crate::written::WrittenRecords;

pub(super) struct State {
    pub(super) host: Host,
    pub(super) file: TextFile,
}

pub(super) static STATE: Active<State> = Active::new();

const LIMIT: usize = 256;

/// The written messages, including the last one, which says that more are not shown.
pub(super) static WRITTEN: WrittenRecords = WrittenRecords::at_most(LIMIT + 1);

impl State {
    /// Writes a new message. `place` names the descriptor and the mistake.
    #[cold]
    pub(super) fn report(&self, rule: &ValidationRule, place: &str) {
        // After a missed call, the descriptors may have changed.
        if !rule.includes_release(self.host.cudnn_version()) || self.host.missed_calls() > 0 {
            return;
        }
        let _guard = ThreadStateGuard::new();
        let line = format!("{} {}: {place}", rule.code, rule.name);
        let mut line = bounded_line(line);
        let Some(count) = WRITTEN.add(&line) else { return };
        if count == LIMIT {
            line = format!("{LIMIT} mistakes were reported; more are not shown");
        }
        line.push('\n');
        static IS_BROKEN: AtomicBool = AtomicBool::new(false);
        if let Err(error) = self.file.write(line.as_bytes())
            && !IS_BROKEN.swap(true, Ordering::Relaxed)
        {
            self.host.error(&format!("cannot write a message; the program continues: {error}"));
        }
    }
}
