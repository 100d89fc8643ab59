//! Which directories Python imports from, and which environments are active.

use std::process::Command;

use support::{ExtensionLibrary, TempDir, binutils, dynamic_entries};

/// The other tests rely on it.
#[test]
fn fake_extension_libraries_are_what_tools_and_ld_so_take_for_libraries() {
    let dir = TempDir::new();
    let file = dir.path().join("_C.so");
    let library = ExtensionLibrary::new().needing("libc.so.6").with_rpath("$ORIGIN/../nvidia/cudnn/lib");
    library.with_text("libcudnn.so.9").with_gpu_code(2, &["8.0", "9.0+PTX"]).build(&file);
    assert_eq!(dynamic_entries(&file, "NEEDED"), ["libc.so.6"]);
    assert_eq!(dynamic_entries(&file, "RPATH"), ["$ORIGIN/../nvidia/cudnn/lib"]);
    assert!(binutils("readelf", &["-p", ".rodata"], &file).contains("libcudnn.so.9"));
    assert!(binutils("readelf", &["-S", "-W"], &file).contains(".nv_fatbin"));
    assert_eq!(format!("{:?}", cudnn_probe::gpu_code(&file).unwrap().len()), "2");
    let output = Command::new("true").env("LD_PRELOAD", &file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
