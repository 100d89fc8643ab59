//! Assembles the cuDNN installation that the benchmarks call. It is a full release with one fake library: the
//! convolutions, because a real convolution needs a GPU. The benchmarks link to these libraries directly; all other
//! call paths find them through the run path of the program.

use std::path::PathBuf;

use support::{FakeLibrary, Library, Version, lib_dir};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(real) = lib_dir("cu12-9.28.0") else { panic!("the benchmarks need cuDNN 9.28.0") };
    let dir = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("cudnn");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the output directory is writable");
    // Copies all libraries except the fake one. Without the engines, the loader would treat the directory as links to
    // the real installation.
    for library in Library::ALL.iter().filter(|library| **library != Library::Cnn) {
        let name = library.file_name();
        std::os::unix::fs::symlink(real.join(name), dir.join(name)).expect("the file system has symlinks");
    }
    FakeLibrary::new(Library::Cnn, Version::new(9, 28, 0)).build(&dir.join(Library::Cnn.file_name()));
    let dir = dir.display();
    println!("cargo::rustc-link-search=native={dir}");
    for library in [Library::Graph, Library::Ops, Library::Cnn] {
        println!("cargo::rustc-link-lib=dylib:+verbatim={}", library.file_name());
    }
    println!("cargo::rustc-link-arg-benches=-Wl,-rpath,{dir}");
    println!("cargo::rustc-env=CUDNN_DIR={dir}");
}
