//! Requests wrapped functions from the layers, in one thread at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::link::{CHAIN, Chain, Link};
use crate::builtin::builtin;
use crate::dl::objects::LoadedObjects;
use crate::function::Function;
use crate::resolve::functions::address as cudnn_address;
use crate::sync::primitives::{Backoff, thread_token};
use crate::sync::turn::{Turn, TurnGuard};

/// The thread that holds this turn may start layers and request functions from them.
static TURN: Turn = Turn::new();
/// Layer initialization has started. In a forked child, the parent's thread may never have finished it.
static IS_BEGINNING: AtomicBool = AtomicBool::new(false);

/// Calls that bypassed all layers, or the layers inside the calling layer.
static MISSED_CALLS: AtomicU64 = AtomicU64::new(0);

pub(super) fn missed_calls() -> u64 {
    MISSED_CALLS.load(Ordering::SeqCst)
}

/// Returns the function's address after all layers have wrapped it. Calls `begin` first if the layers have not started.
/// Returns `None` if this call must bypass the layers, because a layer made it while wrapping a function, or because
/// the turn was unavailable for a second, or another thread has waited for its owner in vain.
pub(super) fn wrap(function: Function, address: *mut (), begin: fn() -> Option<&'static Link>) -> Option<*mut ()> {
    if TURN.owner() == thread_token() {
        return None;
    }
    let turn = take_turn().or_else(|| {
        MISSED_CALLS.fetch_add(1, Ordering::SeqCst);
        None
    })?;
    let chain = CHAIN.get().unwrap_or_else(|| {
        let outermost = if IS_BEGINNING.swap(true, Ordering::Relaxed) { None } else { begin() };
        CHAIN.get_or_init(|| Chain(outermost))
    });
    let wrapped = wrap_with_layers(chain.0, function, || Some(address));
    drop(turn);
    wrapped
}

/// Returns the address for calls from this layer towards cuDNN, or `None` if the function is missing from cuDNN.
pub(super) fn address_from(link: Option<&'static Link>, function: Function) -> Option<*mut ()> {
    let find_in_cudnn = || match builtin(function) {
        Some(builtin) => Some(builtin.address),
        None => cudnn_address(function, &mut LoadedObjects::snapshot()).ok(),
    };
    let Some(first) = link else { return find_in_cudnn() };
    if let Some(known) = first.known(function) {
        return Some(known);
    }
    let is_mine = TURN.owner() == thread_token();
    match if is_mine { None } else { take_turn() } {
        None if !is_mine => {
            MISSED_CALLS.fetch_add(1, Ordering::SeqCst);
            find_in_cudnn()
        }
        _turn => wrap_with_layers(link, function, find_in_cudnn),
    }
}

/// Passes the function to all layers that still have to wrap it, innermost first. This thread must hold the turn.
fn wrap_with_layers(
    link: Option<&'static Link>,
    function: Function,
    find_in_cudnn: impl FnOnce() -> Option<*mut ()>,
) -> Option<*mut ()> {
    let mut to_wrap = Vec::new();
    let mut next = link;
    let mut address = loop {
        let Some(link) = next else { break find_in_cudnn()? };
        if let Some(known) = link.known(function) {
            break known;
        }
        to_wrap.push(link);
        next = link.inner;
    };
    for link in to_wrap.into_iter().rev() {
        address = link.wrap(function, address);
    }
    Some(address)
}

/// The token of a thread for which another thread has waited in vain; 0 for none. Nobody waits for it again.
static OVERDUE: AtomicU64 = AtomicU64::new(0);

/// Holds the turn until it is dropped. Threads may wait for the next owner, even if this one was overdue.
struct LayerTurn {
    _turn: TurnGuard<'static>,
}

impl Drop for LayerTurn {
    fn drop(&mut self) {
        OVERDUE.store(0, Ordering::Relaxed);
    }
}

/// Waits for the turn, at most one second.
fn take_turn() -> Option<LayerTurn> {
    let (token, first_owner) = (thread_token(), TURN.owner());
    let mut is_same_owner = true;
    let mut backoff = Backoff::new();
    loop {
        if let Some(turn) = TURN.try_take(token) {
            OVERDUE.store(0, Ordering::Relaxed);
            return Some(LayerTurn { _turn: turn });
        }
        let owner = TURN.owner();
        is_same_owner &= owner == first_owner;
        if owner != 0 && owner == OVERDUE.load(Ordering::Relaxed) {
            return None;
        }
        if !backoff.wait() {
            if is_same_owner {
                OVERDUE.store(owner, Ordering::Relaxed);
            }
            return None;
        }
    }
}
