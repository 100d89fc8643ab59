//! Enables `cfg(loom)` for the loader's source files: see `Slot::new` and `RaceOnce::new`.

fn main() {
    println!("cargo::rustc-cfg=loom");
}
