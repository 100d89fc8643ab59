//! Findings as text, and the exit status that they give: for `check` and `frameworks`.

use crate::check::{Finding, Severity};
use crate::docs;
use crate::output::{Outcome, labelled, outln};

pub(crate) fn print(findings: &[Finding]) {
    for finding in findings {
        let severity = finding.kind.severity;
        outln!("");
        labelled(severity.as_str(), severity.colour(), format_args!("[{}]: {}", finding.kind.code, finding.message));
        for note in &finding.notes {
            outln!("  = note: {note}");
        }
        if let Some(help) = &finding.help {
            outln!("  = help: {}", help.text);
            for command in &help.commands {
                outln!("          {command}");
            }
        }
        outln!("  = read more: {}", docs::finding(finding.kind.code));
    }
}

pub(crate) fn outcome<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Outcome {
    match findings.into_iter().map(|finding| finding.kind.severity).max() {
        Some(Severity::Error) => Outcome::Errors,
        Some(Severity::Warning) => Outcome::Warnings,
        Some(Severity::Note) | None => Outcome::Fine,
    }
}
