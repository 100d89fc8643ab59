//! Passes the target triple to the support library, which uses it to find the C compiler at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HOST", "TARGET"] {
        println!("cargo::rustc-env={name}_TRIPLE={}", std::env::var(name).unwrap_or_default());
    }
}
