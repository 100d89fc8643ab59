//! The five sub-libraries that hold cuDNN's public functions.

use std::ffi::{CStr, c_void};
use std::fmt;

use cudnn_probe::Library;

use crate::{LoadError, LoadedLibrary, loading, log};

/// A sub-library of cuDNN 9 with a public API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// All five.
    pub const ALL: &[SubLibrary] =
        &[SubLibrary::Graph, SubLibrary::Ops, SubLibrary::Cnn, SubLibrary::Adv, SubLibrary::Ext];

    /// The file that it is.
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

    /// Its file's name: `libcudnn_graph.so.9`.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        self.library().file_name()
    }

    /// What was loaded, if it has been: from where, and how long it took. Loads nothing.
    #[must_use]
    pub fn loaded(self) -> Option<&'static LoadedLibrary> {
        loading::loaded(self)
    }

    /// Loads it now, if it has not been loaded, and tries again what has failed before.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub fn load(self) -> Result<&'static LoadedLibrary, LoadError> {
        loading::clear_failure(self);
        let opened = loading::load_sub_library(self);
        log::flush();
        opened
    }

    /// The address of a function or datum of the library, also of one that these bindings do not know: what a newer cuDNN
    /// has, or no header declares. Loads the library.
    ///
    /// # Errors
    /// Why the library cannot be loaded, or that it has no such name.
    pub fn symbol(self, name: &CStr) -> Result<*const c_void, LoadError> {
        let address = loading::symbol(self, name);
        log::flush();
        address
    }
}

impl fmt::Display for SubLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}
