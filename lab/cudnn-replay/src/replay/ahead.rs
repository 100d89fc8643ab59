//! Prepares data sets in threads before they are needed.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, sync_channel};

use super::host_memory::{Share, host_bytes};
use super::prepared::Prepared;
use super::request::{DataSet, Request};
use super::threads::Threads;

/// Maximum host memory to prepare all data sets at once, as estimated by [`host_bytes`].
const MAX_AT_ONCE: usize = 1 << 30;
/// Maximum host memory for data sets that are prepared ahead, as estimated by [`host_bytes`].
const MAX_AHEAD: usize = 4 << 30;
/// The approximate number of bytes per element for the reference.
const REFERENCE_BYTES: usize = 32;

/// Data sets of a graph that threads prepare, because references take seconds.
pub(super) struct PreparedAhead(Vec<(DataSet, Receiver<Shared>)>);

/// A prepared data set, with a share of [`MAX_AHEAD`] until it is used or the thread exits.
type Shared = (Result<Prepared, String>, Option<Arc<Share>>);

impl PreparedAhead {
    /// Starts to prepare the first data sets, unless they would exceed the limit together with the `used` bytes.
    pub(super) fn within_limit(threads: &Threads, request: &Arc<Request>, used: &Arc<AtomicUsize>) -> Option<Self> {
        let data = request.data.chunks(at_once(request)).next()?;
        let bytes = host_bytes(&request.graph, REFERENCE_BYTES).saturating_mul(data.len());
        let share = Share::take(bytes, used, MAX_AHEAD)?;
        Some(PreparedAhead::start(threads, request, data, Some(Arc::new(share))))
    }

    pub(super) fn start(
        threads: &Threads,
        request: &Arc<Request>,
        data: &[DataSet],
        share: Option<Arc<Share>>,
    ) -> Self {
        let start = |data: &DataSet| {
            let (request, data, share) = (Arc::clone(request), *data, share.clone());
            let (sender, receiver) = sync_channel(1);
            threads.ahead.spawn(move || {
                // The graph may have failed in the meantime.
                let _ = sender.send((Prepared::new(&request, data), share));
            });
            (data, receiver)
        };
        PreparedAhead(data.iter().map(start).collect())
    }

    pub(super) fn finish(self) -> impl Iterator<Item = (DataSet, Result<Prepared, String>)> {
        let stopped = |_| Err("the reference cannot be computed".to_owned());
        self.0
            .into_iter()
            .map(move |(data, receiver)| (data, receiver.recv().map_or_else(stopped, |(prepared, _)| prepared)))
    }
}

pub(super) fn at_once(request: &Request) -> usize {
    if host_bytes(&request.graph, REFERENCE_BYTES) > MAX_AT_ONCE { 1 } else { request.data.len().max(1) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::prepared::tests::{MATMUL, request};
    use super::*;

    #[test]
    fn data_sets_are_prepared_ahead_within_a_limit() {
        let threads = Threads::start().unwrap();
        let data = vec![DataSet::Integers, DataSet::Normal];
        let used = Arc::new(AtomicUsize::new(0));
        let small = Arc::new(Request { data: data.clone(), ..request() });
        let bytes = 2 * host_bytes(&small.graph, REFERENCE_BYTES);
        let ahead = [0, 1].map(|_| PreparedAhead::within_limit(&threads, &small, &used).unwrap());
        assert_eq!(used.load(Ordering::Relaxed), 2 * bytes);
        for ahead in ahead {
            let prepared: Vec<_> = ahead.finish().map(|(data, prepared)| (data, prepared.is_ok())).collect();
            assert_eq!(prepared, [(DataSet::Integers, true), (DataSet::Normal, true)]);
        }
        assert_eq!(used.load(Ordering::Relaxed), 0);
        used.store(MAX_AHEAD - bytes + 1, Ordering::Relaxed);
        assert!(PreparedAhead::within_limit(&threads, &small, &used).is_none());
        // Only the first data set of a large graph is prepared.
        used.store(0, Ordering::Relaxed);
        let graph = serde_json::from_str(&MATMUL.replace("[1,3,5]", "[1,3,12000000]")).unwrap();
        let large = Arc::new(Request { graph, data, max_bytes: 1, ..request() });
        let prepared: Vec<_> =
            PreparedAhead::within_limit(&threads, &large, &used).unwrap().finish().map(|(data, _)| data).collect();
        assert_eq!(prepared, [DataSet::Integers]);
    }

    #[test]
    fn the_memory_of_the_host_follows_the_elements() {
        let bytes = |json: &str| host_bytes(&serde_json::from_str(json).unwrap(), REFERENCE_BYTES);
        let small = bytes(MATMUL);
        assert!((31 * REFERENCE_BYTES..2048).contains(&small), "{small}");
        assert!(bytes(&MATMUL.replace("[1,3,5]", "[1,3,40000000]")) > MAX_AT_ONCE);
        assert!(bytes(&MATMUL.replace("[24,8,1]", "[24,1000000000,1]")) > MAX_AT_ONCE);
    }
}
