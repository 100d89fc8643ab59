//! Notices calls that have bypassed a layer, after which descriptors may be different from what the layer knows.

use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;

/// Reports the first time that calls have bypassed a layer.
pub(crate) struct Bypass {
    is_reported: AtomicBool,
    consequence: &'static str,
}

impl Bypass {
    /// Creates a value for a layer, with the consequence for the user, such as `plans are no longer blocked`.
    pub(crate) const fn new(consequence: &'static str) -> Self {
        Bypass { is_reported: AtomicBool::new(false), consequence }
    }

    /// Returns whether the layer has seen all calls. If not, the first call of this function reports it.
    pub(crate) fn has_seen_all(&self, host: Host) -> bool {
        let has_seen_all = host.missed_calls() == 0;
        if !has_seen_all && !self.is_reported.swap(true, Ordering::Relaxed) {
            host.error(&format!("{}, because calls have bypassed this layer", self.consequence));
        }
        has_seen_all
    }
}
