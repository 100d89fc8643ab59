//! Decides whether a smaller graph shows the same problem as the original.

use cudnn_store::captures::Status;

use crate::replay::comparison::{status, working_plan};
use crate::replay::{DataSet, PlanReport, ReplayReport, ReportStatus};

/// The problem that a smaller graph must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// An output has an error, executions differ, or memory is damaged, for the same input values as before.
    Wrong,
    /// The process crashes or hangs as before.
    Crash,
    /// The first engine needs at least twice as long as another engine that supports the graph.
    Slow,
    /// The graph fails with the same status and reason.
    Status,
}

/// The observations of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The report about the engine with the problem.
    pub report: ReplayReport,
    /// The plans of all engines that support the graph, for [`Condition::Slow`].
    pub alternatives: Vec<PlanReport>,
}

/// The largest error of a correct result.
const MAX_ERROR: f64 = 1.0;
/// Errors with at most this ratio are of the same order.
const SAME_ORDER: f64 = 10.0;
/// The minimum ratio of the first engine's time to the best time.
const MIN_RATIO: f64 = 2.0;

impl Condition {
    /// Returns whether a graph shows the problem of the original. Pass the original twice to test that it does.
    pub fn holds(self, original: &Observed, observed: &Observed) -> bool {
        let (before, report) = (&original.report, &observed.report);
        match self {
            Condition::Wrong => {
                let expected = problems(before);
                problems(report).iter().any(|problem| expected.iter().any(|expected| problem.is_like(expected)))
            }
            Condition::Crash => report.status.has_ended_process() && report.status == before.status,
            Condition::Slow => is_slow(observed),
            Condition::Status => {
                let is_failure = matches!(status(report), ReportStatus::Returned(status) if status != Status::SUCCESS);
                is_failure && status(report) == status(before) && reason(report) == reason(before)
            }
        }
    }

    /// Returns the data sets for smaller graphs. For [`Condition::Wrong`], these are the ones that show the problem.
    pub fn data(self, original: &Observed) -> Vec<DataSet> {
        let mut data = vec![DataSet::Integers, DataSet::Normal];
        if self == Condition::Wrong {
            let problems = problems(&original.report);
            data.retain(|set| problems.iter().any(|problem| problem.data == *set));
        }
        data
    }
}

/// Returns the reason without digits, which may be the number of a descriptor.
fn reason(report: &ReplayReport) -> String {
    let text = report.reason.as_deref().unwrap_or_default();
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}

/// Compares plans, because a proposal may have better or worse knobs than the defaults.
fn is_slow(observed: &Observed) -> bool {
    let Some(first) = working_plan(&observed.report) else { return false };
    let is_other =
        |plan: &&PlanReport| (plan.engine.index, &plan.engine.knobs) != (first.engine.index, &first.engine.knobs);
    let others = observed.alternatives.iter().filter(is_other).filter_map(|plan| plan.time_ms);
    first.time_ms.zip(others.reduce(f64::min)).is_some_and(|(first, other)| first >= MIN_RATIO * other)
}

struct WrongResult {
    data: DataSet,
    output: Option<i64>,
    kind: WrongResultKind,
}

enum WrongResultKind {
    /// Only the output or only the reference contains NaN.
    Nan,
    Error(f64),
    NotRepeatable,
    Damage,
}

fn problems(report: &ReplayReport) -> Vec<WrongResult> {
    let mut problems = Vec::new();
    for run in report.plans.iter().flat_map(|plan| &plan.runs) {
        let mut add = |kind| {
            let has_output = matches!(kind, WrongResultKind::Nan | WrongResultKind::Error(_));
            problems.push(WrongResult { data: run.data, output: run.worst_output.filter(|_| has_output), kind });
        };
        match run.error {
            Some(f64::MAX) => add(WrongResultKind::Nan),
            Some(error) if error > MAX_ERROR => add(WrongResultKind::Error(error)),
            _ => {}
        }
        if !run.is_repeatable {
            add(WrongResultKind::NotRepeatable);
        }
        if !run.damage.is_empty() {
            add(WrongResultKind::Damage);
        }
    }
    problems
}

