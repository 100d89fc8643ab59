//! Why a file or a folder cannot be used. Each cause has its own name, its own words, and its own cure.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{Library, Os, Version};

/// A processor architecture, as an ELF file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture(pub u16);

impl Architecture {
    /// The one that this program runs on.
    pub const HOST: Architecture =
        Architecture(if cfg!(target_arch = "aarch64") { object::elf::EM_AARCH64.0 } else { object::elf::EM_X86_64.0 });
}

impl Architecture {
    /// The one that Rust calls by this name (`CARGO_CFG_TARGET_ARCH`), if cuDNN comes for it.
    #[must_use]
    pub fn from_rust(name: &str) -> Option<Architecture> {
        match name {
            "x86_64" => Some(Architecture(object::elf::EM_X86_64.0)),
            "aarch64" => Some(Architecture(object::elf::EM_AARCH64.0)),
            _ => None,
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value == object::elf::EM_X86_64.0 => f.write_str("x86-64"),
            value if value == object::elf::EM_AARCH64.0 => f.write_str("aarch64"),
            value if value == object::elf::EM_386.0 => f.write_str("32-bit x86"),
            value if value == object::elf::EM_PPC64.0 => f.write_str("ppc64le"),
            other => write!(f, "ELF machine {other}"),
        }
    }
}

/// Why a file or a folder cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProbeError {
    /// There is no such file.
    NotFound,
    /// A link to a file that is not there.
    BrokenLink {
        /// Where it leads.
        target: PathBuf,
    },
    /// The file is there under its full name only, as after a copy that lost the links.
    SonameLinkMissing {
        /// The file's name: `libcudnn_graph.so.9.10.2`.
        file: String,
    },
    /// There is none, but the folder holds a cuDNN of another major version.
    OtherMajor {
        /// The major version that is there.
        major: u32,
    },
    /// The path is relative: it would mean something else in every working directory.
    NotAbsolute,
    /// It is there and cannot be opened or read.
    Unreadable {
        /// What the system said.
        error: io::Error,
    },
    /// A folder, a pipe, a device: nothing that can be a library.
    NotRegularFile {
        /// What it is instead.
        what: &'static str,
    },
    /// It does not begin as an ELF file does.
    NotElf {
        /// Its first bytes, at most 16.
        starts_with: Vec<u8>,
    },
    /// An ELF file that ends before what its own headers promise.
    Truncated {
        /// The length that the headers promise, in bytes, at least.
        expected_len: u64,
        /// The length that it has, in bytes.
        length: u64,
    },
    /// An ELF file whose headers contradict each other.
    Malformed {
        /// What is wrong with it.
        what: String,
    },
    /// Built for another architecture.
    WrongArchitecture {
        /// The file's.
        found: Architecture,
        /// This program's.
        wanted: Architecture,
    },
    /// Built for another system.
    WrongOs {
        /// The file's.
        found: Os,
        /// This program's.
        wanted: Os,
    },
    /// A shared library, but another one than its file name says.
    WrongSoname {
        /// The name that the library gives itself.
        found: String,
        /// The library that was looked for.
        wanted: Library,
    },
    /// Another major version than 9.
    WrongMajor {
        /// The library's version.
        found: Version,
    },
    /// Older than asked for.
    TooOld {
        /// The library's version.
        found: Version,
        /// The oldest that would do.
        wanted: Version,
    },
    /// Built for another CUDA major than asked for.
    WrongCuda {
        /// The CUDA major that the library was built for.
        found: u32,
        /// The one that was asked for.
        wanted: u32,
    },
    /// Another version than the rest of the installation.
    MixedVersions {
        /// This library's version.
        found: Version,
        /// The version of `libcudnn_graph.so.9`.
        graph: Version,
    },
    /// Built for another CUDA major than the rest of the installation.
    MixedCuda {
        /// The CUDA major of this library.
        found: u32,
        /// The CUDA major of the rest.
        graph: u32,
    },
    /// The process has a cuDNN from another folder already.
    OtherLoaded {
        /// Where that one is.
        loaded: PathBuf,
        /// Its version, where it states one.
        version: Option<Version>,
        /// The version of this one, where that can be read.
        own: Option<Version>,
    },
    /// It is in use, and another folder is asked for.
    OtherRequested {
        /// That folder.
        wanted: PathBuf,
    },
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::NotFound => f.write_str("is absent"),
            ProbeError::BrokenLink { target } => write!(f, "is a link to {target:?}, which is not there"),
            ProbeError::SonameLinkMissing { file } => {
                write!(f, "holds {file}, but no link to it by the name that programs look for, without the numbers")
            }
            ProbeError::OtherMajor { major } => write!(f, "holds cuDNN {major}, and cuDNN 9 is needed"),
            ProbeError::NotAbsolute => f.write_str("is a relative path, which is never searched"),
            ProbeError::Unreadable { error } => write!(f, "cannot be read: {error}"),
            ProbeError::NotRegularFile { what } => write!(f, "is not a file but {what}"),
            ProbeError::NotElf { starts_with } => {
                write!(f, "is not an ELF file: it begins with \"{}\"", starts_with.escape_ascii())
            }
            ProbeError::Truncated { expected_len: promised, length } => {
                write!(f, "is truncated: {length} bytes of at least {promised}")
            }
            ProbeError::Malformed { what } => write!(f, "is a damaged ELF file: {what}"),
            ProbeError::WrongArchitecture { found, wanted } => {
                write!(f, "is built for {found}, and this program runs on {wanted}")
            }
            ProbeError::WrongOs { found, wanted } => write!(f, "is built for {found}, and {wanted} is needed"),
            ProbeError::WrongSoname { found, wanted } => {
                write!(f, "calls itself {found:?}, not {:?}", wanted.file_name())
            }
            ProbeError::WrongMajor { found } => write!(f, "is cuDNN {found}, and cuDNN 9 is needed"),
            ProbeError::TooOld { found, wanted } => write!(f, "is cuDNN {found}, and at least {wanted} is asked for"),
            ProbeError::WrongCuda { found, wanted } => {
                write!(f, "is built for CUDA {found}, and CUDA {wanted} is asked for")
            }
            ProbeError::MixedVersions { found, graph } => {
                write!(f, "is cuDNN {found} beside a libcudnn_graph.so.9 of {graph}")
            }
            ProbeError::MixedCuda { found, graph } => {
                write!(f, "is built for CUDA {found} beside a libcudnn_graph.so.9 built for CUDA {graph}")
            }
            ProbeError::OtherLoaded { loaded, version, own } => {
                if let Some(own) = own {
                    write!(f, "is cuDNN {own}, and ")?;
                }
                f.write_str("cannot be loaded beside ")?;
                if let Some(version) = version {
                    write!(f, "cuDNN {version} of ")?;
                }
                write!(f, "{loaded:?}, which the process has loaded already")
            }
            ProbeError::OtherRequested { wanted } => {
                write!(f, "cannot be given up for the one that is asked for, in {wanted:?}")
            }
        }
    }
}

