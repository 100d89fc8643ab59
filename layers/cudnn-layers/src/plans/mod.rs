//! The layer `plans`: keeps the plans that cuDNN compiles, and restores them in later processes.
//!
//! To finalize an execution plan whose code is compiled at run time takes cuDNN 40 to 650 ms, in each process again.
//! The layer reads the finished plan as JSON and keeps it in a store; another process that asks for the same plan gets
//! it in some milliseconds. The program sees no difference.
//!
//! | module | |
//! | --- | --- |
//! | `calls` | stands in front of cuDNN's functions |
//! | `finalize` | looks a plan up, restores it, or lets cuDNN build it and keeps it |
//! | `key` | all that a plan depends on; what is not understood has no key |
//! | `configuration`, `device`, `environment`, `variables` | parts of the key that cuDNN or the system states |
//! | `plan_json`, `stated_graph` | what cuDNN states of a plan: its code, its device and its graph |
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
mod stated_graph;
mod statistics;
mod variables;

use std::ffi::{CStr, c_void};

use cudnn_layer_api::{Host, Layer};
use cudnn_os::environment::is_secure_execution;
use cudnn_os::exit::call_at_exit;
use cudnn_os::fork;
use once_cell::race::OnceBox;

use self::cudnn::Cudnn;
use self::state::{STATE, State};
use self::variables::Variables;
use crate::report::{keep_working_dir, open, process_name};

pub use self::options::{Options, configure};
pub use self::recorded::{Elements, Recorded, RecordedAttribute, RecordedDescriptor, device_name, environment};
pub use self::variables::{VariableUse, variable_use};
pub use crate::report::Destination;

/// The layer.
#[derive(Debug)]
pub struct Plans(());

/// The first release that describes its devices.
const FIRST_RELEASE: u32 = 90_800;

// SAFETY: the functions of `calls` have the signatures of those that they call.
unsafe impl Layer for Plans {
    fn begin(host: Host) -> Result<Self, String> {
        keep_working_dir();
        if is_secure_execution() {
            return Err("plans that another user may have chosen are not loaded in secure-execution mode".into());
        }
        if host.cudnn_version() < FIRST_RELEASE {
            return Err("it needs cuDNN 9.8 or newer: older releases do not describe their devices".into());
        }
        // It could change a graph behind this layer, which would keep the plan for the graph that the program has asked
        // for.
        let mut inside = host.inside().to_bytes().split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
        // This library's own trace changes nothing; another library's layer may have its name.
        let trace = crate::trace::name().map(CStr::to_bytes);
        let first = inside.next();
        if let Some(name) = inside.next().or(first.filter(|name| Some(*name) != trace)) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(
                "the layer {name} runs below plans and may change graphs; list it before plans in CUDNN_LAYERS"
            ));
        }
        // Nothing here reads files of cuDNN or of the store: other threads wait for this, and not for long.
        let (options, problems) = Options::chosen();
        problems.iter().for_each(|problem| host.error(&problem.to_string()));
        let state = State {
            host,
            cudnn: Cudnn::new(host),
            variables: Variables::at_load(host),
            settings: options.store,
            summary: options.summary,
            prepared: OnceBox::new(),
        };
        if STATE.set(state).is_err() {
            return Err("plans is on already".into());
        }
        fork::call_at_forks(before_fork, after_fork, in_child);
        call_at_exit(write_summary);
        Ok(Plans(()))
    }

    fn wrap(&self, function: &CStr, next: *const c_void) -> *const c_void {
        calls::function(function).unwrap_or(next)
    }
}

unsafe extern "C" fn before_fork() {
    finalize::CONFIGURATIONS.hold_for_fork();
    statistics::NOT_KEPT.hold_for_fork();
}

unsafe extern "C" fn after_fork() {
    finalize::CONFIGURATIONS.release_after_fork();
    statistics::NOT_KEPT.release_after_fork();
}

unsafe extern "C" fn in_child() {
    finalize::CONFIGURATIONS.release_in_child(None);
    statistics::NOT_KEPT.release_in_child(None);
    statistics::clear();
}

/// When the process exits.
extern "C" fn write_summary() {
    let Some(state) = STATE.get() else { return };
    let Some(destination) = &state.summary else { return };
    let title = format!("cudnn-plans of process {}, {}", std::process::id(), process_name(state.host));
    let text = statistics::report(&title);
    let written = open(destination).and_then(|file| file.write(text.as_bytes()).map_err(|error| error.to_string()));
    if let Err(reason) = written {
        state.host.error(&format!("writes no summary: {reason}"));
    }
}
