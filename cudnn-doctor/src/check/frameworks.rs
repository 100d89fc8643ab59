//! Whether the frameworks of an environment fit the cuDNN that they would load, the driver and the GPUs: the facts of
//! `cudnn-frameworks`, judged.

use std::path::PathBuf;

use cudnn_frameworks::{
    By, Depth, Environment, Framework, Opened, Opens, Pair, Pin, PinState, Source, Survey, pairs, survey_to,
};
use cudnn_probe::ld_so::Rule;
use cudnn_probe::packages::{self, Command, Installer, Package};
use cudnn_probe::{
    Candidate, Host, InstallationReport, Library, Origin, Requirements, check_dir, identify, release_facts,
};

use super::finding::{
    FRAMEWORK_CPU_ONLY, FRAMEWORK_DAMAGED, FRAMEWORK_DRIVER, FRAMEWORK_MIX, FRAMEWORK_NO_CUDA, FRAMEWORK_NO_CUDNN,
    FRAMEWORK_OLD_CUDNN, FRAMEWORK_OLD_GPU, FRAMEWORK_OPTIONAL_CUDNN, FRAMEWORK_PIN, FRAMEWORK_PTX,
    FRAMEWORKS_TOGETHER, Finding, Help, PACKAGES_UNREADABLE,
};
use super::fix_commands::{reinstall, with_commands};
use super::machine::{Gpu, Machine, capability, is_older};
use crate::dependency_report::with_canonical_dir;
use crate::escape::Printable;
use crate::shell::prepend_library_path;

/// The major of cuDNN that this project is about.
const CUDNN_MAJOR: u32 = 9;

/// The frameworks of an environment, and what is wrong with them.
pub(crate) struct Judged {
    pub(crate) survey: Survey,
    pub(crate) findings: Vec<Finding>,
}

pub(crate) fn judge(environment: &Environment, machine: &Machine, host: &Host, depth: Depth) -> Judged {
    let survey = survey_to(environment, host, depth);
    let mut findings: Vec<Finding> =
        survey.frameworks.iter().flat_map(|framework| of_framework(framework, &survey, machine)).collect();
    findings.extend(pairs(&survey, host).iter().filter_map(together));
    findings.extend(unreadable(&survey));
    Judged { survey, findings }
}

fn of_framework(framework: &Framework, survey: &Survey, machine: &Machine) -> Vec<Finding> {
    if framework.built_for.uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value) {
        return cpu_only(framework, survey, machine).into_iter().collect();
    }
    let mut findings: Vec<Finding> = Vec::new();
    // One cause at a time: another cuDNN may have the libraries that this one lacks.
    findings.extend(cudnn(framework, survey).or_else(|| sub_libraries(framework, survey)));
    findings.extend(pins(framework, survey));
    findings.extend(cuda(framework, survey));
    findings.extend(driver(framework, machine));
    findings.extend(machine.gpus.iter().filter_map(|gpu| kernels(framework, gpu)));
    findings
}

/// `PyTorch 2.9.1+cu128`.
pub(crate) fn title(framework: &Framework) -> String {
    format!("{} {}", framework.kind.name, framework.version)
}

/// How it finds a file.
pub(crate) fn how(opened: &Opened) -> String {
    match &opened.by {
        By::Python => "opened by its Python code".into(),
        By::Variable(name) => format!("opened by its Python code, from {name}"),
        By::LdSo(rule) => rule.to_string(),
        _ => String::new(),
    }
}

/// The same in a word or two.
pub(crate) fn how_in_short(opened: &Opened) -> &'static str {
    match &opened.by {
        By::Python => "its Python code",
        By::Variable(name) => name,
        By::LdSo(Rule::Rpath(_)) => "RPATH",
        By::LdSo(Rule::Runpath(_)) => "RUNPATH",
        By::LdSo(Rule::LibraryPath) => "LD_LIBRARY_PATH",
        By::LdSo(Rule::Cache) => "ld.so.cache",
        By::LdSo(Rule::Preload) => "LD_PRELOAD",
        By::LdSo(Rule::Loaded) => "already loaded",
        _ => "default directory",
    }
}

/// Where a fact comes from.
pub(crate) fn source(source: &Source) -> String {
    match source {
        Source::File(file) => file.printable(),
        Source::Requirement(requirement) => format!("it requires {requirement}"),
        Source::Document { url, date, is_older_than_package } => {
            let doubt = if *is_older_than_package { "; this release is newer than that" } else { "" };
            format!("{url}, read on {date}{doubt}")
        }
        _ => String::new(),
    }
}

