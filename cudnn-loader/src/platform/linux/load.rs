//! What happens when ld.so loads the program or library that contains this code.

/// Nothing: a library that is unloaded leaves nothing behind, and the linker marks the drop-in as one that stays.
pub fn keep_loaded() {}

/// Defines a static with this name that makes ld.so call the function. Where the linker drops what nothing refers to,
/// other code must refer to the static.
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[used]
        // Miri calls what is there, and knows few functions of C.
        #[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
        static $name: extern "C" fn() = $function;
    };
}

/// Puts the table of slots into a section, of whose start the linker makes a symbol: see the exports of the drop-in.
macro_rules! in_section_of_slots {
    ($($item:tt)*) => {
        #[unsafe(link_section = "cudnn_slots")]
        $($item)*
    };
}

pub(crate) use {at_load, in_section_of_slots};
