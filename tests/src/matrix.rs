//! Defines the fault matrix: every kind of fault, in every sub-library. Tests use it for this project's loader and
//! NVIDIA's shim, with fake libraries and with real releases.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cudnn_loader::{Library, Version};

use crate::{Child, ChildOutput, FakeLibrary, Subject, TempDir};

/// A fault of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: the control.
    None,
    /// The file is missing.
    Absent,
    /// The user may not read the file.
    NoPermission,
    /// There is a directory at the library's path.
    Directory,
    /// There is a pipe without a writer at the library's path.
    Pipe,
    /// The file is a text file.
    Text,
    /// The library is built for a different processor.
    WrongArchitecture,
    /// The second half of the file is missing.
    Truncated,
    /// The ELF tables are damaged.
    Malformed,
    /// The file is another library under this name.
    WrongSoname,
    /// A required library does not exist.
    MissingDependency,
    /// A required symbol does not exist.
    UndefinedSymbol,
    /// The library is from a different release than the others.
    OtherVersion,
    /// The library is built for a different CUDA major version than the others.
    OtherCuda,
    /// The function is missing, as in an older release.
    LacksFunction,
}

impl Fault {
    /// All faults, the control first.
    pub const ALL: [Fault; 15] = [
        Fault::None,
        Fault::Absent,
        Fault::NoPermission,
        Fault::Directory,
        Fault::Pipe,
        Fault::Text,
        Fault::WrongArchitecture,
        Fault::Truncated,
        Fault::Malformed,
        Fault::WrongSoname,
        Fault::MissingDependency,
        Fault::UndefinedSymbol,
        Fault::OtherVersion,
        Fault::OtherCuda,
        Fault::LacksFunction,
    ];

    /// Returns a short description for tables.
    pub fn description(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Absent => "absent",
            Fault::NoPermission => "not readable",
            Fault::Directory => "a directory in its place",
            Fault::Pipe => "a pipe in its place",
            Fault::Text => "a text file",
            Fault::WrongArchitecture => "built for aarch64",
            Fault::Truncated => "truncated",
            Fault::Malformed => "damaged headers",
            Fault::WrongSoname => "another library under this name",
            Fault::MissingDependency => "needs a missing library",
            Fault::UndefinedSymbol => "needs a missing symbol",
            Fault::OtherVersion => "from another release",
            Fault::OtherCuda => "for another CUDA major version",
            Fault::LacksFunction => "the function is missing",
        }
    }

    /// Returns whether this fault can be detected in this library. Other libraries are compared with graph, and only
    /// some export a version symbol. Programs never call the libraries that graph opens.
    pub fn applies_to(self, library: Library) -> bool {
        match self {
            Fault::OtherVersion => library.version_symbol().is_some(),
            Fault::OtherCuda => library != Library::Graph,
            Fault::LacksFunction => !Library::OPENED_BY_GRAPH.contains(&library),
            _ => true,
        }
    }

    /// Injects the fault into a directory with an intact installation of this version and CUDA major.
    pub fn inject(self, dir: &TempDir, library: Library, version: Version, cuda: u16) {
        let good = FakeLibrary::new(library, version);
        if self == Fault::None {
            return;
        }
        let file = dir.cleared(library);
        match self {
            Fault::None | Fault::Absent => {}
            Fault::Directory => std::fs::create_dir(file).unwrap(),
            Fault::Pipe => make_pipe(&file),
            Fault::Text => std::fs::write(file, "GROUP ( libcudnn.so )\n").unwrap(),
            Fault::NoPermission => {
                good.build(&file);
                std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o000)).unwrap();
            }
            Fault::WrongArchitecture => damage(&good, &file, |bytes| bytes[18] = crate::FOREIGN.1),
            Fault::Truncated => damage(&good, &file, |bytes| bytes.truncate(bytes.len() / 2)),
            Fault::Malformed => damage(&good, &file, |bytes| {
                // Damage both tables: the program headers, which follow the file header, and the section headers.
                let segments = 64 + 56 * usize::from(bytes[56]);
                bytes[64..segments].fill(0x41);
                let sections = usize::try_from(u64::from_le_bytes(bytes[40..48].try_into().unwrap())).unwrap();
                bytes[sections..].fill(0x41);
            }),
            Fault::WrongSoname => good.with_soname("libsomething_else.so.1").build(&file),
            Fault::MissingDependency => good.needing("libnowhere.so.12").build(&file),
            Fault::UndefinedSymbol => good.with_undefined("a_symbol_that_is_nowhere").build(&file),
            Fault::OtherVersion => {
                let other = if library == Library::Graph { Version::new(8, 9, 7) } else { Version::new(9, 1, 1) };
                FakeLibrary::new(library, other).build(&file);
            }
            Fault::OtherCuda => good.with_ptx(if cuda == 12 { 9 } else { 8 }).build(&file),
            Fault::LacksFunction => good.without(a_function(library)).build(&file),
        }
    }
}

fn make_pipe(file: &Path) {
    let path = CString::new(file.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o644) }, 0, "{file:?}");
}

fn damage(good: &FakeLibrary, file: &Path, damage: impl Fn(&mut Vec<u8>)) {
    good.build(file);
    let mut bytes = std::fs::read(file).unwrap();
    damage(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

/// Returns a function of the library that returns a status and accepts zeros.
pub fn a_function(library: Library) -> &'static str {
    match library {
        Library::Graph => "cudnnDestroy",
        Library::Ops => "cudnnDestroyTensorDescriptor",
        Library::Cnn => "cudnnDestroyConvolutionDescriptor",
        Library::Adv => "cudnnDestroyRNNDescriptor",
        Library::Ext => "cudnnCausalConv1dForward",
        other => panic!("no function is known for {other}"),
    }
}

/// In a child, calls a function of the faulty library, then a function for every other return type.
pub fn provoke(program: &str, subject: Subject, dir: &TempDir, library: Library) -> ChildOutput {
    provoke_with(Child::new(program, subject, dir.path()), library)
}

/// Like [`provoke`], but in a child that already knows the directory of cuDNN.
pub fn provoke_with(child: Child, library: Library) -> ChildOutput {
    child.without_privileges().run(&[
        a_function(library),
        "cudnnGetVersion",
        "cudnnGetErrorString",
        "cudnnGetLastErrorString",
    ])
}
