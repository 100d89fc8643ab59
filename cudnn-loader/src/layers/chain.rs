//! Asks the layers for the functions to call, one thread at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::link::{CHAIN, Chain, Link};
use crate::builtin::builtin;
use crate::function::Function;
use crate::resolve::libraries;
use crate::sync::primitives::{Backoff, thread_token};
use crate::sync::turn::{Turn, TurnGuard};

/// Layers begin, and are asked for functions, in the thread that has this.
static TURN: Turn = Turn::new();
/// Layers have begun to begin. In a child of a fork this may be all that the parent's thread got to.
static IS_BEGINNING: AtomicBool = AtomicBool::new(false);

/// Calls that went past the layers, or past those inside of the one that made the call.
static MISSED_CALLS: AtomicU64 = AtomicU64::new(0);

pub(super) fn missed_calls() -> u64 {
    MISSED_CALLS.load(Ordering::SeqCst)
}

/// Returns the address that all layers give the function, and calls `begin` first if they have not begun. `None` if this
/// call must do without layers: it comes from a layer that is being asked, or another thread has been busy with layers
/// for a second.
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
    let wrapped = asked(chain.0, function, || Some(address));
    drop(turn);
    wrapped
}

/// The address of a function from this layer on towards cuDNN. `None` if cuDNN does not have it.
pub(super) fn address_from(link: Option<&'static Link>, function: Function) -> Option<*mut ()> {
    let cudnns = || match builtin(function) {
        Some(builtin) => Some(builtin.address),
        None => libraries::address(function).ok(),
    };
    let Some(first) = link else { return cudnns() };
    if let Some(known) = first.known(function) {
        return Some(known);
    }
    let is_mine = TURN.owner() == thread_token();
    match if is_mine { None } else { take_turn() } {
        None if !is_mine => {
            MISSED_CALLS.fetch_add(1, Ordering::SeqCst);
            cudnns()
        }
        _turn => asked(link, function, cudnns),
    }
}

/// Asks each layer that has not been asked yet, the innermost first. This thread has the turn.
fn asked(link: Option<&'static Link>, function: Function, cudnns: impl FnOnce() -> Option<*mut ()>) -> Option<*mut ()> {
    let mut to_ask = Vec::new();
    let mut next = link;
    let mut address = loop {
        let Some(link) = next else { break cudnns()? };
        if let Some(known) = link.known(function) {
            break known;
        }
        to_ask.push(link);
        next = link.inner;
    };
    for link in to_ask.into_iter().rev() {
        address = link.ask(function, address);
    }
    Some(address)
}

/// Waits for the turn, but not for longer than a second.
fn take_turn() -> Option<TurnGuard<'static>> {
    let token = thread_token();
    let mut backoff = Backoff::new();
    loop {
        if let Some(turn) = TURN.try_take(token) {
            return Some(turn);
        }
        if !backoff.wait() {
            return None;
        }
    }
}
