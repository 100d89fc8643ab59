//! Tests plans for random findings in a simulated environment. A plan must be free of contradictions and fix its
//! findings, and deferred findings must be fixed after at most three plans.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::{DIR_VARIABLE, Version};

use super::{Plan, PlanContext};
use crate::check::{FINDINGS, Finding, FindingKind, Severity};
use crate::packages::{PackageChange, Site, package_name};
use crate::remedy::{Action, Effect, Remedy, Variable};
use crate::shell::SEARCH_PATH;

const SITES: [&str; 3] = ["/nowhere/a", "/nowhere/b", "/nowhere/c"];
const PACKAGES: [&str; 3] = ["x", "y", "z"];
const NEWEST: u32 = 3;
const ROUNDS: usize = 3;

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

    fn change(self, (site, package): Key) -> PackageChange {
        let change = PackageChange::of(Site::Environment(site.into()));
        match self {
            Requirement::MissingFiles => change.remove([package.to_owned()]),
            Requirement::Exact(version) => change.install([format!("{package}=={version}")]),
            Requirement::Minimum(version) => change.install([format!("{package}>={version}")]),
        }
    }
}

type Key = (&'static str, &'static str);

#[derive(Clone, Debug, Default)]
struct Environment {
    /// Maps packages to their version and whether their files are damaged.
    packages: BTreeMap<(String, String), (u32, bool)>,
    /// Maps directories and files to whether they are intact.
    files: BTreeMap<PathBuf, bool>,
    variables: BTreeMap<String, String>,
    search: Vec<String>,
}

impl Environment {
    fn package(&self, (site, package): Key) -> Option<(u32, bool)> {
        self.packages.get(&(site.to_owned(), package.to_owned())).copied()
    }

    fn version(&self, key: Key) -> Option<u32> {
        self.package(key).map(|(version, _)| version)
    }

    fn execute(&mut self, action: &Action) {
        match action {
            Action::Packages(change) => self.change(change),
            Action::Remove { paths, .. } => {
                for path in paths {
                    assert!(self.files.contains_key(path), "rm fails: {}", path.display());
                    self.files.retain(|file, _| !file.starts_with(path));
                }
            }
            Action::Link { dir, .. } => {
                assert!(self.files.contains_key(dir), "no directory for a link: {}", dir.display());
                self.files.insert(dir.join("link"), true);
            }
            Action::Variable(variable) => self.assign(variable),
            other => panic!("{other:?}"),
        }
    }

