//! Every function of the table three times over: under its own name, as the resolver that its slot starts at, and as
//! a variant of [`Function`]. Nothing here is written by hand for one function.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;

use crate::guarded::ffi_guard;
use crate::slot::Slot;
use crate::{LoadError, SubLibrary, Version, cudnnStatus_t, last_error, loading, log, set_callback};

/// A function's slot. With a function that is known when it is compiled, an address and nothing more.
macro_rules! slot {
    ($function:expr) => {{
        // As many as there are variants, which are numbered from 0.
        #[allow(clippy::indexing_slicing, reason = "there is one for each variant")]
        let slot = &crate::functions::SLOTS[$function as usize];
        slot
    }};
}

macro_rules! functions {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        /// A function of cuDNN's public API, as a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Function { $($(
            $(#[$doc])*
            $variant,
        )*)* }

        impl Function {
            /// All of them, by sub-library.
            pub const ALL: &'static [Function] = &[$($(Function::$variant,)*)*];

            /// What the table says of each, in order.
            const INFO: &'static [FunctionInfo] =
                &[$($( FunctionInfo { library: library!($library), since: [$($since),*], deprecated: $deprecated }, )*)*];

            /// Their names, in order, each with a NUL at its end: in one piece, since pointers to each would be a good part
            /// of the drop-in library.
            const NAMES: &'static str = concat!($($( stringify!($name), "\0", )*)*);

            fn slot(self) -> &'static Slot {
                slot!(self)
            }
        }

        /// Where each function's calls go, in order. Of this crate alone: what another crate can name is reached through the
        /// global offset table, at the cost of a load. In one array: a match that leads to statics is a table of addresses,
        /// each to be relocated.
        static SLOTS: [Slot; Function::ALL.len()] = [$($( Slot::new(resolvers::$name as *const () as *mut ()), )*)*];

        /// The functions once more, for the drop-in library's exports: an exception that a callback of the caller's throws
        /// passes. Link-time optimisation makes an export of each.
        #[doc(hidden)]
        pub mod c_unwind {
            $($(
                #[doc(hidden)]
                pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returns {
                    type Signature = unsafe extern "C-unwind" fn($($type),*) -> $returns;
                    let address = slot!(super::Function::$variant).get();
                    // SAFETY: a slot holds the function's resolver or cuDNN's function, both of this signature.
                    let function = unsafe { std::mem::transmute::<*mut (), Signature>(address) };
                    // SAFETY: the caller's obligation, passed on unchanged.
                    unsafe { function($($argument),*) }
                }
            )*)*
        }

        /// What each slot starts at: finds the function, then makes the call. An exception that a callback of the
        /// caller's throws, through cuDNN, passes.
        mod resolvers {
            use super::{FailureValue, Function, resolve_first_call};
            $($(
                #[cold]
                pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returns {
                    match resolve_first_call(Function::$variant) {
                        Ok(address) => {
                            type Signature = unsafe extern "C-unwind" fn($($type),*) -> $returns;
                            // SAFETY: the address is that of cuDNN's function of this name, or of ours in its place,
                            // and the table has its signature from cuDNN's own header.
                            let function = unsafe { std::mem::transmute::<*mut (), Signature>(address) };
                            // SAFETY: the caller's obligation, passed on unchanged.
                            unsafe { function($($argument),*) }
                        }
                        Err(status) => FailureValue::failure_value(status),
                    }
                }
            )*)*
        }

        $(
            #[doc = concat!("The functions of `libcudnn_", stringify!($library), "`, loaded on first use, with its types.")]
            pub mod $library {
                #[allow(unused_imports, unreachable_pub, reason = "an older release may have none for this library")]
                pub use cudnn_sys::types::$library::*;
                $(
                    $(#[$doc])*
                    ///
                    /// # Safety
                    /// As in C: see cuDNN's documentation, and that of this crate.
                    // Not `inline`: another crate would reach the slot through its global offset table, at the cost of
                    // a load. Link-time optimisation still inlines it, as load and call.
                    pub unsafe extern "C" fn $name($($argument: $type),*) -> $returns {
                        type Signature = unsafe extern "C" fn($($type),*) -> $returns;
                        let address = slot!(super::Function::$variant).get();
                        // SAFETY: a slot holds the function's resolver or cuDNN's function, both of this signature.
                        let function = unsafe { std::mem::transmute::<*mut (), Signature>(address) };
                        // SAFETY: the caller's obligation, passed on unchanged.
                        unsafe { function($($argument),*) }
                    }
                )*
            }
        )*
    };
}

