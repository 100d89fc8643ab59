//! The interface as a trait. Everything here goes through [`abi`](crate::abi): a layer cannot tell whether it was added
//! by the program or loaded from a file.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::Duration;

use crate::abi;

/// A layer between the program and cuDNN.
///
/// # Safety
/// `wrap` returns the address of a function with the signature of the one that it is given, which stays valid until the
/// process ends, and which passes on what its caller promised. No C++ exception may leave `begin`, `wrap` or `event`:
/// one that a callback of the program throws during a call of cuDNN from there ends the process.
pub unsafe trait Layer: Send + Sync + Sized + 'static {
    /// Turns the layer on, once, when cuDNN is loaded. Calls of cuDNN from here reach cuDNN without any layer.
    ///
    /// # Errors
    /// Why the layer stays off. The program goes on without it.
    fn begin(host: Host) -> Result<Self, String>;

    /// Returns the function to call in place of `next`, or `next`. The loader asks once for each function, one function
    /// at a time, when the program first calls it. Calls of cuDNN from here reach cuDNN without any layer.
    fn wrap(&self, function: &CStr, next: *const c_void) -> *const c_void;

    /// Receives what happens in the loader, in any thread, also in several at once.
    fn event(&self, event: &Event<'_>) {
        let _ = event;
    }
}

/// What the loader offers to a layer.
#[derive(Clone, Copy, Debug)]
pub struct Host(&'static abi::Host);

// SAFETY: the loader's functions may be called in any thread, and the texts never change.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    pub(crate) fn new(host: &'static abi::Host) -> Self {
        Host(host)
    }

    /// The version of cuDNN, as `cudnnGetVersion` numbers it: 92800.
    #[must_use]
    pub fn cudnn_version(&self) -> u32 {
        self.0.cudnn_version
    }

    /// The directory of cuDNN's libraries.
    #[must_use]
    pub fn cudnn_dir(&self) -> &'static CStr {
        // SAFETY: the loader's string, valid until the process ends.
        unsafe { CStr::from_ptr(self.0.cudnn_dir) }
    }

    /// The layer, as it was requested.
    #[must_use]
    pub fn name(&self) -> &'static CStr {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(self.0.name) }
    }

    /// The address of a function of cuDNN behind this layer, for the layer's own calls; `None` if this cuDNN does not
    /// have it. May load the sub-library that does.
    #[must_use]
    pub fn next(&self, function: &CStr) -> Option<*const c_void> {
        // SAFETY: the loader's function, called as the header says.
        let address = unsafe { (self.0.next)(self.0, function.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    }

    /// How many calls of the program have gone to cuDNN past the layers so far. It grows before such a call reaches cuDNN:
    /// when another thread is busy with layers for a second. A layer that must see every call compares it before it relies
    /// on what it has seen.
    #[must_use]
    pub fn missed_calls(&self) -> u64 {
        // SAFETY: the loader's function, called as the header says.
        unsafe { (self.0.missed_calls)(self.0) }
    }

    /// The layers between this one and cuDNN, as they were requested, the outermost first, each followed by a newline. They
    /// may change what cuDNN is asked for.
    #[must_use]
    pub fn inside(&self) -> &'static CStr {
        // SAFETY: as in `name`.
        unsafe { CStr::from_ptr(self.0.inside) }
    }

    /// The environment when cuDNN's graph library was loaded, which reads some variables then: names and values. `None` if
    /// the library was loaded before the loader was used, or before it knew of a layer.
    #[must_use]
    pub fn environment(&self) -> Option<impl Iterator<Item = (&'static [u8], &'static [u8])>> {
        let mut next = self.0.environment;
        let entries = std::iter::from_fn(move || {
            // SAFETY: strings of the loader's with an empty one behind the last, valid until the process ends.
            let entry = unsafe { CStr::from_ptr(next) }.to_bytes();
            if entry.is_empty() {
                return None;
            }
            next = next.wrapping_add(entry.len() + 1);
            Some(entry)
        });
        let pair = |entry: &'static [u8]| {
            let sign = entry.iter().position(|byte| *byte == b'=')?;
            Some((entry.get(..sign)?, entry.get(sign + 1..)?))
        };
        (!next.is_null()).then(|| entries.filter_map(pair))
    }

    /// Logs an error.
    pub fn error(&self, text: &str) {
        self.message(abi::ERROR, text);
    }

    /// Logs a warning.
    pub fn warning(&self, text: &str) {
        self.message(abi::WARNING, text);
    }

    /// Logs an information.
    pub fn info(&self, text: &str) {
        self.message(abi::INFO, text);
    }

    fn message(&self, severity: c_int, text: &str) {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        // SAFETY: the loader's function, called as the header says.
        unsafe { (self.0.message)(self.0, severity, text.as_ptr()) };
    }
}

/// What happened in the loader.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// What happened.
    pub kind: EventKind<'a>,
    /// How long ago it ended: more than nothing for what happened before the layer began.
    pub age: Duration,
}

/// The kinds of [`Event`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// A sub-library was loaded.
    LibraryLoaded {
        /// Its name: `libcudnn_ops.so.9`.
        library: &'a CStr,
        /// Its file.
        path: &'a CStr,
        /// The time to check, load and verify it, without its dependencies.
        duration: Duration,
    },
    /// A sub-library could not be loaded.
    LibraryFailed {
        /// Its name.
        library: &'a CStr,
        /// The `cudnnStatus_t` of calls that need it.
        status: i32,
        /// The full report.
        report: &'a CStr,
    },
    /// A call failed, because its function could not be resolved. No layer sees the call.
    CallFailed {
        /// The function.
        function: &'a CStr,
        /// The `cudnnStatus_t` that the caller gets.
        status: i32,
        /// The full report.
        report: &'a CStr,
    },
    /// A function was resolved for its first call, which follows.
    FirstCall {
        /// The function.
        function: &'a CStr,
        /// The time to resolve it, including the libraries that this loaded.
        duration: Duration,
    },
}

impl<'a> Event<'a> {
    /// `None` for a kind that is newer than this crate.
    pub(crate) fn new(event: &'a abi::Event) -> Option<Self> {
        // SAFETY: each pointer is null or a string of the loader's, valid as long as the event.
        let text = |text: *const c_char| if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } };
        let duration = Duration::from_nanos(event.duration_ns);
        let kind = match event.kind {
            abi::LIBRARY_LOADED => {
                EventKind::LibraryLoaded { library: text(event.library), path: text(event.path), duration }
            }
            abi::LIBRARY_FAILED => EventKind::LibraryFailed {
                library: text(event.library),
                status: event.status,
                report: text(event.text),
            },
            abi::CALL_FAILED => {
                EventKind::CallFailed { function: text(event.function), status: event.status, report: text(event.text) }
            }
            abi::FIRST_CALL => EventKind::FirstCall { function: text(event.function), duration },
            _ => return None,
        };
        Some(Event { kind, age: Duration::from_nanos(event.age_ns) })
    }
}
