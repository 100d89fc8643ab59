//! Builds remedies for frameworks, based on the installer that owns the framework.

use cudnn_cli::escape::Printable;
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_probe::facts::{self, PathFacts};
use std::path::PathBuf;

use cudnn_frameworks::installation::{InstallationReport, Installer, Package, Variant};
use cudnn_frameworks::releases::{self, Fact};
use cudnn_frameworks::{Distribution, OpenedFile, Pin, SearchRule};
use cudnn_probe::ld_so::Rule;
use cudnn_probe::{
    Candidate, Component, DEFAULT_CUDA_MAJOR, DIR_VARIABLE, Library, Origin, Os, Requirements, Version, check_dir,
    dll_search,
};

use super::context::{FrameworkContext, reinstall_package, site_of};
use crate::check::finding::{Finding, FindingKind, Severity};
use crate::check::framework_requirement::{CUDNN_MAJOR, FrameworkRequirement, is_of_conda};
use crate::check::remedies::{self, by_change, permit};
use crate::check::wheel_choice::WheelChoice;
use crate::packages::{self, PackageChange, PackageNames, Site};
use crate::remedy::{Action, Remedy, off_search_path, without_entries};
use crate::system::LOADER;

/// Makes a framework find a cuDNN, which the environment may already contain outside its run path.
pub(super) fn reach(context: &FrameworkContext<'_>) -> Remedy {
    let (framework, environment) = (context.framework, &context.survey.environment);
    if other_major(context).is_some() {
        return install(context);
    }
    if let Some(remedy) = open_cudnn(context) {
        return remedy;
    }
    if framework.kind.contains_cudnn(framework.os) {
        return again_with_cudnn(context);
    }
    let mut requirements = Requirements::default();
    requirements.cuda_major = context.cuda_major();
    let is_accepted = |found: Version| {
        let wanted = framework.built_for.cudnn.as_ref().map(|wanted| wanted.value);
        wanted.is_none_or(|wanted| framework.kind.comparison.accepts(wanted, found))
    };
    let is_usable = |dir: &PathBuf| {
        let found = check_dir(&Candidate::new(dir, Origin::Python(environment.root.clone())), &requirements);
        found.is_ok_and(|found| is_accepted(found.version))
    };
    let wheel = Component::Cudnn.wheel_dir(DEFAULT_CUDA_MAJOR);
    let Some(dir) = environment.import_dirs.iter().map(|dir| dir.join(&wheel)).find(is_usable) else {
        return install(context);
    };
    let has_shim =
        |report: &InstallationReport| report.library(Library::Shim).is_some_and(|shim| shim.identity.is_ok());
    // ld.so skips a damaged shim, or fails to load it.
    match InstallationReport::read(&dir, context.host).filter(|report| !has_shim(report)) {
        Some(report) => remedies::reinstall(&report),
        None => Remedy::new(format!("it is in {}: have {LOADER} search that directory:", dir.printable())).search(&dir),
    }
}

/// Makes the cuDNN wheel readable for this user.
fn open_cudnn(context: &FrameworkContext<'_>) -> Option<Remedy> {
    let environment = &context.survey.environment;
    let is_denied =
        |dir: &PathBuf| facts::read_dir(dir).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    let denied = environment.import_dirs.iter().map(|dir| dir.join("nvidia/cudnn/lib")).find(is_denied)?;
    let reachable = denied.ancestors().find(|above| above.path_exists())?;
    permit(reachable, &Origin::Python(environment.root.clone()))
}

/// Removes the variable that leads to a file outside the environment, or suggests the change in `otherwise`.
pub(super) fn start_without(opened: &OpenedFile, otherwise: &str) -> Remedy {
    if let Some(remedy) = without_variable(opened) {
        return remedy;
    }
    let dir = opened.path.parent().unwrap_or(&opened.path).printable();
    Remedy::new(match &opened.by {
        SearchRule::Python => {
            format!("start it without the directory above {dir} on PYTHONPATH, or {otherwise} in {dir}")
        }
        SearchRule::Variable(name) => format!("start it without {name}, or {otherwise} in {dir}"),
        _ => format!("{otherwise} in {dir}"),
    })
}

