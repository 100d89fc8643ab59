//! What the cuDNN that a framework would load lacks, and which of its files cannot be used.

pub(crate) use cudnn_frameworks::is_cudnn;
use cudnn_frameworks::{Framework, Opened, Opens, Survey};
use cudnn_probe::Os;

use super::help::{again, reach};
use super::text::{found, title};
use crate::check::finding::{FRAMEWORK_DAMAGED_CUDNN, FRAMEWORK_NO_CUDNN, Finding};
use crate::check::machine::Machine;
use crate::escape::Printable;

/// Libraries of its cuDNN that it would not find, or cannot use. Without any cuDNN, see [`cudnn`](super::loaded::cudnn).
pub(super) fn finding(framework: &Framework, survey: &Survey, machine: &Machine) -> Option<Finding> {
    let opens = &framework.opens;
    let first = opens.cudnn.first()?;
    let damaged: Vec<String> = damaged(opens).collect();
    let is_damaged = |name: &&&String| opens.damaged.iter().any(|damaged| damaged.path.ends_with(name.as_str()));
    let missing = opens.missing.iter().filter(|name| is_cudnn(name) && !is_damaged(&name));
    let missing: Vec<String> = missing.map(|name| name.printable()).collect();
    let title = title(framework);
    // A shim alone is no cuDNN.
    let is_shim_alone = opens.cudnn.len() == 1;
    let (kind, message) = match (damaged.as_slice(), missing.as_slice()) {
        ([], []) => return None,
        ([], [name]) if is_shim_alone => (FRAMEWORK_NO_CUDNN, format!("{title} would not find {name}")),
        ([], [name, _]) if is_shim_alone => {
            (FRAMEWORK_NO_CUDNN, format!("{title} would not find {name}, and another library of cuDNN"))
        }
        ([], [name, others @ ..]) if is_shim_alone => {
            let others = others.len();
            (FRAMEWORK_NO_CUDNN, format!("{title} would not find {name}, and {others} other libraries of cuDNN"))
        }
        ([], [name]) => {
            (FRAMEWORK_DAMAGED_CUDNN, format!("the cuDNN that {title} would load is incomplete: {name} is missing"))
        }
        ([], _) => {
            let count = missing.len();
            let message = format!("the cuDNN that {title} would load is incomplete: {count} libraries are missing");
            (FRAMEWORK_DAMAGED_CUDNN, message)
        }
        ([one], _) => (FRAMEWORK_DAMAGED_CUDNN, format!("the cuDNN that {title} would load is damaged: {one}")),
        (_, _) => {
            let count = damaged.len();
            let message = format!("the cuDNN that {title} would load is damaged: {count} libraries cannot be used");
            (FRAMEWORK_DAMAGED_CUDNN, message)
        }
    };
    // The message has the only one.
    let damaged = damaged.into_iter().filter(|one| !message.ends_with(one.as_str())).collect::<Vec<_>>();
    let finding = Finding::new(kind, message).notes(damaged);
    let list = (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")));
    Some(finding.notes(list).note(found(first)).help(if is_elsewhere(first, framework, survey) {
        reach(framework, survey, machine)
    } else {
        again(framework, survey, machine)
    }))
}

/// The files that cannot be used, and why.
pub(super) fn damaged(opens: &Opens) -> impl Iterator<Item = String> {
    opens.damaged.iter().map(|damaged| format!("{} {}", damaged.path.printable(), damaged.reason.printable()))
}

/// Whether this shim is a copy in the framework's package, without the libraries that it opens.
pub(super) fn is_copy(shim: &Opened, framework: &Framework) -> bool {
    let is_alone = || framework.opens.cudnn.len() == 1 && !framework.kind.contains_cudnn(framework.os);
    shim.name.starts_with("libcudnn-")
        || framework.os == Os::Windows && framework.dir.as_deref() == shim.path.parent() && is_alone()
}

/// A shim outside of the environment, or one that the framework's own package contains without the libraries that it
/// opens.
fn is_elsewhere(shim: &Opened, framework: &Framework, survey: &Survey) -> bool {
    is_copy(shim, framework) || !shim.path.starts_with(&survey.environment.root)
}
