//! Threads on all processors.

use std::num::NonZero;
use std::thread::available_parallelism;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// The threads that prepare and compare values, while one more thread works with the GPU.
pub(super) struct Threads {
    /// Prepares data sets of the graphs that follow.
    pub(super) ahead: ThreadPool,
    /// Compares the outputs of the current graph. It shares the processors with the other threads, because a graph must
    /// not wait for those that follow.
    pub(super) now: ThreadPool,
}

impl Threads {
    pub(super) fn start() -> Result<Self, ThreadPoolBuildError> {
        let pool = |name: &'static str| {
            ThreadPoolBuilder::new()
                .num_threads(processors())
                .thread_name(move |number| format!("{name} {number}"))
                // The default handler terminates the process. The result of the work is missing instead.
                .panic_handler(|_| {})
                .build()
        };
        Ok(Threads { ahead: pool("prepare")?, now: pool("compare")? })
    }
}

/// Returns the number of processors for this process.
pub(super) fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}