pub(super) fn keep_apart(first: &OpenedFile, other: &OpenedFile) -> Remedy {
    let dir = |opened: &OpenedFile| opened.path.parent().unwrap_or(&opened.path).printable();
    if dir(first) == dir(other) {
        return Remedy::new(format!("install all libraries of one release in {} again", dir(first)));
    }
    let both = || Remedy::new(format!("install the same release in {} and {}, or remove one", dir(first), dir(other)));
    [first, other].into_iter().find_map(without_variable).unwrap_or_else(both)
}

/// Removes a file from the search variable that led to it.
fn without_variable(opened: &OpenedFile) -> Option<Remedy> {
    if opened.by == SearchRule::DropIn && facts::variable(DIR_VARIABLE).is_some() {
        let text = format!("have {DIR_VARIABLE} name the directory of another cuDNN, or unset it:");
        return Some(Remedy::new(text).unset(DIR_VARIABLE));
    }
    if let Some(remedy) = without_preload(opened) {
        return Some(remedy);
    }
    let is_searched =
        matches!(opened.by, SearchRule::LdSo(Rule::LibraryPath) | SearchRule::Windows(dll_search::Rule::PathVariable));
    let value = facts::variable(SEARCH_PATH).filter(|_| is_searched)?;
    let dir = cudnn_probe::canonicalize(opened.path.parent()?).ok()?;
    let variable = off_search_path(std::slice::from_ref(&dir), &value)?;
    Some(Remedy::new(format!("start it without {} on {SEARCH_PATH}:", dir.printable())).action(variable))
}

pub(super) fn without_preload(opened: &OpenedFile) -> Option<Remedy> {
    const NAME: &str = "LD_PRELOAD";
    let value = facts::variable(NAME).filter(|_| opened.by == SearchRule::LdSo(Rule::Preload))?;
    let (_, change) = without_entries(NAME, &value, |entry| opened.path.ends_with(entry))?;
    let file = opened.path.printable();
    let text = format!("{NAME} has {LOADER} load {file} before all others: start it without this variable:");
    Some(Remedy::new(text).action(change))
}

/// Installs the cuDNN that suits all frameworks of the environment, with the installer of this framework and where it
/// searches.
pub(super) fn install(context: &FrameworkContext<'_>) -> Remedy {
    let (framework, name) = (context.framework, context.framework.kind.name);
    let other_major = other_major(context);
    if let Some(major) = other_major.filter(|_| FrameworkRequirement::of(framework).is_none()) {
        return for_other_major(context, major);
    }
    let text = match framework.kind.cudnn_loader() {
        _ if framework.kind.accompanies_others => "install a cuDNN".to_owned(),
        Some(_) => format!("install a cuDNN that {name} accepts"),
        None => format!("install the cuDNN that {name} is built for"),
    };
    let by_hand = || Remedy::new(format!("{text} in its environment"));
    if is_of_conda(framework) {
        return change_with_conda(context).map_or_else(by_hand, |change| by_change(format!("{text}:"), change));
    }
    if framework.kind.contains_cudnn(framework.os) {
        return again_with_cudnn(context);
    }
    let choice = match context.choose_wheel() {
        Ok(choice) => choice,
        Err(reason) => return Remedy::new(reason),
    };
    // The other frameworks need a different major, and this one works without cuDNN.
    if let Some(major) = other_major.filter(|major| *major != choice.cudnn_major) {
        return for_other_major(context, major);
    }
    let site = site_of(context.survey.cudnn_loader_of(framework), context.survey);
    let others = wheels_for_other_cuda(&site, &choice);
    // A framework that accompanies others works with every cuDNN.
    let is_sure = choice.is_demanded || framework.kind.accompanies_others;
    let Some(change) = install_chosen_wheel(site, &choice).filter(|_| is_sure) else { return by_hand() };
    let text = match other_major {
        _ if !others.is_empty() => format!("remove the cuDNN for another CUDA, then {text}:"),
        Some(major) => format!(
            "{}; or install the cuDNN {major} that {name} is built for, which this project does not support:",
            without_major(context)
        ),
        None => format!("{text}:"),
    };
    with_search(by_change(text, change.remove(others)), context, &[Component::Cudnn.wheel_dir(choice.cuda_major)])
}

