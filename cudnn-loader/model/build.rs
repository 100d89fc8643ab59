//! Compiles the loader's files with `cfg(loom)`: see `Slot::new` and `RaceOnce::new`.

fn main() {
    println!("cargo::rustc-cfg=loom");
}
