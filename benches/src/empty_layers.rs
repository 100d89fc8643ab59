//! Provides layers without functionality, to measure the overhead of a layer.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_layer_api::{Host, Layer, NextFunction};

/// A layer that wraps no function.
#[derive(Debug)]
pub struct WrapsNothing;

/// A layer that wraps every function and jumps to the next one, like a layer without work after the call.
#[derive(Debug)]
pub struct Jumps;

/// A layer that wraps every function, calls the next one and returns the result, like a layer with work after the call.
#[derive(Debug)]
pub struct Calls;

macro_rules! forwarders {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        #[derive(Clone, Copy)]
        enum Id { $($($variant,)*)* }

        const NAMES: &[&str] = &[$($(stringify!($name),)*)*];

        #[allow(non_snake_case, reason = "these are cuDNN's function names")]
        mod jumps {
            $($(
                pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returns {
                    type Signature = unsafe extern "C-unwind" fn($($type),*) -> $returns;
                    // SAFETY: the address belongs to the next function, which has the same signature.
                    let next: Signature = unsafe { std::mem::transmute(super::next(super::Id::$variant)) };
                    // SAFETY: the caller's obligation, passed on unchanged.
                    unsafe { next($($argument),*) }
                }
            )*)*
        }

        #[allow(non_snake_case, reason = "these are cuDNN's function names")]
        mod calls {
            $($(
                pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returns {
                    type Signature = unsafe extern "C-unwind" fn($($type),*) -> $returns;
                    // SAFETY: the address belongs to the next function, which has the same signature.
                    let next: Signature = unsafe { std::mem::transmute(super::next(super::Id::$variant)) };
                    // SAFETY: the caller's obligation, passed on unchanged.
                    let returned = unsafe { next($($argument),*) };
                    super::work();
                    returned
                }
            )*)*
        }

        fn jumps() -> &'static [*const c_void] {
            static ALL: Addresses = Addresses(&[$($(jumps::$name as *const c_void,)*)*]);
            ALL.0
        }

        fn calls() -> &'static [*const c_void] {
            static ALL: Addresses = Addresses(&[$($(calls::$name as *const c_void,)*)*]);
            ALL.0
        }
    };
}
cudnn_sys::for_each_function!(forwarders);

struct Addresses(&'static [*const c_void]);

// SAFETY: addresses of functions.
unsafe impl Sync for Addresses {}

static NEXT: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(null_mut()) }; NAMES.len()];

#[inline(always)]
fn next(function: Id) -> *mut c_void {
    NEXT[function as usize].load(Ordering::Acquire)
}

/// An empty statement that the compiler may not remove or move behind the call.
#[inline(always)]
fn work() {
    // SAFETY: the block contains no instruction.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
}

fn wrap<'a>(next: NextFunction<'a>, forwarders: &[*const c_void]) -> NextFunction<'a> {
    let Some(index) = NAMES.iter().position(|name| name.as_bytes() == next.name().to_bytes()) else { return next };
    NEXT[index].store(next.address().cast_mut(), Ordering::Release);
    // SAFETY: every forwarder and the function that it calls have the same signature.
    unsafe { next.replaced_by(forwarders[index]) }
}

impl Layer for WrapsNothing {
    fn begin(_: Host) -> Result<Self, String> {
        Ok(WrapsNothing)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        next
    }
}

impl Layer for Jumps {
    fn begin(_: Host) -> Result<Self, String> {
        Ok(Jumps)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        wrap(next, jumps())
    }
}

impl Layer for Calls {
    fn begin(_: Host) -> Result<Self, String> {
        Ok(Calls)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        wrap(next, calls())
    }
}
