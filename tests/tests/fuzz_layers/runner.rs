//! Runs programs with layers, and finds the differences from their runs without layers.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use support::{PlanningLibraries, TempDir, drop_in, errata_for_all_releases, tuned_for_all_releases};

use crate::program::{Step, text};

/// The layers of a run: none, each, and all.
pub(super) const LAYERS: &[&str] = &[
    "trace",
    "plans",
    "explain",
    "validate",
    "errata",
    "tuned",
    "capture",
    "explain,validate,errata,tuned,capture,plans,trace",
];

pub(super) type Outputs = BTreeMap<u64, String>;

/// A cuDNN that plans for a described device, and the program that calls it.
pub(super) struct Runner {
    /// The program, the drop-in with the layers, the device and the rules.
    dir: PathBuf,
    cudnn: PathBuf,
    /// More directories with libraries, formatted for `LD_LIBRARY_PATH`.
    libraries: String,
    _temporary: Option<(TempDir, PlanningLibraries)>,
}

/// The first kind of noise with the C library's caches of threads.
const FIRST_WITH_CACHES: u32 = 4;
/// The number of kinds of noise, where 0 is none.
pub(super) const NOISE: u32 = 7;

impl Runner {
    /// Returns `None` if a download failed and tests may be skipped.
    pub(super) fn new(test: &str, release: &str) -> Option<Self> {
        let (libraries, cudnn) = PlanningLibraries::for_release(test, release)?;
        let functions = TempDir::new();
        let file = functions.path().join("functions.inc");
        let names: String = cudnn_loader::Function::ALL
            .iter()
            .filter(|function| function.since() <= support::version("jit-cu13-9.27.0"))
            .map(|function| format!("FUNCTION({})\n", function.name()))
            .collect();
        std::fs::write(&file, names).unwrap();
        let define = format!("-DFUNCTIONS=\"{}\"", file.display());
        let lib = drop_in().join("lib");
        let dir = support::client("calls.cpp", &lib, &["-std=c++17", "-O0", "-pthread", &define])?;
        for library in ["libcudnn.so.9", "libcudnn_layers.so"] {
            std::fs::copy(lib.join(library), dir.path().join(library)).unwrap();
        }
        std::fs::write(dir.path().join("device.json"), cudnn_sys::devices::H200).unwrap();
        let _ = errata_for_all_releases(dir.path());
        let _ = tuned_for_all_releases(dir.path());
        let path = libraries.path.clone();
        Some(Runner { dir: dir.path().to_owned(), cudnn, libraries: path, _temporary: Some((dir, libraries)) })
    }

    /// Uses a directory that [`Runner::copy_to`] has filled, on a machine with a cuDNN but without compilers.
    pub(super) fn prepared(dir: &Path, cudnn: &Path) -> Self {
        let libraries = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        Runner { dir: dir.to_owned(), cudnn: cudnn.to_owned(), libraries, _temporary: None }
    }

    pub(super) fn copy_to(&self, dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        for name in ["client", "libcudnn.so.9", "libcudnn_layers.so", "device.json", "errata.json", "tuned.json"] {
            std::fs::copy(self.dir.join(name), dir.join(name)).unwrap();
        }
    }

    /// Runs each program in a child of the same process, which has called cuDNN before.
    pub(super) fn run(
        &self,
        layers: &str,
        programs: &BTreeMap<u64, Vec<Step>>,
        warm_up: &[Step],
        noise: u32,
    ) -> Outputs {
        let forked: String = programs.iter().map(|(seed, steps)| text(&seed.to_string(), "forked", steps)).collect();
        let output = self.output(layers, &format!("{}{forked}", text("warm-up", "here", warm_up)), noise);
        let mut outputs = Outputs::new();
        for (seed, text) in output.split("program ").filter_map(|part| part.split_once(" forked\n")) {
            outputs.insert(seed.parse().unwrap(), text.to_owned());
        }
        // The process did not survive its first program.
        let last = output.lines().last().unwrap_or_default();
        for seed in programs.keys() {
            outputs.entry(*seed).or_insert_with(|| format!("not run: {last}\n"));
        }
        outputs
    }

