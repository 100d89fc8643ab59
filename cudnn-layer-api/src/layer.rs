//! The interface of layers as a trait.
//!
//! Everything here is based on [`abi`](crate::abi), so layers work in the same way whether the program adds them or the
//! loader opens them from a file.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::Duration;

use crate::abi;

/// A layer that runs between a program and cuDNN.
///
/// C++ exceptions must not leave `begin`, `wrap` or `event`. If a callback of the program throws one during a cuDNN
/// call from these functions, the process terminates.
pub trait Layer: Send + Sync + Sized + 'static {
    /// Starts the layer. Called once when cuDNN is loaded. cuDNN calls from this function bypass all layers.
    ///
    /// # Errors
    /// Returns the reason why the layer stays off. The program continues without it.
    fn begin(host: Host) -> Result<Self, String>;

    /// Checks the environment variables that the layer reads, before a program is started with them. Called in a
    /// process without cuDNN.
    ///
    /// # Errors
    /// Returns the reason why the layer would stay off or would not work as requested.
    fn check() -> Result<(), String> {
        Ok(())
    }

    /// Returns the function to call instead of `next`, or `next` itself. The loader calls this once per function,
    /// before the program's first call of that function, and never concurrently. cuDNN calls from here bypass all
    /// layers.
    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a>;

    /// Receives events of the loader. May be called in any thread, and concurrently.
    fn event(&self, event: &Event<'_>) {
        let _ = event;
    }
}

/// A function that a layer can wrap: cuDNN's, or the one of a layer closer to cuDNN. See [`Layer::wrap`].
#[derive(Clone, Copy, Debug)]
pub struct NextFunction<'a> {
    name: &'a CStr,
    address: *const c_void,
}

impl<'a> NextFunction<'a> {
    pub(crate) fn new(name: &'a CStr, address: *const c_void) -> Self {
        NextFunction { name, address }
    }

    /// Returns the function's name in cuDNN.
    #[must_use]
    pub fn name(self) -> &'a CStr {
        self.name
    }

    /// Returns the function's address.
    #[must_use]
    pub fn address(self) -> *const c_void {
        self.address
    }

    /// Replaces the function with another one. [`wrappers`](crate::wrappers) does this with a check of the type.
    ///
    /// # Safety
    /// `address` must belong to a function with the same signature, which stays valid until the process exits and passes
    /// on the guarantees of its caller.
    #[must_use]
    pub unsafe fn replaced_by(self, address: *const c_void) -> Self {
        NextFunction { address, ..self }
    }
}

/// Reads a field through a pointer to a structure of the loader. A reference to the structure would be invalid, because
/// older loaders' structures are shorter.
macro_rules! field {
    ($structure:expr, $field:ident) => {
        (&raw const (*$structure).$field).read()
    };
}

/// The services that the loader provides to a layer.
#[derive(Clone, Copy, Debug)]
pub struct Host(*const abi::Host);

