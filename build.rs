//! Gives the drop-in NVIDIA's soname and symbol versions. The versions need LLVM's linker, which takes a second version
//! script beside Rust's; GNU ld does not. Rust ships it, and uses it by default on x86-64 Linux since 1.90.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/versions.map");
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let versions = Path::new(&root).join("src/versions.map");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|architecture| architecture != "x86_64") {
        println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudnn.so.9");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--icf=all,--hash-style=gnu,--build-id=none");
    // The exports refer to the loader's slots by the symbol of their section's start, which must keep the section.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nostart-stop-gc");
    // Threads, exit handlers and fork handlers of the drop-in may outlive a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", versions.display());
}
