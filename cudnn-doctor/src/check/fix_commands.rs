//! The commands that repair or replace an installation. The commands come from the probe's `packages`, which knows the
//! installer that owns the files; this module chooses among them. Each command must work when it is pasted:
//! `tests/advice.rs` executes them.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component as PathPart, Path, PathBuf};

use cudnn_probe::packages::{
    self, BasePython, Command, Component, DEFAULT_CUDA_MAJOR, Installer, MissingPython, Package, PythonProblem,
    pip_on_path,
};
use cudnn_probe::{
    DIR_VARIABLE, Host, InstallationReport, Library, LibraryReport, Origin, Os, ProbeError, RejectedCandidate, Version,
};

use super::finding::{Effect, Help};
use super::frameworks;
use super::installers::{SystemTools, prepared};
use super::limits::{Choice, Limits};
use super::machine::{Gpu, Machine};
use super::suitable::{Suitable, suitable};
use crate::context::Context;
use crate::cudnn_file::is_drop_in;
use crate::escape::Printable;
use crate::platform::{belongs_to_root, belongs_to_user, data_dir, is_of_root, is_root, permit_command, python_in};
use crate::shell::{
    SEARCH_PATH, doctor, is_use_line, link_to, prepend_library_path, quoted_path, removal, removal_of, unset_variable,
    use_dir,
};
use crate::system::{CUDNN_PREFIX, LOADER};

/// The directory that CUDA toolkits are installed in.
const CUDA_PREFIX: &str = "/usr/local";

/// The directory that JetPack's packages install cuDNN in.
const JETPACK_DIR: &str = "/usr/lib/aarch64-linux-gnu";

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

/// The directory that this user may not enter, or else the one with the file that this user may not read, if that is why
/// a candidate was rejected.
pub(crate) fn denied_dir(one: &RejectedCandidate) -> Option<PathBuf> {
    let ProbeError::Unreadable { error } = &one.error else { return None };
    let path = one.path();
    let reachable = || path.ancestors().find(|above| above.symlink_metadata().is_ok());
    let reachable = reachable().filter(|_| error.kind() == ErrorKind::PermissionDenied)?;
    Some(if reachable == path { one.candidate.dir.clone() } else { reachable.to_owned() })
}

/// Lets this user read a directory of an environment. What is above the environment is not for everybody to read.
pub(crate) fn permit(dir: &Path, origin: &Origin) -> Option<Help> {
    let is_own = is_root() || belongs_to_user(dir);
    dir.starts_with(origin.root()?).then(|| {
        Help::new("give the user that runs the program permission to read it:")
            .command(permit_command(&quoted_path(dir), is_own))
    })
}

/// Lets this user read a file.
pub(super) fn permit_file(file: &Path) -> Help {
    let sudo = if is_root() || belongs_to_user(file) { "" } else { "sudo " };
    Help::new("give the user that runs the program permission to read it:")
        .command(format!("{sudo}chmod a+r {}", quoted_path(file)))
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

/// Removes files that no package owns, to which ldconfig leads the links of the package's libraries. To install the package
/// again would change nothing.
pub(super) fn leftovers(report: &InstallationReport) -> Option<Help> {
    let (first, others) = report.unowned.split_first()?;
    let sudo = if is_foreign(&report.dir) { "sudo " } else { "" };
    let files: Vec<String> = report.unowned.iter().map(|file| quoted_path(file)).collect();
    let text = match others.len() {
        0 => format!("{} is left over from a copy: no package owns it; remove it", first.printable()),
        more => {
            format!(
                "{} and {more} more are left over from a copy: no package owns them; remove them",
                first.printable()
            )
        }
    };
    let name = report.package.as_ref().map_or("the package".to_owned(), |package| package.name.printable());
    let help = Help::new(format!("{text}, and have ldconfig link the files of {name} again:"));
    Some(help.command(format!("{sudo}rm {} && {sudo}ldconfig", files.join(" "))).effect(Effect::SameDir))
}

/// Removes a file that no package has installed.
pub(super) fn remove(text: String, file: &Path) -> Help {
    let sudo = if file.parent().is_some_and(is_foreign) { "sudo " } else { "" };
    Help::new(text).command(format!("{sudo}{}", removal_of(file))).effect(Effect::SameDir)
}

/// The missing libraries whose files exist under their full names (`libcudnn_ops.so.9.28.0`): only their links are lost.
pub(super) fn lost_links(report: &InstallationReport) -> Vec<Library> {
    let Some(version) = report.version.filter(|_| report.os == Os::Linux) else { return Vec::new() };
    let file = |library: &Library| report.dir.join(format!("{}{}", library.file_name(), full_suffix(version)));
    report.missing.iter().copied().filter(|library| file(library).is_file()).collect()
}

/// `.28.0`: what the name of a file has more than its link.
fn full_suffix(version: Version) -> String {
    format!(".{}.{}", version.minor, version.patch)
}

/// Makes the links to all files of this release that have none.
fn links(dir: &Path, version: Version) -> Help {
    let suffix = full_suffix(version);
    let link = format!("\"${{file%{suffix}}}\"");
    let script = format!(
        "cd {} && for file in libcudnn*.so.9{suffix}; do [ -e {link} ] || ln -sf \"$file\" {link}; done",
        quoted_path(dir)
    );
    let sudo = if is_foreign(dir) { "sudo " } else { "" };
    Help::new("make the links that are missing; the files are there, under their full names:")
        .command(format!("{sudo}sh -c {}", packages::quoted(script)))
        .effect(Effect::SameDir)
}

/// Makes the links in a directory that has this file, and not the link to it.
pub(super) fn links_like(dir: &Path, file: &str) -> Option<Help> {
    let version = file.split_once(".so.")?.1.parse().ok()?;
    Some(links(dir, version))
}

/// First removes links in this directory that lead to no file: pip fails at them.
fn without_dangling_links(help: Help, dir: &Path) -> Help {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_cudnn =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CUDNN_PREFIX));
    let mut links: Vec<PathBuf> =
        entries.filter(|path| is_cudnn(path) && path.is_symlink() && !path.exists()).collect();
    links.sort();
    let sudo = if is_foreign(dir) { "sudo " } else { "" };
    let removals = links.iter().map(|link| format!("{sudo}rm {}", quoted_path(link)));
    Help { commands: removals.chain(help.commands).collect(), ..help }
}

