//! Creates threads for all processors.

use std::num::NonZero;
use std::thread::available_parallelism;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// The threads that prepare and compare values, while another thread works with the GPU.
pub(super) struct Threads {
    /// Prepares data sets of later graphs.
    pub(super) ahead: ThreadPool,
    /// Compares the outputs of the current graph. Shares the processors with the other threads, because a graph must
    /// not wait for later ones.
    pub(super) now: ThreadPool,
}

impl Threads {
    pub(super) fn start() -> Result<Self, ThreadPoolBuildError> {
        let pool = |name: &'static str| {
            ThreadPoolBuilder::new()
                .num_threads(processors())
                .thread_name(move |number| format!("{name} {number}"))
                // The default handler terminates the process. Here, the result is missing instead.
                .panic_handler(|_| {})
                .build()
        };
        Ok(Threads { ahead: pool("prepare")?, now: pool("compare")? })
    }
}

pub(super) fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}
