//! Gives advice about errors of the probe and the loader. The errors themselves already name the problem and the files.

use std::io;

use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR, Os, ProbeError, shown_path};

mod dll;
mod load;

use crate::packages::quoted;
use crate::platform::is_too_many_open_files;
use crate::shell::SEARCH_PATH;
pub(crate) use dll::missing_dll;

/// The Linux error code for too many symbolic links.
const ELOOP: i32 = 40;

/// An error that the user can fix.
pub(crate) trait Advice {
    /// Returns what to do, in one or two sentences, or `None` if no action is needed, as for a directory without cuDNN.
    fn advice(&self) -> Option<String>;
}

impl Advice for ProbeError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            ProbeError::GraphMissing { found_in: Some(dir) } => format!("Use {} instead.", shown_path(dir)),
            ProbeError::OtherMajor { .. } | ProbeError::WrongMajor { .. } => {
                format!("Install cuDNN 9{}.", example_of_installing(DEFAULT_CUDA_MAJOR))
            }
            ProbeError::SonameLinkMissing { .. } => "In that directory, create the symlinks: \
                 `for f in libcudnn*.so.9.*; do [ -e ${f%.*.*} ] || ln -s $f ${f%.*.*}; done`."
                .into(),
            ProbeError::Unreadable { error } if error.kind() == io::ErrorKind::PermissionDenied => {
                "Give the user that runs this program permission to read it.".into()
            }
            ProbeError::Unreadable { error } if error.raw_os_error() == Some(ELOOP) => {
                reinstall("its symbolic links lead in a circle")
            }
            error if is_too_many_open_files(error) => {
                "Allow the program more open files (`ulimit -n`), or have it close some.".into()
            }
            ProbeError::Unreadable { .. } => "Make the file readable (see the OS error above).".into(),
            ProbeError::BrokenLink { .. } => reinstall("the file that the link leads to is missing"),
            ProbeError::NotRegularFile { .. } | ProbeError::NotElf { .. } => reinstall("this is not a shared library"),
            ProbeError::Truncated { .. } | ProbeError::Malformed { .. } => {
                reinstall("the file is damaged, for example by an interrupted download or a full disk")
            }
            ProbeError::WrongSoname { .. } => reinstall("files of it were renamed"),
            ProbeError::WrongArchitecture { wanted, .. } => format!("Install cuDNN for {wanted}."),
            ProbeError::WrongOs { wanted, .. } => format!("Install cuDNN for {wanted}."),
            ProbeError::NotInRelease { .. } => "Delete this file; nothing in the installation uses it.".into(),
            ProbeError::TooOld { wanted, .. } => format!("Install cuDNN {wanted} or newer."),
            ProbeError::WrongCuda { wanted, .. } => {
                format!("Uninstall this cuDNN, then install one for CUDA {wanted}{}.", example_of_installing(*wanted))
            }
            ProbeError::MixedVersions { .. } | ProbeError::MixedCuda { .. } | ProbeError::OtherRelease { .. } => {
                "Remove this cuDNN and install one release: its files come from two releases, as happens when one \
                 package is installed over another."
                    .into()
            }
            ProbeError::OtherInstallation { .. } => format!(
                "Remove its directory from {SEARCH_PATH}, or install the full cuDNN, which contains this library, in \
                 place of the JIT-only or partial one."
            ),
            ProbeError::UnusableLibrary { error, .. } => return error.advice(),
            // No action is needed, or the loader gives the advice.
            _ => return None,
        })
    }
}

/// Returns `, for example with ...`: a command that installs cuDNN if the installer is unknown. The command also
/// upgrades a wheel of cuDNN 8.
fn example_of_installing(cuda_major: u32) -> String {
    let wheel = Component::Cudnn.wheel(cuda_major);
    let pip = if Os::HOST == Os::Windows { "python -m pip" } else { "pip" };
    format!(", for example with `{pip} install {}`", quoted(format!("{wheel}>=9")))
}

fn reinstall(reason: &str) -> String {
    format!("Reinstall this cuDNN: {reason}.")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_with_advice() {
        let unreadable = |kind: io::ErrorKind| ProbeError::Unreadable { error: kind.into() };
        let of_system = |code: i32| ProbeError::Unreadable { error: io::Error::from_raw_os_error(code) };
        let damaged = || ProbeError::Malformed { reason: "it has no DT_SONAME".into() };
        for (error, advice) in [
            (ProbeError::NotElf { starts_with: Vec::new() }, "Reinstall this cuDNN: this is not a shared"),
            (unreadable(io::ErrorKind::PermissionDenied), "Give the user"),
            (unreadable(io::ErrorKind::StorageFull), "Make the file readable"),
            (of_system(ELOOP), "Reinstall this cuDNN: its symbolic links lead in a circle"),
            (of_system(if Os::HOST == Os::Windows { 4 } else { 24 }), "Allow the program more open files"),
            (ProbeError::OtherMajor { major: 8 }, "pip install"),
            (
                ProbeError::WrongCuda { found: 12, wanted: 13 },
                match Os::HOST {
                    Os::Windows => "example with `python -m pip install \"nvidia-cudnn-cu13>=9\"`",
                    _ => "one for CUDA 13, for example with `pip install 'nvidia-cudnn-cu13>=9'`",
                },
            ),
            (
                ProbeError::UnusableLibrary { library: cudnn_probe::Library::Ops, error: Box::new(damaged()) },
                "Reinstall this cuDNN: the file is damaged",
            ),
            (ProbeError::SonameLinkMissing { file: "libcudnn_graph.so.9.10.2".into() }, "ln -s $f ${f%.*.*}"),
            (ProbeError::GraphMissing { found_in: Some("/opt/cudnn/lib".into()) }, "Use \"/opt/cudnn/lib\" instead."),
        ] {
            assert!(error.advice().unwrap().contains(advice), "{:?}", error.advice());
        }
        assert_eq!(ProbeError::NotDirectory.advice(), None);
    }
}