impl ProbeError {
    /// What a person can do about it: one sentence, or nothing where there is nothing to say.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            ProbeError::NotFound | ProbeError::NotAbsolute => return None,
            ProbeError::OtherMajor { .. } | ProbeError::WrongMajor { .. } => {
                "Install cuDNN 9, for example with `pip install nvidia-cudnn-cu12`.".into()
            }
            ProbeError::BrokenLink { .. } => {
                "Install this cuDNN again: the file that the link leads to is gone.".into()
            }
            ProbeError::SonameLinkMissing { file } => {
                let link = file.split_inclusive(".so.9").next().unwrap_or(file);
                let is_plain = file.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
                match is_plain {
                    true => format!(
                        "Make the links that a package would make, in that folder: `ln -s {file} {link}`, and so on."
                    ),
                    false => format!("Make the links that a package would make, in that folder: {link} to {file:?}."),
                }
            }
            ProbeError::Unreadable { error } if error.kind() == io::ErrorKind::PermissionDenied => {
                "Give the user that runs this program the right to read it.".into()
            }
            ProbeError::Unreadable { .. } => {
                "See to it that the file can be read: the system says why it cannot.".into()
            }
            ProbeError::NotRegularFile { .. } | ProbeError::NotElf { .. } => {
                "Put the real library in its place: this is no shared library.".into()
            }
            ProbeError::Truncated { .. } | ProbeError::Malformed { .. } => {
                "Install it again: the file is damaged, as after a broken download or a full disk.".into()
            }
            ProbeError::WrongArchitecture { wanted, .. } => format!("Install cuDNN for {wanted}."),
            ProbeError::WrongOs { wanted, .. } => format!("Install cuDNN for {wanted}."),
            ProbeError::WrongSoname { .. } => "Install cuDNN again: files of it have been renamed.".into(),
            ProbeError::TooOld { wanted, .. } => format!("Install cuDNN {wanted} or newer."),
            ProbeError::WrongCuda { wanted, .. } => format!("Install nvidia-cudnn-cu{wanted}."),
            ProbeError::MixedVersions { .. } | ProbeError::MixedCuda { .. } => {
                "Remove this folder's cuDNN and install one release anew: its files are of two.".into()
            }
            ProbeError::OtherLoaded { .. } | ProbeError::OtherRequested { .. } => {
                "Use one cuDNN in the process: ask for the same folder everywhere, before anything else loads one."
                    .into()
            }
        })
    }
}
