//! The layer `plans`: keeps the plans that cuDNN compiles, and restores them in later processes.
//!
//! To finalize an execution plan whose code is compiled at run time takes cuDNN 40 to 650 ms, in each process again. The
//! layer reads the finished plan as JSON and keeps it in a store; another process that asks for the same plan gets it in
//! some milliseconds. The program sees no difference.
//!
//! | module | |
//! | --- | --- |
//! | `calls` | stands in front of cuDNN's functions |
//! | `finalize` | looks a plan up, restores it, or lets cuDNN build it and keeps it |
//! | `key` | all that a plan depends on; what is not understood has no key |
//! | `configuration`, `device`, `environment` | parts of the key that cuDNN or the system states |
//! | `recorded` | reads a key back, to plan again elsewhere |
//! | `restored` | which plan stands in for which descriptor of the program |
//! | `last_error` | keeps the calls of this layer out of the program's error texts |
//!
//! In a Rust program:
//!
//! ```no_run
//! # mod cudnn_loader { pub mod layers { pub fn add<L>(_: &str) -> Result<(), std::fmt::Error> { Ok(()) } } }
//! use cudnn_layers::plans::{self, Plans};
//!
//! let (mut options, _) = plans::Options::from_environment();
//! options.store.dir = Some("/var/cache/my-service/plans".into());
//! plans::configure(options);
//! cudnn_loader::layers::add::<Plans>("plans")?;
//! # Ok::<(), std::fmt::Error>(())
//! ```

mod calls;
mod configuration;
mod cudnn;
mod device;
mod environment;
mod finalize;
mod key;
mod last_error;
mod options;
mod plan_json;
mod recorded;
mod restored;
mod state;
mod statistics;

use std::ffi::{CStr, c_void};
use std::path::Path;

use cudnn_layer_api::{Host, Layer};
use cudnn_plan_store::Store;

use self::cudnn::Cudnn;
use self::state::{STATE, State};
use crate::platform::{fork, process};
use crate::report::{open, process_name};

pub use self::options::{Options, configure};
pub use self::recorded::{Elements, Recorded, RecordedAttribute, RecordedDescriptor, device_name, environment};
pub use crate::report::Destination;

/// The layer.
#[derive(Debug)]
pub struct Plans(());

/// The first release that describes its devices.
const FIRST_RELEASE: u32 = 90_800;

// SAFETY: the functions of `calls` have the signatures of those that they call.
unsafe impl Layer for Plans {
    fn begin(host: Host) -> Result<Self, String> {
        if process::is_secure_execution() {
            return Err("plans that another user may have chosen are not loaded in secure-execution mode".into());
        }
        if host.cudnn_version() < FIRST_RELEASE {
            return Err("it needs cuDNN 9.8 or newer: older releases do not describe their devices".into());
        }
        // It could change a graph behind this layer, which would keep the plan for the graph that the program has asked for.
        let mut inside = host.inside().to_bytes().split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
        if let Some(name) = inside.find(|name| *name != b"trace") {
            let name = String::from_utf8_lossy(name);
            return Err(format!("the layer {name} is inside of it, and may change graphs: name it before `plans`"));
        }
        // SAFETY: the bytes are a path of this system.
        let dir = unsafe { std::ffi::OsStr::from_encoded_bytes_unchecked(host.cudnn_dir().to_bytes()) };
        let variables = environment::variables();
        let environment = environment::describe(host.cudnn_version(), Path::new(dir), &variables)?;
        let (options, problems) = Options::chosen();
        let (store, more) = Store::open(&options.store);
        for problem in problems.iter().chain(&more) {
            host.error(&problem.to_string());
        }
        if store.dir().is_none() && store.packs().next().is_none() {
            return Err("it has no place for plans".into());
        }
        let state = State { host, cudnn: Cudnn::new(host), store, environment, variables, summary: options.summary };
        if STATE.set(state).is_err() {
            return Err("plans is on already".into());
        }
        fork::call_at_forks(before_fork, after_fork, in_child);
        process::call_at_exit(write_summary);
        Ok(Plans(()))
    }

    fn wrap(&self, function: &CStr, next: *const c_void) -> *const c_void {
        calls::function(function).unwrap_or(next)
    }
}

unsafe extern "C" fn before_fork() {
    finalize::CONFIGURATIONS.hold_for_fork();
    device::DESCRIPTIONS.hold_for_fork();
    statistics::NOT_KEPT.hold_for_fork();
}

unsafe extern "C" fn after_fork() {
    finalize::CONFIGURATIONS.release_after_fork();
    device::DESCRIPTIONS.release_after_fork();
    statistics::NOT_KEPT.release_after_fork();
}

unsafe extern "C" fn in_child() {
    finalize::CONFIGURATIONS.release_in_child(None);
    device::DESCRIPTIONS.release_in_child(None);
    statistics::NOT_KEPT.release_in_child(None);
    statistics::clear();
}

/// When the process exits.
extern "C" fn write_summary() {
    let Some(state) = STATE.get() else { return };
    let Some(destination) = &state.summary else { return };
    let title = format!("cudnn-plans of process {}, {}", process::id(), process_name(state.host));
    let text = statistics::report(&title);
    let written = open(destination).and_then(|file| file.write(text.as_bytes()).map_err(|error| error.to_string()));
    if let Err(reason) = written {
        state.host.error(&format!("writes no summary: {reason}"));
    }
}
