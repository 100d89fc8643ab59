//! Runs the fault matrix on a real `libcudnn_graph.so.9` with fake versions of the other libraries. A call into a
//! faulty library must return a suitable status and leave a complete report, and all other calls must succeed. The
//! calls come from Rust through the loader, and from a C program through the drop-in library.

use cudnn_loader::{Library, Version};
use support::matrix::{self, Fault};
use support::{
    Child, ChildOutput, FakeLibrary, Subject, TempDir, client, drop_in_alone, is_full, lib_dir, put_drop_in,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

struct Base {
    version: Version,
    cuda: u16,
    dir: TempDir,
}

/// The installations that tests copy before damaging the copy. They are built once.
struct Bases {
    usual: Base,
    /// With ext, which is new in 9.22.0.
    newer: Base,
}

impl Bases {
    fn new() -> Option<Bases> {
        let usual = Base::new("jit-cu12-9.19.0", Version::new(9, 19, 0), 12)?;
        Some(Bases { usual, newer: Base::new("jit-cu13-9.27.0", Version::new(9, 27, 0), 13)? })
    }

    fn to_test(&self, library: Library) -> &Base {
        if library == Library::Ext { &self.newer } else { &self.usual }
    }
}

impl Base {
    fn new(id: &str, version: Version, cuda: u16) -> Option<Base> {
        let base = Base { version, cuda, dir: TempDir::copy_of(&lib_dir(id)?) };
        for library in Library::WITH_API.iter().copied().filter(|library| *library != Library::Graph) {
            FakeLibrary::new(library, version).build(&base.dir.file(library));
        }
        Some(base)
    }
}

/// Returns the status of a call into the faulty library, and a part of the report.
fn expected(fault: Fault, library: Library) -> (&'static str, &'static str) {
    const LOADING_FAILED: &str = "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)";
    const MISMATCH: &str = "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)";
    let graph = library == Library::Graph;
    match fault {
        Fault::None => ("", ""),
        Fault::Absent if graph => (LOADING_FAILED, "no usable cuDNN 9 found"),
        Fault::Absent => ("CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE (3009)", "does not include libcudnn_"),
        Fault::NoPermission => (LOADING_FAILED, "cannot be read: Permission denied"),
        Fault::Directory => (LOADING_FAILED, "a directory, not a regular file"),
        Fault::Pipe => (LOADING_FAILED, "a pipe, a socket or a device, not a regular file"),
        Fault::Text => (LOADING_FAILED, "is not an ELF file: its first bytes are \"GROUP ( libcudnn\""),
        Fault::WrongArchitecture if cfg!(target_arch = "aarch64") => {
            (LOADING_FAILED, "is built for x86-64, but aarch64 is required")
        }
        Fault::WrongArchitecture => (LOADING_FAILED, "is built for aarch64, but x86-64 is required"),
        Fault::Truncated => (LOADING_FAILED, "is truncated: "),
        Fault::Malformed => (LOADING_FAILED, "is damaged: "),
        Fault::WrongSoname => (LOADING_FAILED, "has the SONAME \"libsomething_else.so.1\""),
        Fault::MissingDependency => (LOADING_FAILED, "needs libnowhere.so.12, which ld.so did not find"),
        Fault::UndefinedSymbol => (LOADING_FAILED, "needs the symbol a_symbol_that_is_nowhere"),
        Fault::OtherVersion if graph => (LOADING_FAILED, "is cuDNN 8.9.7, but cuDNN 9 is required"),
        Fault::OtherVersion => (MISMATCH, "is cuDNN 9.1.1, but the libcudnn_graph.so.9 next to it is 9.19.0"),
        Fault::OtherCuda if library == Library::Ext => {
            (MISMATCH, "built for CUDA 12, but the libraries next to it are for CUDA 13")
        }
        Fault::OtherCuda => (MISMATCH, "built for CUDA 13, but the libraries next to it are for CUDA 12"),
        Fault::LacksFunction => ("CUDNN_STATUS_NOT_SUPPORTED (3000)", "does not export it"),
    }
}

#[test]
fn every_fault_in_every_library_gives_a_fitting_status_and_a_full_report() {
    check(|_| true, &|dir, library| matrix::provoke(DRIVER, Subject::Loader, dir, library));
}

#[test]
fn every_fault_has_the_same_result_in_a_c_program_with_the_drop_in() {
    let Some(client) = client("client.c", drop_in_alone().path(), &[]) else { return };
    let client = client.path().join("client");
    // An ordinary run tries a third of the pairs of a fault and a library, with all faults and all libraries.
    check(|number| is_full() || number % 3 == 0, &|dir, library| {
        put_drop_in(dir.path());
        let child = Child::bare(&client).env("LD_LIBRARY_PATH", dir.path());
        matrix::provoke_with(child, library)
    });
}

/// Provokes the selected pairs of a fault and a library.
fn check(is_selected: impl Fn(usize) -> bool, provoke: &dyn Fn(&TempDir, Library) -> ChildOutput) {
    let Some(bases) = Bases::new() else { return };
    for (index, library) in Library::WITH_API.iter().copied().enumerate() {
        let base = bases.to_test(library);
        let faults = Fault::ALL.into_iter().enumerate().filter(|(number, _)| is_selected(index + number));
        for (_, fault) in faults.filter(|(_, fault)| fault.applies_to(library)) {
            let dir = TempDir::links_to(base.dir.path());
            fault.inject(&dir, library, base.version, base.cuda);
            let output = provoke(&dir, library);
            let case = format!("{library}: {}: {output:#?}", fault.description());
            assert_eq!(output.code, Some(0), "{case}");
            let function = matrix::a_function(library);
            let returned = output.returned(function).unwrap_or_default();
            let message = output.last_error(function);
            if fault == Fault::None {
                assert!(!message.contains("cannot be called"), "{case}");
            } else {
                let (status, fragment) = expected(fault, library);
                // Compare numbers, because the graph library with the names may be a fake that knows a single name.
                let number = |text: &str| text.split_once('(').map(|(_, number)| number.to_owned());
                assert_eq!(number(returned), number(status), "{case}");
                for fragment in [fragment, function, "help: "] {
                    assert!(message.contains(fragment), "{fragment:?} is missing. {case}");
                }
            }
            // Functions in other libraries work as before, and the string functions always work.
            let graph_is_unusable = library == Library::Graph && !matches!(fault, Fault::None | Fault::LacksFunction);
            let Version { major, minor, patch } = base.version;
            let version = if graph_is_unusable { 0 } else { major * 10_000 + minor * 100 + patch };
            assert_eq!(output.returned("cudnnGetVersion"), Some(version.to_string().as_str()), "{case}");
            assert_eq!(output.returned("cudnnGetErrorString"), Some("CUDNN_STATUS_SUCCESS"), "{case}");
        }
    }
}

/// cuDNN opens these libraries by name when it plans, and a damaged library would then crash the process.
#[test]
fn a_faulty_library_that_graph_opens_is_refused_with_its_reason_before_cudnn_plans() {
    let Some(Bases { newer: base, .. }) = Bases::new() else { return };
    let planning = ["cudnnBackendFinalize", "cudnnSoftmaxForward"];
    let other = matrix::a_function(Library::Graph);
    for library in Library::OPENED_BY_GRAPH.iter().copied() {
        for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::None && fault.applies_to(library)) {
            let dir = TempDir::links_to(base.dir.path());
            fault.inject(&dir, library, base.version, base.cuda);
            let child = Child::new(DRIVER, Subject::Loader, dir.path()).without_privileges();
            let output = child.run(&[other, planning[0], planning[1]]);
            let case = format!("{library}: {}: {output:#?}", fault.description());
            assert_eq!(output.code, Some(0), "{case}");
            let is_accepted = match fault {
                // Some releases and JIT-only installations do not include these libraries.
                Fault::Absent => true,
                // ld.so cannot open the library, and cuDNN reports that.
                Fault::MissingDependency | Fault::UndefinedSymbol => true,
                _ => false,
            };
            assert!(!output.last_error(other).contains("cannot be called"), "{case}");
            for function in planning {
                let returned = output.returned(function).unwrap_or_default();
                let message = output.last_error(function);
                if is_accepted {
                    assert!(!message.contains("cannot be called"), "{case}");
                    continue;
                }
                let (status, fragment) = match fault {
                    Fault::OtherCuda => {
                        ("(1002)", "is built for CUDA 12, but the libraries next to it are for CUDA 13")
                    }
                    _ => ("(1008)", expected(fault, Library::Ops).1),
                };
                assert!(returned.ends_with(status), "{case}");
                for fragment in [fragment, function, library.file_name(), "help: "] {
                    assert!(message.contains(fragment), "{fragment:?} is missing. {case}");
                }
            }
        }
    }
}