/// Restores wheels of one environment, whose files are deleted.
pub(super) fn restore(wheels: &[Package]) -> Option<Help> {
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
fn replace(report: &InstallationReport) -> Help {
    keep_one(report, |_| true)
}

/// Removes all packages that own the directory, and installs one: that which a framework requires; else the one in the
/// directory, or another one if that is for a CUDA major that does not fit.
pub(super) fn keep_one(report: &InstallationReport, fits: impl Fn(u32) -> bool) -> Help {
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

/// Installs the full cuDNN where there is none: what the frameworks of the active environment demand; else in the active
/// environment, or in a directory apart where the Python on `PATH` takes no packages.
pub(crate) fn install(context: &Context, machine: &Machine) -> Help {
    if let Some(help) = frameworks::install_for_active(context, machine) {
        return help;
    }
    match suitable([], machine) {
        Ok(Suitable { cuda_major, requirement, .. }) => {
            let text = "install the full cuDNN in the program's environment:";
            install_wheel(context, text, (&requirement, cuda_major), None, &Choice::default())
        }
        Err(reason) => Help::new(reason),
    }
}

/// Installs the full cuDNN, by this requirement of a wheel, where programs of the active environment find it.
fn install_wheel(
    context: &Context,
    text: impl Into<String>,
    (requirement, cuda_major): (&str, u32),
    minimum: Option<Version>,
    choice: &Choice,
) -> Help {
    let environments = context.search.environments();
    let is_active = |origin: &Origin| matches!(origin, Origin::VirtualEnvironment(_) | Origin::Conda(_));
    let python = environments.iter().find_map(|origin| match origin {
        Origin::Python(root) if python_in(root).is_file() => Some(root.as_path()),
        _ => None,
    });
    let base = python.map_or(BasePython::Managed { has_pip: false, has_ensurepip: false }, packages::base_python);
    // On Windows, every Python takes packages.
    if Os::HOST != Os::Windows
        && !environments.iter().any(is_active)
        && context.python.is_none()
        && let BasePython::Managed { has_pip, has_ensurepip } = base
        && let Some(help) =
            install_apart((requirement, cuda_major), python, has_pip, has_ensurepip, &SystemTools::here())
    {
        return help;
    }
    match in_environment(context, requirement, minimum, choice) {
        Some(command) => with_commands(text, &[command]),
        None => Help::new(format!("install {requirement} in the program's environment")),
    }
}

/// Installs the full cuDNN in a directory apart, with the pip of this Python or in a virtual environment.
fn install_apart(
    (requirement, cuda_major): (&str, u32),
    python: Option<&Path>,
    has_pip: bool,
    has_ensurepip: bool,
    tools: &SystemTools,
) -> Option<Help> {
    let Some(dir) = apart_dir(Component::Cudnn, cuda_major) else { return Some(no_place()) };
    let program = python.map_or(PathBuf::from("python3"), python_in);
    let (why, commands) = if has_pip {
        // pip adds nothing to a directory that it has filled.
        let again = dir.exists().then_some("--upgrade");
        let pip = ["-I", "-m", "pip", "install"].into_iter().chain(again).chain(["--target"]).map(OsString::from);
        let arguments = pip.chain([dir.clone().into_os_string(), requirement.into()]);
        ("the system's Python takes no packages from pip", vec![Command::new(program, arguments)])
    } else {
        let tool = if has_ensurepip { None } else { Some(tools.python()?) };
        let venv = Command::new(program, ["-m".into(), "venv".into(), dir.clone().into_os_string()]);
        let install = Command::new(python_in(&dir), ["-I", "-m", "pip", "install", requirement]);
        ("the system's Python has no pip", tool.into_iter().chain([venv, install]).collect())
    };
    let text =
        format!("no environment is active, and {why}: install the full cuDNN in a directory apart, and use that:");
    let used = use_dir(&dir);
    let help = lines(&commands).into_iter().fold(Help::new(text), Help::command);
    Some(help.command(used).effect(Effect::OtherDir))
}

fn requirement(wheel: &str, minimum: Option<Version>, choice: &Choice) -> String {
    match (&choice.exact, minimum) {
        (Some(exact), _) => format!("{wheel}=={exact}"),
        (None, Some(version)) => format!("{wheel}>={version}{}", choice.specifiers),
        (None, None) => wheel.to_owned(),
    }
}

/// Installs a wheel in the active environment, or that release by conda. `None` if no command can do it there.
fn in_environment(context: &Context, requirement: &str, minimum: Option<Version>, choice: &Choice) -> Option<Command> {
    let pip = |root: Option<&Path>| packages::pip(root, "install", [requirement.to_owned()]);
    let environments = context.search.environments();
    let active = environments.iter().find_map(|origin| match origin {
        Origin::VirtualEnvironment(root) => Some(pip(Some(root.as_path()))),
        Origin::Conda(root) => {
            let package = Package::new(Installer::Conda, Component::Cudnn.conda_package(), None, root);
            let minimum = minimum.unwrap_or(Version::new(9, 0, 0));
            Some(packages::upgrade(&package, &format!("{minimum}{}", choice.specifiers)))
        }
        _ => None,
    });
    if let Some(command) = active {
        return command;
    }
    let of_path = || {
        environments.iter().find_map(|origin| match origin {
            Origin::Python(root) if root.join("bin/python3").is_file() => pip(Some(root.as_path())),
            _ => None,
        })
    };
    let of_python = || Some(context.python.as_ref()?.pip("install", &[requirement]));
    of_python().or_else(of_path).or_else(|| pip(None))
}

/// Installs cuDNN 9 where an older one is.
pub(super) fn replace_older(report: &InstallationReport) -> Option<Help> {
    let package = report.package.as_ref().filter(|package| package.is_cudnn())?;
    let command = match package.installer {
        Installer::Pip | Installer::Conda => packages::upgrade(package, "9")?,
        // cuDNN 8 and cuDNN 9 are packages of different names.
        _ => packages::install_beside(package, Component::Cudnn, DEFAULT_CUDA_MAJOR, None)?,
    };
    Some(with_commands(format!("install cuDNN 9; {} is cuDNN {}:", package.name, report.major), &[command]))
}

/// Installs a cuDNN of this older major in a directory apart, and has ld.so search it; `None` if no wheel is of it, from
/// this version on, for this CUDA.
pub(super) fn install_older(minimum: Version, cuda_major: u32) -> Option<Help> {
    // The last wheel of cuDNN 8 for each CUDA.
    let last = match cuda_major {
        11 => Version::new(8, 9, 6),
        12 => Version::new(8, 9, 7),
        _ => return None,
    };
    if minimum.major != last.major || minimum > last {
        return None;
    }
    let Some(home) = apart_dir(Component::Cudnn, cuda_major) else { return Some(no_place()) };
    let dir = home.with_file_name(format!("cudnn-{}-cuda-{cuda_major}", last.major));
    let requirement = format!("{}>={minimum},<9", Component::Cudnn.wheel(cuda_major));
    // pip adds nothing to a directory that it has filled.
    let again = dir.exists().then_some("--upgrade");
    let pip = pip_on_path();
    let options = ["install"].into_iter().chain(again).chain(["--target"]).map(OsString::from);
    let arguments = options.chain([dir.clone().into_os_string(), requirement.into()]);
    let install = Command::new(pip.program, pip.arguments.into_iter().chain(arguments));
    // cuDNN 8 finds the cuBLAS beside it by ld.so's search alone.
    let cublas = prepend_library_path(&dir.join(Component::Cublas.wheel_dir(cuda_major)))?;
    let cudnn = prepend_library_path(&dir.join(Component::Cudnn.wheel_dir(cuda_major)))?;
    let text = format!("install cuDNN 8 in a directory apart, beside any cuDNN 9, and have {LOADER} search it:");
    Some(with_commands(text, &[install]).command(cublas).command(cudnn).effect(Effect::Other))
}

/// What a program requires, and this installation is not or does not have.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) minimum: Option<Version>,
    pub(crate) cuda_major: Option<u32>,
    /// Libraries that only the full cuDNN has.
    pub(crate) full: bool,
    /// It is a program with this installation on its search path, and has to find the one in its place.
    pub(crate) is_of_program: bool,
}

/// Installs what is wanted: all of it, so that one help serves all findings.
///
/// # Errors
/// Why no release is what is wanted and fits these GPUs and the frameworks of the environment.
pub(crate) fn meet(
    report: &InstallationReport,
    wanted: &Wanted,
    gpus: &[Gpu],
    context: &Context,
) -> Result<Help, String> {
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    let cuda = wanted.cuda_major.unwrap_or_else(|| cuda_major(report));
    let choice = limits(package, gpus, context).choose(wanted.minimum, cuda)?;
    Ok(meet_by(report, wanted, cuda, &choice, context))
}

/// The limits of the environment that this package is in, or of the active one.
fn limits<'a>(package: Option<&Package>, gpus: &'a [Gpu], context: &Context) -> Limits<'a> {
    let environments = context.search.environments();
    let root = match package {
        Some(package) => Some(package.root.as_path()).filter(|_| package.installer == Installer::Pip),
        None => environments.first().and_then(Origin::root),
    };
    Limits::new(root, gpus, &context.host)
}

