//! Lists the modules of `cudnn-sys` and the headers that belong to them.

/// A module of `cudnn-sys`: one for the CUDA types, and one for each sub-library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Module {
    Cuda,
    Graph,
    Ops,
    Cnn,
    Adv,
    Ext,
}

impl Module {
    pub(crate) const ALL: [Module; 6] =
        [Module::Cuda, Module::Graph, Module::Ops, Module::Cnn, Module::Adv, Module::Ext];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Module::Cuda => "cuda",
            Module::Graph => "graph",
            Module::Ops => "ops",
            Module::Cnn => "cnn",
            Module::Adv => "adv",
            Module::Ext => "ext",
        }
    }

    /// Returns the headers of this module without `.h`. The umbrella header includes them.
    pub(crate) fn headers(self) -> &'static [&'static str] {
        match self {
            Module::Cuda => &["cuda_runtime_api", "library_types"],
            Module::Graph => &["cudnn_version", "cudnn_graph", "cudnn_backend"],
            Module::Ops => &["cudnn_ops"],
            Module::Cnn => &["cudnn_cnn"],
            Module::Adv => &["cudnn_adv"],
            Module::Ext => &["cudnn_subquadratic_ops", "cudnn_gnn_ops"],
        }
    }
}
