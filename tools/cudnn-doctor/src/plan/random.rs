//! Tests plans for random findings in a simulated environment. A plan must be free of contradictions and fix its
//! findings, and deferred findings must be fixed after at most five plans.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::facts::Facts;
use cudnn_probe::{DIR_VARIABLE, Version};
use tempfile::TempDir;

use super::{Plan, PlanContext, Step, is_possible};
use crate::check::{FINDINGS, Finding, FindingKind, Severity};
use crate::drop_in::command::Command as DropInCommand;
use crate::packages::{PackageChange, Pip, Site, package_name, restore_python};
use crate::remedy::{Action, Effect, Remedy, Variable};
use crate::shell::SEARCH_PATH;

const PACKAGES: [&str; 3] = ["nvidia-x", "nvidia-y", "nvidia-z"];
const NEWEST: u32 = 3;
const ROUNDS: usize = 5;

/// All kinds of sites. Some have the same directory and different installers. The root is that of a virtual environment
/// whose Python is missing.
fn sites(root: &Path) -> [Site; 10] {
    let directory = |dir: &str, pip| Site::Directory { dir: dir.into(), pip, options: vec!["--upgrade", "--no-deps"] };
    [
        Site::Environment(root.to_owned()),
        Site::Environment("/nowhere/a".into()),
        Site::Interpreter { program: "/nowhere/a/bin/python3.12".into(), root: "/nowhere/a".into() },
        Site::OnPath,
        directory("/nowhere/b", Pip::Any),
        directory("/nowhere/b", Pip::Interpreter("/nowhere/python3".into())),
        directory("/nowhere/c", Pip::Environment(root.to_owned())),
        Site::NewEnvironment { dir: "/nowhere/new".into(), program: "/nowhere/python3".into(), needed: None },
        Site::Conda("/nowhere/conda".into()),
        Site::System,
    ]
}

/// Returns the name of the place that packages of this site share.
fn place(site: &Site) -> String {
    site.dir().map_or_else(|| format!("{site:?}"), |dir| dir.display().to_string())
}

/// Actions that each change one fact, which [`outcome`] names.
fn single_actions(root: &Path) -> Vec<Action> {
    let dirs = ["/nowhere/a", "/nowhere/d", "/nowhere/conda/lib"].map(PathBuf::from);
    let mut actions =
        vec![Action::Python(root.to_owned()), Action::Ldconfig, Action::NameByLink("/nowhere/l:m".into())];
    actions.extend(["/nowhere/d/logs", "/nowhere/logs"].map(|dir| Action::CreateDir(dir.into())));
    for (index, dir) in dirs.into_iter().chain([root.to_owned()]).enumerate() {
        let command = if index == 0 { DropInCommand::Uninstall } else { DropInCommand::Install { from: None } };
        actions.extend([
            Action::Permit { path: dir.clone(), is_dir: true },
            Action::DropIn { command, dir: dir.clone() },
            Action::Link { dir, version: Version::new(9, 19, 0) },
        ]);
    }
    actions
}

/// Returns the fact that this action changes, with its value afterwards.
fn outcome(action: &Action) -> Option<(String, bool)> {
    let (kind, dir, value) = match action {
        Action::Permit { path, .. } => ("readable", &**path, true),
        Action::Python(root) => ("python", &**root, true),
        Action::NameByLink(dir) => ("name", &**dir, true),
        Action::Ldconfig => ("cache", Path::new("/etc"), true),
        Action::CreateDir(dir) => ("directory", &**dir, true),
        Action::DropIn { command, dir } => ("drop-in", &**dir, matches!(command, DropInCommand::Install { .. })),
        Action::Link { dir, .. } => ("links", &**dir, true),
        _ => return None,
    };
    Some((format!("{kind} {}", dir.display()), value))
}

