//! Passes arrays that end at the edge of readable memory and are shorter than the program claims. cuDNN accesses only
//! existing elements: one if the attribute holds one descriptor, and none if the call is refused.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind,
};

const DESCRIPTORS: Type = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;

pub(crate) fn run() {
    let (tensor, operation) = (
        create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR),
        create(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR),
    );
    for count in [0, 1, 4096] {
        let name = Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X;
        // SAFETY: the stand-in reads one descriptor, as cuDNN does for many attributes.
        let status =
            unsafe { cudnn_loader::cudnnBackendSetAttribute(operation, name, DESCRIPTORS, count, at_the_end(tensor)) };
        println!("set {count}: {}", status.0);
    }
    let heuristics = create(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    let mut count = 0_i64;
    let (name, room) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, 1 << 30);
    // SAFETY: the descriptor is not finalized, so cuDNN refuses the call.
    let status = unsafe {
        let to = at_the_end(tensor).cast_mut();
        cudnn_loader::cudnnBackendGetAttribute(heuristics, name, DESCRIPTORS, room, &raw mut count, to)
    };
    println!("get: {}", status.0);
    for descriptor in [tensor, operation, heuristics] {
        // SAFETY: the descriptors are live and not used again.
        let _ = unsafe { cudnn_loader::cudnnBackendDestroyDescriptor(descriptor) };
    }
}

fn create(kind: Kind) -> Raw {
    let mut raw = null_mut();
    // SAFETY: cuDNN stores the descriptor here.
    let status = unsafe { cudnn_loader::cudnnBackendCreateDescriptor(kind, &raw mut raw) };
    assert_eq!(status.0, 0);
    raw
}

/// Returns an array of one descriptor, followed by unreadable memory.
fn at_the_end(descriptor: Raw) -> *const c_void {
    // SAFETY: the two pages are new and never freed. The second becomes unreadable.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
        let (both, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let pages = libc::mmap(null_mut(), 2 * page, both, shared, -1, 0);
        assert_ne!(pages, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(pages.byte_add(page), page, libc::PROT_NONE), 0);
        let last = pages.byte_add(page - size_of::<Raw>());
        last.cast::<Raw>().write(descriptor);
        last
    }
}
