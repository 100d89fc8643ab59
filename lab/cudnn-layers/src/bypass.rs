//! Detects calls that have bypassed a layer, which then has outdated information about descriptors.

use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;

pub(crate) struct Bypass {
    is_reported: AtomicBool,
    consequence: &'static str,
}

impl Bypass {
    /// `consequence` tells the user what happens, such as `plans are no longer blocked`.
    pub(crate) const fn new(consequence: &'static str) -> Self {
        Bypass { is_reported: AtomicBool::new(false), consequence }
    }

    /// Returns whether the layer has seen all calls. Reports the first time that it has not.
    pub(crate) fn has_seen_all(&self, host: Host) -> bool {
        let has_seen_all = host.missed_calls() == 0;
        if !has_seen_all && !self.is_reported.swap(true, Ordering::Relaxed) {
            host.error(&format!("{}, because calls have bypassed this layer", self.consequence));
        }
        has_seen_all
    }
}
