//! Measures the time that calls take on the device, without waiting for it.
//!
//! The layer records CUDA events on the handle's stream before and after a call. Later calls read the events once they
//! have completed.
//!
//! Events only provide durations and distances on the device clock. To place them on the host clock, the layer uses the
//! fact that a call starts on the device after the host has made it, and often immediately. The largest observed
//! difference is therefore the offset between the clocks.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::driver::{CudaEvent, EventFunctions, EventState};
use crate::wrappers::Id;

/// Maximum number of calls in flight.
const MAX_CALLS: usize = 512;
/// Maximum number of contexts.
const MAX_CONTEXTS: usize = 16;
/// Maximum number of streams with a track.
const MAX_TRACKS: usize = 64;
/// Maximum number of earlier calls that a call reads, which limits the delay.
const READS: usize = 4;
/// Attempts to take the lock.
const ATTEMPTS: u32 = 100;
/// Maximum distance between two events in nanoseconds. The driver returns milliseconds as a float with 24 bits.
const MAX_DISTANCE: f64 = 4e9;
/// Maximum relative drift between the device clock and the host clock.
const DRIFT: f64 = 50e-6;

/// The calls that are being measured.
pub(super) struct Gpu(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    driver: Option<EventFunctions>,
    contexts: Vec<CudaContext>,
    tracks: Vec<Track>,
    pending: std::collections::VecDeque<Pending>,
    pairs: usize,
}

// SAFETY: CUDA events may be used in any thread.
unsafe impl Send for Calls {}

/// The state of one context.
struct CudaContext {
    id: u64,
    free: Vec<Pair>,
    anchor: Option<Anchor>,
}

/// An event with the completion time on the host clock, in nanoseconds.
#[derive(Clone, Copy)]
struct Anchor {
    event: CudaEvent,
    time: f64,
}

/// The events before and after a call.
#[derive(Clone, Copy)]
struct Pair {
    start: CudaEvent,
    end: CudaEvent,
}

/// The slices of one stream.
struct Track {
    context: u64,
    stream: usize,
    /// The end of the last slice.
    end: f64,
}

/// A call with a recorded start event.
pub(super) struct Started {
    context: u64,
    pair: Pair,
    stream: usize,
    time: u64,
}

/// A call with two recorded events that have not been read yet.
struct Pending {
    started: Started,
    function: Id,
    label: Option<Arc<str>>,
}

/// The time that a call took on the device.
pub(super) struct Measured {
    pub(super) function: Id,
    pub(super) label: Option<Arc<str>>,
    pub(super) stream: usize,
    pub(super) start: u64,
    pub(super) duration: u64,
    /// The index of the stream, starting at 0.
    pub(super) track: u32,
    /// This is the first call on the stream.
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

    /// Records the event before a call on this stream.
    pub(super) fn start(&self, stream: usize, now: u64) -> Option<Started> {
        let mut calls = self.lock()?;
        let Calls { driver, contexts, pairs, .. } = &mut *calls;
        if driver.is_none() {
            *driver = EventFunctions::loaded();
        }
        let driver = driver.as_ref()?;
        driver.capture.relaxed(|| {
            let raw = std::ptr::with_exposed_provenance_mut::<c_void>(stream);
            if driver.capture.is_capturing(raw) {
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

    /// Records the event after the call, and reports earlier calls that have completed.
    pub(super) fn end(&self, started: Started, function: Id, label: Option<Arc<str>>, report: impl FnMut(Measured)) {
        let Some(mut calls) = self.lock() else { return };
        let Some(driver) = calls.driver.take() else { return };
        driver.capture.relaxed(|| {
            let stream = std::ptr::with_exposed_provenance_mut::<c_void>(started.stream);
            // Recording would invalidate a capture that started during the call.
            if driver.capture.is_capturing(stream) || !driver.record(started.pair.end, stream) {
                calls.give_back(started.context, started.pair);
            } else {
                calls.pending.push_back(Pending { started, function, label });
            }
            calls.read(&driver, READS, report);
        });
        calls.driver = Some(driver);
    }

    /// Reports all completed calls.
    pub(super) fn finish(&self, report: impl FnMut(Measured)) {
        let Some(mut calls) = self.lock() else { return };
        let Some(driver) = calls.driver.take() else { return };
        driver.capture.relaxed(|| calls.read(&driver, MAX_CALLS, report));
        calls.driver = Some(driver);
    }
}

/// Returns the entry of this context, if there is room for it.
fn context(contexts: &mut Vec<CudaContext>, id: u64) -> Option<&mut CudaContext> {
    let index = match contexts.iter().position(|context| context.id == id) {
        Some(index) => index,
        None if contexts.len() < MAX_CONTEXTS => {
            contexts.push(CudaContext { id, free: Vec::new(), anchor: None });
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

    /// Reads the events of at most `limit` calls of this thread's context, oldest first.
    fn read(&mut self, driver: &EventFunctions, limit: usize, mut report: impl FnMut(Measured)) {
        let Some(current) = driver.context() else { return };
        let (mut index, mut reads) = (0, 0);
        while reads < limit {
            let Some(pending) = self.pending.get(index) else { return };
            // Skip other contexts, because their events must not be used after the context is destroyed.
            if pending.started.context != current {
                index += 1;
                continue;
            }
            reads += 1;
            let state = driver.state(pending.started.pair.end);
            if state == EventState::Expected {
                index += 1;
                // Events on other streams may have completed.
                continue;
            }
            let Some(Pending { started, function, label }) = self.pending.remove(index) else { return };
            if state == EventState::Lost {
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
        driver: &EventFunctions,
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
                // The device starts a call after the host has made it.
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
        // Calls on one stream never overlap, even if the estimated clock offset suggests it.
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
