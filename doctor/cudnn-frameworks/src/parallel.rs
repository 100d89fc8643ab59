//! Processes many small files in a few threads, because most time is spent waiting for the system.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudnn_probe::facts::Facts;
use std::thread::{Builder, scope};

const THREADS: usize = 4;

/// Calls `work` for each item in a few threads. Returns the results in the order of items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let facts = Facts::active();
    let work = |item| match &facts {
        Some(facts) => facts.within(|| work(item)),
        None => work(item),
    };
    let run = || -> Vec<(usize, R)> {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.map_while(|index| Some((index, work(items.get(index)?)))).collect()
    };
    let mut results = scope(|scope| {
        // Other threads do the work of a thread that cannot be started.
        let start = |_| Builder::new().spawn_scoped(scope, run).ok();
        let threads: Vec<_> = (1..THREADS.min(items.len())).filter_map(start).collect();
        let mut results = run();
        for thread in threads {
            results.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
