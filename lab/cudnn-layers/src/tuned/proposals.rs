//! Reads the proposals of the heuristics, and lets cuDNN fill the program's descriptors in a different order.
//!
//! cuDNN fills the descriptors of an array one by one. It may fill fewer than it announces, because it omits proposals
//! without support, and stops at a descriptor that is already finalized (observed with 9.10 and 9.19).

use std::ptr::null_mut;

use cudnn_store::captures::Engine;
use cudnn_store::choices::MAX_PROPOSALS;
use cudnn_sys::types::cudnnStatus_t as Status;

use super::order::{EngineWithKnobs, Order, Proposal, filled_places};
use crate::cudnn::{Cudnn, Descriptor, UNCLEAR};
use crate::engine::{index, knobs, knobs_with_room, with_engine};
use crate::last_error::own_calls;
use crate::shadow::elements::{Kind, Name, Raw, Type};
use crate::trial;

/// Most configurations have fewer knobs, and every descriptor costs time.
const FEW_KNOBS: usize = 8;

const RESULTS: Name = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
const DESCRIPTOR: Type = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
const CONFIGURATION: Kind = Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;

pub(super) fn announced(heuristics: &Descriptor<'_>) -> Result<usize, Status> {
    let announced = own_calls(heuristics.cudnn, || heuristics.read::<Raw>(RESULTS, DESCRIPTOR, &mut []))?;
    if announced > MAX_PROPOSALS { Err(UNCLEAR) } else { Ok(announced) }
}

/// Returns the announced proposals that cuDNN supports, in its order.
pub(super) fn proposals(heuristics: &Descriptor<'_>, announced: usize) -> Result<Vec<Proposal>, Status> {
    let read_all = || {
        heuristics.with_children(RESULTS, CONFIGURATION, announced, |configurations| {
            Ok(configurations.iter().map(|configuration| proposal(configuration).ok()).collect())
        })
    };
    own_calls(heuristics.cudnn, || trial::run_in_other_order(read_all))
}

/// Returns the proposals in the program's descriptors.
///
/// # Safety
/// The descriptors are live, and cuDNN has filled them.
pub(super) unsafe fn filled_proposals(cudnn: &Cudnn, descriptors: &[Raw]) -> Vec<Proposal> {
    // SAFETY: guaranteed by the caller.
    let read = |filled: &Raw| proposal(&unsafe { cudnn.descriptor(*filled) }).ok();
    own_calls(cudnn, || trial::run_in_other_order(|| descriptors.iter().map(read).collect()))
}

fn proposal(configuration: &Descriptor<'_>) -> Result<EngineWithKnobs, Status> {
    let index = with_engine(configuration, index)?;
    let knobs = match knobs_with_room(configuration, FEW_KNOBS)? {
        Some(knobs) => knobs,
        None => knobs(configuration)?,
    };
    Ok(EngineWithKnobs {
        index,
        knobs: knobs.into_iter().map(|(knob, value)| (Engine::knob_name(knob), value)).collect(),
    })
}

/// Lets cuDNN fill descriptors so that the first one becomes the first proposal in this order, and so on. Returns the
/// number of proposals, up to the last one in the order.
///
/// # Safety
/// The descriptors are live.
pub(super) unsafe fn fill(heuristics: &Descriptor<'_>, order: &Order, descriptors: &[Raw]) -> Result<usize, Status> {
    let mut array: Vec<Raw> = vec![null_mut(); filled_places(order)];
    for ((_, place), descriptor) in order.iter().zip(descriptors) {
        *array.get_mut(*place).ok_or(UNCLEAR)? = *descriptor;
    }
    // Proposals that the program does not receive fill descriptors of this layer.
    let missing = array.iter().filter(|descriptor| descriptor.is_null()).count();
    heuristics.cudnn.with_descriptors(CONFIGURATION, missing, |spare| {
        let empty = array.iter_mut().filter(|descriptor| descriptor.is_null());
        empty.zip(spare).for_each(|(place, descriptor)| *place = descriptor.raw());
        heuristics.read(RESULTS, DESCRIPTOR, &mut array)
    })
}
