//! Builds stand-ins for cuDNN and the driver, and captures for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cudnn_graph::Graph;
use support::{FakeLibrary, Library, TempDir, Version, stand_in_driver};

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/small.cudnncap")
}

/// A directory with the libraries, a named pipe, and the files of a test.
pub(crate) struct StandIn(TempDir);

impl StandIn {
    /// Builds the libraries with this C code as cuDNN.
    pub(crate) fn new(cudnn: &str) -> StandIn {
        let stand_in = StandIn(TempDir::new());
        for dir in ["cudnn", "driver"] {
            std::fs::create_dir(stand_in.path(dir)).unwrap();
        }
        let library = FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(cudnn).with_body("return 0;");
        library.build(&stand_in.path("cudnn/libcudnn_graph.so.9"));
        stand_in_driver(&stand_in.path("driver"));
        assert!(Command::new("mkfifo").arg(stand_in.path("fifo")).status().unwrap().success());
        stand_in
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a capture with this number of graphs. Their outputs are the tensors 2, 3, ... `more` returns the records
    /// that follow the graph with this id and output.
    pub(crate) fn write_capture(&self, graphs: i64, more: impl Fn(&str, i64) -> Vec<String>) {
        let lines = std::fs::read_to_string(small()).unwrap();
        let line = |start: &str| lines.lines().find(|line| line.starts_with(start)).unwrap();
        let graph = line(r#"{"record":"graph""#);
        let (_, nodes) = graph.strip_suffix('}').unwrap().split_once(r#""nodes":"#).unwrap();
        let mut records = vec![line(r#"{"record":"start""#).to_owned()];
        for uid in 2..2 + graphs {
            let nodes = nodes.replace(r#""TENSOR_UNIQUE_ID:3":2"#, &format!(r#""TENSOR_UNIQUE_ID:3":{uid}"#));
            let id = serde_json::from_str::<Graph>(&nodes).unwrap().id();
            records.push(format!(r#"{{"record":"graph","graph":"{id}","label":"relu {uid}","nodes":{nodes}}}"#));
            records.extend(more(&id, uid));
        }
        std::fs::write(self.path("app.cudnncap"), records.join("\n") + "\n").unwrap();
    }

    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
        command.arg(subcommand).arg(self.path("app.cudnncap")).env_clear();
        command.env("LD_LIBRARY_PATH", self.path("driver")).env("CUDNN_LOADER_DIR", self.path("cudnn"));
        command.env("EVENTS", self.path("events")).env("FIFO", self.path("fifo"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}
