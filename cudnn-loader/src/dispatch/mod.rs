//! Every function of the table as a function to call: a slot that starts at a resolver and ends at cuDNN's function.
//! Nothing here is written by hand for one function.

use std::ffi::{CStr, c_char, c_void};
use std::time::Instant;

use cudnn_os::functions::pointer_as;
use cudnn_os::load::keep_loaded;
use cudnn_os::{in_section_of_slots, pass_number};
use cudnn_probe::Installation;
use cudnn_sys::types::cudnnStatus_t;

use crate::builtin::{Builtin, builtin};
use crate::error::LoadError;
use crate::events::{Event, as_question, emit};
use crate::function::Function;
use crate::guard::{entry, ffi_guard};
use crate::layers::{self, Target};
use crate::options::Options;
use crate::resolve::libraries::{self, LoadedLibrary};
use crate::sub_library::SubLibrary;
use crate::sync::slot::Slot;

/// A function's slot. For a function that is a compile-time constant: an address and nothing more.
macro_rules! slot {
    ($function:expr) => {{
        // One slot for each variant, and variants are numbered from 0.
        #[allow(clippy::indexing_slicing, reason = "there is one slot for each variant")]
        let slot = &crate::dispatch::SLOTS[$function as usize];
        slot
    }};
}

/// A function that calls what its slot contains, with `#[deprecated]` if cuDNN's headers mark it so and the program asks for
/// the warnings.
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
        /// As in C: see cuDNN's documentation, and that of this crate.
        // Not `inline`: another crate would reach the slot through its global offset table, at the cost of a load.
        // Link-time optimisation still inlines it, as load and call.
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $returns {
            type Signature = unsafe extern "C" fn($($type),*) -> $returns;
            let address = slot!(super::Function::$variant).get();
            // SAFETY: a slot contains the function's resolver or cuDNN's function, both of this signature.
            let function = unsafe { std::mem::transmute::<*mut (), Signature>(address) };
            // SAFETY: the caller's obligation, passed on unchanged.
            unsafe { function($($argument),*) }
        }
    };
}

