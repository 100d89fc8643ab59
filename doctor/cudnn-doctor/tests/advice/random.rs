//! Breaks random environments of the real uv, and follows the plan, or the advice of one finding.
//!
//! `CUDNN_TESTS_MACHINES=0..5000 cargo test -p cudnn-doctor --test advice -- random` tries the machines with these
//! numbers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::{Share, not_run};

use crate::frameworks::wheels;
use crate::world::World;
use crate::{CU12, CU12_OLDER, CU13};

/// An ordinary run tries every fifth of these machines. `.ci/run release` tries 200, and `.ci/run publish` 800 more.
const MACHINES: std::ops::Range<u64> = 0..20;

const MAX_PLANS: usize = 3;

/// A xorshift generator.
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

    fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

struct Machine {
    world: World,
    story: Vec<String>,
}

impl Machine {
    fn new(number: u64, uv: &Path) -> Machine {
        let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..3).for_each(|_| _ = random.below(2));
        let world = World::new("env", false).with_wheels(wheels().path()).made_by_uv().first_on_path(uv);
        let mut machine = Machine { world, story: Vec::new() };
        for package in packages(&mut random) {
            machine.world.unpack(package);
            machine.story.push(format!("unpack {package}"));
        }
        let archive = machine.add_archive(&mut random);
        for _ in 0..random.below(3) {
            machine.damage(&mut random);
        }
        machine.set_variables(&mut random, archive);
        machine
    }

    fn add_archive(&mut self, random: &mut Random) -> Option<PathBuf> {
        if !random.happens(40) {
            return None;
        }
        let cudnn = random.of(&[CU12, CU12_OLDER, CU13]);
        let dir = self.world.home().join("opt/cudnn/lib");
        cudnn.copy_to(&dir);
        self.story.push(format!("copy {} for CUDA {} to {}", cudnn.version, cudnn.cuda_major, dir.display()));
        Some(dir)
    }

    /// Breaks files or records of a package.
    fn damage(&mut self, random: &mut Random) {
        let site = self.world.site_packages();
        let library = random.of(&["", "_graph", "_ops", "_cnn", "_adv", "_heuristic", "_engines_precompiled"]);
        let file = site.join(format!("nvidia/cudnn/lib/libcudnn{library}.so.9"));
        let (what, path) = match random.below(5) {
            0 => ("remove", file),
            1 => ("truncate", file),
            2 => ("remove", site.join("nvidia/cudnn")),
            3 => ("remove", site.join("nvidia/cublas/lib")),
            _ => ("remove", site.join("nvidia_cudnn_cu12-9.19.0.56.dist-info")),
        };
        if !path.exists() {
            return;
        }
        self.story.push(format!("{what} {}", path.display()));
        // Files are links to files of other environments.
        let contents = std::fs::read(&path).unwrap_or_default();
        if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }.unwrap();
        if what == "truncate" {
            std::fs::write(&path, &contents[..contents.len() / 2]).unwrap();
        }
    }

    fn set_variables(&mut self, random: &mut Random, archive: Option<PathBuf>) {
        let site = self.world.site_packages();
        let mut dirs =
            vec![site.join("nvidia/cudnn/lib"), site.join("nvidia/cublas/lib"), self.world.home().join("nowhere")];
        dirs.extend(archive);
        let mut path: Vec<PathBuf> = Vec::new();
        for _ in 0..random.below(3) {
            path.push(random.of(&dirs));
        }
        let path = std::env::join_paths(path).unwrap();
        let mut variables = vec![("LD_LIBRARY_PATH", path)];
        if random.happens(20) {
            variables.push(("CUDNN_LOADER_DIR", random.of(&dirs).into()));
        }
        for (name, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
            self.story.push(format!("{name}={}", value.display()));
            self.world.set_variable(name, value);
        }
    }

    fn check(&self, lines: &[String]) -> Value {
        self.world.report_after("sh", &lines.join("\n"), &[])
    }

    /// Follows the plans until one is empty, and compares each report with the promise of the previous plan.
    fn follow(&self) -> Result<(), String> {
        let mut lines: Vec<String> = Vec::new();
        let mut report = self.check(&[]);
        for round in 0..=MAX_PLANS {
            let steps = steps(&report);
            if steps.is_empty() {
                break;
            }
            let told = |text: &str, lines: &[String]| format!("{text}\n{:#?}\n{lines:#?}\n{report:#}", self.story);
            if round == MAX_PLANS {
                return Err(told("there is no end of plans", &lines));
            }
            let promised = codes(&report["after_plan"]);
            // Some remedies wait for other remedies with unknown results.
            let waits = report["findings"].to_string().contains(" first, which changes");
            lines.extend(steps);
            let after = self.check(&lines);
            let found = wrong(&after);
            if !found.is_subset(&promised) {
                return Err(told(&format!("promised {promised:?}, found {found:?}: {after:#}"), &lines));
            }
            if !self::steps(&after).is_empty() && !waits {
                return Err(told(&format!("there is a second plan: {after:#}"), &lines));
            }
            report = after;
        }
        Ok(())
    }
}

