//! Gives the drop-in NVIDIA's name, and on Linux its symbol versions. These need LLVM's linker, which takes a second version
//! script beside Rust's; GNU ld does not. Rust ships it, and uses it by default on x86-64 Linux since 1.90; elsewhere
//! this script names it.

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
        if let Some(dir) = rusts_lld() {
            println!("cargo::rustc-cdylib-link-arg=-B{}", dir.display());
        }
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudnn.so.9");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all,--hash-style=gnu,--build-id=none");
    // The exports refer to the loader's slots by the symbol of their section's start, which must keep the section.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nostart-stop-gc");
    // Threads, exit handlers and fork handlers of the drop-in may outlive a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", versions.display());
}

/// The name that the library states, and libraries of the compiler within it. Microsoft's linker takes one file of
/// definitions, which is Rust's: the library then states the name that cargo gives it, which nothing reads.
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

/// The directory of the linker that Rust ships for this machine, under the name that the C compiler looks for.
fn rusts_lld() -> Option<PathBuf> {
    let output = Command::new(std::env::var_os("RUSTC")?).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let dir = Path::new(sysroot.trim()).join("lib/rustlib").join(std::env::var("HOST").ok()?).join("bin/gcc-ld");
    dir.is_dir().then_some(dir)
}
