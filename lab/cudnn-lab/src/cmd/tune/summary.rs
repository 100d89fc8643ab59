//! Computes the effect of tuned choices on a program.

use std::collections::BTreeMap;

use cudnn_replay::tune::statistics::MIN_GAIN;
use cudnn_replay::tune::task::Phases;
use cudnn_store::captures::is_search;
use cudnn_store::choices::{Choice, EngineProblem, Ranking};
use serde::Serialize;
use serde_json::{Value, json};

use super::place::Place;

/// A graph that cannot be tuned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RefusedGraph {
    pub(super) graph: String,
    pub(super) label: String,
    pub(super) reason: String,
}

pub(super) struct TuneSummary<'a> {
    pub(super) place: &'a Place,
    pub(super) rankings: Vec<&'a Ranking>,
    pub(super) refused: &'a [RefusedGraph],
    pub(super) left: usize,
    pub(super) steps: u64,
    /// The number of calls of each function outside the backend API.
    pub(super) older_calls: &'a BTreeMap<String, u64>,
}

/// Returns the heuristics' first choice.
pub(super) fn default(ranking: &Ranking) -> Option<&Choice> {
    ranking.engines.get(ranking.default?)
}

pub(super) fn best(ranking: &Ranking) -> Option<&Choice> {
    ranking.engines.iter().find(|choice| is_usable(choice))
}

/// Returns the best engine that the layer can use, because the heuristics propose it to the program.
pub(super) fn reachable(ranking: &Ranking) -> Option<&Choice> {
    ranking.engines.iter().find(|choice| choice.proposed && is_usable(choice))
}

fn is_usable(choice: &Choice) -> bool {
    matches!(choice.problem, None | Some(EngineProblem::Nondeterministic(_))) && choice.time_us.is_some()
}

fn is_same(one: Option<&Choice>, other: Option<&Choice>) -> bool {
    one.zip(other).is_some_and(|(one, other)| std::ptr::eq(one, other))
}

/// Returns the microseconds that the layer saves per execution. The time of a dangerous default is meaningless.
pub(super) fn gain(ranking: &Ranking) -> f64 {
    let default = default(ranking).filter(|default| !default.is_dangerous());
    let times = default.and_then(|choice| choice.time_us).zip(reachable(ranking).and_then(|choice| choice.time_us));
    times.map_or(0.0, |(default, time)| default - time)
}

/// Returns whether an engine that the layer cannot use would be an improvement.
pub(super) fn is_out_of_reach(ranking: &Ranking) -> bool {
    let (best, reachable) = (best(ranking), reachable(ranking));
    match (best.and_then(|choice| choice.time_us), reachable.and_then(|choice| choice.time_us)) {
        (Some(best), Some(reachable)) => best <= reachable * (1.0 - MIN_GAIN),
        (Some(_), None) => !is_same(best, default(ranking)),
        (None, _) => false,
    }
}

fn is_replaced(ranking: &Ranking) -> bool {
    let reachable = reachable(ranking);
    reachable.is_some() && !is_same(reachable, default(ranking))
}

