//! Tests the layer `tuned`: proposals come in the order of a ranking, without other changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use cudnn_store::captures::{Capture, Record};
use cudnn_store::choices::{Capability, Choice, Choices, Device, EngineProblem, Ranking, Release};
use support::ChildOutput;

use crate::planning::{Planning, random_programs};
use crate::plans::count;

/// All kinds of queries, except for arrays that cuDNN cannot fill.
const WAYS: [&str; 9] = ["all", "first", "many", "silent", "used", "again", "threads", "fork", "plan"];
const RELEASE: &str = "jit-cu12-9.19.0";
const ALL_LAYERS: &str = "explain,validate,capture,errata,tuned,plans,trace";

/// A program that queries the heuristics, with their proposals without a layer.
struct Asking {
    planning: Planning,
    cudnn: Release,
    device: String,
    proposals: Vec<Choice>,
    graph: String,
}

impl Asking {
    fn stand_in() -> Self {
        let planning = Planning::stand_in();
        let device = r#"{"deviceVer":900,"cudaDeviceId":0,"deviceName":"A GPU"}"#;
        std::fs::write(planning.device(), device).unwrap();
        Self::new(planning)
    }

    fn real(test: &str, release: &str) -> Option<Self> {
        Some(Self::new(Planning::real(test, release)?))
    }

    fn new(planning: Planning) -> Self {
        let device = planning.device();
        let cudnn = Release::from_number(0);
        let mut asking = Asking { planning, cudnn, device, proposals: Vec::new(), graph: String::new() };
        asking.proposals = asking.proposed("all");
        assert!(asking.proposals.len() > 2, "{:?}", asking.proposals);
        // The layer identifies a graph as captures do.
        let output = asking.run("capture", None, &["plan"]);
        let capture = Capture::read(&asking.file("app.cudnncap")).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        for record in capture.records {
            match record {
                Record::Start(start) => asking.cudnn = Release::from_number(start.cudnn as u32),
                Record::Graph(graph) => asking.graph = graph.graph,
                _ => {}
            }
        }
        asking
    }

    /// Returns what cuDNN proposes without a layer.
    fn proposed(&self, way: &str) -> Vec<Choice> {
        let output = self.run("none", None, &[way]).stdout;
        output.trim().split_once("engine ").unwrap().1.split(", engine ").map(choice).collect()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.planning.dir.path().join(name)
    }

    fn run(&self, layers: &str, rankings: Option<&str>, ways: &[&str]) -> ChildOutput {
        let output = self.run_with(layers, rankings, ways, &[]);
        assert_eq!(output.code, Some(0), "{output:#?}");
        output
    }

    fn run_with(&self, layers: &str, rankings: Option<&str>, ways: &[&str], variables: &[(&str, &str)]) -> ChildOutput {
        let file = self.file("app.tuned.json");
        if let Some(rankings) = rankings {
            std::fs::write(&file, rankings).unwrap();
        }
        let child = self.planning.child();
        let child = child
            .env("CUDNN_TUNED", &file)
            .env("CUDNN_ERRATA", support::errata_for_all_releases(self.planning.dir.path()))
            .env("CUDNN_CAPTURE", self.file("app.cudnncap"))
            .env("CUDNN_VALIDATE", self.file("validate.txt"))
            .env("CUDNN_EXPLAIN_OUTPUT", self.file("explain.txt"))
            .env("CUDNN_TRACE", self.file("trace.json"))
            .env("CUDNN_LOGLEVEL_DBG", "2");
        let child = variables.iter().fold(child, |child, (name, value)| child.env(name, value));
        child.run(&[&[layers, "tuned", &self.device], ways].concat())
    }

    fn ranking(&self, engines: Vec<Choice>) -> Ranking {
        let is_real = self.planning.libraries.is_some();
        Ranking {
            cudnn: self.cudnn,
            device: Device {
                name: if is_real { "NVIDIA H200" } else { "A GPU" }.to_owned(),
                compute_capability: Capability::from_tenths(90),
            },
            graph: self.graph.clone(),
            label: "a test".to_owned(),
            executions: 1,
            default: None,
            engines,
            proposals: BTreeMap::new(),
        }
    }

