//! The layer `plans`: programs see no difference, whatever they do, and a plan that was kept is not built again.

use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Child, ChildOutput, FakeLibrary, Library, Subject, TempDir, Version, lib_dir};

const PLANNER: &str = env!("CARGO_BIN_EXE_planner");
const VERSION: Version = Version::new(9, 19, 0);

/// A cuDNN whose plans are what they were made of, and a store.
struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new();
        let code = include_str!("../../layers/planner.c");
        FakeLibrary::new(Library::Graph, VERSION).with_code(code).build(&dir.file(Library::Graph));
        World { dir }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("plans")
    }

    /// Runs the planner's arguments with these layers.
    fn run(&self, layers: &str, args: &[&str]) -> ChildOutput {
        let output = self.child().run(&[&[layers], args].concat());
        assert_eq!((output.code, output.signal), (Some(0), None), "{layers} {args:?}: {}", output.stderr);
        assert!(output.stderr.contains("\n0 descriptors were not destroyed"), "{layers} {args:?}: {}", output.stderr);
        output
    }

    fn child(&self) -> Child {
        Child::new(PLANNER, Subject::Loader, self.dir.path())
            .env("CUDNN_PLANS_DIR", self.store())
            .env("CUDNN_PLANS_SUMMARY", "stderr")
    }
}

/// A number of the summary.
fn count(output: &ChildOutput, what: &str) -> usize {
    let lines = output.stderr.lines().filter_map(|line| line.trim().split_once(' '));
    lines.filter(|(_, rest)| rest.starts_with(what)).filter_map(|(count, _)| count.parse::<usize>().ok()).sum()
}

/// The first line that differs, with some before it.
fn difference(expected: &str, found: &str) -> Option<String> {
    let (mut expected_lines, mut found_lines) = (expected.lines(), found.lines());
    let mut context: Vec<&str> = Vec::new();
    loop {
        match (expected_lines.next(), found_lines.next()) {
            (None, None) => return None,
            (a, b) if a == b => context.extend(a),
            (a, b) => {
                let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
                let at = a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
                let around = |line: &str| line.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
                let context = context.split_off(context.len().saturating_sub(12));
                let context: Vec<String> = context.iter().map(|line| line.chars().take(100).collect()).collect();
                return Some(format!("{}\nnot {}\nbut {}", context.join("\n"), around(a), around(b)));
            }
        }
    }
}

/// Random programs see the same statuses, texts, attributes and results without the layer, with an empty store and with a
/// full one; alone and together with a trace; in one thread and in several.
#[test]
fn random_programs_see_no_difference() {
    if support::is_emulated("random_programs_see_no_difference", "an emulator is slow") {
        return;
    }
    let world = World::new();
    let args = ["0", "500", "1"];
    let without = world.run("none", &args).stdout;
    assert!(without.lines().filter(|line| line.starts_with("computed")).count() > 1000, "{without}");
    let cold = world.run("plans", &args);
    assert_eq!(difference(&without, &cold.stdout), None, "with an empty store");
    assert!(count(&cold, "built in") > 300, "{}", cold.stderr);
    let warm = world.run("plans", &args);
    assert_eq!(difference(&without, &warm.stdout), None, "with a full store");
    assert!(count(&warm, "restored in") > 800 && count(&warm, "built in") == 0, "{}", warm.stderr);
    for layers in ["trace,plans", "plans,trace"] {
        let both = world.run(layers, &args);
        assert_eq!(difference(&without, &both.stdout), None, "{layers}");
        // No more and no fewer: the layers share what they know of descriptors, and neither makes the other surer of it.
        assert_eq!(count(&both, "restored in"), count(&warm, "restored in"), "{layers}: {}", both.stderr);
    }
    let without = world.run("none", &["0", "800", "8"]).stdout;
    let threads = world.run("plans", &["0", "800", "8"]);
    assert_eq!(difference(&without, &threads.stdout), None, "in several threads");
}

/// A layer behind this one can change the graph that cuDNN gets, and this one would keep the plan for the other graph.
#[test]
fn nothing_is_kept_with_an_unknown_layer_inside() {
    let world = World::new();
    let args = ["0", "20", "1"];
    let without = world.run("none", &args).stdout;
    for layers in ["plans,other", "plans,trace,other"] {
        let inside = world.run(layers, &args);
        assert_eq!(difference(&without, &inside.stdout), None, "{layers}");
        assert!(inside.stderr.contains("is inside of it, and may change graphs"), "{layers}: {}", inside.stderr);
        assert!(!world.store().exists(), "{layers}");
    }
    for what in ["built in", "restored in"] {
        let outside = world.run("other,plans", &args);
        assert!(count(&outside, what) > 5, "{what}: {}", outside.stderr);
    }
}

