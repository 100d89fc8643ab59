//! The libraries of cuDNN 9: file names, version symbols, dependencies.

use crate::facts::PathFacts;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::platform::Os;
use crate::version::Version;

#[cfg(feature = "serde")]
crate::portable!(Library);

/// One library of cuDNN 9. Displayed as its file name on the system that this program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Library {
    /// `libcudnn.so.9`: NVIDIA's shim, or the drop-in. It only forwards calls to the other libraries.
    Shim,
    /// `libcudnn_graph.so.9`: handles, the backend API, errors and logging. The others depend on it.
    Graph,
    /// `libcudnn_ops.so.9`: tensors and simple operations.
    Ops,
    /// `libcudnn_cnn.so.9`: the convolution API of cuDNN 8.
    Cnn,
    /// `libcudnn_adv.so.9`: recurrent networks, attention, CTC loss.
    Adv,
    /// `libcudnn_ext.so.9`: subquadratic and graph-network operations. Since 9.22.
    Ext,
    /// `libcudnn_heuristic.so.9`: graph loads it by name (`dlopen`).
    Heuristic,
    /// `libcudnn_engines_precompiled.so.9`: graph loads it by name.
    EnginesPrecompiled,
    /// `libcudnn_engines_runtime_compiled.so.9`: graph loads it by name.
    EnginesRuntimeCompiled,
    /// `libcudnn_engines_tensor_ir.so.9`: graph loads it by name. Since 9.21.
    EnginesTensorIr,
}

impl Library {
    /// All libraries: the shim, the five sub-libraries with a public API, then those that graph loads itself.
    pub const ALL: &[Library] = &[
        Library::Shim,
        Library::Graph,
        Library::Ops,
        Library::Cnn,
        Library::Adv,
        Library::Ext,
        Library::Heuristic,
        Library::EnginesPrecompiled,
        Library::EnginesRuntimeCompiled,
        Library::EnginesTensorIr,
    ];

    /// The libraries that `libcudnn_graph.so.9` loads by bare name (`dlopen`), so that ld.so decides which file it
    /// gets.
    pub const OPENED_BY_GRAPH: &[Library] =
        &[Library::Heuristic, Library::EnginesPrecompiled, Library::EnginesRuntimeCompiled, Library::EnginesTensorIr];

    /// The file name on the system that this program is compiled for ([`Os::HOST`]): `libcudnn_graph.so.9` or
    /// `cudnn_graph64_9.dll`.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        self.name_on(Os::HOST)
    }

    /// The file name on Linux, which is also the SONAME: `libcudnn_graph.so.9`.
    #[must_use]
    pub const fn linux_name(self) -> &'static str {
        match self {
            Library::Shim => "libcudnn.so.9",
            Library::Graph => "libcudnn_graph.so.9",
            Library::Ops => "libcudnn_ops.so.9",
            Library::Cnn => "libcudnn_cnn.so.9",
            Library::Adv => "libcudnn_adv.so.9",
            Library::Ext => "libcudnn_ext.so.9",
            Library::Heuristic => "libcudnn_heuristic.so.9",
            Library::EnginesPrecompiled => "libcudnn_engines_precompiled.so.9",
            Library::EnginesRuntimeCompiled => "libcudnn_engines_runtime_compiled.so.9",
            Library::EnginesTensorIr => "libcudnn_engines_tensor_ir.so.9",
        }
    }

    /// The file name on Windows: `cudnn_graph64_9.dll`.
    #[must_use]
    pub const fn windows_name(self) -> &'static str {
        match self {
            Library::Shim => "cudnn64_9.dll",
            Library::Graph => "cudnn_graph64_9.dll",
            Library::Ops => "cudnn_ops64_9.dll",
            Library::Cnn => "cudnn_cnn64_9.dll",
            Library::Adv => "cudnn_adv64_9.dll",
            Library::Ext => "cudnn_ext64_9.dll",
            Library::Heuristic => "cudnn_heuristic64_9.dll",
            Library::EnginesPrecompiled => "cudnn_engines_precompiled64_9.dll",
            Library::EnginesRuntimeCompiled => "cudnn_engines_runtime_compiled64_9.dll",
            Library::EnginesTensorIr => "cudnn_engines_tensor_ir64_9.dll",
        }
    }

    /// The file name on this operating system.
    #[must_use]
    pub const fn name_on(self, os: Os) -> &'static str {
        match os {
            Os::Linux => self.linux_name(),
            Os::Windows => self.windows_name(),
        }
    }

    /// The names that cuDNN passes to `dlopen` on Linux for this library, one after the other: the full name first. The version
    /// is that of the library that calls `dlopen`.
    #[must_use]
    pub fn dlopen_names(self, version: Version) -> [String; 4] {
        let (name, Version { minor, patch, .. }) = (self.linux_name(), version);
        let without_major = name.strip_suffix(".9").unwrap_or(name).to_owned();
        [format!("{name}.{minor}.{patch}"), format!("{name}.{minor}"), name.to_owned(), without_major]
    }

    /// The library with this file name, on any operating system.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Library> {
        Library::ALL.iter().copied().find(|library| name == library.linux_name() || name == library.windows_name())
    }

    /// The data symbol with this library's version, if it has one. Its four bytes are patch, minor, major, 0: see
    /// [`Version::from_symbol`].
    #[must_use]
    pub const fn version_symbol(self) -> Option<&'static str> {
        match self {
            Library::Graph => Some("cudnn_graph_version"),
            Library::Ops => Some("cudnn_ops_infer_version"),
            Library::Adv => Some("cudnn_adv_infer_version"),
            _ => None,
        }
    }

    /// The libraries of cuDNN that this one depends on (`DT_NEEDED`), in the order in which to load them.
    #[must_use]
    pub const fn dependencies(self) -> &'static [Library] {
        match self {
            Library::Shim | Library::Graph | Library::Ext => &[],
            Library::Cnn | Library::Adv => &[Library::Graph, Library::Ops],
            _ => &[Library::Graph],
        }
    }
}

/// The shim of cuDNN 8 or 7 in a directory, and its major version.
#[must_use]
pub fn older_shim(dir: &Path, os: Os) -> Option<(u32, PathBuf)> {
    let name = |major: u32| match os {
        Os::Linux => format!("libcudnn.so.{major}"),
        Os::Windows => format!("cudnn64_{major}.dll"),
    };
    let shims = [8, 7].map(|major| (major, dir.join(name(major))));
    shims.into_iter().find(|(_, shim)| shim.target_exists())
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}
