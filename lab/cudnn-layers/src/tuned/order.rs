//! Decides the order in which the proposals of the heuristics are returned.

use std::collections::BTreeMap;

use cudnn_graph::names::heuristics_mode;
use cudnn_store::choices::{EngineProblem, Ranking};

/// A proposal of the heuristics, or `None` if cuDNN does not report the engine or the knobs.
pub(super) type Proposal = Option<EngineWithKnobs>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct EngineWithKnobs {
    pub(super) index: i64,
    pub(super) knobs: BTreeMap<String, i64>,
}

/// The order in which proposals are returned: their uses, and their indices in cuDNN's order.
pub(super) type Order = Vec<(ProposalUse, usize)>;

/// Returns how many proposals cuDNN has to fill for an order.
pub(super) fn filled_places(order: &Order) -> usize {
    order.iter().map(|(_, place)| place + 1).max().unwrap_or(0)
}

/// The use of a proposal. Earlier variants come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProposalUse {
    /// The index in the ranking.
    Recommended(usize),
    /// The ranking does not contain it.
    Unranked,
    Failed,
    Dangerous,
    /// cuDNN announces one more than the file lists.
    Unlisted,
}

/// The proposals that the program receives. Without a recommended engine, it receives all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    All,
    /// The best engine and the heuristics' choice.
    BestAndDefault,
    /// The best engine.
    Best,
}

/// Returns the order of the proposals, or `None` if cuDNN's order stays.
pub(super) fn order(ranking: &Ranking, proposals: Vec<ProposalUse>, kept: Kept) -> Option<Order> {
    let count = proposals.len();
    let mut all: Order = proposals.into_iter().zip(0..).collect();
    all.sort_unstable();
    if kept != Kept::All && all.first().is_some_and(|(first, _)| first.is_recommended()) {
        let default = default(ranking, &all).filter(|_| kept == Kept::BestAndDefault);
        let mut is_first = true;
        all.retain(|(_, proposal)| std::mem::take(&mut is_first) || Some(*proposal) == default);
    }
    let is_unchanged = all.iter().map(|(_, proposal)| *proposal).eq(0..count);
    (!is_unchanged).then_some(all)
}

/// Returns the heuristics' choice among the proposals: the ranking's default, or otherwise the first proposal that is
/// neither failed nor dangerous.
fn default(ranking: &Ranking, proposals: &Order) -> Option<usize> {
    let is_default =
        |used: ProposalUse| matches!(used, ProposalUse::Recommended(place) if Some(place) == ranking.default);
    let ranked = proposals.iter().find(|(used, _)| is_default(*used)).map(|(_, proposal)| *proposal);
    let usable = proposals.iter().filter(|(used, _)| *used < ProposalUse::Failed);
    ranked.or_else(|| usable.map(|(_, proposal)| *proposal).min())
}

impl ProposalUse {
    pub(super) fn is_recommended(self) -> bool {
        matches!(self, ProposalUse::Recommended(_))
    }
}

pub(super) fn choose(ranking: &Ranking, proposal: &Proposal) -> ProposalUse {
    let place = proposal.as_ref().and_then(|engine| {
        ranking.engines.iter().position(|choice| choice.engine == engine.index && choice.knobs == engine.knobs)
    });
    place.map_or(ProposalUse::Unranked, |place| ranked(ranking, place))
}

/// Returns how the engine at a place of the ranking is used.
fn ranked(ranking: &Ranking, place: usize) -> ProposalUse {
    match ranking.engines.get(place).map(|choice| &choice.problem) {
        None => ProposalUse::Unranked,
        // Programs that need determinism filter by the engine's notes.
        Some(None | Some(EngineProblem::Nondeterministic(_))) => ProposalUse::Recommended(place),
        Some(Some(EngineProblem::Failed(_))) => ProposalUse::Failed,
        Some(Some(EngineProblem::Wrong(_) | EngineProblem::Damaging(_))) => ProposalUse::Dangerous,
    }
}

