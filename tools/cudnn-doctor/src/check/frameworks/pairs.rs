//! Two frameworks in one process, which has one cuDNN.

use cudnn_frameworks::{Opens, Pair};
use cudnn_probe::Os;

use super::incomplete::is_cudnn;
use super::text::title;
use crate::check::finding::{FRAMEWORKS_TOGETHER, Finding};
use crate::escape::Printable;
use crate::system::LOADER;

/// Two frameworks in one process: what the second gets when the first has loaded its cuDNN. What is wrong with the
/// second alone is reported as such.
pub(super) fn together(pair: &Pair<'_>) -> Option<Finding> {
    let (first, second) = (pair.first, pair.second);
    let (alone, after) = (&second.opens, &pair.second_opens);
    let [one, two] = [first, second].map(title);
    let is_accepted = |opens: &Opens| {
        let wanted = second.built_for.cudnn.as_ref().map(|wanted| wanted.value);
        wanted.zip(opens.version()).is_none_or(|(wanted, found)| second.kind.comparison.accepts(wanted, found))
    };
    let got = pair.second_gets.as_deref().map(|got| format!("it gets {}", got.printable()));
    let is_new = |name: &&String| is_cudnn(name) && !alone.missing.contains(name);
    let finding = if is_accepted(alone) && !is_accepted(after) {
        let (version, wanted) = (after.version()?, second.built_for.cudnn.as_ref()?.value);
        Finding::new(
            FRAMEWORKS_TOGETHER,
            format!("{two} fails after {one} in one process: it gets cuDNN {version}, and accepts {wanted} or newer"),
        )
    } else if let Some(missing) = after.missing.iter().find(is_new) {
        let message =
            format!("{two} fails after {one} in one process: its cuDNN then finds no {}", missing.printable());
        Finding::new(FRAMEWORKS_TOGETHER, message)
    } else {
        return None;
    };
    // An environment of Windows may be on a disk of another system.
    let loader = if second.os == Os::Windows { "Windows" } else { LOADER };
    let rule = format!("{loader} gives it the libraries of the same names that the first has loaded");
    Some(finding.notes(got).note(rule).help(format!(
        "import {} first, or install releases of both that are built for the same cuDNN",
        second.kind.id
    )))
}
