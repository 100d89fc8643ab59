//! `fix`: prints or executes the plan for the errors of `check`.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, Write};
use std::process::Stdio;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{Format, Outcome, outln, remark};
use cudnn_cli::programs::{doctor, doctor_command};
use cudnn_cli::subprocess::{self, Timeouts};
use cudnn_rules::context::Context;
use cudnn_rules::plan::{Plan, Step};
use serde_json::{Value, json};

use super::prose::Prose;
use super::{check, findings};
use crate::fix::{Consent, ExecutedStep, Fixed, Output, Stopped, Undo, execute, variables};

#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Execute the plan. Without this option, the plan is only printed.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Print the plan without changing anything. This is the default.
    #[arg(long)]
    dry_run: bool,
    /// With --yes: also remove files and packages, without asking.
    #[arg(long, requires = "yes")]
    remove: bool,
    #[command(flatten)]
    check: check::CheckOptions,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, timeouts: &Timeouts, format: Format) -> Outcome {
    let diagnosis = match check::diagnosis(&arguments.check, context, timeouts, format) {
        Ok(diagnosis) => diagnosis,
        Err(outcome) => return outcome,
    };
    let plan = &diagnosis.plan;
    let before = check::outcome(&diagnosis);
    if !arguments.yes || plan.steps.is_empty() {
        let is_fine = before == Ok(Outcome::Fine);
        let keys = || json!({ "plan": plan.value(), "findings": findings::value(&diagnosis.findings, plan) });
        return format.conclude(before, keys, || text(plan, is_fine, &arguments.check.only));
    }
    // Closed output must not stop the doctor between two steps.
    let note = |text: &str| match format {
        Format::Text => drop(writeln!(std::io::stdout(), "{text}")),
        Format::Json => remark(text),
    };
    let begin =
        |index: usize, step: &Step| note(&format!("[{}/{}] {}", index + 1, plan.steps.len(), step.title.printable()));
    let may_remove = |step: &Step, removed: &[String]| arguments.remove || is_agreed(&step.title, removed);
    let output = if format == Format::Text { Output::Stdout } else { Output::Stderr };
    let fixed = execute(
        plan,
        &Consent { may_remove: &may_remove, begin: &begin, note: &note, check: &*diagnosis.check, output },
    );
    // Lines after an unfinished step may need its files. The next plan contains them again.
    let finished = fixed.stopped.as_ref().map_or(plan.steps.len(), |stopped| stopped.step);
    let for_shell: Vec<&Step> = plan.steps.iter().take(finished).filter(|step| step.action.is_of_shell()).collect();
    let paste: Vec<String> = for_shell.iter().flat_map(|step| step.commands()).collect();
    if format == Format::Text {
        report(plan, &fixed, &paste);
    }
    if let Some(signal) = fixed.interrupted {
        format.report(|| value(plan, &fixed, &paste, None), || {});
        cudnn_os::interruption::end_by(signal);
    }
    if format == Format::Text {
        let as_if = if paste.is_empty() { "" } else { ", as if you had pasted that" };
        outln!("\nChecking again{as_if}:\n");
    }
    let after = check_again(&variables(&for_shell, context), format);
    if let (Some(_), Err(error)) = (&fixed.stopped, &after) {
        remark(format_args!("error: cannot check again: {error}"));
    }
    let outcome = match (&fixed.stopped, &after) {
        (Some(stopped), _) => Err(format!("error: step {} is not finished: {}", stopped.step + 1, stopped.reason)),
        (None, Ok((Some(outcome), _))) => Ok(*outcome),
        (None, Ok((None, _))) => Err("error: the second check is incomplete".to_owned()),
        (None, Err(error)) => Err(format!("error: cannot check again: {error}")),
    };
    let after = after.ok().and_then(|(_, document)| document);
    format.conclude(outcome, || value(plan, &fixed, &paste, after.as_ref()), || ())
}

