//! Two frameworks in one process: which cuDNN the second gets, in either order of import.

use std::collections::HashSet;
use std::path::PathBuf;

use cudnn_probe::Host;

use crate::opens::{Opens, Process, Use};
use crate::{Framework, Survey};

/// The most frameworks that are combined with each other.
const MAX_FRAMEWORKS: usize = 8;

/// Two frameworks, imported in this order.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pair<'a> {
    /// Imported first.
    pub first: &'a Framework,
    /// Imported second.
    pub second: &'a Framework,
    /// The cuDNN that the second uses then: the first one's, where ld.so recognises it by name.
    pub second_gets: Option<PathBuf>,
    /// All that the second opens then. What it misses here and not when it is alone, the first one causes.
    pub second_opens: Opens,
    /// The process has two cuDNNs then.
    pub has_two_copies: bool,
}

/// All pairs of frameworks that need cuDNN, in both orders.
#[must_use]
pub fn pairs<'a>(survey: &'a Survey, host: &Host) -> Vec<Pair<'a>> {
    let needs_cudnn = |framework: &&Framework| !framework.opens.users.is_empty() && framework.dir.is_some();
    let frameworks: Vec<&Framework> = survey.frameworks.iter().filter(needs_cudnn).take(MAX_FRAMEWORKS).collect();
    let mut pairs = Vec::new();
    let started = Process::start(&survey.environment, host, &survey.known);
    for first in &frameworks {
        let mut with_first = started.fork();
        import(&mut with_first, first, Use::Graph);
        // Two packages with one directory are one framework.
        for second in frameworks.iter().filter(|second| second.dir != first.dir) {
            let mut process = with_first.fork();
            let second_opens = import(&mut process, second, Use::All);
            let files = process
                .shims()
                .into_iter()
                .map(|shim| cudnn_probe::canonicalize(shim).unwrap_or_else(|_| shim.to_owned()));
            pairs.push(Pair {
                first,
                second,
                second_gets: second_opens.cudnn.first().map(|opened| opened.path.clone()),
                second_opens,
                has_two_copies: files.collect::<HashSet<PathBuf>>().len() > 1,
            });
        }
    }
    pairs
}

fn import(process: &mut Process, framework: &Framework, uses: Use) -> Opens {
    match &framework.dir {
        Some(dir) => process.import(framework.kind, &framework.version, dir, &framework.built_for, uses),
        None => Opens::default(),
    }
}