/// Returns whether the first action has to come before the second one if a plan contains both.
fn prepares(first: &Action, second: &Action) -> bool {
    let is_within = |inner: &Action, outer: &Action| match (inner.place(), outer.place()) {
        (Some(inner), Some(outer)) => inner.starts_with(outer),
        _ => false,
    };
    match (first, second) {
        (Action::Permit { .. }, Action::Permit { .. } | Action::Variable(_)) => false,
        (Action::Permit { .. }, second) => is_within(second, first),
        (Action::Python(root), Action::Packages(change)) => change.site.python_root() == Some(root),
        (Action::Remove { paths, .. }, Action::Packages(change)) => {
            change.site.dir().is_some_and(|dir| paths.iter().any(|path| path.starts_with(dir)))
        }
        (Action::Packages(_), Action::Link { .. } | Action::DropIn { .. }) => is_within(second, first),
        (Action::Link { dir, .. }, Action::DropIn { dir: other, .. }) => dir == other,
        (Action::Packages(PackageChange { site: Site::System, .. }) | Action::Remove { .. }, Action::Ldconfig) => true,
        (Action::Variable(Variable::Set { .. } | Variable::Without { .. }), Action::Variable(Variable::Search(_))) => {
            true
        }
        (Action::Packages(_) | Action::NameByLink(_) | Action::CreateDir(_), Action::Variable(_)) => true,
        _ => false,
    }
}

/// Returns what an action decides. No other action in a plan may decide the same.
fn decides(action: &Action) -> Vec<String> {
    match action {
        Action::Packages(change) => vec![format!("packages {}", place(&change.site))],
        Action::Remove { paths, .. } => paths.iter().map(|path| format!("file {}", path.display())).collect(),
        Action::Variable(Variable::Set { name, .. } | Variable::Unset(name)) => vec![format!("variable {name}")],
        Action::Variable(Variable::Use(_)) => vec![format!("variable {DIR_VARIABLE}")],
        Action::Variable(Variable::Search(dir)) => vec![format!("search {}", dir.display())],
        Action::Variable(Variable::Without { entries, .. }) => {
            entries.iter().map(|entry| format!("search {}", entry.display())).collect()
        }
        other => outcome(other).map(|(fact, _)| fact).into_iter().collect(),
    }
}

/// Codes of findings whose remedy replaces the affected installation.
const REPLACING: [&str; 5] = ["C018", "C019", "C023", "C040", "C041"];

/// A xorshift generator, which yields the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// The required state of a package.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Requirement {
    MissingFiles,
    Exact(u32),
    Minimum(u32),
}

impl Requirement {
    fn is_met(self, version: Option<u32>) -> bool {
        match self {
            Requirement::MissingFiles => version.is_none(),
            Requirement::Exact(wanted) => version == Some(wanted),
            Requirement::Minimum(wanted) => version.is_some_and(|version| version >= wanted),
        }
    }

    fn change(self, (site, package): &Key) -> PackageChange {
        let change = PackageChange::of(site.clone());
        match self {
            Requirement::MissingFiles => change.remove([(*package).to_owned()]),
            Requirement::Exact(version) => change.install([pinned(site, package, version)]),
            // apt has no ranges.
            Requirement::Minimum(_) if *site == Site::System => change.install([(*package).to_owned()]),
            Requirement::Minimum(version) => change.install([format!("{package}>={version}")]),
        }
    }

    fn parse(text: &str) -> Requirement {
        let number = || text.trim_start_matches(['=', '>']).parse().unwrap();
        match text.bytes().next() {
            None => Requirement::Minimum(NEWEST),
            Some(b'>') => Requirement::Minimum(number()),
            _ => Requirement::Exact(number()),
        }
    }
}

fn pinned(site: &Site, package: &str, version: u32) -> String {
    let operator = if matches!(site, Site::Conda(_) | Site::System) { "=" } else { "==" };
    format!("{package}{operator}{version}")
}

