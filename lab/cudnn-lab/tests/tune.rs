//! Tests `tune` with stand-ins for cuDNN and the driver.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod stand_in;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cudnn_loader::cudnnBackendAttributeName_t as Name;
use serde_json::{Value, json};

use stand_in::StandIn;

/// A cuDNN with engines for the ReLU of 16-bit numbers. `ENGINES` lists their times in microseconds and their behavior,
/// such as `100 fine, 50 wrong`. Mode A of the heuristics proposes all except the last `UNPROPOSED`, which mode B
/// proposes. `EVENTS` names a file for the processes and outputs.
const CUDNN: &str = r#"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct object { long index, mode, count, uids[8]; unsigned short *pointers[8]; };
static long number(const char *name) { return getenv(name) ? atol(getenv(name)) : 0; }
static long engines(void) {
    long count = 1;
    for (const char *c = getenv("ENGINES"); *c; c++) count += *c == ',';
    return count;
}
static double engine(long index, char *action) {
    const char *text = getenv("ENGINES");
    double time;
    while (index--) text = strchr(text, ',') + 1;
    sscanf(text, "%lf %20[a-z]", &time, action);
    return time;
}
int cudnnCreate(void **handle) {
    char byte;
    if (getenv("WAIT_AT_START")) read(open(getenv("FIFO"), O_RDONLY), &byte, 1);
    return 0;
}
int cudnnBackendCreateDescriptor(int kind, void **descriptor) {
    *descriptor = calloc(1, sizeof(struct object));
    return 0;
}
int cudnnBackendSetAttribute(struct object *o, int name, int type, long count, void *elements) {
    if (name == MODE) o->mode = *(int *)elements;
    if (name == INDEX) o->index = *(long *)elements;
    if (name == PLAN_CONFIG || name == CONFIG_ENGINE) o->index = (*(struct object **)elements)->index;
    if (name == UIDS) memcpy(o->uids, elements, (o->count = count) * 8);
    if (name == POINTERS) memcpy(o->pointers, elements, count * 8);
    if (name == UNIQUE_ID && *(long *)elements > 1) {
        char line[60];
        int length = sprintf(line, "%d %ld\n", getpid(), *(long *)elements);
        write(open(getenv("EVENTS"), O_WRONLY | O_APPEND | O_CREAT, 0600), line, length);
        if (number("WAIT") == *(long *)elements) read(open(getenv("FIFO"), O_RDONLY), line, 1);
    }
    return 0;
}
int cudnnBackendGetAttribute(struct object *o, int name, int type, long room, long *count, void *elements) {
    struct object **others = elements;
    *count = 0;
    if (name == RESULTS) {
        long proposed = engines() - number("UNPROPOSED"), first = o->mode == 3 ? 0 : proposed;
        *count = o->mode == 3 ? proposed : o->mode == 1 ? number("UNPROPOSED") : 0;
        for (long i = 0; i < *count && i < room; i++) others[i]->index = first + i;
    }
    if (name == CONFIG_ENGINE) { *count = 1; if (room) others[0]->index = o->index; }
    if (name == INDEX) { *count = 1; if (room) *(long *)elements = o->index; }
    if (name == ENGINE_COUNT) { *count = 1; if (room) *(long *)elements = engines(); }
    if (name == WORKSPACE) { *count = 1; if (room) *(long *)elements = 64; }
    return 0;
}
int cudnnBackendExecute(void *handle, struct object *plan, struct object *pack) {
    static unsigned short executions;
    static int runs[64];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    char action[21] = "";
    double time = engine(plan->index, action);
    size_t *cleared = dlsym(driver, "cleared");
    if (!strcmp(action, "cache") && *cleared < 16 << 20) time /= 10;
    *cleared = 0;
    *(double *)dlsym(driver, "now") += time / 1e3;
    unsigned short *x = pack->pointers[0], *y = pack->pointers[1];
    for (int i = 0; i < 4 * 64 * 64; i++) y[i] = x[i] >> 15 ? 0 : x[i];
    if (!strcmp(action, "wrong")) y[9] = 0x4400;
    if (!strcmp(action, "damage")) y[-1] = 0;
    if (!strcmp(action, "random")) y[9] = x[9] + (++executions & 1);
    if (!strcmp(action, "refuse")) return 3000;
    if (!strcmp(action, "break")) *(int *)dlsym(driver, "broken") = 1;
    if (!strcmp(action, "crash")) *(volatile int *)0 = 0;
    if (!strcmp(action, "hang")) for (;;) pause();
    int is_measured = ++runs[plan->index] > 2;
    if (!strcmp(action, "tire") && is_measured) return 3000;
    if (!strcmp(action, "stall") && is_measured) for (;;) pause();
    return 0;
}
"#;

