//! fn main
fn main() {
    println!("cargo:version=9.28.0");
}
