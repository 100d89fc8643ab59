//! Compares the result of a step with the simulation.

use cudnn_probe::facts::{Changes, Facts};

use crate::check::{Finding, Severity};

/// Derives the findings from the active facts, without running anything.
pub type Check = dyn Fn() -> Vec<Finding>;

/// The findings that a step should fix.
pub struct ForeseenEffect<'a> {
    fixed: Vec<Finding>,
    check: &'a Check,
}

impl<'a> ForeseenEffect<'a> {
    /// Determines which errors and warnings with these codes a step fixes. `after` are the facts after its simulation, if
    /// its effect is known.
    pub fn of(after: Option<&Facts>, codes: &[&str], check: &'a Check) -> Self {
        let left = after.map(|facts| facts.within(check));
        let is_fixed =
            |finding: &Finding| left.as_ref().is_some_and(|left| !left.iter().any(|one| one.is_same(finding)));
        let mut fixed = if left.is_some() { present(check) } else { Vec::new() };
        fixed.retain(|finding| {
            finding.kind.severity > Severity::Note && codes.contains(&finding.kind.code) && is_fixed(finding)
        });
        ForeseenEffect { fixed, check }
    }

    /// Describes the first of these findings that is still there.
    pub fn unmet(&self) -> Option<String> {
        let left = if self.fixed.is_empty() { Vec::new() } else { present(self.check) };
        let finding = left.iter().find(|left| self.fixed.iter().any(|fixed| fixed.is_same(left)))?;
        Some(format!("{} is still there: {}", finding.kind.code, finding.message))
    }
}

/// Returns the findings that a simulation can reproduce, because they need no programs.
fn present(check: &Check) -> Vec<Finding> {
    Facts::recorder().after(Changes::default()).within(check)
}
