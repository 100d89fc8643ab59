//! Creates, configures, finalizes and destroys backend descriptors.
//!
//! A failing call returns an [`Error`] with cuDNN's error text. This module is independent of the attributes' meaning.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::cudnn::{
    self, Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind,
};

/// A backend descriptor. When a descriptor is finalized, it copies the required data from all descriptors that it
/// refers to, so those may be dropped afterwards.
pub struct Descriptor(Raw);

/// A type for an attribute's elements. The most frequent mistake with this API is to set an attribute with the wrong
/// type code. Here, the code follows from the element type.
///
/// # Safety
/// The type must have the layout that cuDNN expects of elements of [`TYPE`](Element::TYPE).
pub unsafe trait Element: Copy {
    /// cuDNN's code for the type.
    const TYPE: Type;
}

macro_rules! elements {
    ($($rust:ty: $name:ident,)*) => { $(
        // SAFETY: cuDNN documents this code for the type.
        unsafe impl Element for $rust { const TYPE: Type = Type::$name; }
    )* };
}
elements! {
    // Used for all numbers, however small: dimensions, strides, ids, indices.
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
    /// Creates a descriptor of this kind, without attributes.
    ///
    /// # Errors
    /// Returns an error if cuDNN cannot be loaded, or rejects the kind.
    pub fn new(kind: Kind) -> Result<Self, Error> {
        let mut raw = null_mut();
        // SAFETY: cuDNN writes the new descriptor to `raw`.
        unsafe { check!(cudnn::cudnnBackendCreateDescriptor(kind, &raw mut raw)) }?;
        Ok(Descriptor(raw))
    }

    /// Takes over a descriptor, which is destroyed with this value.
    ///
    /// # Safety
    /// The descriptor is live, and only this value destroys it.
    pub unsafe fn from_raw(raw: Raw) -> Self {
        Descriptor(raw)
    }

    /// Sets an attribute to these elements.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the attribute, the type or the number of elements.
    pub fn set<T: Element>(self, name: Name, elements: &[T]) -> Result<Self, Error> {
        // SAFETY: type, count and address describe the slice.
        unsafe { self.set_raw(name, T::TYPE, elements.len() as i64, elements.as_ptr().cast()) }
    }

    /// Sets an attribute with any type code and count, including wrong ones.
    ///
    /// # Safety
    /// `address` points to `count` elements of the type `ty`, or cuDNN is known to reject the call before it reads
    /// them.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the attribute, the type or the number of elements.
    pub unsafe fn set_raw(self, name: Name, ty: Type, count: i64, address: *const c_void) -> Result<Self, Error> {
        // SAFETY: the descriptor is live; the caller guarantees the rest.
        unsafe { check!(cudnn::cudnnBackendSetAttribute(self.0, name, ty, count, address)) }?;
        Ok(self)
    }

    /// Sets an attribute that consists of other descriptors.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the attribute or one of the descriptors.
    pub fn set_descriptors(self, name: Name, descriptors: &[&Descriptor]) -> Result<Self, Error> {
        let raw: Vec<Raw> = descriptors.iter().map(|descriptor| descriptor.0).collect();
        self.set(name, &raw)
    }

    /// Finalizes the descriptor, which makes cuDNN check all attributes together.
    ///
    /// # Errors
    /// Returns an error if an attribute is missing or incompatible with the others.
    pub fn finalize(self) -> Result<Self, Error> {
        // SAFETY: the descriptor is live.
        unsafe { check!(cudnn::cudnnBackendFinalize(self.0)) }?;
        Ok(self)
    }

    /// Returns the number of elements of an attribute.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn count(&self, name: Name, ty: Type) -> Result<usize, Error> {
        let mut count = 0;
        // SAFETY: with room for 0 elements, cuDNN writes only the count.
        unsafe { check!(cudnn::cudnnBackendGetAttribute(self.0, name, ty, 0, &raw mut count, null_mut())) }?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Returns an attribute's elements. `blank` is an arbitrary value, which cuDNN overwrites.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn get<T: Element>(&self, name: Name, blank: T) -> Result<Vec<T>, Error> {
        let mut elements = vec![blank; self.count(name, T::TYPE)?];
        let count = self.read(name, &mut elements)?;
        elements.truncate(count);
        Ok(elements)
    }

    /// Returns an attribute that consists of one int64.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn number(&self, name: Name) -> Result<i64, Error> {
        Ok(self.get(name, 0i64)?.first().copied().unwrap_or(0))
    }

    /// Returns an attribute that consists of descriptors of this kind.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn descriptors(&self, name: Name, kind: Kind) -> Result<Vec<Descriptor>, Error> {
        self.descriptors_up_to(name, kind, self.count(name, Raw::TYPE)?)
    }

    /// Like [`descriptors`](Self::descriptors), but reads at most `max` descriptors. Needed for attributes with a
    /// reported count of 0, such as the knob choices of a configuration.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn descriptors_up_to(&self, name: Name, kind: Kind, max: usize) -> Result<Vec<Descriptor>, Error> {
        // cuDNN fills descriptors that the caller has created.
        let mut found = (0..max).map(|_| Descriptor::new(kind)).collect::<Result<Vec<_>, _>>()?;
        let mut raw: Vec<Raw> = found.iter().map(Descriptor::raw).collect();
        let count = self.read(name, &mut raw)?;
        found.truncate(count);
        Ok(found)
    }

    /// Reads an attribute into these elements. Returns how many cuDNN wrote.
    fn read<T: Element>(&self, name: Name, elements: &mut [T]) -> Result<usize, Error> {
        let (room, address, mut count) = (elements.len() as i64, elements.as_mut_ptr().cast(), 0);
        // SAFETY: type, room and address describe the slice.
        unsafe { check!(cudnn::cudnnBackendGetAttribute(self.0, name, T::TYPE, room, &raw mut count, address)) }?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Returns cuDNN's pointer, which is valid as long as this value exists.
    pub fn raw(&self) -> Raw {
        self.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live and not used again. A failure only leaks it.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(self.0) };
    }
}
