//! Lets the linked program find cuDNN where the build found it. Programs that load cuDNN don't need this.

fn main() {
    if let Ok(dir) = std::env::var("DEP_CUDNN9_LIB_DIR") {
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{dir}");
    }
}