impl TuneSummary<'_> {
    /// Returns the times of a step with the heuristics' and the tuned choices, in microseconds.
    pub(super) fn step(&self) -> (f64, f64) {
        let sum = |time: &dyn Fn(&Ranking) -> f64| -> f64 {
            let total: f64 = self.rankings.iter().map(|ranking| time(ranking) * ranking.executions as f64).sum();
            total / self.steps as f64
        };
        let before = sum(&|ranking| default(ranking).and_then(|choice| choice.time_us).unwrap_or(0.0));
        (before, before - sum(&gain))
    }

    pub(super) fn improved(&self) -> usize {
        self.rankings.iter().filter(|ranking| is_replaced(ranking)).count()
    }

    pub(super) fn out_of_reach(&self) -> usize {
        self.rankings.iter().filter(|ranking| is_out_of_reach(ranking)).count()
    }

    pub(super) fn has_dangerous_default(&self) -> bool {
        self.rankings.iter().any(|ranking| default(ranking).is_some_and(Choice::is_dangerous))
    }

    pub(super) fn value(&self, problems: &[String], phases: &Phases) -> Value {
        let place = |ranking: &Ranking, choice: Option<&Choice>| {
            ranking.engines.iter().position(|other| is_same(choice, Some(other)))
        };
        let graph = |ranking: &&Ranking| {
            json!({
                "graph": ranking.graph, "label": ranking.label, "executions": ranking.executions,
                "default": ranking.default, "best": place(ranking, best(ranking)),
                "reachable": place(ranking, reachable(ranking)), "gain_us": gain(ranking), "engines": ranking.engines,
            })
        };
        let (before, after) = self.step();
        let searches = self.older_calls.iter().filter(|(function, _)| is_search(function));
        let older_searches = searches.fold(0, |sum: u64, (_, calls)| sum.saturating_add(*calls));
        let mut value = json!({
            "problems": problems,
            "cudnn": self.place.cudnn, "device": self.place.device,
            "graphs": self.rankings.iter().map(graph).collect::<Vec<_>>(),
            "refused": self.refused,
            "steps": self.steps, "step_us": before, "tuned_step_us": after,
            "older_searches": older_searches,
            "phases_ms": phases,
        });
        if let Some(members) = value.as_object_mut().filter(|_| self.left > 0) {
            members.insert("not_tuned".to_owned(), self.left.into());
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_store::choices::Choices;

    fn ranking(engines: &str) -> Ranking {
        let text = format!(
            r#"{{"errata":1,"tuned":[{{"cudnn":"9.19.0","device":{{"name":"A","compute_capability":"9.0"}},
                "graph":"0123456789abcdef","executions":6,"default":1,"engines":[{engines}]}}]}}"#
        );
        Choices::parse(&text).unwrap().iter().next().unwrap().clone()
    }

    #[test]
    fn only_engines_that_the_layer_can_use_count() {
        let ranking = ranking(
            r#"{"engine":1,"time_us":50},{"engine":2,"time_us":100,"proposed":true},
               {"engine":3,"time_us":20,"proposed":true,"problem":{"wrong":"text"}}"#,
        );
        assert_eq!((best(&ranking).unwrap().engine, reachable(&ranking).unwrap().engine), (1, 2));
        assert_eq!((gain(&ranking), is_out_of_reach(&ranking)), (0.0, true));
        let place = Place { cudnn: ranking.cudnn, device: ranking.device.clone() };
        let (rankings, older_calls) = (vec![&ranking], &BTreeMap::new());
        let summary = TuneSummary { place: &place, rankings, refused: &[], left: 0, steps: 3, older_calls };
        assert_eq!((summary.step(), summary.improved(), summary.out_of_reach()), ((200.0, 200.0), 0, 1));
        assert!(!summary.has_dangerous_default() && ranking.engines[2].is_dangerous());
    }

    #[test]
    fn an_engine_out_of_reach_counts_only_if_it_is_an_improvement() {
        for (time, expected) in [(98, true), (99, false), (100, false)] {
            let best = format!(r#"{{"engine":1,"time_us":{time}}}"#);
            let ranking = ranking(&format!(r#"{best},{{"engine":2,"time_us":100,"proposed":true}}"#));
            assert_eq!(is_out_of_reach(&ranking), expected, "{time}");
        }
    }

    #[test]
    fn a_wrong_default_is_replaced_without_a_gain() {
        let ranking = ranking(
            r#"{"engine":3,"time_us":20},{"engine":2,"time_us":100,"problem":{"wrong":"text"}},
               {"engine":1,"time_us":50,"proposed":true}"#,
        );
        assert_eq!((gain(&ranking), is_out_of_reach(&ranking)), (0.0, true));
        let place = Place { cudnn: ranking.cudnn, device: ranking.device.clone() };
        let (rankings, older_calls) = (vec![&ranking], &BTreeMap::new());
        let summary = TuneSummary { place: &place, rankings, refused: &[], left: 0, steps: 6, older_calls };
        assert_eq!((summary.step(), summary.improved()), ((100.0, 100.0), 1));
        assert!(summary.has_dangerous_default());
    }

    #[test]
    fn gains_are_weighted_by_executions() {
        let ranking =
            ranking(r#"{"engine":1,"time_us":70,"proposed":true},{"engine":2,"time_us":100,"proposed":true}"#);
        let place = Place { cudnn: ranking.cudnn, device: ranking.device.clone() };
        let (rankings, older_calls) = (vec![&ranking], &BTreeMap::new());
        let summary = TuneSummary { place: &place, rankings, refused: &[], left: 0, steps: 2, older_calls };
        assert_eq!((summary.step(), summary.improved(), summary.out_of_reach()), ((300.0, 210.0), 1, 0));
        let value = summary.value(&[], &Phases::default());
        assert_eq!((&value["graphs"][0]["reachable"], &value["graphs"][0]["default"]), (&json!(0), &json!(1)));
    }
}
