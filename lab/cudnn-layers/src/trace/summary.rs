//! Summarizes the number and duration of calls by function and by graph, in bounded memory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::statistics::Statistics;
use crate::lock::Lock;
use crate::report::Shown;
use crate::wrappers::Id;

const MAX_GRAPHS: usize = 512;

pub(super) static SUMMARY: Lock<Summary> = Lock::keeping(Summary::new());

#[derive(Default)]
pub(super) struct Summary {
    functions: BTreeMap<Id, Statistics>,
    graphs: BTreeMap<Id, BTreeMap<Box<str>, Statistics>>,
    graph_count: usize,
    other_graphs: Statistics,
    libraries: Vec<(String, Duration)>,
    failed_calls: u64,
}

pub(super) fn add(function: Id, label: Option<&str>, duration: u64, has_failed: bool) {
    let Some(mut summary) = SUMMARY.lock() else { return };
    summary.functions.entry(function).or_default().add(duration);
    summary.failed_calls += u64::from(has_failed);
    if let Some(label) = label {
        summary.graph(function, label).add(duration);
    }
}

pub(super) fn add_library(name: String, duration: Duration) {
    if let Some(mut summary) = SUMMARY.lock() {
        summary.libraries.push((name, duration));
    }
}

/// Returns the summary as text, or `None` if no function was called.
pub(super) fn report(title: &str) -> Option<String> {
    let Summary { functions, graphs, other_graphs, libraries, failed_calls, .. } =
        std::mem::take(&mut *SUMMARY.lock()?);
    let calls: u64 = functions.values().map(Statistics::calls).sum();
    if calls == 0 {
        return None;
    }
    let total = Duration::from_nanos(functions.values().map(|statistics| statistics.total).sum());
    let mut text = format!("{title}: {calls} calls, {failed_calls} failed, {} in cuDNN\n\n", Shown(total));
    table(
        &mut text,
        "function",
        functions.into_iter().map(|(function, statistics)| (function.name().to_owned(), statistics)),
    );
    if !graphs.is_empty() {
        text.push('\n');
        let graphs = graphs.into_iter().flat_map(|(function, graphs)| {
            let action = function.name().trim_start_matches("cudnnBackend");
            graphs.into_iter().map(move |(label, statistics)| (format!("{action} {label}"), statistics))
        });
        table(&mut text, "graph", graphs.chain([("(other graphs)".to_owned(), other_graphs)]));
    }
    let mut separator = "\n";
    for (name, duration) in libraries {
        let _ = writeln!(text, "{separator}{name} was loaded in {}", Shown(duration));
        separator = "";
    }
    Some(text)
}

impl Summary {
    const fn new() -> Self {
        Summary {
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            graph_count: 0,
            other_graphs: Statistics::new(),
            libraries: Vec::new(),
            failed_calls: 0,
        }
    }

    fn graph(&mut self, function: Id, label: &str) -> &mut Statistics {
        let graphs = self.graphs.entry(function).or_default();
        if !graphs.contains_key(label) && self.graph_count < MAX_GRAPHS {
            self.graph_count += 1;
            graphs.insert(label.into(), Statistics::new());
        }
        graphs.get_mut(label).unwrap_or(&mut self.other_graphs)
    }
}

fn table(text: &mut String, title: &str, rows: impl Iterator<Item = (String, Statistics)>) {
    let mut rows: Vec<(String, Statistics)> = rows.filter(|(_, statistics)| statistics.calls() > 0).collect();
    rows.sort_by(|(a, x), (b, y)| y.total.cmp(&x.total).then_with(|| a.cmp(b)));
    let _ = writeln!(text, "{:>10} {:>9} {:>9} {:>9} {:>9}  {title}", "calls", "total", "mean", "median", "maximum");
    for (name, statistics) in rows {
        let calls = statistics.calls();
        let mean = statistics.total.checked_div(calls).unwrap_or_default();
        let [total, mean, median, maximum] = [statistics.total, mean, statistics.median(), statistics.maximum]
            .map(|nanoseconds| Shown(Duration::from_nanos(nanoseconds)).to_string());
        let _ = writeln!(text, "{calls:>10} {total:>9} {mean:>9} {median:>9} {maximum:>9}  {name}");
    }
}