fn meet_by(report: &InstallationReport, wanted: &Wanted, cuda: u32, choice: &Choice, context: &Context) -> Help {
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    let is_other_cuda = report.cuda_major.is_some_and(|major| major != cuda);
    let version = wanted.minimum.map(|version| version.to_string());
    if let Some(package) = package {
        let component = package.component().filter(|component| !wanted.full && component.is_published(cuda));
        let component = component.unwrap_or(Component::Cudnn);
        let packages = all_packages(report);
        // By its record it is new enough: its files are those of an older release.
        let is_recorded = |minimum: Version| recorded_version(package).is_some_and(|version| version >= minimum);
        if !is_other_cuda && !wanted.full && packages.len() == 1 && wanted.minimum.is_some_and(is_recorded) {
            return reinstall(report);
        }
        // The tools for system packages take one version or the newest one, and no range.
        let has_ranges = matches!(package.installer, Installer::Pip | Installer::Conda);
        let upgrade = |version: &String| packages::upgrade(package, &format!("{version}{}", choice.specifiers));
        let command = version.as_ref().filter(|_| has_ranges || choice.exact.is_none()).and_then(upgrade);
        if let (Some(command), Some(version), false) =
            (command, &version, is_other_cuda || wanted.full || packages.len() > 1)
        {
            return change([package], format!("upgrade {} to {version} or newer:", package.name), &[command]);
        }
        // The version of an installed package is kept unless a newer one is wanted.
        let commands = match (&version, &choice.exact) {
            (None, None) => packages::replace(&packages, component, cuda),
            (_, exact) => packages::replace_by(&packages, component, cuda, exact.as_deref()),
        };
        if !commands.is_empty() {
            let text = match (wanted.full, is_other_cuda) {
                (false, false) if packages.len() == 1 => format!("install another version of {}:", package.name),
                (true, true) => format!("install the full cuDNN for CUDA {cuda} in place of this one:"),
                (true, false) => "install the full cuDNN in place of this one:".to_owned(),
                (false, true) => format!("replace it by a cuDNN for CUDA {cuda}:"),
                (false, false) => {
                    format!("{} own the same files: remove all of them, then install one:", names(&packages))
                }
            };
            let is_named = wanted.is_of_program || context.search.explicit_candidate().is_some();
            return with_env(change(&packages, text, &commands), report, component.wheel_dir(cuda), is_named);
        }
    }
    let text = match (wanted.full, &version) {
        (true, None) => "the full cuDNN".to_owned(),
        (true, Some(version)) => format!("the full cuDNN {version} or newer"),
        (false, Some(version)) => format!("cuDNN {version} or newer"),
        (false, None) => "another cuDNN".to_owned(),
    };
    beside(report, &text, wanted.minimum, cuda, choice, context)
}

