//! Compares the ids of graphs with their content.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Record;

#[derive(Default)]
pub(crate) struct Ids {
    /// Incorrect ids, with the ids computed from the content.
    incorrect: BTreeMap<String, String>,
    correct: BTreeSet<String>,
}

impl Ids {
    /// Replaces an incorrect id in a graph or a record that refers to it. For a graph, returns both ids.
    pub(crate) fn correct(&mut self, record: &mut Record) -> Option<(String, String)> {
        let reference = match record {
            Record::Graph(graph) => {
                let id = graph.nodes.id();
                if graph.graph == id {
                    self.incorrect.remove(&id);
                    self.correct.insert(id);
                    return None;
                }
                let stated = std::mem::replace(&mut graph.graph, id.clone());
                // An intact graph with the same id must not lose the plans that refer to it.
                if !self.correct.contains(&stated) {
                    self.incorrect.insert(stated.clone(), id.clone());
                }
                return Some((stated, id));
            }
            Record::Plan(plan) => &mut plan.graph,
            Record::Proposals(proposals) => &mut proposals.graph,
            _ => return None,
        };
        if let Some(id) = self.incorrect.get(reference) {
            reference.clone_from(id);
        }
        None
    }
}