type Key = (Site, &'static str);

#[derive(Clone, Debug, Default)]
struct Environment {
    /// Maps packages to their version and whether their files are damaged.
    packages: BTreeMap<(String, String), (u32, bool)>,
    /// Maps directories and files to whether they are intact.
    files: BTreeMap<PathBuf, bool>,
    variables: BTreeMap<String, String>,
    search: Vec<String>,
    /// The facts that [`outcome`] names.
    facts: BTreeMap<String, bool>,
}

impl Environment {
    fn package(&self, (site, package): &Key) -> Option<(u32, bool)> {
        self.packages.get(&(place(site), (*package).to_owned())).copied()
    }

    fn version(&self, key: &Key) -> Option<u32> {
        self.package(key).map(|(version, _)| version)
    }

    fn execute(&mut self, action: &Action) {
        match action {
            Action::Packages(change) => self.change(change),
            Action::Remove { paths, .. } => {
                for path in paths {
                    // Several files are removed with `rm -f`.
                    assert!(paths.len() > 1 || self.files.contains_key(path), "rm fails: {}", path.display());
                    self.files.retain(|file, _| !file.starts_with(path));
                    self.packages.retain(|(place, _), _| !Path::new(place).starts_with(path));
                }
            }
            Action::Variable(variable) => self.assign(variable),
            other => self.facts.extend(outcome(other)),
        }
        // These steps replace the drop-in and the links below them, and make the linker's cache stale.
        let (is_stale, dir) = match action {
            Action::Packages(change) => (change.site == Site::System, change.site.dir()),
            Action::Remove { paths, is_dir } => (true, paths.first().filter(|_| *is_dir).map(PathBuf::as_path)),
            _ => (false, None),
        };
        for (fact, value) in &mut self.facts {
            let (kind, place) = fact.split_once(' ').unwrap_or_default();
            let is_below = dir.is_some_and(|dir| Path::new(place).starts_with(dir));
            if kind == "cache" && is_stale || ["drop-in", "links", "directory"].contains(&kind) && is_below {
                *value = false;
            }
        }
    }

    fn change(&mut self, change: &PackageChange) {
        let site = place(&change.site);
        let key = |name: &str| (site.clone(), name.to_owned());
        self.packages.retain(|known, _| !change.remove.iter().any(|name| *known == key(name)));
        for requirement in change.reinstall.iter().chain(&change.install) {
            let name = package_name(requirement);
            let wanted = Requirement::parse(&requirement[name.len()..]);
            let version = self.packages.get(&key(name)).map(|(version, _)| *version);
            // Like pip, keep an installed version that meets the requirement.
            if change.reinstall.contains(requirement) || !wanted.is_met(version) {
                let version = if let Requirement::Exact(version) = wanted { version } else { NEWEST };
                self.packages.insert(key(name), (version, false));
            }
        }
    }

    fn assign(&mut self, variable: &Variable) {
        let mut set = |name: &str, value: &OsString| {
            self.variables.insert(name.to_owned(), value.to_str().unwrap().to_owned());
        };
        match variable {
            Variable::Set { name, value } => set(name, value),
            Variable::Use(dir) => set(DIR_VARIABLE, &dir.clone().into()),
            Variable::Unset(name) => drop(self.variables.remove(name)),
            Variable::Without { entries, .. } => self.search.retain(|entry| !entries.iter().any(|one| one == &**entry)),
            Variable::Search(dir) => self.search.insert(0, dir.display().to_string()),
        }
    }
}

/// A problem in the environment, with the remedy that fixes it.
struct Fault {
    is_there: Box<dyn Fn(&Environment) -> bool>,
    remedy: Box<dyn Fn(&Environment) -> Remedy>,
}

impl Fault {
    /// Creates a fault that one package change fixes.
    fn of_package(
        is_there: impl Fn(&Environment) -> bool + 'static,
        change: impl Fn(&Environment) -> PackageChange + 'static,
    ) -> Fault {
        let remedy = move |one: &Environment| Remedy::new("x").effect(Effect::SameDir).change(change(one));
        Fault { is_there: Box::new(is_there), remedy: Box::new(remedy) }
    }

    /// Creates a fault that a single other action fixes.
    fn of(is_there: impl Fn(&Environment) -> bool + 'static, action: impl Into<Action>) -> Fault {
        let remedy = Remedy::new("x").action(action);
        Fault { is_there: Box::new(is_there), remedy: Box::new(move |_| remedy.clone()) }
    }

    /// The package fails to meet the requirement.
    fn unmet(key: &Key, requirement: Requirement) -> Fault {
        let (key, other) = (key.clone(), key.clone());
        Fault::of_package(move |one| !requirement.is_met(one.version(&key)), move |_| requirement.change(&other))
    }

    /// The files of the package are damaged.
    fn broken(key: &Key) -> Fault {
        let (key, (site, package)) = (key.clone(), key.clone());
        let other = key.clone();
        Fault::of_package(
            move |one| one.package(&key).is_some_and(|(_, is_broken)| is_broken),
            move |one| {
                let version = one.version(&other).unwrap_or_default();
                PackageChange::of(site.clone()).reinstall([pinned(&site, package, version)])
            },
        )
    }

    /// Two packages with the same files are installed. The first has to stay, with this version.
    fn mixed(key: &Key, other: &'static str, version: u32) -> Fault {
        let (key, wanted) = (key.clone(), key.clone());
        let other_key = (key.0.clone(), other);
        Fault::of_package(
            move |one| one.version(&other_key).is_some() || one.version(&key) != Some(version),
            move |_| Requirement::Exact(version).change(&wanted).remove([wanted.1, other].map(str::to_owned)),
        )
    }

    /// The fact differs from the outcome of this action.
    fn fact(action: Action) -> Option<Fault> {
        let (fact, value) = outcome(&action)?;
        Some(Fault::of(move |one| one.facts.get(&fact).is_some_and(|now| *now != value), action))
    }

    /// The variable must have this value.
    fn value(name: &'static str, value: Option<&'static str>) -> Fault {
        let variable = match value {
            Some(value) => Variable::Set { name: name.to_owned(), value: value.into() },
            None => Variable::Unset(name.to_owned()),
        };
        Fault::of(move |one| one.variables.get(name).map(String::as_str) != value, variable)
    }

    /// The search path must not contain these entries.
    fn entries(entries: &'static [&'static str]) -> Fault {
        let without = Variable::Without { name: SEARCH_PATH, entries: entries.iter().map(OsString::from).collect() };
        Fault::of(move |one| one.search.iter().any(|entry| entries.contains(&&**entry)), without)
    }
}

