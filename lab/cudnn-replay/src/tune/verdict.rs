//! Decides which engines are correct, and which is the best.

use std::cmp::Ordering;

use cudnn_store::choices::EngineProblem;

use super::statistics::Timing;

/// The factor for the allowed difference of two results without a reference, because both are rounded.
const WITHOUT_REFERENCE: f64 = 4.0;
/// The factor for the default's error if no engine has an allowed error, because the reference is then doubtful.
const DOUBTFUL: f64 = 2.0;

/// The findings about the results of an engine. Errors are relative to the engine's tolerance. Differences are relative
/// to the larger tolerance of the engine and the first choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The error in comparison with the reference.
    pub error: Option<f64>,
    /// The difference from the results of the heuristics' first choice.
    pub difference: f64,
    /// A description of the element with the largest error or difference.
    pub worst: Option<String>,
    /// A description of changed memory that does not belong to an output.
    pub damage: Option<String>,
    /// Whether executions returned different bits, or may do so according to cuDNN.
    pub is_nondeterministic: bool,
}

/// Returns the problems of the engines. The first engine is the heuristics' first choice.
pub fn problems(findings: &[Findings]) -> Vec<Option<EngineProblem>> {
    let errors = || findings.iter().filter_map(|findings| findings.error);
    let is_trusted = errors().any(|error| error <= 1.0);
    let default = findings.first().and_then(|findings| findings.error);
    let limit = if is_trusted { 1.0 } else { default.map_or(1.0, |error| error * DOUBTFUL) };
    // The others must not be compared with a wrong default.
    let is_default_correct = default.is_none_or(|error| error <= limit);
    let problem = |findings: &Findings| {
        if let Some(damage) = &findings.damage {
            return Some(EngineProblem::Damaging(damage.clone()));
        }
        let differs = is_default_correct && findings.difference > WITHOUT_REFERENCE;
        if findings.error.is_some_and(|error| error > limit) || differs && (is_trusted || default.is_none()) {
            return Some(EngineProblem::Wrong(findings.worst.clone().unwrap_or_default()));
        }
        findings
            .is_nondeterministic
            .then(|| EngineProblem::Nondeterministic("executions may return different bits".into()))
    };
    findings.iter().map(problem).collect()
}

/// An engine to rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranked {
    /// Its time, if it was measured.
    pub timing: Option<Timing>,
    /// Its problem.
    pub problem: Option<EngineProblem>,
}

