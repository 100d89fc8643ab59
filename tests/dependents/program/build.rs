//! Has the linked program find cuDNN where the build found it. A program that loads cuDNN needs nothing of this.

fn main() {
    if let Ok(dir) = std::env::var("DEP_CUDNN9_LIB_DIR") {
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{dir}");
    }
}
