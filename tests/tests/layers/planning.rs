//! Runs the planner with a real cuDNN that plans for a described H200, or with a stand-in that executes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use support::{Child, ChildOutput, FakeLibrary, Library, PlanningLibraries, Share, Subject, TempDir, Version, is_full};

use crate::plans::PLANNER;

pub(super) struct Planning {
    pub(super) dir: TempDir,
    pub(super) cudnn: PathBuf,
    /// `None` for the stand-in.
    pub(super) libraries: Option<PlanningLibraries>,
}

impl Planning {
    pub(super) fn real(test: &str, release: &str) -> Option<Self> {
        let (libraries, cudnn) = PlanningLibraries::for_release(test, release)?;
        let dir = TempDir::new();
        std::fs::write(dir.path().join("h200.json"), cudnn_backend::device::H200).unwrap();
        Some(Planning { dir, cudnn, libraries: Some(libraries) })
    }

    pub(super) fn stand_in() -> Self {
        let dir = TempDir::new();
        let code = include_str!("../../layers/planner.c");
        let graph =
            FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).with_body("LOG; return 0;");
        graph.build(&dir.file(Library::Graph));
        Planning { cudnn: dir.path().to_owned(), dir, libraries: None }
    }

    pub(super) fn device(&self) -> String {
        self.dir.path().join("h200.json").display().to_string()
    }

    pub(super) fn child(&self) -> Child {
        let child = Child::new(PLANNER, Subject::Loader, &self.cudnn);
        let child = child.env("CUDNN_PLANS_DIR", self.dir.path().join("plans"));
        match &self.libraries {
            Some(libraries) => child.env("LD_LIBRARY_PATH", &libraries.path),
            None => child,
        }
    }

    pub(super) fn run(&self, layers: &str, arguments: &[&str]) -> ChildOutput {
        self.child().run(&[&[layers], arguments].concat())
    }
}

/// The numbers of random programs, in one thread and in eight. An ordinary run tries a third, because the tests of `plans`
/// run more of them.
pub(super) fn random_programs() -> [&'static [&'static str]; 2] {
    if is_full() { [&["0", "300"], &["300", "600", "8"]] } else { [&["0", "100"], &["300", "400", "8"]] }
}

/// Asserts that random programs print the same with each of these combinations of layers and the stand-in as without layers.
/// `check` runs after each program. An ordinary run tries a third of the pairs of a program and a combination.
pub(super) fn check_random_programs(
    combinations: &[&str],
    run: impl Fn(&str, &[&str]) -> ChildOutput,
    check: impl Fn(),
) {
    let [single, threads] = random_programs();
    let programs = [single, threads, &["attack", "0", "200"], &["throw"], &["bounds"]];
    let cases = combinations.iter().flat_map(|layers| programs.map(|arguments| (layers, arguments)));
    for (layers, arguments) in cases.share(3) {
        let (without, with) = (run("none", arguments), run(layers, arguments));
        assert_eq!((with.code, without.code), (Some(0), Some(0)), "{layers} {arguments:?}: {with:#?}");
        let mut lines = without.stdout.lines().zip(with.stdout.lines());
        let difference = lines.find(|(without, with)| without != with);
        assert!(without.stdout == with.stdout, "{layers} {arguments:?}: {difference:#?}");
        check();
    }
}

/// The stand-in for NVRTC compiles again if the stored result is damaged or belongs to another program.
#[test]
fn compiled_programs_are_stored_and_verified() {
    let Some(planning) = Planning::real("compiled_programs_are_stored_and_verified", "jit-cu12-9.19.0") else { return };
    let (stand_in, _) = planning.libraries.as_ref().unwrap().path.split_once(':').unwrap();
    let results = Path::new(stand_in).join("results");
    std::fs::remove_file(&results).unwrap();
    std::fs::create_dir(&results).unwrap();
    // Two of three plans consist of the same program.
    let plan = || -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
        let output = planning.child().run(&["none", "real", "7", &planning.device()]);
        assert_eq!(output.stdout.matches("JSON of 556").count(), 3, "{output:#?}");
        let files = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|file| (file.clone(), (file.metadata().unwrap().modified().unwrap(), std::fs::read(file).unwrap())))
            .collect()
    };
    let stored = plan();
    assert_eq!(stored.len(), 2);
    assert!(stored == plan(), "a result is stored again");
    let [(file, (_, right)), (_, (_, other))] = stored.iter().collect::<Vec<_>>().try_into().unwrap();
    let middle = right.len() / 2;
    let flipped = [&right[..middle], &[!right[middle]], &right[middle + 1..]].concat();
    for wrong in [&right[..middle], &flipped, other] {
        std::fs::write(file, wrong).unwrap();
        let (_, replaced) = &plan()[file];
        assert!(replaced == right, "a wrong result of {} bytes is used", wrong.len());
    }
}

/// NVRTC may fail once because there is not enough memory. An error in the source is stored, because it happens again.
#[test]
fn transient_failures_of_nvrtc_are_not_stored() {
    // Its failing function is the first argument of the process, and each output has 16 bytes.
    let nvrtc = r#"
        #include <string.h>
        static const char *failing;
        __attribute__((constructor)) static void start(int count, char **args) { failing = args[1]; }
        static int status(const char *function) { return strcmp(function, failing) ? 0 : 1; }
        #define OUTPUT(name) \
            int nvrtcGet##name##Size(void *program, size_t *size) { *size = 16; return status(__func__); } \
            int nvrtcGet##name(void *program, char *to) { strcpy(to, #name); return status(__func__); }
        OUTPUT(ProgramLog) OUTPUT(PTX) OUTPUT(CUBIN)
        int nvrtcCreateProgram(void **program) { return 0; }
        int nvrtcCompileProgram(void *program) { return status(__func__); }
        int nvrtcDestroyProgram(void **program) { return 0; }
    "#;
    let program = r#"
        #include <stdio.h>
        int nvrtcCreateProgram(void **, const char *, const char *, int, const char *const *, const char *const *);
        int nvrtcCompileProgram(void *, int, const char *const *);
        int nvrtcGetCUBIN(void *, char *);
        int main(void) {
            void *program;
            char cubin[16];
            nvrtcCreateProgram(&program, "source", "name", 0, 0, 0);
            int compiled = nvrtcCompileProgram(program, 0, 0), read = nvrtcGetCUBIN(program, cubin);
            printf("%d %d %s", compiled, read, cubin);
        }
    "#;
    let dir = TempDir::new();
    let [stand_in, results, real, main] =
        ["nvrtc-once", "results", "nvrtc.so", "main"].map(|name| dir.path().join(name));
    std::fs::create_dir(&results).unwrap();
    support::compile(nvrtc, &["-shared", "-fPIC"], &real);
    support::nvrtc_once(&stand_in, &real, &results);
    support::compile(program, &["-Wl,--no-as-needed", "-L", stand_in.to_str().unwrap(), "-l:libnvrtc.so.12"], &main);
    for (failing, expected, stored) in [
        ("nvrtcCompileProgram", "1 0 CUBIN", 0),
        ("nvrtcGetPTXSize", "0 0 CUBIN", 0),
        ("nvrtcGetCUBIN", "0 1 CUBIN", 0),
        ("none", "0 0 CUBIN", 1),
        ("nvrtcCompileProgram", "0 0 CUBIN", 1),
    ] {
        let output = Command::new(&main).arg(failing).env("LD_LIBRARY_PATH", &stand_in).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{failing}: {output:?}");
        assert_eq!(std::fs::read_dir(&results).unwrap().count(), stored, "{failing}");
    }
}