/// Plans that differ in one step from a kept one are not that one.
#[test]
fn no_other_plan_is_taken_for_a_kept_one() {
    let world = World::new();
    let without = world.run("none", &["variants"]).stdout;
    assert!(without.lines().count() > 300, "{without}");
    let plans = without.lines().filter_map(|line| line.split_once("] {")).map(|(_, plan)| plan);
    // Two devices differ in nothing but their places.
    let different: HashSet<String> =
        plans.map(|plan| plan.replace("\"cudaDeviceId\":2", "\"cudaDeviceId\":0")).collect();
    assert!(different.len() > 100, "{without}");
    for round in ["an empty store", "a full store"] {
        let with = world.run("plans", &["variants"]);
        assert_eq!(difference(&without, &with.stdout), None, "with {round}");
        assert!(count(&with, "restored in") > 90, "with {round}: {}", with.stderr);
        // None is built twice, also if its attributes were set in another order.
        assert!(count(&with, "built in") <= different.len(), "with {round}: {}", with.stderr);
    }
}

/// cuDNN reads some variables when it plans, and programs set some after their first call.
#[test]
fn a_variable_that_is_set_late_is_seen() {
    let world = World::new();
    let run = |layers: &str, value: Option<&str>| {
        let child = world.child();
        let child = match value {
            Some(value) => child.env("PLANNER_SETS_LATE", value),
            None => child,
        };
        child.run(&[layers, "1", "4"])
    };
    let expected = [None, Some("1"), Some("2")].map(|value| run("none", value).stdout);
    assert_ne!(expected[0], expected[1]);
    for _ in 0..2 {
        for (value, expected) in [None, Some("1"), Some("2")].into_iter().zip(&expected) {
            assert_eq!(difference(expected, &run("plans", value).stdout), None, "{value:?}");
        }
    }
}

/// A store that cannot be used is reported, and the program goes on.
#[test]
fn an_unusable_store_costs_nothing_but_the_cache() {
    let world = World::new();
    let args = ["0", "20"];
    let without = world.run("none", &args).stdout;
    let path = |name: &str| world.dir.path().join(name);
    std::fs::write(path("file"), "text").unwrap();
    std::fs::create_dir(path("open")).unwrap();
    std::fs::set_permissions(path("open"), Permissions::from_mode(0o777)).unwrap();
    for (dir, reason) in [
        ("relative".into(), "absolute"),
        (path("file"), "not a directory"),
        (path("open"), "written to by other users"),
        ("/proc/plans".into(), "/proc/plans"),
    ] {
        let child = world.child().env("CUDNN_PLANS_DIR", &dir);
        let output = child.run(&["plans", args[0], args[1]]);
        assert_eq!((output.code, difference(&without, &output.stdout)), (Some(0), None), "{dir:?}: {}", output.stderr);
        let said: Vec<&str> = output.stderr.lines().filter(|line| line.contains(reason)).collect();
        assert_eq!(said.len(), 1, "{dir:?}: {}", output.stderr);
    }
    assert_eq!(std::fs::read(path("file")).unwrap(), b"text");
    assert_eq!(std::fs::read_dir(path("open")).unwrap().count(), 0);
}

/// Sixteen processes begin with one empty store, and others are killed while they fill it.
#[test]
fn processes_share_a_store() {
    if support::is_emulated("processes_share_a_store", "an emulator is slow") {
        return;
    }
    let world = World::new();
    let args = ["0", "30"];
    let without = world.run("none", &args).stdout;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..16).map(|_| scope.spawn(|| world.run("plans", &args).stdout)).collect();
        for process in running {
            assert_eq!(difference(&without, &process.join().unwrap()), None);
        }
    });
    for round in 0..10 {
        let _ = std::fs::remove_dir_all(world.store());
        let mut process = Command::new(PLANNER)
            .args(["plans", "0", "30"])
            .env("CUDNN_LOADER_DIR", world.dir.path())
            .env("CUDNN_PLANS_DIR", world.store())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(10 + 7 * round));
        process.kill().unwrap();
        process.wait().unwrap();
        let after = world.run("plans", &args);
        assert_eq!(difference(&without, &after.stdout), None, "round {round}");
        assert!(!after.stderr.contains("unusable"), "round {round}: {}", after.stderr);
    }
    let mut doctor = Command::new(support::doctor());
    let verified = doctor.args(["plans", "verify", "--dir"]).arg(world.store()).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

/// Descriptions of an H200 and of a device with half its multiprocessors, and where a real cuDNN 9.19 keeps plans for them.
struct Real {
    dir: TempDir,
    cudnn: PathBuf,
    libraries: String,
    devices: [String; 2],
}

impl Real {
    fn new(test: &str) -> Option<Self> {
        let libraries = support::driver_and_compiler(test)?;
        let cudnn = lib_dir("jit-cu12-9.19.0")?;
        let dir = TempDir::new();
        let h200 = cudnn_backend::device::H200;
        let smaller = h200.replace("\"multiProcessorCount\":132", "\"multiProcessorCount\":66");
        assert_ne!(h200, smaller);
        let devices = [("h200", h200), ("smaller", &smaller)].map(|(name, device)| {
            let file = dir.path().join(format!("{name}.json"));
            std::fs::write(&file, device).unwrap();
            file.display().to_string()
        });
        Some(Real { dir, cudnn, libraries, devices })
    }

