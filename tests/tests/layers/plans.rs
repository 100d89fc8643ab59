//! The layer `plans`: programs see no difference, whatever they do, and a plan that was kept is not built again.

use std::path::PathBuf;

use support::{Child, ChildOutput, FakeLibrary, Library, Subject, TempDir, Version};

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
    let mut context = Vec::new();
    loop {
        match (expected_lines.next(), found_lines.next()) {
            (None, None) => return None,
            (a, b) if a == b => context.extend(a),
            (a, b) => {
                let context = context.split_off(context.len().saturating_sub(12)).join("\n");
                return Some(format!("{context}\nnot {a:?}\nbut {b:?}"));
            }
        }
    }
}

/// Random programs see the same statuses, texts, attributes and results without the layer, with an empty store and with a
/// full one; alone and together with a trace; in one thread and in several.
#[test]
fn random_programs_see_no_difference() {
    let world = World::new();
    let args = ["0", "400", "1"];
    let without = world.run("none", &args).stdout;
    assert!(without.lines().filter(|line| line.starts_with("computed")).count() > 1000, "{without}");
    let cold = world.run("plans", &args);
    assert_eq!(difference(&without, &cold.stdout), None, "with an empty store");
    assert!(count(&cold, "built in") > 300, "{}", cold.stderr);
    let warm = world.run("plans", &args);
    assert_eq!(difference(&without, &warm.stdout), None, "with a full store");
    assert!(count(&warm, "restored in") > 900 && count(&warm, "built in") == 0, "{}", warm.stderr);
    for layers in ["trace,plans", "plans,trace"] {
        let both = world.run(layers, &args);
        assert_eq!(difference(&without, &both.stdout), None, "{layers}");
        assert!(count(&both, "restored in") > 900, "{layers}: {}", both.stderr);
    }
    let without = world.run("none", &["0", "800", "8"]).stdout;
    let threads = world.run("plans", &["0", "800", "8"]);
    assert_eq!(difference(&without, &threads.stdout), None, "in several threads");
}
