//! Runs the situations of one installer, and keeps their table in docs/measurements/repairs.md.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use crate::situation::{AGAIN, Ground, Outcome, Situation};

const PAGE: &str = "../../docs/measurements/repairs.md";

/// Runs each situation on a ground of its own. Fails with all problems together, and if the page has other results.
/// `CUDNN_TESTS_WRITE=1` writes the table below this heading.
pub(crate) fn run(heading: &str, situations: &[Situation], ground: impl Fn() -> Box<dyn Ground>) {
    let outcomes: Vec<Outcome> = situations.iter().map(|situation| situation.run(&*ground())).collect();
    let problem = |outcome: &Outcome| {
        let problem = outcome.problem.as_ref()?;
        Some(format!("{}: {problem}\nplan: {:#?}", outcome.name, outcome.plan))
    };
    let problems: Vec<String> = outcomes.iter().filter_map(problem).collect();
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), outcomes.len(), problems.join("\n\n"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        write(&page, heading, &outcomes);
    }
    let text = std::fs::read_to_string(&page).unwrap();
    let section = section(&text, heading).1;
    for outcome in &outcomes {
        let [start, _, end] = cells(outcome);
        let is_row = |line: &str| line.starts_with(&start) && line.ends_with(&end);
        assert!(section.lines().any(is_row), "{PAGE} lacks {start}..{end}: run this test with CUDNN_TESTS_WRITE=1");
    }
}

/// The row of a table: the situation with its findings, the plan, and the findings that are left.
fn cells(outcome: &Outcome) -> [String; 3] {
    let list = |codes: &BTreeSet<String>| match codes.len() {
        0 => "nothing".to_owned(),
        _ => codes.iter().cloned().collect::<Vec<_>>().join(", "),
    };
    let line = |line: &String| if line == AGAIN { line.clone() } else { format!("`{}`", line.replace('|', "\\|")) };
    let plan = match outcome.plan.len() {
        0 => "nothing to do".to_owned(),
        _ => outcome.plan.iter().map(line).collect::<Vec<_>>().join("<br>"),
    };
    let bug = if outcome.known_bug { " (known bug)" } else { "" };
    let (start, end) = (list(&outcome.before), list(&outcome.after));
    [format!("| {} | {start} |", outcome.name), format!(" {plan} |"), format!(" {end}{bug} |")]
}

/// The text before the table below this heading, the table, and the text after it.
fn section<'a>(text: &'a str, heading: &str) -> (&'a str, &'a str, &'a str) {
    let line = format!("## {heading}\n\n");
    let start = text.find(&line).unwrap_or_else(|| panic!("{PAGE} has no heading {heading}")) + line.len();
    let end = text[start..].find("\n## ").map_or(text.len(), |end| start + end);
    (&text[..start], &text[start..end], &text[end..])
}

fn write(page: &Path, heading: &str, outcomes: &[Outcome]) {
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let text = std::fs::read_to_string(page).unwrap();
    let (before, _, after) = section(&text, heading);
    let rows: String = outcomes.iter().map(|outcome| cells(outcome).concat() + "\n").collect();
    let table = format!("| situation | before | plan | after |\n| --- | --- | --- | --- |\n{rows}");
    std::fs::write(page, format!("{before}{table}{after}")).unwrap();
}