// SAFETY: the loader's functions may be called in any thread, and the strings are immutable.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// Returns `None` if the pointer is null, or the structure has no room for the fields of every loader.
    ///
    /// # Safety
    /// The pointer is null, or to a structure of the loader that is valid until the process exits.
    pub(crate) unsafe fn new(host: *const abi::Host) -> Option<Self> {
        // SAFETY: every version of the structure starts with its size.
        let is_complete = !host.is_null() && unsafe { field!(host, size) } >= abi::Host::MIN_SIZE;
        is_complete.then_some(Host(host))
    }

    /// Returns the version of cuDNN as reported by `cudnnGetVersion`, such as 92800.
    #[must_use]
    pub fn cudnn_version(&self) -> u32 {
        // SAFETY: `new` has checked that the field exists, as for all fields up to `abi::Host::MIN_SIZE`.
        unsafe { field!(self.0, cudnn_version) }
    }

    /// Returns what `cudnnGetCudartVersion` returns, such as 12090 for CUDA 12.9. Returns `None` if the loader does not know
    /// it.
    #[must_use]
    pub fn cudart_version(&self) -> Option<u32> {
        // SAFETY: every version of the structure starts with its size.
        let size = unsafe { field!(self.0, size) };
        let is_present = size >= std::mem::offset_of!(abi::Host, cudart_version) + size_of::<u32>();
        // SAFETY: the structure contains the field.
        let version = is_present.then(|| unsafe { field!(self.0, cudart_version) });
        version.filter(|version| *version != 0)
    }

    /// Returns the directory of cuDNN's libraries.
    #[must_use]
    pub fn cudnn_dir(&self) -> &'static CStr {
        // SAFETY: the field exists, and the loader's string is valid until the process exits.
        unsafe { CStr::from_ptr(field!(self.0, cudnn_dir)) }
    }

    /// Returns the name of the layer, as it was requested.
    #[must_use]
    pub fn name(&self) -> &'static CStr {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(field!(self.0, name)) }
    }

    /// Returns the cuDNN function that comes next after this layer, for the layer's own calls. Returns `None` if the
    /// function is missing in this version of cuDNN. This may load a sub-library.
    #[must_use]
    pub fn next(&self, function: &CStr) -> Option<*const c_void> {
        // SAFETY: the field exists; the loader's function is called as documented in the header.
        let address = unsafe { field!(self.0, next)(self.0, function.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    }

    /// Returns the number of calls that have bypassed the layers so far, because another thread was busy with layers
    /// for a second.
    ///
    /// The number is incremented before such a call reaches cuDNN. A layer that must see every call should compare it
    /// before relying on recorded state.
    #[must_use]
    pub fn missed_calls(&self) -> u64 {
        // SAFETY: as in `next`.
        unsafe { field!(self.0, missed_calls)(self.0) }
    }

    /// Returns the layers between this one and cuDNN by the requested names, outermost first, each followed by a
    /// newline. They may change the calls that reach cuDNN.
    #[must_use]
    pub fn inside(&self) -> &'static CStr {
        // SAFETY: as in `name`.
        unsafe { CStr::from_ptr(field!(self.0, inside)) }
    }

    /// Returns the environment at the time when cuDNN's graph library was loaded and read some variables, as names and
    /// values. Returns `None` if the library was loaded before the loader was used or had a layer.
    #[must_use]
    pub fn environment(&self) -> Option<impl Iterator<Item = (&'static [u8], &'static [u8])>> {
        // SAFETY: the field exists.
        let mut next = unsafe { field!(self.0, environment) };
        let entries = std::iter::from_fn(move || {
            // SAFETY: the loader's strings end with an empty one and are valid until the process exits.
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

    /// Logs an informational message.
    pub fn info(&self, text: &str) {
        self.message(abi::INFO, text);
    }

    fn message(&self, severity: c_int, text: &str) {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        // SAFETY: as in `next`.
        unsafe { field!(self.0, message)(self.0, severity, text.as_ptr()) };
    }
}

/// An event in the loader.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The kind of event.
    pub kind: EventKind<'a>,
    /// The time since the event ended, which is larger than zero if it happened before the layer started.
    pub age: Duration,
}

/// The kinds of [`Event`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// A sub-library was loaded.
    LibraryLoaded {
        /// The name, such as `libcudnn_ops.so.9`.
        library: &'a CStr,
        /// The path of the file.
        path: &'a CStr,
        /// The time to check, load and verify the library, without dependencies.
        duration: Duration,
    },
    /// A sub-library could not be loaded.
    LibraryFailed {
        /// The name of the library.
        library: &'a CStr,
        /// The `cudnnStatus_t` that calls to this library return.
        status: i32,
        /// The full report.
        report: &'a CStr,
    },
    /// A call failed because the function could not be resolved. Layers do not see the call.
    CallFailed {
        /// The function.
        function: &'a CStr,
        /// The `cudnnStatus_t` that the call returns.
        status: i32,
        /// The full report.
        report: &'a CStr,
    },
    /// A function was resolved before the first call, which follows.
    FirstCall {
        /// The function.
        function: &'a CStr,
        /// The time to resolve the function, including the time to load libraries.
        duration: Duration,
    },
}

impl<'a> Event<'a> {
    /// Returns `None` if the pointer is null, the structure has no room for the fields of every loader, or the kind of
    /// event is newer than this crate.
    ///
    /// # Safety
    /// The pointer is null, or to a structure of the loader that lives as long as the event.
    pub(crate) unsafe fn new(event: *const abi::Event) -> Option<Self> {
        // SAFETY: every version of the structure starts with its size.
        if event.is_null() || unsafe { field!(event, size) } < abi::Event::MIN_SIZE {
            return None;
        }
        // SAFETY: the fields exist.
        let (kind, status, duration, age) =
            unsafe { (field!(event, kind), field!(event, status), field!(event, duration_ns), field!(event, age_ns)) };
        // SAFETY: as above.
        let texts =
            unsafe { [field!(event, function), field!(event, library), field!(event, path), field!(event, text)] };
        // SAFETY: the pointers are null or strings of the loader that live as long as the event.
        let text = |text: *const c_char| if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } };
        let ([function, library, path, report], duration) = (texts.map(text), Duration::from_nanos(duration));
        let kind = match kind {
            abi::LIBRARY_LOADED => EventKind::LibraryLoaded { library, path, duration },
            abi::LIBRARY_FAILED => EventKind::LibraryFailed { library, status, report },
            abi::CALL_FAILED => EventKind::CallFailed { function, status, report },
            abi::FIRST_CALL => EventKind::FirstCall { function, duration },
            _ => return None,
        };
        Some(Event { kind, age: Duration::from_nanos(age) })
    }
}
