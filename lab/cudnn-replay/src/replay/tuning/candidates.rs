//! Collects the engines to try for a graph.

use std::collections::BTreeMap;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::Target;
use cudnn_backend::engine::{self, Knob, can_try_every_engine, configuration, proposals};
use cudnn_loader::{Error, cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as KnobType};
use cudnn_store::captures::Engine;

use super::super::planning;

/// Modes of the heuristics to try in addition to the program's modes.
const MODES: [Mode; 3] = [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_B, Mode::CUDNN_HEUR_MODE_FALLBACK];
const MAX_COMBINATIONS: usize = 256;

pub(super) struct Candidate {
    pub(super) engine: Engine,
    pub(super) configuration: Result<Descriptor, Error>,
    /// The modes that propose it, with its index among their proposals.
    pub(super) proposals: Vec<(i64, usize)>,
}

/// Returns the proposals in the program's modes, and then in the other modes. The order is the same in each process.
/// Returns the error of the heuristics if they propose no engines.
pub(super) fn proposed(graph: &Descriptor, modes: &[i64], target: Target<'_>) -> Result<Vec<Candidate>, Error> {
    let mut candidates = Candidates::default();
    let mut failure = None;
    let others = MODES.map(|mode| i64::from(mode.0)).into_iter().filter(|mode| !modes.contains(mode));
    for mode in modes.iter().copied().chain(others) {
        match proposals(graph, Mode(mode as _), target) {
            Ok(configurations) => {
                for (place, configuration) in configurations.into_iter().enumerate() {
                    candidates.add(planning::EngineConfiguration::proposed(configuration), Some((mode, place)));
                }
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if candidates.all.is_empty() => Err(error),
        _ => Ok(candidates.all),
    }
}

pub(super) fn add_all(
    candidates: Vec<Candidate>,
    graph: &Descriptor,
    target: Target<'_>,
    step: &mut dyn FnMut(&str, Option<usize>),
) -> Vec<Candidate> {
    let mut candidates = Candidates::new(candidates);
    if !can_try_every_engine() {
        return candidates.all;
    }
    let Ok(engines) = engine::supporting_engines(graph, target) else { return candidates.all };
    for (number, engine) in engines.enumerate() {
        step(&format!("read the knobs of supporting engine {}", number + 1), None);
        candidates.add(planning::EngineConfiguration::with_defaults(&engine), None);
        let knobs = engine::knobs(&engine).unwrap_or_default();
        for choices in combinations(&knobs, MAX_COMBINATIONS) {
            if let Ok(configuration) = configuration(&engine, &choices) {
                candidates.add(planning::EngineConfiguration::proposed(configuration), None);
            }
        }
    }
    candidates.all
}

#[derive(Default)]
struct Candidates {
    all: Vec<Candidate>,
    places: BTreeMap<(i64, BTreeMap<String, i64>), usize>,
}

impl Candidates {
    fn new(all: Vec<Candidate>) -> Self {
        let key = |candidate: &Candidate| (candidate.engine.index, candidate.engine.knobs.clone());
        let places = all.iter().map(key).zip(0..).collect();
        Candidates { all, places }
    }

    fn add(&mut self, candidate: planning::EngineConfiguration, proposal: Option<(i64, usize)>) {
        let planning::EngineConfiguration { engine, configuration } = candidate;
        // cuDNN does not report the index of this engine.
        if engine.index < 0 {
            return;
        }
        let place = *self.places.entry((engine.index, engine.knobs.clone())).or_insert(self.all.len());
        if place == self.all.len() {
            self.all.push(Candidate { engine, configuration, proposals: Vec::new() });
        }
        if let Some(known) = self.all.get_mut(place) {
            known.proposals.extend(proposal);
        }
    }
}

fn combinations(knobs: &[Knob], max: usize) -> Vec<Vec<(KnobType, i64)>> {
    let mut all = vec![Vec::new()];
    for knob in knobs {
        let with = |choices: &Vec<(KnobType, i64)>, value| {
            let mut choices = choices.clone();
            choices.push((knob.ty, value));
            choices
        };
        // A damaged range could have any number of values.
        let values: Vec<i64> = knob.values().take(max).collect();
        all = all.iter().flat_map(|choices| values.iter().map(|value| with(choices, *value))).take(max).collect();
    }
    all.retain(|choices| !choices.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(index: i64, knob: Option<i64>) -> planning::EngineConfiguration {
        let knobs = knob.map(|value| ("TILE_SIZE".to_owned(), value)).into_iter().collect();
        let engine = Engine { index, knobs, notes: Vec::new() };
        let configuration = Err(Error::refused("", cudnn_loader::cudnnStatus_t(3000), String::new()));
        planning::EngineConfiguration { engine, configuration }
    }

    #[test]
    fn each_engine_is_tried_once() {
        let mut candidates = Candidates::default();
        for (engine, knob, mode) in [(3, Some(1), 3), (4, None, 3), (3, Some(1), 1), (3, Some(2), 1), (-1, None, 1)] {
            candidates.add(candidate(engine, knob), Some((mode, 0)));
        }
        let mut candidates = Candidates::new(candidates.all);
        candidates.add(candidate(4, None), None);
        let found: Vec<_> =
            candidates.all.iter().map(|candidate| (candidate.engine.index, candidate.proposals.as_slice())).collect();
        assert_eq!(found, [(3, &[(3, 0), (1, 0)][..]), (4, &[(3, 0)]), (3, &[(1, 0)])]);
    }

    #[test]
    fn combinations_of_knobs_are_bounded() {
        let knob = |ty, max| Knob { ty: KnobType(ty), min: 0, max, step: 1 };
        let all = combinations(&[knob(1, 1), knob(2, 2)], 100);
        assert_eq!((all.len(), &all[5][..]), (6, &[(KnobType(1), 1), (KnobType(2), 2)][..]));
        assert_eq!(combinations(&[knob(1, i64::MAX), knob(2, 9)], 100).len(), 100);
        assert!(combinations(&[], 100).is_empty());
    }
}
