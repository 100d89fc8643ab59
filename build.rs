//! Gives the library its name and its versions, as NVIDIA's has them. The versions need LLVM's linker, which Rust brings and
//! uses by itself on x86-64 Linux from 1.90 on: GNU's does not take a second version script beside Rust's own.

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
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", versions.display());
}
