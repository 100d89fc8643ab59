//! Recognizes plans that a program serializes as JSON and restores.

use std::collections::BTreeMap;

use crate::lock::{HeldAtFork, Lock};
use crate::program_memory::{accepted, accepted_word};
use crate::shadow::calls;
use crate::shadow::content::Content;
use crate::shadow::elements::Name;
use crate::wrappers::{Call, Id};
use crate::written::hash;

/// The plans that the program has serialized, by a hash of the JSON.
pub(crate) struct SerializedPlans<T>(Lock<BTreeMap<u64, T>>);

/// The maximum number of plans. Further ones are ignored.
const MAX_PLANS: usize = 4096;

impl<T: Clone + Send + 'static> SerializedPlans<T> {
    pub(crate) const fn new() -> Self {
        SerializedPlans(Lock::keeping(BTreeMap::new()))
    }

    /// Stores a plan with the JSON that the program has read.
    pub(crate) fn add(&self, json: &[u8], plan: T) {
        let key = key(json);
        // The old value is dropped after the lock is released.
        let plans = self.0.lock().filter(|plans| plans.len() < MAX_PLANS);
        let _former = plans.and_then(|mut plans| plans.insert(key, plan));
    }

    /// Returns the plan from which a plan was restored.
    pub(crate) fn origin(&self, restored: &Content) -> Option<T> {
        let key = key(restored.elements(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)?.as_slice());
        self.0.lock()?.get(&key).cloned()
    }

    pub(crate) const fn lock(&'static self) -> &'static dyn HeldAtFork {
        &self.0
    }
}

/// Returns the JSON of a plan if this successful call has read it.
pub(crate) fn json_read<'a>(call: &'a Call<'_>) -> Option<&'a [u8]> {
    let [_, name, _, requested, count, elements] = call.bits();
    let name = Name(calls::number(name));
    if call.function != Id::CudnnBackendGetAttribute || name != Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION {
        return None;
    }
    // SAFETY: cuDNN has written the number if the program has passed an address.
    let count = unsafe { accepted_word(count) }.and_then(|count| usize::try_from(count.cast_signed()).ok())?;
    // SAFETY: cuDNN has written this number of characters.
    let json = || unsafe { accepted(elements, count) };
    (elements != 0 && usize::try_from(requested.cast_signed()).is_ok_and(|room| room >= count)).then(json)
}

/// Returns a hash of a text up to the first NUL.
fn key(text: &[u8]) -> u64 {
    hash(&text.split(|byte| *byte == 0).next())
}
