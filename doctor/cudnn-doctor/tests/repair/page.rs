//! Runs the situations of one installer, and stores the results in docs/data/repairs.json.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use support::Share;

use crate::situation::{Ground, Outcome, Situation};

const FILE: &str = "../../docs/data/repairs.json";

/// Runs a share of the situations, because each starts an installer several times, and each on a ground of its own. Fails
/// with all problems together, and if the file has other results. `CUDNN_TESTS_WRITE=1` writes the results below this
/// heading.
pub(crate) fn run(heading: &str, situations: &[Situation], ground: impl Fn() -> Box<dyn Ground>) {
    static LOCK: Mutex<()> = Mutex::new(());
    let situations = situations.iter().share(6);
    let outcomes: Vec<Outcome> = situations.map(|situation| situation.run(&*ground())).collect();
    let problem = |outcome: &Outcome| {
        let problem = outcome.problem.as_ref()?;
        Some(format!("{}: {problem}\nplan: {:#?}", outcome.name, outcome.plan))
    };
    let problems: Vec<String> = outcomes.iter().filter_map(problem).collect();
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), outcomes.len(), problems.join("\n\n"));
    let _guard = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let mut results: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let records: Vec<Value> = outcomes.iter().map(record).collect();
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        results[heading] = records.into();
        return std::fs::write(&file, format!("{results:#}\n")).unwrap();
    }
    let committed: Vec<Value> = results[heading].as_array().unwrap().iter().map(without_plan).collect();
    for record in records.iter().map(without_plan) {
        assert!(committed.contains(&record), "{FILE} lacks {record}: run this test with CUDNN_TESTS_WRITE=1");
    }
}

fn record(outcome: &Outcome) -> Value {
    let Outcome { name, before, plan, after, known_bug, .. } = outcome;
    let mut record = json!({ "situation": name, "before": before, "plan": plan, "after": after });
    if *known_bug {
        record["known bug"] = true.into();
    }
    record
}

/// Plans differ between machines, for example in pip's commands.
fn without_plan(record: &Value) -> Value {
    let mut record = record.clone();
    record["plan"].take();
    record
}