/// The cuDNN that it would load: is there one, is it of one release, does the framework accept it?
fn cudnn(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let opens = &framework.opens;
    if opens.needs_none {
        return None;
    }
    if opens.users.is_empty() {
        return damaged(framework, survey);
    }
    let wanted = framework.built_for.cudnn.as_ref();
    let wants = wanted.map(|wanted| format!("built for cuDNN {} ({})", wanted.value, source(&wanted.source)));
    let Some(first) = opens.cudnn.first() else {
        let name = opens.name.as_deref().unwrap_or("cuDNN");
        let user = opens.users.first().map(|user| format!("needed by {}", user.printable()));
        let kind = if opens.is_optional { FRAMEWORK_OPTIONAL_CUDNN } else { FRAMEWORK_NO_CUDNN };
        let message = format!("{} would not find {}", title(framework), name.printable());
        let finding = Finding::new(kind, message).notes(user).notes(wants);
        return Some(finding.help(reach(framework, survey)));
    };
    if let Some((first, other)) = mix(&opens.cudnn) {
        let version = first.version.map_or(String::new(), |version| version.to_string());
        let other_version = other.version.map_or(String::new(), |version| version.to_string());
        let message = format!(
            "{} would mix cuDNN {version} ({}) and {other_version} ({})",
            title(framework),
            first.name.printable(),
            other.name.printable()
        );
        let finding = Finding::new(FRAMEWORK_MIX, message).note(found(first)).note(found(other)).notes(wants);
        return Some(finding.help(keep_apart(first, other)));
    }
    let (wanted, version) = (wanted?, opens.version()?);
    if framework.kind.comparison.accepts(wanted.value, version) {
        return None;
    }
    let message = format!("{} would load cuDNN {version}, but accepts {} or newer", title(framework), wanted.value);
    let finding = Finding::new(FRAMEWORK_OLD_CUDNN, message).note(found(first)).notes(wants);
    Some(if first.path.starts_with(&survey.environment.root) {
        finding.notes(also_pinned(framework, survey)).help(install(framework, survey))
    } else {
        finding.help(make_last(first))
    })
}

/// None of its own libraries can be loaded, so nothing is known of what they need.
fn damaged(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let dir = framework.dir.as_deref()?;
    let message = format!("{}: no usable library of it is in {}", title(framework), dir.printable());
    let package = format!("{}=={}", framework.distribution.name, framework.distribution.version);
    let arguments = ["--force-reinstall".to_owned(), "--no-deps".to_owned(), package];
    let finding = Finding::new(FRAMEWORK_DAMAGED, message);
    Some(match command(framework, survey, arguments).filter(|_| !is_of_conda(framework)) {
        Some(command) => finding.help(with_commands("install it again:", &[command])),
        None => finding.help("install it again, by the installer of this environment"),
    })
}

/// Two libraries of cuDNN that do not work together: a shim of a newer release than the libraries that it opens, or
/// libraries of two releases. An older shim works with newer libraries.
fn mix(opened: &[Opened]) -> Option<(&Opened, &Opened)> {
    let (shim, libraries) = opened.split_first()?;
    let first = libraries.first()?;
    let is_newer =
        |one: &Opened, other: &Opened| one.version.zip(other.version).is_some_and(|(one, other)| one > other);
    if let Some(other) = libraries.iter().find(|other| is_newer(shim, other)) {
        return Some((shim, other));
    }
    let other = libraries.iter().find(|other| is_newer(first, other) || is_newer(other, first))?;
    Some((first, other))
}

/// A file, and how it is found.
fn found(opened: &Opened) -> String {
    format!("{}: {}", with_canonical_dir(&opened.path).printable(), how(opened))
}

/// How to have it find a cuDNN: there may be one in the environment, to which its libraries have no run path.
fn reach(framework: &Framework, survey: &Survey) -> Help {
    if wanted_major(framework).is_some_and(|major| major != CUDNN_MAJOR) {
        return install(framework, survey);
    }
    let environment = Origin::Python(survey.environment.root.clone());
    let installed: Vec<PathBuf> =
        survey.environment.import_dirs.iter().map(|dir| dir.join("nvidia/cudnn/lib")).collect();
    let is_usable = |dir: &PathBuf| {
        let candidate = Candidate::new(dir, environment.clone());
        check_dir(&candidate, &Requirements::default()).is_ok()
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
            let text = format!("it is in {}: have ld.so search that directory:", dir.printable());
            Help::new(text).command(line)
        }
        _ => install(framework, survey),
    }
}

