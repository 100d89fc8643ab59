//! Provides the wrappers of `cudnn-layer-api` under shorter names, and classifies the functions.

pub(crate) use cudnn_layer_api::wrappers::{
    Call, Function as Id, Intercept, Next, Parameter, Returned, Value, intercept,
};

/// Returns whether the function has a handle or a stream and starts work on the device, which cuDNN's names show.
pub(crate) fn starts_work(function: Id) -> bool {
    const WORK: [&str; 18] = [
        "AddTensor",
        "Apply",
        "Backward",
        "CTCLoss",
        "Conv1d",
        "Execute",
        "Forward",
        "Gnn",
        "Im2Col",
        "OpTensor",
        "ReduceTensor",
        "ReorderFilter",
        "ScaleTensor",
        "SetTensor",
        "SpatialTf",
        "Subquadratic",
        "TransformFilter",
        "TransformTensor",
    ];
    const NO_WORK: [&str; 6] = ["Create", "Descriptor", "Find", "Get", "Make", "Size"];
    let runs_on = ["cudnnHandle_t", "cudaStream_t"];
    let has_stream = function.parameters().iter().any(|it| runs_on.iter().any(|name| it.rust_type.ends_with(name)));
    let name = function.name();
    has_stream && WORK.iter().any(|word| name.contains(word)) && !NO_WORK.iter().any(|word| name.contains(word))
}