impl Machine {
    /// Runs the commands of one finding, which must remove it without new errors.
    fn take_advice(&self, number: u64) -> Result<(), String> {
        let report = self.check(&[]);
        let is_advised = |finding: &&Value| {
            let is_enough = !finding["help"].as_str().unwrap_or_default().contains("not enough");
            finding["severity"] != "note" && is_enough && finding["commands"] != json!([])
        };
        let advised: Vec<&Value> = findings(&report).filter(is_advised).collect();
        let Some(finding) = advised.get(usize::try_from(number).unwrap() % advised.len().max(1)) else { return Ok(()) };
        let lines = lines(&finding["commands"]);
        let after = self.check(&lines);
        let is_left = findings(&after).any(|left| ["code", "message"].iter().all(|key| left[key] == finding[key]));
        let new: BTreeSet<String> = errors(&after).difference(&errors(&report)).cloned().collect();
        if is_left || !new.is_empty() {
            let story = &self.story;
            return Err(format!("{story:#?}\n{finding:#}\nis left: {is_left}, new: {new:?}\n{report:#}\n{after:#}"));
        }
        Ok(())
    }
}

fn packages(random: &mut Random) -> Vec<&'static str> {
    let mut packages = Vec::new();
    let cudnn = ["nvidia-cudnn-cu12==9.19.0.56", "nvidia-cudnn-cu12==9.18.0.56", "nvidia-cudnn-cu12==9.10.2.21"];
    if random.happens(75) {
        packages.push(random.of(&cudnn));
    }
    for (package, percent) in [
        ("nvidia-cudnn-cu13==9.19.0.56", 20),
        ("nvidia-cublas-cu12", 60),
        ("nvidia-cublas==13.1.0.3", 20),
        ("nvidia-cuda-nvrtc-cu12", 60),
        ("nvidia-cuda-nvrtc", 20),
        ("onnxruntime-gpu==1.22.0", 20),
        ("tensorflow", 15),
        ("ctranslate2==4.8.5", 10),
        ("neighbour", 30),
    ] {
        if random.happens(percent) {
            packages.push(package);
        }
    }
    if random.happens(50) {
        packages.push(random.of(&["torch==2.8.0", "torch==2.7.1"]));
    }
    packages
}

pub(crate) fn steps(report: &Value) -> Vec<String> {
    report["plan"].as_array().unwrap().iter().flat_map(|step| lines(&step["commands"])).collect()
}

fn lines(commands: &Value) -> Vec<String> {
    commands.as_array().unwrap().iter().map(|command| command.as_str().unwrap().to_owned()).collect()
}

fn findings(report: &Value) -> impl Iterator<Item = &Value> {
    report["findings"].as_array().unwrap().iter()
}

pub(crate) fn codes(value: &Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn wrong(report: &Value) -> BTreeSet<String> {
    let wrong = findings(report).filter(|finding| finding["severity"] != "note");
    wrong.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

fn errors(report: &Value) -> BTreeSet<String> {
    let errors = findings(report).filter(|finding| finding["severity"] == "error");
    errors.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

/// Plans leave only the errors and warnings that they name. Machines with odd numbers follow the advice of one finding.
#[test]
fn random_machines_are_as_the_report_promises() {
    if cfg!(not(target_arch = "x86_64")) {
        return not_run("random machines", "the wheel of uv is for x86-64");
    }
    let Some(uv) = support::Wheel::UV.unpacked() else { return };
    let machines = match std::env::var("CUDNN_TESTS_MACHINES") {
        Ok(range) => {
            let (start, end) = range.split_once("..").expect("CUDNN_TESTS_MACHINES is a range: 0..5000");
            (start.parse::<u64>().unwrap()..end.parse().unwrap()).collect::<Vec<_>>()
        }
        Err(_) => MACHINES.share(5).collect(),
    };
    let mut broken = Vec::new();
    for number in machines {
        let machine = Machine::new(number, &uv.join("bin"));
        let result = if number % 2 == 0 { machine.follow() } else { machine.take_advice(number) };
        if let Err(reason) = result {
            eprintln!("machine {number}: {reason}");
            broken.push(number);
        }
    }
    assert!(broken.is_empty(), "machines {broken:?}");
}
