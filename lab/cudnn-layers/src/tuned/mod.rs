//! The layer `tuned`, which lets programs choose the engines that were measured as the fastest.
//!
//! Programs query cuDNN's heuristics for engines and try them in order. This layer returns the same engines in a
//! different order: the best ones first, and dangerous ones last. The order comes from a file with a ranking for each
//! graph, which `cudnn-lab tune` measures.
//!
//! | module | purpose |
//! | --- | --- |
//! | `order` | decides the order in which proposals are returned |
//! | `proposals` | reads the proposals of the heuristics, and lets cuDNN fill the program's descriptors in an order |
//! | `remembered` | stores the order for each query |
//! | `query` | finds the ranking for a query of the program, and answers it |
//! | `options` | the files that the environment or the program selects |

mod options;
mod order;
mod proposals;
mod query;
mod remembered;

use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_sys::types::cudnnStatus_t;

use self::query::{STATE, State};
use crate::follow;
use crate::fork::{AtFork, Rank};
use crate::shadow::calls::{self, HeuristicsQuery};
use crate::trial;
use crate::wrappers::{Call, Id, Intercept, Next, Returned, intercept};

pub use self::options::{ONLY_VARIABLE, Options, VARIABLE, configure};

/// Changes the order of the heuristics' proposals.
#[derive(Debug)]
pub struct Tuned(());

static NEXT: Next = Next::new();
static AT_FORK: &[AtFork] = &[AtFork::Inherited(&remembered::QUERIES)];

impl Layer for Tuned {
    fn begin(host: Host) -> Result<Self, String> {
        // Files are read once, before the program can change its directory or rights.
        STATE.begin("tuned", State::new(host, &Options::chosen()?), Rank::Tuned, &AT_FORK)?;
        Ok(Tuned(()))
    }

    fn check() -> Result<(), String> {
        let (choices, problems) = Options::chosen()?.read();
        let nothing = choices.is_empty().then(|| "the files rank no graph".to_owned());
        problems.into_iter().next().or(nothing).map_or(Ok(()), Err)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        // Executions are not wrapped.
        let is_followed = Id::from_name(next.name().to_bytes()).is_some_and(follow::is_followed);
        if is_followed { intercept::<Tuned>(next) } else { next }
    }
}

impl Intercept for Tuned {
    const NEXT: &'static Next = &NEXT;

    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let Some(state) = STATE.get().filter(|_| !calls::makes_variant_pack(call)) else { return next() };
        if let Some(query) = HeuristicsQuery::of(call).filter(|_| !trial::is_running())
            && let Some(recommended) = query::answer(state, &query)
            && let Some(returned) = R::from_status(cudnnStatus_t::CUDNN_STATUS_SUCCESS)
        {
            follow::returned(call, returned.status(), None);
            query::mark(&query, recommended);
            return returned;
        }
        let destruction = calls::before(call);
        let returned = next();
        follow::returned(call, returned.status(), destruction);
        returned
    }
}