/// Creates a random environment with possible faults. All faults can be fixed together, because the requirements of
/// packages, variables and directories are consistent.
fn world(random: &mut Random, root: &Path) -> (Environment, Vec<Fault>) {
    let mut environment = Environment::default();
    let mut faults = Vec::new();
    let sites = sites(root);
    let places: BTreeSet<String> = sites.iter().map(place).collect();
    for site_place in places {
        let of_place: Vec<Site> = sites.iter().filter(|site| place(site) == site_place).cloned().collect();
        PACKAGES.iter().for_each(|package| package_faults(random, &mut environment, &mut faults, &of_place, package));
    }
    for action in single_actions(root) {
        environment.facts.extend(outcome(&action).map(|(fact, _)| (fact, random.coin())));
        faults.extend(Fault::fact(action));
    }
    let dirs = ["/nowhere/a/d", "/nowhere/d", "/nowhere/d/logs"].map(PathBuf::from);
    for dir in dirs.into_iter().chain([root.to_owned()]) {
        environment.files.insert(dir.clone(), true);
        let mut there = ["f", "g", "h"].map(|name| dir.join(name)).to_vec();
        there.retain(|_| random.coin());
        environment.files.extend(there.iter().map(|file| (file.clone(), false)));
        for _ in 0..random.below(3) {
            let paths: Vec<PathBuf> = there.iter().filter(|_| random.coin()).cloned().collect();
            let stray = paths.clone();
            let is_there = move |one: &Environment| stray.iter().any(|path| one.files.get(path) == Some(&false));
            faults.push(Fault::of(is_there, Action::Remove { paths, is_dir: false }));
        }
        if random.below(5) == 0 {
            let removal = Action::Remove { paths: vec![dir.clone()], is_dir: true };
            faults.push(Fault::of(move |one| one.files.contains_key(&dir), removal));
        }
    }
    for name in ["A", "B", DIR_VARIABLE] {
        if let Some(value) = random.of(&[None, Some("1"), Some("/u")]) {
            environment.variables.insert(name.to_owned(), value.to_owned());
        }
        let requirement = if name == DIR_VARIABLE { Some("/u") } else { random.of(&[Some("1"), None]) };
        faults.push(Fault::value(name, requirement));
    }
    environment.search = ["/p", "/q", "/r"].map(str::to_owned).to_vec();
    environment.search.retain(|_| random.coin());
    faults.extend([Fault::entries(&["/p"]), Fault::entries(&["/p", "/q"])]);
    faults.push(Fault::of(|one| !one.search.iter().any(|entry| entry == "/r"), Variable::Search("/r".into())));
    faults.push(Fault::of(
        |one| one.variables.get(DIR_VARIABLE).is_none_or(|value| value != "/u"),
        Variable::Use("/u".into()),
    ));
    // Findings of equal severity can come in any order.
    faults.retain(|_| random.below(3) > 0);
    for index in (1..faults.len()).rev() {
        faults.swap(index, random.below(index + 1));
    }
    (environment, faults)
}

