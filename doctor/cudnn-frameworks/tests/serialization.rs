//! Tests that values of `cudnn-probe` survive a round trip through JSON.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use cudnn_probe::layers::requested_layers;
use cudnn_probe::{
    Architecture, Candidate, Component, DIR_VARIABLE, Host, Library, Origin, Os, ProbeError, Requirements, Search,
    Version, dll_search, gpu_code, ld_so, select,
};
use support::{ExtensionLibrary, TempDir, copy_fake_set};

use serde::Serialize;
use serde::de::DeserializeOwned;

mod stand_ins;
use stand_ins::cudnn;

const VERSION: Version = Version::new(9, 19, 0);

/// Returns the value after a round trip through JSON, which must preserve the `Debug` text and the JSON.
fn read_back<T: Serialize + DeserializeOwned + Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(format!("{read:?}"), format!("{value:?}"), "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    read
}

fn not_utf_8(dir: &TempDir) -> PathBuf {
    dir.path().join(OsStr::from_bytes(b"gr\xf6\xdfe"))
}

#[test]
fn selections_are_read_back() {
    let dir = TempDir::new();
    let lib = not_utf_8(&dir);
    std::fs::create_dir(&lib).unwrap();
    copy_fake_set(VERSION, &lib);
    // A strict selection rejects an incomplete library.
    let ops = lib.join(Library::Ops.file_name());
    let bytes = std::fs::read(&ops).unwrap();
    std::fs::remove_file(&ops).unwrap();
    std::fs::write(&ops, &bytes[..bytes.len() / 2]).unwrap();
    let host = Host::sandbox(dir.path()).env(DIR_VARIABLE, &lib);
    let search = Search::new(host.clone());
    read_back(&search.look_under_root(dir.path()));
    assert!(read_back(&select(&search, &Requirements::new())).installation.is_some());
    assert_eq!(read_back(&select(&search, &Requirements::new().strict(true))).rejected.len(), 1);
    read_back(&gpu_code(&lib.join(Library::Graph.file_name())).unwrap());
    read_back(&requested_layers(&host.env("CUDNN_LAYERS", OsStr::from_bytes(b"trace,/a/\xff,-,none")), None));
}

#[test]
fn what_loaders_would_do_is_read_back() {
    let dir = TempDir::new();
    let lib = not_utf_8(&dir);
    cudnn(&lib, VERSION);
    std::fs::write(lib.join("libdamaged.so"), "\x7fELF").unwrap();
    let program = dir.path().join("program");
    ["libcudnn_ops.so.9", "libdamaged.so", "libnowhere.so"]
        .iter()
        .fold(ExtensionLibrary::new().with_runpath("$ORIGIN"), |library, name| library.needing(name))
        .build(&program);
    let host = Host::sandbox(dir.path()).env("LD_LIBRARY_PATH", &lib);
    let simulation = ld_so::Simulation::new(&program, &host).unwrap();
    for lookup in simulation.lookups() {
        read_back(lookup);
    }
    for object in simulation.objects() {
        // The JSON omits expanded search directories.
        let text = serde_json::to_string(object).unwrap();
        let read: ld_so::Object = serde_json::from_str(&text).unwrap();
        assert_eq!((&read.path, read.needed()), (&object.path, object.needed()));
        read_back(&read);
    }
    assert!(simulation.lookups().len() >= 4 && simulation.objects().len() >= 3, "{simulation:#?}");

    let mut facts = dll_search::ProcessFacts::new();
    facts.path.push(lib.clone());
    facts.system_dir = Some("C:\\Windows\\System32".into());
    read_back(&facts);
    let mut simulation = dll_search::Simulation::new(facts);
    simulation.open("missing.dll".as_ref(), dll_search::Mode::Standard);
    simulation.open(&lib.join("libdamaged.so"), dll_search::Mode::AlteredSearchPath);
    assert!(!simulation.lookups().is_empty() && !simulation.failures().is_empty(), "{simulation:#?}");
    for lookup in simulation.lookups() {
        read_back(lookup);
    }
    for failure in simulation.failures() {
        assert_eq!(read_back(failure).to_string(), failure.to_string());
    }
}