/// Gives programs that load `libcudnn.so.9` by its name a shim of the same installation, if this one lacks its shim.
pub(super) fn with_shim(report: &InstallationReport) -> Help {
    let has_package = report.package.as_ref().is_some_and(|package| packages::reinstall(package).is_some());
    let export = prepend_library_path(&report.dir);
    if let Some(export) = export.filter(|_| has_package) {
        let help = reinstall(report);
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

/// Installs another cuDNN, because no command can change this one.
fn beside(
    report: &InstallationReport,
    wanted: &str,
    minimum: Option<Version>,
    cuda_major: u32,
    choice: &Choice,
    context: &Context,
) -> Help {
    let text = match &report.package {
        Some(package @ Package { installer: Installer::Pip, name, .. }) if package.is_cudnn() => format!(
            "pip cannot change {name} where `pip install --target` has put it; to install {wanted} in the program's \
             environment:"
        ),
        Some(Package { installer: Installer::Pip | Installer::Application, name, .. }) => {
            format!("{name} decides which cuDNN it ships; to install {wanted} beside it:")
        }
        Some(Package { name, .. }) => {
            format!("to install {wanted} in the program's environment, in place of the one in {name}:")
        }
        None => format!("install {wanted} in the program's environment:"),
    };
    let requirement = requirement(&Component::Cudnn.wheel(cuda_major), minimum, choice);
    install_wheel(context, text, (&requirement, cuda_major), minimum, choice).effect(Effect::OtherDir)
}

/// Has the shell use the directory that the commands install into, if they move a wheel of cuDNN and the shell or a program
/// names the directory that they remove.
fn with_env(help: Help, report: &InstallationReport, wheel_dir: PathBuf, is_named: bool) -> Help {
    let dir = site_packages(report).map(|site| site.join(wheel_dir)).filter(|dir| *dir != report.dir);
    match dir.filter(|_| help.effect == Effect::OtherDir && is_named) {
        Some(dir) => help.command(use_dir(&dir)),
        None => help,
    }
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

/// The release that the installer has recorded.
fn recorded_version(package: &Package) -> Option<Version> {
    let numbers: Vec<&str> = package.version.as_ref()?.split('.').take(3).collect();
    numbers.join(".").parse().ok()
}

/// Installs exactly this release.
///
/// # Errors
/// Why it does not fit the frameworks of the environment.
pub(super) fn install_version(
    report: &InstallationReport,
    wheel_version: &str,
    max_cuda_major: u32,
    context: &Context,
) -> Result<Help, String> {
    let cuda_major = cuda_major(report).min(max_cuda_major);
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    limits(package, &[], context).accept(wheel_version, cuda_major)?;
    let packages = all_packages(report);
    let is_named = context.search.explicit_candidate().is_some();
    // Old releases have no JIT-only wheel.
    let commands = packages::replace_by(&packages, Component::Cudnn, cuda_major, Some(wheel_version));
    if commands.is_empty() {
        let choice = Choice { exact: Some(wheel_version.to_owned()), ..Choice::default() };
        let requirement = requirement(&Component::Cudnn.wheel(cuda_major), None, &choice);
        let help = install_wheel(context, "install that release:", (&requirement, cuda_major), None, &choice);
        return Ok(with_env(help, report, Component::Cudnn.wheel_dir(cuda_major), is_named));
    }
    let help = change(&packages, "install that release:", &commands);
    Ok(with_env(help, report, Component::Cudnn.wheel_dir(cuda_major), is_named))
}

/// A library of CUDA that cuDNN opens by name and ld.so does not find, or finds without what it needs.
pub(super) struct Companion<'a> {
    /// `libnvrtc.so.12`.
    pub(super) name: &'a str,
    pub(super) cuda_major: u32,
    /// cuDNN's library that opens it.
    pub(super) opener: &'a LibraryReport,
    /// The file that ld.so finds now, which lacks something.
    pub(super) incomplete: Option<&'a Path>,
}

impl Companion<'_> {
    /// Does this directory contain it, with all that it needs?
    fn is_in(&self, dir: &Path, context: &Context) -> bool {
        let file = dir.join(self.name);
        let is_incomplete = self.incomplete.and_then(Path::parent) == Some(dir)
            || self.incomplete.is_some()
                && self.name.starts_with("libnvrtc")
                && !super::nvrtc::has_builtins(&file, self.cuda_major);
        !is_incomplete && file.is_file() && context.simulation(&file).is_ok()
    }

    /// Puts it where this cuDNN finds it.
    pub(super) fn help(&self, report: &InstallationReport, context: &Context) -> Help {
        let (name, cuda_major) = (self.name, self.cuda_major);
        let Some((component, _)) = Component::from_soname(name) else { return Help::new(format!("install {name}")) };
        let apart = apart_dir(component, cuda_major);
        let found = self.places(report, component, apart.as_deref(), context);
        if let Some(dir) = found.into_iter().find(|dir| self.is_in(dir, context))
            && let Some(line) = prepend_library_path(&dir)
        {
            return Help::new(format!("it is in {}: have {LOADER} search that directory:", dir.printable()))
                .command(line);
        }
        // A wheel of cuDNN finds the wheels beside it by its run path; a system package finds the system's libraries.
        let beside = report.package.as_ref().and_then(|package| {
            Some((package, packages::install_beside(package, component, cuda_major, report.cuda_minor)?))
        });
        if let Some((package, command)) = beside {
            let help = format!("install {component} for CUDA {cuda_major} beside this cuDNN:");
            let help = with_commands(help, &[command]);
            let dir = match package.installer {
                Installer::Pip => site_packages(report).map(|site| site.join(component.wheel_dir(cuda_major))),
                _ => None,
            };
            let dir = dir.filter(|dir| self.incomplete.is_some() || !self.searches(dir));
            return match dir.as_deref().and_then(prepend_library_path) {
                Some(line) => help.command(line),
                None => help,
            };
        }
        let Some(apart) = apart else { return no_place() };
        let Some((command, dir)) = packages::install_apart(component, cuda_major, &apart) else {
            return Help::new(format!(
                "install {component} for CUDA {cuda_major}, and have {LOADER} search its directory"
            ));
        };
        let text = format!("install {component} for CUDA {cuda_major}, and have {LOADER} search its directory:");
        let help = with_commands(text, &[command]);
        match prepend_library_path(&dir) {
            Some(line) => help.command(line),
            None => Help::new(format!(
                "install the CUDA {cuda_major} toolkit, and put the directory that contains {name} on {SEARCH_PATH}"
            )),
        }
    }

    /// The directories in which it may be, although ld.so does not find it.
    fn places(
        &self,
        report: &InstallationReport,
        component: Component,
        apart: Option<&Path>,
        context: &Context,
    ) -> Vec<PathBuf> {
        let wheel_dir = component.wheel_dir(self.cuda_major);
        let mut dirs: Vec<PathBuf> = site_packages(report).into_iter().map(|site| site.join(&wheel_dir)).collect();
        dirs.extend(toolkits(self.cuda_major));
        let environments = context.search.environments();
        for root in environments.iter().filter_map(Origin::root) {
            dirs.extend(packages::site_packages(root).map(|site| site.join(&wheel_dir)));
            dirs.push(root.join("lib"));
        }
        dirs.extend(apart.map(|apart| apart.join(wheel_dir)));
        dirs
    }

    /// Does the run path of the library that opens it lead to this directory?
    fn searches(&self, dir: &Path) -> bool {
        let origin = self.opener.path.parent().unwrap_or(Path::new("/"));
        let run_path = self.opener.identity.as_ref().ok().and_then(|identity| identity.run_path.clone());
        let expand = |part: &str| {
            let part = part.replace("${ORIGIN}", "$ORIGIN");
            match part.strip_prefix("$ORIGIN") {
                Some(below) => normalized(&origin.join(below.trim_start_matches('/'))),
                None => normalized(Path::new(&part)),
            }
        };
        run_path.is_some_and(|run_path| run_path.split(':').any(|part| expand(part) == dir))
    }
}

/// The path without `..`, by its text alone: the directory need not exist yet.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == PathPart::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

/// The directory of packages that contains a wheel's libraries: `nvidia/cudnn/lib` or `torch/lib` is below it.
fn site_packages(report: &InstallationReport) -> Option<PathBuf> {
    let is_pip = report.package.as_ref().is_some_and(|package| package.installer == Installer::Pip);
    let is_site_packages = |path: &&Path| path.ends_with("site-packages") || path.ends_with("dist-packages");
    report.dir.ancestors().find(is_site_packages).filter(|_| is_pip).map(Path::to_owned)
}

/// The help where this user can write to no directory that is meant for what is installed apart: `docker run --user`.
fn no_place() -> Help {
    let text = "this user has no home directory to write to, nor sudo for /opt: give it a directory";
    Help::new(format!("{text}, and run `{} check` again, which then has the commands:", doctor()))
        .command("export HOME=\"$(mktemp -d)\"")
}

/// A directory of its own for each library: pip does not add to a directory that it has filled. `None` if this user can
/// write to none.
fn apart_dir(component: Component, cuda_major: u32) -> Option<PathBuf> {
    let name = match component {
        Component::Cublas => "cublas",
        Component::Nvrtc => "nvrtc",
        _ => "cudnn",
    };
    Some(data_dir()?.join(format!("{name}-cuda-{cuda_major}")))
}

/// The library directories of the installed toolkits for this CUDA major.
fn toolkits(cuda_major: u32) -> Vec<PathBuf> {
    let is_toolkit = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "cuda" || name.starts_with(&format!("cuda-{cuda_major}"))
    };
    let entries = std::fs::read_dir(Path::new(CUDA_PREFIX)).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dirs: Vec<PathBuf> = entries.filter(is_toolkit).map(|root| root.join("lib64")).collect();
    dirs.sort();
    dirs
}

