//! `tune`: finds the fastest correct engine for each graph of a capture.
//!
//! | module | purpose |
//! | --- | --- |
//! | `arguments` | the options |
//! | `file` | the files with tuned choices |
//! | `merge` | merges such files |
//! | `place` | the release of cuDNN and the GPU |
//! | `summary` | the effect of the choices on a program |
//! | `session` | tunes the graphs in turn |
//! | `text`, `page` | the report as text and as a web page |

mod arguments;
mod file;
mod merge;
mod page;
mod place;
mod session;
mod summary;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};

use cudnn_cli::output::{CommandResult, Format, Outcome, continue_without_output, count};
use cudnn_cli::subprocess::Timeouts;
use cudnn_os::interruption::Interruption;
use cudnn_replay::tune::usage::{steps, usages};

use crate::captures;
use crate::output_file::{Output, OutputKind};
use crate::progress::end_if_interrupted;
use file::TUNED;
use session::{TuneSession, Tuned};
use summary::TuneSummary;

pub(crate) use arguments::Arguments;

const PAGE: OutputKind = OutputKind { name: "a page of `tune`", is_start: page::is_page };

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let inputs: Vec<&Path> = arguments.files.iter().map(PathBuf::as_path).collect();
    let output = |file, kind| Output { file, kind, inputs: &inputs, force: arguments.replace.force };
    let tuned = output(&arguments.output, &TUNED);
    if arguments.merge {
        return merge::run(&arguments.files, &tuned, format);
    }
    let html = arguments.html.as_ref().map(|file| output(file, &PAGE));
    tuned.check()?;
    html.iter().try_for_each(Output::check)?;
    if html.iter().any(|html| html.is_same_file(&tuned)) {
        return Err("--html and --output name the same file".into());
    }
    continue_without_output();
    let captures = captures::read_all(&arguments.files)?;
    let usages = usages(captures.captures());
    let older = file::existing(&tuned)?;
    let interruption = Interruption::catch();
    let session = TuneSession { arguments, captures: &captures, usages: &usages, output: &tuned, timeouts, format };
    let Tuned { place, choices, refused, left, phases } = session.tune(older)?;
    // From here on, a signal terminates the program at once.
    let interrupted = interruption.signal();
    drop(interruption);
    let is_captured = |graph: &str| usages.graphs.contains_key(graph);
    let rankings = choices.iter().filter(|ranking| place.is_of(ranking) && is_captured(&ranking.graph));
    let rankings: Vec<_> = rankings.collect();
    let steps = arguments.steps.unwrap_or_else(|| steps(rankings.iter().map(|ranking| ranking.executions)));
    let older_calls = &usages.older_calls;
    let summary = TuneSummary { place: &place, rankings, refused: &refused, left, steps, older_calls };
    // Write the file first, because printing to a pipe can block forever.
    let written = html.as_ref().map_or(Ok(()), |html| {
        let page = page::html(&summary, &captures.problems);
        html.write(|file| file.write_all(page.as_bytes()))
    });
    let is_fine = refused.is_empty() && !summary.has_dangerous_default();
    let outcome = if is_fine { Outcome::Fine } else { Outcome::Warnings }.max(captures::outcome(&captures.problems));
    let keys = || summary.value(&captures.problems, &phases);
    let outcome = format.conclude(written.map(|()| outcome), keys, || text::print(&summary, &phases));
    end_if_interrupted(interrupted, format_args!("{} not tuned", count(left, "graph")));
    Ok(outcome)
}
