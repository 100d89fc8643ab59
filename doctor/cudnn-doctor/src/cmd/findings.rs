//! Prints findings with their plan, for `check`, `frameworks` or `fix`.

use anstyle::AnsiColor;
use cudnn_cli::output::{Outcome, count, labeled, outln};
use cudnn_cli::programs::doctor;
use cudnn_rules::check::{Finding, Severity};
use cudnn_rules::plan::{Advice, Plan};
use serde_json::{Value, json};

use super::prose::Prose;
use crate::docs;

pub(crate) struct ReportOptions<'a> {
    /// Whether to print evidence, and where to read more.
    pub(crate) is_verbose: bool,
    pub(crate) prose: &'a Prose,
}

/// Prints findings with their help, followed by the plan.
pub(crate) fn print(findings: &[Finding], plan: &Plan, options: &ReportOptions<'_>) {
    let shorten = |text: &str| options.prose.shorten(text);
    for (index, (finding, advice)) in findings.iter().zip(&plan.advice).enumerate() {
        let (severity, code) = (finding.kind.severity, finding.kind.code);
        if index == 0 || options.is_verbose {
            outln!("");
        }
        labeled(severity.as_str(), color(severity), format_args!("[{code}]: {}", shorten(&finding.message)));
        for note in finding.notes.iter().filter(|_| options.is_verbose) {
            outln!("  = note: {}", shorten(note));
        }
        // Consecutive findings with the same help share it.
        let next = plan.advice.get(index + 1).filter(|_| !options.is_verbose);
        let is_repeated = next.is_some_and(|next| next == advice);
        if let Some(advice) = advice.as_ref().filter(|_| !is_repeated) {
            outln!("  = help: {}", help(advice, options.prose));
            advice.remaining.iter().for_each(|command| outln!("          {command}"));
        }
        if options.is_verbose {
            outln!("  = read more: {}", docs::finding(code));
        }
    }
    print_plan(plan, options.prose);
}

fn color(severity: Severity) -> AnsiColor {
    match severity {
        Severity::Note => AnsiColor::Cyan,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Error => AnsiColor::Red,
    }
}

/// Formats a help text. Commands in the plan are replaced by the numbers of their steps.
fn help(advice: &Advice, prose: &Prose) -> String {
    let text = prose.shorten(&advice.text);
    let Some((last, others)) = advice.steps.split_last() else { return text };
    let steps = match others {
        [] => format!("step {last}"),
        others => {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            format!("steps {} and {last}", others.join(", "))
        }
    };
    let colon = if advice.remaining.is_empty() { "" } else { ":" };
    format!("{} ({steps}){colon}", text.trim_end_matches(':'))
}

/// Prints how to see the evidence and the explanation of a code, unless both were printed.
pub(crate) fn print_hint<'a>(findings: impl IntoIterator<Item = &'a Finding>, options: &ReportOptions<'_>) {
    let mut findings = findings.into_iter().peekable();
    let Some(first) = findings.peek().filter(|_| !options.is_verbose) else { return };
    let explain = format!("`{} facts {}` explains a code", doctor(), first.kind.code);
    match findings.any(|finding| !finding.notes.is_empty()) {
        true => outln!("\n--verbose shows the evidence; {explain}."),
        false => outln!("\n{explain}."),
    }
}

/// Counts errors and warnings, and says how to fix them. `fix` is the command that executes the plan.
pub(crate) fn summary(findings: &[Finding], plan: &Plan, fix: &str) -> Option<String> {
    let counted = |severity, name: &str| {
        let found = findings.iter().filter(|finding| finding.kind.severity == severity).count();
        (found > 0).then(|| count(found, name))
    };
    let counts = [counted(Severity::Error, "error"), counted(Severity::Warning, "warning")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        return None;
    }
    let is_wrong = |finding: &&Finding| finding.kind.severity > Severity::Note;
    let advice = || findings.iter().zip(&plan.advice).filter(|(finding, _)| is_wrong(finding));
    let is_in_plan = |advice: &Option<Advice>| advice.as_ref().is_some_and(|advice| !advice.steps.is_empty());
    let (all, planned) = (advice().count(), advice().filter(|(_, advice)| is_in_plan(advice)).count());
    let part = if planned < all { format!(" (they fix {planned} of these {all})") } else { String::new() };
    let what = if plan.steps.is_empty() {
        "no command fixes this; follow the help above".to_owned()
    } else if plan.steps.iter().all(|step| step.action.is_of_shell()) {
        format!("paste the commands above into the shell that starts your programs{part}")
    } else {
        format!("`{fix}` executes the steps above{part}")
    };
    Some(format!("{}: {what}", counts.join(", ")))
}

/// Returns the summary if no findings with these codes, or with any code, are errors or warnings.
pub(crate) fn nothing_wrong(only: &[&str]) -> String {
    match only {
        [] => "Nothing is wrong.".to_owned(),
        only => format!("No problems found for the selected codes: {}", only.join(", ")),
    }
}

pub(crate) fn value(findings: &[Finding], plan: &Plan) -> Vec<Value> {
    let advice = plan.advice.iter().map(Option::as_ref);
    findings.iter().zip(advice).map(|(finding, advice)| value_of(finding, advice)).collect()
}

pub(crate) fn print_plan(plan: &Plan, prose: &Prose) {
    if plan.steps.is_empty() {
        return;
    }
    outln!("\nTo fix this:");
    // Several steps may contain the same preparation of the installer.
    let mut printed: Vec<String> = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        outln!("  {}. {} ({})", index + 1, prose.shorten(&step.title), step.fixes.join(", "));
        for command in step.commands() {
            if !printed.contains(&command) {
                outln!("       {command}");
                printed.push(command);
            }
        }
        step.note.iter().for_each(|note| outln!("       note: {note}"));
    }
}

pub(crate) fn outcome<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Outcome {
    match findings.into_iter().map(|finding| finding.kind.severity).max() {
        Some(Severity::Error) => Outcome::Errors,
        Some(Severity::Warning) => Outcome::Warnings,
        Some(Severity::Note) | None => Outcome::Fine,
    }
}

fn value_of(finding: &Finding, advice: Option<&Advice>) -> Value {
    let kind = &finding.kind;
    json!({
        "code": kind.code,
        "severity": kind.severity.as_str(),
        "title": kind.title(),
        "message": finding.message,
        "notes": finding.notes,
        "help": advice.map(|advice| &advice.text),
        "commands": advice.map_or(&[][..], |advice| &advice.commands),
        "read_more": docs::finding(kind.code),
    })
}