/// Installs the cuDNN of JetPack's packages, and has programs use it.
pub(super) fn install_jetpack(cuda_major: u32, product: &str) -> Help {
    let text = format!("install the cuDNN of JetPack, which has kernels for {product}, and use that:");
    let install = packages::install(Component::Cudnn, cuda_major, Installer::Dpkg);
    let used = format!("eval \"$({} env {})\"", doctor(), quoted_path(Path::new(JETPACK_DIR)));
    with_commands(text, install.as_slice()).command(used).effect(Effect::OtherDir)
}

/// Installs a build for servers beside one for Jetson.
pub(super) fn server_build(report: &InstallationReport, context: &Context) -> Help {
    beside(report, "a build for servers", None, cuda_major(report), &Choice::default(), context)
}

/// Selects another installation.
pub(super) fn use_other(dir: &Path) -> Help {
    let line = use_dir(dir);
    Help::new("put that installation first:").command(line).effect(Effect::OtherDir)
}

fn all_packages(report: &InstallationReport) -> Vec<Package> {
    report.package.iter().chain(&report.other_packages).cloned().collect()
}

fn names(packages: &[Package]) -> String {
    let mut names: Vec<String> = packages.iter().map(|package| package.name.printable()).collect();
    names.dedup();
    names.join(" and ")
}

