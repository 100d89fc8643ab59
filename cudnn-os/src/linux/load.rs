//! Code that runs when ld.so loads the program or library that contains it.

/// Does nothing: a library that is unloaded leaves nothing behind, and the linker marks the drop-in as one that stays.
pub fn keep_loaded() {}

/// Defines a static with this name that makes ld.so call the function. Where the linker drops what nothing refers to,
/// other code must refer to the static.
#[doc(hidden)]
#[macro_export]
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[used]
        // Miri calls what is there, and knows few functions of C.
        #[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
        static $name: extern "C" fn() = $function;
    };
}

/// Puts the table of slots into a section, for whose start the linker defines a symbol: see the exports of the drop-in.
#[doc(hidden)]
#[macro_export]
macro_rules! in_section_of_slots {
    ($($item:tt)*) => {
        #[unsafe(link_section = "cudnn_slots")]
        $($item)*
    };
}
