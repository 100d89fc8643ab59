//! Plans a convolution for a device that is described in JSON, through the loader or a shim, so that cuDNN's graph
//! library opens heuristics and engines without a GPU.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_loader::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t, cudnnConvolutionMode_t, cudnnDataType_t,
    cudnnStatus_t,
};

use crate::Shim;

type Result<T> = std::result::Result<T, cudnnStatus_t>;

/// Prints the number of configurations that the heuristics propose, or the status of the failed call.
pub(crate) fn plan(json: &str, shim: Option<&Shim>) {
    match (Cudnn { shim }).proposal_count(json) {
        Ok(count) => println!("plan = {count} configurations"),
        Err(status) => {
            println!("plan = {status:?}");
            crate::print_last_error(&crate::last_error(shim));
        }
    }
}

#[derive(Clone, Copy)]
struct Cudnn<'a> {
    shim: Option<&'a Shim>,
}

/// A descriptor that is never destroyed.
struct Descriptor<'a>(Cudnn<'a>, Raw);

impl<'a> Cudnn<'a> {
    fn function<F: Copy>(self, name: &str, of_loader: F) -> F {
        match self.shim {
            // SAFETY: both pointers have the type of cuDNN's function with this name.
            Some(shim) => unsafe { std::mem::transmute_copy(&shim.address(name)) },
            None => of_loader,
        }
    }

    fn descriptor(self, kind: Kind) -> Result<Descriptor<'a>> {
        let create = cudnn_loader::cudnnBackendCreateDescriptor as unsafe extern "C" fn(_, _) -> _;
        let mut raw: Raw = null_mut();
        // SAFETY: the output points to a local variable.
        let status: cudnnStatus_t =
            unsafe { self.function("cudnnBackendCreateDescriptor", create)(kind, &raw mut raw) };
        status.to_result().map(|()| Descriptor(self, raw))
    }

    fn tensor(self, uid: i64, [n, c, h, w]: [i64; 4]) -> Result<Descriptor<'a>> {
        self.descriptor(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[uid])?
            .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[cudnnDataType_t::CUDNN_DATA_HALF])?
            .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Type::CUDNN_TYPE_INT64, &[16i64])?
            .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &[n, c, h, w])?
            .set(Name::CUDNN_ATTR_TENSOR_STRIDES, Type::CUDNN_TYPE_INT64, &[c * h * w, 1, c * w, c])?
            .finalize()
    }

    fn proposal_count(self, json: &str) -> Result<i64> {
        let x = self.tensor(1, [8, 32, 16, 16])?;
        let w = self.tensor(2, [32, 32, 3, 3])?;
        let y = self.tensor(3, [8, 32, 16, 16])?;
        let ones = [1i64, 1];
        let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let float = cudnnDataType_t::CUDNN_DATA_FLOAT;
        let convolution = self
            .descriptor(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[float])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Type::CUDNN_TYPE_CONVOLUTION_MODE, &[mode])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, &[2i64])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Type::CUDNN_TYPE_INT64, &ones)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Type::CUDNN_TYPE_INT64, &ones)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Type::CUDNN_TYPE_INT64, &ones)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Type::CUDNN_TYPE_INT64, &ones)?
            .finalize()?;
        let operation = self
            .descriptor(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
            .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &x)?
            .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &w)?
            .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &y)?
            .part(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &convolution)?
            .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Type::CUDNN_TYPE_FLOAT, &[1f32])?
            .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, Type::CUDNN_TYPE_FLOAT, &[0f32])?
            .finalize()?;
        let graph = self
            .descriptor(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
            .part(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operation)?
            .finalize()?;
        let device = self
            .descriptor(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, json.as_bytes())?
            .finalize()?;
        let mode = cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A;
        let heuristics = self
            .descriptor(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
            .part(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph)?
            .part(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &device)?
            .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[mode])?
            .finalize()?;
        let get = cudnn_loader::cudnnBackendGetAttribute as unsafe extern "C" fn(_, _, _, _, _, _) -> _;
        let get = self.function("cudnnBackendGetAttribute", get);
        let (name, ty) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        let mut count = 0i64;
        // SAFETY: no element is requested, and the count points to a local variable.
        let status: cudnnStatus_t = unsafe { get(heuristics.1, name, ty, 0i64, &raw mut count, null_mut()) };
        status.to_result().map(|()| count)
    }
}

impl Descriptor<'_> {
    fn set<T>(self, name: Name, ty: Type, elements: &[T]) -> Result<Self> {
        let set = cudnn_loader::cudnnBackendSetAttribute as unsafe extern "C" fn(_, _, _, _, _) -> _;
        let set = self.0.function("cudnnBackendSetAttribute", set);
        let elements_at: *const c_void = elements.as_ptr().cast();
        // SAFETY: the descriptor is live, and the array holds this many elements of the attribute's type.
        let status: cudnnStatus_t = unsafe { set(self.1, name, ty, elements.len() as i64, elements_at) };
        status.to_result().map(|()| self)
    }

    fn part(self, name: Name, part: &Self) -> Result<Self> {
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[part.1])
    }

    fn finalize(self) -> Result<Self> {
        let finalize = cudnn_loader::cudnnBackendFinalize as unsafe extern "C" fn(_) -> _;
        // SAFETY: the descriptor is live.
        let status: cudnnStatus_t = unsafe { self.0.function("cudnnBackendFinalize", finalize)(self.1) };
        status.to_result().map(|()| self)
    }
}
