//! What of a framework's own package is missing or damaged, so that it cannot be imported or not use the GPU.

use cudnn_frameworks::{Damaged, Framework, Remedy, Survey, Unfound, Unreadable};

use super::devices::is_overwritten;
use super::loaded::install_again;
use super::text::title;
use crate::check::finding::{FRAMEWORK_DAMAGED, Finding, FindingKind, Help, Severity};
use crate::escape::Printable;

/// The most notes about files.
const MAX: usize = 8;

pub(super) fn finding(framework: &Framework, survey: &Survey) -> Option<Finding> {
    // C080 names what this user may not read, and C079 two packages with the same files.
    if is_closed(framework, survey) || is_overwritten(framework, survey) {
        return None;
    }
    let absent = &framework.absent;
    let missing = absent.necessary.iter().map(|file| format!("{} is missing", file.printable()));
    let is_listed = |unfound: &&Unfound| absent.necessary.iter().any(|file| file.ends_with(&unfound.name));
    let unfound = framework.opens.unfound.iter().filter(|unfound| !is_listed(unfound));
    let problems: Vec<String> = missing
        .chain(
            unfound
                .clone()
                .map(|one| format!("{} is missing, which {} needs", one.name.printable(), one.needed_by.printable())),
        )
        .chain(damaged(framework).map(|one| format!("{} {}", one.path.printable(), one.reason.printable())))
        .collect();
    let others = absent.count.saturating_sub(absent.necessary.len());
    let rest = (others > 0).then(|| match absent.others.first() {
        Some(first) if others == 1 => format!("{}, which its record names, is missing", first.printable()),
        Some(first) => {
            format!("{} and {} other files, which its record names, are missing", first.printable(), others - 1)
        }
        None => format!("{others} files that its record names are missing"),
    });
    let title = title(framework);
    let (kind, message) = match (problems.as_slice(), &rest) {
        ([], None) => return None,
        // Images are made smaller like this.
        ([], Some(rest)) => (FindingKind { severity: Severity::Note, ..FRAMEWORK_DAMAGED }, format!("{title}: {rest}")),
        ([one], _) => (FRAMEWORK_DAMAGED, format!("{title} is damaged: {one}")),
        (all, _) => {
            (FRAMEWORK_DAMAGED, format!("{title} is damaged: {} files are missing or cannot be loaded", all.len()))
        }
    };
    let is_error = !problems.is_empty();
    let notes = problems.iter().filter(|_| problems.len() > 1).take(MAX).cloned();
    let more = (problems.len() > MAX).then(|| format!("and {} more", problems.len() - MAX));
    let finding = Finding::new(kind, message).notes(notes).notes(more).notes(rest.filter(|_| is_error));
    let of_system: Vec<String> =
        unfound.filter(|one| !is_of_package(one, framework)).map(|one| one.name.printable()).collect();
    Some(finding.help(if !is_error {
        Help::new("install it again, if somebody has not removed them to save space")
    } else if of_system.len() == problems.len() {
        Help::new(format!("install the package of the system that contains {}", of_system.join(" and ")))
    } else {
        install_again(framework, survey)
    }))
}

/// The damaged libraries of its own package.
pub(super) fn damaged(framework: &Framework) -> impl Iterator<Item = &Damaged> {
    framework.opens.damaged_others.iter().filter(|damaged| is_own(damaged, framework))
}

/// Whether a damaged library is of the framework's own package.
pub(super) fn is_own(damaged: &Damaged, framework: &Framework) -> bool {
    let real = |path: &std::path::Path| cudnn_probe::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Some(dir) = &framework.dir else { return false };
    let beside = dir.parent().unwrap_or(dir).join(format!("{}.libs", framework.distribution.name.replace('-', "_")));
    let file = real(&damaged.path);
    file.starts_with(real(dir)) || file.starts_with(real(&beside))
}

/// Whether a library that is missing is one of its package: its record names it, or its name has the hash that the tools
/// for wheels give to copies.
fn is_of_package(unfound: &Unfound, framework: &Framework) -> bool {
    let is_it = |file: &std::path::PathBuf| file.ends_with(&unfound.name);
    let stem = unfound.name.split(".so").next().unwrap_or_default();
    let is_copy = stem
        .rsplit_once('-')
        .is_some_and(|(_, hash)| hash.len() >= 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_copy || framework.absent.others.iter().chain(&framework.absent.necessary).any(is_it)
}

fn is_closed(framework: &Framework, survey: &Survey) -> bool {
    let Some(dir) = &framework.dir else { return false };
    let is_closed = |one: &Unreadable| one.remedy == Some(Remedy::Allow) && one.path.starts_with(dir);
    survey.unreadable.iter().any(is_closed)
}
