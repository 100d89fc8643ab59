//! Provides the facts for checking one framework.

use std::path::PathBuf;

use cudnn_frameworks::installation::InstallationReport;
use cudnn_frameworks::{Damaged, Framework, OpenedFile, Repair, Survey, Unreadable, real_path};
use cudnn_probe::{Host, Library};

use super::site::site_of;
use super::text;
use crate::check::machine::Machine;
use crate::check::wheel_choice::{WheelChoice, choose_wheel};
use crate::packages::Site;

#[derive(Clone, Copy)]
pub(super) struct FrameworkContext<'a> {
    pub(super) framework: &'a Framework,
    pub(super) survey: &'a Survey,
    pub(super) machine: &'a Machine,
    pub(super) host: &'a Host,
    /// The installation with the graph library that the framework would load.
    pub(super) report: Option<&'a InstallationReport>,
}

impl FrameworkContext<'_> {
    pub(super) fn title(&self) -> String {
        text::title(self.framework)
    }

    pub(super) fn cuda_major(&self) -> Option<u32> {
        self.framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0)
    }

    pub(super) fn site(&self) -> Site {
        site_of(self.framework, self.survey)
    }

    pub(super) fn choose_wheel(&self) -> Result<WheelChoice, String> {
        choose_wheel(&self.survey.frameworks, self.machine)
    }

    /// Returns whether a file is in the environment that imports the framework, or that contains it.
    pub(super) fn is_beside(&self, opened: &OpenedFile) -> bool {
        let dirs = [&self.survey.environment.root, &self.framework.distribution.import_dir];
        dirs.iter().any(|dir| opened.path.starts_with(dir))
    }

    /// Returns whether part of the framework's directory is unreadable, which C080 reports.
    pub(super) fn is_closed(&self) -> bool {
        let Some(dir) = &self.framework.dir else { return false };
        self.survey.unreadable.iter().any(|one| is_closed(one) && one.path.starts_with(dir))
    }

    pub(super) fn owns(&self, damaged: &Damaged) -> bool {
        let Some(dir) = &self.framework.dir else { return false };
        let libs = format!("{}.libs", self.framework.distribution.name.replace('-', "_"));
        let file = real_path(&damaged.path);
        [dir, &dir.parent().unwrap_or(dir).join(libs)].iter().any(|dir| file.starts_with(real_path(dir)))
    }
}

/// Returns the CPU build for a GPU build in the same directory, or the reverse. The build installed last has
/// overwritten the other.
pub(super) fn other_build<'a>(framework: &Framework, survey: &'a Survey) -> Option<&'a Framework> {
    let is_cpu = |framework: &Framework| framework.kind.is_cpu_package(&framework.distribution.name);
    let has_same_dir = |other: &Framework| framework.dir.is_some() && other.dir == framework.dir;
    survey.frameworks.iter().find(|other| {
        std::ptr::eq(other.kind, framework.kind) && has_same_dir(other) && is_cpu(other) != is_cpu(framework)
    })
}

pub(super) fn is_closed(one: &Unreadable) -> bool {
    one.repair == Some(Repair::Allow)
}

pub(super) fn graph(framework: &Framework) -> Option<&OpenedFile> {
    framework.opens.cudnn.iter().find(|opened| is_graph(&opened.name))
}

pub(super) fn dir_of_graph(framework: &Framework) -> Option<PathBuf> {
    cudnn_probe::canonicalize(graph(framework)?.path.parent()?).ok()
}

pub(super) fn is_graph(name: &str) -> bool {
    name.starts_with("libcudnn_graph.") || name == Library::Graph.windows_name()
}
