//! Manages the outputs of this process, and opens new ones in a forked child.

use std::cell::Cell;

use cudnn_layer_api::Host;
use cudnn_os::exit::call_at_exit;
use cudnn_os::threads;

use super::chrome::{Chrome, TraceEvent};
use super::lines::Lines;
use super::nvtx::Nvtx;
use super::options::Options;
use super::summary;
use crate::fork::{self, AtFork, Rank};
use crate::leaked::Leaked;
use crate::report::{process_name, save_working_dir, write_summary};
use crate::shadow;
use crate::table::Table;

/// The outputs of this process, which are never freed because other threads may use them.
pub(super) struct Tracer {
    pub(super) options: Options,
    pub(super) chrome: Option<Chrome>,
    pub(super) lines: Option<Lines>,
    pub(super) has_summary: bool,
    pub(super) nvtx: Option<Nvtx>,
    process: u32,
    host: Host,
}

static TRACER: Leaked<Tracer> = Leaked::new();
/// The parent's outputs in a forked child that has not opened separate ones yet.
static PARENTS: Leaked<Tracer> = Leaked::new();
/// A forked child inherits handles, but counts its own calls.
static AT_FORK: &[AtFork] =
    &[AtFork::Inherited(&STREAMS), AtFork::Emptied(&summary::SUMMARY), AtFork::InChild(leave_to_parent)];
pub(super) static STREAMS: Table<usize, 32> = Table::new(1024);

pub(super) fn start(host: Host) -> Result<(), String> {
    let options = Options::chosen()?;
    save_working_dir();
    let nvtx = options.nvtx.as_deref().and_then(|library| Nvtx::load(library.as_os_str()));
    let tracer = Tracer::open(options, false, host, nvtx)?;
    fork::take_part(Rank::Shadow, &shadow::AT_FORK);
    fork::take_part(Rank::Trace, &AT_FORK);
    TRACER.set(Box::leak(Box::new(tracer)));
    call_at_exit(finish);
    Ok(())
}

/// Runs in a new child, which may never call cuDNN, because the file stays locked while any process has it open.
fn leave_to_parent() {
    if let Some(parents) = TRACER.take() {
        if let Some(chrome) = &parents.chrome {
            chrome.leave_to_parent();
        }
        PARENTS.set(parents);
    }
}

/// Returns the outputs of this process, or `None` if they are still being opened.
#[inline]
pub(super) fn tracer() -> Option<&'static Tracer> {
    match current() {
        None => start_child(),
        tracer => tracer,
    }
}

#[inline]
fn current() -> Option<&'static Tracer> {
    TRACER.get()?;
    fork::notice_child();
    TRACER.get()
}

pub(super) fn host() -> Option<Host> {
    TRACER.get().or_else(|| PARENTS.get()).map(|tracer| tracer.host)
}

/// Opens the outputs of a forked child, unless another thread is doing so. Until then, calls are not traced.
#[cold]
fn start_child() -> Option<&'static Tracer> {
    PARENTS.get()?;
    fork::notice_child();
    let parents = PARENTS.take()?;
    match Tracer::open(parents.options.clone(), true, parents.host, parents.nvtx) {
        Ok(tracer) => TRACER.set(Box::leak(Box::new(tracer))),
        Err(reason) => parents.host.error(&reason),
    }
    TRACER.get()
}

impl Tracer {
    /// Opens the files, but no libraries, because a thread of the parent may have held ld.so's lock during the fork.
    fn open(options: Options, is_child: bool, host: Host, nvtx: Option<Nvtx>) -> Result<Self, String> {
        let chrome = Chrome::create(&options, is_child, &process_name(host), host)?;
        let open = |destination| Lines::open(destination, options.limit(), host);
        let lines = options.lines.as_ref().map(open).transpose()?;
        let has_summary = options.summary.is_some();
        Ok(Tracer { options, chrome, lines, has_summary, nvtx, process: std::process::id(), host })
    }

    #[inline]
    pub(super) fn thread(&self) -> u32 {
        thread_local! {
            /// The process ID and the thread ID in one word, because the forked child's only thread has a new ID.
            static THREAD: Cell<u64> = const { Cell::new(0) };
        }
        let current = |cell: &Cell<u64>| {
            let known = cell.get();
            if (known >> 32) as u32 == self.process {
                return known as u32;
            }
            let thread = threads::id();
            cell.set(u64::from(self.process) << 32 | u64::from(thread));
            thread
        };
        THREAD.try_with(current).unwrap_or_else(|_| threads::id())
    }

    /// Writes an event to all outputs except the summary.
    pub(super) fn write_event(&self, event: &TraceEvent<'_>) {
        if let Some(chrome) = &self.chrome {
            chrome.write_event(event);
        }
        if let Some(lines) = &self.lines {
            lines.write_event(event);
        }
    }
}

extern "C" fn finish() {
    let Some(tracer) = current() else { return };
    if let Some(chrome) = &tracer.chrome {
        chrome.finish();
    }
    let Some(destination) = &tracer.options.summary else { return };
    let title = format!("cudnn-trace summary for process {}, {}", tracer.process, process_name(tracer.host));
    if let Some(report) = summary::report(&title) {
        write_summary(tracer.host, destination, &format!("\n{report}\n"));
    }
}
