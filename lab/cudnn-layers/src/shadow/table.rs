//! Stores live descriptors by address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::content::Content;
use crate::table::Table;

/// About as many parts as threads that use the backend API at the same time.
pub(super) static TABLE: Table<ShadowEntry, 64> = Table::new(usize::MAX);

/// A live descriptor.
pub(super) struct ShadowEntry {
    /// Distinguishes this descriptor from earlier ones with the same address.
    pub(super) id: u64,
    pub(super) content: Arc<Content>,
    pub(super) label: Option<CachedLabel>,
}

/// A label and the version of the content that it describes.
pub(super) struct CachedLabel {
    pub(super) version: u32,
    pub(super) text: Option<Arc<str>>,
}

impl ShadowEntry {
    pub(super) fn new(content: Arc<Content>) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        ShadowEntry { id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1, content, label: None }
    }
}
