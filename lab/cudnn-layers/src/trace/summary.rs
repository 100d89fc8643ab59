//! Summarizes the number and duration of calls by function and by graph, in bounded memory and without locks.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use once_cell::race::OnceBox;

use super::statistics::{Figures, Statistics};
use crate::report::Shown;
use crate::wrappers::Id;

/// Maximum number of graphs that are counted separately.
const GRAPHS: usize = 512;
/// Maximum number of libraries in the summary.
const LIBRARIES: usize = 16;

static FUNCTIONS: [Statistics; Id::NAMES.len()] = [const { Statistics::new() }; Id::NAMES.len()];
static BY_GRAPH: [OnceBox<GraphTotal>; GRAPHS] = [const { OnceBox::new() }; GRAPHS];
static OTHER_GRAPHS: Statistics = Statistics::new();
/// The libraries that were loaded while the layer was active.
static BY_LIBRARY: [OnceBox<LibraryTotal>; LIBRARIES] = [const { OnceBox::new() }; LIBRARIES];
static FAILED_CALLS: AtomicU64 = AtomicU64::new(0);

/// A graph and the call that it was passed to. Never freed.
struct GraphTotal {
    action: &'static str,
    label: Box<str>,
    statistics: Statistics,
}

/// A loaded library. Never freed.
struct LibraryTotal {
    name: String,
    duration: Duration,
    /// The library was loaded before this process was forked.
    is_of_parent: AtomicBool,
}

