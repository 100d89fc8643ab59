//! The time that calls take on the device: events on the handle's stream before and after a call, which later calls
//! read when they have happened. Nothing here waits for a device.
//!
//! Events give durations and distances on the device, and no time of the host. A call cannot begin on the device before
//! the host has made it, and often begins at once: so the largest difference between the two is that of the clocks.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::driver::{Driver, Event, State};
use crate::wrappers::Id;
use cudnn_os::cancel::ThreadStateGuard;

/// The calls that may be on their way.
const MAX_CALLS: usize = 512;
/// The contexts that are followed.
const MAX_CONTEXTS: usize = 16;
/// The streams that have a track.
const MAX_TRACKS: usize = 64;
/// The calls that one call reads, so that it takes no long time.
const READS: usize = 4;
/// Attempts to get the lock.
const ATTEMPTS: u32 = 100;
/// The longest distance between two events that is measured, in nanoseconds: a float in milliseconds has 24 bits.
const MAX_DISTANCE: f64 = 4e9;
/// How much faster than the host's a device's clock may be.
const DRIFT: f64 = 50e-6;

/// The devices' calls.
pub(super) struct Gpu(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    driver: Option<Driver>,
    contexts: Vec<Context>,
    tracks: Vec<Track>,
    pending: std::collections::VecDeque<Pending>,
    pairs: usize,
}

// SAFETY: events may be used in any thread.
unsafe impl Send for Calls {}

/// What belongs to one context.
struct Context {
    id: u64,
    free: Vec<Pair>,
    anchor: Option<Anchor>,
}

/// An event, and when it happened by the host's clock, in nanoseconds.
#[derive(Clone, Copy)]
struct Anchor {
    event: Event,
    time: f64,
}

/// The events of a call.
#[derive(Clone, Copy)]
struct Pair {
    start: Event,
    end: Event,
}

/// The slices of one stream.
struct Track {
    context: u64,
    stream: usize,
    /// Where its last slice ends.
    end: f64,
}

/// A call whose first event is on its way.
pub(super) struct Started {
    context: u64,
    pair: Pair,
    stream: usize,
    time: u64,
}

/// A call whose events are on their way.
struct Pending {
    started: Started,
    function: Id,
    label: Option<Arc<str>>,
}

/// What a call has taken on the device.
pub(super) struct Measured {
    pub(super) function: Id,
    pub(super) label: Option<Arc<str>>,
    pub(super) stream: usize,
    pub(super) start: u64,
    pub(super) duration: u64,
    /// The number of its stream, from 0 on.
    pub(super) track: u32,
    /// It is the first of its stream.
    pub(super) is_first: bool,
}

