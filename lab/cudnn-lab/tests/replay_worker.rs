//! Tests the workers of `replay` with stand-ins for cuDNN and the driver, whose GPU has no processors.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod stand_in;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use cudnn_loader::cudnnBackendAttributeName_t as Name;
use serde_json::Value;

use stand_in::StandIn;

/// A cuDNN with one engine, which supports every graph and changes nothing. The variable `GRAPH_7` selects the behavior
/// for the graph with the output tensor 7, and `EVENTS` names a file for the processes and graphs.
const CUDNN: &str = r#"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long graph;
static int has_corrupted;
static const char *action(void) {
    char name[40];
    sprintf(name, "GRAPH_%ld", graph);
    const char *value = getenv(name);
    return value ? value : "";
}
int cudnnBackendCreateDescriptor(int kind, void **descriptor) { *descriptor = &graph; return 0; }
int cudnnBackendSetAttribute(void *descriptor, int name, int type, long count, const void *elements) {
    if (name != UNIQUE_ID || *(const long *)elements < 2) return 0;
    graph = *(const long *)elements;
    char line[60];
    int length = sprintf(line, "%d %ld\n", getpid(), graph);
    write(open(getenv("EVENTS"), O_WRONLY | O_APPEND | O_CREAT, 0600), line, length);
    if (!strcmp(action(), "crash") || has_corrupted) *(volatile int *)0 = 0;
    if (!strcmp(action(), "hang")) for (;;) pause();
    if (!strcmp(action(), "wait")) read(open(getenv("FIFO"), O_RDONLY), line, 1);
    if (!strcmp(action(), "corrupt")) has_corrupted = 1;
    return 0;
}
int cudnnBackendGetAttribute(void *descriptor, int name, int type, long room, long *count, void *elements) {
    if (count) *count = 1;
    if (room > 0 && elements && type == 3) *(long *)elements = 0;
    if (room > 0 && elements && type != 3 && type != 15) *(char *)elements = 0;
    return 0;
}
int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    if (!strcmp(action(), "break")) *(int *)dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "broken") = 1;
    return 0;
}
"#;

struct Fixture(StandIn);

impl Fixture {
    /// Builds the libraries, and writes a capture with this number of graphs. Their outputs are the tensors 2, 3, ...
    fn new(graphs: i64) -> Fixture {
        let unique_id = Name::CUDNN_ATTR_TENSOR_UNIQUE_ID.0;
        let stand_in = StandIn::new(&format!("#define UNIQUE_ID {unique_id}\n{CUDNN}"));
        stand_in.write_capture(graphs, |_, _| Vec::new());
        Fixture(stand_in)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn replay(&self, actions: &[(i64, &str)]) -> Command {
        let mut command = self.0.command("replay");
        for (graph, action) in actions {
            command.env(format!("GRAPH_{graph}"), action);
        }
        command
    }

    /// Returns the processes and graphs in replay order.
    fn events(&self) -> Vec<(u32, i64)> {
        let number = |text: &str| text.parse::<i64>().unwrap();
        let events = std::fs::read_to_string(self.path("events")).unwrap();
        let events = events.lines().map(|line| line.split_once(' ').unwrap());
        events.map(|(process, graph)| (number(process) as u32, number(graph))).collect()
    }

    /// Returns the graphs of each worker in turn.
    fn workers(&self) -> Vec<Vec<i64>> {
        let events = self.events();
        events.chunk_by(|a, b| a.0 == b.0).map(|events| events.iter().map(|(_, graph)| *graph).collect()).collect()
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn statuses(output: &Output) -> Vec<(String, String)> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(report.is_object(), "{}", text(output));
    let status = |graph: &Value| {
        let report = &graph["report"];
        let run = report["plans"][0]["runs"].as_array().and_then(|runs| runs.last()).unwrap_or(report);
        let text = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"))
    };
    report["graphs"].as_array().unwrap().iter().map(status).collect()
}

#[test]
fn one_worker_replays_all_graphs_and_rows_appear_as_they_finish() {
    let fixture = Fixture::new(4);
    let mut child = fixture.replay(&[(5, "wait")]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let [heading, header] = [0, 1].map(|_| lines.next().unwrap());
    assert!(heading.contains("executed on stand-in"), "{heading}");
    assert!(header.trim_start().starts_with("graph ") && header.ends_with("error"), "{header}");
    let mut row = || {
        let row = lines.next().unwrap();
        assert!(row.contains(" SUCCESS "), "{row}");
        row.split_whitespace().next().unwrap().to_owned()
    };
    let mut ids: Vec<String> = (0..3).map(|_| row()).collect();
    File::options().write(true).open(fixture.path("fifo")).unwrap().write_all(b"x").unwrap();
    ids.push(row());
    let rest: Vec<String> = lines.collect();
    for (uid, id) in (2..).zip(ids) {
        assert!(rest.contains(&format!("{id}: relu {uid}")), "{rest:?}");
    }
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended)), (Some(0), String::new()));
    assert_eq!(fixture.workers(), [[2, 3, 4, 5]]);
}

