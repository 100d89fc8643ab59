//! Passes the metadata of cudnn-sys to the program, which prints it.

fn main() {
    for name in ["DEP_CUDNN9_VERSION", "DEP_CUDNN9_LIB_DIR", "DEP_CUDNN9_LIB_VERSION"] {
        println!("cargo::rerun-if-env-changed={name}");
        println!("cargo::rustc-env={name}={}", std::env::var(name).unwrap_or_default());
    }
}
