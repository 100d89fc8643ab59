//! Reads captures for commands. `data` checks the files with the values of tensors.

mod data;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{Outcome, count, remark};
use cudnn_cli::programs::lab_command;
use cudnn_replay::replay::capture::{self, Captured};
use cudnn_store::captures::{Capture, values_dir};
use cudnn_store::choices::Release;

pub(crate) struct CaptureFile {
    pub(crate) capture: Capture,
    /// Descriptions of unreadable parts, in sentences.
    pub(crate) problems: Vec<String>,
}

pub(crate) fn read(file: &Path) -> Result<CaptureFile, String> {
    let name = file.printable();
    let failed = |error: &dyn Display| format!("{name}: {error}");
    // Reading a pipe could block forever.
    if !file.metadata().map_err(|error| failed(&error))?.is_file() {
        return Err(failed(&"not a regular file; copy the capture to a file first"));
    }
    let capture = Capture::read(file).map_err(|error| failed(&error))?;
    let mut problems = capture.problems.clone();
    problems.extend(data::problems(&capture, &values_dir(file)));
    for problem in &problems {
        remark(format_args!("warning: {name}: {}", problem.printable()));
    }
    Ok(CaptureFile { capture, problems })
}

/// Captures that are replayed together, such as the captures of a program with several processes.
pub(crate) struct CaptureFiles {
    files: Vec<CaptureFile>,
    names: Vec<PathBuf>,
    /// Descriptions of unreadable parts, in sentences. They name the capture if there are several.
    pub(crate) problems: Vec<String>,
}

pub(crate) fn read_all(names: &[PathBuf]) -> Result<CaptureFiles, String> {
    let files = names.iter().map(|name| read(name)).collect::<Result<Vec<CaptureFile>, String>>()?;
    let problems = files.iter().zip(names).flat_map(|(file, name)| {
        let place = if names.len() > 1 { format!("{}: ", name.to_string_lossy()) } else { String::new() };
        file.problems.iter().map(move |problem| format!("{place}{problem}"))
    });
    Ok(CaptureFiles { problems: problems.collect(), files, names: names.to_vec() })
}

impl CaptureFiles {
    /// Returns the distinct graphs that are accepted and whose ids begin with one of these texts. An empty list selects
    /// all. Returns an error if a text selects no graph.
    pub(crate) fn graphs(&self, ids: &[String], accept: impl Fn(&Captured) -> bool) -> Result<Vec<Captured>, String> {
        let mut graphs = capture::graphs(self.captures());
        graphs.retain(accept);
        if graphs.is_empty() {
            return Err(format!("{}: the capture contains no graph", self.names()));
        }
        if let Some(id) = ids.iter().find(|id| !graphs.iter().any(|graph| graph.id.starts_with(*id))) {
            return Err(no_graph(&self.names, format_args!("the capture has no graph {id:?}")));
        }
        graphs.retain(|graph| ids.is_empty() || ids.iter().any(|id| graph.id.starts_with(id)));
        Ok(graphs)
    }

    pub(crate) fn captures(&self) -> impl Iterator<Item = &Capture> {
        self.files.iter().map(|file| &file.capture)
    }

    pub(crate) fn releases(&self) -> Vec<Release> {
        let starts = self.captures().flat_map(|capture| capture.processes().map(|process| process.start.cudnn));
        starts.filter_map(|cudnn| u32::try_from(cudnn).ok().map(Release::from_number)).collect()
    }

    pub(crate) fn path_of(&self, captured: &Captured) -> &Path {
        self.names.get(captured.capture).map_or(Path::new(""), PathBuf::as_path)
    }

    pub(crate) fn names(&self) -> String {
        listed(&self.names)
    }
}

pub(crate) fn gibibytes(count: u16) -> usize {
    usize::from(count) << 30
}

/// Lists functions with the numbers of calls, such as `cudnnPoolingForward (4 calls)`.
pub(crate) fn listed_calls<'a>(calls: impl IntoIterator<Item = (&'a (impl AsRef<str> + 'a), &'a u64)>) -> String {
    let listed =
        calls.into_iter().map(|(name, calls)| format!("{} ({})", name.as_ref().printable(), count(*calls, "call")));
    listed.collect::<Vec<_>>().join(", ")
}

/// Returns a warning if a part of a capture is unreadable.
pub(crate) fn outcome(problems: &[String]) -> Outcome {
    if problems.is_empty() { Outcome::Fine } else { Outcome::Warnings }
}

/// Returns the error for a missing graph, with the command that lists the graphs of the first capture.
pub(crate) fn no_graph(files: &[PathBuf], error: impl Display) -> String {
    let first = files.first().map_or("".as_ref(), |file| file.as_os_str());
    let show = lab_command(["capture".as_ref(), "show".as_ref(), "--".as_ref(), first]);
    format!("{}: {error}; `{show}` lists the graphs", listed(files))
}

fn listed(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.printable()).collect::<Vec<_>>().join(", ")
}