struct Fixture(StandIn);

impl Fixture {
    /// Builds the libraries, and writes a capture with this number of graphs, which were executed once, twice, ...
    /// Their outputs are the tensors 2, 3, ...
    fn new(graphs: i64) -> Fixture {
        let names = [
            ("MODE", Name::CUDNN_ATTR_ENGINEHEUR_MODE),
            ("INDEX", Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
            ("PLAN_CONFIG", Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
            ("CONFIG_ENGINE", Name::CUDNN_ATTR_ENGINECFG_ENGINE),
            ("UIDS", Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
            ("POINTERS", Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
            ("UNIQUE_ID", Name::CUDNN_ATTR_TENSOR_UNIQUE_ID),
            ("RESULTS", Name::CUDNN_ATTR_ENGINEHEUR_RESULTS),
            ("ENGINE_COUNT", Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT),
            ("WORKSPACE", Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE),
        ];
        let names: String = names.iter().map(|(name, number)| format!("#define {name} {}\n", number.0)).collect();
        let stand_in = StandIn::new(&format!("{names}{CUDNN}"));
        stand_in.write_capture(graphs, |id, uid| {
            let (plan, executions) = (uid - 2, uid - 1);
            vec![
                format!(r#"{{"record":"proposals","graph":"{id}","mode":3,"count":9}}"#),
                format!(r#"{{"record":"plan","plan":{plan},"graph":"{id}","status":"SUCCESS","build_us":1}}"#),
                format!(r#"{{"record":"count","plan":{plan},"executions":{executions}}}"#),
            ]
        });
        Fixture(stand_in)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn tune(&self, engines: &str) -> Command {
        let mut command = self.0.command("tune");
        command.arg("-o").arg(self.path("app.tuned.json")).env("ENGINES", engines);
        command
    }

    fn tuned(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("app.tuned.json")).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        document["tuned"].as_array().unwrap().clone()
    }

    /// Returns the outputs of the graphs in the order of planning.
    fn events(&self) -> Vec<i64> {
        let events = std::fs::read_to_string(self.path("events")).unwrap_or_default();
        events.lines().map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect()
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn document(output: &Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(value.is_object(), "{}", text(output));
    value
}

fn engines(ranking: &Value) -> Vec<(i64, String)> {
    let problem = |choice: &Value| match choice["problem"].as_object() {
        Some(problem) => problem.keys().next().unwrap().clone(),
        None => String::new(),
    };
    ranking["engines"].as_array().unwrap().iter().map(|c| (c["engine"].as_i64().unwrap(), problem(c))).collect()
}

fn closed_pipe() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn full_disk() -> Stdio {
    std::fs::File::create("/dev/full").unwrap().into()
}

#[test]
fn the_fastest_correct_engine_comes_first() {
    let fixture = Fixture::new(2);
    let described = "100 fine, 20 wrong, 60 fine, 10 damage, 99 fine, 50 random, 30 refuse, 40 fine";
    let output = fixture.tune(described).env("UNPROPOSED", "1").arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let document = document(&output);
    let tuned = fixture.tuned();
    assert_eq!((tuned.len(), document["graphs"].as_array().unwrap().len()), (2, 2));
    let expected =
        [(7, ""), (2, ""), (0, ""), (4, ""), (5, "nondeterministic"), (3, "damaging"), (1, "wrong"), (6, "failed")];
    for ranking in &tuned {
        let found = engines(ranking);
        let found: Vec<(i64, &str)> = found.iter().map(|(engine, problem)| (*engine, problem.as_str())).collect();
        assert_eq!(found, expected, "{ranking:#}");
        let choice = |place: usize| &ranking["engines"][place];
        assert_eq!(
            (&ranking["default"], &choice(0)["proposed"], &choice(1)["proposed"]),
            (&2.into(), &false.into(), &true.into())
        );
        // The engines 0 to 6, in cuDNN's order.
        assert_eq!(ranking["proposals"], json!({ "mode_a": [2, 6, 1, 5, 3, 4, 7] }));
        assert!((choice(1)["time_us"].as_f64().unwrap() - 60.0).abs() < 0.1, "{ranking:#}");
        assert!(choice(6)["problem"]["wrong"].as_str().unwrap().contains("element 9 of tensor"), "{ranking:#}");
        assert!(choice(5)["problem"]["damaging"].as_str().unwrap().contains("before tensor"), "{ranking:#}");
        assert_eq!((&ranking["cudnn"], &ranking["device"]["name"]), (&json!("9.19.0"), &json!("stand-in")));
    }
    // The most executed graph was tuned first. One step has three executions of 100 us.
    let labels: Vec<&Value> = tuned.iter().map(|ranking| &ranking["label"]).collect();
    assert!(labels.contains(&&json!("relu 2")) && fixture.events() == [3, 2], "{labels:?} {:?}", fixture.events());
    let number = |key: &str| document[key].as_f64().unwrap().round();
    assert_eq!((number("step_us"), number("tuned_step_us")), (300.0, 180.0));
}

/// The engine would be ten times as fast with its data in the cache.
#[test]
fn replay_measures_the_same_time() {
    let fixture = Fixture::new(1);
    let output = fixture.tune("100 cache").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let tuned = fixture.tuned()[0]["engines"][0]["time_us"].as_f64().unwrap();
    let output = fixture.0.command("replay").env("ENGINES", "100 cache").args(["--time", "--json"]).output().unwrap();
    let document = document(&output);
    let replayed = document["graphs"][0]["report"]["plans"][0]["time_ms"].as_f64().unwrap() * 1e3;
    assert!((tuned - 100.0).abs() < 0.1 && (replayed - tuned).abs() < 0.1, "{tuned} {replayed}");
}

#[test]
fn an_engine_that_ends_the_worker_or_breaks_the_device_costs_only_itself() {
    let fixture = Fixture::new(1);
    let described = "100 fine, 10 crash, 20 break, 30 hang, 70 fine, 60 tire, 50 stall";
    let output = fixture.tune(described).args(["--timeout", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let tuned = fixture.tuned();
    let found = engines(&tuned[0]);
    assert_eq!(found.iter().map(|(engine, _)| *engine).collect::<Vec<_>>(), [4, 0, 1, 2, 3, 5, 6], "{tuned:#?}");
    let reason = |place: usize| tuned[0]["engines"][place]["problem"]["failed"].as_str().unwrap();
    assert!(reason(2).contains("SIGSEGV") && reason(2).contains("executed engine 1"), "{}", reason(2));
    assert!(reason(3).contains("ILLEGAL_ADDRESS"), "{}", reason(3));
    assert!(reason(4).contains("made no progress for 1 s"), "{}", reason(4));
    assert!(reason(5).contains("NOT_SUPPORTED"), "{}", reason(5));
    assert!(reason(6).contains("made no progress for 1 s") && reason(6).contains("measured engine 6"), "{}", reason(6));
}

#[test]
fn a_later_call_continues_and_other_choices_stay() {
    let fixture = Fixture::new(3);
    let file = fixture.path("app.tuned.json");
    let other = r#"{"errata":1,"rules":[{"name":"n","reason":"r","engines":[1]}],"tuned":[{"cudnn":"9.1.0","device":
        {"name":"stand-in","compute_capability":"0.1"},"graph":"0123456789abcdef","engines":[{"engine":1}]}]}"#;
    std::fs::write(&file, other).unwrap();
    let output = fixture.tune("100 fine, 50 fine").args(["--time-limit", "0"]).output().unwrap();
    assert!(text(&output).contains("3 graphs not tuned yet"), "{}", text(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), other);
    let first = fixture.events();
    let output = fixture.tune("100 fine, 50 fine").args(["--graph", ""]).output().unwrap();
    assert!(output.status.success() && fixture.tuned().len() == 4, "{}", text(&output));
    assert!(text(&output).contains("expected gain per step: 300.00 us of 600.00 us (50.0 %)"), "{}", text(&output));
    assert!(std::fs::read_to_string(&file).unwrap().contains(r#""rules""#));
    // All graphs are tuned already, and the report is the same.
    let tuned = fixture.events();
    let output = fixture.tune("100 fine, 50 fine").output().unwrap();
    assert!(text(&output).contains("expected gain per step: 300.00 us of 600.00 us (50.0 %)"), "{}", text(&output));
    assert_eq!((fixture.events(), tuned.len() - first.len()), (tuned, 3));
    let output = fixture.tune("100 fine, 80 fine").arg("--again").output().unwrap();
    assert!(text(&output).contains("(20.0 %)") && fixture.events().len() == 6, "{}", text(&output));
}

#[test]
fn a_hostile_output_file_is_refused_and_kept() {
    let fixture = Fixture::new(1);
    let file = fixture.path("app.tuned.json");
    let hostile = [
        "import os",
        r#"{"errata": 1, "tuned": [{"cudnn":"9.19.0"}]}"#,
        r#"{"errata": 7, "tuned": []}"#,
        r#"{"errata": 1, "tuned": [{"cudnn":"9.19.0","device":{"name":"A","compute_capability":"9.0"},"graph":"../../x","engines":[{"engine":1}]}]}"#,
    ];
    for content in hostile {
        std::fs::write(&file, content).unwrap();
        let output = fixture.tune("100 fine").output().unwrap();
        assert_eq!((output.status.code(), fixture.events().len()), (Some(3), 0), "{}", text(&output));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
    let output = fixture.tune("100 fine").arg("--force").output().unwrap();
    assert!(output.status.success() && fixture.tuned().len() == 1, "{}", text(&output));
}

#[test]
fn files_are_merged() {
    let fixture = Fixture::new(1);
    let ranking = |device: &str, engine: i64| {
        json!({"cudnn": "9.19.0", "device": {"name": device, "compute_capability": "9.0"}, "graph": "0123456789abcdef",
            "engines": [{"engine": engine}]})
    };
    for (name, rankings) in [("a", json!([ranking("A", 1), ranking("B", 1)])), ("b", json!([ranking("B", 2)]))] {
        std::fs::write(fixture.path(name), json!({"errata": 1, "tuned": rankings}).to_string()).unwrap();
    }
    let merge = |output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
        command.args(["tune", "--merge", "a", "b", "-o", output]).current_dir(fixture.path("")).env_clear();
        command.output().unwrap()
    };
    let output = merge("app.tuned.json");
    assert!(output.status.success() && text(&output).ends_with("2 graphs\n"), "{}", text(&output));
    let found: Vec<_> =
        fixture.tuned().iter().map(|tuned| (tuned["device"]["name"].clone(), engines(tuned)[0].0)).collect();
    assert_eq!(found, [(json!("A"), 1), (json!("B"), 2)]);
    assert_eq!(merge("app.tuned.json").status.code(), Some(0));
    let refused = merge("a");
    assert!(refused.status.code() == Some(3) && text(&refused).contains("is an input"), "{}", text(&refused));
    let other = json!({"errata": 1, "tuned": [ranking("C", 1)]}).to_string();
    for (name, content, reason) in [
        ("rules", r#"{"errata":1,"rules":[{"name":"mine"}]}"#, "contains rules or graphs that would be lost"),
        ("graphs", &other, "contains rules or graphs that would be lost"),
        ("damaged", r#"{"errata":1,"rules":[],"x\ny":1}"#, r"unknown field `x\ny`"),
    ] {
        std::fs::write(fixture.path(name), content).unwrap();
        let refused = merge(name);
        assert!(refused.status.code() == Some(3) && text(&refused).contains(reason), "{}", text(&refused));
        assert_eq!(std::fs::read_to_string(fixture.path(name)).unwrap(), content);
    }
    let rule = json!({"name": "a", "reason": "r", "operations": ["conv_fwd"]});
    for (rules, reason) in
        [(json!([rule, rule]), "b: two rules are called \"a\""), (json!([{"name": "a"}]), "b: missing field `reason`")]
    {
        std::fs::write(fixture.path("b"), json!({"errata": 1, "rules": rules}).to_string()).unwrap();
        let refused = merge("new");
        assert!(refused.status.code() == Some(3) && text(&refused).contains(reason), "{}", text(&refused));
    }
    let write = |content: serde_json::Value| {
        ["a", "b"].iter().for_each(|name| std::fs::write(fixture.path(name), content.to_string()).unwrap());
    };
    write(json!({"errata": 1, "tuned": []}));
    let refused = merge("new");
    assert_eq!(refused.status.code(), Some(3));
    let reason = "new would contain no rankings or rules, so that programs could not use it";
    assert!(text(&refused).contains(reason), "{}", text(&refused));
    assert!(!fixture.path("new").exists());
    write(json!({"errata": 1, "rules": [rule]}));
    let output = merge("new");
    assert!(output.status.success(), "{}", text(&output));
    let merged: serde_json::Value = serde_json::from_slice(&std::fs::read(fixture.path("new")).unwrap()).unwrap();
    assert_eq!(merged["rules"], json!([rule]));
}

#[test]
fn an_interrupted_run_keeps_what_is_done() {
    let fixture = Fixture::new(3);
    let child = fixture.tune("100 fine, 50 fine").env("WAIT", "2").spawn().unwrap();
    // Opening the pipe waits for the last graph.
    let pipe = std::fs::File::options().write(true).open(fixture.path("fifo")).unwrap();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(pipe);
    assert!(text(&output).contains("interrupted: 1 graph not tuned"), "{}", text(&output));
    assert_eq!((output.status.code(), fixture.tuned().len()), (None, 2));
}

#[test]
fn an_interruption_while_the_gpu_starts_is_reported() {
    let fixture = Fixture::new(1);
    let child = fixture.tune("100 fine").arg("--json").env("WAIT_AT_START", "1").spawn().unwrap();
    let pipe = std::fs::File::options().write(true).open(fixture.path("fifo")).unwrap();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(pipe);
    assert_eq!((output.status.code(), document(&output)), (None, json!({ "schema": 2, "error": "interrupted" })));
}

/// The file is the purpose of the command, and may take an hour.
#[test]
fn a_failed_output_stops_neither_the_work_nor_the_files() {
    for (format, is_closed) in [(None, true), (Some("--json"), true), (None, false), (Some("--json"), false)] {
        let fixture = Fixture::new(2);
        let page = fixture.path("page.html");
        let mut command = fixture.tune("100 fine, 50 fine");
        command.args(format).arg("--html").arg(&page);
        let output = command.stdout(if is_closed { closed_pipe() } else { full_disk() }).output().unwrap();
        let expected = if is_closed { 128 + 13 } else { 3 };
        assert_eq!(output.status.code(), Some(expected), "{format:?}: {}", text(&output));
        assert_eq!(text(&output).matches("cannot write the output").count(), usize::from(!is_closed), "{format:?}");
        assert_eq!(fixture.tuned().len(), 2, "{format:?}");
        assert!(std::fs::read_to_string(page).unwrap().ends_with("</html>\n"), "{format:?}");
    }
}

#[test]
fn the_page_and_the_text_name_what_the_layer_cannot_do() {
    let fixture = Fixture::new(1);
    let capture = fixture.path("app.cudnncap");
    let call = r#"{"record":"call","function":"cudnnFindConvolutionForwardAlgorithm<","calls":5}"#;
    let records = std::fs::read_to_string(&capture).unwrap().replace("relu 2", "<b>relu") + call + "\n";
    std::fs::write(&capture, records).unwrap();
    let page = fixture.path("page.html");
    let mut command = fixture.tune("100 wrong, 50 fine, 20 fine");
    let output = command.env("UNPROPOSED", "1").arg("--html").arg(&page).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let page = std::fs::read_to_string(page).unwrap();
    for part in [
        "out of reach for the layer",
        "the older API: cudnnFindConvolutionForwardAlgorithm",
        "engine 0, which programs use",
    ] {
        assert!(page.contains(part) && text(&output).contains(part), "{part}: {page} {}", text(&output));
    }
    assert!(page.contains("&lt;b&gt;relu") && !page.contains("<b>") && page.ends_with("</html>\n"), "{page}");
}

/// Adds the keys of a document, such as `graphs[].label`.
fn add_keys(value: &Value, at: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !["phases_ms", "graphs[].engines[].problem"].contains(&at) => {
            let name = |name: &String| if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            members.iter().for_each(|(key, value)| add_keys(value, &name(key), keys));
        }
        Value::Array(values) => values.iter().for_each(|value| add_keys(value, &format!("{at}[]"), keys)),
        _ => drop(keys.insert(at.to_owned())),
    }
}

/// Returns the keys that a section of the page lists. Indented keys belong to the key above.
fn documented_keys(section: &str) -> BTreeSet<String> {
    let block = section.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let mut keys = BTreeSet::from(["schema".to_owned()]);
    let mut path = Vec::<&str>::new();
    for line in block.lines() {
        let text = line.trim_start();
        let depth = (line.len() - text.len()) / 2;
        // Skip keys with other keys below them.
        if depth > path.len().saturating_sub(1) {
            keys.remove(&path.join("."));
        }
        path.truncate(depth);
        path.push(text.split(' ').next().unwrap().trim_end_matches(['#', '?']).trim_end_matches("{}"));
        keys.insert(path.join("."));
    }
    keys
}

#[test]
fn the_document_and_the_options_are_documented() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
    let fixture = Fixture::new(2);
    let output = fixture.tune("100 fine, 50 wrong").args(["--time-limit", "0", "--json"]).output().unwrap();
    let mut printed = BTreeSet::new();
    add_keys(&document(&output), "", &mut printed);
    let output = fixture.tune("100 fine, 50 wrong").arg("--json").output().unwrap();
    add_keys(&document(&output), "", &mut printed);
    let text = page("json.md");
    let section = text.split("\n## tune\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let documented = documented_keys(section);
    assert!(printed.is_subset(&documented), "{:?}", printed.difference(&documented));
    // The stand-in has neither knobs nor notes.
    let is_absent = |key: &&String| ["problems", "refused", "knobs", "notes"].iter().any(|part| key.contains(part));
    let missing: Vec<_> = documented.difference(&printed).filter(|key| !is_absent(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let help = Command::new(env!("CARGO_BIN_EXE_cudnn-lab")).args(["tune", "--help"]).output().unwrap();
    let guide = page("guide/tune.md");
    let options = guide.lines().filter_map(|line| line.strip_prefix("| `-")?.split(['`', ' ']).next());
    let options: Vec<String> = options.map(|option| format!("-{option}")).collect();
    assert!(options.len() > 9 && options.iter().all(|option| self::text(&help).contains(option)), "{options:?}");
}

#[test]
fn machines_without_a_gpu_are_refused() {
    let fixture = Fixture::new(1);
    let output = fixture.tune("100 fine").env_remove("LD_LIBRARY_PATH").output().unwrap();
    let text = text(&output);
    assert!(output.status.code() == Some(3) && text.contains("cannot tune on this machine: no GPU"), "{text}");
    assert!(!fixture.path("app.tuned.json").exists());
}
