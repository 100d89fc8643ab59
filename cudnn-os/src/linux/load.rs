//! Runs code when ld.so loads the program or library that contains it.

/// A no-op. Unloading is safe on Linux, and the linker marks the drop-in as a library that is never unloaded.
pub fn keep_loaded() {}

/// Defines a static with this name that makes ld.so call the function. If the linker removes unreferenced statics,
/// other code must refer to it.
#[doc(hidden)]
#[macro_export]
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[used]
        // Miri would run the function, but it supports few C functions.
        #[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
        static $name: extern "C" fn() = $function;
    };
}

/// Puts the table of slots into a linker section. The linker defines a symbol for the start of the section, which the
/// exports of the drop-in use.
#[doc(hidden)]
#[macro_export]
macro_rules! in_section_of_slots {
    ($($item:tt)*) => {
        #[unsafe(link_section = "cudnn_slots")]
        $($item)*
    };
}
