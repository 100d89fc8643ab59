//! What to do about the cuDNN of a framework, by the installer that owns the framework.

use std::path::PathBuf;

use cudnn_frameworks::facts::{FACTS, Fact};
use cudnn_frameworks::{By, Framework, Opened, Pin, Survey};
use cudnn_probe::dll_search;
use cudnn_probe::ld_so::Rule;
use cudnn_probe::packages::{self, Command, Component, DEFAULT_CUDA_MAJOR, Installer, Package};
use cudnn_probe::{
    Candidate, DIR_VARIABLE, Host, InstallationReport, Library, Origin, Os, Requirements, Variant, check_dir, identify,
};

use crate::check::demand::{CUDNN_MAJOR, Demand, is_of_conda};
use crate::check::finding::{Finding, FindingKind, Help, Severity};
use crate::check::fix_commands::{permit, reinstall, with_commands};
use crate::check::machine::Machine;
use crate::check::place::Place;
use crate::check::suitable::{Suitable, suitable};
use crate::escape::Printable;
use crate::shell::{SEARCH_PATH, library_path_without, prepend_library_path, set_variable, unset_variable};
use crate::system::LOADER;

/// How to have it find a cuDNN: there may be one in the environment, to which its libraries have no run path.
pub(super) fn reach(framework: &Framework, survey: &Survey, machine: &Machine) -> Help {
    if wanted_major(framework).is_some_and(|major| major != CUDNN_MAJOR) {
        return install(framework, survey, machine);
    }
    if let Some(help) = open_cudnn(survey) {
        return help;
    }
    let environment = Origin::Python(survey.environment.root.clone());
    if framework.kind.contains_cudnn(framework.os) {
        return again_with_cudnn(framework, survey);
    }
    let wheel = Component::Cudnn.wheel_dir(DEFAULT_CUDA_MAJOR);
    let installed: Vec<PathBuf> = survey.environment.import_dirs.iter().map(|dir| dir.join(&wheel)).collect();
    let mut requirements = Requirements::default();
    requirements.cuda_major = framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0);
    let is_usable = |dir: &PathBuf| {
        let candidate = Candidate::new(dir, environment.clone());
        check_dir(&candidate, &requirements).is_ok()
    };
    let has_shim = |dir: &PathBuf| identify(&dir.join(Library::Shim.file_name()), Library::Shim).is_ok();
    // ld.so skips a damaged shim, or fails at it.
    let damaged = installed.iter().find(|dir| is_usable(dir) && !has_shim(dir));
    if let Some(report) = damaged.and_then(|dir| InstallationReport::read(dir, &Host::current())) {
        return reinstall(&report);
    }
    let usable = installed.into_iter().find(is_usable);
    let line = usable.as_deref().and_then(prepend_library_path);
    match (usable, line) {
        (Some(dir), Some(line)) => {
            let text = format!("it is in {}: have {LOADER} search that directory:", dir.printable());
            Help::new(text).command(line)
        }
        _ => install(framework, survey, machine),
    }
}

/// Lets this user read the wheel of cuDNN, if it is in a directory that this user may not enter.
fn open_cudnn(survey: &Survey) -> Option<Help> {
    let is_denied =
        |dir: &PathBuf| std::fs::read_dir(dir).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    let dirs = survey.environment.import_dirs.iter().map(|dir| dir.join("nvidia/cudnn/lib"));
    let denied = dirs.into_iter().find(is_denied)?;
    let reachable = denied.ancestors().find(|above| above.symlink_metadata().is_ok())?;
    permit(reachable, &Origin::Python(survey.environment.root.clone()))
}

/// Another cuDNN comes first. It may be right for other programs.
pub(super) fn make_last(first: &Opened) -> Help {
    if let Some(help) = without_named_dir(first).or_else(|| without_preload(first)) {
        return help;
    }
    if let Some(help) = without_search(first) {
        let text = format!("{} (or upgrade the cuDNN there):", help.text.trim_end_matches(':'));
        return Help { text, ..help };
    }
    let dir = first.path.parent().unwrap_or(&first.path).printable();
    Help::new(match &first.by {
        By::Python => format!("start it without the directory above {dir} on PYTHONPATH, or upgrade the cuDNN there"),
        By::Variable(name) => format!("start it without {name}, or upgrade the cuDNN in {dir}"),
        _ => format!("upgrade the cuDNN in {dir}"),
    })
}

