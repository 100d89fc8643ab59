//! Simulates two frameworks in one process: which cuDNN the second gets, in either order of import.

use cudnn_probe::Host;

use super::outcome::Opens;
use super::process::{Import, Process};
use super::start;
use super::sub_libraries::Use;
use crate::survey::{Framework, Survey};

/// The most frameworks that are combined with each other.
const MAX_FRAMEWORKS: usize = 8;

/// Two frameworks, imported in this order.
#[derive(Debug)]
pub struct Pair<'a> {
    /// Imported first.
    pub first: &'a Framework,
    /// Imported second.
    pub second: &'a Framework,
    /// What the second opens then: the first one's cuDNN, where the system's loader recognizes it by name. What it misses
    /// here and not when it is alone, the first one causes.
    pub second_opens: Opens,
}

/// All pairs of frameworks that need cuDNN, in both orders.
pub fn pairs<'a>(survey: &'a Survey, host: &Host) -> Vec<Pair<'a>> {
    let needs_cudnn = |framework: &&Framework| !framework.opens.users.is_empty() && framework.dir.is_some();
    let frameworks: Vec<&Framework> = survey.frameworks.iter().filter(needs_cudnn).take(MAX_FRAMEWORKS).collect();
    let mut pairs = Vec::new();
    let started = start(&survey.environment, host, &survey.known);
    for first in &frameworks {
        let mut with_first = started.fork();
        import(&mut *with_first, first, Use::Graph);
        // Two packages with one directory are one framework.
        for second in frameworks.iter().filter(|second| second.dir != first.dir) {
            let mut process = with_first.fork();
            let second_opens = import(&mut *process, second, Use::All);
            pairs.push(Pair { first, second, second_opens });
        }
    }
    pairs
}

fn import(process: &mut dyn Process, framework: &Framework, uses: Use) -> Opens {
    let Framework { kind, version, dir: Some(dir), built_for, .. } = framework else { return Opens::default() };
    process.import(&Import { kind, version, dir, built_for }, uses)
}
