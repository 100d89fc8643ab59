//! Remembers the order of the proposals, so that at most the first query of a graph calls cuDNN twice.
//!
//! cuDNN proposes the same engines in the same order if a process repeats a query for a graph, a mode and a device. If
//! the layer changes the order, it checks that cuDNN announces the same number of proposals and returns the expected
//! first engine (or all expected engines, if one is to be avoided). Otherwise, the layer stops storing orders.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::order::Order;
use crate::shadow::content::Content;
use crate::shadow::elements::Bytes;
use crate::table::Table;

/// The maximum number of queries, which need about a kilobyte each.
const MAX_QUERIES: usize = 1024;

pub(super) static QUERIES: Table<Arc<Remembered>> = Table::new(MAX_QUERIES);
static IS_UNRELIABLE: AtomicBool = AtomicBool::new(false);

pub(super) struct Remembered {
    announced: usize,
    /// The order, or `None` for cuDNN's order.
    order: Option<Order>,
}

/// Returns the key of a query, which contains everything that affects the proposals.
pub(super) fn key(query: &Content, graph: &str, device: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    (graph, device).hash(&mut hasher);
    for attribute in &query.attributes {
        (attribute.name.0, query.elements(attribute.name).map(Bytes::as_slice)).hash(&mut hasher);
    }
    hasher.finish() as usize
}

/// Returns the order for a query, if it is known and cuDNN announces the same number of proposals as before.
pub(super) fn find(key: usize, announced: usize) -> Option<Option<Order>> {
    let known = QUERIES.get(key).filter(|known| known.announced == announced)?;
    (!IS_UNRELIABLE.load(Ordering::Relaxed)).then(|| known.order.clone())
}

pub(super) fn insert(key: usize, announced: usize, order: Option<Order>) {
    QUERIES.insert(key, Arc::new(Remembered { announced, order }));
}

/// Call this if cuDNN has returned other engines than before.
pub(super) fn stop() {
    IS_UNRELIABLE.store(true, Ordering::Relaxed);
}