impl Gpu {
    pub(super) fn new() -> Self {
        Gpu(Mutex::new(Calls::default()))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Calls>> {
        for _ in 0..ATTEMPTS {
            match self.0.try_lock() {
                Ok(calls) => return Some(calls),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }

    /// Before a call on this stream.
    pub(super) fn start(&self, stream: usize, now: u64) -> Option<Started> {
        let mut calls = self.lock()?;
        let Calls { driver, contexts, pairs, .. } = &mut *calls;
        if driver.is_none() {
            // To look a library up is a cancellation point, and no cancellation may unwind from here.
            let _guard = ThreadStateGuard::new();
            *driver = Driver::loaded();
        }
        let driver = driver.as_ref()?;
        driver.relaxed(|| {
            let raw = std::ptr::with_exposed_provenance_mut::<c_void>(stream);
            if driver.is_capturing(raw) {
                return None;
            }
            let id = driver.context()?;
            let context = context(contexts, id)?;
            let pair = match context.free.pop() {
                Some(pair) => pair,
                None if *pairs < MAX_CALLS => {
                    *pairs += 1;
                    Pair { start: driver.create()?, end: driver.create()? }
                }
                None => return None,
            };
            if driver.record(pair.start, raw) {
                return Some(Started { context: id, pair, stream, time: now });
            }
            context.free.push(pair);
            None
        })
    }

    /// After the call. Passes on what calls before it have taken.
    pub(super) fn end(&self, started: Started, function: Id, label: Option<Arc<str>>, report: impl FnMut(Measured)) {
        let Some(mut calls) = self.lock() else { return };
        let Some(driver) = calls.driver.take() else { return };
        driver.relaxed(|| {
            let stream = std::ptr::with_exposed_provenance_mut::<c_void>(started.stream);
            // A capture that began in the call would be spoiled.
            if driver.is_capturing(stream) || !driver.record(started.pair.end, stream) {
                calls.give_back(started.context, started.pair);
            } else {
                calls.pending.push_back(Pending { started, function, label });
            }
            calls.read(&driver, READS, report);
        });
        calls.driver = Some(driver);
    }

    /// Passes on what all calls have taken that have ended.
    pub(super) fn finish(&self, report: impl FnMut(Measured)) {
        let Some(mut calls) = self.lock() else { return };
        let Some(driver) = calls.driver.take() else { return };
        driver.relaxed(|| calls.read(&driver, MAX_CALLS, report));
        calls.driver = Some(driver);
    }
}

/// The context of this number, if there is room for it.
fn context(contexts: &mut Vec<Context>, id: u64) -> Option<&mut Context> {
    let index = match contexts.iter().position(|context| context.id == id) {
        Some(index) => index,
        None if contexts.len() < MAX_CONTEXTS => {
            contexts.push(Context { id, free: Vec::new(), anchor: None });
            contexts.len() - 1
        }
        None => return None,
    };
    contexts.get_mut(index)
}

impl Calls {
    fn give_back(&mut self, id: u64, pair: Pair) {
        if let Some(context) = context(&mut self.contexts, id) {
            context.free.push(pair);
        }
    }

    /// Reads the events of at most this many calls of this thread's context, the oldest first.
    fn read(&mut self, driver: &Driver, limit: usize, mut report: impl FnMut(Measured)) {
        let Some(current) = driver.context() else { return };
        let (mut index, mut reads) = (0, 0);
        while reads < limit {
            let Some(pending) = self.pending.get(index) else { return };
            // Events of a destroyed context must not be touched: only those of the current one are.
            if pending.started.context != current {
                index += 1;
                continue;
            }
            reads += 1;
            let state = driver.state(pending.started.pair.end);
            if state == State::Expected {
                index += 1;
                // Another stream's may have happened.
                continue;
            }
            let Some(Pending { started, function, label }) = self.pending.remove(index) else { return };
            if state == State::Lost {
                self.pairs = self.pairs.saturating_sub(1);
                continue;
            }
            if let Some(measured) = self.measure(driver, started, function, label) {
                report(measured);
            }
        }
    }

    fn measure(
        &mut self,
        driver: &Driver,
        started: Started,
        function: Id,
        label: Option<Arc<str>>,
    ) -> Option<Measured> {
        let Started { context: id, mut pair, stream, time } = started;
        let duration = driver.elapsed(pair.start, pair.end);
        let context = context(&mut self.contexts, id)?;
        let time = time as f64;
        let distance = context.anchor.and_then(|anchor| driver.elapsed(anchor.event, pair.start));
        let start = match (&mut context.anchor, distance) {
            (Some(anchor), Some(distance)) => {
                // Not before the host has made the call.
                anchor.time = anchor.time.max(time - distance);
                let start = anchor.time + distance;
                if distance.abs() > MAX_DISTANCE {
                    let event = std::mem::replace(&mut pair.start, anchor.event);
                    *anchor = Anchor { event, time: time.max(start - distance * DRIFT) };
                }
                start
            }
            _ => {
                let event = std::mem::replace(&mut pair.start, driver.create()?);
                context.anchor = Some(Anchor { event, time });
                time
            }
        };
        context.free.push(pair);
        let duration = duration?;
        let known = self.tracks.iter().position(|track| track.context == id && track.stream == stream);
        let index = match known {
            Some(index) => index,
            None if self.tracks.len() < MAX_TRACKS => {
                self.tracks.push(Track { context: id, stream, end: 0.0 });
                self.tracks.len() - 1
            }
            None => return None,
        };
        let track = self.tracks.get_mut(index)?;
        // Calls of a stream do not overlap, whatever the clocks' difference is taken for.
        let start = start.max(track.end);
        track.end = start + duration;
        Some(Measured {
            function,
            label,
            stream,
            start: start as u64,
            duration: duration as u64,
            track: index as u32,
            is_first: known.is_none(),
        })
    }
}
