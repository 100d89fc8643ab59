//! cuDNN's functions behind this layer, for the calls that it passes on and for those of its own.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use cudnn_layer_api::Host;
use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::cudnnStatus_t;

use crate::shadow::elements::{Kind, Name, Raw, Type};

type Status = cudnnStatus_t;

macro_rules! functions {
    ($($function:ident)*) => {
        /// The functions; `None` for those that this cuDNN does not have.
        #[allow(non_snake_case, reason = "these are cuDNN's function names")]
        pub(super) struct Cudnn {
            $(pub(super) $function: Option<unwinding::$function>,)*
        }

        impl Cudnn {
            pub(super) fn new(host: Host) -> Self {
                Cudnn { $($function: host.next(c_name(concat!(stringify!($function), "\0"))).map(|address| {
                    // SAFETY: cuDNN's function of this name, or one that a layer put in front of it, has this type.
                    unsafe { std::mem::transmute::<*const c_void, unwinding::$function>(address) }
                }),)* }
            }
        }
    };
}
functions! {
    cudnnCreate
    cudnnDestroy
    cudnnGetLastErrorString
    cudnnBackendCreateDescriptor
    cudnnBackendDestroyDescriptor
    cudnnBackendInitialize
    cudnnBackendSetAttribute
    cudnnBackendGetAttribute
    cudnnBackendFinalize
    cudnnBackendExecute
    cudnnBackendPopulateCudaGraph
    cudnnBackendUpdateCudaGraph
    cudnnGetExecutionPlanWorkspaceSize
}

fn c_name(name: &str) -> &CStr {
    CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
}

/// What a function returns that this cuDNN lacks: the loader asks no layer for it, so nobody calls it through this one.
pub(super) const ABSENT: Status = Status::CUDNN_STATUS_NOT_SUPPORTED;

impl Cudnn {
    /// Runs this with a new descriptor of this layer's own, and destroys it. If a callback of the program throws
    /// meanwhile, the descriptor is lost: a destructor would call cuDNN, whose next exception would end the process.
    pub(super) fn with_descriptor<T>(
        &self,
        kind: Kind,
        work: impl FnOnce(&Descriptor<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let descriptor = self.create(kind)?;
        let result = work(&descriptor);
        self.destroy(descriptor.raw);
        result
    }

    /// The same with as many descriptors.
    pub(super) fn with_descriptors<T>(
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

    /// A new descriptor, which is the caller's if this succeeds.
    pub(super) fn new_descriptor(
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

    fn create(&self, kind: Kind) -> Result<Descriptor<'_>, Status> {
        let mut raw = null_mut();
        // SAFETY: cuDNN stores the descriptor in `raw`.
        let status = self.cudnnBackendCreateDescriptor.map_or(ABSENT, |create| unsafe { create(kind, &raw mut raw) });
        checked(status)?;
        Ok(Descriptor { cudnn: self, raw })
    }

    /// Destroys a descriptor of this layer's own, which nobody uses any more.
    pub(super) fn destroy(&self, descriptor: Raw) {
        if let Some(destroy) = self.cudnnBackendDestroyDescriptor {
            // SAFETY: created by this layer, which alone knows it.
            let _ = unsafe { destroy(descriptor) };
        }
    }

    /// The text of this thread's last failure, which cuDNN forgets then.
    pub(super) fn take_last_error(&self) -> Vec<u8> {
        // More than cuDNN's texts have.
        let mut text = vec![0; 1 << 16];
        if let Some(get) = self.cudnnGetLastErrorString {
            // SAFETY: there are as many bytes.
            unsafe { get(text.as_mut_ptr().cast(), text.len()) };
        }
        let len = text.iter().position(|byte| *byte == 0).unwrap_or(0);
        text.truncate(len);
        text
    }
}

/// A descriptor of this layer's own.
pub(super) struct Descriptor<'a> {
    cudnn: &'a Cudnn,
    raw: Raw,
}

impl Descriptor<'_> {
    pub(super) fn raw(&self) -> Raw {
        self.raw
    }

    pub(super) fn set<T>(&self, name: Name, ty: Type, elements: &[T]) -> Result<(), Status> {
        let count = elements.len() as i64;
        let set = self.cudnn.cudnnBackendSetAttribute.ok_or(ABSENT)?;
        // SAFETY: the elements are of the type that the caller names.
        checked(unsafe { set(self.raw, name, ty, count, elements.as_ptr().cast()) })
    }

    pub(super) fn finalize(&self) -> Result<(), Status> {
        // SAFETY: a living descriptor.
        checked(self.cudnn.cudnnBackendFinalize.map_or(ABSENT, |finalize| unsafe { finalize(self.raw) }))
    }

    /// Reads elements. Returns how many there were; at most as many as there is room for are written.
    pub(super) fn read<T>(&self, name: Name, ty: Type, room: &mut [T]) -> Result<usize, Status> {
        // SAFETY: a living descriptor.
        unsafe { read(self.cudnn, self.raw, name, ty, room) }
    }

    /// A text, without a NUL behind it.
    pub(super) fn text(&self, name: Name) -> Result<Vec<u8>, Status> {
        // SAFETY: a living descriptor.
        unsafe { text(self.cudnn, self.raw, name) }
    }
}

/// Reads elements of a descriptor.
///
/// # Safety
/// The descriptor is alive, and `T` is what cuDNN writes for this type.
pub(super) unsafe fn read<T>(
    cudnn: &Cudnn,
    descriptor: Raw,
    name: Name,
    ty: Type,
    room: &mut [T],
) -> Result<usize, Status> {
    let mut count = 0;
    let get = cudnn.cudnnBackendGetAttribute.ok_or(ABSENT)?;
    // An empty slice has an address too, but cuDNN wants none.
    let to = if room.is_empty() { null_mut() } else { room.as_mut_ptr() };
    // SAFETY: the caller's obligation; there is room for as many elements.
    checked(unsafe { get(descriptor, name, ty, room.len() as i64, &raw mut count, to.cast()) })?;
    usize::try_from(count).map_err(|_| ABSENT)
}

/// Reads a text of a descriptor.
///
/// # Safety
/// The descriptor is alive.
pub(super) unsafe fn text(cudnn: &Cudnn, descriptor: Raw, name: Name) -> Result<Vec<u8>, Status> {
    // SAFETY: the caller's obligation, passed on.
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

/// The longest text that is read. Plans have some 100 KB.
const MAX_TEXT: usize = 64 << 20;

pub(super) fn checked(status: Status) -> Result<(), Status> {
    if status == Status::CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(status) }
}
