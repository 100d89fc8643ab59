//! Classifies the functions outside the backend API and their parameters.

use cudnn_store::captures::is_search;
use once_cell::race::OnceBox;

use super::descriptors;
use crate::wrappers::{Id, Parameter, starts_work};

pub(super) struct Function {
    pub(super) role: Role,
    pub(super) parameters: Vec<ParameterKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    NotFollowed,
    /// It starts work on the device, or searches for an algorithm.
    Recorded,
    Creates,
    Destroys,
    /// It may change descriptors.
    Changes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterKind {
    Handle,
    Descriptor(&'static str),
    /// The address of a scaling factor in host memory.
    Scalar,
    Other,
}

static FUNCTIONS: OnceBox<Vec<Function>> = OnceBox::new();

pub(super) fn classify() {
    let _ = FUNCTIONS.set(Box::new(Id::ALL.iter().copied().map(classified).collect()));
}

pub(super) fn function(function: Id) -> Option<&'static Function> {
    FUNCTIONS.get()?.get(function as usize)
}

fn classified(function: Id) -> Function {
    let parameters: Vec<ParameterKind> = function.parameters().iter().map(kind).collect();
    let is_descriptor = |kind: &ParameterKind| matches!(kind, ParameterKind::Descriptor(_));
    let (has_descriptor, name) = (parameters.iter().any(is_descriptor), function.name());
    let is_first = parameters.first().is_some_and(is_descriptor);
    let role = if name.starts_with("cudnnBackend") {
        Role::NotFollowed
    } else if starts_work(function) || is_search(name) {
        Role::Recorded
    } else if is_first && name.starts_with("cudnnCreate") {
        Role::Creates
    } else if is_first && name.starts_with("cudnnDestroy") {
        Role::Destroys
    } else if has_descriptor && !name.starts_with("cudnnGet") {
        Role::Changes
    } else {
        Role::NotFollowed
    };
    Function { role, parameters }
}

fn kind(parameter: &Parameter) -> ParameterKind {
    // The name of the type without pointers and path.
    let type_name = parameter.rust_type.rsplit([':', ' ']).next().unwrap_or_default();
    let is_factor = parameter.name.starts_with("alpha") || parameter.name.starts_with("beta");
    if type_name == "cudnnHandle_t" {
        ParameterKind::Handle
    } else if descriptors::is_readable(type_name) {
        ParameterKind::Descriptor(type_name)
    } else if is_factor && parameter.rust_type.contains("c_void") {
        ParameterKind::Scalar
    } else {
        ParameterKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_work_or_search_are_recorded_and_those_that_change_descriptors_followed() {
        classify();
        let role = |name: &str| function(Id::from_name(name.as_bytes()).unwrap()).unwrap().role;
        for (name, expected) in [
            ("cudnnConvolutionForward", Role::Recorded),
            ("cudnnBatchNormalizationForwardTrainingEx", Role::Recorded),
            ("cudnnFindConvolutionForwardAlgorithm", Role::Recorded),
            ("cudnnGetConvolutionForwardAlgorithm_v7", Role::Recorded),
            ("cudnnGetConvolutionGroupCount", Role::NotFollowed),
            ("cudnnCreateTensorDescriptor", Role::Creates),
            ("cudnnDestroyFilterDescriptor", Role::Destroys),
            ("cudnnSetTensor4dDescriptor", Role::Changes),
            ("cudnnSetConvolutionGroupCount", Role::Changes),
            ("cudnnDeriveBNTensorDescriptor", Role::Changes),
            ("cudnnRestoreDropoutDescriptor", Role::Changes),
            ("cudnnGetTensor4dDescriptor", Role::NotFollowed),
            ("cudnnBackendExecute", Role::NotFollowed),
            ("cudnnCreate", Role::NotFollowed),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
        let parameters = &function(Id::CudnnActivationForward).unwrap().parameters;
        let tensor = ParameterKind::Descriptor("cudnnTensorDescriptor_t");
        let activation = ParameterKind::Descriptor("cudnnActivationDescriptor_t");
        let (scalar, other) = (ParameterKind::Scalar, ParameterKind::Other);
        assert_eq!(*parameters, [ParameterKind::Handle, activation, scalar, tensor, other, scalar, tensor, other]);
    }
}
