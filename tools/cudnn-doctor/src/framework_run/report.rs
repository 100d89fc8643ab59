//! A run as `--json` and as text.

use serde_json::{Value, json};

use super::Run;
use super::step::{Outcome, Step, first_line};
use crate::check::finding::FRAMEWORK_ELSEWHERE;
use crate::escape::Printable;

impl Run {
    /// Does the framework work on the GPU?
    fn works(&self) -> bool {
        self.finding.as_ref().is_none_or(|finding| finding.kind.code == FRAMEWORK_ELSEWHERE.code)
    }

    /// For `--json`.
    pub(crate) fn value(&self) -> Value {
        json!({
            "framework": self.framework.module(),
            "python": self.python.as_ref().map(|python| python.to_string_lossy()),
            "version": self.version,
            "works": self.works(),
            "steps": self.steps.iter().map(|step| json!({
                "step": step.name,
                "outcome": step.outcome.map(Outcome::as_str),
                "text": step.text,
            })).collect::<Vec<_>>(),
            "libraries": self.libraries,
        })
    }

    /// The run as lines of text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let python = self.python.as_ref().map_or(String::new(), |python| format!(", by {}", python.printable()));
        let step = |step: &Step| {
            let outcome = match step.outcome {
                Some(Outcome::Done) => String::new(),
                Some(Outcome::Skipped) => "skipped: ".to_owned(),
                Some(Outcome::Cpu) => "on the CPU: ".to_owned(),
                Some(Outcome::Failed) | None => "failed: ".to_owned(),
            };
            let text = format!("  {:<12} {outcome}{}", step.name.printable(), first_line(&step.text).printable());
            text.trim_end().to_owned()
        };
        let title = format!("{}{python}", self.title());
        std::iter::once(title).chain(self.steps.iter().map(step)).collect()
    }
}
