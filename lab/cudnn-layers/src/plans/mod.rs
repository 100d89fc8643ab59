//! The layer `plans`, which caches compiled execution plans on disk and restores them in later processes.
//!
//! Compiling the code of a plan takes 40 to 650 ms in every process. The layer stores the finished plan as JSON, and
//! later processes restore it within milliseconds. The program sees no difference.
//!
//! | module | purpose |
//! | --- | --- |
//! | `calls` | handles the program's calls |
//! | `finalize` | restores a plan, or lets cuDNN build it and then caches it |
//! | `key` | builds the cache key; fails if an input is unknown, and the plan is then built without the cache |
//! | `configuration`, `device`, `environment`, `variables` | parts of the key that come from cuDNN or the system |
//! | `plan_json` | reads the code, device and graph in a plan's JSON |
//! | `graph_json` | reads the graph of an engine from cuDNN |
//! | `recorded` | parses a key, so that the plan can be built again elsewhere |
//! | `restored` | maps the program's descriptors to restored plans |

mod bytes;
mod calls;
mod configuration;
mod device;
mod environment;
mod finalize;
mod graph_json;
mod key;
mod options;
mod plan_json;
mod recorded;
mod restored;
mod state;
mod variables;

use std::ffi::CStr;

use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_os::environment::is_secure_execution;
use cudnn_store::plans::{NO_DIRECTORY, Store};
use once_cell::race::OnceBox;

use self::state::{STATE, State};
use self::variables::Variables;
use crate::cudnn::Cudnn;
use crate::follow;
use crate::fork::{AtFork, Rank};
use crate::wrappers::{Id, intercept};

pub use self::options::{Options, configure};
pub use self::recorded::{Recorded, device_name, environment};
pub use self::variables::{VariableUse, variable_use};

/// Caches and restores execution plans.
#[derive(Debug)]
pub struct Plans(());

/// The first release that can describe a device and a graph as JSON.
const FIRST_RELEASE: u32 = 91_000;

impl Layer for Plans {
    fn begin(host: Host) -> Result<Self, String> {
        if is_secure_execution() {
            return Err("plans from a less privileged user are not loaded in secure-execution mode".into());
        }
        if host.cudnn_version() < FIRST_RELEASE {
            return Err("cuDNN 9.10 or newer is required: older releases do not describe graphs as JSON".into());
        }
        // A layer below could change the graph, and the plan would be cached under the key of the original graph.
        let mut inside = host.inside().to_bytes().split(|byte| *byte == b'\n').filter(|name| !name.is_empty());
        // These layers of this library are harmless. Each may occur once with its original name, because a different
        // library may also have a layer called "trace".
        let mut harmless = [crate::trace::name(), crate::validate::name()].map(|name| name.map(CStr::to_bytes));
        let is_other = |name: &&[u8]| match harmless.iter_mut().find(|known| **known == Some(*name)) {
            Some(known) => known.take().is_none(),
            None => true,
        };
        if let Some(name) = inside.find(is_other) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(
                "the layer {name} runs below plans and may change graphs; list it before plans in CUDNN_LAYERS"
            ));
        }
        // Do not read files here, because other threads wait for the layer to start.
        let (options, problems) = Options::chosen();
        problems.iter().for_each(|problem| host.error(problem));
        let state = State {
            host,
            cudnn: Cudnn::new(host),
            variables: Variables::at_load(host),
            settings: options.store,
            prepared: OnceBox::new(),
        };
        STATE.begin("plans", state, Rank::Plans, &AT_FORK)?;
        Ok(Plans(()))
    }

    fn check() -> Result<(), String> {
        let (options, mut problems) = Options::chosen();
        let (store, unusable) = Store::open(&options.store);
        // Packs work without a directory.
        let has_pack = store.packs().next().is_some();
        problems.retain(|problem| !(has_pack && problem == NO_DIRECTORY));
        match problems.iter().chain(&unusable).next() {
            Some(problem) => Err(problem.clone()),
            None => Ok(()),
        }
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        let uses_descriptors = Id::from_name(next.name().to_bytes()).is_some_and(follow::uses_descriptors);
        if uses_descriptors { intercept::<Plans>(next) } else { next }
    }
}

static AT_FORK: &[AtFork] =
    &[AtFork::Inherited(finalize::CONFIGURATIONS.table()), AtFork::Inherited(finalize::PROBLEMS.lock())];

#[cfg(test)]
mod tests {
    use cudnn_store::plans::Settings;

    use super::*;

    #[test]
    fn a_check_does_not_use_up_the_options_of_the_program() {
        configure(Options { store: Settings { dir: Some("relative".into()), ..Settings::default() } });
        for _ in 0..2 {
            let reason = Plans::check().err().unwrap_or_default();
            assert!(reason.contains("relative is not an absolute path"), "{reason}");
        }
    }
}
