//! The way from a resolver to the function that it resolves, in assembly for the x64 calling convention of Windows: no
//! signature is known here, so every register that can contain an argument is saved while the function is resolved, and
//! then restored. Arguments on the stack stay where they are.

/// The body of a resolver: passes a number to the trampoline. At this point nothing is on the stack, so no unwinding
/// information is needed.
#[doc(hidden)]
#[macro_export]
macro_rules! pass_number {
    ($number:expr, $trampoline:path) => {
        core::arch::naked_asm!("mov r11d, {number}", "jmp {trampoline}", number = const $number, trampoline = sym $trampoline)
    };
}

/// The body of this naked function: calls `extern "C-unwind" fn(u32) -> *const ()` with the number that a resolver
/// passed, and jumps to the address that it returns, with all arguments as they were. Also tells the compiler that
/// assembly reads a static: the drop-in's exports, which it does not see, read the slots.
#[doc(hidden)]
#[macro_export]
macro_rules! save_arguments_and_jump {
    ($function:path, $resolve:path $(, reading $read:ident)?) => {
        core::arch::naked_asm!(
            $(concat!("/* {", stringify!($read), "} */"),)?
            ".seh_proc {function}",
            // The caller's 32 bytes for register arguments follow the return address; below it, 32 for the callee, 64 for
            // vectors, and 8 that align the stack to 16 bytes together with the return address.
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

/// Jumps to the address in a slot: a static (`sym PATH`), or one in the section of slots, by the function's number.
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

/// Exports have no versions.
#[doc(hidden)]
#[macro_export]
macro_rules! versioned {
    ($name:ident @@ $version:literal) => {};
}

/// Defines the symbol at the start of the section of slots: linkers put the parts of a section in the order of what follows
/// the `$`.
#[doc(hidden)]
#[macro_export]
macro_rules! start_of_slots {
    () => {
        std::arch::global_asm!(".section .slots$a, \"dw\"", ".balign 16", "cudnn_slots:", ".text");
    };
}