/// The drop-in loads what [`DIR_VARIABLE`] names.
pub(super) fn without_named_dir(first: &Opened) -> Option<Help> {
    let is_named = first.by == By::DropIn && std::env::var_os(DIR_VARIABLE).is_some();
    is_named.then(|| {
        Help::new(format!("have {DIR_VARIABLE} name the directory of another cuDNN, or unset it:"))
            .command(unset_variable(DIR_VARIABLE))
    })
}

/// Is this file in the environment, or in the one that contains the framework?
pub(super) fn is_beside(opened: &Opened, framework: &Framework, survey: &Survey) -> bool {
    [&survey.environment.root, &framework.distribution.import_dir].iter().any(|dir| opened.path.starts_with(dir))
}

pub(super) fn keep_apart(first: &Opened, other: &Opened) -> Help {
    let dir = |opened: &Opened| opened.path.parent().unwrap_or(&opened.path).printable();
    if dir(first) == dir(other) {
        return Help::new(format!("install all libraries of one release in {} again", dir(first)));
    }
    let without = [first, other].into_iter().find_map(without_preload);
    if let Some(help) = without.or_else(|| [first, other].into_iter().find_map(without_search)) {
        return help;
    }
    Help::new(format!("install the same release in {} and {}, or remove one of them", dir(first), dir(other)))
}

/// Takes a file off LD_PRELOAD, if ld.so has it from there.
pub(super) fn without_preload(opened: &Opened) -> Option<Help> {
    const NAME: &str = "LD_PRELOAD";
    let value = std::env::var(NAME).ok().filter(|_| opened.by == By::LdSo(Rule::Preload))?;
    let entries = value.split([' ', ':']).filter(|entry| !entry.is_empty() && !opened.path.ends_with(entry));
    let kept: Vec<&str> = entries.collect();
    let line = if kept.is_empty() { unset_variable(NAME) } else { set_variable(NAME, kept.join(":")) };
    let file = opened.path.printable();
    Some(Help::new(format!("{NAME} has {LOADER} load {file} before all others: start it without that:")).command(line))
}

/// Whether the variable with the directories that the system's loader searches led to a file.
fn is_by_variable(by: &By) -> bool {
    matches!(by, By::LdSo(Rule::LibraryPath) | By::Windows(dll_search::Rule::PathVariable))
}

/// Takes the directory of a file off the variable that the system's loader searches, if it has the file from there.
pub(super) fn without_search(opened: &Opened) -> Option<Help> {
    let value = std::env::var_os(SEARCH_PATH).filter(|_| is_by_variable(&opened.by))?;
    let dir = cudnn_probe::canonicalize(opened.path.parent()?).ok()?;
    let line = library_path_without(std::slice::from_ref(&dir), &value)?;
    Some(Help::new(format!("start it without {} on {SEARCH_PATH}:", dir.printable())).command(line))
}