/// Returns the numbers of the engines, best first. The heuristics' first choice precedes all engines that do not
/// improve on it. Engines with problems come last, but being as nondeterministic as the first choice is not a problem.
pub fn rank(engines: &[Ranked], default: Option<usize>) -> Vec<usize> {
    let default = default.and_then(|default| Some((default, engines.get(default)?)));
    let is_accepted = |problem: &EngineProblem| {
        let is_nondeterministic = |problem: &EngineProblem| matches!(problem, EngineProblem::Nondeterministic(_));
        let as_default = default.and_then(|(_, engine)| engine.problem.as_ref()).is_some_and(is_nondeterministic);
        as_default && is_nondeterministic(problem)
    };
    let class = |number: usize, engine: &Ranked| match &engine.problem {
        Some(EngineProblem::Nondeterministic(_)) if !engine.problem.as_ref().is_some_and(is_accepted) => 3,
        Some(EngineProblem::Failed(_)) => 5,
        Some(EngineProblem::Wrong(_) | EngineProblem::Damaging(_)) => 4,
        _ => match default {
            Some((default, _)) if default == number => 1,
            Some((_, of_default)) if of_default.problem.as_ref().is_none_or(is_accepted) => {
                let pair = engine.timing.zip(of_default.timing);
                if pair.is_some_and(|(timing, of_default)| timing.improves(&of_default)) { 0 } else { 2 }
            }
            _ => 0,
        },
    };
    let time = |engine: &Ranked| engine.timing.map_or(f64::INFINITY, |timing| timing.median);
    let mut order: Vec<(usize, &Ranked)> = engines.iter().enumerate().collect();
    order.sort_by(|(a, one), (b, other)| -> Ordering {
        class(*a, one).cmp(&class(*b, other)).then(time(one).total_cmp(&time(other)))
    });
    order.into_iter().map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_error(error: f64) -> Findings {
        Findings { error: Some(error), worst: Some(format!("error {error}")), ..Findings::default() }
    }

    fn words(findings: &[Findings]) -> Vec<&'static str> {
        let word = |problem: Option<EngineProblem>| match problem {
            None => "fine",
            Some(EngineProblem::Wrong(_)) => "wrong",
            Some(EngineProblem::Damaging(_)) => "damaging",
            Some(EngineProblem::Nondeterministic(_)) => "nondeterministic",
            Some(EngineProblem::Failed(_)) => "failed",
        };
        problems(findings).into_iter().map(word).collect()
    }

    #[test]
    fn engines_with_larger_errors_than_allowed_are_wrong() {
        assert_eq!(words(&[with_error(0.1), with_error(1.0), with_error(1.1)]), ["fine", "fine", "wrong"]);
        let right = Findings { difference: 1e6, ..with_error(0.0) };
        assert_eq!(words(&[with_error(9.0), right]), ["wrong", "fine"]);
        // The reference is doubtful if it contradicts all engines.
        assert_eq!(words(&[with_error(9.0), with_error(12.0), with_error(30.0)]), ["fine", "fine", "wrong"]);
        assert_eq!(problems(&[with_error(0.0), with_error(2.0)])[1], Some(EngineProblem::Wrong("error 2".to_owned())));
    }

    #[test]
    fn without_a_reference_engines_must_agree_with_the_default() {
        let differing = |difference| Findings { difference, ..Findings::default() };
        assert_eq!(words(&[differing(0.0), differing(3.0), differing(5.0)]), ["fine", "fine", "wrong"]);
        // A sample of the reference does not cover all elements.
        let sampled = Findings { difference: 1e3, ..with_error(0.0) };
        assert_eq!(words(&[with_error(0.0), sampled]), ["fine", "wrong"]);
    }

    #[test]
    fn damage_is_worse_than_other_problems() {
        let damage = Findings { damage: Some("1 byte".to_owned()), is_nondeterministic: true, ..with_error(9.0) };
        let random = Findings { is_nondeterministic: true, ..with_error(0.0) };
        assert_eq!(words(&[with_error(0.0), damage, random]), ["fine", "damaging", "nondeterministic"]);
    }

    fn timed(median: f64) -> Ranked {
        Ranked { timing: Some(Timing { median, spread: 0.1, count: 25 }), problem: None }
    }

    fn with(median: f64, problem: EngineProblem) -> Ranked {
        Ranked { problem: Some(problem), ..timed(median) }
    }

    #[test]
    fn only_improvements_come_before_the_default() {
        let engines = [timed(100.0), timed(99.0), timed(90.0), timed(150.0), timed(80.0), Ranked::default()];
        assert_eq!(rank(&engines, Some(0)), [4, 2, 0, 1, 3, 5]);
        assert_eq!(rank(&engines, None), [4, 2, 1, 0, 3, 5]);
    }

    #[test]
    fn engines_with_problems_come_last() {
        let text = String::new;
        let engines = [
            with(10.0, EngineProblem::Failed(text())),
            with(10.0, EngineProblem::Wrong(text())),
            with(50.0, EngineProblem::Nondeterministic(text())),
            timed(100.0),
            timed(120.0),
        ];
        assert_eq!(rank(&engines, Some(3)), [3, 4, 2, 1, 0]);
        assert_eq!(rank(&engines, Some(1)), [3, 4, 2, 1, 0]);
    }

    #[test]
    fn a_nondeterministic_default_is_replaced_only_by_faster_engines() {
        let random = |median| with(median, EngineProblem::Nondeterministic(String::new()));
        let engines = [random(100.0), timed(120.0), random(80.0), timed(90.0)];
        assert_eq!(rank(&engines, Some(0)), [2, 3, 0, 1]);
    }
}