fn package_faults(
    random: &mut Random,
    environment: &mut Environment,
    faults: &mut Vec<Fault>,
    sites: &[Site],
    package: &'static str,
) {
    let own = |package: &str| (place(&sites[0]), package.to_owned());
    let requirement = random.of(&[
        Requirement::MissingFiles,
        Requirement::Exact(2),
        Requirement::Exact(3),
        Requirement::Minimum(2),
        Requirement::Minimum(3),
    ]);
    if let Some(version) = random.of(&[None, Some(1), Some(2), Some(3)]) {
        environment.packages.insert(own(package), (version, random.below(3) == 0));
    }
    let requirements = match requirement {
        Requirement::Minimum(3) => vec![requirement, Requirement::Minimum(2), Requirement::Minimum(1)],
        Requirement::Exact(version) => vec![requirement, Requirement::Minimum(version)],
        _ => vec![requirement],
    };
    for _ in 0..random.below(3) {
        faults.push(Fault::unmet(&(random.of(sites), package), random.of(&requirements)));
    }
    if let (Requirement::Exact(version), "nvidia-x") = (requirement, package) {
        faults.push(Fault::mixed(&(random.of(sites), package), "nvidia-w", version));
        if random.coin() {
            environment.packages.insert(own("nvidia-w"), (1, false));
        }
    }
    faults.push(Fault::broken(&(random.of(sites), package)));
}

/// Asserts that no two steps contradict each other, and that each step comes after those that prepare it.
fn assert_consistent(plan: &Plan) {
    let mut decided = BTreeSet::new();
    for (index, Step { action, .. }) in plan.steps.iter().enumerate() {
        assert!(decides(action).into_iter().all(|one| decided.insert(one)), "{action:?} twice: {plan:#?}");
        for (other, Step { action: other_action, .. }) in plan.steps.iter().enumerate() {
            assert!(other <= index || !prepares(other_action, action), "{other_action:?} too late: {plan:#?}");
            let Action::Remove { paths, is_dir: true } = other_action else { continue };
            let needs_pip = if let Action::Packages(change) = action { change.site.python_root() } else { None };
            let used = action.place().into_iter().chain(needs_pip);
            assert!(
                !{ used }.any(|place| place.starts_with(&paths[0])),
                "{action:?} in a removed directory: {plan:#?}"
            );
        }
        if let Action::Packages(change) = action {
            let mut installed = BTreeSet::new();
            let mut requirements = change.install.iter().chain(&change.reinstall);
            assert!(requirements.all(|one| installed.insert(package_name(one))), "a package twice: {plan:#?}");
        }
    }
}

