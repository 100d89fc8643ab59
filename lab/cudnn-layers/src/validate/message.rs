//! Writes each message once.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::text_file::TextFile;

use super::rules::ValidationRule;
use crate::active::Active;
use crate::lock::Lock;
use crate::report::bounded_line;

/// The layer's state after it has started.
pub(super) struct State {
    pub(super) host: Host,
    pub(super) file: TextFile,
}

/// Set when the layer starts.
pub(super) static STATE: Active<State> = Active::new();

/// The maximum number of messages in a process.
const LIMIT: usize = 256;

/// The hashes of written messages.
pub(super) static WRITTEN: Lock<Option<BTreeSet<u64>>> = Lock::keeping(None);

impl State {
    /// Writes a message, unless it was written before. `place` names the descriptor and says what is wrong.
    #[cold]
    pub(super) fn report(&self, rule: &ValidationRule, place: &str) {
        // After a missed call, the descriptors may be different.
        if !rule.includes_release(self.host.cudnn_version()) || self.host.missed_calls() > 0 {
            return;
        }
        // Thread cancellation must not unwind from here.
        let _guard = ThreadStateGuard::new();
        let line = format!("{} {}: {place}", rule.code, rule.name);
        let mut line = bounded_line(line);
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let Some(mut written) = WRITTEN.lock() else { return };
        let all = written.get_or_insert_default();
        let (count, is_new) = (all.len(), all.len() <= LIMIT && all.insert(hasher.finish()));
        drop(written);
        if !is_new {
            return;
        }
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
