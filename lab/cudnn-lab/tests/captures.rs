//! Tests the commands that read captures: their exit statuses, outputs, large files, and the commands in the guide.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::io::{PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use cudnn_graph::Graph;
use cudnn_store::captures::{Capture, Record};
use serde_json::Value;
use support::{FakeLibrary, Library, PlanningLibraries, TempDir, Version, doctor, drop_in};

const LAB: &str = env!("CARGO_BIN_EXE_cudnn-lab");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn small() -> String {
    std::fs::read_to_string(Path::new(REPOSITORY).join("tests/captures/small.cudnncap")).unwrap()
}

/// Returns the same capture with an output type that no engine supports.
fn refused() -> String {
    let [works, fails] = [2, 14].map(|ty| format!(r#""TENSOR_UNIQUE_ID:3":2,"TENSOR_DATA_TYPE:1":{ty}"#));
    let capture = small().replace(&works, &fails);
    capture.replace(&graph_id(&small()), &graph_id(&capture))
}

fn graph_id(capture: &str) -> String {
    let records = Capture::parse(capture.as_bytes()).unwrap().records;
    let id = |record| if let Record::Graph(graph) = record { Some(graph.graph) } else { None };
    records.into_iter().find_map(id).unwrap()
}

fn lab(arguments: &[&str], libraries: &str) -> Output {
    Command::new(LAB).args(arguments).env_clear().env("LD_LIBRARY_PATH", libraries).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn the_capture_of_the_repository_is_intact() {
    let capture = Capture::parse(small().as_bytes()).unwrap();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
}

#[test]
fn the_exit_status_tells_whether_a_capture_is_complete() {
    let dir = TempDir::new();
    let refuse = "int cudnnBackendFinalize(void *d) { return 3000; }";
    let cudnn = dir.path().join("cudnn");
    std::fs::create_dir(&cudnn).unwrap();
    let library = FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(refuse).with_body("return 0;");
    library.build(&cudnn.join("libcudnn_graph.so.9"));
    let [output, reduced] = ["output", "reduced"].map(|name| dir.path().join(name));
    let [cudnn, output, reduced] = [cudnn, output, reduced].map(|path| path.to_str().unwrap().to_owned());
    let write = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let damaged = small().replacen("\"graph\":\"", "\"graph\":\"0", 1);
    let (intact, damaged) = (write("intact", &small()), write("damaged", &damaged));
    let files = [
        (intact.clone(), 0),
        (damaged, 1),
        (write("truncated", &(small() + "{\"record\":")), 1),
        (write("other", "text\n"), 3),
        (write("archive", "PK\x03\x04"), 3),
        (write("newer", &small().replace("\"format\":1", "\"format\":1000")), 3),
        ("/no/such/file".to_owned(), 3),
    ];
    let id = graph_id(&small());
    for (file, expected) in &files {
        let commands = [
            vec!["capture", "show", file],
            vec!["emit", file, "--graph", &id, "--language", "python", "--output", &output],
            vec!["reduce", file, "--graph", &id, "--when", "status", "--output", &reduced, "--limit", "0"],
            vec!["replay", file, "--compare", &cudnn, &cudnn],
        ];
        for arguments in &commands {
            let output = lab(arguments, &cudnn);
            let expected = if arguments[0] == "replay" { 3 } else { *expected };
            assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {}", text(&output));
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(*file == intact || stderr.contains(file.as_str()), "{arguments:?}: {stderr}");
        }
    }
}

#[test]
fn outputs_replace_files_at_once_or_are_refused() {
    let dir = TempDir::new();
    let file = dir.path().join("app.cudnncap");
    let data = r#"{"record":"data","plan":0,"execution":1,"uid":1,"is_after":false,"file":"a.bin","bytes":4}"#;
    std::fs::write(&file, small() + data + "\n").unwrap();
    let values = dir.path().join("app.cudnncap.data");
    std::fs::create_dir(&values).unwrap();
    std::fs::write(values.join("a.bin"), "abcd").unwrap();
    let [file, values, id] = [file.to_str().unwrap(), values.to_str().unwrap(), &graph_id(&small())];
    let commands = |output: &str| {
        let emit = |language| ["emit", file, "--graph", id, "--language", language, "--output", output];
        ["python", "c++"].map(|language| emit(language).map(str::to_owned).to_vec())
    };
    let run = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = lab(&arguments, "");
        (output.status.code(), text(&output))
    };
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let forced = |output: &str| commands(output).map(|command| [command, vec!["--force".to_owned()]].concat());
    let refused = [
        (format!("{values}/a.bin"), "is in the directory with the values of the capture"),
        (values.to_owned(), "is a directory"),
        ("/dev/null".to_owned(), "/dev/null is not a regular file; write to a file"),
        (pipe.to_str().unwrap().to_owned(), "is not a regular file; write to a file"),
    ];
    for (output, reason) in &refused {
        for arguments in commands(output).into_iter().chain(forced(output)) {
            let (code, text) = run(&arguments);
            assert!(code == Some(3) && text.contains(reason), "{arguments:?}: {text}");
        }
    }
    assert_eq!(std::fs::read(Path::new(values).join("a.bin")).unwrap(), b"abcd");
    let [target, link] = ["target", "link"].map(|name| dir.path().join(name));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for arguments in commands(link.to_str().unwrap()) {
        std::fs::write(&target, "").unwrap();
        // The second run replaces the output of the first one.
        for _ in 0..2 {
            let (code, text) = run(&arguments);
            assert_eq!(code, Some(0), "{text}");
            assert!(!std::fs::read(&target).unwrap().is_empty() && link.symlink_metadata().unwrap().is_symlink());
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5, "a temporary file is left");
}

#[test]
fn no_command_replaces_a_different_kind_of_file_without_force() {
    let dir = TempDir::new();
    let [file, other] = ["app.cudnncap", "train.py"].map(|name| dir.path().join(name));
    std::fs::write(&file, small()).unwrap();
    let [file, other] = [&file, &other].map(|path| path.to_str().unwrap());
    let id = &graph_id(&small());
    let emit = ["emit", file, "--graph", id, "--language", "python", "--output"];
    let reduce = ["reduce", file, "--graph", id, "--when", "status", "--output"];
    let replay = ["replay", file, "--compare", "/", "/", "--html"];
    let source = b"import torch\n".to_vec();
    for (arguments, kind) in
        [(&emit[..], "a program of `emit`"), (&reduce, "a capture"), (&replay, "a page of `replay`")]
    {
        std::fs::write(other, &source).unwrap();
        let refused = lab(&[arguments, &[other]].concat(), "");
        let reason = format!("{other} exists and is not {kind}; name another file, or add --force");
        assert!(refused.status.code() == Some(3) && text(&refused).contains(&reason), "{}", text(&refused));
        assert_eq!(std::fs::read(other).unwrap(), source);
        let refused = text(&lab(&[arguments, &[file, "--force"]].concat(), ""));
        assert!(refused.contains(&format!("{file} is an input of this command")), "{refused}");
    }
    let forced = lab(&[&emit[..], &[other, "--force"]].concat(), "");
    assert!(forced.status.success() && std::fs::read(other).unwrap() != source, "{}", text(&forced));
    assert_eq!(std::fs::read_to_string(file).unwrap(), small());
}

#[test]
fn long_labels_are_shortened() {
    let dir = TempDir::new();
    let file = dir.path().join("app.cudnncap");
    let graph = r#"{"record":"graph","graph":"x","label":"LABEL","nodes":[{"kind":"TENSOR"}]}"#;
    std::fs::write(&file, small() + &graph.replace("LABEL", &"ä".repeat(100_000)) + "\n").unwrap();
    let output = lab(&["capture", "show", file.to_str().unwrap()], "");
    assert!(text(&output).contains("ä…") && output.stdout.len() < 10_000, "{}", text(&output).len());
}

/// Another user may have chosen the targets of links.
#[test]
fn linked_directories_of_values_are_not_read() {
    let dir = TempDir::new();
    let [file, private] = ["app.cudnncap", "private"].map(|name| dir.path().join(name));
    let data = r#"{"record":"data","plan":0,"execution":1,"uid":1,"is_after":false,"file":"key","bytes":6}"#;
    std::fs::write(&file, small() + data + "\n").unwrap();
    std::fs::create_dir(&private).unwrap();
    std::fs::write(private.join("key"), "secret").unwrap();
    std::os::unix::fs::symlink(&private, dir.path().join("app.cudnncap.data")).unwrap();
    let output = lab(&["capture", "show", file.to_str().unwrap()], "");
    let reason = "the directory of values is a link";
    assert!(output.status.code() == Some(1) && text(&output).contains(reason), "{}", text(&output));
}

#[test]
fn pipes_and_directories_are_refused() {
    let dir = TempDir::new();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for file in [fifo.as_path(), dir.path(), Path::new("/dev/null")] {
        let output = lab(&["capture", "show", file.to_str().unwrap()], "");
        assert!(output.status.code() == Some(3) && text(&output).contains("not a regular file"), "{}", text(&output));
    }
}

/// Fails if the work grows with the square of the number of graphs and plans.
#[test]
fn a_capture_with_many_graphs_is_shown() {
    let mut content = small().lines().next().unwrap().to_owned() + "\n";
    for index in 0..100_000 {
        let nodes = format!(r#"[{{"kind":"TENSOR","UNIQUE_ID:3":{index}}}]"#);
        let id = serde_json::from_str::<Graph>(&nodes).unwrap().id();
        writeln!(content, r#"{{"record":"graph","graph":"{id}","label":"","nodes":{nodes}}}"#).unwrap();
        let plan = r#""status":"SUCCESS","build_us":1"#;
        writeln!(content, r#"{{"record":"plan","plan":{index},"graph":"{id}",{plan}}}"#).unwrap();
        writeln!(content, r#"{{"record":"count","plan":{index},"executions":7}}"#).unwrap();
    }
    let dir = TempDir::new();
    let file = dir.path().join("large");
    std::fs::write(&file, content).unwrap();
    let output = lab(&["capture", "show", file.to_str().unwrap(), "--json"], "");
    assert_eq!(output.status.code(), Some(0));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let graphs = value["graphs"].as_array().unwrap();
    assert_eq!(graphs.len(), 100_000);
    assert!(graphs.iter().all(|graph| graph["plans"][0]["executions"] == 7));
}

#[test]
fn a_long_label_does_not_widen_the_rows_of_other_graphs() {
    let graph = |uid: usize| {
        let nodes = format!(r#"[{{"kind":"TENSOR","UNIQUE_ID:3":{uid}}}]"#);
        (serde_json::from_str::<Graph>(&nodes).unwrap().id(), nodes)
    };
    let mut content = small().lines().next().unwrap().to_owned() + "\n";
    for (uid, label) in [(0, "x".repeat(300)), (1, "short".to_owned())] {
        let (id, nodes) = graph(uid);
        writeln!(content, r#"{{"record":"graph","graph":"{id}","label":"{label}","nodes":{nodes}}}"#).unwrap();
    }
    let (id, _) = graph(1);
    for index in 0..100 {
        let plan = r#""status":"SUCCESS","workspace":64,"build_us":1"#;
        writeln!(content, r#"{{"record":"plan","plan":{index},"graph":"{id}",{plan}}}"#).unwrap();
    }
    let dir = TempDir::new();
    let file = dir.path().join("capture");
    std::fs::write(&file, content).unwrap();
    let output = text(&lab(&["capture", "show", file.to_str().unwrap()], ""));
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines.len(), lines[1].len()), (102, 65 + 300), "{output}");
    assert!(lines[2..].iter().all(|line| line.ends_with(" SUCCESS        64         0           short")), "{output}");
}

/// Returns a pipe that holds one page.
fn small_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    // SAFETY: the call passes no pointers.
    assert!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } > 0);
    (reader, writer)
}

#[test]
fn an_interrupted_command_prints_one_document() {
    let dir = TempDir::new();
    let file = dir.path().join("app.cudnncap");
    let name = "x".repeat(200);
    let missing = |number: usize| {
        format!(
            r#"{{"record":"data","plan":0,"execution":1,"uid":1,"is_after":false,"file":"{number}{name}","bytes":4}}"#
        )
    };
    let records: Vec<String> = (0..30).map(missing).collect();
    std::fs::write(&file, small() + &records.join("\n") + "\n").unwrap();
    let kill = |child: &Child, signal: &str| {
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    };
    let interrupt = |child: &Child| kill(child, "-TERM");
    let show = || {
        let mut command = Command::new(LAB);
        command.args(["--json", "capture", "show"]).arg(&file).env_clear();
        command
    };
    // The warnings do not fit into the pipe, so that the command cannot print its report.
    let (mut warnings, stderr) = small_pipe();
    let child = show().stderr(stderr).stdout(Stdio::piped()).spawn().unwrap();
    warnings.read_exact(&mut [0]).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\n  \"schema\": 2,\n  \"error\": \"interrupted\"\n}\n");
    // The document does not fit into the pipe until other signals have arrived.
    let (mut warnings, stderr) = small_pipe();
    let (mut report, mut stdout) = small_pipe();
    stdout.write_all(&[b' '; 4096]).unwrap();
    let mut child = show().stderr(stderr).stdout(stdout).spawn().unwrap();
    warnings.read_exact(&mut [0]).unwrap();
    interrupt(&child);
    let status = format!("/proc/{}/status", child.id());
    let handles_signal = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
        u64::from_str_radix(blocked, 16).unwrap() >> (libc::SIGTERM - 1) & 1 == 1
    };
    while !handles_signal() {
        std::thread::yield_now();
    }
    ["-INT", "-HUP"].iter().for_each(|signal| kill(&child, signal));
    let mut printed = String::new();
    report.read_to_string(&mut printed).unwrap();
    assert!(child.wait().unwrap().signal().is_some());
    assert_eq!(printed.trim_start(), "{\n  \"schema\": 2,\n  \"error\": \"interrupted\"\n}\n");
    // The report does not fit into the pipe.
    let (mut report, stdout) = small_pipe();
    let mut child = show().stderr(Stdio::null()).stdout(stdout).spawn().unwrap();
    let mut start = [0; 100];
    report.read_exact(&mut start).unwrap();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    let mut rest = String::new();
    report.read_to_string(&mut rest).unwrap();
    assert!(start.starts_with(b"{\n") && !rest.contains("interrupted"), "{rest}");
}

/// Returns the largest size of a process that shows a capture, in KiB.
#[allow(clippy::zombie_processes, reason = "`wait4` waits for the process")]
fn memory_of_show(file: &Path, format: &[&str]) -> i64 {
    let mut command = Command::new(LAB);
    command.args(format).args(["capture", "show"]).arg(file).env_clear().stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let mut status = 0;
    // SAFETY: all members are numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointers refer to valid values.
    let ended = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!((ended, status), (child.id() as i32, 0));
    usage.ru_maxrss
}

#[test]
fn a_document_is_printed_while_it_is_made() {
    let dir = TempDir::new();
    let file = dir.path().join("app.cudnncap");
    let mut records = small();
    let reason = "a reason ".repeat(1000);
    for number in 0..3000 {
        let descriptor = r#"{"kind":"TENSOR","finalized":false}"#;
        let call = "cudnnBackendFinalize";
        let _ = writeln!(
            records,
            r#"{{"record":"failure","call":"{call}","status":"BAD_PARAM","reason":"{number} {reason}","descriptors":[{descriptor}]}}"#
        );
    }
    std::fs::write(&file, records).unwrap();
    let [text, json] = [&[][..], &["--json"]].map(|format| memory_of_show(&file, format));
    assert!(json < text + (4 << 10), "{json} KiB instead of {text} KiB");
}

/// `capture show` prints ids of failed calls.
#[test]
fn failures_have_the_ids_of_their_graphs() {
    let failure = |record: &Record| match record {
        Record::Failure(failure) => Some(failure.graph().unwrap().id()),
        _ => None,
    };
    let id = Capture::parse(small().as_bytes()).unwrap().records.iter().find_map(failure).unwrap();
    let file = Path::new(REPOSITORY).join("tests/captures/small.cudnncap");
    let output = text(&lab(&["capture", "show", file.to_str().unwrap()], ""));
    let expected = "cudnnBackendFinalize: BAD_PARAM _nbDims < 1\n  descriptor CUDNN_BACKEND_TENSOR_DESCRIPTOR\n";
    assert!(output.contains(&format!("failed: {id}: {expected}")), "{output}");
}

/// Values of tensors may be private.
#[test]
fn outputs_are_as_private_as_the_capture() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new();
    let (capture, program) = (dir.path().join("app.cudnncap"), dir.path().join("bug.py"));
    let id = &graph_id(&small());
    std::fs::write(&capture, small()).unwrap();
    for (mode, before, expected) in
        [(0o600, None, 0o600), (0o644, Some(0o600), 0o600), (0o640, None, 0o640), (0o666, None, 0o644)]
    {
        std::fs::set_permissions(&capture, PermissionsExt::from_mode(mode)).unwrap();
        let _ = std::fs::remove_file(&program);
        if let Some(before) = before {
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(before)).unwrap();
        }
        let [capture, output] = [&capture, &program].map(|path| path.to_str().unwrap());
        let output = lab(&["emit", capture, "--graph", id, "--language", "python", "--output", output], "");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(program.metadata().unwrap().permissions().mode() & 0o777, expected, "{mode:o} {before:?}");
    }
}

struct Shell {
    dir: TempDir,
    id: String,
    cudnn: PathBuf,
    libraries: PlanningLibraries,
}

impl Shell {
    fn new(test: &str) -> Option<Self> {
        let (libraries, cudnn) = PlanningLibraries::for_release(test, "jit-cu12-9.19.0")?;
        let dir = TempDir::new();
        std::os::unix::fs::symlink(LAB, dir.path().join("cudnn-lab")).unwrap();
        std::os::unix::fs::symlink(doctor(), dir.path().join("cudnn-doctor")).unwrap();
        std::fs::write(dir.path().join("app.cudnncap"), small()).unwrap();
        std::fs::write(dir.path().join("refused.cudnncap"), refused()).unwrap();
        Some(Shell { dir, id: graph_id(&small()), cudnn, libraries })
    }

    /// Replaces the names in a command line by existing ones.
    fn with_existing_names(&self, line: &str) -> String {
        let cudnn = self.cudnn.to_str().unwrap();
        let lib = drop_in().join("lib");
        let line = line.replace("/opt/cudnn-shim/lib", lib.to_str().unwrap());
        let line = line.replace("python train.py", "true").replace("/opt/cudnn/lib", cudnn);
        let line = line.replace("cudnn-doctor run", &format!("cudnn-doctor run --from {}", lib.display()));
        // A reduction takes minutes, and needs a graph that fails.
        let is_reduction = line.starts_with("cudnn-lab reduce");
        let line = line.replace("cudnn-lab reduce app.cudnncap", "cudnn-lab reduce --limit 3 refused.cudnncap");
        let id = if is_reduction { graph_id(&refused()) } else { self.id.clone() };
        let mut words: Vec<&str> = line.split_whitespace().collect();
        for place in 0..words.len() {
            match words[place] {
                "--graph" if words[place + 1] != "''" => words[place + 1] = &id,
                "--compare" => {
                    for release in &mut words[place + 1..place + 3] {
                        *release = if release.starts_with('/') { *release } else { cudnn };
                    }
                }
                "--cudnn" => words[place + 1] = cudnn,
                _ => {}
            }
        }
        words.join(" ")
    }

    /// Runs the line. The exit status must be 0, or 1 for findings.
    fn run(&self, line: &str) -> String {
        let line = self.with_existing_names(line);
        let path = std::env::join_paths([self.dir.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        let libraries = format!("{}:{}", self.cudnn.display(), self.libraries.path);
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(self.dir.path());
        command.env_clear().env("PATH", path).env("LD_LIBRARY_PATH", libraries);
        let output = command.output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {}", text(&output));
        text(&output)
    }
}

fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(REPOSITORY).join("docs/guide").join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.split(" #").next());
    lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

fn examples(program: &Path, command: &str) -> Vec<String> {
    let help = text(&Command::new(program).args([command, "--help"]).output().unwrap());
    let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{help}"));
    let lines = examples.lines().map(str::trim).filter(|line| line.starts_with("cudnn-"));
    lines.map(|line| line.split("  ").next().unwrap().to_owned()).collect()
}

#[test]
fn the_commands_of_the_guide_and_of_the_help_work() {
    let Some(shell) = Shell::new("the_commands_of_the_guide_and_of_the_help_work") else { return };
    let pages = ["capture.md", "replay.md", "devices.md", "reproduce.md", "upgrade-gate.md"].map(commands).concat();
    let helps = ["capture", "replay", "emit", "reduce"].map(|command| examples(LAB.as_ref(), command)).concat();
    let run = examples(&doctor(), "run").into_iter().filter(|line| line.contains("--capture"));
    let lines: Vec<String> = pages.into_iter().chain(helps).chain(run).collect();
    assert!(lines.len() > 15, "{lines:?}");
    lines.iter().for_each(|line| drop(shell.run(line)));
    for file in ["bug.py", "bug.cpp", "bug.tar.gz", "report.html", "small.cudnncap", "baseline.json", "cudnn.xml"] {
        assert!(shell.dir.path().join(file).exists(), "no command has written {file}");
    }
    for command in ["emit app.cudnncap --language c++", "replay app.cudnncap"] {
        let message = shell.run(&format!("cudnn-lab {command} --graph=xyz 2>&1 || true"));
        let hint = message.split('`').nth(1).unwrap_or_else(|| panic!("{message}"));
        assert!(shell.run(hint).contains(&shell.id), "{hint}");
    }
}

#[test]
fn the_options_in_the_guide_work() {
    let Some(shell) = Shell::new("the_options_in_the_guide_work") else { return };
    let page = std::fs::read_to_string(Path::new(REPOSITORY).join("docs/guide/replay.md")).unwrap();
    let options: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `--")?.split('`').next()).collect();
    assert!(options.len() >= 12, "{options:?}");
    shell.run("cudnn-lab replay app.cudnncap --json > baseline.json");
    for option in options {
        let is_of_comparison = ["html", "junit", "fail-on"].iter().any(|name| option.starts_with(name));
        let compare = if is_of_comparison { "--compare 9.10 9.28 " } else { "" };
        let file = if option.starts_with("baseline") { "baseline.json" } else { option.trim_end_matches(" FILE") };
        let line = format!("cudnn-lab replay app.cudnncap {compare}--{option}").replace("FILE", file);
        if option != "data captured" {
            shell.run(&line);
        }
    }
}
