//! Tests the entry points of layers: a panic does not reach the loader, and layers work with loaders of older versions.
#![allow(clippy::panic, reason = "these layers panic")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use cudnn_layer_api::abi::{self, ABI};
use cudnn_layer_api::{Event, Host, Layer, NextFunction, begin, check};

struct PanicsAtStart;

impl Layer for PanicsAtStart {
    fn begin(_: Host) -> Result<Self, String> {
        panic!("at the start");
    }

    fn check() -> Result<(), String> {
        panic!("in the check");
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        next
    }
}

struct PanicsLater;

impl Layer for PanicsLater {
    fn begin(_: Host) -> Result<Self, String> {
        Ok(PanicsLater)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        panic!("for {:?}", next.name());
    }

    fn event(&self, event: &Event<'_>) {
        panic!("for {event:?}");
    }
}

unsafe extern "C" fn next(_: *const abi::Host, _: *const c_char) -> *mut c_void {
    null_mut()
}

unsafe extern "C" fn message(_: *const abi::Host, _: c_int, _: *const c_char) {}

unsafe extern "C" fn missed_calls(_: *const abi::Host) -> u64 {
    0
}

/// Returns the structure of a loader that knows its first `size` bytes. The rest is not allocated.
fn host(size: usize) -> *const abi::Host {
    let host = abi::Host {
        size,
        abi: ABI,
        cudnn_version: 91900,
        cudnn_dir: c"/nowhere".as_ptr(),
        name: c"panics".as_ptr(),
        loader: null_mut(),
        next,
        message,
        missed_calls,
        inside: c"".as_ptr(),
        environment: null(),
        cudart_version: 12090,
    };
    shortened(&host, size)
}

/// Returns a copy of the first bytes of a structure, which is never freed.
fn shortened<T>(structure: &T, size: usize) -> *const T {
    assert!(size <= size_of::<T>());
    let copy = Vec::leak(vec![0_u64; size.div_ceil(8)]).as_mut_ptr();
    // SAFETY: both have this size.
    unsafe { copy.cast::<u8>().copy_from_nonoverlapping((&raw const *structure).cast(), size) };
    copy.cast_const().cast()
}

/// Starts a layer as the loader does.
fn started<L: Layer>() -> (c_int, abi::Layer) {
    started_by::<L>(host(size_of::<abi::Host>()), size_of::<abi::Layer>())
}

fn started_by<L: Layer>(host: *const abi::Host, size: usize) -> (c_int, abi::Layer) {
    let mut layer = abi::Layer { size, data: null_mut(), wrap: None, event: None };
    // SAFETY: the host is never freed, and the layer outlives the call.
    let status = unsafe { begin::<L>(host, &raw mut layer) };
    (status, layer)
}

#[test]
fn a_layer_that_panics_at_its_start_stays_off() {
    let (status, layer) = started::<PanicsAtStart>();
    assert!(status != 0 && layer.wrap.is_none() && layer.event.is_none(), "{status} {layer:?}");
    // SAFETY: the layer's reason is a C string.
    assert_eq!(unsafe { CStr::from_ptr(check::<PanicsAtStart>()) }, c"the layer panicked");
}

#[test]
fn a_layer_that_panics_later_changes_no_function() {
    let (status, layer) = started::<PanicsLater>();
    assert_eq!(status, 0);
    let mut function = 0_u8;
    let address: *mut c_void = (&raw mut function).cast();
    // SAFETY: the layer receives its own data and a C string, and does not call the function.
    let wrapped = unsafe { (layer.wrap.unwrap())(layer.data, c"cudnnGetVersion".as_ptr(), address) };
    assert_eq!(wrapped, address);
    let event = abi::Event {
        size: size_of::<abi::Event>(),
        kind: abi::FIRST_CALL,
        status: 0,
        function: c"cudnnGetVersion".as_ptr(),
        library: null(),
        path: null(),
        text: null(),
        duration_ns: 0,
        age_ns: 0,
    };
    // SAFETY: the layer receives its own data, and the event outlives the call.
    unsafe { (layer.event.unwrap())(layer.data, &raw const event) };
}

/// Stores the CUDA version and the layers of its host.
struct ReadsHost;

static READ: Mutex<Option<(Option<u32>, &CStr)>> = Mutex::new(None);

impl Layer for ReadsHost {
    fn begin(host: Host) -> Result<Self, String> {
        assert!(host.environment().is_none());
        *READ.lock().map_err(|error| error.to_string())? = Some((host.cudart_version(), host.inside()));
        Ok(ReadsHost)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        next
    }
}

#[test]
fn a_layer_starts_if_the_loader_has_the_first_fields() {
    let start = |host, layer| (started_by::<ReadsHost>(host, layer).0, READ.lock().unwrap().take());
    let (whole, layer) = (size_of::<abi::Host>(), size_of::<abi::Layer>());
    assert_eq!(start(host(whole), layer), (0, Some((Some(12090), c""))));
    assert_eq!(start(host(abi::Host::MIN_SIZE), layer), (0, Some((None, c""))));
    assert_eq!(start(host(abi::Host::MIN_SIZE - 8), layer), (1, None));
    assert_eq!(start(host(whole), abi::Layer::MIN_SIZE - 8), (1, None));
    assert_eq!(start(null(), layer), (1, None));
}
