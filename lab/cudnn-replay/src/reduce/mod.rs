//! Makes a graph smaller while a condition holds.
//!
//! Every change produces a candidate, and the condition decides whether it replaces the graph. Candidates may be
//! invalid, because cuDNN then refuses them and the next change is tried. A module imports only modules above it in
//! this list:
//!
//! | module | purpose |
//! | --- | --- |
//! | `condition` | whether a smaller graph shows the same problem |
//! | `layout` | the memory of a captured execution for a smaller graph |
//! | `operations` | drops operations |
//! | `extents` | makes dimensions smaller, and adjusts the outputs of convolutions |
//! | `strides` | chooses usual layouts |
//! | `attributes` | removes padding, scales and the steps of filters |

mod attributes;
mod condition;
mod extents;
mod layout;
mod operations;
mod strides;

use std::collections::HashSet;

use cudnn_graph::Graph;

pub use condition::{Condition, Observed};
pub use layout::adapted;

/// The default limit for the number of candidates.
pub const LIMIT: usize = 500;

/// A smaller or simpler graph.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallerGraph {
    /// The graph.
    pub graph: Graph,
    /// A description of the change.
    pub change: String,
}

/// Returns the smallest graph that was found, after at most `limit` calls of the condition. The condition is assumed to
/// hold for the original graph.
///
/// # Errors
/// Returns an error of the condition.
pub fn reduce<E>(
    graph: &Graph,
    holds: &mut dyn FnMut(&SmallerGraph) -> Result<bool, E>,
    limit: usize,
) -> Result<Graph, E> {
    let mut best = graph.clone();
    let mut tried = HashSet::from([best.id()]);
    let mut tries = 0;
    let mut smaller = |candidate: SmallerGraph| {
        let is_tried = tries < limit && tried.insert(candidate.graph.id());
        tries += usize::from(is_tried);
        Ok((is_tried && holds(&candidate)?).then_some(candidate.graph))
    };
    loop {
        let before = best.id();
        for candidates in [operations::candidates, extents::candidates, strides::candidates, attributes::candidates] {
            // The candidates of the smaller graph replace those of the larger one.
            while let Some(next) = candidates(&best).into_iter().find_map(|it| smaller(it).transpose()).transpose()? {
                best = next;
            }
        }
        if best.id() == before {
            return Ok(best);
        }
    }
}

#[cfg(test)]
mod tests;
