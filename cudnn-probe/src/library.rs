//! Lists the libraries of cuDNN 9 with file names, version symbols and dependencies.

use crate::facts::PathFacts;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::platform::Os;
use crate::version::Version;

#[cfg(feature = "serde")]
crate::portable!(Library);

/// A library of cuDNN 9. It is displayed as the file name on the current system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Library {
    /// `libcudnn.so.9`: the shim of NVIDIA, or the drop-in. It only forwards calls to the other libraries.
    Shim,
    /// `libcudnn_graph.so.9`: handles, the backend API, errors and logging. The other libraries depend on it.
    Graph,
    /// `libcudnn_ops.so.9`: tensors and simple operations.
    Ops,
    /// `libcudnn_cnn.so.9`: the convolution API of cuDNN 8.
    Cnn,
    /// `libcudnn_adv.so.9`: recurrent networks, attention, and CTC loss.
    Adv,
    /// `libcudnn_ext.so.9`: subquadratic and graph-network operations. Available since 9.22.
    Ext,
    /// `libcudnn_heuristic.so.9`, which the graph library loads by name (`dlopen`).
    Heuristic,
    /// `libcudnn_engines_precompiled.so.9`, which the graph library loads by name.
    EnginesPrecompiled,
    /// `libcudnn_engines_runtime_compiled.so.9`, which the graph library loads by name.
    EnginesRuntimeCompiled,
    /// `libcudnn_engines_tensor_ir.so.9`, which the graph library loads by name. Available since 9.21.
    EnginesTensorIr,
}

impl Library {
    /// All libraries: the shim, the five sub-libraries with a public API, then those that the graph library loads
    /// itself.
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

    /// The libraries with a public API, whose functions programs call.
    pub const WITH_API: &[Library] = &[Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];

    /// The libraries that `libcudnn_graph.so.9` opens by bare name (`dlopen`), which makes ld.so choose the file.
    pub const OPENED_BY_GRAPH: &[Library] =
        &[Library::Heuristic, Library::EnginesPrecompiled, Library::EnginesRuntimeCompiled, Library::EnginesTensorIr];

    /// Returns the file name on the current system ([`Os::HOST`]), such as `libcudnn_graph.so.9` or
    /// `cudnn_graph64_9.dll`.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        self.name_on(Os::HOST)
    }

    /// Returns the file name on Linux, which is also the SONAME, such as `libcudnn_graph.so.9`.
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

    /// Returns the file name on Windows, such as `cudnn_graph64_9.dll`.
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

    /// Returns the file name on this operating system.
    #[must_use]
    pub const fn name_on(self, os: Os) -> &'static str {
        match os {
            Os::Linux => self.linux_name(),
            Os::Windows => self.windows_name(),
        }
    }

    /// Returns the names that cuDNN passes to `dlopen` on Linux for this library, in order, starting with the full
    /// name. The version is the version of the calling library.
    #[must_use]
    pub fn dlopen_names(self, version: Version) -> [String; 4] {
        let (name, Version { minor, patch, .. }) = (self.linux_name(), version);
        let without_major = name.strip_suffix(".9").unwrap_or(name).to_owned();
        [format!("{name}.{minor}.{patch}"), format!("{name}.{minor}"), name.to_owned(), without_major]
    }

    /// Returns the library with this file name on any operating system.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Library> {
        Library::ALL.iter().copied().find(|library| name == library.linux_name() || name == library.windows_name())
    }

    /// Returns the name of the data symbol that contains the version of this library, if there is one. The four bytes
    /// are patch, minor, major and 0, see [`Version::from_symbol`].
    #[must_use]
    pub const fn version_symbol(self) -> Option<&'static str> {
        match self {
            Library::Graph => Some("cudnn_graph_version"),
            Library::Ops => Some("cudnn_ops_infer_version"),
            Library::Adv => Some("cudnn_adv_infer_version"),
            _ => None,
        }
    }

    /// Returns the cuDNN libraries that this one depends on (`DT_NEEDED`), in loading order.
    #[must_use]
    pub const fn dependencies(self) -> &'static [Library] {
        match self {
            Library::Shim | Library::Graph | Library::Ext => &[],
            Library::Cnn | Library::Adv => &[Library::Graph, Library::Ops],
            _ => &[Library::Graph],
        }
    }
}

/// Returns the shim of cuDNN 8 or 7 in a directory, together with the major version.
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
