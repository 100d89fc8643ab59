//! cuDNN's backend descriptors, held safely enough for the demo: made, set, finalised, and destroyed when dropped.

use std::fmt;

use cudnn_loader::{
    self as cudnn, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind, cudnnDataType_t, cudnnStatus_t,
};

use super::{HELP, last_error};

/// A backend descriptor.
pub(crate) struct Descriptor(Raw);

/// A backend call that failed.
#[derive(Debug)]
pub(crate) struct Error {
    doing: String,
    pub(crate) status: cudnnStatus_t,
    said: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} gave {:?}: {}\n{HELP}", self.doing, self.status, self.said)
    }
}

impl std::error::Error for Error {}

/// A status as a result, with cuDNN's own words fetched at once, on the thread that they belong to.
pub(crate) fn check(status: cudnnStatus_t, doing: impl FnOnce() -> String) -> Result<(), Error> {
    status.to_result().map_err(|status| Error { doing: doing(), status, said: last_error() })
}

/// A type that an attribute's elements may have.
pub(crate) trait Element: Copy {
    /// What cuDNN calls it.
    const TYPE: Type;
}

macro_rules! elements {
    ($($rust:ty: $name:ident,)*) => { $( impl Element for $rust { const TYPE: Type = Type::$name; } )* };
}
elements! {
    i64: CUDNN_TYPE_INT64,
    f32: CUDNN_TYPE_FLOAT,
    cudnnDataType_t: CUDNN_TYPE_DATA_TYPE,
    cudnn::cudnnConvolutionMode_t: CUDNN_TYPE_CONVOLUTION_MODE,
    cudnn::cudnnBackendHeurMode_t: CUDNN_TYPE_HEUR_MODE,
    cudnn::cudnnHandle_t: CUDNN_TYPE_HANDLE,
    Raw: CUDNN_TYPE_BACKEND_DESCRIPTOR,
    *const std::ffi::c_void: CUDNN_TYPE_VOID_PTR,
}

impl Descriptor {
    pub(crate) fn new(kind: Kind) -> Result<Self, Error> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: cuDNN writes a new descriptor to where it is told.
        let status = unsafe { cudnn::cudnnBackendCreateDescriptor(kind, &mut raw) };
        check(status, || format!("creating {kind:?}"))?;
        Ok(Descriptor(raw))
    }

    /// Sets an attribute to these elements.
    pub(crate) fn set<T: Element>(self, name: Name, elements: &[T]) -> Result<Self, Error> {
        let count = i64::try_from(elements.len()).unwrap_or(i64::MAX);
        // SAFETY: the descriptor is live, and the elements are of the type that is said.
        let status = unsafe { cudnn::cudnnBackendSetAttribute(self.0, name, T::TYPE, count, elements.as_ptr().cast()) };
        check(status, || format!("setting {name:?}"))?;
        Ok(self)
    }

    pub(crate) fn finalize(self) -> Result<Self, Error> {
        // SAFETY: the descriptor is live.
        let status = unsafe { cudnn::cudnnBackendFinalize(self.0) };
        check(status, || "finalising a descriptor".into())?;
        Ok(self)
    }

    /// One 64-bit number.
    pub(crate) fn number(&self, name: Name) -> Result<i64, Error> {
        let (mut value, mut count) = (0i64, 0i64);
        // SAFETY: there is room for one element of the type that is said.
        let status =
            unsafe { cudnn::cudnnBackendGetAttribute(self.0, name, i64::TYPE, 1, &mut count, (&raw mut value).cast()) };
        check(status, || format!("reading {name:?}"))?;
        Ok(value)
    }

    /// How many elements an attribute has.
    pub(crate) fn count(&self, name: Name, of: Type) -> Result<usize, Error> {
        let mut count = 0i64;
        // SAFETY: nothing but the count is asked for.
        let status = unsafe { cudnn::cudnnBackendGetAttribute(self.0, name, of, 0, &mut count, std::ptr::null_mut()) };
        check(status, || format!("counting {name:?}"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Has cuDNN fill these descriptors from an attribute; gives how many it filled.
    pub(crate) fn fill(&self, name: Name, into: &[Descriptor]) -> Result<usize, Error> {
        let mut raw: Vec<Raw> = into.iter().map(Descriptor::raw).collect();
        let (room, mut count) = (i64::try_from(raw.len()).unwrap_or(i64::MAX), 0i64);
        // SAFETY: each element is a live descriptor of the kind that the attribute has, and there are as many as said.
        let status = unsafe {
            cudnn::cudnnBackendGetAttribute(self.0, name, Raw::TYPE, room, &mut count, raw.as_mut_ptr().cast())
        };
        check(status, || format!("reading {name:?}"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(crate) fn raw(&self) -> Raw {
        self.0
    }

    /// A half-precision tensor, finalised.
    pub(crate) fn tensor(uid: i64, dims: &[i64], strides: &[i64]) -> Result<Self, Error> {
        Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid])?
            .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[cudnnDataType_t::CUDNN_DATA_HALF])?
            .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?
            .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, dims)?
            .set(Name::CUDNN_ATTR_TENSOR_STRIDES, strides)?
            .finalize()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live, and nobody uses it after this. A failure has no consequence but a leak.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(self.0) };
    }
}
