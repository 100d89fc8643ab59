//! The four functions that NVIDIA's shim exports and no public header declares. Their signatures are unknown, so each export
//! is a tail jump, and the first call saves every register that can hold an argument while it resolves the symbol.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_loader::{SubLibrary, cudnnStatus_t};

use crate::symbol_version::versioned;

macro_rules! private_exports {
    ($($library:ident $name:ident $symbol:literal;)*) => { $(
        /// No public header declares this function; calls go to cuDNN unchanged.
        ///
        /// # Safety
        /// Only cuDNN's libraries know the signature and what it requires.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            tail_jump!($name::SLOT)
        }
        versioned!($name @@ "libcudnn.so.9");

        #[allow(non_snake_case, reason = "named as its function")]
        mod $name {
            use super::*;

            pub(super) static SLOT: AtomicPtr<c_void> = AtomicPtr::new(resolve_first_call as *const () as *mut c_void);

            #[unsafe(naked)]
            unsafe extern "C" fn resolve_first_call() {
                save_args_and_jump!(resolve)
            }

            extern "C" fn resolve() -> *const c_void {
                super::resolve(SubLibrary::$library, $symbol, &SLOT)
            }
        }
    )* };
}

/// Jumps to the address in a slot.
#[cfg(target_arch = "x86_64")]
macro_rules! tail_jump {
    ($slot:path) => {
        core::arch::naked_asm!("mov r11, qword ptr [rip + {slot}]", "jmp r11", slot = sym $slot)
    };
}

/// Calls the resolver, a function without arguments, then jumps to the address that it returns with all argument registers
/// restored.
#[cfg(target_arch = "x86_64")]
macro_rules! save_args_and_jump {
    ($resolve:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "push rdi", ".cfi_adjust_cfa_offset 8", "push rsi", ".cfi_adjust_cfa_offset 8",
            "push rdx", ".cfi_adjust_cfa_offset 8", "push rcx", ".cfi_adjust_cfa_offset 8",
            "push r8", ".cfi_adjust_cfa_offset 8", "push r9", ".cfi_adjust_cfa_offset 8",
            // Keeps the stack aligned: return address, six registers, and these 136 bytes.
            "sub rsp, 136",
            ".cfi_adjust_cfa_offset 136",
            "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
            "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
            "mov [rsp + 128], rax",
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
        )
    };
}

/// The same for aarch64.
#[cfg(target_arch = "aarch64")]
macro_rules! tail_jump {
    ($slot:path) => {
        core::arch::naked_asm!(
            "adrp x16, {slot}", "ldr x16, [x16, :lo12:{slot}]", "br x16", slot = sym $slot
        )
    };
}

/// The same for aarch64.
#[cfg(target_arch = "aarch64")]
macro_rules! save_args_and_jump {
    ($resolve:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, #-224]!",
            ".cfi_adjust_cfa_offset 224",
            ".cfi_offset 29, -224",
            ".cfi_offset 30, -216",
            "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
            "stp q0, q1, [sp, #96]", "stp q2, q3, [sp, #128]", "stp q4, q5, [sp, #160]", "stp q6, q7, [sp, #192]",
            "bl {resolve}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
            "ldr x8, [sp, #80]",
            "ldp q0, q1, [sp, #96]", "ldp q2, q3, [sp, #128]", "ldp q4, q5, [sp, #160]", "ldp q6, q7, [sp, #192]",
            "ldp x29, x30, [sp], #224",
            ".cfi_adjust_cfa_offset -224",
            "br x16",
            ".cfi_endproc",
            resolve = sym $resolve,
        )
    };
}

private_exports! {
    Graph cudnnGetBackdoor c"cudnnGetBackdoor";
    Graph cudnnSetBackdoor c"cudnnSetBackdoor";
    Graph cudnnSetBackdoorEx c"cudnnSetBackdoorEx";
    Adv cudnnGetRNNDropoutLocationsInternal c"cudnnGetRNNDropoutLocationsInternal";
}

/// Returns the function's address, or that of a function which returns the failure's status.
fn resolve(library: SubLibrary, name: &CStr, slot: &AtomicPtr<c_void>) -> *const c_void {
    match cudnn_loader::__private::resolve_private_symbol(library, name) {
        Ok(address) => {
            slot.store(address.cast_mut(), Ordering::Release);
            address
        }
        Err(cudnnStatus_t(1002)) => return_status::<1002> as *const c_void,
        Err(cudnnStatus_t(3000)) => return_status::<3000> as *const c_void,
        Err(cudnnStatus_t(3009)) => return_status::<3009> as *const c_void,
        Err(_) => return_status::<1008> as *const c_void,
    }
}

extern "C" fn return_status<const STATUS: u32>() -> u32 {
    STATUS
}
