//! The layer `errata`, which blocks plans that are known to be wrong or slow.
//!
//! Rules select plans by operation, engine, knobs, data types, workspace, GPU and cuDNN release. Finalizing a selected
//! plan returns `CUDNN_STATUS_NOT_SUPPORTED`, so that frameworks try the next engine.
//!
//! | module | purpose |
//! | --- | --- |
//! | `rule` | the rules and the file format |
//! | `blocking` | decides whether a plan is blocked when the program finalizes it |
//! | `options` | the rules that the environment or the program selects |

mod blocking;
mod options;
mod rule;

use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_sys::types::cudnnStatus_t;

use self::blocking::{CHOICES, STATE, State};
use crate::cudnn::Cudnn;
use crate::follow;
use crate::fork::{AtFork, Rank};
use crate::shadow::calls;
use crate::shadow::elements::Kind;
use crate::wrappers::{Call, Id, Intercept, Next, Returned, intercept};

pub use self::options::{Options, VARIABLE, configure};
pub use self::rule::{BlockingRule, BlockingRules};

/// Blocks plans that match a rule.
#[derive(Debug)]
pub struct Errata(());

static NEXT: Next = Next::new();
static AT_FORK: &[AtFork] = &[AtFork::Inherited(CHOICES.table())];

impl Layer for Errata {
    fn begin(host: Host) -> Result<Self, String> {
        let Options { mut rules } = Options::chosen()?;
        let count = rules.len();
        rules.retain(|rule| rule.includes_release(host.cudnn_version()));
        host.info(&format!("{} of {count} rules apply to this release of cuDNN", rules.len()));
        let needs_configuration = rules.iter().any(BlockingRule::needs_configuration);
        let state = State { host, cudnn: Cudnn::new(host), rules, needs_configuration };
        STATE.begin("errata", state, Rank::Errata, &AT_FORK)?;
        Ok(Errata(()))
    }

    fn check() -> Result<(), String> {
        Options::chosen().map(drop)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        let is_needed = STATE.get().is_some_and(|state| !state.rules.is_empty());
        // Executions are not wrapped.
        let is_followed = Id::from_name(next.name().to_bytes()).is_some_and(follow::is_followed);
        if is_needed && is_followed { intercept::<Errata>(next) } else { next }
    }
}

impl Intercept for Errata {
    const NEXT: &'static Next = &NEXT;

    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let Some(state) = STATE.get().filter(|_| !calls::makes_variant_pack(call)) else { return next() };
        let finalizes = call.function == Id::CudnnBackendFinalize;
        let refused = || R::from_status(cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED);
        if finalizes
            && blocking::is_blocked(state, calls::descriptor(call))
            && let Some(refused) = refused()
        {
            return refused;
        }
        let destruction = calls::before(call);
        if let Some(destruction) = &destruction
            && destruction.kind() == Some(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        {
            blocking::forget(state, calls::descriptor(call));
        }
        let returned = next();
        let status = returned.status();
        follow::returned(call, status, destruction);
        if status == Some(cudnnStatus_t::CUDNN_STATUS_SUCCESS) {
            let is_blocked = finalizes && blocking::needs_too_much_workspace(state, calls::descriptor(call));
            succeeded(state, call);
            if is_blocked && let Some(refused) = refused() {
                return refused;
            }
        }
        returned
    }
}

fn succeeded(state: &State, call: &Call<'_>) {
    match call.function {
        Id::CudnnBackendInitialize | Id::CudnnBackendFinalize => blocking::forget(state, calls::descriptor(call)),
        Id::CudnnBackendSetAttribute => {
            if let Some((plan, configuration)) = calls::configured(call) {
                // SAFETY: cuDNN has accepted both descriptors in this call, so they are live.
                unsafe { blocking::configured(state, plan, configuration) };
            }
        }
        _ => {}
    }
}
