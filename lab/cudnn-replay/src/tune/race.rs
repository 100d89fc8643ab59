//! Measures engines in interleaved rounds, so that clocks and temperatures affect all equally, and drops losers.

use super::statistics::Timing;

/// An engine loses if it exceeds the shortest time by this factor: in its first execution, after few rounds, and later.
const LOSES_AT_ONCE: f64 = 4.0;
const LOSES_EARLY: f64 = 1.3;
/// The number of rounds before engines can lose early and the noise is known.
const FEW_ROUNDS: usize = 3;
const KNOWN_NOISE: usize = 9;
const MAX_ROUNDS: usize = 41;
/// If [`FEW_ROUNDS`] are over, no round starts after this time in microseconds of all executions together.
const MAX_TIME: f64 = 400_000.0;

/// A race of engines, which are identified by numbers.
#[derive(Clone, Debug)]
pub struct Race {
    entrants: Vec<Entrant>,
    /// The engine to beat, which never loses, unless it is excluded.
    default: Option<usize>,
    rounds: usize,
    total: f64,
}

#[derive(Clone, Debug)]
struct Entrant {
    engine: usize,
    times: Vec<f64>,
    has_lost: bool,
}

impl Race {
    /// Starts a race of engines with the times of their first executions in microseconds. Excluded engines, which are
    /// wrong or damage memory, are not executed again and do not make others lose.
    pub fn new(first: &[(usize, f64)], excluded: &[usize], default: Option<usize>) -> Self {
        let is_excluded = |engine: usize| excluded.contains(&engine);
        let default = default.filter(|default| !is_excluded(*default));
        let taking_part = first.iter().filter(|(engine, _)| !is_excluded(*engine));
        let shortest = taking_part.map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let entrant = |&(engine, time): &(usize, f64)| {
            let has_lost = is_excluded(engine) || Some(engine) != default && time > LOSES_AT_ONCE * shortest;
            // A first execution also loads the kernels, so its time is used only for losers.
            Entrant { engine, times: if has_lost { vec![time] } else { Vec::new() }, has_lost }
        };
        Race { entrants: first.iter().map(entrant).collect(), default, rounds: 0, total: 0.0 }
    }