fn cuda_major(report: &InstallationReport) -> u32 {
    report.cuda_major.filter(|major| packages::CUDA_MAJORS.contains(major)).unwrap_or(DEFAULT_CUDA_MAJOR)
}

/// Does the directory belong to root, and the doctor's user is another?
fn is_foreign(dir: &Path) -> bool {
    belongs_to_root(dir) && !is_root()
}

/// The help whose commands change the version of these packages or remove them: first lifts what forbids that.
fn change<'a>(packages: impl IntoIterator<Item = &'a Package>, text: impl Into<String>, commands: &[Command]) -> Help {
    let mut text = text.into();
    let mut all = Vec::new();
    for package in packages {
        let Some(command) = packages::lift_hold(package) else { continue };
        let name = package.name.printable();
        text = format!("{name} is held (`apt-mark hold`): to change it, allow that first; {text}");
        all.push(command);
    }
    all.extend_from_slice(commands);
    with_commands(text, &all)
}

/// The help with these commands, each with what it needs: an environment's pip, and the administrator's rights.
pub(crate) fn with_commands(text: impl Into<String>, commands: &[Command]) -> Help {
    let effect = match commands {
        [] => Effect::Other,
        commands if move_wheels(commands) => Effect::OtherDir,
        _ => Effect::SameDir,
    };
    if let Some(root) = commands.iter().find_map(packages::closed_python) {
        return with_closed_python(&root, &text.into(), commands).effect(effect);
    }
    let missing = commands.iter().find_map(packages::missing_python);
    if let Some(missing) = missing {
        return with_python(missing, &text.into(), commands).effect(effect);
    }
    lines(commands).into_iter().fold(Help::new(text).effect(effect), Help::command)
}

/// The help with these commands, for an environment whose Python another user may read, and this one may not.
fn with_closed_python(root: &Path, text: &str, commands: &[Command]) -> Help {
    let what = format!("this user may not read the Python of {}", root.printable());
    if belongs_to_root(root) {
        return commands.iter().fold(Help::new(format!("{what}; {text}")), |help, command| help.command(line(command)));
    }
    Help::new(format!("{what}: as a user who may, run `{} check` again, which then has the commands", doctor()))
}

/// The commands as lines, with what they need before they can run on this machine.
fn lines(commands: &[Command]) -> Vec<String> {
    prepared(commands, &SystemTools::here()).iter().map(line).collect()
}

/// The help with these commands, for a virtual environment whose Python cannot be used.
fn with_python(missing: MissingPython, text: &str, commands: &[Command]) -> Help {
    let what = what_is_lost(&missing);
    let MissingPython { root, commands: restore, other_version, .. } = missing;
    if restore.is_empty() {
        let version = other_version.unwrap_or_default();
        return Help::new(format!(
            "{what}, and no {version} is on PATH: install that, so that the environment's packages work again, and run \
             `{} check` again; or make a new environment with all its packages",
            doctor()
        ));
    }
    let text = match &other_version {
        None => format!("{what}: make it again in place, then {text}"),
        Some(version) => format!(
            "{what}, and no {version} is on PATH: install that first, and run `{} check` again; or give the environment \
             another Python, which needs all its packages again, not only these; then {text}",
            doctor()
        ),
    };
    let Some(lines) = restoring(&restore, &root) else { return not_by_venv(&format!("{what}; ")) };
    let help = lines.into_iter().fold(Help::new(text), Help::command);
    commands.iter().fold(help, |help, command| {
        let mut command = command.clone();
        // The environment lacks the dependencies, too.
        command.arguments.retain(|argument| other_version.is_none() || argument != "--no-deps");
        help.command(line(&command))
    })
}