#[test]
fn every_error_is_read_back_with_its_text() {
    let path = || PathBuf::from(OsStr::from_bytes(b"/opt/\xff"));
    let found = VERSION;
    let wanted = Version::new(9, 20, 0);
    for error in [
        ProbeError::NotFound,
        ProbeError::BrokenLink { target: path() },
        ProbeError::NotDirectory,
        ProbeError::GraphMissing { found_in: None },
        ProbeError::GraphMissing { found_in: Some(path()) },
        ProbeError::SonameLinkMissing { file: "libcudnn_graph.so.9.19.0".into() },
        ProbeError::OtherMajor { major: 8 },
        ProbeError::NotAbsolute,
        ProbeError::NotRegularFile { kind: "a directory".into() },
        ProbeError::UnknownFormat { starts_with: b"<html>\xff".into() },
        ProbeError::Truncated { expected_len: u64::MAX, length: 3 },
        ProbeError::Malformed { reason: "it has no \"DT_SONAME\"\n".into() },
        ProbeError::WrongArchitecture { found: Architecture::ARM64EC, wanted: Architecture::X86_64 },
        ProbeError::WrongOs { found: Os::Windows, wanted: Os::Linux },
        ProbeError::WrongSoname { found: "libz.so.1".into(), wanted: Library::EnginesTensorIr },
        ProbeError::WrongMajor { found: Version::new(8, 9, 7) },
        ProbeError::NotInRelease { version: found },
        ProbeError::TooOld { found, wanted },
        ProbeError::WrongCuda { found: 12, wanted: 13 },
        ProbeError::MixedVersions { found, graph: wanted },
        ProbeError::MixedCuda { found: 12, graph: 13, also: vec![Library::Ops, Library::Ext] },
        ProbeError::OtherRelease { missing: vec!["cudnnCreate".into()] },
        ProbeError::OtherInstallation { graph: path() },
        ProbeError::UnusableLibrary {
            library: Library::Ops,
            error: Box::new(ProbeError::Unreadable { error: Arc::new(io::ErrorKind::PermissionDenied.into()) }),
        },
        ProbeError::OtherLoaded { loaded: path(), loaded_version: Some(found), version: None },
        ProbeError::OtherRequested { wanted: path() },
    ] {
        assert_eq!(read_back(&error).to_string(), error.to_string());
    }
    Component::ALL.iter().for_each(|component| assert_eq!(read_back(component), *component));
}

fn system_error(error: ProbeError) -> Arc<io::Error> {
    let ProbeError::Unreadable { error } = error else { panic!("{error:?}") };
    error
}

#[test]
fn system_errors_keep_their_text_kind_and_number() {
    // ENOENT, EACCES, EMFILE, ELOOP, and an unknown number.
    let numbers = [2, 13, 24, 40, 99_999];
    let of_system = numbers.into_iter().map(io::Error::from_raw_os_error);
    let others = [
        io::ErrorKind::NotFound.into(),
        io::ErrorKind::UnexpectedEof.into(),
        io::Error::other("is a pipe, not a file"),
        io::Error::new(io::ErrorKind::InvalidData, "has 3 bytes, more than 2"),
    ];
    for error in of_system.chain(others) {
        let error = ProbeError::Unreadable { error: error.into() };
        let (text, read) = (error.to_string(), read_back(&error));
        assert_eq!(read.to_string(), text);
        let (error, read) = (system_error(error), system_error(read));
        assert_eq!((read.kind(), read.raw_os_error()), (error.kind(), error.raw_os_error()), "{text}");
    }
    // An error from Windows, read on Linux, where 5 is an input/output error; then an unknown kind of error.
    for (kind, expected) in [("PermissionDenied", io::ErrorKind::PermissionDenied), ("Odd", io::ErrorKind::Other)] {
        let text = "Access is denied. (os error 5)";
        let error = serde_json::json!({"Unreadable": {"error": {"kind": kind, "text": text, "code": 5}}});
        let error = system_error(serde_json::from_value(error).unwrap());
        assert_eq!((error.to_string().as_str(), error.kind()), (text, expected));
    }
}

#[test]
fn a_path_is_text_if_it_is_utf_8() {
    let written = |path: &[u8]| {
        let candidate = Candidate::new(OsStr::from_bytes(path), Origin::Explicit);
        serde_json::to_value(candidate).unwrap()["dir"].clone()
    };
    assert_eq!(written("/größe".as_bytes()), "/größe");
    assert_eq!(written(b"/\xff"), serde_json::json!({"escaped": "/\\xff"}));
}

#[test]
fn a_variable_is_text() {
    let (origin, text) = (Origin::Variable("A_VARIABLE".into()), serde_json::json!({"Variable": "A_VARIABLE"}));
    assert_eq!(serde_json::to_value(&origin).unwrap(), text);
    assert_eq!(serde_json::from_value::<Origin>(text).unwrap(), origin);
}
