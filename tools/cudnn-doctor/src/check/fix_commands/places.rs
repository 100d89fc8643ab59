//! Directories to install into, and how programs come to use one.

use std::path::{Path, PathBuf};

use cudnn_probe::packages::{Component, Installer};
use cudnn_probe::{DIR_VARIABLE, InstallationReport};

use crate::check::finding::{Effect, Help};
use crate::context::Context;
use crate::platform::data_dir;
use crate::shell::{doctor, is_use_line, unset_variable, use_dir};

/// The directory of packages that contains a wheel's libraries: `nvidia/cudnn/lib` or `torch/lib` is below it.
pub(super) fn site_packages(report: &InstallationReport) -> Option<PathBuf> {
    let is_pip = report.package.as_ref().is_some_and(|package| package.installer == Installer::Pip);
    let is_site_packages = |path: &&Path| path.ends_with("site-packages") || path.ends_with("dist-packages");
    report.dir.ancestors().find(is_site_packages).filter(|_| is_pip).map(Path::to_owned)
}

/// The help where this user can write to no directory that is meant for what is installed apart: `docker run --user`.
pub(super) fn no_place() -> Help {
    let text = "this user has no home directory to write to, nor sudo for /opt: give it a directory";
    Help::new(format!("{text}, and run `{} check` again, which then has the commands:", doctor()))
        .command("export HOME=\"$(mktemp -d)\"")
}

/// A directory of its own for each library: pip does not add to a directory that it has filled. `None` if this user can
/// write to none.
pub(super) fn apart_dir(component: Component, cuda_major: u32) -> Option<PathBuf> {
    let name = match component {
        Component::Cublas => "cublas",
        Component::Nvrtc => "nvrtc",
        _ => "cudnn",
    };
    Some(data_dir()?.join(format!("{name}-cuda-{cuda_major}")))
}

/// Selects another installation.
pub(in crate::check) fn use_other(dir: &Path) -> Help {
    let line = use_dir(dir);
    Help::new("put that installation first:").command(line).effect(Effect::OtherDir)
}

/// While [`DIR_VARIABLE`] is set, the loader searches no other directory: each help that has programs use another one
/// ends with a line about the variable.
pub(crate) fn leave_named_dir(help: &mut Help, context: &Context) {
    let is_named = context.search.explicit_candidate().is_some();
    let is_about_variable = |line: &String| is_use_line(line) || line.ends_with(DIR_VARIABLE);
    if is_named && help.effect == Effect::OtherDir && !help.commands.iter().any(is_about_variable) {
        help.commands.push(unset_variable(DIR_VARIABLE));
    }
}
