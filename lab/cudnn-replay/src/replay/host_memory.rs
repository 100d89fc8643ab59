//! Limits the host memory for graphs that are prepared ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudnn_graph::Graph;

use super::tensor::Tensor;

/// A share of the host memory, which is released on drop.
pub(super) struct Share {
    bytes: usize,
    used: Arc<AtomicUsize>,
}

impl Share {
    /// Adds bytes to `used`, unless the sum would exceed the maximum. Only one thread may add bytes.
    pub(super) fn take(bytes: usize, used: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        if used.load(Ordering::Relaxed).saturating_add(bytes) > max {
            return None;
        }
        used.fetch_add(bytes, Ordering::Relaxed);
        Some(Share { bytes, used: Arc::clone(used) })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns the approximate host memory for the tensors of a graph with this number of bytes per element.
pub(super) fn host_bytes(graph: &Graph, per_element: usize) -> usize {
    let bytes = |tensor: Tensor| tensor.span().saturating_add(tensor.count().saturating_mul(per_element));
    graph.tensors().filter_map(|node| Tensor::new(node).ok()).map(bytes).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_limited_and_given_back() {
        let used = Arc::new(AtomicUsize::new(0));
        let first = Share::take(60, &used, 100);
        assert!(first.is_some() && Share::take(41, &used, 100).is_none());
        assert!(Share::take(usize::MAX, &used, usize::MAX).is_some());
        assert_eq!(used.load(Ordering::Relaxed), 60);
        drop(first);
        assert_eq!(used.load(Ordering::Relaxed), 0);
    }
}