/// Another cuDNN comes first. It may be right for other programs.
fn make_last(first: &Opened) -> Help {
    let dir = first.path.parent().unwrap_or(&first.path).printable();
    Help::new(match &first.by {
        By::Python => format!("start it without the directory above {dir} on PYTHONPATH, or upgrade the cuDNN there"),
        By::Variable(name) => format!("start it without {name}, or upgrade the cuDNN in {dir}"),
        By::LdSo(Rule::LibraryPath) => {
            format!("start it without {dir} on LD_LIBRARY_PATH, or upgrade the cuDNN there")
        }
        _ => format!("upgrade the cuDNN in {dir}"),
    })
}

fn keep_apart(first: &Opened, other: &Opened) -> Help {
    let dir = |opened: &Opened| opened.path.parent().unwrap_or(&opened.path).printable();
    if dir(first) == dir(other) {
        return Help::new(format!("install all libraries of one release in {} again", dir(first)));
    }
    match &other.by {
        By::LdSo(Rule::LibraryPath) => Help::new(format!("start it without {} on LD_LIBRARY_PATH", dir(other))),
        _ => Help::new(format!("install the same release in {} and {}, or remove one of them", dir(first), dir(other))),
    }
}

/// Installs the cuDNN that a framework requires, in its environment, by the installer that owns the framework.
fn install(framework: &Framework, survey: &Survey) -> Help {
    let name = framework.kind.name;
    if let Some(major) = wanted_major(framework).filter(|major| *major != CUDNN_MAJOR) {
        return Help::new(format!(
            "install a release of {name} that is built for cuDNN {CUDNN_MAJOR}, or give this one an environment of its \
             own with cuDNN {major}: a process can use one major"
        ));
    }
    let pin = framework.pins.iter().find(|pin| pin.package.starts_with("nvidia-cudnn-cu"));
    let requirement = pin.map(requirement).or_else(|| {
        let (cuda, _) = framework.built_for.cuda.as_ref()?.value;
        let minimum = framework.built_for.cudnn.as_ref().map(|wanted| format!(">={}", wanted.value));
        Some(format!("nvidia-cudnn-cu{cuda}{},<{}", minimum.unwrap_or(format!(">={CUDNN_MAJOR}")), CUDNN_MAJOR + 1))
    });
    // pip does nothing where it has a record of the package, whether the files are there or not.
    let is_recorded = pin.is_some_and(|pin| matches!(pin.state, PinState::Met(_)));
    let again = is_recorded.then(|| ["--force-reinstall".to_owned(), "--no-deps".to_owned()]);
    let arguments = |requirement| again.into_iter().flatten().chain([requirement]);
    match requirement.and_then(|requirement| command(framework, survey, arguments(requirement))) {
        Some(command) => with_commands(format!("install the cuDNN that {name} is built for:"), &[command]),
        None => Help::new(format!("install the cuDNN that {name} is built for in its environment")),
    }
}

/// The major of cuDNN that it was built for.
fn wanted_major(framework: &Framework) -> Option<u32> {
    framework.built_for.cudnn.as_ref().map(|wanted| wanted.value.major)
}

/// The other frameworks that require one release of cuDNN, which the help would replace.
fn also_pinned<'a>(framework: &'a Framework, survey: &'a Survey) -> impl Iterator<Item = String> + 'a {
    let others = survey.frameworks.iter().filter(move |other| !std::ptr::eq(other.kind, framework.kind));
    let pins = others.flat_map(|other| other.pins.iter().map(move |pin| (other, pin)));
    let is_exact = |pin: &Pin| pin.package.starts_with("nvidia-cudnn-cu") && pin.requirement.contains("==");
    pins.filter(move |(_, pin)| is_exact(pin) && pin.extra.is_none()).map(|(other, pin)| {
        format!(
            "{} requires {}: it accepts newer minor releases, too, and pip only warns",
            title(other),
            requirement(pin)
        )
    })
}

/// What pip takes: the requirement without its marker.
fn requirement(pin: &Pin) -> String {
    pin.requirement.split(';').next().unwrap_or(&pin.package).replace(['(', ')', ' '], "")
}

