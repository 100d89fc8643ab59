//! Runs a resolver before the first call of a function, in assembly for the System V ABI and the AAPCS (aarch64).
//!
//! The signature of the function is unknown. The code therefore saves every register that can hold an argument,
//! resolves the function, and restores the registers. Arguments on the stack are left untouched.

/// The body of a resolver, which passes a number to the trampoline. The stack is empty, so it needs no unwind tables.
#[doc(hidden)]
#[macro_export]
#[cfg(target_arch = "x86_64")]
macro_rules! pass_number {
    ($number:expr, $trampoline:path) => {
        core::arch::naked_asm!("mov r11d, {number}", "jmp {trampoline}", number = const $number, trampoline = sym $trampoline)
    };
}

/// The aarch64 version.
#[doc(hidden)]
#[macro_export]
#[cfg(target_arch = "aarch64")]
macro_rules! pass_number {
    ($number:expr, $trampoline:path) => {
        core::arch::naked_asm!("mov w16, #{number}", "b {trampoline}", number = const $number, trampoline = sym $trampoline)
    };
}

/// The body of a naked function that calls `extern "C-unwind" fn(u32) -> *const ()` with the number from a resolver,
/// then jumps to the returned address with all arguments restored. It also tells the compiler that assembly reads a
/// static, because the compiler cannot see the exports of the drop-in read the slots.
#[doc(hidden)]
#[macro_export]
#[cfg(target_arch = "x86_64")]
macro_rules! save_arguments_and_jump {
    ($function:path, $resolve:path $(, reading $read:ident)?) => {
        core::arch::naked_asm!(
            $(concat!("/* {", stringify!($read), "} */"),)?
            ".cfi_startproc",
            "push rdi", ".cfi_adjust_cfa_offset 8", "push rsi", ".cfi_adjust_cfa_offset 8",
            "push rdx", ".cfi_adjust_cfa_offset 8", "push rcx", ".cfi_adjust_cfa_offset 8",
            "push r8", ".cfi_adjust_cfa_offset 8", "push r9", ".cfi_adjust_cfa_offset 8",
            // Keeps the stack aligned to 16 bytes, counting the return address and the six registers.
            "sub rsp, 136",
            ".cfi_adjust_cfa_offset 136",
            "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
            "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
            // `rax` holds the number of vector registers of a variadic call.
            "mov [rsp + 128], rax",
            "mov edi, r11d",
            "call {resolve}",
            "mov r11, rax",
            "mov rax, [rsp + 128]",
            "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
            "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
            "add rsp, 136", ".cfi_adjust_cfa_offset -136",
            "pop r9", ".cfi_adjust_cfa_offset -8",
            "pop r8", ".cfi_adjust_cfa_offset -8",
            "pop rcx", ".cfi_adjust_cfa_offset -8",
            "pop rdx", ".cfi_adjust_cfa_offset -8",
            "pop rsi", ".cfi_adjust_cfa_offset -8",
            "pop rdi", ".cfi_adjust_cfa_offset -8",
            "jmp r11",
            ".cfi_endproc",
            resolve = sym $resolve,
            $($read = sym $read,)?
        )
    };
}

/// The aarch64 version.
#[doc(hidden)]
#[macro_export]
#[cfg(target_arch = "aarch64")]
macro_rules! save_arguments_and_jump {
    ($function:path, $resolve:path $(, reading $read:ident)?) => {
        core::arch::naked_asm!(
            $(concat!("/* {", stringify!($read), "} */"),)?
            ".cfi_startproc",
            "stp x29, x30, [sp, #-224]!",
            ".cfi_adjust_cfa_offset 224",
            ".cfi_offset 29, -224",
            ".cfi_offset 30, -216",
            "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
            "stp q0, q1, [sp, #96]", "stp q2, q3, [sp, #128]", "stp q4, q5, [sp, #160]", "stp q6, q7, [sp, #192]",
            "mov w0, w16",
            "bl {resolve}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
            "ldr x8, [sp, #80]",
            "ldp q0, q1, [sp, #96]", "ldp q2, q3, [sp, #128]", "ldp q4, q5, [sp, #160]", "ldp q6, q7, [sp, #192]",
            "ldp x29, x30, [sp], #224",
            ".cfi_adjust_cfa_offset -224",
            ".cfi_restore 29",
            ".cfi_restore 30",
            "br x16",
            ".cfi_endproc",
            resolve = sym $resolve,
            $($read = sym $read,)?
        )
    };
}

/// Jumps to the address in a slot. The slot is a static (`sym PATH`) or an entry in the section of slots, selected by
/// the number of the function.
#[doc(hidden)]
#[macro_export]
#[cfg(target_arch = "x86_64")]
macro_rules! tail_jump {
    (sym $slot:path) => {
        core::arch::naked_asm!("mov r11, qword ptr [rip + {slot}]", "jmp r11", slot = sym $slot)
    };
    ($number:expr) => {
        core::arch::naked_asm!(
            // The linker defines this symbol at the start of the section of slots.
            ".hidden __start_cudnn_slots",
            "mov r11, qword ptr [rip + __start_cudnn_slots + {offset}]",
            "jmp r11",
            offset = const 8 * $number
        )
    };
}

/// The aarch64 version. It uses a load-acquire like other reads of slots, because a thread that jumps to a cuDNN
/// function must also see the data that another thread wrote while it loaded the library.
#[doc(hidden)]
#[macro_export]
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

/// Sets the symbol version of an exported function, as in `cudnnCreate@@libcudnn.so.9`. `versions.map` declares the
/// version names. The linker ignores the directive unless it is in the same object file as the function (see
/// `codegen-units` in Cargo.toml).
#[doc(hidden)]
#[macro_export]
macro_rules! versioned {
    ($name:ident @@ $version:literal) => {
        std::arch::global_asm!(concat!(".symver ", stringify!($name), ",", stringify!($name), "@@", $version));
    };
}

/// Expands to an empty item list, because the linker defines a symbol at the start of the section of slots.
#[doc(hidden)]
#[macro_export]
macro_rules! start_of_slots {
    () => {};
}

/// Removes backtraces from the messages of panics in this library. Std's code for them has 170 KB, and is unreachable
/// if no frames are found. Other libraries keep their own unwinder, because the symbol is hidden.
#[doc(hidden)]
#[macro_export]
macro_rules! without_backtraces {
    () => {
        core::arch::global_asm!(".hidden _Unwind_Backtrace");

        #[unsafe(no_mangle)]
        extern "C" fn _Unwind_Backtrace(_: *const core::ffi::c_void, _: *mut core::ffi::c_void) -> i32 {
            const END_OF_STACK: i32 = 5;
            END_OF_STACK
        }
    };
}