    fn change(&mut self, change: &PackageChange) {
        let site = change.site.dir().unwrap_or(Path::new("")).display().to_string();
        let key = |name: &str| (site.clone(), name.to_owned());
        self.packages.retain(|known, _| !change.remove.iter().any(|name| *known == key(name)));
        for requirement in change.reinstall.iter().chain(&change.install) {
            let name = package_name(requirement);
            let number = requirement[name.len()..].trim_start_matches(['=', '>']).parse().unwrap();
            let is_exact = requirement.contains("==");
            let wanted = if is_exact { Requirement::Exact(number) } else { Requirement::Minimum(number) };
            let version = self.packages.get(&key(name)).map(|(version, _)| *version);
            // Like pip, keep an installed version that meets the requirement.
            if change.reinstall.contains(requirement) || !wanted.is_met(version) {
                self.packages.insert(key(name), (if is_exact { number } else { NEWEST }, false));
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
    fn unmet(key: Key, requirement: Requirement) -> Fault {
        Fault::of_package(move |one| !requirement.is_met(one.version(key)), move |_| requirement.change(key))
    }

    /// The files of the package are damaged.
    fn broken(key @ (site, package): Key) -> Fault {
        Fault::of_package(
            move |one| one.package(key).is_some_and(|(_, is_broken)| is_broken),
            move |one| {
                let version = one.version(key).unwrap_or_default();
                PackageChange::of(Site::Environment(site.into())).reinstall([format!("{package}=={version}")])
            },
        )
    }

    /// Two packages with the same files are installed. The first has to stay, with this version.
    fn mixed(key @ (site, package): Key, other: &'static str, version: u32) -> Fault {
        Fault::of_package(
            move |one| one.version((site, other)).is_some() || one.version(key) != Some(version),
            move |_| Requirement::Exact(version).change(key).remove([package, other].map(str::to_owned)),
        )
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
fn world(random: &mut Random) -> (Environment, Vec<Fault>) {
    let mut environment = Environment::default();
    let mut faults = Vec::new();
    for key in SITES.into_iter().flat_map(|site| PACKAGES.map(|package| (site, package))) {
        package_faults(random, &mut environment, &mut faults, key);
    }
    for dir in ["/nowhere/d", "/nowhere/e"].map(PathBuf::from) {
        environment.files.insert(dir.clone(), true);
        let mut there = ["link", "f", "g", "h"].map(|name| dir.join(name)).to_vec();
        there.retain(|_| random.coin());
        environment.files.extend(there.iter().map(|file| (file.clone(), false)));
        for _ in 0..random.below(3) {
            let paths: Vec<PathBuf> = there.iter().filter(|_| random.coin()).cloned().collect();
            let stray = paths.clone();
            let is_there = move |one: &Environment| stray.iter().any(|path| one.files.get(path) == Some(&false));
            faults.push(Fault::of(is_there, Action::Remove { paths, is_dir: false }));
        }
        let (one, link) = (dir.clone(), dir.join("link"));
        let is_lost = move |now: &Environment| now.files.contains_key(&one) && now.files.get(&link) != Some(&true);
        faults.push(Fault::of(is_lost, Action::Link { dir: dir.clone(), version: Version::new(9, 19, 0) }));
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

fn package_faults(random: &mut Random, environment: &mut Environment, faults: &mut Vec<Fault>, key: Key) {
    let own = |package: &str| (key.0.to_owned(), package.to_owned());
    let requirement = random.of(&[
        Requirement::MissingFiles,
        Requirement::Exact(2),
        Requirement::Exact(3),
        Requirement::Minimum(2),
        Requirement::Minimum(3),
    ]);
    if let Some(version) = random.of(&[None, Some(1), Some(2), Some(3)]) {
        environment.packages.insert(own(key.1), (version, random.below(3) == 0));
    }
    let requirements = match requirement {
        Requirement::Minimum(3) => vec![requirement, Requirement::Minimum(2), Requirement::Minimum(1)],
        Requirement::Exact(version) => vec![requirement, Requirement::Minimum(version)],
        _ => vec![requirement],
    };
    for _ in 0..random.below(3) {
        faults.push(Fault::unmet(key, random.of(&requirements)));
    }
    if let (Requirement::Exact(version), "x") = (requirement, key.1) {
        faults.push(Fault::mixed(key, "w", version));
        if random.coin() {
            environment.packages.insert(own("w"), (1, false));
        }
    }
    faults.push(Fault::broken(key));
}

/// Asserts that places and packages appear in one step only.
fn assert_consistent(plan: &Plan) {
    let mut places = BTreeSet::new();
    for step in &plan.steps {
        if let Action::Packages(change) = &step.action {
            assert!(places.insert(change.site.dir().map(Path::to_owned)), "a place twice: {plan:#?}");
            let mut installed = BTreeSet::new();
            let mut requirements = change.install.iter().chain(&change.reinstall);
            assert!(requirements.all(|one| installed.insert(package_name(one))), "a package twice: {plan:#?}");
        }
    }
}

#[test]
fn random_plans_do_not_contradict_themselves_and_remove_all_findings() {
    let kinds: Vec<FindingKind> = FINDINGS.iter().copied().filter(|kind| kind.severity > Severity::Note).collect();
    let (mut waited, mut shared) = (0, 0);
    for seed in 0..2000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (mut environment, faults) = world(&mut random);
        // Assign a kind of finding to the faults. At most one remedy may replace the installation.
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
            shared += plan.steps.iter().filter(|step| step.fixes.len() > 1).count();
            plan.steps.iter().for_each(|step| environment.execute(&step.action));
            for ((fault, ..), advice) in found.iter().zip(&plan.advice) {
                let waits = advice.as_ref().is_some_and(|advice| advice.text.starts_with("fix C"));
                waited += usize::from(waits);
                assert!(waits || !(fault.is_there)(&environment), "seed {seed}: a fault is left by {plan:#?}");
            }
        }
    }
    // Ensure that the test exercised enough deferred remedies and shared steps.
    assert!(waited > 1000 && shared > 1000, "{waited} remedies waited, {shared} steps had several");
}
