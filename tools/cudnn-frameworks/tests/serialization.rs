//! Reports, surveys, lookups and errors are unchanged after a round trip through JSON.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cudnn_frameworks::installation::{InstallationReport, inventory};
use cudnn_frameworks::{Framework, Jetson, MappedLibrary, SearchRule, Source};
use cudnn_probe::layers::requested_layers;
use cudnn_probe::{
    Architecture, Candidate, Component, DIR_VARIABLE, Host, Library, Origin, Os, ProbeError, Requirements, Search,
    Version, dll_search, gpu_code, ld_so, select,
};
use support::{ExtensionLibrary, FakeLibrary, TempDir, copy_fake_set, lib_dir};

mod stand_ins;
use stand_ins::round_trip::read_back;
use stand_ins::{Machine, cudnn, framework};

const VERSION: Version = Version::new(9, 19, 0);

fn not_utf_8(dir: &TempDir) -> PathBuf {
    dir.path().join(OsStr::from_bytes(b"gr\xf6\xdfe"))
}

#[test]
fn a_report_on_a_real_installation_is_read_back() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    let report = InstallationReport::read(&dir, &Host::current()).unwrap();
    assert!(report.package.is_some() && report.libraries.iter().all(|library| !library.recorded.is_empty()));
    read_back(&report);
}

#[test]
fn reports_on_damaged_installations_are_read_back() {
    let dir = TempDir::new();
    let lib = not_utf_8(&dir);
    std::fs::create_dir(&lib).unwrap();
    copy_fake_set(VERSION, &lib);
    let file = |library: Library| lib.join(library.file_name());
    let replaced = |library| {
        let file = file(library);
        std::fs::remove_file(&file).unwrap();
        file
    };
    let bytes = std::fs::read(file(Library::Ops)).unwrap();
    std::fs::write(replaced(Library::Ops), &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(replaced(Library::Cnn), b"<html>\xff").unwrap();
    std::fs::create_dir(replaced(Library::Adv)).unwrap();
    symlink(OsStr::from_bytes(b"nowhere-\xff"), replaced(Library::Heuristic)).unwrap();
    let looping = replaced(Library::EnginesPrecompiled);
    symlink(&looping, &looping).unwrap();
    FakeLibrary::new(Library::EnginesRuntimeCompiled, Version::new(9, 1, 0))
        .with_undefined("cudnnOfAnotherRelease")
        .build(&replaced(Library::EnginesRuntimeCompiled));

    let report = InstallationReport::read(&lib, &Host::sandbox(dir.path())).unwrap();
    let errors: Vec<&ProbeError> = report.libraries.iter().filter_map(|one| one.identity.as_ref().err()).collect();
    assert!(errors.len() >= 5, "{errors:#?}");
    let read = read_back(&report);
    assert_eq!(read.dir, lib.canonicalize().unwrap());
    // The texts that a person reads are the same.
    let texts = |report: &InstallationReport| -> Vec<String> {
        let errors = report.libraries.iter().filter_map(|one| one.identity.as_ref().err());
        let conflicts = report.conflicts();
        errors.chain(conflicts.iter().map(|(_, error)| error)).map(ToString::to_string).collect()
    };
    assert_eq!(texts(&read), texts(&report));

    let host = Host::sandbox(dir.path()).env(DIR_VARIABLE, &lib);
    let search = Search::new(host.clone());
    read_back(&inventory(&search, &host, &[dir.path().to_owned()]));
    read_back(&search.look_under_root(dir.path()));
    // One that is selected, and one that is rejected.
    assert!(read_back(&select(&search, &Requirements::new())).installation.is_some());
    assert_eq!(read_back(&select(&search, &Requirements::new().strict(true))).rejected.len(), 1);
    read_back(&gpu_code(&file(Library::Graph)).unwrap());
    read_back(&requested_layers(&host.env("CUDNN_LAYERS", OsStr::from_bytes(b"trace,/a/\xff,-,none")), None));
}

#[test]
fn surveys_are_read_back() {
    let machine = Machine::new().torch("2.9.1").onnxruntime("1.22.0", false).ctranslate2("4.5.0", true).jax();
    let machine = machine.tensorflow().cudart().cudnn(VERSION);
    let library = ExtensionLibrary::new().needing("libcudnn.so.9").needing("libnowhere.so").needing("libcublas.so.12");
    machine
        .environment
        .package("transformer-engine-cu12", "2.20.2")
        .library("transformer_engine/wheel_lib/libtransformer_engine.so", &library);
    machine.environment.package("unlisted", "1.0").library("unlisted/_C.so", &library);
    std::fs::write(machine.site("nvidia_x-1.dist-info"), "").unwrap();
    // What is damaged and what is absent.
    std::fs::write(machine.path("libcublas.so.12"), "\x7fELF").unwrap();
    std::fs::remove_file(machine.site("torch/lib/libtorch_global_deps.so")).unwrap();
    let toolkit = machine.path("toolkit");
    cudnn(&toolkit.join("lib64"), VERSION);
    let library_path = machine.path("");
    let machine = machine.env("CUDA_HOME", toolkit).env("LD_LIBRARY_PATH", library_path);

    let survey = read_back(&machine.survey());
    let te = framework(&survey, "transformer-engine");
    assert_eq!(te.opens.cudnn[0].by, SearchRule::Variable("CUDA_HOME"));
    assert!(matches!(te.built_for.cudnn.as_ref().unwrap().source, Source::Fact { .. }), "{te:?}");
    let opens = |what: fn(&Framework) -> bool| assert!(survey.frameworks.iter().any(what), "{survey:#?}");
    opens(|framework| !framework.opens.missing_libraries.is_empty());
    opens(|framework| !framework.opens.damaged_others.is_empty());
    opens(|framework| !framework.missing_files.necessary.is_empty());
    opens(|framework| framework.built_for.gpu_code.is_some() && !framework.pins.is_empty());
    opens(|framework| framework.opens.cudnn.iter().any(|opened| matches!(opened.by, SearchRule::LdSo(_))));
    assert!(!survey.unlisted.is_empty() && !survey.unreadable.is_empty(), "{survey:#?}");
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
        // Without the directories that were expanded for the search.
        let text = serde_json::to_string(object).unwrap();
        let read: ld_so::Object = serde_json::from_str(&text).unwrap();
        assert_eq!((&read.path, read.needed()), (&object.path, object.needed()));
        read_back(&read);
    }
    assert!(simulation.lookups().len() >= 4 && simulation.objects().len() >= 3, "{simulation:#?}");

    let mut facts = dll_search::Facts::new();
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
    read_back(&MappedLibrary::new(lib, 3));
}

