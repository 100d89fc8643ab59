//! The same cuDNN again: what its installer restores.

use cudnn_probe::packages::{self, Command, Component, DEFAULT_CUDA_MAJOR, Installer, Package};
use cudnn_probe::{Host, InstallationReport, Library, ProbeError, Version};

use super::files::{leftovers, links, lost_links, without_dangling_links};
use super::lines::is_foreign;
use super::package_help::{all_packages, change, cuda_major, names, with_commands};
use super::places::{apart_dir, no_place};
use crate::check::finding::{Effect, Help};
use crate::check::limits::Limits;
use crate::cudnn_file::is_drop_in;
use crate::escape::Printable;
use crate::shell::{prepend_library_path, removal, use_dir};
use crate::system::LOADER;

/// The help for a file that cannot be used, if there is any.
pub(crate) fn repair(error: &ProbeError, report: Option<&InstallationReport>) -> Option<Help> {
    let is_damage = match error {
        ProbeError::UnusableLibrary { error, .. } => is_damage(error),
        error => is_damage(error),
    };
    match report.filter(|report| is_damage && report.package.is_some()) {
        Some(report) => Some(reinstall(report)),
        None => error.help().map(Help::from),
    }
}

/// Is it about a file that the package's own would repair?
fn is_damage(error: &ProbeError) -> bool {
    matches!(
        error,
        ProbeError::BrokenLink { .. }
            | ProbeError::SonameLinkMissing { .. }
            | ProbeError::NotRegularFile { .. }
            | ProbeError::NotElf { .. }
            | ProbeError::Truncated { .. }
            | ProbeError::Malformed { .. }
            | ProbeError::WrongSoname { .. }
            | ProbeError::WrongArchitecture { .. }
            | ProbeError::WrongOs { .. }
            | ProbeError::WrongMajor { .. }
            | ProbeError::MixedVersions { .. }
            | ProbeError::MixedCuda { .. }
            | ProbeError::OtherRelease { .. }
    )
}

/// What to do after NVIDIA's shim came back in place of the drop-in: a part of [`reinstall`]'s text.
pub(crate) const PUT_DROP_IN_AGAIN: &str = ", and put the drop-in in its place again after that";

/// Replaces damaged or missing files, or files of two releases or two CUDA majors, by those of one release.
pub(crate) fn reinstall(report: &InstallationReport) -> Help {
    if let Some(help) = leftovers(report) {
        return help;
    }
    if !report.other_packages.is_empty() {
        return replace(report);
    }
    match report.package.as_ref().and_then(|package| Some((package, packages::reinstall(package)?))) {
        // Files lose no content with a link: to copy all again is not necessary.
        None if !lost_links(report).is_empty() => links(&report.dir, report.version.unwrap_or(Version::new(9, 0, 0))),
        Some((package, command)) => {
            let has_drop_in = report.library(Library::Shim).is_some_and(|part| is_drop_in(&part.path));
            let after = if has_drop_in { PUT_DROP_IN_AGAIN } else { "" };
            let help = with_commands(format!("reinstall {}{after}:", package.name), &[command]);
            if package.installer == Installer::Pip { without_dangling_links(help, &report.dir) } else { help }
        }
        None => by_hand(report),
    }
}

/// Restores wheels of one environment, whose files are deleted.
pub(in crate::check) fn restore(wheels: &[Package]) -> Option<Help> {
    let (last, others) = wheels.split_last()?;
    let commands: Vec<Command> = if others.is_empty() {
        packages::reinstall(last).into_iter().collect()
    } else {
        let cuda_major = last.name.rsplit("-cu").next().and_then(|major| major.parse().ok());
        let component = last.component().unwrap_or(Component::Cudnn);
        packages::replace(wheels, component, pinned_cuda(wheels).or(cuda_major).unwrap_or(DEFAULT_CUDA_MAJOR))
    };
    let text = format!("install the files of {} again:", names(wheels));
    (!commands.is_empty()).then(|| with_commands(text, &commands))
}

/// Several packages own the directory: removes all, installs one.
pub(super) fn replace(report: &InstallationReport) -> Help {
    keep_one(report, |_| true)
}

/// Removes all packages that own the directory, and installs one: that which a framework requires; else the one in the
/// directory, or another one if that is for a CUDA major that does not fit.
pub(in crate::check) fn keep_one(report: &InstallationReport, fits: impl Fn(u32) -> bool) -> Help {
    let packages = all_packages(report);
    let component = packages.first().and_then(Package::component).unwrap_or(Component::Cudnn);
    let installed = cuda_major(report);
    let of_package = |package: &Package| package.name.rsplit("-cu").next()?.parse().ok();
    let fitting =
        || std::iter::once(installed).chain(packages.iter().filter_map(of_package)).find(|major| fits(*major));
    let cuda_major = pinned_cuda(&packages).or_else(fitting).unwrap_or(installed);
    let commands = packages::replace(&packages, component, cuda_major);
    if commands.is_empty() {
        return by_hand(report);
    }
    let text = format!("{} own the same files: remove all of them, then install one:", names(&packages));
    change(&packages, text, &commands)
}

