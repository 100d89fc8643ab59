//! An export on Windows: a load and a jump. In assembly, because only this crate needs it, it works in every build
//! profile, and it needs no unwinding information: nothing is on the stack yet.

// The start of the loader's table of slots: linkers put the parts of a section in the order of what follows the `$`.
std::arch::global_asm!(".section .slots$a, \"dw\"", ".balign 16", "cudnn_slots:", ".text");

/// Jumps to the address in a slot: a static (`sym PATH`), or one of the loader's, by the function's number.
macro_rules! tail_jump {
    (sym $slot:path) => {
        core::arch::naked_asm!("mov r11, qword ptr [rip + {slot}]", "jmp r11", slot = sym $slot)
    };
    ($number:expr) => {
        core::arch::naked_asm!(
            "mov r11, qword ptr [rip + cudnn_slots + {offset}]",
            "jmp r11",
            offset = const 8 * $number
        )
    };
}

/// Exports have no versions.
macro_rules! versioned {
    ($name:ident @@ $version:literal) => {};
}

/// Defines a static with this name, and does not call the function: the system's loader is in the middle of its work
/// when it loads this library.
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[allow(dead_code, reason = "other systems call it")]
        static $name: extern "C" fn() = $function;
    };
}

pub(crate) use {at_load, tail_jump, versioned};