fn command(framework: &Framework, survey: &Survey, requirements: impl IntoIterator<Item = String>) -> Option<Command> {
    let root = &survey.environment.root;
    if is_of_conda(framework) {
        let minimum = framework.built_for.cudnn.as_ref()?.value.to_string();
        let package = Package::new(Installer::Conda, packages::Component::Cudnn.conda_package(), None, root);
        return packages::upgrade(&package, &minimum);
    }
    packages::pip(Some(root), "install", requirements)
}

/// Did conda install it?
fn is_of_conda(framework: &Framework) -> bool {
    const MAX_LEN: u64 = 64;
    let installer = cudnn_probe::read_bounded(&framework.distribution.info_dir.join("INSTALLER"), MAX_LEN);
    installer.is_ok_and(|installer| installer.trim_ascii() == b"conda")
}

fn pins(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let is_unmet_state = |state: &PinState| matches!(state, PinState::OtherVersion(_) | PinState::Missing);
    let is_unmet = |pin: &&Pin| pin.extra.is_none() && is_unmet_state(&pin.state);
    let unmet: Vec<&Pin> = framework.pins.iter().filter(is_unmet).collect();
    let first = unmet.first()?;
    let message = match (&first.state, unmet.len()) {
        (PinState::OtherVersion(found), 1) => {
            format!("{} requires {}, but {found} is installed", title(framework), requirement(first))
        }
        (_, 1) => format!("{} requires {}, which is not installed", title(framework), requirement(first)),
        (_, count) => format!("{count} packages are not those that {} requires", title(framework)),
    };
    let notes = unmet.iter().map(|pin| match &pin.state {
        PinState::OtherVersion(found) => format!("requires {}; installed: {found}", pin.requirement),
        _ => format!("requires {}; not installed", pin.requirement),
    });
    let finding = Finding::new(FRAMEWORK_PIN, message).notes(notes);
    let requirements = unmet.iter().map(|pin| requirement(pin));
    Some(match command(framework, survey, requirements).filter(|_| !is_of_conda(framework)) {
        Some(command) => finding.help(with_commands("install what it requires:", &[command])),
        None => finding.help("install the versions that it requires, by the installer of this environment"),
    })
}

/// Libraries of its cuDNN that it would not find. Without any cuDNN, see [`cudnn`].
fn sub_libraries(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let first = framework.opens.cudnn.first()?;
    let missing: Vec<String> = framework.opens.missing.iter().filter(is_cudnn).cloned().collect();
    let name = missing.first()?.printable();
    let others = missing.len() - 1;
    let message = match others {
        0 => format!("{} would not find {name}", title(framework)),
        1 => format!("{} would not find {name}, and another library of cuDNN", title(framework)),
        _ => format!("{} would not find {name}, and {others} other libraries of cuDNN", title(framework)),
    };
    let beside = found(first);
    let finding = Finding::new(FRAMEWORK_NO_CUDNN, message).note(format!("missing: {}", missing.join(", ")));
    Some(finding.note(beside).help(if is_elsewhere(first, survey) {
        reach(framework, survey)
    } else {
        again(framework, survey)
    }))
}

fn is_cudnn(name: &&String) -> bool {
    name.starts_with("libcudnn")
}

/// A shim outside of the environment, or one that the framework's own package contains without the libraries that it
/// opens.
fn is_elsewhere(shim: &Opened, survey: &Survey) -> bool {
    shim.name.starts_with("libcudnn-") || !shim.path.starts_with(&survey.environment.root)
}

/// Installs the files of the cuDNN in its environment again.
fn again(framework: &Framework, survey: &Survey) -> Help {
    let cuda = framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0);
    let dir = framework.opens.cudnn.first().and_then(|opened| opened.path.parent());
    let report = dir.and_then(|dir| InstallationReport::read(dir, &Host::current()));
    match report {
        Some(report) if cuda.is_none_or(|cuda| report.cuda_major.is_none_or(|found| found == cuda)) => {
            reinstall(&report)
        }
        _ => install(framework, survey),
    }
}

