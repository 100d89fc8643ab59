//! Tests programs that are written from captures: they plan the same graphs in the same way, and texts of the capture
//! cannot become code.

use std::path::{Path, PathBuf};
use std::process::Command;

use cudnn_capture_file::{Capture, Record};
use cudnn_replay::emit::{Case, Language, emit};
use support::{TempDir, cpp_compiler, drop_in, lib_dir, root, run_compiler};

use crate::capture::Capturing;

const RELEASE: &str = "jit-cu12-9.19.0";

/// Returns the lines with text from the capture.
fn text(program: &str) -> impl Iterator<Item = &str> {
    program.lines().filter(|line| line.contains("!planted"))
}

/// Compiles and runs programs.
struct Programs {
    dir: TempDir,
    cudnn: PathBuf,
}

impl Programs {
    /// Returns the command that runs a program, after it was compiled.
    fn built(&self, program: &str, language: Language) -> Command {
        let file = |name: &str| self.dir.path().join(name);
        match language {
            Language::Cpp => {
                std::fs::write(file("program.cpp"), program).unwrap();
                let mut compiler = cpp_compiler();
                compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-Werror"]);
                compiler.arg("-I").arg(self.cudnn.join("../include")).arg("-isystem").arg(root().join("headers/cuda"));
                compiler.arg(file("program.cpp")).arg("-L").arg(&self.cudnn).args(["-l:libcudnn.so.9", "-ldl", "-o"]);
                compiler.arg(file("program")).arg("-Wl,--unresolved-symbols=ignore-in-shared-libs");
                run_compiler(&mut compiler);
                Command::new(file("program"))
            }
            Language::Python => {
                std::fs::write(file("program.py"), program).unwrap();
                let mut python = Command::new("python3");
                python.arg(file("program.py"));
                python
            }
            Language::Rust => {
                std::fs::create_dir_all(file("src")).unwrap();
                std::fs::write(file("src/main.rs"), program).unwrap();
                let loader = root().join("cudnn-loader").canonicalize().unwrap();
                let manifest = format!(
                    "[package]\nname = \"program\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
                     cudnn-loader = {{ path = {loader:?} }}\n"
                );
                std::fs::write(file("Cargo.toml"), manifest).unwrap();
                // Uses the workspace's versions of all dependencies, so that cargo downloads no others.
                std::fs::copy(root().join("Cargo.lock"), file("Cargo.lock")).unwrap();
                let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emitted");
                let mut cargo = Command::new(env!("CARGO"));
                cargo.args(["build", "--quiet", "--target-dir"]).arg(&target).current_dir(self.dir.path());
                cargo.env("RUSTFLAGS", "-Dwarnings").env_remove("CARGO_BUILD_TARGET");
                run_compiler(&mut cargo);
                // The loader looks for layers next to the program.
                std::fs::copy(target.join("debug/program"), file("rust-program")).unwrap();
                let layers = drop_in().join("lib/libcudnn_layers.so");
                let _ = std::os::unix::fs::symlink(layers, file("libcudnn_layers.so"));
                Command::new(file("rust-program"))
            }
        }
    }
}

const LANGUAGES: [Language; 3] = [Language::Cpp, Language::Python, Language::Rust];

#[test]
fn programs_plan_the_same_graphs_in_the_same_way() {
    let test = "programs_plan_the_same_graphs_in_the_same_way";
    let (Some(capturing), Some(cudnn)) = (Capturing::real(test, RELEASE), lib_dir(RELEASE)) else { return };
    let records = capturing.capture(&["works", "fused", "mixed-types", "integers"]);
    let capture = Capture { records, ..Capture::default() };
    let graphs = cudnn_replay::replay::capture::graphs(&capture);
    assert_eq!(graphs.len(), 4);
    let programs = Programs { dir: TempDir::new(), cudnn };
    let libraries = format!("{}:{}", drop_in().join("lib").display(), capturing.library_path().unwrap());
    for graph in &graphs {
        let case = Case::select(&capture, &graph.id).unwrap();
        let expected = match &graph.plan {
            Some(plan) if plan.status == "SUCCESS" => format!(
                "status: CUDNN_STATUS_SUCCESS\nengine: {}\nworkspace: {}\n",
                plan.engine.as_ref().unwrap().index,
                plan.workspace.unwrap()
            ),
            Some(plan) => {
                let reason = plan.reason.as_deref().unwrap();
                format!("failed: the plan\nstatus: CUDNN_STATUS_{}\nreason: {reason}\n", plan.status)
            }
            None => "failed: planning\nstatus: none: no engine is proposed\nreason: \n".to_owned(),
        };
        for language in LANGUAGES {
            let file = programs.dir.path().join("program.cudnncap");
            let _ = std::fs::remove_file(&file);
            let output = programs
                .built(&emit(&case, language), language)
                .env("CUDNN_LOADER_DIR", &programs.cudnn)
                .env("CUDNN_LAYERS", "capture")
                .env("CUDNN_CAPTURE", &file)
                .env("LD_LIBRARY_PATH", &libraries)
                .output()
                .unwrap();
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert_eq!(stdout, format!("cudnn: 91900\ndevice: described\n{expected}"), "{language:?} {output:?}");
            // The capture of the program contains the graph that it was written from.
            let again = Capture::read(&file).unwrap();
            let ids: Vec<_> = again
                .records
                .iter()
                .filter_map(|record| if let Record::Graph(graph) = record { Some(&graph.graph) } else { None })
                .collect();
            assert_eq!(ids, [&graph.id], "{language:?}");
        }
    }
}

#[test]
fn texts_of_a_capture_do_not_become_code() {
    let Some(cudnn) = lib_dir(RELEASE) else { return };
    let programs = Programs { dir: TempDir::new(), cudnn };
    let mut capture = Capture::read(&root().join("tests/captures/small.cudnncap")).unwrap();
    let hostile = "\\\n!planted\r!planted\u{2028}!planted \\\"\"\"'''*/ ??/\n!planted \u{202e}\u{0}@options@ {} \\";
    for record in &mut capture.records {
        match record {
            Record::Graph(graph) => {
                (graph.label, graph.graph) = (hostile.to_owned(), hostile.to_owned());
            }
            Record::Plan(plan) => {
                plan.graph = hostile.to_owned();
                (plan.status, plan.reason) = (hostile.to_owned(), Some(hostile.to_owned()));
                plan.engine = None;
            }
            Record::Device(device) => {
                device.description =
                    serde_json::json!({ "deviceName": hostile, "text": hostile }).to_string() + hostile;
            }
            _ => {}
        }
    }
    let case = Case::select(&capture, "").unwrap();
    for language in LANGUAGES {
        let program = emit(&case, language);
        assert!(program.is_ascii() && program.contains("!planted"), "{program}");
        assert!(!program.lines().any(|line| line.trim_start().starts_with("!planted")), "{program}");
        assert!(!program.contains("\r") && !text(&program).any(|line| line.ends_with("\\")), "{program}");
        // It compiles, and ends before it loads cuDNN.
        let mut command = programs.built(&program, language);
        if language == Language::Python {
            let check = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
            let file = programs.dir.path().join("program.py");
            run_compiler(Command::new("python3").args(["-c", check]).arg(file));
        } else {
            assert!(command.env("LD_LIBRARY_PATH", "/nowhere").env("CUDNN_LOADER_DIR", "/nowhere").output().is_ok());
        }
    }
}
