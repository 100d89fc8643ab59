//! Calls cuDNN's functions below this layer, both for the program and for the layer itself.

use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::Arc;

use cudnn_graph::rebuild::Functions;
use cudnn_layer_api::Host;
use cudnn_sys::types::cudnnStatus_t;

use crate::shadow::devices::ReferencedDevice;
use crate::shadow::elements::{Kind, Name, Raw, Type};
use crate::shadow::handles::Handle;
use crate::wrappers::{Id, Next};

type Status = cudnnStatus_t;

pub(crate) struct Cudnn(Next);

impl Deref for Cudnn {
    type Target = Next;

    fn deref(&self) -> &Next {
        &self.0
    }
}

/// The status of functions that are missing in this cuDNN. Programs do not call them through this layer, because the
/// loader does not request wrappers for them.
pub(crate) const ABSENT: Status = Status::CUDNN_STATUS_NOT_SUPPORTED;
/// The status of unexpected answers from cuDNN.
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

    /// Returns the functions for descriptors of this layer, unless one is missing in this cuDNN.
    pub(crate) fn functions(&self) -> Option<Functions<Status>> {
        Some(Functions {
            create: self.cudnnBackendCreateDescriptor()?,
            set: self.cudnnBackendSetAttribute()?,
            finalize: self.cudnnBackendFinalize()?,
            destroy: self.cudnnBackendDestroyDescriptor()?,
            check: |status, _| checked(status),
        })
    }

    /// Runs a closure with a temporary descriptor and destroys it afterwards. If a callback of the program throws an
    /// exception, the descriptor leaks. Destroying it during unwinding would call cuDNN, and a second exception would
    /// terminate the process.
    pub(crate) fn with_descriptor<T>(
        &self,
        kind: Kind,
        work: impl FnOnce(&Descriptor<'_>) -> Result<T, Status>,
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
        work: impl FnOnce(&[Descriptor<'_>]) -> Result<T, Status>,
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
        make: impl FnOnce(&Descriptor<'_>) -> Result<(), Status>,
    ) -> Result<Raw, Status> {
        let descriptor = self.create(kind)?;
        let made = make(&descriptor);
        if made.is_err() {
            self.destroy(descriptor.raw);
        }
        made.map(|()| descriptor.raw)
    }

    /// # Safety
    /// The descriptor stays live while the result is used.
    pub(crate) unsafe fn descriptor(&self, raw: Raw) -> Descriptor<'_> {
        Descriptor { cudnn: self, raw }
    }

    fn create(&self, kind: Kind) -> Result<Descriptor<'_>, Status> {
        let mut raw = null_mut();
        // SAFETY: cuDNN stores the descriptor in `raw`.
        let status = self.cudnnBackendCreateDescriptor().map_or(ABSENT, |create| unsafe { create(kind, &raw mut raw) });
        checked(status)?;
        Ok(Descriptor { cudnn: self, raw })
    }

    /// Destroys a descriptor that this layer created and no longer uses.
    pub(crate) fn destroy(&self, descriptor: Raw) {
        if let Some(destroy) = self.cudnnBackendDestroyDescriptor() {
            // SAFETY: this layer created the descriptor and never shared it.
            let _ = unsafe { destroy(descriptor) };
        }
    }

    pub(crate) fn description_of(&self, device: &ReferencedDevice) -> Option<Arc<[u8]>> {
        match device {
            ReferencedDevice::Described(text) => Some(text.as_slice().into()),
            ReferencedDevice::Handle(handle) | ReferencedDevice::DescribedByHandle(handle) => self.device_of(*handle),
            ReferencedDevice::Unknown => None,
        }
    }

    /// Returns the description of a handle's device, unless cuDNN has none or creating the handle bypassed this layer.
    ///
    /// The description is never cached, because from 9.28 it depends on the handle's stream, which may be limited to
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

    /// Returns and clears the error text of this thread's last failure.
    pub(crate) fn take_last_error(&self) -> Vec<u8> {
        // Larger than any text of cuDNN.
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

/// A live descriptor of this layer or of the program.
pub(crate) struct Descriptor<'a> {
    pub(crate) cudnn: &'a Cudnn,
    raw: Raw,
}

impl Descriptor<'_> {
    pub(crate) fn raw(&self) -> Raw {
        self.raw
    }

    pub(crate) fn set<T>(&self, name: Name, ty: Type, elements: &[T]) -> Result<(), Status> {
        let set = self.cudnn.cudnnBackendSetAttribute().ok_or(ABSENT)?;
        // SAFETY: the descriptor is live, and the caller passes elements of the named type.
        checked(unsafe { set(self.raw, name, ty, elements.len() as i64, elements.as_ptr().cast()) })
    }

    pub(crate) fn finalize(&self) -> Result<(), Status> {
        let finalize = self.cudnn.cudnnBackendFinalize().ok_or(ABSENT)?;
        // SAFETY: the descriptor is live.
        checked(unsafe { finalize(self.raw) })
    }

    /// Reads elements into `room`. Returns the total number of elements, which may be larger than `room`.
    pub(crate) fn read<T>(&self, name: Name, ty: Type, room: &mut [T]) -> Result<usize, Status> {
        let mut count = 0;
        let get = self.cudnn.cudnnBackendGetAttribute().ok_or(ABSENT)?;
        // cuDNN expects a null pointer if no elements are requested, but an empty slice has an address.
        let to = if room.is_empty() { null_mut() } else { room.as_mut_ptr() };
        // SAFETY: the descriptor is live, and the caller passes room for elements of the named type.
        checked(unsafe { get(self.raw, name, ty, room.len() as i64, &raw mut count, to.cast()) })?;
        usize::try_from(count).map_err(|_| ABSENT)
    }

    pub(crate) fn single<T: Default>(&self, name: Name, ty: Type) -> Result<T, Status> {
        let mut element = T::default();
        let count = self.read(name, ty, std::slice::from_mut(&mut element))?;
        if count == 1 { Ok(element) } else { Err(UNCLEAR) }
    }

    pub(crate) fn workspace_size(&self) -> Result<i64, Status> {
        self.single(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64)
    }

    /// Reads a text attribute without the trailing NUL.
    pub(crate) fn text(&self, name: Name) -> Result<Vec<u8>, Status> {
        let len = self.read::<u8>(name, Type::CUDNN_TYPE_CHAR, &mut [])?;
        let mut text = vec![0_u8; len.min(MAX_TEXT)];
        let len = self.read(name, Type::CUDNN_TYPE_CHAR, &mut text)?;
        text.truncate(len);
        while text.last() == Some(&0) {
            text.pop();
        }
        Ok(text)
    }

    /// Runs a closure with a copy of the descriptor in an attribute.
    pub(crate) fn with_child<T>(
        &self,
        name: Name,
        kind: Kind,
        work: impl FnOnce(&Descriptor<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.with_children(name, kind, 1, |children| work(children.first().ok_or(UNCLEAR)?))
    }

    /// Runs a closure with copies of the first `max` descriptors in an attribute. cuDNN fills existing descriptors.
    pub(crate) fn with_children<T>(
        &self,
        name: Name,
        kind: Kind,
        max: usize,
        work: impl FnOnce(&[Descriptor<'_>]) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.cudnn.with_descriptors(kind, max, |children| {
            let mut raw: Vec<Raw> = children.iter().map(Descriptor::raw).collect();
            let count = self.read(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &mut raw)?;
            work(children.get(..count).unwrap_or(children))
        })
    }
}

/// The maximum length of a text. The JSON of a plan has about 100 KB.
const MAX_TEXT: usize = 64 << 20;

pub(crate) fn checked(status: Status) -> Result<(), Status> {
    if status == Status::CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(status) }
}
