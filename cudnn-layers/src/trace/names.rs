//! The texts of enums' values. A type may have hundreds of names, so each is looked up once. Bounded memory, no locks.

use std::fmt::Debug;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::record::{INNER_STRING, Record, debug_steps};
use crate::step::{Sink, Step};

/// The values that are remembered.
const SIZE: usize = 2048;
/// The places that a value may have.
const WAYS: usize = 8;
/// The longest text.
pub(super) const LIMIT: usize = 120;

static NAMES: [AtomicPtr<Name>; SIZE] = [const { AtomicPtr::new(null_mut()) }; SIZE];

/// A value of a type, and its text. Never freed.
struct Name {
    ty: usize,
    value: u64,
    steps: Vec<Step>,
}

/// Adds the text of a value to a string in the inner object. `ty` stands for its type.
pub(super) fn put<S: Sink>(record: &mut Record<S>, ty: usize, value: u64, shown: &dyn Debug) {
    let hash = (ty as u64 ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 40;
    let places = (0..WAYS).filter_map(|way| NAMES.get((hash as usize + way) % SIZE));
    for place in places {
        // SAFETY: what a place has is never freed.
        match unsafe { place.load(Ordering::Acquire).as_ref() } {
            Some(name) if name.ty == ty && name.value == value => return record.extend(&name.steps),
            Some(_) => {}
            None => {
                let steps = debug_steps(shown, LIMIT);
                record.extend(&steps);
                let new = Box::into_raw(Box::new(Name { ty, value, steps }));
                if place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    // SAFETY: it was made above, and nobody else has it.
                    drop(unsafe { Box::from_raw(new) });
                }
                return;
            }
        }
    }
    record.debug(shown, INNER_STRING, LIMIT);
}
