//! The layer `trace`, which records every call with its time, thread, handle, stream, arguments and status.
//!
//! | output | variable | content |
//! | --- | --- | --- |
//! | [`Options::chrome`] | `CUDNN_TRACE` | a Perfetto file, which contains all returned calls even after a crash |
//! | [`Options::lines`] | `CUDNN_TRACE_LINES` | a line for each call |
//! | [`Options::summary`] | `CUDNN_TRACE_SUMMARY`, or no other output | a summary when the process exits |

mod call;
mod chrome;
mod file;
mod labels;
mod lines;
mod nvtx;
mod options;
mod parameters;
mod record;
mod statistics;
mod summary;
mod tracer;

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudnn_layer_api::{Event, EventKind, Host, Layer, NextFunction};
use cudnn_os::clock;
use cudnn_sys::types::cudnnStatus_t;

use self::call::FinishedCall;
use self::nvtx::Nvtx;
use self::tracer::{STREAMS, Tracer, tracer};
use crate::program_memory::accepted_word;
use crate::shadow::{Destruction, calls};
use crate::wrappers::{Call, Id, Intercept, Next, Returned, intercept};

pub use self::options::{Options, configure};
pub use crate::report::Destination;

/// Records every call.
#[derive(Debug)]
pub struct Trace(());

static NEXT: Next = Next::new();
/// The wrappers exist once, so the layer can be in the chain only once.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Returns the name of this library's trace layer, if it is active.
pub(crate) fn name() -> Option<&'static CStr> {
    tracer::host().map(|host| host.name())
}

impl Layer for Trace {
    fn begin(host: Host) -> Result<Self, String> {
        if HAS_BEGUN.swap(true, Ordering::Relaxed) {
            return Err("trace is already active".into());
        }
        tracer::start(host).inspect_err(|_| HAS_BEGUN.store(false, Ordering::Relaxed))?;
        Ok(Trace(()))
    }

    fn check() -> Result<(), String> {
        let options = Options::chosen()?;
        if let Some(name) = &options.chrome {
            file::KIND.check(name)?;
        }
        options.lines.iter().chain(&options.summary).try_for_each(Destination::check)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        if let Some(function) = Id::from_name(next.name().to_bytes()) {
            parameters::prepare(function);
        }
        intercept::<Trace>(next)
    }

    fn event(&self, event: &Event<'_>) {
        if let Some(tracer) = tracer() {
            write_event(tracer, event);
        }
    }
}

impl Intercept for Trace {
    const NEXT: &'static Next = &NEXT;

    #[inline]
    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let Some(tracer) = tracer() else { return next() };
        // The call is finished in a destructor, because an exception of the program's callback may unwind through here.
        let mut running = Running::new(tracer, call);
        let returned = next();
        running.status = returned.status();
        running.is_unwinding = false;
        returned
    }
}

struct Running<'a, 'b> {
    tracer: &'static Tracer,
    call: &'a Call<'b>,
    destruction: Option<Destruction>,
    /// The stream of the handle that the call destroys.
    destroyed: Option<usize>,
    status: Option<cudnnStatus_t>,
    is_unwinding: bool,
    start: u64,
}

impl Drop for Running<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.end(clock::monotonic());
    }
}

impl<'a, 'b> Running<'a, 'b> {
    #[inline]
    fn new(tracer: &'static Tracer, call: &'a Call<'b>) -> Self {
        let destruction = calls::before(call);
        let mut destroyed = None;
        if call.function == Id::CudnnDestroy {
            // Remove it before the call, because another thread may then create a handle at this address.
            let [handle] = call.bits::<1>();
            destroyed = STREAMS.remove(handle as usize);
        }
        let mut running = Running { tracer, call, destruction, destroyed, status: None, is_unwinding: true, start: 0 };
        if let Some(nvtx) = tracer.nvtx {
            begin_range(nvtx, call);
        }
        running.start = clock::monotonic();
        running
    }