/// Returns the number of proposals that the file lists for a mode, and how all that cuDNN announces are used.
pub(super) fn predicted(ranking: &Ranking, mode: i64, announced: usize) -> Option<(usize, Vec<ProposalUse>)> {
    let places = ranking.proposals.get(&heuristics_mode(mode)).filter(|places| places.len() <= announced)?;
    let mut uses: Vec<ProposalUse> = places.iter().map(|place| ranked(ranking, *place)).collect();
    uses.resize(announced, ProposalUse::Unlisted);
    Some((places.len(), uses))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use cudnn_store::choices::Choices;

    use super::*;

    /// A ranking of these engines, each with the JSON of its problem.
    fn ranking(default: usize, engines: &[(i64, i64, &str)]) -> Ranking {
        let engine = |(engine, tile, problem): &(i64, i64, &str)| {
            let problem = if problem.is_empty() { String::new() } else { format!(r#","problem":{{"{problem}":"-"}}"#) };
            format!(r#"{{"engine":{engine},"knobs":{{"TILE_SIZE":{tile}}}{problem}}}"#)
        };
        let engines = engines.iter().map(engine).collect::<Vec<_>>().join(",");
        let text = format!(
            r#"{{"errata":1,"tuned":[{{"cudnn":"9.19.0","device":{{"name":"H200","compute_capability":"9.0"}},
            "graph":"0123456789abcdef","default":{default},"engines":[{engines}]}}]}}"#
        );
        Choices::parse(&text).unwrap().iter().next().unwrap().clone()
    }

    fn proposals(engines: &[(i64, i64)]) -> Vec<Proposal> {
        let knobs = |tile: i64| BTreeMap::from([("TILE_SIZE".to_owned(), tile)]);
        engines.iter().map(|(index, tile)| Some(EngineWithKnobs { index: *index, knobs: knobs(*tile) })).collect()
    }

    fn uses(ranking: &Ranking, proposals: &[Proposal]) -> Vec<ProposalUse> {
        proposals.iter().map(|proposal| choose(ranking, proposal)).collect()
    }

    /// Returns the places of an order, and the number of engines that the ranking recommends.
    fn places(order: Option<Order>) -> Option<(Vec<usize>, usize)> {
        let order = order?;
        let recommended = order.iter().filter(|(used, _)| used.is_recommended()).count();
        Some((order.into_iter().map(|(_, place)| place).collect(), recommended))
    }

    #[test]
    fn ranked_engines_come_first_and_dangerous_ones_last() {
        let ranking = ranking(
            1,
            &[
                (7, 0, ""),
                (3, 1, "nondeterministic"),
                (9, 9, ""),
                (5, 0, "wrong"),
                (3, 2, "failed"),
                (6, 0, "damaging"),
            ],
        );
        let proposed = proposals(&[(5, 0), (3, 1), (3, 2), (3, 3), (6, 0), (7, 0), (7, 1)]);
        assert_eq!(places(order(&ranking, uses(&ranking, &proposed), Kept::All)), Some((vec![5, 1, 3, 6, 2, 0, 4], 2)));
        assert_eq!(places(order(&ranking, uses(&ranking, &proposed), Kept::BestAndDefault)), Some((vec![5, 1], 2)));
    }

    #[test]
    fn the_order_stays_if_the_ranking_recommends_it_or_contains_no_proposal() {
        let ranking = ranking(0, &[(1, 0, ""), (2, 0, "")]);
        for proposed in [&[(1, 0), (2, 0), (3, 0)][..], &[(1, 1), (4, 0)], &[(3, 0), (3, 0)], &[]] {
            assert_eq!(order(&ranking, uses(&ranking, &proposals(proposed)), Kept::All), None, "{proposed:?}");
        }
        // Without a recommended engine, all proposals stay.
        assert_eq!(order(&ranking, uses(&ranking, &proposals(&[(1, 1), (4, 0)])), Kept::BestAndDefault), None);
        let unknown = [vec![None], proposals(&[(2, 0)])].concat();
        assert_eq!(places(order(&ranking, uses(&ranking, &unknown), Kept::All)), Some((vec![1, 0], 1)));
    }

    #[test]
    fn only_the_best_and_the_default_remain() {
        let ranking = ranking(1, &[(1, 0, ""), (2, 0, ""), (3, 0, "")]);
        let only =
            |engines: &[(i64, i64)]| places(order(&ranking, uses(&ranking, &proposals(engines)), Kept::BestAndDefault));
        assert_eq!(only(&[(2, 0), (3, 0), (1, 0), (4, 0)]), Some((vec![2, 0], 2)));
        // The best engine is the default.
        assert_eq!(only(&[(4, 0), (3, 0), (2, 0)]), Some((vec![2], 1)));
        // Without the default, the first proposal is the heuristics' choice, which the ranking does not recommend.
        assert_eq!(only(&[(4, 0), (3, 0)]), Some((vec![1, 0], 1)));
        assert_eq!(only(&[(1, 0), (2, 0)]), None);
        assert_eq!(only(&[(1, 0), (3, 0)]), Some((vec![0], 1)));
        assert_eq!(only(&[(4, 0), (3, 0), (1, 0)]), Some((vec![2, 0], 1)));
        let proposed = uses(&ranking, &proposals(&[(2, 0), (3, 0), (1, 0)]));
        assert_eq!(places(order(&ranking, proposed, Kept::Best)), Some((vec![2], 1)));
    }

    #[test]
    fn the_first_proposal_that_works_replaces_a_default_that_is_not_proposed() {
        let engines = [(1, 0, ""), (2, 0, ""), (5, 0, "wrong"), (6, 0, "damaging"), (7, 0, "failed")];
        for default in [1, 4] {
            let ranking = ranking(default, &engines);
            let proposed = proposals(&[(6, 0), (5, 0), (7, 0), (8, 0), (9, 0), (1, 0)]);
            assert_eq!(places(order(&ranking, uses(&ranking, &proposed), Kept::BestAndDefault)), Some((vec![5, 3], 1)));
        }
    }
}
