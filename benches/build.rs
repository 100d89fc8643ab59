//! Puts together the cuDNN that is called: a real full release, of which only the library of the convolutions is a
//! stand-in, since a real convolution needs a GPU. The benchmarks are linked to it directly, and all other ways of
//! calling find it through the run path of the program.
#![allow(clippy::panic, clippy::expect_used, reason = "a benchmark that cannot be built says so by panicking")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "full-releases")]
    put_together();
}

#[cfg(feature = "full-releases")]
fn put_together() {
    use std::path::PathBuf;
    use support::{FakeLibrary, Library, Version, lib_dir};

    let Some(real) = lib_dir("cu12-9.28.0") else { panic!("the benchmarks need cuDNN 9.28.0") };
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("cudnn");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the output folder can be written");
    for library in [Library::Shim, Library::Graph, Library::Ops] {
        let name = library.file_name();
        std::os::unix::fs::symlink(real.join(name), folder.join(name)).expect("links can be made");
    }
    FakeLibrary::new(Library::Cnn, Version::new(9, 28, 0)).build(&folder.join(Library::Cnn.file_name()));
    let folder = folder.display();
    println!("cargo::rustc-link-search=native={folder}");
    for library in [Library::Graph, Library::Ops, Library::Cnn] {
        println!("cargo::rustc-link-lib=dylib:+verbatim={}", library.file_name());
    }
    println!("cargo::rustc-link-arg-benches=-Wl,-rpath,{folder}");
    println!("cargo::rustc-env=CUDNN_FOLDER={folder}");
}