/// Reinstalls a wheel that pip has on record, because pip would otherwise skip it even if files are missing.
fn install_chosen_wheel(site: Site, choice: &WheelChoice) -> Option<PackageChange> {
    let is_recorded = site.recorded_version(&choice.wheel()).is_some_and(|version| choice.allows(&version));
    let (change, requirement) = (PackageChange::of(site), [choice.requirement.clone()]);
    if is_recorded { change.reinstall(requirement) } else { change.install(requirement) }.possible()
}

/// Changes the version with conda, which also considers the other packages that it has installed.
fn change_with_conda(context: &FrameworkContext<'_>) -> Option<PackageChange> {
    let minimum = context.framework.built_for.cudnn.as_ref()?.value;
    let root = &context.survey.environment.root;
    let package = Package::new(Installer::Conda, Component::Cudnn.conda_package(), None, root);
    packages::upgrade(&package, &format!("{minimum},<{}", minimum.major + 1))
}

/// Returns the unsupported major of cuDNN that the framework was built for.
fn other_major(context: &FrameworkContext<'_>) -> Option<u32> {
    let wanted = context.framework.built_for.cudnn.as_ref()?.value.major;
    (wanted != CUDNN_MAJOR).then_some(wanted)
}

fn for_other_major(context: &FrameworkContext<'_>, major: u32) -> Remedy {
    let apart = format!("give this one an environment of its own with cuDNN {major}: a process can use one major");
    Remedy::new(format!("{}, or {apart}", without_major(context)))
}

/// Suggests a release of the framework that works without the unsupported major of cuDNN.
fn without_major(context: &FrameworkContext<'_>) -> String {
    let (name, package) = (context.framework.kind.name, &context.framework.distribution.name);
    let mut facts = releases::all().iter().filter(|fact| fact.package == *package).peekable();
    let is_known = facts.peek().is_some();
    let uses = |fact: &Fact| fact.cudnn.map(|cudnn| cudnn.major);
    match facts.find(|fact| uses(fact).is_none_or(|uses| uses == CUDNN_MAJOR)) {
        Some(fact) if fact.cudnn.is_none() => format!("install {name} {} or newer, which uses no cuDNN", fact.since),
        Some(fact) => format!("install {name} {} or newer, which is built for cuDNN {CUDNN_MAJOR}", fact.since),
        None if is_known => format!("no release of {package} is built for cuDNN {CUDNN_MAJOR}"),
        None => format!("install a release of {name} that is built for cuDNN {CUDNN_MAJOR}, if there is one"),
    }
}

/// Returns the installed cuDNN wheels for other CUDA majors, which own the same files.
pub(super) fn wheels_for_other_cuda(site: &Site, choice: &WheelChoice) -> Vec<String> {
    let others = packages::CUDA_MAJORS.filter(|other| *other != choice.cuda_major);
    let wheels = others.map(|other| Component::Cudnn.wheel(other));
    wheels.filter(|wheel| site.recorded_version(wheel).is_some()).collect()
}

/// Adds these wheel directories to the search path of ld.so, unless the framework finds them by itself.
pub(super) fn with_search(remedy: Remedy, context: &FrameworkContext<'_>, wheel_dirs: &[PathBuf]) -> Remedy {
    let (framework, host) = (context.survey.cudnn_loader_of(context.framework), context.host);
    let site = remedy.changes().find_map(|change| change.site.user_packages());
    let site = site.as_ref().unwrap_or(&framework.distribution.import_dir);
    let dirs = wheel_dirs.iter().map(|dir| site.join(dir));
    let dirs: Vec<PathBuf> = dirs.filter(|dir| !framework.searches(dir, host)).collect();
    if dirs.is_empty() {
        return remedy;
    }
    let (text, name) = (remedy.text.trim_end_matches(':'), framework.kind.name);
    let text = format!("{text}, and have {LOADER} search there, since {name} has no run path to it:");
    dirs.iter().fold(remedy.with_text(text), |remedy, dir| remedy.search(dir))
}

