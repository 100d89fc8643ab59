//! Simulates two frameworks in one process, to find the cuDNN that the second one gets.

use cudnn_probe::Host;

use super::outcome::{Opens, Use};
use super::process::{Import, Process};
use super::start;
use crate::survey::{Framework, Survey};

/// The maximum number of frameworks to combine.
const MAX_FRAMEWORKS: usize = 8;

/// Two frameworks that are imported in this order.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The framework that is imported first.
    pub first: &'a Framework,
    /// The framework that is imported second.
    pub second: &'a Framework,
    /// The files that the second framework opens, if the first one is loaded. It gets the first one's cuDNN if the
    /// system's loader recognizes it by name.
    pub second_opens: Opens,
}

/// Returns all pairs of frameworks that load cuDNN, in both orders.
pub fn pairs<'a>(survey: &'a Survey, host: &Host) -> Vec<Pair<'a>> {
    let loads_cudnn = |framework: &&Framework| {
        !framework.opens.users.is_empty() && framework.dir.is_some() && framework.kind.cudnn_loader().is_none()
    };
    let frameworks: Vec<&Framework> = survey.frameworks.iter().filter(loads_cudnn).take(MAX_FRAMEWORKS).collect();
    let mut pairs = Vec::new();
    let started = start(&survey.environment, host, &survey.known);
    for first in &frameworks {
        let mut with_first = started.fork();
        import(&mut *with_first, first, Use::Graph);
        // Two packages in the same directory are one framework.
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