/// Adds a call.
#[inline]
pub(super) fn add(function: Id, label: Option<&str>, duration: u64, has_failed: bool) {
    if let Some(statistics) = FUNCTIONS.get(function as usize) {
        statistics.add(duration);
    }
    if has_failed {
        FAILED_CALLS.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(label) = label {
        graph(function.name().trim_start_matches("cudnnBackend"), label).add(duration);
    }
}

/// Adds the time that a call took on the device.
pub(super) fn add_measured(function: Id, label: Option<&str>, duration: u64) {
    graph("on the device:", label.unwrap_or(function.name())).add(duration);
}

/// Adds the time to resolve a function.
pub(super) fn add_first_call(function: &[u8], duration: u64) {
    if let Some(statistics) = Id::from_name(function).and_then(|function| FUNCTIONS.get(function as usize)) {
        statistics.add_resolving(duration);
    }
}

/// Adds the time to load a library.
pub(super) fn add_library(name: &str, duration: Duration) {
    let mut library = Box::new(LibraryTotal { name: name.to_owned(), duration, is_of_parent: AtomicBool::new(false) });
    for cell in &BY_LIBRARY {
        match cell.set(library) {
            Ok(()) => return,
            Err(refused) => library = refused,
        }
    }
}

fn graph(action: &'static str, label: &str) -> &'static Statistics {
    let start = (hash(action) ^ hash(label)) as usize % GRAPHS;
    let (before, from) = BY_GRAPH.split_at_checked(start).unwrap_or_default();
    for cell in from.iter().chain(before).take(GRAPHS / 8) {
        let new = || Box::new(GraphTotal { action, label: label.into(), statistics: Statistics::new() });
        let known = cell.get_or_init(new);
        if known.action == action && *known.label == *label {
            return &known.statistics;
        }
    }
    &OTHER_GRAPHS
}

/// Hashes a label eight bytes at a time, because labels are long and every execution needs a lookup.
fn hash(text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let end = rest.iter().fold(text.len() as u64, |end, byte| end << 8 | u64::from(*byte));
    words.iter().map(|word| u64::from_le_bytes(*word)).chain([end]).fold(0, |hash: u64, word| {
        let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        (product >> 64) as u64 ^ product as u64
    })
}

/// Resets all counts, because a forked child inherits the counts of its parent.
pub(super) fn clear() {
    FUNCTIONS.iter().for_each(Statistics::clear);
    OTHER_GRAPHS.clear();
    BY_GRAPH.iter().filter_map(OnceBox::get).for_each(|graph| graph.statistics.clear());
    BY_LIBRARY.iter().filter_map(OnceBox::get).for_each(|library| library.is_of_parent.store(true, Ordering::Relaxed));
    FAILED_CALLS.store(0, Ordering::Relaxed);
}

/// Returns the summary as text, or `None` if no function was called.
pub(super) fn report(title: &str) -> Option<String> {
    let named = |(name, statistics): (&&'static str, &Statistics)| ((*name).to_owned(), statistics.figures());
    let mut functions: Vec<(String, Figures)> = Id::NAMES.iter().zip(&FUNCTIONS).map(named).collect();
    functions.retain(|(_, figures)| figures.calls > 0 || figures.resolving > Duration::ZERO);
    if functions.is_empty() {
        return None;
    }
    let graphs = BY_GRAPH.iter().filter_map(OnceBox::get);
    let mut graphs: Vec<(String, Figures)> =
        graphs.map(|graph| (format!("{} {}", graph.action, graph.label), graph.statistics.figures())).collect();
    graphs.push(("(other graphs)".into(), OTHER_GRAPHS.figures()));
    graphs.retain(|(_, figures)| figures.calls > 0);

    let calls: u64 = functions.iter().map(|(_, figures)| figures.calls).sum();
    let total: Duration = functions.iter().map(|(_, figures)| figures.total).sum();
    let failed = FAILED_CALLS.load(Ordering::Relaxed);
    let mut text = format!("{title}: {calls} calls, {failed} failed, {} in cuDNN\n\n", Shown(total));
    table(&mut text, "function", functions.clone());
    if !graphs.is_empty() {
        text.push('\n');
        table(&mut text, "graph", graphs);
    }
    first_calls(&mut text, functions);
    Some(text)
}

fn table(text: &mut String, title: &str, mut rows: Vec<(String, Figures)>) {
    rows.retain(|(_, figures)| figures.calls > 0);
    rows.sort_by(|(a, x), (b, y)| y.total.cmp(&x.total).then_with(|| a.cmp(b)));
    let _ = writeln!(text, "{:>10} {:>9} {:>9} {:>9} {:>9}  {title}", "calls", "total", "mean", "median", "maximum");
    for (name, figures) in rows {
        let [total, mean, median, maximum] =
            [figures.total, figures.mean, figures.median, figures.maximum].map(|duration| Shown(duration).to_string());
        let _ = writeln!(text, "{:>10} {total:>9} {mean:>9} {median:>9} {maximum:>9}  {name}", figures.calls);
    }
}

/// Lists the cost of first calls: the time to resolve the function, and the extra time compared with a median call.
fn first_calls(text: &mut String, mut functions: Vec<(String, Figures)>) {
    let extra = |figures: &Figures| figures.resolving + figures.first.saturating_sub(figures.median);
    functions.sort_by_key(|(_, figures)| std::cmp::Reverse(extra(figures)));
    let resolving: Duration = functions.iter().map(|(_, figures)| figures.resolving).sum();
    let beyond: Duration = functions.iter().map(|(_, figures)| figures.first.saturating_sub(figures.median)).sum();
    let _ = writeln!(
        text,
        "\nFirst calls of {} functions: {} to resolve, and {} longer in cuDNN than median calls",
        functions.len(),
        Shown(resolving),
        Shown(beyond)
    );
    let _ = writeln!(text, "{:>10} {:>9} {:>9}  function", "resolving", "first", "median");
    for (name, figures) in functions.iter().take(10) {
        let [resolving, first, median] =
            [figures.resolving, figures.first, figures.median].map(|duration| Shown(duration).to_string());
        let _ = writeln!(text, "{resolving:>10} {first:>9} {median:>9}  {name}");
    }
    let libraries = BY_LIBRARY.iter().filter_map(OnceBox::get);
    for library in libraries.filter(|library| !library.is_of_parent.load(Ordering::Relaxed)) {
        let _ = writeln!(text, "{} was loaded in {}", library.name, Shown(library.duration));
    }
}