/// Creates a virtual environment whose Python is missing, for a Python version that is on `PATH`.
fn environment_without_python() -> TempDir {
    let root = TempDir::new().unwrap();
    std::fs::write(root.path().join("pyvenv.cfg"), "home = /nowhere\n").unwrap();
    for minor in 8..30 {
        let dir = root.path().join(format!("lib/python3.{minor}"));
        std::fs::create_dir_all(dir.join("site-packages/pip")).unwrap();
        if restore_python(root.path()).is_some_and(|missing| !missing.commands.is_empty()) {
            break;
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
    root
}

/// Counts events, to ensure that the test exercises them.
#[derive(Default)]
struct Seen {
    waited: usize,
    shared: usize,
    kinds: BTreeSet<&'static str>,
}

#[test]
fn random_plans_do_not_contradict_themselves_and_remove_all_findings() {
    let root = environment_without_python();
    let mut seen = Seen::default();
    // Reading the system for each plan would take a minute.
    let facts = Facts::recorder();
    facts.within(|| (0..20).for_each(|seed| fix_world(seed, root.path(), &mut seen)));
    let facts = Facts::from_value(facts.to_value()).unwrap();
    facts.within(|| (20..400).for_each(|seed| fix_world(seed, root.path(), &mut seen)));
    let Seen { waited, shared, kinds } = seen;
    assert!(waited > 800 && shared > 1000, "{waited} remedies waited, {shared} steps had several");
    assert!(kinds.is_superset(&["drop_in", "files", "packages", "shell"].into()), "{kinds:?}");
    assert!(
        kinds.contains("python")
            || facts.within(|| restore_python(root.path())).is_none_or(|one| one.commands.is_empty())
    );
}

/// Creates a world, and fixes it with as many plans as it needs.
fn fix_world(seed: u64, root: &Path, seen: &mut Seen) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut environment, mut faults) = world(&mut random, root);
    // No installer can make some changes, such as a removal from a directory of pip.
    faults.retain(|fault| is_possible(&(fault.remedy)(&environment)));
    // Assign a kind of finding to the faults. At most one remedy may replace the installation.
    let kinds: Vec<FindingKind> = FINDINGS.iter().copied().filter(|kind| kind.severity > Severity::Note).collect();
    let mut has_replacement = false;
    let faults = faults.into_iter().map(|fault| {
        let (kind, is_of_installation) = (random.of(&kinds), random.below(4) == 0);
        let is_replacement = REPLACING.contains(&kind.code) && is_of_installation;
        let is_second = is_replacement && std::mem::replace(&mut has_replacement, true);
        (fault, kind, is_of_installation && !is_second)
    });
    let mut faults: Vec<(Fault, FindingKind, bool)> = faults.collect();
    faults.sort_by_key(|(_, kind, _)| std::cmp::Reverse(kind.severity));
    for round in 0.. {
        let found: Vec<_> = faults.iter().filter(|(fault, ..)| (fault.is_there)(&environment)).collect();
        if found.is_empty() {
            break;
        }
        let finding = |(fault, kind, is_of_installation): &&(Fault, FindingKind, bool)| {
            let mut finding = Finding::new(*kind, "a finding").remedy((fault.remedy)(&environment));
            finding.installation = is_of_installation.then(|| "/nowhere/installation".into());
            finding
        };
        let findings: Vec<Finding> = found.iter().map(finding).collect();
        assert!(round < ROUNDS, "seed {seed}: left after {ROUNDS} plans: {findings:#?}");
        let plan = Plan::of(&findings, &PlanContext::default());
        assert_consistent(&plan);
        seen.shared += plan.steps.iter().filter(|step| step.fixes.len() > 1).count();
        seen.kinds.extend(plan.steps.iter().map(Step::kind));
        plan.steps.iter().for_each(|step| environment.execute(&step.action));
        for ((fault, ..), advice) in found.iter().zip(&plan.advice) {
            let waits = advice.as_ref().is_some_and(|advice| advice.text.starts_with("fix C"));
            seen.waited += usize::from(waits);
            assert!(waits || !(fault.is_there)(&environment), "seed {seed}: a fault is left by {plan:#?}");
        }
    }
}
