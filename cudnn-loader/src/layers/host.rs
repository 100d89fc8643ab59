//! Implements the functions that the loader offers to layers: `cudnnLayerHost` of `cudnn_layer.h`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::catch_unwind;

use cudnn_layer_api::abi;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_probe::one_line;

use super::chain::{self, address_from};
use super::environment;
use super::link::Link;
use super::text::c_path;
use crate::events::{LoaderEvent, emit, without_failure_events};
use crate::function::Function;
use crate::resolve::in_memory::cudart_version;
use crate::resolve::installation::installation;

/// Creates the host for the layer of this name, directly outside `inner`. Never freed. Returns `None` before a cuDNN is
/// selected.
pub(super) fn new(name: &CStr, inner: Option<&'static Link>) -> Option<&'static abi::Host> {
    let installation = installation()?;
    let version = installation.version;
    let leak = |text: CString| text.into_raw().cast_const();
    let mut inside = Vec::new();
    for link in std::iter::successors(inner, |link| link.inner) {
        inside.extend_from_slice(link.name.to_bytes());
        inside.push(b'\n');
    }
    Some(Box::leak(Box::new(abi::Host {
        size: size_of::<abi::Host>(),
        abi: abi::ABI,
        cudnn_version: version.number(),
        cudnn_dir: leak(c_path(&installation.dir)),
        name: leak(name.to_owned()),
        loader: inner.map_or(std::ptr::null_mut(), |inner| std::ptr::from_ref(inner).cast_mut().cast()),
        next,
        message,
        missed_calls,
        // The names come from C strings and therefore contain no NUL.
        inside: leak(CString::new(inside).unwrap_or_default()),
        environment: environment::at_load(),
        cudart_version: cudart_version(),
    })))
}

/// Implements `next` of the header.
unsafe extern "C" fn next(host: *const abi::Host, function: *const c_char) -> *mut c_void {
    if function.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the layer passes the host that it received from this loader.
    let Some(host) = (unsafe { host.as_ref() }) else { return std::ptr::null_mut() };
    // SAFETY: null, or the link that `new` stored, which is never freed.
    let inner = unsafe { host.loader.cast::<Link>().as_ref() };
    // SAFETY: the layer passes a C string.
    let Some(function) = unsafe { CStr::from_ptr(function) }.to_str().ok().and_then(Function::from_name) else {
        return std::ptr::null_mut();
    };
    let _guard = ThreadStateGuard::new();
    let address = catch_unwind(|| without_failure_events(|| address_from(inner, function)));
    address.ok().flatten().map_or(std::ptr::null_mut(), <*mut ()>::cast)
}

/// Implements `message` of the header.
unsafe extern "C" fn message(host: *const abi::Host, severity: c_int, text: *const c_char) {
    // SAFETY: the layer passes the host that it received from this loader.
    let Some(host) = (unsafe { host.as_ref() }) else { return };
    if text.is_null() {
        return;
    }
    // SAFETY: the host's name is a C string that is never freed, and the layer passes a C string.
    let (name, text) = unsafe { (CStr::from_ptr(host.name), CStr::from_ptr(text)) };
    let _guard = ThreadStateGuard::new();
    let _ = catch_unwind(|| report(name, severity, &text.to_string_lossy()));
}

/// Implements `missed_calls` of the header.
unsafe extern "C" fn missed_calls(_: *const abi::Host) -> u64 {
    chain::missed_calls()
}

/// Reports that a layer remains inactive.
pub(super) fn report_failure(name: &CStr, reason: &str) {
    report(name, abi::ERROR, &format!("is off: {reason}"));
}

fn report(name: &CStr, severity: c_int, text: &str) {
    let name = name.to_string_lossy();
    emit(&LoaderEvent::LayerMessage { layer: &one_line(&name), severity, text: &one_line(text) });
}
