//! The body of every export: a load and a jump. In assembly, because only this crate needs it, it works in every build
//! profile, and it needs no unwinding information: nothing is on the stack yet.

/// Jumps to the address in a slot: a static (`sym PATH`), or one of the loader's, by the function's number.
#[cfg(target_arch = "x86_64")]
macro_rules! tail_jump {
    (sym $slot:path) => {
        core::arch::naked_asm!("mov r11, qword ptr [rip + {slot}]", "jmp r11", slot = sym $slot)
    };
    ($number:expr) => {
        core::arch::naked_asm!(
            // The linker defines this symbol: the start of the loader's section of slots.
            ".hidden __start_cudnn_slots",
            "mov r11, qword ptr [rip + __start_cudnn_slots + {offset}]",
            "jmp r11",
            offset = const 8 * $number
        )
    };
}

/// The same for aarch64. The load acquires, as the loader's own: a thread that jumps to cuDNN's function must also see
/// what another thread wrote while it loaded the library.
#[cfg(target_arch = "aarch64")]
macro_rules! tail_jump {
    (sym $slot:path) => {
        core::arch::naked_asm!(
            "adrp x16, {slot}",
            "add x16, x16, :lo12:{slot}",
            "ldar x16, [x16]",
            "br x16",
            slot = sym $slot
        )
    };
    ($number:expr) => {
        core::arch::naked_asm!(
            ".hidden __start_cudnn_slots",
            "adrp x16, __start_cudnn_slots + {offset}",
            "add x16, x16, :lo12:__start_cudnn_slots + {offset}",
            "ldar x16, [x16]",
            "br x16",
            offset = const 8 * $number
        )
    };
}
pub(crate) use tail_jump;
