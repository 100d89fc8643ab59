//! A backend descriptor: made, given its attributes, finalised, and destroyed when dropped.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::cudnn::{
    self, Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind,
};

/// A backend descriptor. What refers to another one when it is finalised keeps what it needs of it, so that one may be dropped.
pub(crate) struct Descriptor(Raw);

/// What an attribute's elements may be. Setting one with another type than its own is the mistake that is made most:
/// here the type follows from the elements.
///
/// # Safety
/// The type is laid out as cuDNN expects elements of `TYPE`.
pub(crate) unsafe trait Element: Copy {
    /// As cuDNN calls it.
    const TYPE: Type;
}

macro_rules! elements {
    ($($rust:ty: $name:ident,)*) => { $(
        // SAFETY: of this type by cuDNN's documentation.
        unsafe impl Element for $rust { const TYPE: Type = Type::$name; }
    )* };
}
elements! {
    // Every number that counts something, also one that could never be large: dimensions, strides, ids, indices.
    i64: CUDNN_TYPE_INT64,
    i32: CUDNN_TYPE_INT32,
    f32: CUDNN_TYPE_FLOAT,
    f64: CUDNN_TYPE_DOUBLE,
    bool: CUDNN_TYPE_BOOLEAN,
    u8: CUDNN_TYPE_CHAR,
    *const c_void: CUDNN_TYPE_VOID_PTR,
    Raw: CUDNN_TYPE_BACKEND_DESCRIPTOR,
    cudnn::cudnnHandle_t: CUDNN_TYPE_HANDLE,
    cudnn::cudnnDataType_t: CUDNN_TYPE_DATA_TYPE,
    cudnn::cudnnConvolutionMode_t: CUDNN_TYPE_CONVOLUTION_MODE,
    cudnn::cudnnPointwiseMode_t: CUDNN_TYPE_POINTWISE_MODE,
    cudnn::cudnnBackendHeurMode_t: CUDNN_TYPE_HEUR_MODE,
    cudnn::cudnnBackendKnobType_t: CUDNN_TYPE_KNOB_TYPE,
    cudnn::cudnnBackendNumericalNote_t: CUDNN_TYPE_NUMERICAL_NOTE,
    cudnn::cudnnBackendBehaviorNote_t: CUDNN_TYPE_BEHAVIOR_NOTE,
}

impl Descriptor {
    pub(crate) fn new(kind: Kind) -> Result<Self, Error> {
        let mut raw = null_mut();
        // SAFETY: there is a place for the descriptor.
        unsafe { check!(cudnn::cudnnBackendCreateDescriptor(kind, &raw mut raw)) }?;
        Ok(Descriptor(raw))
    }

    /// Sets an attribute to these elements: type and number are the elements' own.
    pub(crate) fn set<T: Element>(self, name: Name, elements: &[T]) -> Result<Self, Error> {
        let (count, address) = (elements.len() as i64, elements.as_ptr().cast());
        // SAFETY: the descriptor is live, and the elements are as many as is said, of the type that is said.
        unsafe { check!(cudnn::cudnnBackendSetAttribute(self.0, name, T::TYPE, count, address)) }?;
        Ok(self)
    }

    /// Sets an attribute to elements of whatever type and number one says they are: to be wrong on purpose.
    ///
    /// # Safety
    /// There are so many elements at the address, each as long as the type, or cuDNN is known to refuse before it reads them.
    pub(crate) unsafe fn set_as(self, name: Name, of: Type, count: i64, address: *const c_void) -> Result<Self, Error> {
        // SAFETY: the caller's obligation, passed on.
        unsafe { check!(cudnn::cudnnBackendSetAttribute(self.0, name, of, count, address)) }?;
        Ok(self)
    }

    /// Sets an attribute that is other descriptors.
    pub(crate) fn parts(self, name: Name, parts: &[&Descriptor]) -> Result<Self, Error> {
        let raw: Vec<Raw> = parts.iter().map(|part| part.0).collect();
        self.set(name, &raw)
    }

    /// Ends the setting of attributes: cuDNN looks at them together, and says what is wrong with them.
    pub(crate) fn finalize(self) -> Result<Self, Error> {
        // SAFETY: the descriptor is live.
        unsafe { check!(cudnn::cudnnBackendFinalize(self.0)) }?;
        Ok(self)
    }

    /// How many elements an attribute has.
    pub(crate) fn count(&self, name: Name, of: Type) -> Result<usize, Error> {
        let mut count = 0;
        // SAFETY: nothing but the count is asked for.
        unsafe { check!(cudnn::cudnnBackendGetAttribute(self.0, name, of, 0, &raw mut count, null_mut())) }?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// An attribute's elements. `blank` is any value: cuDNN writes over it.
    pub(crate) fn get<T: Element>(&self, name: Name, blank: T) -> Result<Vec<T>, Error> {
        let room = self.count(name, T::TYPE)?;
        let (mut elements, mut count) = (vec![blank; room], 0);
        let address = elements.as_mut_ptr().cast();
        // SAFETY: there is room for as many elements as is said, of the type that is said.
        unsafe {
            check!(cudnn::cudnnBackendGetAttribute(self.0, name, T::TYPE, room as i64, &raw mut count, address))
        }?;
        elements.truncate(usize::try_from(count).unwrap_or(0));
        Ok(elements)
    }

    /// An attribute that is one number.
    pub(crate) fn number(&self, name: Name) -> Result<i64, Error> {
        Ok(self.get(name, 0i64)?.first().copied().unwrap_or(0))
    }

    /// An attribute that is other descriptors, of this kind.
    pub(crate) fn descriptors(&self, name: Name, kind: Kind) -> Result<Vec<Descriptor>, Error> {
        self.descriptors_at_most(name, kind, self.count(name, Raw::TYPE)?)
    }

    /// The same where cuDNN does not say how many there are, as with the knobs of a configuration: it fills some of those that
    /// it is given.
    pub(crate) fn descriptors_at_most(&self, name: Name, kind: Kind, room: usize) -> Result<Vec<Descriptor>, Error> {
        let mut found = (0..room).map(|_| Descriptor::new(kind)).collect::<Result<Vec<_>, _>>()?;
        let mut raw: Vec<Raw> = found.iter().map(Descriptor::raw).collect();
        let (mut count, address) = (0, raw.as_mut_ptr().cast());
        // SAFETY: as many live descriptors as is said, of the kind that the attribute has.
        unsafe {
            check!(cudnn::cudnnBackendGetAttribute(self.0, name, Raw::TYPE, room as i64, &raw mut count, address))
        }?;
        found.truncate(usize::try_from(count).unwrap_or(0));
        Ok(found)
    }

    pub(crate) fn raw(&self) -> Raw {
        self.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live, and nobody uses it after this.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(self.0) };
    }
}

/// A handle: what cuDNN computes with on the current device.
pub(crate) struct Handle(cudnn::cudnnHandle_t);

impl Handle {
    pub(crate) fn new() -> Result<Self, Error> {
        let mut raw = null_mut();
        // SAFETY: there is a place for the handle.
        unsafe { check!(cudnn::cudnnCreate(&raw mut raw)) }?;
        Ok(Handle(raw))
    }

    pub(crate) fn raw(&self) -> cudnn::cudnnHandle_t {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and nobody uses it after this.
        let _ = unsafe { cudnn::cudnnDestroy(self.0) };
    }
}
