//! Stores live descriptors by address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::content::Content;
use crate::table::Table;

/// About as many parts as threads that use the backend API at the same time.
pub(super) static TABLE: Table<ShadowEntry, 64> = Table::new(usize::MAX);

pub(super) struct ShadowEntry {
    /// Distinguishes this descriptor from earlier ones with the same address.
    pub(super) id: u64,
    pub(super) content: Arc<Content>,
    pub(super) label: Option<CachedLabel>,
}

/// A label with the version of the content that it describes.
pub(super) struct CachedLabel {
    pub(super) version: u32,
    pub(super) text: Option<Arc<str>>,
}

impl ShadowEntry {
    pub(super) fn new(content: Arc<Content>) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        ShadowEntry { id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1, content, label: None }
    }

    /// Changes the content. Returns the result of the change, and everything that the entry no longer needs.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut Content) -> R) -> (R, Former) {
        // Otherwise, `make_mut` would drop the shared content here if all other owners released it in the meantime.
        let shared = Arc::get_mut(&mut self.content).is_none().then(|| self.content.clone());
        (change(Arc::make_mut(&mut self.content)), Former { _label: self.label.take(), _content: shared })
    }

    /// Replaces the content. Returns everything that the entry no longer needs.
    pub(super) fn replace(&mut self, content: Arc<Content>) -> Former {
        let former = std::mem::replace(&mut self.content, content);
        Former { _label: self.label.take(), _content: Some(former) }
    }
}

/// The contents of an entry before a change. The caller drops it after the lock of the table is released.
#[must_use]
pub(super) struct Former {
    _label: Option<CachedLabel>,
    _content: Option<Arc<Content>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::elements::Kind;

    /// Dropping frees memory, which must not happen while the table is locked.
    #[test]
    fn changes_return_the_former_content_and_label() {
        let content = Arc::new(Content::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR));
        let label: Arc<str> = Arc::from("engine 1");
        let mut entry = ShadowEntry::new(content.clone());
        let mut check = |change: &dyn Fn(&mut ShadowEntry) -> Former| {
            entry.content = content.clone();
            entry.label = Some(CachedLabel { version: 0, text: Some(label.clone()) });
            let former = change(&mut entry);
            assert!(!Arc::ptr_eq(&entry.content, &content));
            assert_eq!((Arc::strong_count(&content), Arc::strong_count(&label)), (2, 2));
            drop(former);
            assert_eq!((Arc::strong_count(&content), Arc::strong_count(&label)), (1, 1));
        };
        check(&|entry| entry.change(|content| content.is_finalized = true).1);
        check(&|entry| entry.replace(Arc::new(Content::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR))));
    }
}
