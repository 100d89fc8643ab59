//! Whether the frameworks of an environment fit the cuDNN that they would load, the driver and the GPUs: the facts of
//! `cudnn-frameworks`, judged.

mod broken;
mod cuda;
mod devices;
mod foreign;
mod half_searched;
mod help;
mod incomplete;
mod libraries;
mod loaded;
mod other_cuda;
mod pairs;
mod pins;
mod text;
mod unneeded;
mod used;
mod users;

use cudnn_frameworks::{Depth, Environment, Framework, Remedy, Survey, Unreadable, survey_to};
use cudnn_probe::packages::{self, Installer, Package};
use cudnn_probe::{Host, Origin, Os};

use super::demand::{CUDNN_MAJOR, Demand};
use super::finding::{Finding, FindingKind, Help, PACKAGES_UNREADABLE, Severity};
use super::fix_commands::{permit, with_commands};
use super::machine::Machine;
use super::suitable::suitable;
use crate::context::Context;
use crate::escape::Printable;
use crate::shell::{doctor, quoted_path, removal_of_dir};
pub(crate) use incomplete::is_cudnn;
pub(crate) use libraries::help_for_libraries;
pub(crate) use text::{how, how_in_short, release, source};
pub(crate) use unneeded::Unneeded;
use used::{UsedInstallation, UsedInstallations};
pub(in crate::check) use users::Users;

/// The frameworks of an environment, and what is wrong with them.
pub(crate) struct Judged {
    pub(crate) survey: Survey,
    pub(crate) findings: Vec<Finding>,
}

pub(crate) fn judge(environment: &Environment, machine: &Machine, host: &Host, depth: Depth) -> Judged {
    let survey = survey_to(environment, host, depth);
    let used = UsedInstallations::read(&survey);
    let of_framework = |framework| of_framework(framework, used.of(framework), &survey, machine);
    let mut findings: Vec<Finding> = survey.frameworks.iter().flat_map(of_framework).collect();
    findings.extend(cudnn_frameworks::pairs(&survey, host).iter().filter_map(pairs::together));
    findings.extend(unreadable(&survey));
    findings.extend(unsearched(&survey));
    if environment.os != Os::HOST {
        findings.iter_mut().for_each(leave_help_to_windows);
    }
    Judged { survey, findings }
}

/// The commands of this system do not change an environment of Windows.
fn leave_help_to_windows(finding: &mut Finding) {
    if finding.help.as_ref().is_some_and(|help| !help.commands.is_empty()) {
        finding.help = Some(Help::new("run `cudnn-doctor frameworks` on Windows, which has the commands"));
    }
}

/// `used`: the installation that it would use.
fn of_framework(
    framework: &Framework,
    used: Option<&UsedInstallation>,
    survey: &Survey,
    machine: &Machine,
) -> Vec<Finding> {
    if framework.built_for.uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value) {
        let broken = broken::finding(framework, survey);
        return broken.into_iter().chain(devices::cpu_only(framework, survey, machine)).collect();
    }
    let mut findings: Vec<Finding> = Vec::new();
    let broken = broken::finding(framework, survey);
    let is_unusable = broken.as_ref().is_some_and(|finding| finding.kind.severity == Severity::Error);
    findings.extend(broken);
    // One cause at a time: another cuDNN may have the libraries that this one lacks.
    let of_cudnn = other_cuda::finding(framework, used.map(|used| &used.report), survey, machine);
    // Without its libraries, nothing is known of what they need.
    let is_unknown = is_unusable && framework.opens.users.is_empty();
    let of_cudnn = of_cudnn.or_else(|| if is_unknown { None } else { loaded::cudnn(framework, used, survey, machine) });
    let of_cudnn = of_cudnn.or_else(|| incomplete::finding(framework, survey, machine));
    findings.extend(of_cudnn.or_else(|| loaded::older_shim(framework)));
    findings.extend(half_searched::finding(framework, survey));
    findings.extend(pins::unmet(framework, survey, machine));
    findings.extend(cuda::missing(framework, survey));
    findings.extend(cuda::damaged(framework));
    findings.extend(devices::driver(framework, machine));
    findings.extend(machine.gpus.iter().filter_map(|gpu| devices::kernels(framework, gpu)));
    findings
}

/// The environment whose Python a program would use.
pub(crate) fn active(context: &Context) -> Option<Environment> {
    let of_python =
        context.python.as_ref().map(|python| Environment::of_python(&python.program, &python.root, &context.host));
    of_python.or_else(|| Environment::active(&context.search).into_iter().next())
}

/// Installs the cuDNN that the frameworks of the active environment demand. `None` if none demands one.
pub(crate) fn install_for_active(context: &Context, machine: &Machine) -> Option<Help> {
    let survey =
        survey_to(&active(context)?, &context.host, Depth { kernels: false, unlisted: false, metadata: false });
    let demanding = || survey.frameworks.iter().filter(|framework| Demand::of(framework).is_some());
    let first = demanding().find(|framework| !framework.opens.is_optional).or_else(|| demanding().next())?;
    Some(help::install(first, &survey, machine))
}

