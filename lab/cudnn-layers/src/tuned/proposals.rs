//! Reads the proposals of the heuristics, and lets cuDNN fill the program's descriptors in a different order.
//!
//! cuDNN fills the descriptors of an array one after the other. It fills fewer than it announces, because it leaves out
//! proposals without support, and it stops at a descriptor that is finalized already. cuDNN 9.10 and 9.19 do so.

use std::ptr::null_mut;

use cudnn_store::captures::Engine;
use cudnn_sys::types::cudnnStatus_t as Status;

use super::order::{EngineWithKnobs, Order, Proposal};
use crate::cudnn::{Cudnn, LayerDescriptor, UNCLEAR, read};
use crate::engine::{index, knobs, knobs_with_room, with_engine};
use crate::last_error::own_calls;
use crate::shadow::elements::{Kind, Name, Raw, Type};
use crate::trial;

/// More proposals than cuDNN returns. 9.28 returns up to 200.
const MAX_PROPOSALS: usize = 512;

/// Most configurations have fewer knobs, and every descriptor costs time.
const FEW_KNOBS: usize = 8;

const RESULTS: Name = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
const DESCRIPTOR: Type = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
const CONFIGURATION: Kind = Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;

/// Returns the number of proposals that cuDNN announces.
///
/// # Safety
/// The heuristics are finalized and live.
pub(super) unsafe fn announced(cudnn: &Cudnn, heuristics: Raw) -> Result<usize, Status> {
    // SAFETY: guaranteed by the caller.
    let announced = own_calls(cudnn, || unsafe { read::<Raw>(cudnn, heuristics, RESULTS, DESCRIPTOR, &mut []) })?;
    if announced > MAX_PROPOSALS { Err(UNCLEAR) } else { Ok(announced) }
}

/// Returns the announced proposals that cuDNN supports, in its order.
///
/// # Safety
/// The heuristics are finalized and live.
pub(super) unsafe fn proposals(cudnn: &Cudnn, heuristics: Raw, announced: usize) -> Result<Vec<Proposal>, Status> {
    let read_all = || {
        cudnn.with_descriptors(CONFIGURATION, announced, |configurations| {
            let mut raw: Vec<Raw> = configurations.iter().map(LayerDescriptor::raw).collect();
            // SAFETY: guaranteed by the caller.
            let filled = unsafe { read(cudnn, heuristics, RESULTS, DESCRIPTOR, &mut raw) }?;
            // SAFETY: cuDNN has filled these configurations.
            let proposal = |configuration: &LayerDescriptor<'_>| unsafe { proposal(cudnn, configuration.raw()) }.ok();
            Ok(configurations.iter().take(filled).map(proposal).collect())
        })
    };
    own_calls(cudnn, || trial::run_in_other_order(read_all))
}

/// Returns the proposals in the program's descriptors.
///
/// # Safety
/// The descriptors are live, and cuDNN has filled them.
pub(super) unsafe fn filled_proposals(cudnn: &Cudnn, descriptors: &[Raw]) -> Vec<Proposal> {
    // SAFETY: guaranteed by the caller.
    let read_all = || descriptors.iter().map(|filled| unsafe { proposal(cudnn, *filled) }.ok()).collect();
    own_calls(cudnn, || trial::run_in_other_order(read_all))
}

/// Reads a proposal.
///
/// # Safety
/// The configuration is finalized and live.
unsafe fn proposal(cudnn: &Cudnn, configuration: Raw) -> Result<EngineWithKnobs, Status> {
    // SAFETY: guaranteed by the caller.
    let (index, few) =
        unsafe { (with_engine(cudnn, configuration, index)?, knobs_with_room(cudnn, configuration, FEW_KNOBS)?) };
    let knobs = match few {
        Some(knobs) => knobs,
        // SAFETY: as above.
        None => unsafe { knobs(cudnn, configuration) }?,
    };
    Ok(EngineWithKnobs {
        index,
        knobs: knobs.into_iter().map(|(knob, value)| (Engine::knob_name(knob), value)).collect(),
    })
}

/// Lets cuDNN fill descriptors so that the first one becomes the first proposal in this order, and so on. Returns how many were filled, up to the first one that was not.
///
/// # Safety
/// The heuristics are finalized and live, and the descriptors are live.
///
/// # Errors
/// Returns an error if cuDNN refuses the call.
pub(super) unsafe fn fill(cudnn: &Cudnn, heuristics: Raw, order: &Order, descriptors: &[Raw]) -> Result<usize, Status> {
    let len = order.iter().map(|(_, place)| place + 1).max().unwrap_or(0);
    let mut array: Vec<Raw> = vec![null_mut(); len];
    for ((_, place), descriptor) in order.iter().zip(descriptors) {
        *array.get_mut(*place).ok_or(UNCLEAR)? = *descriptor;
    }
    // Proposals that the program does not receive fill descriptors of this layer.
    let spare = Spare::new(cudnn, array.iter().filter(|descriptor| descriptor.is_null()).count())?;
    let empty = array.iter_mut().filter(|descriptor| descriptor.is_null());
    empty.zip(&spare.descriptors).for_each(|(place, descriptor)| *place = *descriptor);
    // SAFETY: guaranteed by the caller.
    let filled = unsafe { read(cudnn, heuristics, RESULTS, DESCRIPTOR, &mut array) };
    spare.destroy();
    let filled = filled?;
    Ok(order.iter().take_while(|(_, place)| *place < filled).count())
}

/// Configurations of this layer. They leak if a callback of the program throws an exception.
struct Spare<'a> {
    cudnn: &'a Cudnn,
    descriptors: Vec<Raw>,
}

impl<'a> Spare<'a> {
    fn new(cudnn: &'a Cudnn, count: usize) -> Result<Self, Status> {
        let mut spare = Spare { cudnn, descriptors: Vec::with_capacity(count) };
        if count == 0 {
            return Ok(spare);
        }
        let created = own_calls(cudnn, || {
            (0..count).try_for_each(|_| {
                cudnn.new_descriptor(CONFIGURATION, |_| Ok(())).map(|created| spare.descriptors.push(created))
            })
        });
        match created {
            Ok(()) => Ok(spare),
            Err(status) => {
                spare.destroy();
                Err(status)
            }
        }
    }

    fn destroy(self) {
        if !self.descriptors.is_empty() {
            own_calls(self.cudnn, || self.descriptors.iter().for_each(|descriptor| self.cudnn.destroy(*descriptor)));
        }
    }
}
