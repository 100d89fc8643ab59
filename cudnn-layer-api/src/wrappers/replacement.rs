//! Replaces single functions by functions with the same type.

use std::ffi::c_void;

use cudnn_sys::signatures::unwinding;

use super::function::Function;
use super::next::Next;
use crate::layer::NextFunction;

macro_rules! replacements {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        /// A function that is called instead of the cuDNN function with the variant's name, and has its type.
        #[allow(non_camel_case_types, reason = "these are cuDNN's function names")]
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Replacement { $($(
            #[doc = concat!("Replaces `", stringify!($name), "`.")]
            $name(unwinding::$name),
        )*)* }

        impl Replacement {
            fn function(self) -> Function {
                match self { $($(Replacement::$name(_) => Function::$variant,)*)* }
            }

            fn address(self) -> *const c_void {
                match self { $($(Replacement::$name(function) => function as *const c_void,)*)* }
            }
        }
    };
}
cudnn_sys::for_each_function!(replacements);

/// Implements [`Layer::wrap`](crate::Layer::wrap) for a list of replacements: returns the replacement of the function
/// and adds `next` to the table, or returns `next` if the list contains none.
///
/// If `CUDNN_LAYERS` contains the same layer twice, each replacement is used once.
#[must_use]
pub fn replace<'a>(table: &Next, replacements: &[Replacement], next: NextFunction<'a>) -> NextFunction<'a> {
    let replaces = |replacement: &&Replacement| replacement.function().name().as_bytes() == next.name().to_bytes();
    match replacements.iter().find(replaces) {
        Some(replacement) if table.set(replacement.function(), next.address()) => {
            // SAFETY: the replacement has the type of the function with this name.
            unsafe { next.replaced_by(replacement.address()) }
        }
        _ => next,
    }
}
