//! Contains assembly that runs a resolver before the first call of a function, for the x64 calling convention of
//! Windows. `system_v` documents the macros.

#[doc(hidden)]
#[macro_export]
macro_rules! pass_number {
    ($number:expr, $trampoline:path) => {
        core::arch::naked_asm!("mov r11d, {number}", "jmp {trampoline}", number = const $number, trampoline = sym $trampoline)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! save_arguments_and_jump {
    ($function:path, $resolve:path $(, reading $read:ident)?) => {
        core::arch::naked_asm!(
            $(concat!("/* {", stringify!($read), "} */"),)?
            ".seh_proc {function}",
            // The 32-byte home space of the caller follows the return address. This allocates another 32 bytes for the
            // callee, 64 for vector registers, and 8 to align the stack to 16 bytes.
            "sub rsp, 104",
            ".seh_stackalloc 104",
            ".seh_endprologue",
            "mov [rsp + 112], rcx", "mov [rsp + 120], rdx", "mov [rsp + 128], r8", "mov [rsp + 136], r9",
            "movups [rsp + 32], xmm0", "movups [rsp + 48], xmm1", "movups [rsp + 64], xmm2", "movups [rsp + 80], xmm3",
            "mov ecx, r11d",
            "call {resolve}",
            "mov r11, rax",
            "movups xmm0, [rsp + 32]", "movups xmm1, [rsp + 48]", "movups xmm2, [rsp + 64]", "movups xmm3, [rsp + 80]",
            "mov rcx, [rsp + 112]", "mov rdx, [rsp + 120]", "mov r8, [rsp + 128]", "mov r9, [rsp + 136]",
            "add rsp, 104",
            "jmp r11",
            ".seh_endproc",
            function = sym $function,
            resolve = sym $resolve,
            $($read = sym $read,)?
        )
    };
}

#[doc(hidden)]
#[macro_export]
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

/// Expands to an empty item list, because Windows does not version exports.
#[doc(hidden)]
#[macro_export]
macro_rules! versioned {
    ($name:ident @@ $version:literal) => {};
}

/// Defines the symbol at the start of the section, whose parts linkers sort by the suffix after `$`.
#[doc(hidden)]
#[macro_export]
macro_rules! start_of_slots {
    () => {
        std::arch::global_asm!(".section .slots$a, \"dw\"", ".balign 16", "cudnn_slots:", ".text");
    };
}

/// Windows finds frames differently.
#[doc(hidden)]
#[macro_export]
macro_rules! without_backtraces {
    () => {};
}
