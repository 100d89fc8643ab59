//! What traces this process: its outputs, and how a child of a fork gets others.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use cudnn_layer_api::Host;

use super::chrome::{Chrome, Event, ThreadPieces};
use super::gpu::{Gpu, Measured};
use super::lines::Lines;
use super::nvtx::Nvtx;
use super::options::Options;
use super::streams::Streams;
use super::summary;
use crate::platform::{clock, fork, process};
use crate::report::{open, process_name};

/// The outputs of this process. Never freed: other threads may use it.
pub(super) struct Tracer {
    pub(super) options: Options,
    pub(super) chrome: Option<Chrome>,
    pub(super) lines: Option<Lines>,
    pub(super) has_summary: bool,
    pub(super) gpu: Option<Gpu>,
    pub(super) nvtx: Option<Nvtx>,
    process: u32,
    host: Host,
}

/// The numbers of devices' tracks: beyond those of threads.
const FIRST_TRACK: u32 = 1_000_000_000;

static TRACER: AtomicPtr<Tracer> = AtomicPtr::new(null_mut());
/// The process is a child of a fork, and what there is belongs to its parent.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// A thread opens the child's outputs.
static IS_STARTING: AtomicBool = AtomicBool::new(false);
/// The streams of handles, which a child inherits.
pub(super) static STREAMS: Streams = Streams::new();

/// Opens the outputs.
pub(super) fn start(host: Host) -> Result<(), String> {
    clock::start();
    let tracer = Tracer::open(Options::chosen(), host)?;
    publish(tracer);
    fork::call_at_forks(nothing, nothing, become_child);
    process::call_at_exit(write_summary);
    Ok(())
}

/// What traces this process; `None` while that is not ready.
#[inline]
pub(super) fn tracer() -> Option<&'static Tracer> {
    if IS_CHILD.load(Ordering::Relaxed) {
        start_child();
    }
    current()
}

fn current() -> Option<&'static Tracer> {
    // SAFETY: a tracer is never freed.
    unsafe { TRACER.load(Ordering::Acquire).as_ref() }
}

fn publish(tracer: Tracer) {
    let tracer = Box::leak(Box::new(tracer));
    TRACER.store(tracer, Ordering::Release);
    if let Some(chrome) = &tracer.chrome {
        chrome.start_helper();
    }
}

unsafe extern "C" fn nothing() {}

/// In a child of a fork, where nothing may be done yet but this.
unsafe extern "C" fn become_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
    IS_STARTING.store(false, Ordering::Relaxed);
}

/// Opens the outputs of a child, unless another thread does: calls until then are not traced.
#[cold]
fn start_child() {
    if IS_STARTING.swap(true, Ordering::Acquire) {
        return;
    }
    if IS_CHILD.load(Ordering::Relaxed)
        && let Some(parents) = current()
    {
        TRACER.store(null_mut(), Ordering::Release);
        if let Some(chrome) = &parents.chrome {
            chrome.leave_to_parent();
        }
        summary::clear();
        match Tracer::open(parents.options.clone(), parents.host) {
            Ok(tracer) => publish(tracer),
            Err(reason) => parents.host.error(&reason),
        }
    }
    IS_CHILD.store(false, Ordering::Relaxed);
    IS_STARTING.store(false, Ordering::Release);
}

impl Tracer {
    fn open(options: Options, host: Host) -> Result<Self, String> {
        let chrome =
            options.chrome.as_deref().map(|name| Chrome::create(name, &process_name(host), host)).transpose()?;
        let lines = options.lines.as_ref().map(|destination| Lines::open(destination, host)).transpose()?;
        let has_summary = options.summary.is_some();
        let gpu = options.gpu.then(Gpu::new);
        let nvtx = options.nvtx.as_deref().and_then(|library| Nvtx::load(library.as_os_str()));
        Ok(Tracer { options, chrome, lines, has_summary, gpu, nvtx, process: process::id(), host })
    }

    /// The number of this thread, and the pieces of a record at this time with it.
    #[inline]
    pub(super) fn thread(&self, time: u64) -> (u32, ThreadPieces) {
        thread_local! {
            /// The process and the thread: a child's only thread has another number than its parent's.
            static THREAD: Cell<(u32, u32, ThreadPieces)> = const { Cell::new((0, 0, ThreadPieces::NONE)) };
        }
        let current = |cell: &Cell<(u32, u32, ThreadPieces)>| {
            let (process, mut thread, mut pieces) = cell.get();
            let is_known = process == self.process;
            if !is_known {
                thread = process::thread_id();
                pieces = ThreadPieces::new(thread);
            }
            if pieces.prepare(time) || !is_known {
                cell.set((self.process, thread, pieces));
            }
            (thread, pieces)
        };
        THREAD.try_with(current).unwrap_or((0, ThreadPieces::NONE))
    }

    /// Writes what a call has taken on the device.
    pub(super) fn write_measured(&self, measured: &Measured) {
        let label = measured.label.as_deref();
        if self.has_summary {
            summary::add_measured(measured.function, label, measured.duration);
        }
        let thread = FIRST_TRACK + measured.track;
        let stream = format!("{:#x}", measured.stream);
        if let Some(chrome) = self.chrome.as_ref().filter(|_| measured.is_first) {
            chrome.name_track(thread, &format!("stream {stream} of the device"));
        }
        let members = [("stream", stream.as_str()), ("graph", label.unwrap_or_default())];
        self.write_event(&Event {
            name: measured.function.name(),
            detail: " on the device",
            category: "gpu",
            thread,
            start: measured.start,
            duration: Some(Duration::from_nanos(measured.duration)),
            members: members.get(..if label.is_some() { 2 } else { 1 }).unwrap_or_default(),
        });
    }

    /// Writes an event to all outputs but the summary.
    pub(super) fn write_event(&self, event: &Event<'_>) {
        if let Some(chrome) = &self.chrome {
            chrome.write_event(event);
        }
        if let Some(lines) = &self.lines {
            lines.write_event(event);
        }
    }
}

/// When the process exits.
extern "C" fn write_summary() {
    if IS_CHILD.load(Ordering::Relaxed) {
        return;
    }
    let Some(tracer) = current() else { return };
    if let Some(gpu) = &tracer.gpu {
        gpu.finish(|measured| tracer.write_measured(&measured));
    }
    let Some(destination) = &tracer.options.summary else { return };
    let title = format!("cudnn-trace of process {}, {}", tracer.process, process_name(tracer.host));
    let Some(report) = summary::report(&title) else { return };
    let written = open(destination)
        .and_then(|file| file.write(format!("\n{report}\n").as_bytes()).map_err(|error| error.to_string()));
    if let Err(reason) = written {
        tracer.host.error(&format!("writes no summary: {reason}"));
    }
}
