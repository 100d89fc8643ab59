//! What happens when the system loads the program or DLL that contains this code: nothing, since the system's loader is
//! in the middle of its work then (`DllMain`).

/// Defines a static with this name, and does not call the function.
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[allow(dead_code, reason = "other systems call it")]
        static $name: extern "C" fn() = $function;
    };
}

/// Puts the table of slots into a section, before which the drop-in puts a symbol: linkers sort by what follows the `$`.
macro_rules! in_section_of_slots {
    ($($item:tt)*) => {
        #[unsafe(link_section = ".slots$m")]
        $($item)*
    };
}

pub(crate) use {at_load, in_section_of_slots};
