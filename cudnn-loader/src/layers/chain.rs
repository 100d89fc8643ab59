//! The layers that are on, and what each returned for each function. Layers begin innermost first, so each can call
//! cuDNN through those inside it.

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use cudnn_layer_api::{ENTRY_POINT, abi};
use cudnn_probe::layers::marker;
use cudnn_probe::{exports, shown_path};

use super::requests::{self, Request, Source};
use super::{events, host};
use crate::builtin::builtin;
use crate::dl;
use crate::function::Function;
use crate::resolve::libraries;
use crate::sync::once::RaceOnce;
use crate::sync::primitives::{Backoff, thread_token};
use crate::sync::turn::{Turn, TurnGuard};

/// A layer that is on. Never freed: the program may be inside its functions.
pub(super) struct Link {
    pub(super) name: CString,
    pub(super) path: Option<PathBuf>,
    layer: abi::Layer,
    /// Its entry point.
    begin: abi::Begin,
    /// The next layer towards cuDNN.
    pub(super) inner: Option<&'static Link>,
    /// What the layer returned for each function; null where it has not been asked.
    wrapped: Box<[AtomicPtr<()>]>,
}

// SAFETY: a layer's functions may be called in any thread.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

/// The outermost layer, once all have begun.
struct Chain(Option<&'static Link>);

static CHAIN: RaceOnce<Chain> = RaceOnce::new();
/// Layers begin, and are asked for functions, in the thread that has this.
static TURN: Turn = Turn::new();
/// Layers have begun to begin. In a child of a fork this may be all that the parent's thread got to.
static IS_BEGINNING: AtomicBool = AtomicBool::new(false);

/// Calls that went past the layers, or past those inside of the one that made the call.
static MISSED_CALLS: AtomicU64 = AtomicU64::new(0);

pub(super) fn missed_calls() -> u64 {
    MISSED_CALLS.load(Ordering::SeqCst)
}

pub(super) fn has_begun() -> bool {
    CHAIN.get().is_some()
}

/// It is certain that no layer is on.
pub(super) fn is_empty() -> bool {
    CHAIN.get().is_some_and(|chain| chain.0.is_none())
}

pub(super) fn stay_empty() {
    CHAIN.get_or_init(|| Chain(None));
}

/// The layers that are on, the outermost first.
pub(super) fn links() -> impl Iterator<Item = &'static Link> {
    std::iter::successors(CHAIN.get().and_then(|chain| chain.0), |link| link.inner)
}

/// The address that all layers give the function, after they have begun. `None` if this call must do without layers: it
/// comes from a layer that is being asked, or another thread has been busy with layers for a second.
pub(super) fn wrap(function: Function, address: *mut ()) -> Option<*mut ()> {
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
    // Without the turn: a layer's events may come from this thread at once.
    events::pass_earlier();
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

impl Link {
    fn known(&self, function: Function) -> Option<*mut ()> {
        let known = self.wrapped.get(function as usize)?.load(Ordering::Acquire);
        (!known.is_null()).then_some(known)
    }

    fn ask(&self, function: Function, next: *mut ()) -> *mut () {
        let asked: *mut () = self.layer.wrap.map_or(null_mut(), |wrap| {
            // SAFETY: the layer's function, called as the header describes, with a string and cuDNN's or a layer's
            // function of that name.
            unsafe { wrap(self.layer.data, function.symbol().as_ptr(), next.cast()) }.cast()
        });
        let wrapped = if asked.is_null() { next } else { asked };
        if let Some(cell) = self.wrapped.get(function as usize) {
            cell.store(wrapped, Ordering::Release);
        }
        wrapped
    }

    pub(super) fn pass(&self, event: &abi::Event) {
        if let Some(pass) = self.layer.event {
            // SAFETY: the layer's function; the event and its strings live as long as the call.
            unsafe { pass(self.layer.data, event) };
        }
    }
}

/// Begins all requested layers, the innermost first. Returns the outermost that is on.
fn begin() -> Option<&'static Link> {
    let mut outermost = None;
    for Request { name, source } in requests::take().into_iter().rev() {
        let begun = match source {
            Source::Program(begin) => begin_one(&name, None, begin, outermost),
            Source::Files(files) => begin_first(&name, &files, outermost),
            Source::None(reason) => Err(reason),
        };
        match begun {
            Ok(link) => outermost = Some(link),
            Err(reason) => host::report_failure(&name, &reason),
        }
    }
    outermost
}

/// Begins the layer from the first of these files that has it.
fn begin_first(name: &CStr, files: &[PathBuf], inner: Option<&'static Link>) -> Result<&'static Link, String> {
    let mut reasons = Vec::new();
    for path in files {
        match open(name, path).and_then(|begin| begin_one(name, Some(path), begin, inner)) {
            Ok(link) => return Ok(link),
            Err(reason) => reasons.push(format!("{}: {reason}", shown_path(path))),
        }
    }
    Err(reasons.join("; "))
}

/// Loads a layer's file.
fn open(name: &CStr, path: &Path) -> Result<abi::Begin, String> {
    // ld.so maps a truncated file and ends the process; and the constructors of another library must not run.
    match exports(path, &["cudnnLayerBegin"]) {
        Ok(found) if found == [true] => {}
        Ok(_) => return Err(format!("it does not export {}", ENTRY_POINT.to_string_lossy())),
        Err(error) => return Err(error.to_string()),
    }
    let library = dl::open(path).map_err(|error| error.message)?;
    let marker = marker(&name.to_string_lossy(), path).and_then(|marker| CString::new(marker).ok());
    if marker.is_some_and(|marker| dl::symbol(&library, &marker).is_none()) {
        return Err("it has no layer of this name".into());
    }
    let begin = dl::symbol(&library, ENTRY_POINT)
        .ok_or_else(|| format!("it does not export {}", ENTRY_POINT.to_string_lossy()))?;
    // SAFETY: a library that exports this name is a layer, whose function has this type.
    Ok(unsafe { std::mem::transmute::<*mut c_void, abi::Begin>(begin) })
}

fn begin_one(
    name: &CStr,
    path: Option<&Path>,
    begin: abi::Begin,
    inner: Option<&'static Link>,
) -> Result<&'static Link, String> {
    /// Room for a layer that knows more fields than this loader: it may write all of them.
    #[repr(C)]
    struct Room {
        layer: abi::Layer,
        more: [usize; 60],
    }
    // Its functions would call themselves. A library that has several layers gets each by its name.
    let has_several = path.is_some_and(|path| marker(&name.to_string_lossy(), path).is_some());
    let is_same = |link: &&Link| std::ptr::fn_addr_eq(link.begin, begin) && (!has_several || *link.name == *name);
    if std::iter::successors(inner, |link| link.inner).any(|link| is_same(&link)) {
        return Err("it is listed twice".into());
    }
    let host = host::new(name, inner).ok_or("cuDNN is not loaded")?;
    let layer = abi::Layer { size: size_of::<abi::Layer>(), data: null_mut(), wrap: None, event: None };
    let mut room = Room { layer, more: [0; 60] };
    // SAFETY: a layer's entry point, called as the header describes; the host is never freed, the room lives as long as
    // the call.
    let refused = unsafe { begin(host, (&raw mut room).cast()) };
    if refused != 0 {
        return Err(format!("it refused to begin ({refused})"));
    }
    Ok(Box::leak(Box::new(Link {
        name: name.to_owned(),
        path: path.map(Path::to_owned),
        layer: room.layer,
        begin,
        inner,
        wrapped: Function::ALL.iter().map(|_| AtomicPtr::new(null_mut())).collect(),
    })))
}
