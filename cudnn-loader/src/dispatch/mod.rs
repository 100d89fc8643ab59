//! Defines every cuDNN function as a callable function with a slot. The slot first contains a resolver and later
//! cuDNN's function. All of this code is generated from the function table.

use std::ffi::{CStr, c_char, c_void};
use std::time::Instant;

use cudnn_os::functions::pointer_as;
use cudnn_os::load::keep_loaded;
use cudnn_os::{in_section_of_slots, pass_number};
use cudnn_probe::{Installation, Library};
use cudnn_sys::types::cudnnStatus_t;

use crate::builtin::{Builtin, builtin};
use crate::dl::objects::LoadedObjects;
use crate::error::{FailureStatus, LoadError};
use crate::events::{self, LoaderEvent, emit, without_failure_events};
use crate::function::Function;
use crate::guard::{ffi_guard, rust_guard};
use crate::layers::{self, Target};
use crate::logging::loader_events;
use crate::options::Options;
use crate::resolve::functions::address;
use crate::resolve::libraries::{self, LoadedLibrary};
use crate::sync::slot::Slot;

/// Returns a function's slot. For a constant function, this compiles to an address.
macro_rules! slot {
    ($function:expr) => {{
        // There is one slot per variant, and variants are numbered from 0.
        #[allow(clippy::indexing_slicing, reason = "there is one slot for each variant")]
        let slot = &crate::dispatch::SLOTS[$function as usize];
        slot
    }};
}

/// Defines a function that calls the address in the slot. Adds `#[deprecated]` if cuDNN's headers mark the function as
/// deprecated and the program enables the warnings.
macro_rules! function {
    (true $($rest:tt)*) => {
        function! {
            @ #[cfg_attr(
                feature = "warn-deprecated",
                deprecated(note = "cuDNN's headers mark this function as deprecated")
            )]
            $($rest)*
        }
    };
    (false $($rest:tt)*) => { function! { @ $($rest)* } };
    (@ $(#[$attribute:meta])* fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// As in C: see cuDNN's documentation and the documentation of this crate.
        // Not `inline`: other crates would access the slot through their global offset table, which costs an extra
        // load. Link-time optimization still inlines the function as a load and a call.
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $returns {
            type Signature = unsafe extern "C" fn($($type),*) -> $returns;
            let address = slot!(super::Function::$variant).get();
            // SAFETY: a slot contains the function's resolver or cuDNN's function, and both have this signature.
            let function = unsafe { std::mem::transmute::<*mut (), Signature>(address) };
            // SAFETY: guaranteed by the caller.
            unsafe { function($($argument),*) }
        }
    };
}

macro_rules! functions {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:tt)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        in_section_of_slots! {
            /// The slots, in table order. Private, because other crates would access them through their global offset
            /// table, which costs an extra load. An array, because a match over statics would be a table of addresses
            /// that all need relocations. A separate section, for the drop-in's exports.
            static SLOTS: [Slot; Function::ALL.len()] =
                [$($( Slot::new(resolvers::$name as *const () as *mut ()), )*)*];
        }

        /// The initial values of the slots. Each resolver passes the function's number to a common trampoline, which
        /// resolves the function with all arguments in place and jumps to it. This makes a resolver two instructions
        /// for any signature.
        mod resolvers {
            use super::{Function, pass_number};
            $($(
                #[cold]
                #[unsafe(naked)]
                pub(super) unsafe extern "C-unwind" fn $name() {
                    pass_number!(Function::$variant as u32, crate::dispatch::resolve_and_jump)
                }
            )*)*
        }

        /// The value that each function returns if resolving it fails.
        static FAILURES: [FailureReturn; Function::ALL.len()] = [$($( <$returns as FailureValue>::FAILURE, )*)*];

        $(
            #[doc = concat!("Functions and types of `libcudnn_", stringify!($library), "`, which is loaded on first use.")]
            // Needed if another package enables these warnings in cudnn-sys.
            #[allow(deprecated, reason = "deprecated functions take deprecated types")]
            pub mod $library {
                #[allow(unused_imports, unreachable_pub, reason = "an older release may have none for this library")]
                pub use cudnn_sys::types::$library::*;
                $(
                    function! {
                        $deprecated
                        #[doc = concat!("`libcudnn_", stringify!($library), "`, since cuDNN ", $($since, ".",)* " ", $doc)]
                        fn $name/$variant($($argument: $type),*) -> $returns;
                    }
                )*
            }
        )*
    };
}

cudnn_sys::for_each_function!(functions);

impl Function {
    fn slot(self) -> &'static Slot {
        slot!(self)
    }

    /// Lets the layers wrap the function at this address, and redirects all later calls to the result. Returns the
    /// address for this call.
    fn publish(self, address: *mut ()) -> *mut () {
        let Target { address, is_final } = layers::wrap(self, address);
        if is_final {
            self.slot().set(address);
        }
        address
    }

    /// Resolves the function now, to detect a missing cuDNN before the first call. Returns the address that calls use.
    ///
    /// # Errors
    /// Returns the error that a call would report. The loader caches failures for a while; [`load_library`] retries
    /// immediately.
    pub fn resolve(self) -> Result<*const c_void, LoadError> {
        let resolve_in_cudnn = || address(self, &mut LoadedObjects::snapshot());
        let address = entry(|| match builtin(self) {
            Some(Builtin { address, needs_cudnn: false }) => Ok(address),
            Some(Builtin { address, needs_cudnn: true }) => resolve_in_cudnn().map(|_| address),
            None => resolve_in_cudnn(),
        })?;
        Ok(self.publish(address).cast_const().cast())
    }

    /// Like [`Function::resolve`], but returns a function pointer of type `F`.
    ///
    /// # Errors
    /// See [`Function::resolve`].
    ///
    /// # Safety
    /// `F` is a function pointer with this function's signature.
    pub unsafe fn get<F: Copy>(self) -> Result<F, LoadError> {
        // SAFETY: the caller's obligation, passed on.
        self.resolve().map(|address| unsafe { pointer_as(address) })
    }

    /// Returns whether the function can be called. Loads the libraries that this requires, and logs no error if they
    /// are unavailable.
    #[must_use]
    pub fn is_available(self) -> bool {
        without_failure_events(|| self.resolve().is_ok())
    }
}

