//! Creates, configures, finalizes and destroys backend descriptors.
//!
//! A failing call returns an [`Error`] with cuDNN's error text. This module does not know the meaning of attributes.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::cudnn::{
    self, Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind,
};
use crate::handle::Handle;

/// A backend descriptor. Finalizing a descriptor copies the required data from all descriptors that it refers to, so
/// those may be dropped afterwards.
pub struct Descriptor {
    raw: Raw,
    /// The handles that this descriptor refers to, also through other descriptors. cuDNN copies only the pointers.
    handles: Vec<Handle>,
}

/// A type for an attribute's elements. The type code follows from it, because wrong codes are a frequent mistake.
///
/// Descriptors and handles are not elements, because cuDNN dereferences their pointers: see
/// [`set_descriptors`](Descriptor::set_descriptors) and [`set_handle`](Descriptor::set_handle).
///
/// ```compile_fail,E0277
/// # use cudnn_backend::cudnn::{Error, cudnnBackendAttributeName_t as Name};
/// # use cudnn_backend::descriptor::Descriptor;
/// fn set_dangling(graph: Descriptor) -> Result<Descriptor, Error> {
///     graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &[std::ptr::dangling_mut::<std::ffi::c_void>()])
/// }
/// ```
///
/// # Safety
/// The type must have the layout that cuDNN expects of elements of [`TYPE`](Element::TYPE), and cuDNN must not
/// dereference the elements before a plan is executed.
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
    // Used for all numbers, including small ones: dimensions, strides, ids, indices.
    i64: CUDNN_TYPE_INT64,
    i32: CUDNN_TYPE_INT32,
    f32: CUDNN_TYPE_FLOAT,
    f64: CUDNN_TYPE_DOUBLE,
    bool: CUDNN_TYPE_BOOLEAN,
    u8: CUDNN_TYPE_CHAR,
    // Used for memory, which cuDNN accesses only when it executes a plan.
    *const c_void: CUDNN_TYPE_VOID_PTR,
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
        Ok(Descriptor { raw, handles: Vec::new() })
    }

    /// Takes over a descriptor, which is destroyed with this value.
    ///
    /// # Safety
    /// The descriptor is live, and nothing else destroys it. The handles that it refers to outlive it.
    pub unsafe fn from_raw(raw: Raw) -> Self {
        Descriptor { raw, handles: Vec::new() }
    }

    /// Sets an attribute to these elements.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the attribute, the type or the number of elements.
    pub fn set<T: Element>(self, name: Name, elements: &[T]) -> Result<Self, Error> {
        // SAFETY: type, count and address describe the slice, and cuDNN does not dereference the elements.
        unsafe { self.set_raw(name, T::TYPE, elements.len() as i64, elements.as_ptr().cast()) }
    }

    /// # Safety
    /// `address` points to `count` elements of the type `ty`. Everything that elements point to outlives this descriptor
    /// and all descriptors that refer to it.
    unsafe fn set_raw(self, name: Name, ty: Type, count: i64, address: *const c_void) -> Result<Self, Error> {
        // SAFETY: the descriptor is live; the caller guarantees the rest.
        unsafe { check!(cudnn::cudnnBackendSetAttribute(self.raw, name, ty, count, address)) }?;
        Ok(self)
    }

    /// Sets an attribute that consists of other descriptors.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the attribute or one of the descriptors.
    pub fn set_descriptors(mut self, name: Name, descriptors: &[&Descriptor]) -> Result<Self, Error> {
        self.handles.extend(descriptors.iter().flat_map(|descriptor| descriptor.handles.iter().cloned()));
        let raw: Vec<Raw> = descriptors.iter().map(|descriptor| descriptor.raw).collect();
        let (count, address) = (raw.len() as i64, raw.as_ptr().cast());
        // SAFETY: type, count and address describe the slice, and the descriptors are live. cuDNN keeps what it needs.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, count, address) }
    }

    /// Sets an attribute that is a handle. The descriptor keeps the handle alive.
    ///
    /// # Errors
    /// Returns an error if cuDNN rejects the attribute.
    pub fn set_handle(mut self, name: Name, handle: &Handle) -> Result<Self, Error> {
        self.handles.push(handle.clone());
        let raw = handle.raw();
        // SAFETY: type, count and address describe one handle, which outlives the descriptor.
        unsafe { self.set_raw(name, Type::CUDNN_TYPE_HANDLE, 1, (&raw const raw).cast()) }
    }

    /// Finalizes the descriptor, which makes cuDNN check all attributes together.
    ///
    /// # Errors
    /// Returns an error if an attribute is missing or incompatible with the others.
    pub fn finalize(self) -> Result<Self, Error> {
        // SAFETY: the descriptor is live.
        unsafe { check!(cudnn::cudnnBackendFinalize(self.raw)) }?;
        Ok(self)
    }

    /// Returns the number of elements of an attribute.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn count(&self, name: Name, ty: Type) -> Result<usize, Error> {
        let mut count = 0;
        // SAFETY: with room for 0 elements, cuDNN writes only the count.
        unsafe { check!(cudnn::cudnnBackendGetAttribute(self.raw, name, ty, 0, &raw mut count, null_mut())) }?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Returns an attribute's elements. `blank` is an arbitrary value, which cuDNN overwrites.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn get<T: Element>(&self, name: Name, blank: T) -> Result<Vec<T>, Error> {
        let mut elements = vec![blank; self.count(name, T::TYPE)?];
        // SAFETY: the type describes the elements.
        let count = unsafe { self.read(name, T::TYPE, &mut elements) }?;
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
        self.descriptors_up_to(name, kind, self.count(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR)?)
    }

    /// Like [`descriptors`](Self::descriptors), but reads at most `max` descriptors. This is necessary for attributes
    /// with a reported count of 0, such as the knob choices of a configuration.
    ///
    /// # Errors
    /// Returns an error if the descriptor is not finalized, or does not support the attribute.
    pub fn descriptors_up_to(&self, name: Name, kind: Kind, max: usize) -> Result<Vec<Descriptor>, Error> {
        // cuDNN fills descriptors that the caller has created.
        let mut found = (0..max).map(|_| Descriptor::new(kind)).collect::<Result<Vec<_>, _>>()?;
        let mut raw: Vec<Raw> = found.iter().map(Descriptor::raw).collect();
        // SAFETY: the elements are live descriptors.
        let count = unsafe { self.read(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut raw) }?;
        found.truncate(count);
        found.iter_mut().for_each(|descriptor| descriptor.handles.clone_from(&self.handles));
        Ok(found)
    }

    /// Reads an attribute into these elements. Returns the number that cuDNN wrote.
    ///
    /// # Safety
    /// `T` is the type that cuDNN expects of elements of `ty`. Descriptors are live.
    unsafe fn read<T>(&self, name: Name, ty: Type, elements: &mut [T]) -> Result<usize, Error> {
        let (room, address, mut count) = (elements.len() as i64, elements.as_mut_ptr().cast(), 0);
        // SAFETY: room and address describe the slice; the caller guarantees the rest.
        unsafe { check!(cudnn::cudnnBackendGetAttribute(self.raw, name, ty, room, &raw mut count, address)) }?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Returns cuDNN's pointer, which is valid as long as this value exists.
    pub fn raw(&self) -> Raw {
        self.raw
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live and not used again. A failure only leaks it.
        let _ = unsafe { cudnn::cudnnBackendDestroyDescriptor(self.raw) };
    }
}
