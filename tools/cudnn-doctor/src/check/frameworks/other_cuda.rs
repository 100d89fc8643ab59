//! The CUDA major of the cuDNN that a framework would load, and that of the framework.

use cudnn_frameworks::{By, Framework, Survey};
use cudnn_probe::{InstallationReport, dll_search};

use super::help::{install, is_beside, without_named_dir, without_preload, without_search};
use super::text::{drop_in_note, found, release, source, title};
use super::used::is_graph;
use crate::check::finding::{FRAMEWORK_OLD_CUDNN, Finding, Help};
use crate::check::machine::Machine;
use crate::escape::Printable;

/// A cuDNN for another CUDA: its kernels need a cuBLASLt and an NVRTC that the framework's CUDA does not have.
pub(super) fn finding(
    framework: &Framework,
    report: Option<&InstallationReport>,
    survey: &Survey,
    machine: &Machine,
) -> Option<Finding> {
    let built = framework.built_for.cuda.as_ref()?;
    let (major, minor) = built.value;
    let graph = framework.opens.cudnn.iter().find(|opened| is_graph(&opened.name))?;
    let other = report?.cuda_major.filter(|other| *other != major)?;
    let message = format!(
        "{} is built for CUDA {}, and would load a cuDNN for CUDA {other}",
        title(framework),
        release(major, minor)
    );
    let finding = Finding::new(FRAMEWORK_OLD_CUDNN, message).note(found(graph)).note(format!(
        "built for CUDA {} ({})",
        release(major, minor),
        source(&built.source)
    ));
    // The shim opens the graph library beside itself.
    let preloaded = framework.opens.cudnn.iter().find_map(without_preload);
    if let Some(help) = without_named_dir(graph).or(preloaded) {
        return Some(finding.help(help));
    }
    if is_beside(graph, framework, survey) {
        return Some(finding.notes(drop_in_note(framework)).help(install(framework, survey, machine)));
    }
    if let Some(help) = without_search(graph) {
        return Some(finding.help(help));
    }
    let dir = graph.path.parent().unwrap_or(&graph.path).printable();
    Some(finding.help(Help::new(match &graph.by {
        By::Variable(name) => format!("start it without {name}, which leads to {dir}"),
        By::Python => format!("start it without the directory above {dir} on PYTHONPATH"),
        By::Windows(dll_search::Rule::PathVariable) => format!("start it without {dir} on PATH"),
        _ => format!("install a cuDNN for CUDA {major} in place of the one in {dir}"),
    })))
}
