//! Compares the output of `--json` with docs/json.md.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_os::trusted_files::make_readable;
use cudnn_probe::Library;
use cudnn_store::plans::{PlanEntry, PlanInfo, Settings, Store, write_pack};
use serde_json::Value;
use support::{ExtensionLibrary, FakeLibrary, PythonEnvironment, TempDir, Version, copy_fake_set, lib_dir};

const OF_LAB: [&str; 8] = ["capture", "devices", "emit", "errata", "plans", "reduce", "replay", "tune"];

/// The keys of a document, such as `findings[].code`, with a mark for the type of the value as in docs/json.md.
/// `unseen` contains the keys with empty or null values, without a mark.
#[derive(Default)]
struct Keys {
    seen: BTreeSet<String>,
    unseen: BTreeSet<String>,
}

impl Keys {
    fn walk(&mut self, value: &Value, at: &str) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    // The names of knobs are values, and a row of a comparison contains reports of `replay`.
                    let is_known = ["knobs", "before", "after", "reports"].contains(&name.as_str()) && !at.is_empty();
                    if is_known && (value.is_object() || value.is_array()) {
                        self.seen.insert(format!("{at}.{name}{{}}"));
                        continue;
                    }
                    self.walk(value, &if at.is_empty() { name.clone() } else { format!("{at}.{name}") });
                }
            }
            Value::Array(values) if values.is_empty() => drop(self.unseen.insert(format!("{at}[]"))),
            Value::Array(values) => values.iter().for_each(|value| self.walk(value, &format!("{at}[]"))),
            Value::Null => drop(self.unseen.insert(at.to_owned())),
            Value::Number(_) => drop(self.seen.insert(format!("{at}#"))),
            Value::Bool(_) => drop(self.seen.insert(format!("{at}?"))),
            Value::String(_) => drop(self.seen.insert(at.to_owned())),
        }
    }
}

/// Returns the keys that docs/json.md lists for each command, with their marks. An indented line belongs to the key
/// above. A line "as `KEY`" or "as `KEY` of `COMMAND`" stands for all keys below that key.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).unwrap();
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for section in text.split("\n## ").skip(1) {
        let (command, rest) = section.split_once('\n').unwrap();
        let block = rest.split_once("```text\n").and_then(|(_, rest)| rest.split_once("\n```")).unwrap().0;
        let lines: Vec<(usize, &str, &str)> = block.lines().map(key_of_line).collect();
        let mut path = Vec::<&str>::new();
        let mut keys = BTreeSet::from(["schema#".to_owned()]);
        for (index, (depth, key, meaning)) in lines.iter().enumerate() {
            path.truncate(*depth);
            path.push(key);
            let key = path.join(".");
            let is_parent = lines.get(index + 1).is_some_and(|(next, ..)| next > depth);
            let below = same_keys(meaning, &keys, &found);
            if !below.is_empty() {
                keys.extend(below.iter().map(|name| format!("{key}.{name}")));
            } else if !is_parent {
                keys.insert(key);
            }
        }
        found.insert(command.to_owned(), keys);
    }
    found
}

/// Splits a line into its depth, the key and the meaning.
fn key_of_line(line: &str) -> (usize, &str, &str) {
    let text = line.trim_start();
    let (key, meaning) = text.split_once(' ').unwrap_or((text, ""));
    ((line.len() - text.len()) / 2, key, meaning)
}

/// Returns the keys below the one that the meaning of another key refers to.
fn same_keys(meaning: &str, own: &BTreeSet<String>, found: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let Some((_, reference)) = meaning.split_once("as `") else { return Vec::new() };
    let mut code = reference.split('`');
    let (key, between, command) = (code.next().unwrap(), code.next(), code.next());
    let other_keys = command.filter(|_| between == Some(" of ")).map(|command| &found[command]);
    let below = |name: &String| Some(name.strip_prefix(key)?.strip_prefix('.')?.to_owned());
    other_keys.unwrap_or(own).iter().filter_map(below).collect()
}