/// Installs the cuDNN that suits all frameworks of the environment, where this one searches, by the installer that owns
/// this one.
pub(super) fn install(framework: &Framework, survey: &Survey, machine: &Machine) -> Help {
    let name = framework.kind.name;
    let other_major = wanted_major(framework).filter(|major| *major != CUDNN_MAJOR);
    if let Some(major) = other_major.filter(|_| Demand::of(framework).is_none()) {
        return Help::new(for_other_major(framework, major));
    }
    if framework.kind.contains_cudnn(framework.os) && !is_of_conda(framework) {
        return again_with_cudnn(framework, survey);
    }
    if is_of_conda(framework) {
        let command = of_conda(framework, survey);
        return match &command {
            Some(command) => {
                with_commands(format!("install the cuDNN that {name} is built for:"), std::slice::from_ref(command))
            }
            None => Help::new(format!("install the cuDNN that {name} is built for in its environment")),
        };
    }
    let suitable = match suitable(&survey.frameworks, machine) {
        Ok(suitable) => suitable,
        Err(reason) => return Help::new(reason),
    };
    // The others need another major, and this one can do without.
    if let Some(major) = other_major.filter(|major| *major != suitable.cudnn_major) {
        return Help::new(for_other_major(framework, major));
    }
    let removal = remove_other_cuda(framework, survey, &suitable);
    let Some(command) = install_suitable(framework, survey, &suitable).filter(|_| suitable.is_demanded) else {
        return Help::new(format!("install the cuDNN that {name} is built for in its environment"));
    };
    let text = match removal {
        Some(_) => format!("remove the cuDNN for another CUDA, then install the one that {name} is built for:"),
        None => match other_major {
            Some(major) => format!(
                "{}; or install the cuDNN {major} that {name} is built for, which this project does not support:",
                without_major(framework)
            ),
            None => format!("install the cuDNN that {name} is built for:"),
        },
    };
    let commands: Vec<Command> = removal.into_iter().chain([command]).collect();
    let help = with_commands(text, &commands);
    with_search(help, framework, &[Component::Cudnn.wheel_dir(suitable.cuda_major)])
}

/// Installs the framework again, whose package contains its cuDNN.
fn again_with_cudnn(framework: &Framework, survey: &Survey) -> Help {
    let name = framework.kind.name;
    let place = Place::of(framework, survey);
    match place.reinstall_package(&framework.distribution.name, &framework.version) {
        Some(command) => {
            let text = format!("install {name} again, whose package contains its cuDNN:");
            with_commands(text, std::slice::from_ref(&command))
        }
        // A local version, such as `+cu128`, is on its project's own index.
        None => Help::new(format!(
            "install {name} {} again, whose package contains its cuDNN, from the index that it came from",
            framework.version.printable()
        )),
    }
}

/// pip's command, which installs the wheel again where pip has a record of it: without that it does nothing, whether the
/// files are there or not.
pub(super) fn install_suitable(framework: &Framework, survey: &Survey, suitable: &Suitable) -> Option<Command> {
    let place = Place::of(framework, survey);
    let recorded = place.recorded_version(&suitable.wheel());
    if recorded.is_some_and(|version| suitable.allows(&version)) {
        place.reinstall(vec![suitable.requirement.clone()])
    } else {
        place.install(vec![suitable.requirement.clone()])
    }
}

/// What to do about a framework that is built for another major of cuDNN, and that gets none here.
fn for_other_major(framework: &Framework, major: u32) -> String {
    let apart = format!("give this one an environment of its own with cuDNN {major}: a process can use one major");
    format!("{}, or {apart}", without_major(framework))
}

/// How to do without another major of cuDNN: by what is known of the framework's other releases.
fn without_major(framework: &Framework) -> String {
    let (name, package) = (framework.kind.name, framework.distribution.name.as_str());
    let facts = FACTS.iter().filter(|fact| fact.package == package);
    let uses = |fact: &Fact| fact.cudnn.map(|(major, _, _)| major);
    let newer = facts.clone().find(|fact| uses(fact).is_none_or(|uses| uses == CUDNN_MAJOR));
    match newer.map(|fact| (fact.since, uses(fact))) {
        Some((since, Some(_))) => {
            format!("install {name} {since} or newer, which is built for cuDNN {CUDNN_MAJOR}")
        }
        Some((since, None)) => format!("install {name} {since} or newer, which uses no cuDNN"),
        None if facts.count() > 0 => format!("no release of {package} is built for cuDNN {CUDNN_MAJOR}"),
        None => format!("install a release of {name} that is built for cuDNN {CUDNN_MAJOR}, if there is one"),
    }
}

