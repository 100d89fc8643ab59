//! cuDNN's functions behind this layer, for the calls that it passes on and for those of its own.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use cudnn_layer_api::Host;
use cudnn_sys::types::{cudaGraph_t, cudnnHandle_t, cudnnStatus_t};

use crate::shadow::value::{Kind, Name, Raw, Type};

type Status = cudnnStatus_t;

macro_rules! functions {
    ($($(#[$doc:meta])* $symbol:ident: fn($($argument:ty),*) -> $returns:ty;)*) => {
        /// The functions; `None` for those that this cuDNN does not have.
        #[allow(non_snake_case, reason = "these are cuDNN's function names")]
        pub(super) struct Cudnn {
            $($(#[$doc])* pub(super) $symbol: Option<unsafe extern "C-unwind" fn($($argument),*) -> $returns>,)*
        }

        impl Cudnn {
            pub(super) fn new(host: Host) -> Self {
                Cudnn { $($symbol: host.next(c_name(concat!(stringify!($symbol), "\0"))).map(|address| {
                    // SAFETY: cuDNN's function of this name, or one that a layer put in front of it, has this type.
                    unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "C-unwind" fn($($argument),*) -> $returns>(
                            address,
                        )
                    }
                }),)* }
            }
        }
    };
}
functions! {
    cudnnCreate: fn(*mut cudnnHandle_t) -> Status;
    cudnnDestroy: fn(cudnnHandle_t) -> Status;
    cudnnGetLastErrorString: fn(*mut c_char, usize) -> ();
    cudnnBackendCreateDescriptor: fn(Kind, *mut Raw) -> Status;
    cudnnBackendDestroyDescriptor: fn(Raw) -> Status;
    cudnnBackendInitialize: fn(Raw) -> Status;
    cudnnBackendSetAttribute: fn(Raw, Name, Type, i64, *const c_void) -> Status;
    cudnnBackendGetAttribute: fn(Raw, Name, Type, i64, *mut i64, *mut c_void) -> Status;
    cudnnBackendFinalize: fn(Raw) -> Status;
    cudnnBackendExecute: fn(cudnnHandle_t, Raw, Raw) -> Status;
    cudnnBackendPopulateCudaGraph: fn(cudnnHandle_t, Raw, Raw, cudaGraph_t) -> Status;
    cudnnBackendUpdateCudaGraph: fn(cudnnHandle_t, Raw, Raw, cudaGraph_t) -> Status;
    cudnnGetExecutionPlanWorkspaceSize: fn(cudnnHandle_t, Raw, *mut usize) -> Status;
}

fn c_name(name: &str) -> &CStr {
    CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
}

/// What a function returns that this cuDNN lacks: the loader asks no layer for it, so nobody calls it through this one.
pub(super) const ABSENT: Status = Status::CUDNN_STATUS_NOT_SUPPORTED;

impl Cudnn {
    /// A new descriptor of this layer's own.
    pub(super) fn descriptor(&self, kind: Kind) -> Result<Descriptor<'_>, Status> {
        let mut raw = null_mut();
        // SAFETY: cuDNN stores the descriptor in `raw`.
        let status = self.cudnnBackendCreateDescriptor.map_or(ABSENT, |create| unsafe { create(kind, &raw mut raw) });
        checked(status)?;
        Ok(Descriptor { cudnn: self, raw })
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

/// A descriptor of this layer's own, or one of the program's that is only looked at.
pub(super) struct Descriptor<'a> {
    cudnn: &'a Cudnn,
    raw: Raw,
}

impl Descriptor<'_> {
    pub(super) fn raw(&self) -> Raw {
        self.raw
    }

    /// Leaves the descriptor to whoever destroys it.
    pub(super) fn into_raw(self) -> Raw {
        let raw = self.raw;
        std::mem::forget(self);
        raw
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

impl Drop for Descriptor<'_> {
    fn drop(&mut self) {
        if let Some(destroy) = self.cudnn.cudnnBackendDestroyDescriptor {
            // SAFETY: created by this layer, and not used any more.
            let _ = unsafe { destroy(self.raw) };
        }
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
