//! What the files of real releases say of themselves, and what damaged ones are called.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test says so by panicking")]

use cudnn_probe::{Library, Version, identify};
use support::{Folder, lib_dir};

/// Every library of a release, away from the wheel's record, so that only the file itself can tell.
fn check(id: &str, version: Version, cuda: u32) {
    let Some(lib_dir) = lib_dir(id) else { return };
    let folder = Folder::copy_of(&lib_dir);
    let mut told = 0;
    for library in Library::ALL.into_iter().filter(|library| folder.file(*library).exists()) {
        let identity = identify(&folder.file(library), library).unwrap_or_else(|refusal| panic!("{library} {refusal}"));
        assert_eq!(identity.version, library.version_symbol().map(|_| version), "{library} of {id}");
        let has_gpu_code = has_gpu_code(&folder, library);
        assert_eq!(identity.cuda_major, has_gpu_code.then_some(cuda), "{library} of {id}");
        told += u32::from(has_gpu_code);
    }
    assert!(told > 0, "{id}");
}

fn has_gpu_code(folder: &Folder, library: Library) -> bool {
    let output =
        std::process::Command::new("readelf").arg("-SW").arg(folder.file(library)).output().expect("readelf starts");
    String::from_utf8_lossy(&output.stdout).contains(" .nv_fatbin ")
}

#[test]
fn each_library_of_the_small_releases_says_its_version_and_its_cuda_major() {
    check("jit-cu12-9.19.0", Version::new(9, 19, 0), 12);
    check("jit-cu13-9.27.0", Version::new(9, 27, 0), 13);
}

#[cfg(feature = "full-releases")]
#[test]
fn each_library_of_the_full_releases_says_its_version_and_its_cuda_major() {
    check("cu12-9.0.0", Version::new(9, 0, 0), 12);
    check("cu12-9.10.2", Version::new(9, 10, 2), 12);
    check("cu12-9.28.0", Version::new(9, 28, 0), 12);
    check("cu13-9.28.0", Version::new(9, 28, 0), 13);
}