/// The command that removes the wheels of cuDNN for another CUDA than the suitable one: they own the same files.
pub(super) fn remove_other_cuda(framework: &Framework, survey: &Survey, suitable: &Suitable) -> Option<Command> {
    let place = Place::of(framework, survey);
    let is_installed = |other: &u32| place.recorded_version(&Component::Cudnn.wheel(*other)).is_some();
    let others = packages::CUDA_MAJORS.filter(|other| *other != suitable.cuda_major).filter(is_installed);
    let wheels: Vec<String> = others.map(|other| Component::Cudnn.wheel(other)).collect();
    if wheels.is_empty() { None } else { place.uninstall(&wheels) }
}

/// Adds the lines by which ld.so searches these directories of wheels, if the framework does not find them by itself.
pub(super) fn with_search(help: Help, framework: &Framework, wheel_dirs: &[PathBuf]) -> Help {
    // Nothing is installed there.
    if help.commands.is_empty() {
        return help;
    }
    // conda's libraries are beside each other.
    let Some(import_dir) = Some(&framework.distribution.import_dir).filter(|_| !is_of_conda(framework)) else {
        return help;
    };
    let host = Host::current();
    let dirs = wheel_dirs.iter().map(|dir| import_dir.join(dir)).filter(|dir| !framework.searches(dir, &host));
    let lines: Vec<String> = dirs.filter_map(|dir| prepend_library_path(&dir)).collect();
    if lines.is_empty() {
        return help;
    }
    let (text, name) = (help.text.trim_end_matches(':'), framework.kind.name);
    let text = format!("{text}, and have {LOADER} search there, since {name} has no run path to it:");
    lines.into_iter().fold(Help { text, ..help }, Help::command)
}

/// Adds how a program makes the framework find the wheels of its environment without a search path, if it can. If all of
/// them are installed, the finding is a warning, because the program may do so already.
pub(super) fn or_by_program(mut finding: Finding, framework: &Framework, survey: &Survey) -> Finding {
    let is_search = |line: &String| line.contains(SEARCH_PATH);
    let has_search = |help: &&mut Help| help.commands.iter().any(is_search);
    let Some(help) = finding.help.as_mut().filter(has_search) else { return finding };
    let Some(action) = framework.finds_wheels_by(&survey.frameworks) else { return finding };
    if framework.os != Os::HOST {
        return finding.note(format!("to have it find the wheels of its environment, a program can {action}"));
    }
    if !help.commands.iter().all(is_search) {
        return finding.note(format!("instead of setting {SEARCH_PATH}, the program can {action}"));
    }
    help.text = format!(
        "have the program {action}; if you cannot change the program, have {LOADER} search the directories of the wheels:"
    );
    let severity = finding.kind.severity.min(Severity::Warning);
    finding.kind = FindingKind { severity, ..finding.kind };
    finding
}

/// The major of cuDNN that it was built for.
fn wanted_major(framework: &Framework) -> Option<u32> {
    framework.built_for.cudnn.as_ref().map(|wanted| wanted.value.major)
}

/// Installs the files of the cuDNN in its environment again.
pub(super) fn again(framework: &Framework, survey: &Survey, machine: &Machine) -> Help {
    let cuda = framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0);
    let dir = framework.opens.cudnn.first().and_then(|opened| opened.path.parent());
    let report = dir.and_then(|dir| InstallationReport::read(dir, &Host::current()));
    match report {
        // The JIT-only set lacks what frameworks call.
        Some(report)
            if report.variant != Variant::JitOnly
                && cuda.is_none_or(|cuda| report.cuda_major.is_none_or(|found| found == cuda)) =>
        {
            reinstall(&report)
        }
        _ => install(framework, survey, machine),
    }
}

/// What pip takes: the requirement without its marker.
pub(super) fn requirement(pin: &Pin) -> String {
    pin.without_marker()
}

/// conda's command, whose solver knows what else it has installed.
fn of_conda(framework: &Framework, survey: &Survey) -> Option<Command> {
    let minimum = framework.built_for.cudnn.as_ref()?.value;
    let minimum = format!("{minimum},<{}", minimum.major + 1);
    let package = Package::new(Installer::Conda, Component::Cudnn.conda_package(), None, &survey.environment.root);
    packages::upgrade(&package, &minimum)
}