impl Options {
    /// Selects an installation that meets the options and loads `libcudnn_graph.so.9` from it. Retries after an earlier
    /// failure.
    ///
    /// # Errors
    /// Fails if no installation meets the options, or if a different installation is already selected.
    pub fn load(&self) -> Result<&'static Installation, LoadError> {
        entry(|| libraries::load_installation(self))
    }
}

/// Loads the first cuDNN that the search finds, like [`Options::load`] without requirements.
///
/// # Errors
/// Fails if no usable cuDNN is found.
pub fn load() -> Result<&'static Installation, LoadError> {
    Options::new().load()
}

/// Runs a request from a Rust caller.
pub(crate) fn entry<T>(work: impl FnOnce() -> T) -> T {
    attach();
    rust_guard(work)
}

/// Makes the log and the layers receive the resolver's events.
fn attach() {
    events::subscribe(|event| {
        loader_events::record(event);
        layers::events::pass_to_layers(event);
    });
}

/// Loads a library of cuDNN if necessary, dependencies first. Retries immediately after an earlier failure.
///
/// # Errors
/// Returns the load error.
pub fn load_library(library: Library) -> Result<&'static LoadedLibrary, LoadError> {
    entry(|| {
        libraries::clear_failure(library);
        libraries::load(library, &mut LoadedObjects::snapshot())
    })
}

/// The trampoline: resolves the function with the number that a resolver passed, and jumps to it.
#[cold]
#[unsafe(naked)]
unsafe extern "C-unwind" fn resolve_and_jump() {
    cudnn_os::save_arguments_and_jump!(resolve_and_jump, resolve_first_call, reading SLOTS)
}

/// The slow path of a call: returns the address to jump to. After a failure, the address belongs to a function that
/// returns the failure status, and the thread's last error contains the report.
#[cold]
extern "C-unwind" fn resolve_first_call(number: u32) -> *const () {
    let Some(function) = Function::ALL.get(number as usize).copied() else {
        return FailureReturn::Status.function(FailureStatus::InternalError);
    };
    let start = Instant::now();
    attach();
    let address = match builtin(function) {
        Some(builtin) => {
            keep_loaded();
            builtin.address
        }
        None => match ffi_guard(&|objects| address(function, objects), &|| function.to_string()) {
            Ok(address) => address,
            Err(status) => {
                return FAILURES.get(number as usize).unwrap_or(&FailureReturn::Status).function(status);
            }
        },
    };
    let address = function.publish(address);
    emit(&LoaderEvent::FirstCall { function: function.symbol(), duration: start.elapsed() });
    address
}

/// Returns the address of a function without a public declaration, for the drop-in's private exports.
///
/// # Errors
/// Returns the address of a function that returns the status. The thread's last error contains the report.
pub fn resolve_private_symbol(library: Library, name: &CStr) -> Result<*const c_void, *const ()> {
    let resolve = |objects: &mut LoadedObjects| {
        libraries::load(library, objects)?.symbol(name).map(|address| address.cast_mut().cast())
    };
    attach();
    let resolved = ffi_guard(&resolve, &|| name.to_string_lossy().into_owned());
    resolved.map(|address| address.cast_const().cast()).map_err(|status| FailureReturn::Status.function(status))
}

/// The value that a function returns if resolving it fails.
#[derive(Clone, Copy)]
enum FailureReturn {
    /// The error's status.
    Status,
    /// Zero, for the version functions and for functions without a return value.
    Zero,
    /// An empty string.
    EmptyString,
}

impl FailureReturn {
    /// Returns a function that accepts any arguments and returns this value.
    fn function(self, status: FailureStatus) -> *const () {
        match self {
            FailureReturn::Status => failing_function(status),
            FailureReturn::Zero => return_zero as *const (),
            FailureReturn::EmptyString => return_empty_string as *const (),
        }
    }
}

/// Returns a function that accepts any arguments and returns this status.
fn failing_function(status: FailureStatus) -> *const () {
    macro_rules! returning {
        ($($status:ident)*) => {
            match status { $( FailureStatus::$status => return_status::<{ FailureStatus::$status as u32 }> as *const (), )* }
        };
    }
    returning!(SublibraryVersionMismatch SublibraryLoadingFailed NotSupported SublibraryUnavailable InternalError)
}

extern "C" fn return_status<const STATUS: u32>() -> cudnnStatus_t {
    cudnnStatus_t(STATUS)
}

extern "C" fn return_zero() -> usize {
    0
}

extern "C" fn return_empty_string() -> *const c_char {
    c"".as_ptr()
}

/// Maps a return type to its failure value.
trait FailureValue {
    const FAILURE: FailureReturn;
}

impl FailureValue for cudnnStatus_t {
    const FAILURE: FailureReturn = FailureReturn::Status;
}

impl FailureValue for usize {
    const FAILURE: FailureReturn = FailureReturn::Zero;
}

impl FailureValue for () {
    const FAILURE: FailureReturn = FailureReturn::Zero;
}

impl FailureValue for *const c_char {
    const FAILURE: FailureReturn = FailureReturn::EmptyString;
}
