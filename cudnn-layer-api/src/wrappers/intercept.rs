//! Runs one function of a layer around the calls of any cuDNN functions.

use std::ffi::c_void;

use super::call::{Call, Returned};
use super::function::Function;
use super::next::Next;
use crate::layer::NextFunction;

/// A layer that runs code around calls.
///
/// The code must not panic, because the panic would unwind through the program.
pub trait Intercept: Sized + 'static {
    /// Handles a call: either calls `next` once, which makes the call, or returns a result without it. Exceptions of the
    /// program's callbacks may unwind through this function.
    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R;

    /// The table of this layer, a `static`.
    const NEXT: &'static Next;
}

/// What the wrappers need of a layer. Most of their code is compiled once for all layers, and a layer's code only once for
/// each type of result, not for each function.
struct Interceptor<R: 'static> {
    next: &'static Next,
    intercept: fn(&Call<'_>, &dyn Fn() -> R) -> R,
}

impl<R: Returned> Interceptor<R> {
    const fn of<L: Intercept>() -> Self {
        Interceptor { next: L::NEXT, intercept: |call, next| L::intercept(call, next) }
    }
}

macro_rules! wrappers {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "these are cuDNN's functions")]
        mod functions {
            use super::{Call, Function, Intercept, Interceptor};
            use crate::wrappers::argument::{Argument, ToValue as _, ToValueOther as _, Value};
            use crate::wrappers::call::{Handle, IsHandle as _, IsOther as _};
            $($(
                pub(super) unsafe extern "C-unwind" fn $name<L: Intercept>($($argument: $type),*) -> $returns {
                    unsafe fn shared(layer: Interceptor<$returns>, $($argument: $type),*) -> $returns {
                        type Signature = unsafe extern "C-unwind" fn($($type),*) -> $returns;
                        let next = layer.next.get(Function::$variant);
                        // SAFETY: the table contains the next function with this name, which has the same signature. It
                        // was added before the wrapper's address left the layer.
                        let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Signature>(next) };
                        let arguments = |_visit: &mut dyn FnMut(Value<'_>)| {
                            // SAFETY: these are arguments of cuDNN's API.
                            $(_visit((&unsafe { Argument::new(&$argument) }).value());)*
                        };
                        let handle = None$(.or((&Handle(&$argument)).handle()))*;
                        let call = Call::new(Function::$variant, handle, &arguments);
                        // SAFETY: the caller's obligation, passed on unchanged.
                        (layer.intercept)(&call, &|| unsafe { next($($argument),*) })
                    }
                    // SAFETY: the caller's obligation, passed on unchanged.
                    unsafe { shared(Interceptor::of::<L>(), $($argument),*) }
                }
            )*)*
        }

        /// Returns the wrapper of a function.
        fn wrapper<L: Intercept>(function: Function) -> Option<*const c_void> {
            let wrappers = [$($(functions::$name::<L> as *const c_void,)*)*];
            wrappers.get(function as usize).copied()
        }
    };
}
cudnn_sys::for_each_function!(wrappers);

/// Implements [`Layer::wrap`](crate::Layer::wrap) for a layer that intercepts calls. Returns `next` for functions that are
/// newer than this crate.
#[must_use]
pub fn intercept<L: Intercept>(next: NextFunction<'_>) -> NextFunction<'_> {
    let Some(function) = Function::from_name(next.name().to_bytes()) else { return next };
    match wrapper::<L>(function) {
        Some(wrapper) if L::NEXT.set(function, next.address()) => {
            // SAFETY: the wrapper has the type of the function.
            unsafe { next.replaced_by(wrapper) }
        }
        _ => next,
    }
}
