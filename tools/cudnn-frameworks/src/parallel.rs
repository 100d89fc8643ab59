//! Work on many small files, which is mostly waiting for the system, in a few threads. Knows nothing of what the work is.

use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 4;

/// Does the work for each item in a few threads. The results have the items' indices, in order.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<(usize, R)> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return results };
            results.push((index, work(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        // A thread that cannot be started leaves its work to the others.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let threads: Vec<_> = (1..THREADS).filter_map(start).collect();
        let mut results = run();
        threads.into_iter().filter_map(|thread| thread.join().ok()).for_each(|part| results.extend(part));
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results
}
