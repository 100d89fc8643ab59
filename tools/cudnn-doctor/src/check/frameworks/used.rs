//! The installations that the frameworks of an environment would use. Each is read once, however many frameworks use it:
//! the records of all packages of the environment name its owner, and all functions of its shim show its release.

use std::collections::HashMap;
use std::path::PathBuf;

use cudnn_frameworks::{Framework, Survey};
use cudnn_probe::{Host, InstallationReport, Library};

use crate::check::finding::Finding;
use crate::check::installation;

/// The installations, by their directories without symbolic links.
pub(super) struct UsedInstallations(HashMap<PathBuf, UsedInstallation>);

/// An installation that a framework would use.
pub(super) struct UsedInstallation {
    pub(super) report: InstallationReport,
    /// The files in its directory that do not belong to it.
    pub(super) foreign: Vec<Finding>,
}

impl UsedInstallations {
    pub(super) fn read(survey: &Survey) -> Self {
        let mut all = HashMap::new();
        for dir in survey.frameworks.iter().filter_map(dir) {
            if !all.contains_key(&dir)
                && let Some(report) = InstallationReport::read(&dir, &Host::current())
            {
                let foreign = installation::foreign(&report, false);
                all.insert(dir, UsedInstallation { report, foreign });
            }
        }
        UsedInstallations(all)
    }

    /// The installation with the graph library that this framework would load.
    pub(super) fn of(&self, framework: &Framework) -> Option<&UsedInstallation> {
        self.0.get(&dir(framework)?)
    }
}

/// Whether this is the name of the graph library, on any system.
pub(super) fn is_graph(name: &str) -> bool {
    name.starts_with("libcudnn_graph.") || name == Library::Graph.windows_name()
}

fn dir(framework: &Framework) -> Option<PathBuf> {
    let graph = framework.opens.cudnn.iter().find(|opened| is_graph(&opened.name))?;
    cudnn_probe::canonicalize(graph.path.parent()?).ok()
}
