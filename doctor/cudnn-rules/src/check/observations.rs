//! Gathers the facts that several checks examine. Checks read the others themselves.

use std::path::Path;
use std::sync::Arc;

use cudnn_frameworks::installation::InstallationReport;
use cudnn_frameworks::{Depth, Survey};

use super::frameworks::{self, Users};
use super::load_test::{LoadTest, Parts};
use super::machine::Machine;
use super::program::{Call, Examined};
use super::selection::{Selected, Used, installed_in};
use super::{Finding, Requested, companions, installation};
use crate::context::Context;
use crate::framework_run::Run;
use crate::release_facts::{ReleaseFacts, in_use};

/// The facts about a machine that the checks examine.
pub struct Observations<'a> {
    pub(super) requested: &'a Requested,
    pub(super) context: &'a Context,
    /// The driver and the GPUs.
    pub machine: Machine,
    pub(super) release_facts: ReleaseFacts,
    /// The requested program. `how` is set only if the program finds a usable cuDNN.
    pub program: Examined,
    /// The installation that the program uses, or that the loader would use if no program was requested.
    pub used: Option<Used>,
    /// The result of the search, or empty if a requested program finds a cuDNN.
    pub(super) selected: Selected,
    /// The frameworks of the active environment, or `None` if a requested program finds a cuDNN.
    pub(super) frameworks: Option<Arc<Survey>>,
    /// The result of loading the installation in a child process, see [`Observations::add_load_test`].
    pub load: LoadTest,
    /// The runs of the requested frameworks in child processes.
    pub runs: Vec<Run>,
}

impl<'a> Observations<'a> {
    /// Reads the facts about this machine. Results of child processes are added afterwards.
    pub fn read(context: &'a Context, requested: &'a Requested, machine: Machine) -> Observations<'a> {
        let mut program =
            requested.program.as_deref().map(|program| Examined::read(program, context)).unwrap_or_default();
        // If the program finds a cuDNN, check only that one.
        let found = program.dir.as_deref().and_then(|dir| installed_in(dir, context));
        program.how = program.how.filter(|_| found.is_some());
        let mut selected = if found.is_some() { Selected::default() } else { Selected::read(context) };
        let used = found.or_else(|| selected.used.take());
        let frameworks = if program.how.is_none() { active_frameworks(context, &machine) } else { None };
        Observations {
            requested,
            context,
            machine,
            release_facts: in_use().facts,
            program,
            used,
            selected,
            frameworks,
            load: LoadTest::default(),
            runs: Vec::new(),
        }
    }

    /// Returns the installation that a child process has to load, and the parts of that test, if the request needs it.
    pub fn to_load(&self) -> Option<(&InstallationReport, Parts)> {
        let report = self.report().filter(|_| self.requested.is_load_needed())?;
        // Registering engines takes about 400 ms with a full cuDNN, and reveals libraries from a different release.
        let may_be_mixed = self.requested.verify || !installation::is_one_wheel(report);
        let parts = Parts {
            convolution: self.requested.convolution,
            driver: self.machine.has_driver_library(),
            engines: may_be_mixed && !companions::has_damaged(report, self.context),
            cuda: companions::files(report, self.context),
        };
        Some((report, parts))
    }

    /// Adds the result of loading the installation.
    pub fn add_load_test(&mut self, load: LoadTest) {
        self.machine.cuda = load.cuda;
        self.load = load;
    }

    pub(super) fn report(&self) -> Option<&InstallationReport> {
        self.used.as_ref().map(|(_, report)| report)
    }

    pub(super) fn check_used<F: IntoIterator<Item = Finding>>(
        &self,
        check: impl FnOnce(&InstallationReport) -> F,
    ) -> Vec<Finding> {
        let Some(report) = self.report() else { return Vec::new() };
        let name_dir = |finding| Finding { installation: Some(report.dir.clone()), ..finding };
        check(report).into_iter().map(name_dir).collect()
    }

    pub(super) fn is_of_program(&self) -> bool {
        self.program.how.is_some()
    }

    pub(super) fn called(&self) -> Option<(&Path, &[Call])> {
        let program = self.requested.program.as_deref().filter(|_| self.is_of_program())?;
        Some((program, &self.program.called))
    }

    pub(super) fn users(&self) -> Users {
        let (Some(frameworks), Some(report)) = (&self.frameworks, self.report()) else { return Users::default() };
        Users::of(frameworks, report)
    }

    /// Downgrades a missing cuDNN or driver to a note if no framework of the environment needs it.
    pub(super) fn qualified(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        let is_about_frameworks = self.used.is_none() && self.requested.is_about_machine();
        if let Some(frameworks) = self.frameworks.as_ref().filter(|_| is_about_frameworks)
            && !self.selected.is_cudnn_wanted(self.context)
        {
            frameworks::qualify_unneeded(&mut findings, frameworks);
        }
        findings
    }
}

fn active_frameworks(context: &Context, machine: &Machine) -> Option<Arc<Survey>> {
    // Kernels only matter if there is a GPU.
    let depth = Depth { kernels: !machine.gpus.is_empty(), unlisted: false, metadata: true };
    let environment = frameworks::active(context)?;
    Some(context.survey(&environment, depth))
}
