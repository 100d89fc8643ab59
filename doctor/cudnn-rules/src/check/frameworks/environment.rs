//! Checks an environment as a whole, across all frameworks: C078, C080.

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_probe::facts::PathFacts;
use std::path::PathBuf;

use cudnn_frameworks::installation::{InstallationReport, Installer, Package};
use cudnn_frameworks::{Framework, Opens, Pair, Repair, Survey, Unreadable, is_cudnn};
use cudnn_probe::{Origin, Os};

use super::context::{dir_of_graph, is_closed, other_build};
use super::text::{source, title};
use crate::check::finding::{
    FRAMEWORKS_TOGETHER, Finding, FindingKind, NO_CUDNN, NO_DRIVER, NOT_ON_PATH, OTHER_ON_PATH, PACKAGES_UNREADABLE,
    Severity,
};
use crate::check::framework_requirement::is_without_cuda;
use crate::check::nvrtc::has_builtins;
use crate::check::remedies::permit;
use crate::packages;
use crate::remedy::{Action, Remedy};
use crate::system::LOADER;

const MAX: usize = 8;

/// C078: a framework fails because another framework in the same process has loaded a different cuDNN.
pub(super) fn together(pair: &Pair<'_>) -> Option<Finding> {
    let second = pair.second;
    let (alone, after) = (&second.opens, &pair.second_opens);
    let [one, two] = [pair.first, second].map(title);
    let wanted = second.built_for.cudnn.as_ref().map(|wanted| wanted.value);
    let is_accepted = |opens: &Opens| {
        wanted.zip(opens.version()).is_none_or(|(wanted, found)| second.kind.comparison.accepts(wanted, found))
    };
    let is_new = |name: &&String| is_cudnn(name) && !alone.missing.contains(name);
    let reason = if is_accepted(alone) && !is_accepted(after) {
        format!("it gets cuDNN {}, and accepts {} or newer", after.version()?, wanted?)
    } else {
        let missing = after.missing.iter().find(is_new)?;
        format!("its cuDNN would then not find {}", missing.printable())
    };
    // The environment may be a Windows one on a mounted disk.
    let loader = if second.os == Os::Windows { "Windows" } else { LOADER };
    let text =
        format!("import {} first, or install releases of both that are built for the same cuDNN", second.kind.id);
    Some(
        Finding::new(FRAMEWORKS_TOGETHER, format!("{two} fails after {one} in one process: {reason}"))
            .notes(after.cudnn.first().map(|got| format!("it gets {}", got.path.printable())))
            .note(format!("{loader} gives it the libraries with the same names that the first one has loaded"))
            .remedy(text),
    )
}

/// C080: packages that could not be examined.
pub(super) fn unreadable(survey: &Survey) -> Option<Finding> {
    let count = survey.unreadable.len();
    let dir = survey.environment.root.printable();
    let are_leftovers = survey.unreadable.iter().all(|one| one.repair == Some(Repair::Remove));
    let message = match count {
        0 if !survey.is_truncated => return None,
        0 => format!("{dir} has more packages than were examined"),
        1 if are_leftovers => format!("an interrupted pip command has left a directory in {dir}"),
        _ if are_leftovers => format!("interrupted pip commands have left {count} directories in {dir}"),
        1 => format!("a package in {dir} could not be examined"),
        _ => format!("{count} packages in {dir} could not be examined"),
    };
    let is_undecodable = |one: &Unreadable| matches!(one.repair, Some(Repair::Replace(..)));
    let text = if count > 0 && are_leftovers {
        "remove what pip has left, which belongs to no package"
    } else if count > 0 && survey.unreadable.iter().all(is_closed) {
        "allow this user to read it, or run this as a user who may; the findings do not cover its contents"
    } else if survey.unreadable.iter().any(is_undecodable) {
        "install that package again; the command sets the metadata aside that pip cannot use"
    } else {
        "install such a package again, if a framework belongs to it; the findings do not cover unreadable files"
    };
    // A framework with unreadable libraries fails for this user.
    let is_of_framework = |one: &Unreadable| {
        let mut dirs = survey.frameworks.iter().filter_map(|framework| framework.dir.as_ref());
        is_closed(one) && dirs.any(|dir| one.path.starts_with(dir))
    };
    let is_error = survey.unreadable.iter().any(is_of_framework);
    let severity = if is_error { Severity::Error } else { PACKAGES_UNREADABLE.severity };
    // pip fails until it can decode all metadata.
    let mut first: Vec<&Unreadable> = survey.unreadable.iter().collect();
    first.sort_by_key(|one| !is_undecodable(one));
    let actions: Vec<Action> = first.into_iter().take(MAX).flat_map(|one| repair(one, survey)).collect();
    let colon = if actions.is_empty() { "" } else { ":" };
    let notes = survey.unreadable.iter().take(MAX).map(|one| format!("{} {}", one.path.printable(), one.reason));
    Some(
        Finding::new(FindingKind { severity, ..PACKAGES_UNREADABLE }, message)
            .notes(notes)
            .notes((count > MAX).then(|| format!("and {} more", count - MAX)))
            .remedy(Remedy::new(format!("{text}{colon}")).actions(actions)),
    )
}

