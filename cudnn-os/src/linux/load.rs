//! Runs code when ld.so loads the program or library that contains it.

/// A no-op, because unloading is safe on Linux, and the linker marks the drop-in as never unloaded.
pub fn keep_loaded() {}

/// Defines a static that makes ld.so call the function. Other code must refer to it if the linker would remove it.
#[doc(hidden)]
#[macro_export]
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[used]
        // Miri would run the function, but supports few C functions.
        #[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
        static $name: extern "C" fn() = $function;
    };
}

/// Puts the table of slots into a linker section. The exports of the drop-in use the symbol that the linker defines for
/// the start of the section.
#[doc(hidden)]
#[macro_export]
macro_rules! in_section_of_slots {
    ($($item:tt)*) => {
        #[unsafe(link_section = "cudnn_slots")]
        $($item)*
    };
}
