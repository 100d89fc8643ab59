//! An export on Linux: a load and a jump, with the symbol version of NVIDIA's. In assembly, because only this crate needs
//! it, it works in every build profile, and it needs no unwinding information: nothing is on the stack yet.

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

/// Gives a function of this crate its symbol version, as in `cudnnCreate@@libcudnn.so.9`. `versions.map` declares the
/// names of versions. The directive must be in the same object file as the function, or it has no effect: see
/// `codegen-units` in Cargo.toml.
macro_rules! versioned {
    ($name:ident @@ $version:literal) => {
        std::arch::global_asm!(concat!(".symver ", stringify!($name), ",", stringify!($name), "@@", $version));
    };
}

/// Defines a static with this name that makes ld.so call the function when it loads this library.
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[used]
        #[unsafe(link_section = ".init_array")]
        static $name: extern "C" fn() = $function;
    };
}

pub(crate) use {at_load, tail_jump, versioned};