/// The lines that make the Python of the environment at this root again. venv refuses a root with a colon, which PATH
/// cannot contain: one whose parent has the colon gets a link, and `None` is for one that has it itself.
fn restoring(commands: &[Command], root: &Path) -> Option<Vec<String>> {
    let sudo = if is_foreign(root) { "sudo " } else { "" };
    let of_root = |command: &Command| {
        if command.needs_root() { line(command) } else { format!("{sudo}{command}") }
    };
    let lines = |commands: &[Command]| prepared(commands, &SystemTools::here()).iter().map(of_root).collect();
    let is_venv = |command: &Command| ["-m", "venv"].iter().all(|word| command.arguments.iter().any(|one| one == word));
    if !commands.iter().any(is_venv) || !has_colon(root) {
        return Some(lines(commands));
    }
    let name = root.file_name().filter(|name| !has_colon(Path::new(name)))?;
    let link = link_to(root.parent()?)?;
    let mut commands = commands.to_vec();
    for command in commands.iter_mut().filter(|command| is_venv(command)) {
        let of_root = command.arguments.iter_mut().filter(|argument| *argument == root);
        of_root.for_each(|argument| *argument = link.name.join(name).into_os_string());
    }
    Some([link.command].into_iter().chain(lines(&commands)).collect())
}

fn has_colon(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b':')
}

/// The help for an environment that venv does not make again.
fn not_by_venv(what: &str) -> Help {
    Help::new(format!(
        "{what}venv refuses a name with a colon: make a new environment under a name without one, with all its packages"
    ))
}

fn what_is_lost(missing: &MissingPython) -> String {
    let root = missing.root.printable();
    match &missing.problem {
        PythonProblem::OtherVersion(now) => {
            let version = missing.version.as_deref().unwrap_or("another one");
            format!("the Python of {root} is now {now}, and its packages are for {version}")
        }
        PythonProblem::NoSettings => {
            format!("pyvenv.cfg is missing in {root}, so that its Python uses the packages of another environment")
        }
        _ => format!("the Python of {root} is missing, or this user cannot start it"),
    }
}

/// What is wrong with the Python of the virtual environment at this root, and the help that makes it again.
pub(super) fn restore_python(root: &Path) -> Option<(String, Help)> {
    let by_uv = packages::pip(Some(root), "check", []).is_some_and(|command| command.program == "uv");
    let missing = packages::restore_python(root, by_uv)?;
    let text = match &missing.other_version {
        Some(version) if missing.commands.is_empty() => format!(
            "no {version} is on PATH: install that, so that the environment's packages work again; or make a new environment \
             with all its packages"
        ),
        None => "make it again in place:".to_owned(),
        Some(version) => format!(
            "no {version} is on PATH: install that first, and run `{} check` again; or give the environment another \
             Python, and then all its packages again:",
            doctor()
        ),
    };
    let help = match restoring(&missing.commands, root) {
        Some(lines) => lines.into_iter().fold(Help::new(text), Help::command),
        None => not_by_venv(""),
    };
    Some((what_is_lost(&missing), help))
}

/// Do these commands replace a wheel of cuDNN by one whose files are in another directory: JIT-only by full?
fn move_wheels(commands: &[Command]) -> bool {
    let has = |command: &Command, text: &str| command.arguments.iter().any(|argument| argument == text);
    let removal = |command: &&Command| has(command, "uninstall");
    let names = |command: &Command, prefix: &str| {
        command.arguments.iter().any(|argument| argument.to_str().is_some_and(|text| text.starts_with(prefix)))
    };
    let [jit, full] = ["nvidia-cudnn-jit-", "nvidia-cudnn-cu"];
    [(jit, full), (full, jit)].into_iter().any(|(old, new)| {
        let is_removed = |name: &str| commands.iter().filter(removal).any(|command| names(command, name));
        let is_installed = |name: &str| commands.iter().any(|command| has(command, "install") && names(command, name));
        is_removed(old) && is_installed(new) && !is_installed(old)
    })
}

fn line(command: &Command) -> String {
    format!("{}{}{command}", sudo(command, is_root()), without_pips_variables(command))
}

/// Takes away variables that would have pip install elsewhere.
fn without_pips_variables(command: &Command) -> String {
    const NAMES: [&str; 4] = ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER"];
    let is_pip = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == "pip" || name == "pip3");
    let has_pip = is_pip(&command.program) || command.arguments.iter().any(is_pip);
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !has_pip || command.program == "uv" || Os::HOST == Os::Windows {
        return String::new();
    }
    let names: Vec<String> = NAMES.iter().filter(|name| is_set(name)).map(|name| format!("-u {name} ")).collect();
    if names.is_empty() { String::new() } else { format!("env {}", names.concat()) }
}

/// System packages, and environments of root, need the administrator's rights. A container whose user is root often
/// lacks sudo.
fn sudo(command: &Command, is_root: bool) -> &'static str {
    // The environment of `pip` is not known. Where it needs this option, it is the system's, and without the rights
    // pip would change the user's packages.
    let is_of_system =
        (command.program == "pip" || command.program == "pip3") && has_argument(command, "--break-system-packages");
    // What does not exist yet is made by who may write to the directory above it.
    let made = value(command, "--target").or_else(|| value(command, "venv").filter(|dir| dir.is_absolute()));
    let needs_root =
        command.needs_root() || environment(command).map_or(is_of_system, is_of_root) || made.is_some_and(is_of_root);
    if needs_root && !is_root && !packages::changes_packages_of_user(command) { "sudo " } else { "" }
}

/// The root of the environment that a command changes, if the command names it.
fn environment(command: &Command) -> Option<&Path> {
    if value(command, "--target").is_some() || has_argument(command, "venv") {
        return None;
    }
    let program = Some(Path::new(&command.program)).filter(|program| program.is_absolute());
    let python = program.or_else(|| value(command, "--python"));
    // `env PYTHONPATH=PREFIX/lib/python3.12/site-packages python3.12 ..`
    let path = command.arguments.first().and_then(|first| first.to_str()?.strip_prefix("PYTHONPATH="));
    let of_path = path.and_then(|path| Path::new(path).ancestors().nth(3));
    value(command, "--prefix").or(of_path).or_else(|| python?.parent()?.parent())
}