macro_rules! library {
    (graph) => {
        SubLibrary::Graph
    };
    (ops) => {
        SubLibrary::Ops
    };
    (cnn) => {
        SubLibrary::Cnn
    };
    (adv) => {
        SubLibrary::Adv
    };
    (ext) => {
        SubLibrary::Ext
    };
}

cudnn_sys::for_each_function!(functions);

/// One row of the table.
#[derive(Clone, Copy)]
struct FunctionInfo {
    library: SubLibrary,
    since: [u8; 3],
    deprecated: bool,
}

impl Function {
    /// Its name in C: `cudnnCreate`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Function::NAMES.split('\0').nth(self as usize).unwrap_or_default()
    }

    /// Its name as the dynamic linker wants it.
    pub(crate) fn symbol(self) -> &'static CStr {
        let names = Function::NAMES.as_bytes();
        let name = names.split_inclusive(|byte| *byte == 0).nth(self as usize);
        name.and_then(|name| CStr::from_bytes_with_nul(name).ok()).unwrap_or_default()
    }

    /// What the table says of it.
    const fn info(self) -> FunctionInfo {
        // As many as there are variants, which are numbered from 0.
        #[allow(clippy::indexing_slicing, reason = "there is one for each variant")]
        Function::INFO[self as usize]
    }

    /// The sub-library that it is in.
    #[must_use]
    pub const fn library(self) -> SubLibrary {
        self.info().library
    }

    /// The release that brought it.
    #[must_use]
    pub const fn since(self) -> Version {
        let [major, minor, patch] = self.info().since;
        Version::new(major as u32, minor as u32, patch as u32)
    }

    /// Has NVIDIA declared it deprecated, in the release that these bindings are of?
    #[must_use]
    pub const fn is_deprecated(self) -> bool {
        self.info().deprecated
    }

    /// The function of this name in C.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Function> {
        Function::ALL.iter().copied().find(|function| function.name() == name)
    }

    /// Finds it now, loading what it takes, so that a later call cannot fail for want of it. Gives the address of the
    /// function that a call will reach.
    ///
    /// # Errors
    /// Why a call would fail. A failure to load is remembered: see [`SubLibrary::load`] for trying again.
    pub fn resolve(self) -> Result<*const c_void, LoadError> {
        let found = match (last_error::builtin(self), set_callback::builtin(self)) {
            // They work with nothing installed.
            (Some(ours), _) => Ok(ours),
            (None, ours) => loading::address(self).map(|address| ours.unwrap_or(address)),
        };
        log::flush();
        let address = found?;
        self.slot().set(address);
        Ok(address.cast_const().cast())
    }

    /// Can it be called here? Loads what it takes to know.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.resolve().is_ok()
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The slow way of a call: resolves, or leaves the story behind and says which status to return.
#[cold]
#[inline(never)]
fn resolve_first_call(function: Function) -> Result<*mut (), Status> {
    let address = match last_error::builtin(function).or_else(|| set_callback::builtin(function)) {
        Some(ours) => ours,
        None => {
            let found = ffi_guard(&|| loading::address(function), &|| function.to_string());
            found.map_err(|status| status.0 as Status)?
        }
    };
    function.slot().set(address);
    Ok(address)
}

/// A status, as wide as an address: so the outcome of a first call comes in two registers, which makes every resolver a good
/// deal smaller.
type Status = usize;

/// As a call of a function that is in no public header, by name: its address, or the status to return. The drop-in library
/// exports some.
#[doc(hidden)]
pub fn resolve_private_symbol(library: SubLibrary, name: &CStr) -> Result<*const c_void, cudnnStatus_t> {
    let find = || loading::symbol(library, name).map(|address| address.cast_mut().cast());
    let found = ffi_guard(&find, &|| name.to_string_lossy().into_owned());
    found.map(|address| address.cast_const().cast())
}

/// What a function returns when it cannot be reached.
trait FailureValue {
    fn failure_value(status: Status) -> Self;
}

impl FailureValue for cudnnStatus_t {
    fn failure_value(status: Status) -> Self {
        cudnnStatus_t(status as u32)
    }
}

/// The version functions.
impl FailureValue for usize {
    fn failure_value(_: Status) -> Self {
        0
    }
}

impl FailureValue for () {
    fn failure_value(_: Status) {}
}

impl FailureValue for *const c_char {
    fn failure_value(_: Status) -> Self {
        c"".as_ptr()
    }
}
