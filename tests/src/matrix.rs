//! The fault matrix: every kind of fault, in every sub-library. One list for this project's loader and for NVIDIA's
//! shim, on stand-ins and on real releases.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cudnn_loader::{SubLibrary, Version};
use cudnn_probe::Library;

use crate::{Child, ChildOutput, FakeLibrary, Subject, TempDir};

/// Something that can be wrong with a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the control.
    None,
    /// No such file.
    Absent,
    /// A file that the user may not read.
    NoPermission,
    /// A folder of that name.
    AFolder,
    /// A text file.
    Text,
    /// Built for aarch64.
    WrongArchitecture,
    /// Cut in the middle.
    Truncated,
    /// An ELF file whose tables are nonsense.
    Malformed,
    /// Another library under this name.
    WrongSoname,
    /// Needs a library that is nowhere.
    MissingDependency,
    /// Needs a symbol that is nowhere.
    UndefinedSymbol,
    /// Of another release than the rest.
    OtherVersion,
    /// Built for another CUDA major than the rest.
    OtherCuda,
    /// Lacks the function, as an older release does.
    LacksFunction,
}

impl Fault {
    /// All, the control first.
    pub const ALL: [Fault; 14] = [
        Fault::None,
        Fault::Absent,
        Fault::NoPermission,
        Fault::AFolder,
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

    /// In words.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Absent => "absent",
            Fault::NoPermission => "not readable",
            Fault::AFolder => "a folder of that name",
            Fault::Text => "a text file",
            Fault::WrongArchitecture => "built for aarch64",
            Fault::Truncated => "truncated",
            Fault::Malformed => "damaged headers",
            Fault::WrongSoname => "another library under this name",
            Fault::MissingDependency => "needs a missing library",
            Fault::UndefinedSymbol => "needs a missing symbol",
            Fault::OtherVersion => "of another release",
            Fault::OtherCuda => "built for another CUDA major",
            Fault::LacksFunction => "lacks the function",
        }
    }

    /// Can this be told of this library at all? graph is what the others are held against, and cnn and ext state no
    /// version.
    #[must_use]
    pub fn applies_to(self, library: SubLibrary) -> bool {
        match self {
            Fault::OtherVersion => !matches!(library, SubLibrary::Cnn | SubLibrary::Ext),
            Fault::OtherCuda => library != SubLibrary::Graph,
            _ => true,
        }
    }

    /// Puts the fault into a folder that holds a good installation of this version and CUDA major.
    ///
    /// # Panics
    /// When files cannot be written.
    pub fn inject(self, dir: &TempDir, library: SubLibrary, version: Version, cuda: u16) {
        let function = a_function(library);
        let library = library.library();
        let good = FakeLibrary::new(library, version);
        if self == Fault::None {
            return;
        }
        let file = dir.cleared(library);
        match self {
            Fault::None | Fault::Absent => {}
            Fault::AFolder => std::fs::create_dir(file).unwrap(),
            Fault::Text => std::fs::write(file, "GROUP ( libcudnn.so )\n").unwrap(),
            Fault::NoPermission => {
                good.build(&file);
                std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o000)).unwrap();
            }
            Fault::WrongArchitecture => damage(&good, &file, |bytes| bytes[18] = 183),
            Fault::Truncated => damage(&good, &file, |bytes| bytes.truncate(bytes.len() / 2)),
            Fault::Malformed => damage(&good, &file, |bytes| {
                // Both tables that the file header leads to: the segments, which follow it, and the sections.
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
            Fault::LacksFunction => good.without(function).build(&file),
        }
    }
}

fn damage(good: &FakeLibrary, file: &Path, damage: impl Fn(&mut Vec<u8>)) {
    good.build(file);
    let mut bytes = std::fs::read(file).unwrap();
    damage(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

/// A function of the library that returns a status and bears being called with zeros.
#[must_use]
pub fn a_function(library: SubLibrary) -> &'static str {
    match library {
        SubLibrary::Graph => "cudnnDestroy",
        SubLibrary::Ops => "cudnnDestroyTensorDescriptor",
        SubLibrary::Cnn => "cudnnDestroyConvolutionDescriptor",
        SubLibrary::Adv => "cudnnDestroyRNNDescriptor",
        SubLibrary::Ext => "cudnnCausalConv1dForward",
        other => panic!("no function is known for {other}"),
    }
}

/// Calls a function of the library with the fault in place, in a child, then a function of each other return type.
pub fn provoke(program: &str, subject: Subject, dir: &TempDir, library: SubLibrary) -> ChildOutput {
    provoke_with(Child::new(program, subject, dir.path()), library)
}

/// As [`provoke`], in a child that is told already where cuDNN is.
pub fn provoke_with(child: Child, library: SubLibrary) -> ChildOutput {
    child.without_privileges().run(&[
        a_function(library),
        "cudnnGetVersion",
        "cudnnGetErrorString",
        "cudnnGetLastErrorString",
    ])
}
