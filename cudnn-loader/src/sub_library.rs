//! Lists the five sub-libraries that export public functions.

use std::fmt;

use cudnn_probe::Library;

/// A sub-library of cuDNN 9 with a public API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SubLibrary {
    /// `libcudnn_graph.so.9`: handles, the backend API, errors and logging.
    Graph,
    /// `libcudnn_ops.so.9`: tensors and simple operations.
    Ops,
    /// `libcudnn_cnn.so.9`: the convolution API of cuDNN 8.
    Cnn,
    /// `libcudnn_adv.so.9`: recurrent networks, attention, CTC loss.
    Adv,
    /// `libcudnn_ext.so.9`: subquadratic and graph-network operations, since 9.22.0.
    Ext,
}

impl SubLibrary {
    /// All sub-libraries.
    pub const ALL: &[SubLibrary] =
        &[SubLibrary::Graph, SubLibrary::Ops, SubLibrary::Cnn, SubLibrary::Adv, SubLibrary::Ext];

    /// Returns `cudnn-probe`'s identifier for this library.
    #[must_use]
    pub const fn library(self) -> Library {
        match self {
            SubLibrary::Graph => Library::Graph,
            SubLibrary::Ops => Library::Ops,
            SubLibrary::Cnn => Library::Cnn,
            SubLibrary::Adv => Library::Adv,
            SubLibrary::Ext => Library::Ext,
        }
    }

    /// Returns the file name, for example `libcudnn_graph.so.9`.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        self.library().file_name()
    }
}

impl fmt::Display for SubLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}
