use std::path::PathBuf;

use super::super::dlls::{dll_links, missing_imports};
use super::super::fake_dll::{AMD64, FakeDll};
use super::super::file::LibraryFile;
use super::super::identify_any;
use super::*;
use crate::library::Library;

fn file(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("cudnn-probe-pe-{test}-{}.dll", std::process::id()))
}

const GRAPH: FakeDll<'_> = FakeDll {
    name: "cudnn_graph64_9.dll",
    machine: AMD64,
    exports: &[("cudnnGetVersion", [0; 4]), ("cudnn_graph_version", [2, 10, 9, 0])],
    imports: &[("KERNEL32.dll", &["Sleep", "#12"]), ("zlibwapi.dll", &[])],
    version: None,
    is_hybrid: false,
};

#[test]
#[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
fn a_dll_states_its_name_version_processor_and_imports() {
    let path = file("facts");
    GRAPH.write(&path);
    let identity = identify_any(&path, Library::Graph).unwrap();
    assert_eq!((identity.os, identity.architecture), (Os::Windows, Architecture::X86_64));
    assert_eq!(identity.version, Some(Version::new(9, 10, 2)));
    assert_eq!(identity.needed, ["KERNEL32.dll", "zlibwapi.dll"]);
    let links = dll_links(&path).unwrap();
    let symbols = [Symbol::Name("Sleep".into()), Symbol::Ordinal(12)];
    assert_eq!(links.imports[0], Import { dll: "KERNEL32.dll".into(), symbols: symbols.to_vec() });
    let wanted = ["cudnnGetVersion", "cudnnCreate"].map(|name| Symbol::Name(name.into()));
    let wanted = [&wanted[..], &[Symbol::Ordinal(2), Symbol::Ordinal(3), Symbol::Ordinal(0)]].concat();
    let missing = missing_imports(&path, &wanted).unwrap();
    assert_eq!(missing, [wanted[1].clone(), wanted[3].clone(), wanted[4].clone()]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
fn a_version_in_the_resources_counts_where_no_symbol_states_one() {
    let path = file("version");
    for (name, exports, version, library, expected) in [
        (
            "cudnn64_9.dll",
            &[][..],
            Some([9, 28, 1, 42]),
            Library::Shim,
            "Some(Version { major: 9, minor: 28, patch: 1 })",
        ),
        ("cudnn64_9.dll", &[], None, Library::Shim, "None"),
        (
            "cudnn_graph64_9.dll",
            GRAPH.exports,
            Some([9, 11, 0, 1]),
            Library::Graph,
            "Some(Version { major: 9, minor: 10, patch: 2 })",
        ),
        // Simulate a cuDNN 8 file with the name of a newer file.
        ("cudnn64_8.dll", &[], Some([8, 9, 7, 29]), Library::Shim, "is cuDNN 8.9.7, but cuDNN 9 is required"),
        ("other.dll", &[], Some([8, 9, 7, 29]), Library::Shim, "\"other.dll\" instead of"),
    ] {
        FakeDll { exports, version, ..FakeDll::new(name) }.write(&path);
        let found = match identify_any(&path, library) {
            Ok(identity) => format!("{:?}", identity.version),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{name}: {found}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
fn a_dll_for_another_processor_is_named_as_what_it_is() {
    let path = file("processor");
    for (machine, is_hybrid, expected) in [
        (0x14c, false, "is built for 32-bit x86, but x86-64 is required"),
        (0x1c4, false, "is built for 32-bit Arm, but x86-64 is required"),
        (0xaa64, false, "is built for aarch64, but x86-64 is required"),
        (0xa64e, false, "is built for aarch64, but x86-64 is required"),
        (0xa641, false, "is built for ARM64EC (Windows on Arm), but x86-64 is required"),
        (AMD64, true, "is built for ARM64EC (Windows on Arm), but x86-64 is required"),
        (0x200, false, "is damaged: the header contains an unknown processor"),
        (AMD64, false, ""),
    ] {
        FakeDll { machine, is_hybrid, ..GRAPH }.write(&path);
        let file = LibraryFile::open(&path).unwrap();
        let error = Pe::read(&file.data, Some(Architecture::X86_64)).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.starts_with(expected) && error.is_empty() == expected.is_empty(), "{machine:x}: {error}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// Corrupts every byte of the header and tables, truncates the file everywhere, and sets numbers to huge values.
/// Each result must be either a description of the file or an error.
#[test]
#[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
fn a_damaged_or_hostile_dll_gives_an_error_at_most() {
    let path = file("hostile");
    let complete = FakeDll { version: Some([9, 10, 2, 1]), is_hybrid: true, ..GRAPH }.bytes();
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let _ = dll_links(&path);
        let _ = missing_imports(&path, &[Symbol::Name("cudnn".into()), Symbol::Ordinal(u16::MAX)]);
        identify_any(&path, Library::Graph)
    };
    assert!(read(&complete).is_ok());
    for length in (0..complete.len()).step_by(7) {
        assert!(read(&complete[..length]).is_err(), "{length} bytes");
    }
    // Covers the nonempty parts of the header and the section.
    let places = (0x3c..0x40).chain(0x80..0x1c0).chain(0x400..complete.len());
    for place in places.step_by(2) {
        for value in [[0; 4], [0xff; 4], [0xff, 0xff, 0xff, 0x7f], [0, 0, 0, 0x80]] {
            let mut bytes = complete.clone();
            let end = bytes.len().min(place + 4);
            bytes[place..end].copy_from_slice(&value[..end - place]);
            let _ = read(&bytes);
        }
    }
    for (bytes, expected) in [
        (&b"MZ"[..], "is truncated: it has 2 bytes of at least 64"),
        (b"<html>", "its first bytes are"),
        (&[b"MZ", &[0; 100][..]].concat(), "is damaged: it is a program for MS-DOS or OS/2"),
        (&complete[..0x90], "is truncated: it has 144 bytes"),
        (&complete[..0x500], "is truncated: it has 1280 bytes"),
    ] {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
}