    /// Returns the engines of the next round in the order of execution, or no engines if the race is over.
    pub fn next_round(&self) -> Vec<usize> {
        let mut order: Vec<usize> = self.active().map(|entrant| entrant.engine).collect();
        if self.is_over() {
            return Vec::new();
        }
        // Each engine follows a different engine in each round.
        let count = order.len().max(1);
        order.rotate_left(self.rounds % count);
        if self.rounds / count % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// Adds the times of a round in microseconds, and drops the losers.
    pub fn finish_round(&mut self, times: &[(usize, f64)]) {
        for (engine, time) in times {
            if let Some(entrant) = self.entrants.iter_mut().find(|entrant| entrant.engine == *engine) {
                entrant.times.push(*time);
                self.total += time;
            }
        }
        self.rounds += 1;
        let fastest = self.active().filter_map(Entrant::timing).min_by(|a, b| a.median.total_cmp(&b.median));
        let (Some(fastest), true) = (fastest, self.rounds >= FEW_ROUNDS) else { return };
        let (rounds, default) = (self.rounds, self.default);
        for entrant in self.entrants.iter_mut().filter(|entrant| !entrant.has_lost && Some(entrant.engine) != default) {
            let shortest = entrant.times.iter().copied().fold(f64::INFINITY, f64::min);
            let is_slower = || entrant.timing().is_some_and(|timing| timing.is_slower(&fastest));
            entrant.has_lost = shortest > LOSES_EARLY * fastest.median || rounds >= KNOWN_NOISE && is_slower();
        }
    }

    /// Returns the times of an engine.
    pub fn timing(&self, engine: usize) -> Option<Timing> {
        self.entrants.iter().find(|entrant| entrant.engine == engine)?.timing()
    }

    fn active(&self) -> impl Iterator<Item = &Entrant> {
        self.entrants.iter().filter(|entrant| !entrant.has_lost)
    }

    fn is_over(&self) -> bool {
        if self.active().next().is_none() || self.rounds >= MAX_ROUNDS {
            return true;
        }
        if self.rounds >= FEW_ROUNDS && self.total > MAX_TIME {
            return true;
        }
        self.rounds >= KNOWN_NOISE && self.is_decided()
    }

    /// Returns whether every remaining engine has improved on the default, or cannot do so any more.
    fn is_decided(&self) -> bool {
        let Some(default) = self.default.and_then(|default| self.timing(default)) else {
            return self.active().count() <= 1;
        };
        let challengers: Vec<Timing> = self
            .active()
            .filter(|entrant| Some(entrant.engine) != self.default)
            .filter_map(Entrant::timing)
            .filter(|timing| timing.could_improve(&default))
            .collect();
        challengers.len() <= 1 && challengers.iter().all(|timing| timing.improves(&default))
    }
}

impl Entrant {
    fn timing(&self) -> Option<Timing> {
        Timing::new(&self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a race of engines with times that depend on the round. Returns the race, and the orders of the rounds.
    fn run(first: &[(usize, f64)], default: usize, time: impl Fn(usize, usize) -> f64) -> (Race, Vec<Vec<usize>>) {
        let (mut race, mut rounds) = (Race::new(first, &[], Some(default)), Vec::new());
        loop {
            let order = race.next_round();
            if order.is_empty() {
                return (race, rounds);
            }
            let times: Vec<(usize, f64)> = order.iter().map(|engine| (*engine, time(*engine, rounds.len()))).collect();
            race.finish_round(&times);
            rounds.push(order);
        }
    }

    #[test]
    fn losers_leave_early_and_the_default_stays() {
        let first = [(0, 400.0), (1, 100.0), (2, 500.0), (3, 120.0), (4, 160.0)];
        let speed = [400.0, 100.0, 500.0, 108.0, 150.0];
        let (race, rounds) = run(&first, 0, |engine, round| speed[engine] + (round % 3) as f64);
        assert!(!rounds[0].contains(&2) && race.timing(2).unwrap().median == 500.0, "lost at once");
        let takes_part = |engine: usize| rounds.iter().filter(|order| order.contains(&engine)).count();
        assert_eq!((takes_part(4), takes_part(3)), (FEW_ROUNDS, KNOWN_NOISE));
        assert_eq!((takes_part(0), takes_part(1), rounds.len()), (KNOWN_NOISE, KNOWN_NOISE, KNOWN_NOISE));
        assert!(race.timing(1).unwrap().improves(&race.timing(0).unwrap()));
    }

    #[test]
    fn excluded_engines_decide_nothing() {
        let race = Race::new(&[(0, 100.0), (1, 10.0), (2, 90.0)], &[1], Some(0));
        assert_eq!((race.next_round(), race.timing(1).unwrap().median), (vec![0, 2], 10.0));
        // Engines need not beat an excluded default.
        let mut race = Race::new(&[(0, 1.0), (1, 100.0), (2, 200.0)], &[0], Some(0));
        for _ in 0..FEW_ROUNDS {
            race.finish_round(&[(1, 100.0), (2, 200.0)]);
        }
        assert_eq!((race.next_round(), race.timing(0).unwrap().count), (vec![1], 1));
    }

    #[test]
    fn close_races_last_longer_and_end() {
        let noisy = |engine: usize, round: usize| 100.0 - engine as f64 * 2.5 + ((round * 7 + engine * 3) % 11) as f64;
        let (_, rounds) = run(&[(0, 100.0), (1, 100.0)], 0, noisy);
        assert!(rounds.len() > KNOWN_NOISE && rounds.len() <= MAX_ROUNDS, "{}", rounds.len());
        let (_, rounds) = run(&[(0, 1e5), (1, 1e5)], 0, |engine, round| 1e5 + noisy(engine, round) * 100.0);
        assert_eq!(rounds.len(), FEW_ROUNDS);
    }

    #[test]
    fn each_engine_is_first_in_turn() {
        let (_, rounds) = run(&[(0, 1.0), (1, 1.0), (2, 1.0)], 0, |_, round| 1.0 + (round % 2) as f64);
        let starts: Vec<usize> = rounds.iter().take(6).map(|order| order[0]).collect();
        assert_eq!(starts, [0, 1, 2, 2, 0, 1]);
    }

    #[test]
    fn a_single_engine_is_measured() {
        let (race, rounds) = run(&[(5, 1.0)], 5, |_, _| 2.0);
        assert_eq!((rounds.len(), race.timing(5).unwrap().median), (KNOWN_NOISE, 2.0));
        assert!(Race::new(&[], &[], None).next_round().is_empty());
    }
}