fn document(arguments: &[&str], dir: Option<&Path>) -> Value {
    let variable = dir.map(|dir| ("CUDNN_LOADER_DIR", dir.to_owned()));
    document_with(arguments, variable.as_slice())
}

fn document_with(arguments: &[&str], variables: &[(&str, PathBuf)]) -> Value {
    let runs_lab = arguments.first().is_some_and(|command| OF_LAB.contains(command));
    let mut command = Command::new(if runs_lab { support::lab() } else { support::doctor() });
    command.args(arguments).arg("--json").env_clear().envs(variables.iter().cloned());
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

/// Creates an environment with a framework without a required package, and with a second package that uses cuDNN.
fn environment() -> TempDir {
    let root = TempDir::new();
    let venv = PythonEnvironment::venv(root.path());
    let linked = ExtensionLibrary::new().needing("libcudnn.so.9").with_rpath("$ORIGIN/../../nvidia/cudnn/lib");
    let missing = linked.clone().needing("libcublasLt.so.12").with_gpu_code(2, &["9.0"]);
    venv.package("torch", "2.8.0")
        .requires("nvidia-cudnn-cu12==9.10.2.21; extra == 'cudnn'")
        .file("torch/version.py", "cuda: Optional[str] = '12.8'\n")
        .library("torch/lib/libtorch_cuda.so", &missing);
    venv.package("nvidia-cudnn-cu12", "9.1.0.70");
    venv.package("other", "1.0").library("other/lib/other.so", &linked);
    let dir = venv.import_dir().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&dir).unwrap();
    for library in [Library::Shim, Library::Graph] {
        FakeLibrary::new(library, Version::new(9, 1, 0)).build(&dir.join(library.file_name()));
    }
    std::fs::write(dir.join(Library::Ops.file_name()), "no library").unwrap();
    root
}

/// Creates a directory with two plans, one of them damaged, and a pack next to it.
fn plans() -> (TempDir, PathBuf) {
    let dir = TempDir::new();
    let (store, _) = Store::open(&Settings { dir: Some(dir.path().join("plans")), ..Settings::default() });
    let about = PlanInfo { label: "conv_fwd".into(), ..PlanInfo::default() };
    let entry = PlanEntry { key: b"key".into(), plan: b"{}".into(), about };
    let pack = dir.path().join("pack");
    let mut file = std::fs::File::create(&pack).unwrap();
    make_readable(&file).unwrap();
    write_pack(&mut file, [entry.clone()]).unwrap();
    store.put(&entry).unwrap();
    std::fs::write(dir.path().join("plans").join(format!("{}.plan", "0".repeat(64))), "damaged").unwrap();
    (dir, pack)
}

