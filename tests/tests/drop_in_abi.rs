//! Checks the ABI of the drop-in library: exactly the names and symbol versions of NVIDIA's shim, exports that consist
//! of a load and a jump, and a small file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use support::{
    Version, binutils, drop_in, drop_in_of_profile, dynamic_entries, exported_symbols, lib_dir, load_and_jump, version,
};

const MAX_SIZE: u64 = 560_000;

/// Returns the exports of a library with their versions, as in `cudnnCreate@@libcudnn.so.9`.
fn exports(file: &Path) -> BTreeSet<String> {
    exported_symbols(file).into_iter().filter(|(kind, _)| kind != "A").map(|(_, name)| name).collect()
}

fn library() -> PathBuf {
    drop_in().join("lib/libcudnn.so.9")
}

/// Returns the additional functions of the drop-in, which `cudnn_shim.h` declares.
fn shim_api() -> BTreeSet<String> {
    let header = std::fs::read_to_string(drop_in().join("include/cudnn_shim.h")).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric();
    let declared = header.lines().filter(|line| line.ends_with(';')).filter_map(|line| {
        let start = line.find("cudnnShim")?;
        Some(line.get(start..)?.split(|c| !is_name(c)).next()?.to_owned())
    });
    declared.map(|name| format!("{name}@@libcudnn_shim_1")).collect()
}

fn check(id: &str) {
    let Some(dir) = lib_dir(id) else { return };
    let theirs = exports(&dir.join("libcudnn.so.9"));
    let ours = exports(&library());
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{id}: {missing:?}");
    // Use the release of the bindings, or a release with the same functions.
    if version(id) >= Version::new(9, 28, 0) {
        let more: BTreeSet<String> = ours.difference(&theirs).cloned().collect();
        assert_eq!(more, shim_api());
        assert_eq!(theirs.len(), 243);
    }
}

#[test]
fn its_exports_are_a_superset_of_nvidias_in_the_small_releases() {
    check("jit-cu12-9.19.0");
    check("jit-cu13-9.27.0");
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn its_exports_equal_nvidias_newest_and_are_a_superset_of_all() {
    support::full_releases().for_each(|release| check(release.id));
}

#[test]
fn it_exports_only_cudnns_functions_and_those_of_its_header() {
    let ours = exports(&library());
    let versioned = ours.iter().filter(|name| name.ends_with("@@libcudnn.so.9")).count();
    assert_eq!(versioned, 243);
    assert_eq!(shim_api().len(), 7);
    assert_eq!(ours.len(), 250, "{ours:#?}");
}

#[test]
fn it_depends_on_ordinary_system_libraries_only() {
    let needed = dynamic_entries(&library(), "NEEDED");
    let ordinary = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0"];
    for name in &needed {
        assert!(ordinary.contains(&name.as_str()) || name.starts_with("ld-linux"), "{needed:?}");
    }
    assert_eq!(dynamic_entries(&library(), "SONAME"), ["libcudnn.so.9"]);
    // The library's threads and handlers may outlive a dlclose.
    let text = binutils("readelf", &["-d", "-W"], &library());
    assert!(text.lines().any(|line| line.contains("(FLAGS_1)") && line.contains("NODELETE")), "{text}");
}

#[test]
#[ignore = "builds the library of a release"]
fn the_library_of_a_release_is_small() {
    let length = std::fs::metadata(drop_in_of_profile("dist").join("lib/libcudnn.so.9")).unwrap().len();
    assert!(length <= MAX_SIZE, "{length} bytes");
}

#[test]
fn every_export_is_a_load_and_a_jump() {
    // Find the code by address, because the linker may merge functions, and only exports have symbol names.
    let text = binutils("objdump", &["--disassemble", "--no-show-raw-insn"], &library());
    let mut instructions = BTreeMap::new();
    for line in text.lines() {
        if let Some((address, text)) = line.trim().split_once(":\t") {
            let text = text.trim().to_owned();
            u64::from_str_radix(address, 16)
                .into_iter()
                .for_each(|address| drop(instructions.insert(address, text.clone())));
        }
    }
    let symbols = binutils("nm", &["-D", "--defined-only"], &library());
    let mut count = 0;
    for line in symbols.lines().filter(|line| line.ends_with("@@libcudnn.so.9")) {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let first: Vec<&str> = instructions.range(address..).take(4).map(|(_, text)| text.as_str()).collect();
        assert!(load_and_jump(&first).is_some(), "{line}: {first:?}");
        count += 1;
    }
    assert_eq!(count, 243);
}