macro_rules! functions {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:tt)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        in_section_of_slots! {
            /// The slots, in the order of the table. Private to this crate: another crate would reach it through its
            /// global offset table, at the cost of a load. One array: a match that leads to statics would be a table of
            /// addresses, each of which needs a relocation. In a section of its own, for the drop-in's exports.
            static SLOTS: [Slot; Function::ALL.len()] =
                [$($( Slot::new(resolvers::$name as *const () as *mut ()), )*)*];
        }

        /// The first value of each slot. It passes the function's number to the one trampoline, which resolves the
        /// function with all arguments in place and jumps to it. So a resolver is two instructions for any signature.
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

        /// The value that each function returns if it cannot be resolved.
        static FAILURES: [Failure; Function::ALL.len()] = [$($( <$returns as FailureValue>::FAILURE, )*)*];

        $(
            #[doc = concat!("Functions and types of `libcudnn_", stringify!($library), "`, which is loaded on first use.")]
            // Also where another package asks cudnn-sys for these warnings, and none asks this one.
            #[allow(deprecated, reason = "deprecated functions take deprecated types")]
            pub mod $library {
                #[allow(unused_imports, unreachable_pub, reason = "an older release may have none for this library")]
                pub use cudnn_sys::types::$library::*;
                $(
                    function! {
                        $deprecated
                        $(#[$doc])*
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

    /// Lets the layers replace the function at this address, and sends all later calls there. Returns the address for
    /// this call.
    fn publish(self, address: *mut ()) -> *mut () {
        let Target { address, is_final } = layers::wrap(self, address);
        if is_final {
            self.slot().set(address);
        }
        address
    }

    /// Resolves the function now, so that a later call cannot fail for lack of cuDNN. Returns the address that calls
    /// reach.
    ///
    /// # Errors
    /// The reason for which a call would fail. The loader remembers a failure for a while; [`SubLibrary::load`] tries again
    /// at once.
    pub fn resolve(self) -> Result<*const c_void, LoadError> {
        let address = entry(|| match builtin(self) {
            Some(Builtin { address, needs_cudnn: false }) => Ok(address),
            Some(Builtin { address, needs_cudnn: true }) => libraries::address(self).map(|_| address),
            None => libraries::address(self),
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

    /// Whether the function can be called here. Loads what it takes to find out, and logs no error if it cannot.
    #[must_use]
    pub fn is_available(self) -> bool {
        as_question(|| self.resolve().is_ok())
    }
}

impl SubLibrary {
    /// The loaded library; `None` if it is not loaded. Loads nothing.
    #[must_use]
    pub fn loaded(self) -> Option<&'static LoadedLibrary> {
        libraries::loaded(self)
    }

    /// Loads the library, unless it is loaded already, and tries again what failed before.
    ///
    /// # Errors
    /// The reason for which it cannot be loaded.
    pub fn load(self) -> Result<&'static LoadedLibrary, LoadError> {
        entry(|| {
            libraries::clear_failure(self);
            libraries::load(self)
        })
    }

    /// The address of any function or data symbol in the library. These bindings need not know it: a newer cuDNN may
    /// have added it, and some symbols are in no header. Loads the library.
    ///
    /// # Errors
    /// Why the library cannot be loaded, or that it does not export the name.
    pub fn symbol(self, name: &CStr) -> Result<*const c_void, LoadError> {
        entry(|| libraries::symbol(self, name))
    }

    /// Like [`SubLibrary::symbol`], but returns a pointer of type `P`.
    ///
    /// # Errors
    /// See [`SubLibrary::symbol`].
    ///
    /// # Safety
    /// `P` is a pointer type, and the symbol is what it points to: a function with that signature, or data of that
    /// type.
    pub unsafe fn get<P: Copy>(self, name: &CStr) -> Result<P, LoadError> {
        // SAFETY: the caller's obligation, passed on.
        self.symbol(name).map(|address| unsafe { pointer_as(address) })
    }
}

impl Options {
    /// Selects an installation that meets the options, and loads `libcudnn_graph.so.9` from it. Tries again if an
    /// earlier attempt failed.
    ///
    /// # Errors
    /// Why there is none, or why the selected one does not meet the options.
    pub fn load(&self) -> Result<&'static Installation, LoadError> {
        entry(|| libraries::load_installation(self))
    }
}

/// Loads cuDNN now, the first that the search finds: [`Options::load`] without requirements.
///
/// # Errors
/// Why there is none.
pub fn load() -> Result<&'static Installation, LoadError> {
    Options::new().load()
}

/// The trampoline: resolves the function whose number a resolver passed, and jumps to it.
#[cold]
#[unsafe(naked)]
unsafe extern "C-unwind" fn resolve_and_jump() {
    cudnn_os::save_arguments_and_jump!(resolve_and_jump, resolve_first_call, reading SLOTS)
}

/// The slow path of a call: returns the address to jump to. If the function cannot be resolved, a function at that
/// address returns the failure, and the thread's last error has the report.
#[cold]
extern "C-unwind" fn resolve_first_call(number: u32) -> *const () {
    let Some(function) = Function::ALL.get(number as usize).copied() else {
        return Failure::Status.function(cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR);
    };
    let start = Instant::now();
    let address = match builtin(function) {
        Some(builtin) => {
            keep_loaded();
            builtin.address
        }
        None => match ffi_guard(&|| libraries::address(function), &|| function.to_string()) {
            Ok(address) => address,
            Err(status) => {
                return FAILURES.get(number as usize).unwrap_or(&Failure::Status).function(status);
            }
        },
    };
    let address = function.publish(address);
    emit(&Event::FirstCall { function: function.symbol(), duration: start.elapsed() });
    address
}

/// The address of a function that no public header declares. For the drop-in, which exports a few.
///
/// # Errors
/// The address of a function that returns the status; the thread's last error has the report.
pub fn resolve_private_symbol(library: SubLibrary, name: &CStr) -> Result<*const c_void, *const ()> {
    let resolve = || libraries::symbol(library, name).map(|address| address.cast_mut().cast());
    let resolved = ffi_guard(&resolve, &|| name.to_string_lossy().into_owned());
    resolved.map(|address| address.cast_const().cast()).map_err(|status| Failure::Status.function(status))
}

/// The value that a function returns if it cannot be resolved.
#[derive(Clone, Copy)]
enum Failure {
    /// The status of the error.
    Status,
    /// 0: the version functions. It also serves functions that return nothing.
    Zero,
    /// An empty string.
    EmptyString,
}

impl Failure {
    /// A function that returns this for any arguments.
    fn function(self, status: cudnnStatus_t) -> *const () {
        match self {
            Failure::Status => failing_function(status),
            Failure::Zero => return_zero as *const (),
            Failure::EmptyString => return_empty_string as *const (),
        }
    }
}

/// A function that returns this status for any arguments. The loader returns only these statuses.
fn failing_function(status: cudnnStatus_t) -> *const () {
    match status.0 {
        1002 => return_status::<1002> as *const (),
        3000 => return_status::<3000> as *const (),
        3009 => return_status::<3009> as *const (),
        4000 => return_status::<4000> as *const (),
        _ => return_status::<1008> as *const (),
    }
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

/// The failure that fits a return type.
trait FailureValue {
    const FAILURE: Failure;
}

impl FailureValue for cudnnStatus_t {
    const FAILURE: Failure = Failure::Status;
}

impl FailureValue for usize {
    const FAILURE: Failure = Failure::Zero;
}

impl FailureValue for () {
    const FAILURE: Failure = Failure::Zero;
}

impl FailureValue for *const c_char {
    const FAILURE: Failure = Failure::EmptyString;
}
