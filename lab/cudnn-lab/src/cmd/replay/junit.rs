//! Writes a comparison as JUnit XML, which CI services show as test results.

use std::fmt::Write;

use cudnn_replay::replay::ReportStatus;
use cudnn_replay::replay::comparison::{ComparisonRow, status};
use cudnn_replay::replay::page::escape;

const START: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"cudnn-lab replay\"";

pub(super) fn is_junit(start: &[u8]) -> bool {
    start.starts_with(START.as_bytes())
}

/// A graph, or the capture, as a test case.
struct Case {
    name: String,
    /// The element for the verdict, and its message.
    verdict: Option<(&'static str, String)>,
    lines: Vec<String>,
}

/// Returns the file, with a test case for each graph. If the capture is damaged, it has another test case.
pub(super) fn xml(
    titles: &[String; 2],
    rows: &[ComparisonRow],
    fails: impl Fn(&ComparisonRow) -> bool,
    problems: &[String],
) -> String {
    let [before, after] = titles;
    let works =
        |row: &ComparisonRow| [&row.before, &row.after].iter().any(|report| status(report) == ReportStatus::SUCCESS);
    // If no graph works, nothing was compared.
    let not_compared = if rows.iter().any(works) { "skipped" } else { "error" };
    let mut cases = Vec::new();
    for row in rows {
        let lines: Vec<String> =
            row.changes.iter().map(|change| format!("{:?} {}", change.aspect, change.text)).collect();
        let verdict = if fails(row) {
            Some(("failure", lines.first().cloned().unwrap_or_default()))
        } else if !works(row) {
            let reason = row.after.reason.as_deref().unwrap_or_default();
            Some((not_compared, format!("fails with both releases: {} {reason}", status(&row.after))))
        } else {
            None
        };
        cases.push(Case { name: format!("{} {}", row.graph, row.label), verdict, lines });
    }
    if let Some(first) = problems.first() {
        let verdict = Some(("failure", first.clone()));
        cases.push(Case { name: "the capture is readable".to_owned(), verdict, lines: problems.to_vec() });
    }
    render(&format!("cuDNN {before} and {after}"), &cases)
}

fn render(suite: &str, cases: &[Case]) -> String {
    let count = |kind| cases.iter().filter(|case| case.verdict.as_ref().is_some_and(|(of, _)| *of == kind)).count();
    let [failures, errors, skipped] = ["failure", "error", "skipped"].map(count);
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"", cases.len());
    let suite = escape(suite);
    let mut xml = format!("{START} {counts}>\n<testsuite name=\"{suite}\" {counts}>\n");
    for Case { name, verdict, lines } in cases {
        let verdict = verdict.as_ref();
        let verdict = verdict.map_or(String::new(), |(kind, text)| format!("<{kind} message=\"{}\"/>", escape(text)));
        let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
        let lines = lines.join("\n");
        let name = escape(name);
        let _ = writeln!(
            xml,
            "<testcase classname=\"{suite}\" name=\"{name}\">{verdict}<system-out>{lines}</system-out></testcase>"
        );
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

#[cfg(test)]
mod tests {
    use ReportStatus::{Crashed, Hung};
    use cudnn_replay::replay::{Engines, ReplayReport};

    use super::*;

    fn row(graph: &str, before: ReportStatus, after: ReportStatus) -> ComparisonRow {
        let [before, after] = [before, after].map(|status| ReplayReport { status, ..ReplayReport::default() });
        ComparisonRow::new(graph.to_owned(), "conv".to_owned(), &Engines::First, before, after)
    }

    #[test]
    fn each_graph_is_a_test_case() {
        let titles = ["1".to_owned(), "2".to_owned()];
        let rows =
            [row("a", ReportStatus::SUCCESS, Crashed), row("b", Hung, ReportStatus::SUCCESS), row("c", Hung, Hung)];
        let text = xml(&titles, &rows, ComparisonRow::is_worse, &[]);
        assert!(is_junit(text.as_bytes()) && !is_junit(b"<?xml version=\"1.0\"?>"), "{text}");
        for expected in [
            "<testsuite name=\"cuDNN 1 and 2\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\">",
            "name=\"a conv\"><failure message=\"Status SUCCESS → CRASHED\"/>",
            "name=\"b conv\"><system-out>Status HUNG → SUCCESS</system-out>",
            "name=\"c conv\"><skipped message=\"fails with both releases: HUNG ",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let text = xml(&titles, &rows, |row| !row.changes.is_empty(), &["line 3".to_owned()]);
        assert!(text.contains("failures=\"3\"") && text.contains("<failure message=\"line 3\"/>"), "{text}");
        assert!(xml(&titles, &rows[2..], ComparisonRow::is_worse, &[]).contains("<error message="));
    }

    #[test]
    fn text_from_a_capture_cannot_add_elements() {
        let hostile = "]]></testcase>\"&'\u{1b}\u{0}\u{ffff}\u{202e}\n";
        let report = ReplayReport { reason: Some(hostile.to_owned()), ..ReplayReport::default() };
        let rows = [ComparisonRow::new(
            hostile.to_owned(),
            hostile.to_owned(),
            &Engines::First,
            ReplayReport::default(),
            report,
        )];
        let text = xml(&[hostile.to_owned(), String::new()], &rows, ComparisonRow::is_worse, &[hostile.to_owned()]);
        assert_eq!(text.matches("</testcase>").count(), 2, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{0}', '\u{ffff}', '\u{202e}', '\'']), "{text}");
    }
}