#[test]
fn the_documents_have_exactly_the_documented_keys() {
    let Some(wheel) = lib_dir("jit-cu12-9.19.0") else { return };
    let broken = TempDir::new();
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&broken.file(Library::Graph));
    std::fs::write(broken.file(Library::Ops), "no library").unwrap();
    let broken = broken.path();
    let complete = TempDir::new();
    copy_fake_set(Version::new(9, 19, 0), complete.path());
    let own = std::process::id().to_string();
    let cache = wheel.ancestors().nth(4).unwrap().to_str().unwrap().to_owned();
    let frameworks = environment();
    let (store, packed) = plans();
    let plans_of = |arguments: &[&str]| {
        let variables = [("CUDNN_PLANS_DIR", store.path().join("plans")), ("CUDNN_PLANS_PACK", packed.clone())];
        document_with(&[&["plans"], arguments].concat(), &variables)
    };
    let cudnn = TempDir::copy_of(&wheel);
    let change = |arguments: &[&str]| document(&[arguments, &[cudnn.path().to_str().unwrap()]].concat(), None);
    let lib = support::drop_in().join("lib");
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/captures/small.cudnncap");
    let outputs = ["smaller", "program", "merged"].map(|name| complete.path().join(name));
    let [smaller, program, merged] = outputs.each_ref().map(|path| path.to_str().unwrap());
    let wheel_dir = wheel.to_str().unwrap();
    let choices = complete.path().join("choices");
    std::fs::write(&choices, support::RANKINGS).unwrap();
    let choices = choices.to_str().unwrap();
    let reduce = ["--when", "status", "--limit", "1", "--output", smaller];
    let graph = "71";
    let emit = |arguments: &[&str]| {
        document(&[&["emit", capture, "--graph", graph, "--language", "python"], arguments].concat(), None)
    };
    let documents = [
        ("install and uninstall", change(&["install", "--from", lib.to_str().unwrap()])),
        ("install and uninstall", change(&["uninstall"])),
        ("list", document(&["list", "--deep", wheel.to_str().unwrap()], Some(broken))),
        ("check", document(&["check"], Some(broken))),
        ("check --list", document(&["check", "--list"], None)),
        ("fix", document(&["fix", "--no-load"], Some(broken))),
        // The only step has to run in the user's shell.
        ("fix", document(&["fix", "--no-load", "--only", "C020", "--yes"], Some(complete.path()))),
        ("explain", document(&["explain", wheel.join("libcudnn.so.9").to_str().unwrap()], None)),
        ("pid", document(&["pid", &own], None)),
        ("env", document(&["env"], Some(&wheel))),
        ("fetch", document(&["fetch"], None)),
        ("fetch", document(&["fetch", "jit-cu12-9.19.0", "--into", &cache], None)),
        ("log", document(&["log", concat!(env!("CARGO_MANIFEST_DIR"), "/logs/9.19.0.log")], None)),
        ("preload", document(&["preload", "--no-context", "--query"], Some(&wheel))),
        ("layers", document(&["layers"], None)),
        ("plans", plans_of(&["list"])),
        ("plans", plans_of(&["pack", packed.with_extension("new").to_str().unwrap()])),
        ("plans", plans_of(&["clear"])),
        ("capture show", document(&["capture", "show", capture], None)),
        ("replay", document(&["replay", capture], Some(&wheel))),
        ("replay", document(&["replay", capture, "--engines", "all"], Some(&wheel))),
        ("replay --device", document(&["replay", capture, "--device", "h200", "--device", "l4"], Some(&wheel))),
        ("replay --compare", document(&["replay", capture, "--compare", wheel_dir, wheel_dir], None)),
        ("emit", emit(&[])),
        ("emit", emit(&["--output", program])),
        ("reduce", document(&[&["reduce", capture, "--graph", graph], &reduce[..]].concat(), Some(&wheel))),
        ("tune --merge", document(&["tune", "--merge", choices, "-o", merged], None)),
        ("devices", document(&["devices"], None)),
        ("devices", document(&["devices", "h200"], None)),
        ("errata", document(&["errata", "list"], None)),
        ("facts", document(&["facts"], None)),
        ("frameworks", document(&["frameworks", frameworks.path().to_str().unwrap()], None)),
    ];
    let mut printed = BTreeMap::<&str, Keys>::new();
    for (command, document) in &documents {
        printed.entry(command).or_default().walk(document, "");
        assert_eq!(document["schema"], 2, "{command}");
    }
    let mut documented = documented();
    // `tune` needs a GPU, so the lab's tests compare its keys.
    assert!(documented.remove("tune").is_some());
    assert_eq!(documented.keys().collect::<Vec<_>>().len(), printed.len());
    for (command, Keys { seen, unseen }) in printed {
        let listed = &documented[command];
        // A null value or empty list can stand for an object with keys.
        let is_below = |name: &str, other: &str| {
            other.trim_end_matches(['#', '?']) == name || other.starts_with(&format!("{name}."))
        };
        let is_listed = |name: &&String| listed.iter().any(|other| is_below(name, other));
        let unlisted = unseen.iter().filter(|name| !is_listed(name));
        // Without a GPU, no graph works with either release, which is exit status 3.
        let is_error = |name: &&String| command == "replay --compare" && *name == "error";
        let undocumented: Vec<_> = seen.difference(listed).filter(|name| !is_error(name)).chain(unlisted).collect();
        assert!(undocumented.is_empty(), "{command} prints keys that docs/json.md lacks: {undocumented:?}");
        let could_be = |name: &str| unseen.iter().any(|other| is_below(other, name));
        // `plans device` describes a GPU, and `replay` executes plans on one.
        let needs_gpu = |name: &str| {
            (command, name) == ("plans", "device")
                || command == "replay"
                    && [".runs[]", ".time_ms", ".report.problems[]"].iter().any(|key| name.contains(key))
        };
        let needs_interruption = |name: &str| command.starts_with("replay") && name == "not_replayed#";
        let is_absent =
            |name: &&String| !seen.contains(*name) && !could_be(name) && !needs_gpu(name) && !needs_interruption(name);
        let absent: Vec<_> = listed.iter().filter(is_absent).collect();
        assert!(absent.is_empty(), "{command} does not print: {absent:?}");
    }
}

