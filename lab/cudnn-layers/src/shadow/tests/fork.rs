//! Tests forks while other threads use the table.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_os::testing::check_in_child;

use super::*;
use crate::fork::{Rank, take_part};

/// Runs a check in a forked child. Returns `true` if it succeeded or if `fork` is not available.
fn in_child(check: impl FnOnce() -> bool) -> bool {
    take_part(Rank::Shadow, &AT_FORK);
    // SAFETY: the child uses only memory and the table, which is unlocked during a fork.
    unsafe { check_in_child(check) }.unwrap_or(true)
}

#[test]
fn a_forked_child_never_waits_and_inherits_descriptors() {
    let known = operation_graph();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let proposed = Proposed::new();
                    proposed.read_engine(1);
                    let _ = text(proposed.plan);
                    proposed.destroy();
                }
            });
        }
        let failed = (0..40).find(|_| {
            !in_child(|| {
                let start = Instant::now();
                // Enough graphs to use every part of the table.
                let graphs: Vec<_> = (0..100).map(|_| operation_graph()).collect();
                let all = graphs.iter().chain([&known]).all(|graph| text(*graph) == GRAPH_LABEL);
                let proposed = Proposed::new();
                proposed.read_engine(1);
                graphs.into_iter().for_each(destroy);
                all && start.elapsed() < Duration::from_millis(900)
            })
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, None);
    });
    destroy(known);
}

#[test]
fn a_stuck_thread_delays_others_once_and_uncertain_contents_are_dropped() {
    // This test runs in a child, because all tests of this process share the table.
    let is_well = in_child(|| {
        let (descriptor, is_inside, leave) = (operation_graph(), AtomicBool::new(false), AtomicBool::new(false));
        let mut is_well = text(descriptor) == GRAPH_LABEL;
        let address = descriptor.addr();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                TABLE.with(address, |_| {
                    is_inside.store(true, Ordering::Relaxed);
                    while !leave.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            });
            while !is_inside.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let start = Instant::now();
            (0..10).for_each(|_| destroy(std::ptr::without_provenance_mut(address)));
            is_well &= (Duration::from_millis(900)..Duration::from_secs(5)).contains(&start.elapsed());
            leave.store(true, Ordering::Relaxed);
        });
        // The content must be unknown, because the descriptor may have been destroyed.
        is_well &= content(descriptor).is_none();
        created(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, descriptor);
        is_well && content(descriptor).is_some()
    });
    assert!(is_well);
}