fn has_argument(command: &Command, wanted: &str) -> bool {
    command.arguments.iter().any(|argument| argument == wanted)
}

/// The argument after this option, as a path.
fn value<'a>(command: &'a Command, option: &str) -> Option<&'a Path> {
    let at = command.arguments.iter().position(|argument| argument == option)?;
    command.arguments.get(at + 1).map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_changes_what_belongs_to_root_needs_its_rights() {
        let command = |line: &str| {
            let mut words = line.split(' ');
            Command::new(words.next().unwrap_or_default(), words.collect::<Vec<_>>())
        };
        let own = std::env::temp_dir().join(format!("cudnn-doctor-own-{}", std::process::id()));
        let _ = std::fs::create_dir_all(own.join("bin"));
        let of_user = !belongs_to_root(&own);
        let own_target = format!("/usr/bin/python3 -I -m pip install --target {}/x/y z", own.display());
        let own_venv = format!("/usr/bin/python3 -m venv {}/x/y", own.display());
        let own_python = format!("{} -I -m pip install x", own.join("bin/python3").display());
        for (line, expected) in [
            ("/usr/bin/python3 -I -m pip install x", true),
            ("/usr/bin/python3 -E /usr/lib/python3/dist-packages/pip install x", true),
            ("/usr/bin/python3 -E /usr/lib/python3/dist-packages/pip install --user x", false),
            ("pip --python /usr/bin/python3 install x", true),
            ("uv pip install --python /usr/bin/python3 --no-cache x", true),
            ("env CONDA_PKGS_DIRS=/usr/x conda install --prefix /usr x", true),
            ("apt-get install x", true),
            (own_target.as_str(), !of_user),
            (own_venv.as_str(), !of_user),
            // Neither exists.
            ("/usr/bin/python3 -I -m pip install --target /opt/x/y z", true),
            ("/usr/bin/python3 -m venv /opt/x/y", true),
            ("/opt/x/y/bin/python3 -I -m pip install z", true),
            ("/usr/bin/python3 -I -m pip install --target /tmp/x/y z", false),
            ("pip install x", false),
            // Debian's Python has its packages below /usr/local, which has no Python.
            ("pip install --break-system-packages --force-reinstall x", true),
            ("env PYTHONPATH=/usr/lib/python3.11/site-packages /home/x/python3 /home/x/pip uninstall --yes x", true),
            ("env PYTHONPATH=/home/x /home/x/python3 /home/x/pip install --prefix /usr x", true),
            ("pip install --break-system-packages --user x", false),
            ("pip install --target /usr/lib --upgrade x", true),
            ("conda install x", false),
            (own_python.as_str(), !of_user),
        ] {
            assert_eq!(sudo(&command(line), false), if expected { "sudo " } else { "" }, "{line}");
            assert_eq!(sudo(&command(line), true), "", "{line}");
        }
        let _ = std::fs::remove_dir_all(&own);
    }

    #[test]
    fn a_python_that_takes_no_packages_gets_a_directory_apart() {
        let apt = || SystemTools::with(Some(Command::new("apt-get", ["install", "-y", "python3-venv"])), false);
        let dir = apart_dir(Component::Cudnn, DEFAULT_CUDA_MAJOR).unwrap_or_default();
        let dir = quoted_path(&dir);
        let venv =
            |python: &str| format!("{python} -m venv {dir}\n{dir}/bin/python3 -I -m pip install nvidia-cudnn-cu12");
        let python = Path::new("/nonexistent");
        let wheel = Component::Cudnn.wheel(DEFAULT_CUDA_MAJOR);
        for (python, has_pip, has_ensurepip, expected) in [
            (
                Some(python),
                true,
                false,
                format!("/nonexistent/bin/python3 -I -m pip install --target {dir} nvidia-cudnn-cu12"),
            ),
            (Some(python), false, true, venv("/nonexistent/bin/python3")),
            (
                Some(python),
                false,
                false,
                format!("apt-get install -y python3-venv\n{}", venv("/nonexistent/bin/python3")),
            ),
            (None, false, false, format!("apt-get install -y python3-venv\n{}", venv("python3"))),
        ] {
            let help = install_apart((&wheel, DEFAULT_CUDA_MAJOR), python, has_pip, has_ensurepip, &apt());
            let commands = help.map_or(Vec::new(), |help| help.commands).join("\n").replace("sudo ", "");
            assert!(commands.starts_with(&expected) && commands.contains("\neval "), "{commands}");
        }
        assert!(
            install_apart((&wheel, DEFAULT_CUDA_MAJOR), None, false, false, &SystemTools::with(None, false)).is_none()
        );
    }

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

    #[test]
    fn a_held_package_is_released_before_it_is_changed() {
        let mut package = Package::new(Installer::Dpkg, "libcudnn9-cuda-12", Some("9.10.2.21-1"), "/");
        let lines = |package: &Package| {
            let command = packages::upgrade(package, "9.19.0").into_iter().collect::<Vec<_>>();
            let help = change([package], "upgrade it:", &command);
            (help.text, help.commands.join("\n").replace("sudo ", ""))
        };
        let upgrade = "apt-get install -y --only-upgrade libcudnn9-cuda-12";
        assert_eq!(lines(&package), ("upgrade it:".to_owned(), upgrade.to_owned()));
        package.is_held = true;
        let (text, commands) = lines(&package);
        assert!(text.contains("is held") && text.ends_with("upgrade it:"), "{text}");
        assert_eq!(commands, format!("apt-mark unhold libcudnn9-cuda-12\n{upgrade}"));
    }
}