/// Adds how a program can help the framework find the wheels of the environment without a search path. If all of them
/// are installed, the finding becomes a warning, because the program may already do so.
pub(super) fn or_by_program(mut finding: Finding, context: &FrameworkContext<'_>) -> Finding {
    let has_search = |remedy: &&mut Remedy| remedy.actions.iter().any(Action::is_search);
    let Some(remedy) = finding.remedy.as_mut().filter(has_search) else { return finding };
    let Some(action) = context.framework.finds_wheels_by(&context.survey.frameworks) else { return finding };
    if context.framework.os != Os::HOST || !remedy.actions.iter().all(Action::is_search) {
        return finding.note(format!("instead of setting a search path, the program can {action}"));
    }
    remedy.text = format!(
        "have the program {action}; if you cannot change the program, have {LOADER} search the directories of the wheels:"
    );
    let severity = finding.kind.severity.min(Severity::Warning);
    finding.kind = FindingKind { severity, ..finding.kind };
    finding
}

pub(super) fn reinstall(context: &FrameworkContext<'_>) -> Remedy {
    let dir = context.framework.opens.cudnn.first().and_then(|opened| opened.path.parent());
    let report = dir.and_then(|dir| InstallationReport::read(dir, context.host));
    // Frameworks call functions outside the JIT-only set.
    let is_right = |report: &InstallationReport| {
        let of_report = report.cuda_major.zip(context.cuda_major());
        report.variant != Variant::JitOnly && of_report.is_none_or(|(found, wanted)| found == wanted)
    };
    report.filter(is_right).map_or_else(|| install(context), |report| remedies::reinstall(&report))
}

fn again_with_cudnn(context: &FrameworkContext<'_>) -> Remedy {
    let text = format!("install {} again, whose package contains its cuDNN", context.framework.kind.name);
    again_by(&text, own_package(context), context)
}

/// Reinstalls the framework's package, and packages of the same release with parts of it: `jax-cuda12-pjrt` contains
/// the library of `jax-cuda12-plugin`.
pub(super) fn install_again(context: &FrameworkContext<'_>) -> Remedy {
    let name = &context.framework.distribution.name;
    let family = name.rsplit_once('-').map_or(name.as_str(), |(family, _)| family);
    let is_part = |pin: &&Pin| {
        let rest = pin.package.strip_prefix(family).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some() && pin.package != *name && pin.extra.is_none() && pin.requirement.contains("==")
    };
    let parts = context.framework.pins.iter().filter(is_part).map(Pin::without_marker);
    again_by("install it again", own_package(context).map(|own| own.reinstall(parts)), context)
}

/// Reinstalls the framework's package. Returns `None` for a package that only a private index has.
fn own_package(context: &FrameworkContext<'_>) -> Option<PackageChange> {
    let Distribution { name, version, .. } = &context.framework.distribution;
    reinstall_package(&context.site(), name, version)
}

fn again_by(text: &str, change: Option<PackageChange>, context: &FrameworkContext<'_>) -> Remedy {
    let Distribution { name, version, .. } = &context.framework.distribution;
    match change {
        _ if is_of_conda(context.framework) => Remedy::new(format!("{text}, with the installer of this environment")),
        Some(change) => by_change(format!("{text}:"), change),
        None if version.contains('+') => Remedy::new(format!(
            "install {name}=={version} again from the package index that it came from, by pip with `--index-url`, \
             `--force-reinstall` and `--no-deps`: the Python package index has no version with a `+`"
        )),
        None => Remedy::new(format!("{text}, with the installer of this environment")),
    }
}