    /// Returns the proposals in reverse, best first.
    fn reversed(&self) -> Vec<Choice> {
        self.proposals.iter().rev().cloned().collect()
    }

    fn lines(&self, engines: &[Choice]) -> String {
        engines.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// Parses `12 {TILE_SIZE=3}`.
fn choice(text: &str) -> Choice {
    let (engine, knobs) = text.split_once(" {").unwrap();
    let knobs = knobs.split('}').next().unwrap().split(' ').filter_map(|knob| knob.split_once('='));
    let knobs: BTreeMap<String, i64> = knobs.map(|(knob, value)| (knob.to_owned(), value.parse().unwrap())).collect();
    Choice { engine: engine.parse().unwrap(), knobs, ..Choice::default() }
}

/// Returns whether the program and the layer have destroyed all descriptors. A forked child exits before.
fn leaks_nothing(output: &ChildOutput) -> bool {
    output.stderr.lines().rfind(|line| line.contains("not destroyed")).is_some_and(|line| line.starts_with("0 "))
}

fn text(choice: &Choice) -> String {
    format!("engine {}", choice.engine)
}

pub(super) fn file(rankings: impl IntoIterator<Item = Ranking>) -> String {
    let mut choices = Choices::default();
    rankings.into_iter().for_each(|ranking| choices.insert(ranking).unwrap());
    choices.to_json()
}

/// Returns the engines of a line without the knobs, and the text before them.
fn engines(line: &str) -> String {
    let mut text = String::new();
    let mut is_knob = false;
    for c in line.chars() {
        match c {
            '{' => is_knob = true,
            '}' => is_knob = false,
            _ if !is_knob => text.push(c),
            _ => {}
        }
    }
    text.replace(" ,", ",").trim_end().to_owned()
}

#[test]
fn ranked_engines_come_first_in_every_way_of_asking() {
    let asking = Asking::stand_in();
    let [second, third, fourth] = asking.proposals.as_slice() else { panic!("{:?}", asking.proposals) };
    let wrong = Choice { problem: Some(EngineProblem::Wrong("-".into())), ..second.clone() };
    // cuDNN does not know the first engine.
    let unknown = Choice { engine: 77, ..Choice::default() };
    let rankings = file([asking.ranking(vec![unknown, wrong, fourth.clone(), third.clone()])]);
    let expected = asking.lines(&[fourth.clone(), third.clone(), second.clone()]);
    for layers in ["tuned", "errata,tuned,plans", "trace,tuned", "tuned,trace", "tuned,plans,trace", ALL_LAYERS] {
        let output = asking.run(layers, Some(&rankings), &WAYS);
        let lines: Vec<String> = output.stdout.lines().map(engines).collect();
        let first = text(fourth);
        for line in [
            format!("all: 3 {expected}, -, -"),
            format!("first: 1 {first}"),
            format!("many: 3 {expected}, -, -"),
            format!("silent: {expected}, -, -"),
            format!("used: 3 {first}, {expected}, -"),
            format!("again: true {expected}, -, -"),
            format!("threads: 3 {expected}, -, -"),
            format!("child: 3 {expected}, -, -"),
            "fork: status 0".to_owned(),
        ] {
            assert!(lines.contains(&line), "{layers}: {line}: {output:#?}");
        }
        assert!(leaks_nothing(&output), "{layers}: {output:#?}");
    }
}

#[test]
fn arrays_that_cudnn_cannot_fill_are_filled_as_far_as_without_the_layer() {
    let asking = Asking::stand_in();
    let without = asking.run("none", None, &["twice"]).stdout;
    let with = asking.run("tuned", Some(&file([asking.ranking(asking.reversed())])), &["twice"]);
    assert_eq!(with.stdout, without, "{with:#?}");
}

#[test]
fn a_real_cudnn_fills_the_descriptors_in_the_order_of_the_ranking() {
    assert_order("a_real_cudnn_fills_the_descriptors_in_the_order_of_the_ranking", RELEASE);
}

pub(super) fn assert_order(test: &str, release: &str) {
    let Some(asking) = Asking::real(test, release) else { return };
    let count = asking.proposals.len();
    let listed = BTreeMap::from([("mode_a".to_owned(), (0..count).rev().collect::<Vec<_>>())]);
    for (layers, proposals) in
        [("tuned", BTreeMap::new()), ("errata,tuned,plans", listed.clone()), (ALL_LAYERS, listed)]
    {
        let rankings = file([Ranking { proposals, ..asking.ranking(asking.reversed()) }]);
        let output = asking.run(layers, Some(&rankings), &["all", "first", "many", "again", "threads", "fork", "plan"]);
        assert!(!output.stderr.contains("expected engines"), "{layers}: {output:#?}");
        let lines: Vec<&str> = output.stdout.lines().collect();
        let all = lines[0].split_once("engine ").unwrap().1.split(", -").next().unwrap();
        let all: Vec<Choice> = all.split(", engine ").map(choice).collect();
        assert_eq!(all, asking.reversed(), "{layers}: {output:#?}");
        let first = lines[1].strip_prefix("first: 1 engine ").map(choice);
        assert_eq!(first.as_ref(), asking.proposals.last(), "{layers}: {output:#?}");
        assert_eq!(lines[2].strip_prefix("many"), lines[0].strip_prefix("all"), "{layers}: {output:#?}");
        assert!(lines[3].starts_with("again: true "), "{layers}: {output:#?}");
        assert_eq!(lines[4].strip_prefix("threads"), lines[0].strip_prefix("all"), "{layers}: {output:#?}");
        assert_eq!(lines[5].strip_prefix("child"), lines[0].strip_prefix("all"), "{layers}: {output:#?}");
        let engine = asking.proposals.last().unwrap().engine;
        assert!(lines[7].starts_with(&format!("plan: of {engine} ")), "{layers}: {output:#?}");
        assert!(lines[0].starts_with(&format!("all: {count} ")), "{layers}: {output:#?}");
    }
}

/// A choice of the heuristics in another mode does not confirm the ranking.
#[test]
fn the_order_stays_if_the_heuristics_choice_is_the_best() {
    let asking = Asking::stand_in();
    let without = asking.run("none", None, &["all"]).stdout;
    let reversed = asking.lines(&asking.reversed());
    let all = |engines: Vec<Choice>| {
        let ranking = Ranking { default: Some(0), ..asking.ranking(engines) };
        asking.run("tuned", Some(&file([ranking])), &["all"]).stdout
    };
    assert_eq!(all(asking.proposals.clone()), without);
    assert!(self::engines(&all(asking.reversed())).contains(&reversed), "{reversed}");
    // Only the first proposal counts.
    let mut others = asking.reversed();
    others.rotate_right(1);
    assert_eq!(all(others), without);
    // An engine to avoid, and a choice that programs may skip, need another order.
    let mut dangerous = asking.reversed();
    dangerous.push(Choice { engine: 77, problem: Some(EngineProblem::Wrong("-".into())), ..Choice::default() });
    let mut random = asking.reversed();
    random[0].problem = Some(EngineProblem::Nondeterministic("-".into()));
    for engines in [dangerous, random] {
        assert!(self::engines(&all(engines)).contains(&reversed), "{reversed}");
    }
}

#[test]
fn plans_of_tuned_engines_are_cached() {
    let Some(asking) = Asking::real("plans_of_tuned_engines_are_cached", RELEASE) else { return };
    let rankings = file([asking.ranking(asking.reversed())]);
    let engine = asking.proposals.last().unwrap().engine;
    let run = |expected, pack: &str| {
        let variables = [("CUDNN_LOGLEVEL_DBG", "3"), ("CUDNN_PLANS_PACK", pack)];
        let output = asking.run_with("errata,tuned,plans", Some(&rankings), &["plan"], &variables);
        assert!(output.stdout.starts_with(&format!("plan: of {engine} ")), "{expected}: {output:#?}");
        assert_eq!(count(&output, expected), 1, "{expected}: {output:#?}");
    };
    run("built in", "");
    run("restored in", "");
    let (store, pack) = (asking.file("plans"), asking.file("app.plans"));
    let mut lab = Command::new(support::lab());
    let packed = lab.args(["plans", "pack"]).arg(&pack).arg("--from").arg(&store).output().unwrap();
    let text = String::from_utf8_lossy(&packed.stdout).into_owned();
    assert!(packed.status.success() && text.contains("1 plan"), "{packed:?}");
    std::fs::remove_dir_all(&store).unwrap();
    run("restored in", pack.to_str().unwrap());
    // Without the layer, the program builds another plan.
    let other = asking.run_with("plans", None, &["plan"], &[("CUDNN_LOGLEVEL_DBG", "3")]);
    assert_eq!(count(&other, "restored in"), 0, "{other:#?}");
}

#[test]
fn filters_of_the_program_still_apply() {
    assert_filters_apply("filters_of_the_program_still_apply", RELEASE);
}

/// Asserts that a program that skips some engines finds the same ones in the order of a ranking.
pub(super) fn assert_filters_apply(test: &str, release: &str) {
    let Some(asking) = Asking::real(test, release) else { return };
    let lists = |output: ChildOutput| -> Vec<(String, Vec<Choice>)> {
        let lists = output.stdout.trim().strip_prefix("filters: ").unwrap().split("; ");
        let list = |list: &str| {
            let (name, engines) = list.split_once(':').unwrap();
            (name.to_owned(), engines.split("engine ").skip(1).map(choice).collect())
        };
        lists.map(list).collect()
    };
    let without = lists(asking.run("none", None, &["filters"]));
    let with = lists(asking.run("tuned", Some(&file([asking.ranking(asking.reversed())])), &["filters"]));
    assert!(without[0].1.len() > 1 && without.iter().any(|(_, kept)| kept.len() < without[0].1.len()), "{without:?}");
    for ((name, mut without), (_, with)) in without.into_iter().zip(with) {
        without.reverse();
        assert_eq!(with, without, "{name}");
    }
}

/// The stored order for a query is verified.
#[test]
fn proposals_that_change_are_noticed() {
    let asking = Asking::stand_in();
    let [second, third, fourth] = asking.proposals.as_slice() else { panic!("{:?}", asking.proposals) };
    let rankings = file([asking.ranking(asking.reversed())]);
    let expected = asking.lines(&[fourth.clone(), third.clone(), second.clone()]);
    let output = asking.run("tuned", Some(&rankings), &["changed", "all"]);
    let lines: Vec<String> = output.stdout.lines().map(engines).collect();
    let [first, once, again, count] = lines[0].split("; ").collect::<Vec<_>>()[..] else { panic!("{output:#?}") };
    assert_eq!(count, "3", "{output:#?}");
    assert_eq!((first, again), (&*format!("changed: {expected}, -, -"), &*format!("{expected}, -, -")), "{output:#?}");
    // Both queries return all engines, in different orders.
    let sorted = |line: &str| line.split(", ").map(str::to_owned).collect::<BTreeSet<_>>();
    assert!(once != again && sorted(once) == sorted(again), "{output:#?}");
    assert_eq!(output.stderr.matches("cuDNN does not propose the expected engines").count(), 1, "{output:#?}");
    assert_eq!(lines[1], format!("all: 3 {expected}, -, -"), "{output:#?}");
    // After the change, a wrong engine is in second place, and the program does not get it.
    let wrong = Choice { problem: Some(EngineProblem::Wrong("-".into())), ..second.clone() };
    let rankings = file([asking.ranking(vec![third.clone(), fourth.clone(), wrong.clone()])]);
    let output = asking.run("tuned", Some(&rankings), &["changed"]);
    assert!(output.stdout.trim_end().ends_with("; 1"), "{output:#?}");
    // No result is lost if there are fewer.
    let output = asking.run("tuned", Some(&file([asking.ranking(asking.reversed())])), &["fewer"]);
    let lines: Vec<String> = output.stdout.lines().map(engines).collect();
    let second = format!(
        "{}, -, -; {}, -, -, -; 3",
        asking.lines(&[third.clone(), third.clone(), second.clone()]),
        asking.lines(&[third.clone(), second.clone()])
    );
    assert_eq!(lines, [format!("fewer: {expected}, -, -; {second}")], "{output:#?}");
    // The engine that cuDNN proposes first is wrong, and the others remain.
    let rankings = file([asking.ranking(vec![fourth.clone(), third.clone(), wrong])]);
    let output = asking.run("tuned", Some(&rankings), &["fewer"]);
    assert!(output.stdout.trim_end().ends_with("; 2"), "{output:#?}");
    assert!(
        engines(&output.stdout).contains(&format!("; {}, ", asking.lines(&[third.clone(), third.clone()]))),
        "{output:#?}"
    );
}

/// The file says which engines cuDNN has proposed, so that the layer need not query it twice.
#[test]
fn the_first_query_is_answered_in_the_expected_order() {
    let asking = Asking::stand_in();
    let [second, third, fourth] = asking.proposals.as_slice() else { panic!("{:?}", asking.proposals) };
    let counted = [("PLANNER_PROPOSALS", "3")];
    let run = |engines: &[Choice], places: &[usize], ways: &[&str], variables: &[(&str, &str)]| {
        let listed = BTreeMap::from([("mode_a".to_owned(), places.to_vec())]);
        let proposals = if places.is_empty() { BTreeMap::new() } else { listed };
        let rankings = file([Ranking { proposals, ..asking.ranking(engines.to_vec()) }]);
        let output = asking.run_with("tuned", Some(&rankings), ways, &[&counted[..], variables].concat());
        assert!(output.code == Some(0) && leaks_nothing(&output), "{output:#?}");
        let proposed = output.stderr.lines().find_map(|line| line.split_once(" engines were proposed")).unwrap();
        let is_warned = output.stderr.contains("cuDNN does not propose the expected engines");
        let lines: Vec<String> = output.stdout.lines().map(self::engines).collect();
        (lines, proposed.0.parse::<i32>().unwrap(), is_warned)
    };
    let line = |engines: &[&Choice]| {
        let engines: Vec<Choice> = engines.iter().copied().cloned().collect();
        format!("all: {} {}{}", engines.len(), asking.lines(&engines), ", -".repeat(5 - engines.len()))
    };
    let twice = |engines: &[&Choice]| vec![line(engines); 2];
    let all = |engines: &[Choice], places: &[usize]| run(engines, places, &["all", "all"], &[]);
    let (reversed, order) = (asking.reversed(), line(&[fourth, third, second]));
    // The first proposal, and the program's.
    assert_eq!(all(&reversed, &[2, 1, 0]), (twice(&[fourth, third, second]), 1 + 3 + 3, false));
    // Without the proposals, or if the first one is another, or if there are more than announced, all are read first.
    let more = [reversed.clone(), (90..93).map(|engine| Choice { engine, ..Choice::default() }).collect()].concat();
    for (engines, places) in [(&reversed, &[][..]), (&reversed, &[1, 2, 0]), (&more, &[2, 1, 0, 3, 4, 5])] {
        assert_eq!(all(engines, places), (twice(&[fourth, third, second]), 1 + 3 + 3 + 3, false), "{places:?}");
    }
    // An order that stays is not compared.
    assert_eq!(all(&asking.proposals, &[0, 1, 2]), (twice(&[second, third, fourth]), 1 + 3 + 3, false));
    // With fewer engines, a wrong prediction would select other ones, and so it would with an engine to avoid.
    let wrong = Choice { problem: Some(EngineProblem::Wrong("-".into())), ..second.clone() };
    let ranked = [fourth.clone(), third.clone(), wrong];
    assert_eq!(all(&ranked, &[0, 2, 1]), (twice(&[fourth, third, second]), 1 + 3 + 3 + 3, false));
    let first = format!("first: 1 {}", text(fourth));
    assert_eq!(run(&reversed, &[2, 0], &["first", "all"], &[]), (vec![first, order.clone()], 1 + 3 + 3 + 3, false));
    // It is verified first, and only as far as it is needed.
    let only = [("CUDNN_TUNED_ONLY", "1")];
    let only = |engines: &[Choice], places: &[usize]| run(engines, places, &["all", "all"], &only);
    assert_eq!(only(&reversed, &[2, 0, 1]), (twice(&[fourth, second]), 1 + 2 + 3 + 3 + 3, false));
    let ranked = [third.clone(), second.clone(), fourth.clone()];
    assert_eq!(only(&ranked, &[1, 0, 2]), (twice(&[third, second]), 1 + 2 + 2 + 2, false));
    // After a surprise, the program has all proposals, and later queries are in the right order. There may be another
    // engine than expected, one more or one fewer. Then the best ones are repeated.
    let surprise = |places: &[usize], engines: &[&Choice]| {
        assert_eq!(all(&reversed, places), (vec![line(engines), order.clone()], 1 + 3 + 1 + 3 + 3, true));
    };
    surprise(&[2, 0, 1], &[third, fourth, second]);
    surprise(&[2, 1], &[third, second, fourth]);
    let fewer = run(&reversed, &[2, 1, 0], &["all", "all"], &[("PLANNER_PROPOSALS", "2")]);
    assert_eq!((fewer.0, fewer.2), (vec![line(&[third, third, second, second]), line(&[third, second])], true));
    let silent = run(&reversed, &[2, 0, 1], &["silent"], &[]);
    assert_eq!(silent.0, [format!("silent: {}, -, -", asking.lines(&[third.clone(), fourth.clone(), second.clone()]))]);
}

#[test]
fn traces_name_tuned_engines() {
    let asking = Asking::stand_in();
    let rankings = file([asking.ranking(asking.reversed())]);
    let lines = asking.file("lines.txt").display().to_string();
    for layers in ["trace,tuned", "tuned,trace"] {
        let _ = std::fs::remove_file(&lines);
        asking.run_with(layers, Some(&rankings), &["plan", "plan"], &[("CUDNN_TRACE_LINES", &lines)]);
        let text = std::fs::read_to_string(&lines).unwrap();
        let engine = asking.proposals.last().unwrap().engine;
        // The second query is answered in the stored order.
        let plans = text.lines().filter(|line| line.contains("Finalize") && line.contains("proposal"));
        let plans: Vec<&str> = plans.collect();
        assert_eq!(plans.len(), 2, "{layers}: {text}");
        for plan in plans {
            assert!(plan.contains(&format!("; engine {engine} {{")), "{layers}: {plan}");
            assert!(plan.contains("; proposal 1 of 3, tuned"), "{layers}: {plan}");
        }
    }
}

#[test]
fn only_the_best_and_the_default_remain_if_requested() {
    let asking = Asking::stand_in();
    let [second, _, fourth] = asking.proposals.as_slice() else { panic!("{:?}", asking.proposals) };
    let mut ranking = asking.ranking(asking.reversed());
    ranking.default = Some(2);
    let only = [("CUDNN_TUNED_ONLY", "1")];
    let ways = ["all", "first", "many", "silent", "again", "threads"];
    for layers in ["tuned", "errata,tuned,plans", ALL_LAYERS] {
        let output = asking.run_with(layers, Some(&file([ranking.clone()])), &ways, &only);
        let lines: Vec<String> = output.stdout.lines().map(engines).collect();
        let expected = asking.lines(&[fourth.clone(), second.clone()]);
        for line in [
            format!("all: 2 {expected}, -, -, -"),
            format!("first: 1 {}", text(fourth)),
            format!("many: 2 {expected}, -, -, -"),
            format!("again: true {expected}, -, -, -"),
            format!("threads: 2 {expected}, -, -, -"),
        ] {
            assert!(lines.contains(&line), "{layers}: {line}: {output:#?}");
        }
        assert!(leaks_nothing(&output), "{layers}: {output:#?}");
    }
}

#[test]
fn only_one_engine_remains_if_the_best_is_the_default() {
    let asking = Asking::stand_in();
    let [_, third, _] = asking.proposals.as_slice() else { panic!("{:?}", asking.proposals) };
    let mut ranking = asking.ranking(vec![third.clone()]);
    ranking.default = Some(0);
    let rankings = file([ranking]);
    let output = asking.run_with("tuned", Some(&rankings), &["all", "again"], &[("CUDNN_TUNED_ONLY", "1")]);
    let lines: Vec<String> = output.stdout.lines().map(engines).collect();
    let expected = format!("{}, -, -, -, -", text(third));
    assert_eq!(lines, [format!("all: 1 {expected}"), format!("again: true {expected}")], "{output:#?}");
}

/// The heuristics' choice is none of these.
#[test]
fn only_the_best_of_the_fallback_engines_remains() {
    let asking = Asking::stand_in();
    let fallback = asking.proposed("fallback");
    let mut ranking = asking.ranking([asking.reversed(), fallback.iter().rev().cloned().collect()].concat());
    ranking.default = Some(2);
    let rankings = file([ranking]);
    let output = asking.run_with("tuned", Some(&rankings), &["fallback", "all"], &[("CUDNN_TUNED_ONLY", "1")]);
    let lines: Vec<String> = output.stdout.lines().map(engines).collect();
    let best = text(fallback.last().unwrap());
    let [second, _, fourth] = asking.proposals.as_slice() else { panic!("{:?}", asking.proposals) };
    let both = asking.lines(&[fourth.clone(), second.clone()]);
    assert_eq!(lines, [format!("fallback: 1 {best}, -, -, -, -"), format!("all: 2 {both}, -, -, -")], "{output:#?}");
}

#[test]
fn rankings_for_something_else_change_nothing() {
    let asking = Asking::stand_in();
    let without = asking.run("none", None, &WAYS).stdout;
    let ranking = || asking.ranking(asking.reversed());
    let unknown = |engine| Choice { engine, ..Choice::default() };
    let other_knobs = asking.reversed().into_iter().map(|choice| Choice { knobs: BTreeMap::new(), ..choice });
    let device = |name: &str, tenths| Device { name: name.into(), compute_capability: Capability::from_tenths(tenths) };
    for (rankings, expected) in [
        (file([]), "none of 0 rankings is for cuDNN 9.19.0"),
        (
            file([Ranking { cudnn: Release::from_number(92_000), ..ranking() }]),
            "none of 1 rankings is for cuDNN 9.19.0",
        ),
        (file([Ranking { device: device("Another GPU", 90), ..ranking() }]), "no ranking is for A GPU"),
        (
            file([Ranking { device: device("A GPU", 80), ..ranking() }]),
            "no ranking is for A GPU (compute capability 9.0)",
        ),
        (file([Ranking { graph: "0123456789abcdef".into(), ..ranking() }]), ""),
        (file([asking.ranking(vec![unknown(77), unknown(i64::MAX)])]), ""),
        (file([asking.ranking(other_knobs.collect())]), ""),
        (file([asking.ranking(asking.proposals.clone())]), ""),
        (
            r#"{"errata":1,"rules":[{"name":"n","reason":"r","operations":["matmul"]}]}"#.to_owned(),
            "none of 0 rankings",
        ),
    ] {
        let output = asking.run("tuned", Some(&rankings), &WAYS);
        assert_eq!(output.stdout, without, "{rankings}: {output:#?}");
        let logged = output.stderr.lines().filter(|line| line.contains("ranking")).count();
        assert!(output.stderr.contains(expected), "{rankings}: {output:#?}");
        // The forked child repeats the line of its parent.
        assert!(logged <= usize::from(!expected.is_empty()) * 2, "{rankings}: {output:#?}");
    }
}

#[test]
fn invalid_files_are_reported_and_the_program_continues() {
    let asking = Asking::stand_in();
    let without = asking.run("none", None, &WAYS).stdout;
    let valid = file([asking.ranking(asking.reversed())]);
    let replaced = |from: &str, to: &str| {
        assert!(valid.contains(from), "{valid}");
        valid.replacen(from, to, 1)
    };
    let deep = format!(r#"{{"errata":1,"rules":{}"#, "[".repeat(100_000));
    let twice = {
        let ranking = serde_json::to_string(&asking.ranking(asking.reversed())).unwrap();
        format!(r#"{{"errata":1,"tuned":[{ranking},{ranking}]}}"#)
    };
    for (rankings, expected) in [
        (String::new(), "EOF while parsing"),
        ("null".to_owned(), "invalid type: null"),
        (r#"{"errata":1}"#.to_owned(), "neither \"rules\" nor \"tuned\""),
        (r#"{"errata":2,"tuned":[]}"#.to_owned(), "format 2 is not supported"),
        (deep, "expected an object"),
        (twice, "two rankings are for the graph"),
        (replaced("\"9.19.0\"", "\"9\""), "is not a release of cuDNN"),
        (replaced("\"9.0\"", "\"90\""), "is not a compute capability"),
        (replaced(&asking.graph, "../../etc/passwd"), "16 hexadecimal digits"),
        (replaced("\"engine\": 4", "\"engine\": -4"), "engine -4 is negative"),
        (replaced("\"engine\": 4", "\"engine\": 1e400"), "number out of range"),
        (replaced("\"engine\": 4", "\"engine\": 99999999999999999999"), "invalid type"),
        (replaced("\"engines\"", "\"index\": 0, \"engines\""), "unknown field `index`"),
        (replaced("\"proposed\": false", "\"proposed\": false, \"time_us\": -1"), "must not be negative"),
        (replaced("\"executions\": 1", "\"executions\": 1, \"default\": 3"), "the default is not the place"),
        (format!("{}{}", " ".repeat(17 << 20), valid), "more than 16777216"),
    ] {
        let output = asking.run("tuned", Some(&rankings), &WAYS);
        assert_eq!(output.stdout, without, "{expected}: {output:#?}");
        assert!(output.stderr.contains(expected), "{expected}: {}", output.stderr);
    }
    for (files, expected) in [("", "CUDNN_TUNED is not set"), ("/dev/zero", "not a file"), ("/nowhere", "No such file")]
    {
        let output = asking.run_with("tuned", None, &WAYS, &[("CUDNN_TUNED", files)]);
        assert_eq!((output.code, &output.stdout), (Some(0), &without), "{files}: {output:#?}");
        assert!(output.stderr.contains(expected), "{files}: {output:#?}");
    }
}

#[test]
fn the_first_of_several_files_that_ranks_a_graph_decides() {
    let asking = Asking::stand_in();
    let (first, second) = (asking.file("first.json"), asking.file("second.json"));
    let fourth = asking.reversed();
    std::fs::write(&first, file([asking.ranking(fourth.clone())])).unwrap();
    std::fs::write(&second, file([asking.ranking(asking.proposals.clone())])).unwrap();
    let missing = asking.file("missing.json");
    for (files, expected) in [
        (vec![&first, &second], &fourth),
        (vec![&second, &first], &asking.proposals),
        (vec![&missing, &first], &fourth),
    ] {
        let list = std::env::join_paths(files.iter()).unwrap();
        let output = asking.run_with("tuned", None, &["all"], &[("CUDNN_TUNED", list.to_str().unwrap())]);
        let expected = format!("all: 3 {}, -, -", asking.lines(expected));
        assert_eq!(engines(output.stdout.trim()), expected, "{files:?}: {output:#?}");
    }
}

#[test]
fn random_programs_see_no_difference() {
    let asking = Asking::stand_in();
    std::fs::write(asking.file("app.tuned.json"), file([asking.ranking(asking.reversed())])).unwrap();
    let run = |layers: &str, args: &[&str]| {
        let child = asking.planning.child().env("CUDNN_TUNED", asking.file("app.tuned.json"));
        child.run_successfully(&[&[layers], args].concat()).stdout
    };
    let [single, threads] = random_programs();
    for args in [single, threads, &["variants"], &["throw"], &["last-error"], &["outlive"]] {
        assert!(run("none", args) == run("tuned", args), "{args:?}");
    }
}