    #[inline(never)]
    fn end(&mut self, now: u64) {
        let Running { tracer, call, status, is_unwinding, start, .. } = *self;
        if let Some(nvtx) = tracer.nvtx {
            nvtx.pop();
        }
        let stream = self.destroyed.or_else(|| stream_of(call));
        if status == Some(cudnnStatus_t::CUDNN_STATUS_SUCCESS) {
            follow_stream(call);
            calls::after(call, self.destruction.take());
        } else if let Some(stream) = self.destroyed {
            let [handle] = call.bits::<1>();
            STREAMS.insert(handle as usize, stream);
        }
        let label = labels::label(call);
        // A child that the program's callback forked has a different tracer.
        let Some(tracer) = tracer::tracer() else { return };
        let thread = tracer.thread();
        let duration = now.saturating_sub(start);
        let label = label.as_deref();
        let finished = FinishedCall { call, start, duration, status, is_unwinding, stream, label, thread };
        let has_arguments = !tracer.options.without_arguments;
        if tracer.has_summary {
            let label = label.filter(|_| labels::is_counted(call));
            summary::add(call.function, label, duration, finished.has_failed());
        }
        if let Some(chrome) = &tracer.chrome {
            chrome.write_call(&finished, has_arguments);
        }
        if let Some(lines) = &tracer.lines {
            lines.write_call(&finished, has_arguments);
        }
    }
}

#[cold]
fn begin_range(nvtx: Nvtx, call: &Call<'_>) {
    let name = labels::label(call).and_then(|label| CString::new(format!("{}: {label}", call.function.name())).ok());
    let plain = parameters::pieces(call.function).map_or(c"", |pieces| &pieces.name);
    nvtx.push(name.as_deref().unwrap_or(plain));
}

#[inline]
fn stream_of(call: &Call<'_>) -> Option<usize> {
    match call.handle {
        Some(handle) => STREAMS.get(handle.addr()),
        None => {
            let place = parameters::pieces(call.function)?.stream?;
            let mut stream = None;
            let mut index = 0;
            call.visit_arguments(|value| {
                if index == place {
                    stream = Some(value.bits() as usize);
                }
                index += 1;
            });
            stream
        }
    }
}

/// Tracks the streams of handles after a successful call.
#[inline]
fn follow_stream(call: &Call<'_>) {
    match call.function {
        Id::CudnnCreate => {
            let [to] = call.bits::<1>();
            // SAFETY: cuDNN has written the handle.
            if let Some(handle) = unsafe { accepted_word(to) } {
                STREAMS.insert(handle as usize, 0);
            }
        }
        Id::CudnnSetStream => {
            let [handle, stream] = call.bits::<2>();
            STREAMS.insert(handle as usize, stream as usize);
        }
        _ => {}
    }
}

fn write_event(tracer: &Tracer, event: &Event<'_>) {
    let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or_default();
    let end = clock::monotonic().saturating_sub(nanoseconds(event.age));
    let thread = tracer.thread();
    let write = |name: String, category: &str, duration: Option<Duration>, members: &[(_, &str)]| {
        let duration = duration.map(nanoseconds);
        let start = end.saturating_sub(duration.unwrap_or(0));
        tracer.write_event(&chrome::TraceEvent { name, category, thread, start, duration, members });
    };
    match event.kind {
        EventKind::LibraryLoaded { library, path, duration } => {
            let library = library.to_string_lossy();
            write(format!("load {library}"), "load", Some(duration), &[("path", &path.to_string_lossy())]);
            if tracer.has_summary {
                summary::add_library(library.into_owned(), duration);
            }
        }
        EventKind::FirstCall { function, duration } => {
            write(format!("resolve {}", function.to_string_lossy()), "first call", Some(duration), &[]);
        }
        EventKind::LibraryFailed { library, status, report } => {
            let members = [("status", &*shown(status)), ("report", &*report.to_string_lossy())];
            write(format!("cannot load {}", library.to_string_lossy()), "failure", None, &members);
        }
        EventKind::CallFailed { function, status, report } => {
            let members = [("status", &*shown(status)), ("report", &*report.to_string_lossy())];
            write(format!("failed {}", function.to_string_lossy()), "failure", None, &members);
        }
        _ => {}
    }
}

fn shown(status: i32) -> String {
    format!("{:?}", cudnnStatus_t(status.cast_unsigned()))
}