/// The CUDA major of the cuDNN that a framework of the environment requires, if it is one of these.
fn pinned_cuda(packages: &[Package]) -> Option<u32> {
    let root = packages.first().filter(|package| package.installer == Installer::Pip)?.root.as_path();
    let names: Vec<String> = packages.iter().map(|package| package.name.clone()).collect();
    Limits::new(Some(root), &[], &Host::current()).pinned_cuda(&names)
}

/// Gives programs that load `libcudnn.so.9` by its name a shim of the same installation, if this one lacks its shim.
pub(in crate::check) fn with_shim(report: &InstallationReport) -> Help {
    let has_package = report.package.as_ref().is_some_and(|package| packages::reinstall(package).is_some());
    let export = prepend_library_path(&report.dir);
    if let Some(export) = export.filter(|_| has_package) {
        let help = reinstall(report);
        if help.commands.is_empty() {
            return help;
        }
        let text = format!("{} Then have {LOADER} search its directory first.", help.text);
        return Help { text, ..help }.command(export);
    }
    let Some(apart) = apart_dir(Component::Cudnn, cuda_major(report)) else { return no_place() };
    let command = packages::install_apart(Component::Cudnn, cuda_major(report), &apart);
    let Some((command, dir)) = command else { return by_hand(report) };
    with_commands("no package can restore it: install a complete cuDNN elsewhere, and use that:", &[command])
        .command(use_dir(&dir))
        .effect(Effect::OtherDir)
}

/// The help if no package manager owns the files: they were copied, or an application ships them.
fn by_hand(report: &InstallationReport) -> Help {
    let dir = report.dir.printable();
    match &report.package {
        Some(Package { installer: Installer::Pip, name, root, .. })
            if packages::site_packages(root).next().is_some() =>
        {
            Help::new(format!(
                "install {name} in {} again, by the pip of the Python that uses these packages: no such Python with a pip is \
                 on PATH",
                root.printable()
            ))
        }
        Some(Package { installer: Installer::Pip, name, .. }) => Help::new(format!(
            "install {name} into {} again, with all packages that share a directory with it there",
            report.package.as_ref().map_or(dir, |package| package.root.printable())
        )),
        Some(Package { installer: Installer::Application, name, .. }) => {
            Help::new(format!("reinstall {name}, which ships this cuDNN"))
        }
        Some(Package { installer: Installer::Archive, name, .. }) => {
            Help::new(format!("unpack {name} again, or unpack another release elsewhere and use that"))
        }
        _ => {
            let sudo = if is_foreign(&report.dir) { "sudo " } else { "" };
            let help =
                Help::new(format!("remove the files of cuDNN 9 from {dir}, then copy all files of one release there:"));
            let removal = removal(&report.dir).map(|removal| format!("{sudo}{removal}"));
            removal.into_iter().fold(help, Help::command).effect(Effect::SameDir)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::quoted_path;

    #[test]
    fn a_leftover_beside_a_system_package_is_removed() {
        use support::{FakeLibrary, TempDir};
        let root = TempDir::new();
        let dir = root.path().join("usr/lib/x86_64-linux-gnu");
        let info = root.path().join("var/lib/dpkg/info");
        for dir in [&dir, &info] {
            std::fs::create_dir_all(dir).unwrap_or_default();
        }
        let mut list = String::new();
        for library in [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled] {
            let name = library.file_name();
            let file = dir.join(format!("{name}.19.0"));
            FakeLibrary::new(library, support::Version::new(9, 19, 0)).build(&file);
            std::os::unix::fs::symlink(&file, dir.join(name)).unwrap_or_default();
            list += &format!("/usr/lib/x86_64-linux-gnu/{name}\n/usr/lib/x86_64-linux-gnu/{name}.19.0\n");
        }
        std::fs::write(info.join("libcudnn9-jit-cuda-12.list"), list).unwrap_or_default();
        let host = Host::sandbox(root.path());
        let help =
            || InstallationReport::read(&dir, &host).map(|report| reinstall(&report)).unwrap_or_else(|| Help::new(""));
        assert_eq!(
            help().commands.join("\n").replace("sudo ", ""),
            "apt-get install -y --reinstall libcudnn9-jit-cuda-12"
        );
        // An older copy, which ldconfig prefers because it is newer than the package's.
        let file = dir.join("libcudnn_graph.so.9.28.0");
        FakeLibrary::new(Library::Graph, support::Version::new(9, 28, 0)).build(&file);
        let link = dir.join("libcudnn_graph.so.9");
        std::fs::remove_file(&link).unwrap_or_default();
        std::os::unix::fs::symlink(&file, link).unwrap_or_default();
        let help = help();
        assert!(help.text.contains("libcudnn_graph.so.9.28.0 is left over"), "{help:?}");
        let expected = format!("rm {} && ldconfig", quoted_path(&dir.join("libcudnn_graph.so.9.28.0")));
        assert_eq!(help.commands.join("\n").replace("sudo ", ""), expected);
    }
}