#[test]
fn a_crash_a_hang_or_a_broken_device_belongs_to_one_graph() {
    let fixture = Fixture::new(7);
    let mut command = fixture.replay(&[(3, "crash"), (5, "hang"), (7, "break")]);
    let output = command.args(["--json", "--timeout", "1"]).output().unwrap();
    let found = statuses(&output);
    let names: Vec<&str> = found.iter().map(|(status, _)| status.as_str()).collect();
    let expected = ["SUCCESS", "CRASHED", "SUCCESS", "HUNG", "SUCCESS", "EXECUTION_FAILED", "SUCCESS"];
    assert_eq!((output.status.code(), names), (Some(1), expected.to_vec()), "{}", text(&output));
    assert!(found[1].1.contains("signal 11 (SIGSEGV) while it created the descriptors of the graph"), "{found:?}");
    assert!(found[3].1.contains("made no progress for 1 s"), "{found:?}");
    assert!(found[5].1.contains("ILLEGAL_ADDRESS"), "{found:?}");
    // After a failure in a used worker, the graph is tried again in a new one.
    assert_eq!(fixture.workers(), [vec![2, 3], vec![3], vec![4, 5], vec![5], vec![6, 7], vec![7], vec![8]]);
}

#[test]
fn no_graph_is_blamed_for_what_an_earlier_one_broke() {
    let fixture = Fixture::new(4);
    let output = fixture.replay(&[(3, "corrupt")]).arg("--json").output().unwrap();
    let found = statuses(&output);
    assert!(found.iter().all(|(status, _)| status == "SUCCESS") && found.len() == 4, "{found:?}");
    assert_eq!(fixture.workers(), [vec![2, 3, 4], vec![4, 5]]);
}

fn wait_for_end_of_reader(pipe: &File) {
    let mut wait = libc::pollfd { fd: pipe.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: the pointer refers to one valid structure.
    assert_eq!(unsafe { libc::poll(&raw mut wait, 1, -1) }, 1);
}

#[test]
fn an_interrupted_comparison_reports_what_is_done() {
    for (is_json, signal) in [(true, "-INT"), (false, "-TERM")] {
        let fixture = Fixture::new(5);
        let [page, junit, cudnn] = ["page.html", "junit.xml", "cudnn"].map(|name| fixture.path(name));
        let mut command = fixture.replay(&[(4, "wait")]);
        command.arg("--compare").args([&cudnn, &cudnn]).arg("--html").arg(&page).arg("--junit").arg(&junit);
        // A shell that starts the tests in the background makes them ignore SIGINT.
        let accept_interruptions = || {
            // SAFETY: no handler is installed.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: the function makes one call that is allowed in a forked child.
        unsafe { command.pre_exec(accept_interruptions) };
        let child = command.args(is_json.then_some("--json")).spawn().unwrap();
        // Opening the pipe waits for the graph.
        let pipe = File::options().write(true).open(fixture.path("fifo")).unwrap();
        kill(&child, signal);
        let output = child.wait_with_output().unwrap();
        let expected = if is_json { libc::SIGINT } else { libc::SIGTERM };
        assert_eq!(output.status.signal(), Some(expected), "{}", text(&output));
        wait_for_end_of_reader(&pipe);
        let done = "interrupted: 2 of 5 graphs were replayed";
        assert!(String::from_utf8_lossy(&output.stderr).contains(done), "{}", text(&output));
        let page = std::fs::read_to_string(&page).unwrap();
        assert!(page.contains(done) && page.contains("relu 3") && page.ends_with("</html>\n"), "{page}");
        let junit = std::fs::read_to_string(&junit).unwrap();
        assert!(junit.contains("relu 3") && junit.ends_with("</testsuites>\n"), "{junit}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        if is_json {
            let report: Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!((report["graphs"].as_array().unwrap().len(), &report["not_replayed"]), (2, &3.into()));
            assert!(report["notes"].to_string().contains(done), "{report:#}");
        } else {
            assert!(stdout.contains("relu 3") && stdout.ends_with("0 graphs became worse, of 2\n"), "{stdout}");
        }
        let events = fixture.events();
        let processes: std::collections::BTreeSet<u32> = events.iter().map(|(process, _)| *process).collect();
        assert_eq!((processes.len(), events.len()), (2, 5), "one worker for each release: {events:?}");
    }
}

#[test]
fn the_end_of_a_workers_parent_loses_no_report() {
    let fixture = Fixture::new(3);
    let child = fixture.replay(&[(3, "wait")]).arg("--json").spawn().unwrap();
    let pipe = File::options().write(true).open(fixture.path("fifo")).unwrap();
    let (worker, _) = *fixture.events().last().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned();
    assert_ne!(parent, child.id().to_string());
    assert!(Command::new("kill").args(["-KILL", &parent]).status().unwrap().success());
    wait_for_end_of_reader(&pipe);
    drop(pipe);
    File::options().write(true).open(fixture.path("fifo")).unwrap().write_all(b"x").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(statuses(&output).iter().all(|(status, _)| status == "SUCCESS"), "{}", text(&output));
    assert_eq!((output.status.code(), fixture.workers()), (Some(0), vec![vec![2, 3], vec![3, 4]]));
}

#[test]
fn no_worker_survives_the_lab() {
    let fixture = Fixture::new(2);
    let mut child = fixture.replay(&[(3, "wait")]).spawn().unwrap();
    let pipe = File::options().write(true).open(fixture.path("fifo")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for_end_of_reader(&pipe);
}