/// The major of cuDNN that the frameworks of the active environment need, and their names, if it is not the one that this
/// project supports.
pub(crate) fn needing_other_major(context: &Context, machine: &Machine) -> Option<(u32, Vec<String>)> {
    let survey =
        survey_to(&active(context)?, &context.host, Depth { kernels: false, unlisted: false, metadata: false });
    let suitable = suitable(&survey.frameworks, machine).ok()?;
    let demanding = survey.frameworks.iter().filter(|framework| Demand::of(framework).is_some());
    let major = suitable.cudnn_major;
    (major != CUDNN_MAJOR).then(|| (major, demanding.map(text::title).collect()))
}

fn unreadable(survey: &Survey) -> Option<Finding> {
    const MAX: usize = 8;
    let count = survey.unreadable.len();
    if count == 0 && !survey.is_truncated {
        return None;
    }
    let dir = survey.environment.root.printable();
    let message = match count {
        0 => format!("{dir} has more packages than were examined"),
        1 => format!("a package in {dir} could not be examined"),
        _ => format!("{count} packages in {dir} could not be examined"),
    };
    let notes = survey.unreadable.iter().take(MAX).map(|one| format!("{} {}", one.path.printable(), one.reason));
    let rest = (count > MAX).then(|| format!("and {} more", count - MAX));
    let is_closed = |one: &Unreadable| one.remedy == Some(Remedy::Allow);
    let has_undecodable = survey.unreadable.iter().any(|one| matches!(one.remedy, Some(Remedy::Replace(..))));
    let help = if count > 0 && survey.unreadable.iter().all(is_closed) {
        "allow this user to read it, or run this as a user who may; the findings lack what is in it"
    } else if has_undecodable {
        "first remove the metadata that pip cannot decode, then install that package again"
    } else {
        "install such a package again, if a framework belongs to it; the findings lack what could not be read"
    };
    // A framework whose libraries this user may not read cannot be imported by this user.
    let is_of_framework = |one: &Unreadable| {
        is_closed(one)
            && survey.frameworks.iter().any(|of| of.dir.as_ref().is_some_and(|dir| one.path.starts_with(dir)))
    };
    let severity = if survey.unreadable.iter().any(is_of_framework) { Severity::Error } else { Severity::Note };
    let kind = FindingKind { severity, ..PACKAGES_UNREADABLE };
    let finding = Finding::new(kind, message).notes(notes).notes(rest);
    // pip does nothing else before it can decode all metadata.
    let mut unreadable: Vec<&Unreadable> = survey.unreadable.iter().collect();
    unreadable.sort_by_key(|one| !matches!(one.remedy, Some(Remedy::Replace(..))));
    let commands: Vec<String> = unreadable.into_iter().take(MAX).flat_map(|one| mend(one, survey)).collect();
    Some(finding.help(if commands.is_empty() {
        Help::new(help)
    } else {
        commands.into_iter().fold(Help::new(format!("{help}:")), Help::command)
    }))
}

/// Libraries of packages that are no known framework, and that are too large to be searched.
fn unsearched(survey: &Survey) -> Option<Finding> {
    let (first, others) = survey.unsearched.split_first()?;
    let message = match others.len() {
        0 => format!("{} was not searched for the name of cuDNN: it is too large", first.printable()),
        others => format!(
            "{} and {others} other libraries were not searched for the name of cuDNN: they are too large",
            first.printable()
        ),
    };
    let help = "their packages may use cuDNN by its name; to examine one:";
    let command = format!("{} check --for {}", doctor(), quoted_path(first));
    let notes = others.iter().map(|other| other.printable());
    Some(Finding::new(PACKAGES_UNREADABLE, message).notes(notes).help(Help::new(help).command(command)))
}

/// The command that mends a package that could not be examined, where one is known.
fn mend(one: &Unreadable, survey: &Survey) -> Vec<String> {
    if one.remedy == Some(Remedy::Allow) {
        let environment = Origin::Python(survey.environment.root.clone());
        let closed = one.path.ancestors().find(|above| above.symlink_metadata().is_ok());
        return closed.and_then(|dir| permit(dir, &environment)).map(|help| help.commands).unwrap_or_default();
    }
    let reinstall = |name: &str, version: Option<&str>| {
        packages::reinstall(&Package::new(Installer::Pip, name, version, &survey.environment.root))
    };
    let (removal, command) = match one.remedy.as_ref() {
        Some(Remedy::Remove) => (Some(removal_of_dir(&one.path)), None),
        Some(Remedy::Reinstall(name, version)) => (None, reinstall(name, version.as_deref())),
        Some(Remedy::Replace(name, version)) => (Some(removal_of_dir(&one.path)), reinstall(name, version.as_deref())),
        _ => (None, None),
    };
    removal.into_iter().chain(with_commands("", command.as_slice()).commands).collect()
}
