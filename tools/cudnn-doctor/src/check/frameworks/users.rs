//! The frameworks that use an installation: what they find by themselves needs no search path.

use cudnn_frameworks::{Framework, Survey};
use cudnn_probe::InstallationReport;

use super::text::title;
use super::used::is_graph;
use crate::check::finding::{Finding, FindingKind, NOT_ON_PATH, OTHER_ON_PATH, Severity};
use crate::check::nvrtc_builtins::has_builtins;

/// The frameworks of the active environment that load an installation.
#[derive(Default)]
pub(in crate::check) struct Users {
    titles: Vec<String>,
    /// The libraries of CUDA that each of their processes has loaded, or loads when cuDNN asks for them:
    /// `libnvrtc.so.12`.
    pub(in crate::check) cuda: Vec<String>,
}

impl Users {
    pub(in crate::check) fn of(survey: &Survey, report: &InstallationReport) -> Self {
        let is_user = |framework: &&Framework| {
            let graph = framework.opens.cudnn.iter().find(|opened| is_graph(&opened.name));
            let dir = graph.and_then(|graph| cudnn_probe::canonicalize(graph.path.parent()?).ok());
            dir.is_some_and(|dir| dir == report.dir)
        };
        let users: Vec<&Framework> = survey.frameworks.iter().filter(is_user).collect();
        let cuda_of = |framework: &Framework| -> Vec<String> {
            let is_complete = |file: &&std::path::PathBuf| {
                let is_nvrtc = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so"));
                !is_nvrtc || report.cuda_major.is_none_or(|major| has_builtins(file, major))
            };
            let files = framework.opens.cuda.iter().filter(is_complete);
            files.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect()
        };
        let mut all = users.iter().map(|framework| cuda_of(framework));
        let mut cuda = all.next().unwrap_or_default();
        all.for_each(|of_other| cuda.retain(|name| of_other.contains(name)));
        Users { titles: users.iter().map(|framework| title(framework)).collect(), cuda }
    }

    /// Makes it a note, without a command, that programs without a run path do not find the installation: the frameworks
    /// do.
    pub(in crate::check) fn qualify(&self, finding: &mut Finding) {
        let is_of_path = [NOT_ON_PATH, OTHER_ON_PATH].iter().any(|kind| kind.code == finding.kind.code);
        if !is_of_path || self.titles.is_empty() {
            return;
        }
        finding.kind = FindingKind { severity: Severity::Note, ..finding.kind };
        let finds = if self.titles.len() == 1 { "finds" } else { "find" };
        finding
            .notes
            .push(format!("{} {finds} this cuDNN without a search path: no action needed", self.titles.join(", ")));
        finding.help = None;
    }
}