    fn run(&self, layers: &str, devices: &[String], variables: &[(&str, &Path)]) -> ChildOutput {
        let devices = devices.iter().map(String::as_str);
        // The engine that compiles in the shortest time.
        let args: Vec<&str> = [layers, "real", "7"].into_iter().chain(devices).collect();
        self.planner(&args, variables)
    }

    fn planner(&self, args: &[&str], variables: &[(&str, &Path)]) -> ChildOutput {
        let mut child = Child::new(PLANNER, Subject::Loader, &self.cudnn)
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("CUDNN_PLANS_DIR", self.dir.path().join("plans"))
            .env("CUDNN_PLANS_SUMMARY", "stderr");
        for (name, value) in variables {
            child = child.env(name, value);
        }
        let output = child.run(args);
        assert_eq!(output.code, Some(0), "{output:#?}");
        output
    }
}

/// What was printed, without the times.
fn lines(output: &ChildOutput) -> Vec<String> {
    output.stdout.lines().map(|line| line.rsplit_once(';').unwrap_or((line, "")).0.to_owned()).collect()
}

/// The real cuDNN 9.19 compiles plans for two described devices, and restores each from the store: for the device, the shape
/// and the type that it was compiled for.
#[test]
fn plans_of_a_real_cudnn_are_restored() {
    let Some(real) = Real::new("plans_of_a_real_cudnn_are_restored") else { return };
    let run = |layers| real.run(layers, &real.devices, &[]);
    let (without, cold, warm) = (run("none"), run("plans"), run("plans"));
    assert_eq!(lines(&without).len(), 6, "{without:#?}");
    assert!(without.stdout.contains("32 channels") && without.stdout.contains("engine Some(7)"), "{without:#?}");
    let without_text = |line: &String| line.split("JSON").next().unwrap_or_default().to_owned();
    let plain = |output: &ChildOutput| lines(output).iter().map(without_text).collect::<Vec<_>>();
    assert_eq!(plain(&without), plain(&cold));
    // cuDNN does not make the same code twice, but restores what it is given.
    assert_eq!(lines(&cold), lines(&warm));
    assert_eq!((count(&cold, "built in"), count(&cold, "restored in")), (6, 0), "{cold:#?}");
    assert_eq!((count(&warm, "built in"), count(&warm, "restored in")), (0, 6), "{warm:#?}");
}

/// An engine that cuDNN returns of a configuration keeps the configuration's knobs, which cuDNN does not state any more. A
/// graph whose operations are set twice has all of them.
#[test]
fn plans_that_are_asked_for_in_the_same_words_are_not_confused() {
    let Some(real) = Real::new("plans_that_are_asked_for_in_the_same_words") else { return };
    let run = |layers, which: &[&str]| real.planner(&[&[layers, "alike", &real.devices[0]], which].concat(), &[]);
    let sorted = |output: &ChildOutput| {
        let mut lines: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (pair, expected) in [
        (["own", "read"], [r#"KERNEL_CFG":-1"#, r#"KERNEL_CFG":9"#]),
        (["add", "relu"], ["add: 2 operations", "relu: 1 operations"]),
    ] {
        let without = sorted(&run("none", &pair));
        assert!(without.iter().zip(expected).all(|(line, expected)| line.contains(expected)), "{without:?}");
        for which in [pair, [pair[1], pair[0]]] {
            for layers in ["plans", "trace,plans"] {
                let _ = std::fs::remove_dir_all(real.dir.path().join("plans"));
                for start in ["cold", "warm"] {
                    let output = run(layers, &which);
                    assert_eq!(sorted(&output), without, "{layers} {which:?} {start}: {output:#?}");
                    assert_eq!(count(&output, "restored in"), usize::from(start == "warm"), "{output:#?}");
                }
            }
        }
    }
}

/// What a program has planned for one device is planned again for another one, which is not here. A program that finds the
/// pack compiles nothing there.
#[test]
fn plans_are_made_again_for_another_device() {
    let Some(real) = Real::new("plans_are_made_again_for_another_device") else { return };
    let [h200, smaller] = real.devices.each_ref().map(std::slice::from_ref);
    let kept = real.run("plans", smaller, &[]);
    assert_eq!(count(&kept, "built in"), 3, "{kept:#?}");
    let pack = real.dir.path().join("app.plans");
    let mut doctor = Command::new(support::doctor());
    doctor.args(["plans", "pack", "--device", &h200[0]]).arg(&pack).arg("--from").arg(real.dir.path().join("plans"));
    doctor.env("LD_LIBRARY_PATH", &real.libraries).env("CUDNN_LOADER_DIR", &real.cudnn);
    let packed = doctor.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&packed.stdout), String::from_utf8_lossy(&packed.stderr));
    assert!(packed.status.success() && text.contains("3 plans"), "{text}");
    std::fs::remove_dir_all(real.dir.path().join("plans")).unwrap();
    let there = real.run("plans", h200, &[("CUDNN_PLANS_PACK", &pack)]);
    assert_eq!((count(&there, "built in"), count(&there, "restored in")), (0, 3), "{there:#?}");
    let without = real.run("none", h200, &[]);
    let asked = |output: &ChildOutput| output.stdout.contains("engine Some(7)");
    assert!(asked(&there) && asked(&without), "{there:#?}");
}
