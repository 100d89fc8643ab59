//! The files that a cuDNN 9 consists of, and their names.

use std::fmt;

use crate::{Os, Version};

/// One library of cuDNN 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Library {
    /// `libcudnn.so.9`: NVIDIA's shim, or a drop-in for it. It holds no code of cuDNN's.
    Shim,
    /// `libcudnn_graph.so.9`: handles, the backend API, errors and logging. All others need it.
    Graph,
    /// `libcudnn_ops.so.9`: tensors and simple operations.
    Ops,
    /// `libcudnn_cnn.so.9`: the convolution API of cuDNN 8.
    Cnn,
    /// `libcudnn_adv.so.9`: recurrent networks, attention, CTC loss.
    Adv,
    /// `libcudnn_ext.so.9`: subquadratic and graph-network operations; not in older releases.
    Ext,
    /// `libcudnn_heuristic.so.9`: graph opens it by name.
    Heuristic,
    /// `libcudnn_engines_precompiled.so.9`: graph opens it by name.
    EnginesPrecompiled,
    /// `libcudnn_engines_runtime_compiled.so.9`: graph opens it by name.
    EnginesRuntimeCompiled,
    /// `libcudnn_engines_tensor_ir.so.9`: graph opens it by name; not in older releases.
    EnginesTensorIr,
}

impl Library {
    /// All of them: the shim, the five sub-libraries with a public API, then those that graph opens.
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

    /// Those that `libcudnn_graph.so.9` opens by bare name, so that the dynamic linker decides which file it gets.
    pub const OPENED_BY_GRAPH: &[Library] =
        &[Library::Heuristic, Library::EnginesPrecompiled, Library::EnginesRuntimeCompiled, Library::EnginesTensorIr];

    /// The file's name, which is its soname: `libcudnn_graph.so.9`.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
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

    /// The file's name on Windows, where it is 64-bit: `cudnn_graph64_9.dll`.
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

    /// The file's name on a system.
    #[must_use]
    pub const fn name_on(self, system: Os) -> &'static str {
        match system {
            Os::Linux => self.file_name(),
            Os::Windows => self.windows_name(),
        }
    }

    /// The names under which cuDNN asks the dynamic linker for this library, one after the other, when it opens it at run
    /// time: the full name first. The version is that of the library which asks.
    #[must_use]
    pub fn dlopen_names(self, version: Version) -> [String; 4] {
        let (name, Version { minor, patch, .. }) = (self.file_name(), version);
        let without_major = name.strip_suffix(".9").unwrap_or(name).to_owned();
        [format!("{name}.{minor}.{patch}"), format!("{name}.{minor}"), name.to_owned(), without_major]
    }

    /// The library of this file name, on any system.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Library> {
        Library::ALL.iter().copied().find(|library| name == library.file_name() || name == library.windows_name())
    }

    /// The data symbol that holds this library's version, for those that have one. Its four bytes are patch, minor,
    /// major, 0.
    #[must_use]
    pub const fn version_symbol(self) -> Option<&'static str> {
        match self {
            Library::Graph => Some("cudnn_graph_version"),
            Library::Ops => Some("cudnn_ops_infer_version"),
            Library::Adv => Some("cudnn_adv_infer_version"),
            _ => None,
        }
    }

    /// The libraries of cuDNN that the dynamic linker loads along with this one, in the order in which to load them.
    #[must_use]
    pub const fn dependencies(self) -> &'static [Library] {
        match self {
            Library::Shim | Library::Graph | Library::Ext => &[],
            Library::Cnn | Library::Adv => &[Library::Graph, Library::Ops],
            _ => &[Library::Graph],
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}
