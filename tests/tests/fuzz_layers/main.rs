//! Runs random programs with a real cuDNN, with and without layers: valid and invalid calls, throwing callbacks, child
//! processes and threads. A layer must not change what a program sees, nor whether it survives.
//!
//! A seed determines a program. These variables set the seeds and the release of cuDNN:
//!
//! ```sh
//! export CUDNN_TESTS_FUZZ=0..20000 CUDNN_TESTS_FUZZ_RELEASE=cu13-9.28.1
//! cargo test -p cudnn-tests --test fuzz_layers -- --nocapture
//! ```
//!
//! On a machine with many processors but without compilers, programs run from a directory that `CUDNN_TESTS_FUZZ_COPY`
//! has filled elsewhere. `CUDNN_TESTS_FUZZ_DIR` names it, `CUDNN_TESTS_FUZZ_CUDNN` the directory of a cuDNN, and
//! `LD_LIBRARY_PATH` the directories of cuBLASLt and NVRTC.
//!
//! For each difference, the test prints the seed, the first lines that differ, and the program without unnecessary
//! steps. It ignores results that also differ without layers, and crashes without layers, because cuDNN then reads
//! freed or uninitialized memory. If Valgrind is installed, it decides whether a program without layers uses freed
//! memory.

mod functions;
mod graphs;
mod mutations;
mod program;
mod runner;
mod writer;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use program::{Argument, Step};
use runner::{LAYERS, NOISE, Outputs, Runner, difference};
use writer::Writer;

const BATCH: u64 = 200;
/// Every program with a seed that is a multiple of this number runs in a separate process.
const ALONE: u64 = 50;
/// The number of similar differences to reduce to small programs.
const REDUCED: usize = 1;

fn program(seed: u64) -> Vec<Step> {
    let mut writer = Writer::new(seed);
    if writer.once_in(8) {
        let mut steps = Vec::new();
        for _ in 0..writer.random.usize(2..5) {
            // Threads do not share descriptors.
            writer.kinds.clear();
            writer.steps.clear();
            if writer.once_in(3) {
                graphs::write_any(&mut writer)
            } else {
                graphs::write(&mut writer)
            }
            mutations::mutate(&mut writer);
            steps.push(Step::Control("thread"));
            steps.append(&mut writer.steps);
        }
        steps.extend(["join", "exit"].map(Step::Control));
        return steps;
    }
    for _ in 0..writer.random.usize(1..4) {
        match writer.random.u8(..10) {
            0..5 => graphs::write(&mut writer),
            5..7 => graphs::write_any(&mut writer),
            7..9 => functions::write(&mut writer),
            _ => {
                for function in ["cudnnGetVersion", "cudnnGetCudartVersion", "cudnnGraphVersionCheck"] {
                    writer.call(function, Vec::new());
                }
                let status = writer.random.i64(..4000);
                writer.call("cudnnGetErrorString", vec![Argument::Number(status)]);
                let slot = writer.slot();
                writer.call("cudnnCreate", vec![Argument::Into(slot)]);
            }
        }
    }
    mutations::mutate(&mut writer);
    mutations::read_errors(&mut writer);
    mutations::divide(&mut writer);
    writer.steps
}

/// Returns a line without the number of the step and the text after the result.
fn plain(line: &str) -> &str {
    let line = line.trim_start_matches(|character: char| character.is_ascii_digit());
    line.match_indices(' ').nth(3).map_or(line, |(end, _)| line.get(..end).unwrap_or(line))
}

/// Returns whether all lines up to this one are the same without layers when the heap is different. `again` runs the
/// program with noise. A crash of cuDNN is undefined, because it depends on the memory that cuDNN reads.
fn is_defined(without: &str, line: usize, mut again: impl FnMut(u32) -> String) -> bool {
    let has_crashed = without.lines().nth(line).is_some_and(|line| line.contains("crashed"));
    !has_crashed && (0..NOISE).all(|noise| difference(without, &again(noise)).is_none_or(|(other, ..)| other > line))
}

struct Fuzzing {
    runner: Runner,
    warm_up: Vec<Step>,
    differences: Vec<String>,
    /// The number of differences with the same layers and results.
    similar: BTreeMap<String, usize>,
    programs: usize,
    calls: usize,
    /// The number of results that differ without layers.
    undefined: usize,
    /// The outputs of programs without layers by noise, which several layers need.
    noisy: BTreeMap<(u64, u32), String>,
}

impl Fuzzing {
    fn run(&mut self, seeds: Range<u64>) {
        let mut first = seeds.start;
        while first < seeds.end {
            let last = seeds.end.min(first + BATCH);
            self.run_batch(first..last);
            first = last;
        }
    }

    fn run_batch(&mut self, seeds: Range<u64>) {
        let programs: BTreeMap<u64, Vec<Step>> = seeds.map(|seed| (seed, program(seed))).collect();
        self.noisy.clear();
        let without = self.outputs("", &programs);
        self.programs += programs.len();
        self.calls += without.values().flat_map(|text| text.lines()).filter(|line| line.contains(" = ")).count();
        for layers in LAYERS {
            let with = self.outputs(layers, &programs);
            for (seed, steps) in &programs {
                if difference(&without[seed], &with[seed]).is_some() {
                    self.examine(*seed, layers, steps, [&without[seed], &with[seed]]);
                }
            }
        }
    }