#[test]
fn a_jetson_is_read_back() {
    let dir = TempDir::new();
    let tree = dir.path().join("proc/device-tree");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("compatible"), "nvidia,p3701-0000\0nvidia,tegra234\0").unwrap();
    let jetson = Jetson::detect(&Host::sandbox(dir.path())).unwrap();
    assert_eq!(read_back(&jetson).name(), "Jetson Orin");
}

#[test]
fn each_error_is_read_back_with_its_text() {
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
        ProbeError::NotRegularFile { kind: "a directory" },
        ProbeError::NotElf { starts_with: b"<html>\xff".into() },
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
            error: Box::new(ProbeError::Unreadable { error: io::ErrorKind::PermissionDenied.into() }),
        },
        ProbeError::OtherLoaded { loaded: path(), loaded_version: Some(found), version: None },
        ProbeError::OtherRequested { wanted: path() },
    ] {
        assert_eq!(read_back(&error).to_string(), error.to_string());
    }
    Component::ALL.iter().for_each(|component| assert_eq!(read_back(component), *component));
}

/// The system's error of what is read.
fn system_error(error: ProbeError) -> io::Error {
    let ProbeError::Unreadable { error } = error else { panic!("{error:?}") };
    error
}

#[test]
fn errors_of_the_system_keep_their_text_kind_and_number() {
    // ENOENT, EACCES, EMFILE, ELOOP, and none.
    let numbers = [2, 13, 24, 40, 99_999];
    let of_system = numbers.into_iter().map(io::Error::from_raw_os_error);
    let others = [
        io::ErrorKind::NotFound.into(),
        io::ErrorKind::UnexpectedEof.into(),
        io::Error::other("is a pipe, not a file"),
        io::Error::new(io::ErrorKind::InvalidData, "has 3 bytes, more than 2"),
    ];
    for error in of_system.chain(others) {
        let error = ProbeError::Unreadable { error };
        let (text, read) = (error.to_string(), read_back(&error));
        assert_eq!(read.to_string(), text);
        let (error, read) = (system_error(error), system_error(read));
        assert_eq!((read.kind(), read.raw_os_error()), (error.kind(), error.raw_os_error()), "{text}");
    }
    // Of Windows, read on Linux, where 5 is an error of input and output; and of a kind that is not known.
    for (kind, expected) in [("PermissionDenied", io::ErrorKind::PermissionDenied), ("Odd", io::ErrorKind::Other)] {
        let text = "Access is denied. (os error 5)";
        let error = serde_json::json!({"Unreadable": {"error": {"kind": kind, "text": text, "code": 5}}});
        let error = system_error(serde_json::from_value(error).unwrap());
        assert_eq!((error.to_string().as_str(), error.kind()), (text, expected));
    }
}

#[test]
fn a_path_is_text_unless_it_is_not_utf_8() {
    let written = |path: &[u8]| {
        let candidate = Candidate::new(OsStr::from_bytes(path), Origin::Explicit);
        serde_json::to_value(candidate).unwrap()["dir"].clone()
    };
    assert_eq!(written("/größe".as_bytes()), "/größe");
    assert_eq!(written(b"/\xff"), serde_json::json!({"escaped": "/\\xff"}));
}

#[test]
fn a_name_of_the_program_is_kept_once_and_an_unknown_framework_is_refused() {
    let name = |text: &str| match serde_json::from_str(text).unwrap() {
        Origin::Variable(name) => name,
        other => panic!("{other:?}"),
    };
    let text = serde_json::to_string(&Origin::Variable("A_VARIABLE")).unwrap();
    assert!(std::ptr::eq(name(&text), name(&text)));
    let survey = Machine::new().torch("2.9.1").survey();
    let mut text = serde_json::to_value(framework(&survey, "torch")).unwrap();
    assert_eq!(text["kind"], "torch");
    text["kind"] = "none".into();
    let error = serde_json::from_value::<Framework>(text).unwrap_err();
    assert_eq!(error.to_string(), "unknown framework \"none\"");
}