impl WrongResult {
    fn is_like(&self, other: &WrongResult) -> bool {
        (self.data, self.output) == (other.data, other.output)
            && match (&self.kind, &other.kind) {
                (WrongResultKind::Error(a), WrongResultKind::Error(b)) => a.max(*b) <= SAME_ORDER * a.min(*b),
                (WrongResultKind::Nan, WrongResultKind::Nan)
                | (WrongResultKind::NotRepeatable, WrongResultKind::NotRepeatable)
                | (WrongResultKind::Damage, WrongResultKind::Damage) => true,
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use cudnn_loader::cudnnStatus_t;
    use cudnn_store::captures::Engine;

    use super::*;
    use crate::replay::Run;

    fn plan(index: i64, tile: i64, time_ms: f64) -> PlanReport {
        let engine = Engine { index, knobs: [("TILE_SIZE".to_owned(), tile)].into(), ..Engine::default() };
        PlanReport { engine, time_ms: Some(time_ms), ..PlanReport::default() }
    }

    #[test]
    fn a_plan_is_slow_if_another_plan_is_twice_as_fast() {
        let slow = |first: PlanReport, others: &[PlanReport]| {
            let report = ReplayReport { plans: vec![first], ..ReplayReport::default() };
            let observed = Observed { report, alternatives: others.to_vec() };
            Condition::Slow.holds(&observed, &observed)
        };
        assert!(slow(plan(9, 0, 2.0), &[plan(1, 0, 5.0), plan(2, 0, 1.0)]));
        assert!(!slow(plan(9, 0, 1.9), &[plan(1, 0, 5.0), plan(2, 0, 1.0)]));
        assert!(!slow(plan(9, 0, 1.0), &[plan(1, 0, 5.0)]), "the list is in another order than the proposals");
        assert!(slow(plan(9, 1, 2.0), &[plan(9, 0, 1.0)]), "the same engine with other knobs");
        assert!(!slow(plan(9, 1, 2.0), &[plan(9, 1, 1.0)]), "the same plan");
        let mut refused = plan(2, 0, 1.0);
        refused.time_ms = None;
        assert!(!slow(plan(9, 0, 2.0), &[refused]));
        assert!(!slow(PlanReport { skipped: Some(String::new()), ..plan(9, 0, 2.0) }, &[plan(2, 0, 1.0)]));
    }

    fn observed(change: impl FnOnce(&mut Run)) -> Observed {
        let mut run = Run { error: Some(0.5), ..Run::success(DataSet::Normal) };
        change(&mut run);
        let plan = PlanReport { runs: vec![run], ..PlanReport::default() };
        Observed { report: ReplayReport { plans: vec![plan], ..ReplayReport::default() }, alternatives: Vec::new() }
    }

    #[test]
    fn a_wrong_result_remains_of_the_same_kind() {
        let error = |error| observed(|run| run.error = Some(error));
        assert_eq!(Condition::Wrong.data(&error(1e4)), [DataSet::Normal]);
        assert_eq!(Condition::Crash.data(&error(1e4)), [DataSet::Integers, DataSet::Normal]);
        let kinds = [
            error(1e4),
            error(f64::MAX),
            observed(|run| run.is_repeatable = false),
            observed(|run| run.damage = vec!["before tensor 1".to_owned()]),
            observed(|run| (run.error, run.data) = (Some(1e4), DataSet::Integers)),
            observed(|run| (run.error, run.worst_output) = (Some(1e4), Some(3))),
        ];
        for (place, original) in kinds.iter().enumerate() {
            for (other, candidate) in kinds.iter().enumerate() {
                assert_eq!(Condition::Wrong.holds(original, candidate), place == other, "{place} {other}");
            }
            assert!(!Condition::Wrong.holds(original, &error(0.5)), "{place}");
        }
        assert!(Condition::Wrong.holds(&error(1e4), &error(9e4)) && Condition::Wrong.holds(&error(1e4), &error(2e3)));
        assert!(!Condition::Wrong.holds(&error(1e4), &error(2e5)) && !Condition::Wrong.holds(&error(1e4), &error(9e2)));
        assert!(!Condition::Wrong.holds(&error(0.5), &error(0.5)));
    }

    #[test]
    fn a_failure_keeps_the_status_and_the_reason() {
        let failed = |status: ReportStatus, reason: &str| Observed {
            report: ReplayReport { status, reason: Some(reason.to_owned()), ..ReplayReport::default() },
            ..Observed::default()
        };
        let not_supported = cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED.into();
        let original = failed(not_supported, "descriptor 12: no engine");
        for (condition, candidate, expected) in [
            (Condition::Status, failed(not_supported, "descriptor 7: no engine"), true),
            (Condition::Status, failed(not_supported, "another reason"), false),
            (
                Condition::Status,
                failed(cudnnStatus_t::CUDNN_STATUS_BAD_PARAM.into(), "descriptor 12: no engine"),
                false,
            ),
            (Condition::Status, failed(ReportStatus::Crashed, "descriptor 12: no engine"), false),
        ] {
            assert_eq!(condition.holds(&original, &candidate), expected, "{candidate:?}");
        }
        let skipped = failed(ReportStatus::Skipped, "the capture lacks a descriptor");
        assert!(!Condition::Status.holds(&skipped, &skipped));
        let (crashed, hung) = (failed(ReportStatus::Crashed, "signal 11"), failed(ReportStatus::Hung, "60 s"));
        assert!(!Condition::Status.holds(&crashed, &crashed) && !Condition::Crash.holds(&original, &original));
        assert!(Condition::Crash.holds(&crashed, &failed(ReportStatus::Crashed, "signal 6")));
        assert!(Condition::Crash.holds(&hung, &hung) && !Condition::Crash.holds(&crashed, &hung));
    }
}