    fn outputs(&self, layers: &str, programs: &BTreeMap<u64, Vec<Step>>) -> Outputs {
        let (alone, forked): (BTreeMap<_, _>, BTreeMap<_, _>) =
            programs.iter().map(|(seed, steps)| (*seed, steps.clone())).partition(|(seed, _)| seed % ALONE == 0);
        let mut outputs = self.runner.run(layers, &forked, &self.warm_up, 0);
        outputs.extend(alone.iter().map(|(seed, steps)| (*seed, self.runner.run_alone(layers, steps, 0))));
        outputs
    }

    fn output(&self, seed: u64, layers: &str, steps: &[Step], noise: u32) -> String {
        if seed.is_multiple_of(ALONE) {
            return self.runner.run_alone(layers, steps, noise);
        }
        let programs = BTreeMap::from([(seed, steps.to_vec())]);
        self.runner.run(layers, &programs, &self.warm_up, noise).remove(&seed).unwrap_or_default()
    }

    /// Returns whether layers change what the program sees before its results differ without layers.
    fn differs(&self, seed: u64, layers: &str, steps: &[Step]) -> bool {
        let without = self.output(seed, "", steps, 0);
        let with = self.output(seed, layers, steps, 0);
        difference(&without, &with)
            .is_some_and(|(line, ..)| is_defined(&without, line, |noise| self.output(seed, "", steps, noise)))
    }

    fn examine(&mut self, seed: u64, layers: &'static str, steps: &[Step], [without, with]: [&str; 2]) {
        let Some((line, expected, found)) = difference(without, with) else { return };
        let mut noisy = std::mem::take(&mut self.noisy);
        let is_defined = is_defined(without, line, |noise| {
            noisy.entry((seed, noise)).or_insert_with(|| self.output(seed, "", steps, noise)).clone()
        });
        self.noisy = noisy;
        if !is_defined || self.runner.uses_freed_memory(steps) {
            self.undefined += 1;
            return;
        }
        let mut report = format!(
            "CUDNN_TESTS_FUZZ={seed}..{}, {layers}:\n    without {expected:.300}\n    with    {found:.300}\n",
            seed + 1
        );
        let similar = self.similar.entry([layers, plain(expected), plain(found)].join("|")).or_default();
        *similar += 1;
        if *similar <= REDUCED {
            if self.differs(seed, layers, steps) {
                let steps = self.reduce(seed, layers, steps);
                let [without, with] = ["", layers].map(|layers| self.output(seed, layers, &steps, 0));
                let first = difference(&without, &with).map(|(_, without, with)| [without, with]);
                for step in &steps {
                    report += &format!("    | {step}\n");
                }
                report += &format!("    => {first:.300?}\n");
            } else {
                report += "    only together with other programs, or not always\n";
            }
        }
        println!("{report}");
        self.differences.push(report);
    }

    /// Removes steps that the difference does not need.
    fn reduce(&self, seed: u64, layers: &str, steps: &[Step]) -> Vec<Step> {
        let mut steps = steps.to_vec();
        let mut size = steps.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(at..steps.len().min(at + size));
                if self.differs(seed, layers, &fewer) {
                    steps = fewer;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        steps
    }
}

#[test]
fn layers_do_not_change_what_random_programs_see() {
    let test = "layers_do_not_change_what_random_programs_see";
    if support::is_emulated(test, "an emulator is slow") {
        return;
    }
    let seeds = std::env::var("CUDNN_TESTS_FUZZ").unwrap_or_else(|_| "0..60".to_owned());
    let (first, last) = seeds.split_once("..").expect("CUDNN_TESTS_FUZZ is FIRST..LAST");
    let release = std::env::var("CUDNN_TESTS_FUZZ_RELEASE").unwrap_or_else(|_| "jit-cu12-9.19.0".to_owned());
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let prepared = variable("CUDNN_TESTS_FUZZ_DIR").zip(variable("CUDNN_TESTS_FUZZ_CUDNN"));
    let prepared = prepared.map(|(dir, cudnn)| Runner::prepared(&dir, &cudnn));
    let Some(runner) = prepared.or_else(|| Runner::new(test, &release)) else { return };
    if let Some(dir) = variable("CUDNN_TESTS_FUZZ_COPY") {
        runner.copy_to(&dir);
    }
    let mut writer = Writer::new(0);
    graphs::warm_up(&mut writer);
    let mut fuzzing = Fuzzing {
        runner,
        warm_up: writer.steps,
        differences: Vec::new(),
        similar: BTreeMap::new(),
        programs: 0,
        calls: 0,
        undefined: 0,
        noisy: BTreeMap::new(),
    };
    fuzzing.run(first.parse().unwrap()..last.parse().unwrap());
    println!(
        "seeds {seeds}, {release}: {} programs, {} calls, {} differences, {} results of cuDNN that differ without layers",
        fuzzing.programs,
        fuzzing.calls,
        fuzzing.differences.len(),
        fuzzing.undefined
    );
    assert!(fuzzing.calls > 10 * fuzzing.programs, "most programs did not run");
    for (similar, count) in &fuzzing.similar {
        println!("{count} times: {similar}");
    }
    assert!(fuzzing.differences.is_empty(), "{}", fuzzing.differences.join("\n"));
}
