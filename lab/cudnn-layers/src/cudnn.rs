//! Calls cuDNN's functions below this layer, for the program's calls and the layer's own.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::Arc;

use cudnn_graph::rebuild::Backend;
use cudnn_layer_api::Host;
use cudnn_sys::types::cudnnStatus_t;

use crate::shadow::devices::ReferencedDevice;
use crate::shadow::elements::{Kind, Name, Raw, Type};
use crate::shadow::handles::Handle;
use crate::wrappers::{Id, Next};

type Status = cudnnStatus_t;

/// The functions below this layer that it calls itself.
pub(crate) struct Cudnn(Next);

impl Deref for Cudnn {
    type Target = Next;

    fn deref(&self) -> &Next {
        &self.0
    }
}

/// The status of functions that are missing in this cuDNN. The loader never requests wrappers for them, so programs do
/// not call them through this layer.
pub(crate) const ABSENT: Status = Status::CUDNN_STATUS_NOT_SUPPORTED;
/// cuDNN returned an unexpected answer.
pub(crate) const UNCLEAR: Status = Status::CUDNN_STATUS_INTERNAL_ERROR;

impl Cudnn {
    pub(crate) fn new(host: Host) -> Self {
        let next = Next::new();
        next.load(
            host,
            &[
                Id::CudnnGetCudartVersion,
                Id::CudnnGetLastErrorString,
                Id::CudnnSetCallback,
                Id::CudnnGetCallback,
                Id::CudnnGetStream,
                Id::CudnnBackendCreateDescriptor,
                Id::CudnnBackendDestroyDescriptor,
                Id::CudnnBackendSetAttribute,
                Id::CudnnBackendGetAttribute,
                Id::CudnnBackendFinalize,
            ],
        );
        Cudnn(next)
    }