/// Libraries of CUDA that it needs and would not find.
fn cuda(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let missing: Vec<&String> = framework.opens.missing.iter().filter(|name| !is_cudnn(name)).collect();
    let first = missing.first()?;
    let message = format!("{} would not find {}", title(framework), first.printable());
    let others = missing.iter().skip(1).map(|name| format!("nor {name}"));
    let built = framework.built_for.cuda.as_ref().map(|cuda| {
        let (major, minor) = cuda.value;
        format!("built for CUDA {} ({})", release(major, minor), source(&cuda.source))
    });
    let finding = Finding::new(FRAMEWORK_NO_CUDA, message).notes(others).notes(built);
    // What it requires comes first; pip knows no other names of these wheels.
    let unmet = framework.pins.iter().any(|pin| pin.extra.is_none() && !matches!(pin.state, PinState::Met(_)));
    if unmet {
        return Some(finding.help("install what it requires: see the finding about that"));
    }
    if let Some(help) = reach_cuda(&missing, survey) {
        return Some(finding.help(help));
    }
    let mut wheels: Vec<String> = missing.iter().filter_map(|name| packages::wheel_for(name.as_str())).collect();
    let is_pip = !is_of_conda(framework) && wheels.len() == missing.len();
    wheels.sort();
    wheels.dedup();
    Some(match command(framework, survey, wheels).filter(|_| is_pip) {
        Some(command) => finding.help(with_commands("install the wheels that contain them:", &[command])),
        None => finding.help("install the CUDA libraries of this major in its environment"),
    })
}

