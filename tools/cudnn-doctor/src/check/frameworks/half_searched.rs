//! Directories that a framework's Python code searches for cuDNN, and that have more files than the doctor examines: it
//! must not claim that there is none.

use cudnn_frameworks::{Framework, Survey};

use super::text::{found, title};
use crate::check::finding::{FRAMEWORK_HALF_SEARCHED, Finding, Help};
use crate::escape::Printable;
use crate::shell::set_variable;

pub(super) fn finding(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let dirs: Vec<String> = framework.opens.half_searched.iter().map(|dir| dir.printable()).collect();
    if dirs.is_empty() {
        return None;
    }
    let (title, dirs) = (title(framework), dirs.join(" and "));
    let message = match framework.opens.cudnn.first() {
        Some(_) => {
            format!("{title} may load another cuDNN: it searches {dirs}, which has too many files to examine all")
        }
        None => {
            format!(
                "which cuDNN {title} would load is unknown: it searches {dirs}, which has too many files to examine all"
            )
        }
    };
    let finding = Finding::new(FRAMEWORK_HALF_SEARCHED, message).notes(framework.opens.cudnn.first().map(found));
    let wheels = survey.environment.import_dirs.iter().map(|dir| dir.join("nvidia/cudnn"));
    let wheel = wheels.into_iter().find(|dir| dir.join("lib").is_dir());
    Some(
        finding.help(match wheel {
            Some(wheel) => Help::new(
                "it searches the directory in CUDNN_HOME first: to have it load the wheel of its environment:",
            )
            .command(set_variable("CUDNN_HOME", &wheel)),
            None => Help::new("it searches the directory in CUDNN_HOME first: set that to the directory of its cuDNN"),
        }),
    )
}