    /// Runs a program in a separate process, where it makes the first call.
    pub(super) fn run_alone(&self, layers: &str, steps: &[Step], noise: u32) -> String {
        let output = self.output(layers, &text("alone", "here", steps), noise);
        output.split_once(" here\n").map(|(_, text)| text.to_owned()).unwrap_or_default()
    }

    /// Returns whether Valgrind is installed and finds that a program without layers uses freed memory.
    pub(super) fn uses_freed_memory(&self, steps: &[Step]) -> bool {
        let mut command = Command::new("valgrind");
        command.arg("--quiet").arg(self.dir.join("client"));
        self.end(command, "", &text("alone", "here", steps), 0)
            .is_ok_and(|(_, errors, _)| errors.contains("Invalid read") || errors.contains("Invalid write"))
    }

    /// Returns the output of a process, and how it ended.
    fn output(&self, layers: &str, programs: &str, noise: u32) -> String {
        let (output, errors, status) =
            self.end(Command::new(self.dir.join("client")), layers, programs, noise).expect("the client starts");
        assert!(!errors.contains(" is off: "), "{layers}: {errors}");
        let ending = match status.signal() {
            Some(libc::SIGALRM) => "hung".to_owned(),
            Some(_) => "crashed".to_owned(),
            None => format!("exit {}", status.code().unwrap_or_default()),
        };
        format!("{}\nprocess: {ending}\n", output.trim_end())
    }

    /// Runs the client's command to the end, and returns its outputs.
    fn end(
        &self,
        mut command: Command,
        layers: &str,
        programs: &str,
        noise: u32,
    ) -> std::io::Result<(String, String, ExitStatus)> {
        let dir = TempDir::new();
        let file = |name: &str| dir.path().join(name);
        std::fs::write(file("programs"), programs).unwrap();
        command.arg(file("programs")).arg(self.dir.join("device.json")).arg(noise.to_string());
        let path = format!("{}:{}", self.dir.display(), self.libraries);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LD_LIBRARY_PATH", path)
            .env("CUDA_VISIBLE_DEVICES", "-1")
            .env("CUDNN_LOADER_DIR", &self.cudnn);
        command.env("CUDNN_LAYERS", layers).env("HOME", dir.path());
        command.env("CUDNN_ERRATA", self.dir.join("errata.json")).env("CUDNN_TUNED", self.dir.join("tuned.json"));
        command.env("CUDNN_EXPLAIN", "used").env("CUDNN_PLANS_DIR", self.dir.join("plans"));
        // The client writes other bytes to its heap and stack before each step. In addition, the C library fills memory
        // with a byte when it is allocated, and with another when it is freed, except memory in its caches of threads.
        if (1..FIRST_WITH_CACHES).contains(&noise) {
            command.env("MALLOC_PERTURB_", (noise * 85).to_string());
            command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
        }
        for (variable, name) in [
            ("CUDNN_TRACE", "trace.json"),
            ("CUDNN_TRACE_SUMMARY", "trace.txt"),
            ("CUDNN_CAPTURE", "app.cudnncap"),
            ("CUDNN_EXPLAIN_OUTPUT", "explain.txt"),
            ("CUDNN_VALIDATE", "validate.txt"),
        ] {
            command.env(variable, file(name));
        }
        // Use a file, because a child that hangs would keep a pipe open.
        let printed = File::create(file("output")).unwrap();
        let to_errors = File::create(file("errors")).unwrap();
        let status = command.stdin(Stdio::null()).stdout(printed).stderr(to_errors).status()?;
        let read = |name: &str| String::from_utf8_lossy(&std::fs::read(file(name)).unwrap()).into_owned();
        Ok((read("output"), read("errors"), status))
    }
}

/// Returns the first lines that differ without and with layers, and their number.
pub(super) fn difference<'a>(without: &'a str, with: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let (mut a, mut b) = (without.lines(), with.lines());
    for number in 0.. {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((number, a.unwrap_or_default(), b.unwrap_or_default())),
        }
    }
    None
}
