//! The fault matrix on a real `libcudnn_graph.so.9` with fake libraries beside it. Whatever is wrong with a library, a
//! call into it must return a fitting status and leave a full report, and everything else must keep working: through the
//! loader from Rust, and through the drop-in library from a C program.

use cudnn_loader::{SubLibrary, Version};
use support::matrix::{self, Fault};
use support::{Child, ChildOutput, FakeLibrary, Subject, TempDir, client, drop_in_alone, lib_dir, put_drop_in};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const VERSION: Version = Version::new(9, 19, 0);

/// A real graph library of 9.19.0, with fake libraries for the others.
fn good_installation() -> Option<TempDir> {
    let real = lib_dir("jit-cu12-9.19.0")?;
    let dir = TempDir::copy_of(&real);
    for library in [SubLibrary::Ops, SubLibrary::Cnn, SubLibrary::Adv, SubLibrary::Ext] {
        FakeLibrary::new(library.library(), VERSION).build(&dir.file(library.library()));
    }
    Some(dir)
}

/// The status that a call into the faulty library returns, and a part of its report.
fn expected(fault: Fault, library: SubLibrary) -> (&'static str, &'static str) {
    const LOADING_FAILED: &str = "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008)";
    const MISMATCH: &str = "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)";
    let graph = library == SubLibrary::Graph;
    match fault {
        Fault::None => ("", ""),
        Fault::Absent if graph => (LOADING_FAILED, "no usable cuDNN 9 found"),
        // ext came after 9.19.0: its functions are newer than this installation.
        Fault::Absent | Fault::LacksFunction if library == SubLibrary::Ext => {
            ("CUDNN_STATUS_NOT_SUPPORTED (3000)", "is older than this function (it needs 9.22.0)")
        }
        Fault::Absent => ("CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE (3009)", "does not include libcudnn_"),
        Fault::NoPermission => (LOADING_FAILED, "cannot be read: Permission denied"),
        Fault::Directory => (LOADING_FAILED, "a directory, not a regular file"),
        Fault::Text => (LOADING_FAILED, "not an ELF file: it begins with \"GROUP ( libcudnn\""),
        Fault::WrongArchitecture => (LOADING_FAILED, "built for aarch64, and this program runs on x86-64"),
        Fault::Truncated => (LOADING_FAILED, "truncated: "),
        Fault::Malformed => (LOADING_FAILED, "a damaged ELF file"),
        Fault::WrongSoname => (LOADING_FAILED, "has the SONAME \"libsomething_else.so.1\""),
        Fault::MissingDependency => (LOADING_FAILED, "needs libnowhere.so.12, which ld.so did not find"),
        Fault::UndefinedSymbol => (LOADING_FAILED, "needs the symbol a_symbol_that_is_nowhere"),
        Fault::OtherVersion if graph => (LOADING_FAILED, "is cuDNN 8.9.7, but cuDNN 9 is required"),
        Fault::OtherVersion => (MISMATCH, "is cuDNN 9.1.1, but the libcudnn_graph.so.9 beside it is 9.19.0"),
        Fault::OtherCuda => (MISMATCH, "built for CUDA 13, but the libcudnn_graph.so.9 beside it for CUDA 12"),
        Fault::LacksFunction => ("CUDNN_STATUS_NOT_SUPPORTED (3000)", "does not export it"),
    }
}

#[test]
fn every_fault_in_every_library_gives_a_fitting_status_and_a_full_report() {
    check(&|dir, library| matrix::provoke(DRIVER, Subject::Loader, dir, library));
}

#[test]
fn every_fault_gives_a_c_program_the_same_through_the_drop_in_library() {
    let Some(client) = client("client.c", drop_in_alone().path(), &[]) else { return };
    let client = client.path().join("client");
    check(&|dir, library| {
        put_drop_in(dir.path());
        let child = Child::bare(&client).env("LD_LIBRARY_PATH", dir.path());
        matrix::provoke_with(child, library)
    });
}

fn check(provoke: &dyn Fn(&TempDir, SubLibrary) -> ChildOutput) {
    let Some(good) = good_installation() else { return };
    for library in SubLibrary::ALL.iter().copied() {
        for fault in Fault::ALL.into_iter().filter(|fault| fault.applies_to(library)) {
            let dir = TempDir::links_to(good.path());
            fault.inject(&dir, library, VERSION, 12);
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
                // By number: the name comes from the graph library, which may be a fake one that knows a single name.
                let number = |text: &str| text.split_once('(').map(|(_, number)| number.to_owned());
                assert_eq!(number(returned), number(status), "{case}");
                for fragment in [fragment, function, "help: "] {
                    assert!(message.contains(fragment), "{fragment:?} is missing. {case}");
                }
            }
            // Functions in other libraries work as before; the string functions always work.
            let graph_is_unusable =
                library == SubLibrary::Graph && !matches!(fault, Fault::None | Fault::LacksFunction);
            let version = if graph_is_unusable { "0" } else { "91900" };
            assert_eq!(output.returned("cudnnGetVersion"), Some(version), "{case}");
            assert_eq!(output.returned("cudnnGetErrorString"), Some("CUDNN_STATUS_SUCCESS"), "{case}");
        }
    }
}