/// Runs `check` in a separate process with the options of this command line and these variables. Returns no outcome if
/// that process failed.
fn check_again(
    variables: &[(String, Option<OsString>)],
    format: Format,
) -> std::io::Result<(Option<Outcome>, Option<Value>)> {
    let mut command = subprocess::this_program()?;
    let mut has_name = false;
    let words = std::env::args_os().skip(1).map(|word| match word.to_str() {
        Some("fix") if !std::mem::replace(&mut has_name, true) => Some("check".into()),
        Some("--yes" | "--remove") => None,
        _ => Some(word),
    });
    command.args(words.flatten());
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if format == Format::Text {
        let status = command.stdin(Stdio::null()).status()?;
        return Ok((Outcome::from_status(status.code()), None));
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    Ok((Outcome::from_status(output.status.code()), serde_json::from_slice(&output.stdout).ok()))
}

fn text(plan: &Plan, is_fine: bool, only: &[&str]) {
    if plan.steps.is_empty() {
        outln!(
            "{}",
            match is_fine {
                true => findings::nothing_wrong(only),
                false =>
                    format!("No command can fix these problems: `{} check` explains how to fix them by hand.", doctor()),
            }
        );
        return;
    }
    findings::print_plan(plan, &Prose::for_home());
    if plan.steps.iter().all(|step| step.action.is_of_shell()) {
        outln!("\nPaste this into the shell that starts your programs, because only that shell can do it.");
        return;
    }
    let words = std::env::args_os().skip(1).filter(|word| word != "--dry-run");
    let command = doctor_command(words.chain(["--yes".into()]));
    outln!("\nNothing was changed. `{command}` executes these steps.");
    for (index, step) in plan.steps.iter().enumerate() {
        let removed = step.action.removed();
        if !removed.is_empty() {
            let removed = removed.join(" and ");
            outln!("Step {} removes {removed}: it needs your consent, or the option --remove.", index + 1);
        }
    }
}

fn is_agreed(title: &str, removed: &[String]) -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    let mut to = std::io::stderr();
    let question = format!("{}\nThis removes {}. Continue? [y/N] ", title.printable(), removed.join(" and "));
    if write!(to, "{question}").and_then(|()| to.flush()).is_err() {
        return false;
    }
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}

fn done(done: &ExecutedStep) -> Value {
    json!({ "title": done.title, "undo": done.undo.lines, "note": done.undo.note })
}

fn stopped(stopped: &Stopped) -> Value {
    let Undo { lines, note } = &stopped.undo;
    json!({ "step": stopped.step + 1, "reason": stopped.reason, "undo": lines, "note": note })
}

fn print_undo(undo: &Undo) {
    undo.lines.iter().for_each(|line| outln!("      to undo it: {line}"));
    undo.note.iter().for_each(|note| outln!("      note: {note}"));
}

fn value(plan: &Plan, fixed: &Fixed, paste: &[String], after: Option<&Value>) -> Value {
    json!({
        "plan": plan.value(),
        "done": fixed.done.iter().map(done).collect::<Vec<_>>(),
        "stopped": fixed.stopped.as_ref().map(stopped),
        "paste": paste,
        "findings": after.and_then(|after| after.get("findings")),
    })
}

fn report(plan: &Plan, fixed: &Fixed, paste: &[String]) {
    outln!("");
    for ExecutedStep { title, undo } in &fixed.done {
        outln!("done: {title}");
        print_undo(undo);
    }
    if let Some(stopped) = &fixed.stopped {
        let title = plan.steps.get(stopped.step).map_or("", |step| step.title.as_str());
        outln!("stopped at step {} ({title}): {}", stopped.step + 1, stopped.reason.printable());
        print_undo(&stopped.undo);
    }
    if !paste.is_empty() {
        outln!("\nPaste this into the shell that starts your programs:");
        paste.iter().for_each(|line| outln!("  {line}"));
    }
}