#[test]
fn ext_is_too_new_for_an_older_release_even_if_its_file_is_there() {
    let Some(Bases { usual: base, .. }) = Bases::new() else { return };
    for is_there in [true, false] {
        if !is_there {
            let _ = base.dir.cleared(Library::Ext);
        }
        let output = matrix::provoke(DRIVER, Subject::Loader, &base.dir, Library::Ext);
        let function = matrix::a_function(Library::Ext);
        assert_eq!(output.returned(function), Some("CUDNN_STATUS_NOT_SUPPORTED (3000)"), "{output:#?}");
        for fragment in [function, "is older than this function (it needs 9.22.0)", "help: "] {
            assert!(output.last_error(function).contains(fragment), "{fragment:?} is missing. {output:#?}");
        }
    }
}

#[test]
fn a_library_that_is_left_over_from_a_newer_release_is_not_loaded() {
    let Some(Bases { usual: base, .. }) = Bases::new() else { return };
    let output = matrix::provoke(DRIVER, Subject::Loader, &base.dir, Library::Ext);
    let function = matrix::a_function(Library::Ext);
    assert_eq!(output.returned(function), Some("CUDNN_STATUS_NOT_SUPPORTED (3000)"), "{output:#?}");
    assert!(output.last_error(function).contains("is older than this function (it needs 9.22.0)"), "{output:#?}");
}
