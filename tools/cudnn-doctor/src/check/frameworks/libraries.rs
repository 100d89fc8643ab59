//! How a framework finds all libraries of CUDA and cuDNN that its files need: for a run that failed for one of them.

use cudnn_frameworks::{Depth, Environment, survey_to};
use cudnn_probe::Host;

use super::{cuda, loaded};
use crate::check::finding::{FRAMEWORK_NO_CUDNN, FRAMEWORK_OPTIONAL_CUDNN, Finding, Help};
use crate::check::machine::Machine;

/// The help with the commands of all findings about libraries that the framework with this id would not find. `None` if
/// its files state none.
pub(crate) fn help_for_libraries(id: &str, environment: &Environment, machine: &Machine, host: &Host) -> Option<Help> {
    let survey = survey_to(environment, host, Depth { kernels: false, unlisted: false, metadata: false });
    let framework = survey.frameworks.iter().find(|framework| framework.kind.id == id)?;
    let is_absence = |finding: &Finding| {
        [FRAMEWORK_NO_CUDNN, FRAMEWORK_OPTIONAL_CUDNN].iter().any(|kind| kind.code == finding.kind.code)
    };
    let cudnn = loaded::cudnn(framework, None, &survey, machine).filter(is_absence);
    let mut helps = cuda::missing(framework, &survey).into_iter().chain(cudnn).filter_map(|finding| finding.help);
    let first = helps.next()?;
    Some(helps.fold(first, |mut all, help| {
        if help.commands.is_empty() {
            return all;
        }
        let (text, more) = (all.text.trim_end_matches(':'), help.text);
        all.text = if all.commands.is_empty() { more } else { format!("{text}; then {more}") };
        all.commands.extend(help.commands);
        all
    }))
}
