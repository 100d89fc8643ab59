//! Whether the frameworks of an environment need no cuDNN at all, as builds for the CPU do: then none is missing.

use cudnn_frameworks::{Framework, Survey};

use super::devices::is_overwritten;
use super::text::{source, title};
use crate::check::finding::{Finding, FindingKind, Help, NO_CUDNN, NO_DRIVER, Severity};
use crate::shell::doctor;

/// An environment with frameworks that all need no cuDNN.
pub(crate) struct Unneeded {
    titles: Vec<String>,
    reasons: Vec<String>,
    /// Nor does one of them use a GPU of NVIDIA's.
    uses_no_gpu: bool,
}

impl Unneeded {
    /// `None` if a framework of the environment needs cuDNN, or may; or if there is no framework.
    pub(crate) fn of(survey: &Survey) -> Option<Self> {
        let frameworks = &survey.frameworks;
        let may_need_it = |framework: &Framework| !framework.opens.needs_none || is_overwritten(framework, survey);
        if frameworks.is_empty() || survey.is_truncated || frameworks.iter().any(may_need_it) {
            return None;
        }
        Some(Unneeded {
            titles: frameworks.iter().map(title).collect(),
            reasons: frameworks.iter().map(reason).collect(),
            uses_no_gpu: frameworks.iter().all(uses_no_gpu),
        })
    }

    /// Makes a missing cuDNN or driver a note, if no framework misses it.
    pub(crate) fn qualify(&self, finding: &mut Finding) {
        let is = |kind: FindingKind| finding.kind.code == kind.code;
        let titles = self.titles.join(", ");
        if is(NO_CUDNN) {
            let use_of_gpu = if self.uses_no_gpu { "use no GPU of NVIDIA's and " } else { "" };
            let message = format!("no usable cuDNN 9 was found; the frameworks here {use_of_gpu}need none: {titles}");
            let searched = finding.notes.last().cloned();
            let kind = FindingKind { severity: Severity::Note, ..NO_CUDNN };
            let help = format!(
                "nothing is to be done for them; whether another program finds what it needs: `{} check --for PROGRAM`",
                doctor()
            );
            *finding = Finding::new(kind, message).notes(&self.reasons).notes(searched).help(help);
        } else if is(NO_DRIVER) && self.uses_no_gpu {
            finding.kind.severity = Severity::Note;
            finding.notes.push(format!("the frameworks here use no GPU of NVIDIA's: {titles}"));
            finding.help = finding.help.take().map(|help| {
                let text = format!("for programs that use a GPU: {}", help.text);
                Help { text, ..help }
            });
        }
    }
}

fn uses_no_gpu(framework: &Framework) -> bool {
    framework.built_for.uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value)
}

fn reason(framework: &Framework) -> String {
    let built = &framework.built_for;
    match &built.uses_gpu {
        Some(uses_gpu) if !uses_gpu.value => {
            let what = if built.rocm.is_some() { "AMD's ROCm" } else { "the CPU" };
            format!("{} is built for {what} ({})", title(framework), source(&uses_gpu.source))
        }
        _ => format!("{} contains no use of cuDNN", title(framework)),
    }
}