/// The directories of wheels that contain all that is missing, for ld.so.
fn reach_cuda(missing: &[&String], survey: &Survey) -> Option<Help> {
    const MAX_DIRS: usize = 256;
    let import_dirs = survey.environment.import_dirs.iter();
    let wheels = import_dirs.filter_map(|dir| std::fs::read_dir(dir.join("nvidia")).ok()).flatten().take(MAX_DIRS);
    let libs: Vec<PathBuf> = wheels.flatten().map(|wheel| wheel.path().join("lib")).collect();
    let mut dirs: Vec<&PathBuf> = Vec::new();
    for name in missing {
        let dir = libs.iter().find(|dir| dir.join(name).is_file())?;
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    let lines: Option<Vec<String>> = dirs.into_iter().map(|dir| prepend_library_path(dir)).collect();
    let help = Help::new("they are in wheels of this environment: have ld.so search their directories:");
    Some(lines?.into_iter().fold(help, Help::command))
}

/// `12.8`, or `12` without a minor.
pub(crate) fn release(major: u32, minor: Option<u32>) -> String {
    minor.map_or(major.to_string(), |minor| format!("{major}.{minor}"))
}

fn driver(framework: &Framework, machine: &Machine) -> Option<Finding> {
    let cuda = framework.built_for.cuda.as_ref()?;
    let (major, minor) = cuda.value;
    let (_, minimum) = release_facts::MIN_DRIVER.iter().find(|(known, _)| *known == major)?;
    let driver = machine.driver.as_ref().filter(|driver| is_older(driver, minimum))?;
    let release = release(major, minor);
    let message = format!("{} is built for CUDA {release}, which driver {driver} does not run", title(framework));
    let name = framework.kind.name;
    Some(
        Finding::new(FRAMEWORK_DRIVER, message)
            .note(format!("CUDA {major} needs driver {minimum} or newer"))
            .note(format!("CUDA {release}: {}", source(&cuda.source)))
            .help(format!("install driver {minimum} or newer, or a build of {name} for an older CUDA")),
    )
}

/// Its own kernels, for this GPU. SASS runs on GPUs of the same major and the same or a newer minor; PTX on all newer.
fn kernels(framework: &Framework, gpu: &Gpu) -> Option<Finding> {
    let built = framework.built_for.gpu_code.as_ref().filter(|code| !code.value.is_empty())?;
    if framework.built_for.compiles_at_run_time {
        return None;
    }
    let has = gpu.compute_capability;
    let runs = |code: u32| code / 10 == has / 10 && code <= has;
    if built.value.iter().any(|code| !code.is_ptx && runs(code.compute_capability)) {
        return None;
    }
    let all: Vec<String> = built.value.iter().map(ToString::to_string).collect();
    let gpu_text = format!("{} (compute capability {})", gpu.name.printable(), capability(has));
    let note = format!("its kernels are for {} ({})", all.join(" "), source(&built.source));
    let name = framework.kind.name;
    let has_ptx = built.value.iter().any(|code| code.is_ptx && code.compute_capability <= has);
    Some(if has_ptx {
        Finding::new(FRAMEWORK_PTX, format!("{} has no kernels for {gpu_text}, only PTX", title(framework)))
            .note(note)
            .help("the driver compiles them when they are first used, which takes minutes once; CUDA_CACHE_MAXSIZE keeps them")
    } else {
        Finding::new(FRAMEWORK_OLD_GPU, format!("{} has no kernels for {gpu_text}", title(framework))).note(note).help(
            format!("install a release of {name}, or a build for another CUDA, that lists this compute capability"),
        )
    })
}

/// A build without CUDA, on a machine that has a GPU.
fn cpu_only(framework: &Framework, survey: &Survey, machine: &Machine) -> Option<Finding> {
    let gpu = machine.gpus.first()?;
    let is_cpu = |framework: &Framework| framework.kind.is_cpu_package(&framework.distribution.name);
    let is_other = |other: &&Framework| {
        std::ptr::eq(other.kind, framework.kind) && other.dir == framework.dir && is_cpu(other) != is_cpu(framework)
    };
    let gpu_package = survey.frameworks.iter().find(is_other);
    // Two packages with one directory are one finding; and a package for the CPU alone is somebody's choice.
    if gpu_package.is_some() != is_cpu(framework) {
        return None;
    }
    let note = framework.built_for.uses_gpu.as_ref().map(|uses_gpu| source(&uses_gpu.source));
    let gpu = gpu.name.printable();
    let message = format!("{} is built without GPU support, and does not use {gpu}", title(framework));
    let finding = Finding::new(FRAMEWORK_CPU_ONLY, message).notes(note);
    let Some(gpu_package) = gpu_package else {
        return Some(finding.help("install its build for CUDA, if the program shall use the GPU"));
    };
    let (this, other) = (&framework.distribution.name, &gpu_package.distribution.name);
    let pip = |action: &str, options: &[&str], name: &String| {
        let arguments = options.iter().map(|option| (*option).to_owned()).chain([name.clone()]);
        packages::pip(Some(&survey.environment.root), action, arguments)
    };
    let remove = pip("uninstall", &["--yes"], this);
    let same = format!("{other}=={}", gpu_package.distribution.version);
    let again = pip("install", &["--force-reinstall", "--no-deps"], &same);
    let commands: Vec<Command> = remove.into_iter().chain(again).collect();
    let text = format!("{this} and {other} own the same files: remove {this}, then install {other} again:");
    Some(finding.help(with_commands(text, &commands)))
}

/// Two frameworks in one process: what the second gets when the first has loaded its cuDNN. What is wrong with the
/// second alone is reported as such.
fn together(pair: &Pair<'_>) -> Option<Finding> {
    let (first, second) = (pair.first, pair.second);
    let (alone, after) = (&second.opens, &pair.second_opens);
    let [one, two] = [first, second].map(title);
    let is_accepted = |opens: &Opens| {
        let wanted = second.built_for.cudnn.as_ref().map(|wanted| wanted.value);
        wanted.zip(opens.version()).is_none_or(|(wanted, found)| second.kind.comparison.accepts(wanted, found))
    };
    let got = pair.second_gets.as_deref().map(|got| format!("it gets {}", got.printable()));
    let is_new = |name: &&String| name.starts_with("libcudnn") && !alone.missing.contains(name);
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
    let rule = "ld.so gives it the libraries of the same names that the first has loaded";
    Some(finding.notes(got).note(rule).help(format!(
        "import {} first, or install releases of both that are built for the same cuDNN",
        second.kind.id
    )))
}

fn unreadable(survey: &Survey) -> Option<Finding> {
    const MAX: usize = 8;
    let count = survey.unreadable.len();
    if count == 0 && !survey.is_truncated {
        return None;
    }
    let dir = survey.environment.root.printable();
    let message = match count {
        0 => format!("{dir} has more packages than were examined"),
        1 => format!("a package in {dir} could not be examined"),
        _ => format!("{count} packages in {dir} could not be examined"),
    };
    let notes = survey.unreadable.iter().take(MAX).map(|one| format!("{} {}", one.path.printable(), one.reason));
    let rest = (count > MAX).then(|| format!("and {} more", count - MAX));
    let help = "install such a package again, if a framework belongs to it; the findings leave it out";
    Some(Finding::new(PACKAGES_UNREADABLE, message).notes(notes).notes(rest).help(help))
}