fn repair(one: &Unreadable, survey: &Survey) -> Vec<Action> {
    let root = &survey.environment.root;
    let reinstall = |name: &str, version: &Option<String>| {
        let change = packages::reinstall(&Package::new(Installer::Pip, name, version.as_deref(), root));
        change.map(Action::Packages)
    };
    match &one.repair {
        Some(Repair::Allow) => {
            let closed = one.path.ancestors().find(|above| above.path_exists());
            let permission = closed.and_then(|dir| permit(dir, &Origin::Python(root.clone())));
            permission.map(|remedy| remedy.actions).unwrap_or_default()
        }
        Some(Repair::Remove) => vec![Action::Remove(vec![one.path.clone()])],
        // This change also sets unusable metadata aside.
        Some(Repair::Reinstall(name, version) | Repair::Replace(name, version)) => {
            reinstall(name, version).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// C080: libraries of unknown packages that are too large to be searched.
pub(super) fn unsearched(survey: &Survey) -> Option<Finding> {
    let (first, others) = survey.unsearched.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" (and {} others)", others.len()) };
    let message = format!("{}{more} was not searched for the name of cuDNN: it is too large", first.printable());
    let remedy = Remedy::new("their packages may load cuDNN by name; to examine one:");
    let remedy = remedy.look(["check".into(), "--for".into(), first.clone().into_os_string()]);
    let notes = others.iter().map(|other| other.printable());
    Some(Finding::new(PACKAGES_UNREADABLE, message).notes(notes).remedy(remedy))
}

/// Downgrades a missing cuDNN (C010) or driver (C001) to a note if no framework needs it, or if all frameworks find a
/// cuDNN in a place that other programs do not search.
pub(crate) fn qualify_unneeded(findings: &mut [Finding], survey: &Survey) {
    let frameworks = &survey.frameworks;
    let (mut users, mut others) = (Vec::new(), Vec::new());
    for framework in frameworks.iter().filter(|framework| !framework.opens.needs_none) {
        if dir_of_graph(framework).is_some() { users.push(title(framework)) } else { others.push(framework) }
    }
    if !users.is_empty() && others.is_empty() && !survey.is_truncated {
        for finding in findings.iter_mut().filter(|finding| finding.kind.code == NO_CUDNN.code) {
            let users = users.join(", ");
            let message =
                format!("no cuDNN 9 was found for programs in general; the frameworks here find theirs: {users}");
            let kind = FindingKind { severity: Severity::Note, ..NO_CUDNN };
            *finding = Finding::new(kind, message).notes(finding.notes.last()).remedy(no_action());
        }
        return;
    }
    // The user wanted the GPU build that the CPU build has overwritten.
    let may_need_it = |framework: &Framework| !framework.opens.needs_none || other_build(framework, survey).is_some();
    if frameworks.is_empty() || survey.is_truncated || frameworks.iter().any(may_need_it) {
        return;
    }
    let uses_no_gpu = frameworks.iter().all(is_without_cuda);
    let titles = frameworks.iter().map(title).collect::<Vec<_>>().join(", ");
    for finding in findings {
        if finding.kind.code == NO_CUDNN.code {
            let use_of_gpu = if uses_no_gpu { "do not use NVIDIA GPUs and " } else { "" };
            let message =
                format!("no usable cuDNN 9 was found; the frameworks here {use_of_gpu}do not need it: {titles}");
            let kind = FindingKind { severity: Severity::Note, ..NO_CUDNN };
            let notes = frameworks.iter().map(why_unneeded).chain(finding.notes.last().cloned());
            *finding = Finding::new(kind, message).notes(notes).remedy(no_action());
        } else if finding.kind.code == NO_DRIVER.code && uses_no_gpu {
            finding.kind.severity = Severity::Note;
            finding.notes.push(format!("the frameworks here do not use NVIDIA GPUs: {titles}"));
            if let Some(remedy) = &mut finding.remedy {
                remedy.text = format!("for programs that use a GPU: {}", remedy.text);
            }
        }
    }
}

fn no_action() -> String {
    format!("no action needed; to see what another program finds: `{} check --for PROGRAM`", doctor())
}

fn why_unneeded(framework: &Framework) -> String {
    let built = &framework.built_for;
    match &built.uses_gpu {
        Some(uses_gpu) if !uses_gpu.value => {
            let device = if built.rocm.is_some() { "AMD's ROCm" } else { "the CPU" };
            format!("{} is built for {device} ({})", title(framework), source(&uses_gpu.source))
        }
        _ => format!("{} contains no use of cuDNN", title(framework)),
    }
}

/// The frameworks of the active environment that load an installation without a search path.
#[derive(Default)]
pub(in crate::check) struct Users {
    titles: Vec<String>,
    /// The CUDA libraries, such as `libnvrtc.so.12`, that all of their processes have loaded or load when cuDNN opens
    /// them.
    pub(in crate::check) cuda: Vec<String>,
}

impl Users {
    pub(in crate::check) fn of(survey: &Survey, report: &InstallationReport) -> Self {
        let is_user = |framework: &&Framework| dir_of_graph(framework).is_some_and(|dir| dir == report.dir);
        let users: Vec<&Framework> = survey.frameworks.iter().filter(is_user).collect();
        let name = |file: &PathBuf| Some(file.file_name()?.to_str()?.to_owned());
        let is_complete = |file: &&PathBuf| {
            let is_nvrtc = name(file).is_some_and(|name| name.starts_with("libnvrtc.so"));
            !is_nvrtc || report.cuda_major.is_none_or(|major| has_builtins(file, major))
        };
        let cuda_of = |framework: &&Framework| -> Vec<String> {
            framework.opens.cuda.iter().filter(is_complete).filter_map(name).collect()
        };
        let mut alone: Vec<&&Framework> = users.iter().filter(|user| !user.kind.accompanies_others).collect();
        if alone.is_empty() {
            alone.extend(&users);
        }
        let in_all = alone.into_iter().map(cuda_of).reduce(|mut cuda, of_other| {
            cuda.retain(|name| of_other.contains(name));
            cuda
        });
        Users { titles: users.into_iter().map(title).collect(), cuda: in_all.unwrap_or_default() }
    }

    /// Returns whether the finding only says that programs need a run path to find the installation, which is true of
    /// every healthy environment with a framework.
    pub(in crate::check) fn find_without_path(&self, finding: &Finding) -> bool {
        finding.kind.code == NOT_ON_PATH.code && !self.titles.is_empty()
    }

    /// Removes the command if programs without a run path find another installation, because the frameworks find this
    /// one.
    pub(in crate::check) fn qualify(&self, finding: &mut Finding) {
        if finding.kind.code != OTHER_ON_PATH.code || self.titles.is_empty() {
            return;
        }
        finding.kind.severity = Severity::Note;
        let finds = if self.titles.len() == 1 { "finds" } else { "find" };
        let titles = self.titles.join(", ");
        finding.notes.push(format!("{titles} {finds} this cuDNN without a search path: no action needed"));
        finding.remedy = None;
    }
}