#[test]
fn a_failure_of_the_doctor_is_a_document_too() {
    for arguments in [
        &["pid", "4194304"][..],
        &["explain", "/nowhere"],
        &["env", "/nowhere"],
        &["capture", "show", "/nowhere"],
        &["fetch", "nothing"],
        &["devices", "nothing"],
        &["frameworks", "/nowhere"],
        &["install", "/nowhere"],
        &["uninstall", "/nowhere"],
    ] {
        assert!(document(arguments, None)["error"].is_string(), "{arguments:?}");
    }
    // The document contains the partial result together with the error.
    let root = environment();
    let document = document(&["frameworks", root.path().to_str().unwrap(), "/nowhere"], None);
    assert!(document["error"].as_str().unwrap().contains("/nowhere"), "{document:#}");
    assert_eq!(document["environments"].as_array().unwrap().len(), 1, "{document:#}");
}

#[test]
fn a_directory_with_several_names_is_one_environment() {
    let root = environment();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(root.path(), &link).unwrap();
    let (path, link) = (root.path().to_str().unwrap(), link.to_str().unwrap());
    let document = document(&["frameworks", path, path, link, &format!("{path}/.")], None);
    assert_eq!(document["environments"].as_array().unwrap().len(), 1, "{document:#}");
}

#[test]
fn libraries_of_cudnn_are_not_listed_among_those_of_cuda() {
    let root = environment();
    let dir = root.path().join("lib/python3.12/site-packages/nvidia/cudnn/lib");
    let document = document(&["frameworks", root.path().to_str().unwrap()], None);
    let torch = &document["environments"][0]["frameworks"][0];
    assert_eq!(torch["missing"], serde_json::json!(["libcublasLt.so.12"]), "{torch:#}");
    assert!(torch["missing_cudnn"].to_string().contains("libcudnn_heuristic.so.9"), "{torch:#}");
    let damaged = &torch["damaged_cudnn"][0];
    assert!(damaged["file"].as_str().unwrap().ends_with("libcudnn_ops.so.9"), "{torch:#}");
    assert!(dir.join("libcudnn_ops.so.9").is_file());
}

/// docs/json.md documents this for status 3.
#[test]
fn a_command_with_a_partial_result_reports_an_error() {
    let dir = TempDir::new();
    let other = dir.path().join("nothing");
    for (arguments, expected) in [
        (&["list", other.to_str().unwrap()][..], "no such directory"),
        (&["demo"], "does not support --json"),
        (&["man"], "does not support --json"),
        (&["completions", "bash"], "does not support --json"),
        (&["check", "--help"], "does not support --json"),
        (&["check", "--cuda", "14"], "CUDA 11 to 13"),
        (&["check", "--cuda", "0"], "CUDA 11 to 13"),
    ] {
        let document = document(arguments, None);
        assert!(document["error"].as_str().unwrap_or_default().contains(expected), "{arguments:?}: {document}");
        assert!(document["schema"].is_number(), "{document}");
    }
}
