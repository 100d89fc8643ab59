//! Sets the drop-in's file name and, on Linux, its symbol versions. Symbol versions require LLVM's linker, because GNU
//! ld does not accept a second version script in addition to Rust's. Rust ships LLVM's linker and has used it by
//! default on x86-64 Linux since 1.90; on other architectures this script selects it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/versions.map");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("windows") => for_windows(),
        _ => for_linux(),
    }
}

fn for_linux() {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let versions = Path::new(&root).join("src/versions.map");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|architecture| architecture != "x86_64") {
        println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
        if let Some(dir) = rust_lld_dir() {
            println!("cargo::rustc-cdylib-link-arg=-B{}", dir.display());
        }
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudnn.so.9");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all,--hash-style=gnu,--build-id=none");
    // Keep the slot section: the exports refer to it only through the symbol that marks the start of the section.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nostart-stop-gc");
    // The drop-in's threads, exit handlers and fork handlers may still run after `dlclose`.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", versions.display());
}

/// With MinGW, sets the library's internal name and links the compiler's libraries statically. Microsoft's linker
/// accepts only one definition file, and Rust already passes one. There the internal name is cargo's, which is harmless
/// because it is never read.
fn for_windows() {
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|environment| environment == "gnu") {
        let definitions = Path::new(&std::env::var_os("OUT_DIR").unwrap_or_default()).join("name.def");
        if let Err(error) = std::fs::write(&definitions, "LIBRARY cudnn64_9.dll\n") {
            println!("cargo::error=cannot write {}: {error}", definitions.display());
        }
        println!("cargo::rustc-cdylib-link-arg={}", definitions.display());
        println!("cargo::rustc-cdylib-link-arg=-static-libgcc");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--no-insert-timestamp");
    }
}

/// Returns the directory that contains Rust's own LLD, under the name that the C compiler looks for.
fn rust_lld_dir() -> Option<PathBuf> {
    let output = Command::new(std::env::var_os("RUSTC")?).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let dir = Path::new(sysroot.trim()).join("lib/rustlib").join(std::env::var("HOST").ok()?).join("bin/gcc-ld");
    dir.is_dir().then_some(dir)
}