    /// Runs a closure with a temporary descriptor and destroys it afterwards. If a callback of the program throws an
    /// exception in between, the descriptor leaks: destroying it while unwinding would call cuDNN, and a second
    /// exception would terminate the process.
    pub(crate) fn with_descriptor<T>(
        &self,
        kind: Kind,
        work: impl FnOnce(&LayerDescriptor<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let descriptor = self.create(kind)?;
        let result = work(&descriptor);
        self.destroy(descriptor.raw);
        result
    }

    /// Runs a closure with several temporary descriptors, like [`with_descriptor`](Cudnn::with_descriptor).
    pub(crate) fn with_descriptors<T>(
        &self,
        kind: Kind,
        count: usize,
        work: impl FnOnce(&[LayerDescriptor<'_>]) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut descriptors = Vec::with_capacity(count);
        let created = (0..count).try_for_each(|_| self.create(kind).map(|descriptor| descriptors.push(descriptor)));
        let result = created.and_then(|()| work(&descriptors));
        descriptors.iter().for_each(|descriptor| self.destroy(descriptor.raw));
        result
    }

    /// Creates a descriptor and passes ownership to the caller on success.
    pub(crate) fn new_descriptor(
        &self,
        kind: Kind,
        make: impl FnOnce(&LayerDescriptor<'_>) -> Result<(), Status>,
    ) -> Result<Raw, Status> {
        let descriptor = self.create(kind)?;
        let made = make(&descriptor);
        if made.is_err() {
            self.destroy(descriptor.raw);
        }
        made.map(|()| descriptor.raw)
    }

    fn create(&self, kind: Kind) -> Result<LayerDescriptor<'_>, Status> {
        let mut raw = null_mut();
        // SAFETY: cuDNN stores the descriptor in `raw`.
        let status = self.cudnnBackendCreateDescriptor().map_or(ABSENT, |create| unsafe { create(kind, &raw mut raw) });
        checked(status)?;
        Ok(LayerDescriptor { cudnn: self, raw })
    }

    /// Destroys a descriptor that this layer created and no longer uses.
    pub(crate) fn destroy(&self, descriptor: Raw) {
        if let Some(destroy) = self.cudnnBackendDestroyDescriptor() {
            // SAFETY: this layer created the descriptor and never shared it.
            let _ = unsafe { destroy(descriptor) };
        }
    }

    /// Returns the JSON description of a device.
    pub(crate) fn description_of(&self, device: &ReferencedDevice) -> Option<Arc<[u8]>> {
        match device {
            ReferencedDevice::Described(text) => Some(text.as_slice().into()),
            ReferencedDevice::Handle(handle) | ReferencedDevice::DescribedByHandle(handle) => self.device_of(*handle),
            ReferencedDevice::Unknown => None,
        }
    }

    /// Returns the description of a handle's device. Returns `None` if cuDNN provides none, or if the handle was
    /// created without passing through this layer.
    ///
    /// The description is requested every time: from 9.28 on it depends on the handle's stream, which may be limited to
    /// some of the multiprocessors.
    pub(crate) fn device_of(&self, handle: Handle) -> Option<Arc<[u8]>> {
        if handle.id == 0 {
            return None;
        }
        let description = self.with_descriptor(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, |device| {
            device.set(Name::CUDNN_ATTR_DEVICEPROP_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle.address])?;
            device.finalize()?;
            device.text(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
        });
        description.ok().map(Into::into)
    }

    /// Returns the error text of this thread's last failure, and clears it in cuDNN.
    pub(crate) fn take_last_error(&self) -> Vec<u8> {
        // Larger than any text cuDNN produces.
        let mut text = vec![0; 1 << 16];
        if let Some(get) = self.cudnnGetLastErrorString() {
            // SAFETY: the buffer has the length that is passed.
            unsafe { get(text.as_mut_ptr().cast(), text.len()) };
        }
        let len = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        text.truncate(len);
        text
    }
}

impl Backend for Cudnn {
    type Error = Status;

    fn create(&self, kind: Kind) -> Result<Raw, Status> {
        Cudnn::create(self, kind).map(|descriptor| descriptor.raw)
    }

    unsafe fn set(
        &self,
        descriptor: Raw,
        name: Name,
        ty: Type,
        count: i64,
        elements: *const c_void,
    ) -> Result<(), Status> {
        let set = self.cudnnBackendSetAttribute().ok_or(ABSENT)?;
        // SAFETY: guaranteed by the caller.
        checked(unsafe { set(descriptor, name, ty, count, elements) })
    }

    unsafe fn finalize(&self, descriptor: Raw) -> Result<(), Status> {
        // SAFETY: guaranteed by the caller.
        checked(self.cudnnBackendFinalize().map_or(ABSENT, |finalize| unsafe { finalize(descriptor) }))
    }

    unsafe fn destroy(&self, descriptor: Raw) {
        Cudnn::destroy(self, descriptor);
    }
}

/// A descriptor that this layer created.
pub(crate) struct LayerDescriptor<'a> {
    cudnn: &'a Cudnn,
    raw: Raw,
}

impl LayerDescriptor<'_> {
    pub(crate) fn raw(&self) -> Raw {
        self.raw
    }

    pub(crate) fn set<T>(&self, name: Name, ty: Type, elements: &[T]) -> Result<(), Status> {
        // SAFETY: the descriptor is live, and the caller passes elements of the named type.
        unsafe { self.cudnn.set(self.raw, name, ty, elements.len() as i64, elements.as_ptr().cast()) }
    }

    pub(crate) fn finalize(&self) -> Result<(), Status> {
        // SAFETY: the descriptor is live.
        unsafe { self.cudnn.finalize(self.raw) }
    }

    /// Reads elements into `room`. Returns the total number of elements, which may be larger than `room`.
    pub(crate) fn read<T>(&self, name: Name, ty: Type, room: &mut [T]) -> Result<usize, Status> {
        // SAFETY: the descriptor is live.
        unsafe { read(self.cudnn, self.raw, name, ty, room) }
    }

    /// Reads the only element of an attribute.
    pub(crate) fn single<T: Default>(&self, name: Name, ty: Type) -> Result<T, Status> {
        // SAFETY: the descriptor is live.
        unsafe { single(self.cudnn, self.raw, name, ty) }
    }

    /// Reads a text attribute and strips the trailing NUL.
    pub(crate) fn text(&self, name: Name) -> Result<Vec<u8>, Status> {
        // SAFETY: the descriptor is live.
        unsafe { text(self.cudnn, self.raw, name) }
    }
}

/// Reads elements of a descriptor.
///
/// # Safety
/// The descriptor is live, and `T` is the type that cuDNN writes for this attribute type.
pub(crate) unsafe fn read<T>(
    cudnn: &Cudnn,
    descriptor: Raw,
    name: Name,
    ty: Type,
    room: &mut [T],
) -> Result<usize, Status> {
    let mut count = 0;
    let get = cudnn.cudnnBackendGetAttribute().ok_or(ABSENT)?;
    // cuDNN expects a null pointer if no elements are requested, but an empty slice has an address.
    let to = if room.is_empty() { null_mut() } else { room.as_mut_ptr() };
    // SAFETY: guaranteed by the caller; the slice has room for the requested number of elements.
    checked(unsafe { get(descriptor, name, ty, room.len() as i64, &raw mut count, to.cast()) })?;
    usize::try_from(count).map_err(|_| ABSENT)
}

/// Reads the only element of an attribute.
///
/// # Safety
/// The same requirements as for [`read`].
pub(crate) unsafe fn single<T: Default>(cudnn: &Cudnn, descriptor: Raw, name: Name, ty: Type) -> Result<T, Status> {
    let mut element = T::default();
    // SAFETY: guaranteed by the caller.
    let count = unsafe { read(cudnn, descriptor, name, ty, std::slice::from_mut(&mut element)) }?;
    if count == 1 { Ok(element) } else { Err(UNCLEAR) }
}

/// Reads the size of the workspace of a plan.
///
/// # Safety
/// The plan is finalized and live.
pub(crate) unsafe fn workspace_size(cudnn: &Cudnn, plan: Raw) -> Result<i64, Status> {
    let name = Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
    // SAFETY: guaranteed by the caller.
    unsafe { single(cudnn, plan, name, Type::CUDNN_TYPE_INT64) }
}

/// Reads a text attribute of a descriptor.
///
/// # Safety
/// The descriptor is live.
pub(crate) unsafe fn text(cudnn: &Cudnn, descriptor: Raw, name: Name) -> Result<Vec<u8>, Status> {
    // SAFETY: guaranteed by the caller.
    let len = unsafe { read::<u8>(cudnn, descriptor, name, Type::CUDNN_TYPE_CHAR, &mut []) }?;
    let mut text = vec![0_u8; len.min(MAX_TEXT)];
    // SAFETY: as above.
    let len = unsafe { read(cudnn, descriptor, name, Type::CUDNN_TYPE_CHAR, &mut text) }?;
    text.truncate(len);
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok(text)
}

/// The maximum length of a text. The JSON of a plan has about 100 KB.
const MAX_TEXT: usize = 64 << 20;

pub(crate) fn checked(status: Status) -> Result<(), Status> {
    if status == Status::CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(status) }
}
