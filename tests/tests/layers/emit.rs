//! Tests programs from captures. They plan the same graphs in the same way, fail in the same way, and compute the same
//! results. Texts of the capture remain text.

use std::path::PathBuf;
use std::process::Command;

use cudnn_replay::emit::{Case, Language, emit};
use cudnn_store::captures::{Capture, DeviceRecord, FailureRecord, PlanRecord, Record, StartRecord, Status};
use cudnn_sys::types::cudnnStatus_t;
use support::{
    FakeLibrary, Library, PlanningLibraries, TempDir, Version, cpp_compiler, drop_in, lib_dir, root, run_compiler,
};

use crate::capture::Capturing;

const RELEASE: &str = "jit-cu12-9.19.0";

fn text(program: &str) -> impl Iterator<Item = &str> {
    program.lines().filter(|line| line.contains("!planted"))
}

struct Programs {
    dir: TempDir,
    cudnn: PathBuf,
}

impl Programs {
    /// Compiles a program, and returns the command that runs it.
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
        }
    }

    fn run(&self, case: &Case, language: Language, libraries: &str) -> (String, Capture) {
        let file = self.dir.path().join("program.cudnncap");
        let _ = std::fs::remove_file(&file);
        let output = self
            .built(&emit(case, language).unwrap(), language)
            .env("CUDNN_LOADER_DIR", &self.cudnn)
            .env("CUDNN_LAYERS", "capture")
            .env("CUDNN_CAPTURE", &file)
            .env("LD_LIBRARY_PATH", format!("{}:{libraries}", drop_in().join("lib").display()))
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr.clone()).unwrap();
        let is_about_release = |line: &str| line.starts_with("note: the capture is of cuDNN ");
        assert!(stderr.lines().all(is_about_release), "{language:?} {output:?}");
        (String::from_utf8(output.stdout).unwrap(), Capture::read(&file).unwrap())
    }
}

const LANGUAGES: [Language; 2] = [Language::Cpp, Language::Python];

macro_rules! all {
    ($capture:expr, $variant:ident) => {
        $capture.records.iter().filter_map(|record| if let Record::$variant(it) = record { Some(it) } else { None })
    };
}

/// Returns the part that must be the same in the capture of an emitted program.
fn comparable(plan: &PlanRecord) -> PlanRecord {
    PlanRecord { plan: 0, device: None, proposal: None, build_us: 0, ..plan.clone() }
}

#[test]
fn programs_plan_the_same_graphs_in_the_same_way() {
    let test = "programs_plan_the_same_graphs_in_the_same_way";
    let (Some(capturing), Some(cudnn)) = (Capturing::real(test, RELEASE), lib_dir(RELEASE)) else { return };
    let records = capturing.capture(&["works", "fused", "mixed-types", "integers"]);
    let capture = Capture { records, ..Capture::default() };
    let graphs = cudnn_replay::replay::capture::graphs([&capture]);
    let graphs: Vec<_> =
        graphs.into_iter().filter(|graph| all!(capture, Graph).any(|it| it.graph == graph.id)).collect();
    assert_eq!(graphs.len(), 4);
    let programs = Programs { dir: TempDir::new(), cudnn };
    for graph in &graphs {
        let case = Case::select(&capture, &graph.id).unwrap();
        let expected = match &graph.plan {
            Some(plan) if plan.status == Status::SUCCESS => format!(
                "status: CUDNN_STATUS_SUCCESS\nengine: {}\nworkspace: {}\n",
                plan.engine.as_ref().unwrap().index,
                plan.workspace.unwrap()
            ),
            Some(plan) => {
                let reason = plan.reason.as_deref().unwrap();
                format!("failed: the plan\nstatus: CUDNN_STATUS_{}\nreason: {reason}\n", plan.status)
            }
            // The heuristics have refused all engines, and cuDNN lists the reasons.
            None => "failed: planning\nstatus: none: no engine is proposed\nreason: {\"engineId\":".to_owned(),
        };
        for language in LANGUAGES {
            let (stdout, again) = programs.run(&case, language, capturing.library_path().unwrap());
            let expected = format!("cudnn: 91900\ndevice: described\n{expected}");
            assert!(stdout.starts_with(&expected), "{language:?} {stdout}");
            assert_eq!(graph.plan.is_none(), stdout.contains("is_input_compute_type_match"), "{stdout}");
            // The capture of the program contains what it was written from.
            let ids: Vec<_> = all!(again, Graph).map(|graph| &graph.graph).collect();
            assert_eq!(ids, [&graph.id], "{language:?}");
            let plans: Vec<_> = all!(again, Plan).map(comparable).collect();
            assert_eq!(plans, graph.plan.iter().map(comparable).collect::<Vec<_>>(), "{language:?}");
            let device = |device: &DeviceRecord| device.description.clone();
            assert!(all!(again, Device).map(device).eq(all!(capture, Device).map(device)), "{language:?}");
        }
    }
}

#[test]
fn programs_for_captures_of_older_releases_plan_with_newer_ones() {
    assert_plans_with("programs_for_captures_of_older_releases_plan_with_newer_ones", "jit-cu13-9.27.0");
}

/// Asserts that a program for a graph that cuDNN 9.19 has captured on an H200 plans with a newer release, which needs
/// more members of the device's description.
pub(super) fn assert_plans_with(test: &str, release: &str) {
    let (Some(capturing), Some(cudnn)) = (Capturing::real(test, RELEASE), lib_dir(release)) else { return };
    let capture = Capture { records: capturing.capture(&["works"]), ..Capture::default() };
    let mut case = Case::select(&capture, "").unwrap();
    // Another release may not have the engine.
    case.captured.plan = None;
    let mut device: serde_json::Value = serde_json::from_str(case.captured.device.as_deref().unwrap()).unwrap();
    for member in ["smCountOrigin", "oversizedSharedMemoryPerBlock", "memoryBusWidth"] {
        assert!(device.as_object_mut().unwrap().remove(member).is_some());
    }
    case.captured.device = Some(device.to_string());
    let programs = Programs { dir: TempDir::new(), cudnn };
    let (stdout, _) = programs.run(&case, Language::Python, capturing.library_path().unwrap());
    let version = support::version(release);
    let number = version.major * 10_000 + version.minor * 100 + version.patch;
    let expected = format!("cudnn: {number}\ndevice: described\n");
    assert!(stdout.starts_with(&expected) && stdout.contains("\nstatus: CUDNN_STATUS_SUCCESS\n"), "{stdout}");
}

/// The attributes of described devices have no names before 9.8.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn programs_compile_with_the_headers_of_the_oldest_release() {
    let Some(cudnn) = lib_dir("cu12-9.0.0") else { return };
    let capture = Capture::read(&root().join("tests/captures/small.cudnncap")).unwrap();
    let program = emit(&Case::select(&capture, "7129").unwrap(), Language::Cpp).unwrap();
    Programs { dir: TempDir::new(), cudnn }.built(&program, Language::Cpp);
}

/// Failed calls: dimensions of the wrong type, an operation without output, and a descriptor with special numbers.
const FAILURES: [&str; 3] = [
    r#"{"record":"failure","call":"cudnnBackendSetAttribute","status":"BAD_PARAM_ATTRIBUTE_TYPE","attribute":["TENSOR_DIMENSIONS",23,2,"0400000008000000"],"descriptors":[{"kind":"TENSOR","finalized":false,"DATA_TYPE:1":2,"UNIQUE_ID:3":7}]}"#,
    r#"{"record":"failure","call":"cudnnBackendFinalize","status":"BAD_PARAM","descriptors":[{"kind":"POINTWISE","MODE:14":100,"MATH_PREC:1":0},{"kind":"TENSOR","DATA_TYPE:1":2,"DIMENSIONS:3":[1,4,8],"STRIDES:3":[32,8,1],"UNIQUE_ID:3":1,"BYTE_ALIGNMENT:3":16},{"kind":"OPERATION_POINTWISE","finalized":false,"PW_DESCRIPTOR:15":0,"XDESC:15":1}]}"#,
    r#"{"record":"failure","call":"cudnnBackendSetAttribute","status":"BAD_PARAM","attribute":["POINTWISE_AXIS",23,1,"01000000"],"descriptors":[{"kind":"POINTWISE","finalized":false,"MODE:14":100,"RELU_LOWER_CLIP:4":3.4028234663852886e38,"RELU_UPPER_CLIP:4":"7ff0000020000000","RELU_LOWER_CLIP_SLOPE:5":1.7976931348623157e308,"ELU_ALPHA:4":1.401298464324817e-45,"SOFTPLUS_BETA:5":"fff0000000000000","SWISH_BETA:5":5e-324}]}"#,
];

#[test]
fn programs_repeat_failed_calls() {
    let test = "programs_repeat_failed_calls";
    let Some((libraries, cudnn)) = PlanningLibraries::for_release(test, RELEASE) else { return };
    let programs = Programs { dir: TempDir::new(), cudnn };
    for line in FAILURES {
        let Ok(Record::Failure(failure)) = serde_json::from_str(line) else { panic!("{line}") };
        let start = StartRecord { format: 1, cudnn: 91_900, cudart: 12_090 };
        let capture =
            Capture { records: vec![Record::Start(start), Record::Failure(failure.clone())], ..Capture::default() };
        let case = Case::select(&capture, &failure.graph().unwrap().id()).unwrap();
        let results = LANGUAGES.map(|language| programs.run(&case, language, &libraries.path));
        for (stdout, again) in &results {
            let repeated: Vec<&FailureRecord> = all!(again, Failure).collect();
            let [repeated] = repeated[..] else { panic!("{stdout} {again:?}") };
            let reason = repeated.reason.as_deref().unwrap();
            let end = format!("status: CUDNN_STATUS_{}\nreason: {reason}\n", failure.status);
            assert!(
                stdout.starts_with("cudnn: 91900\ndevice: described\nfailed: d") && stdout.ends_with(&end),
                "{stdout}"
            );
            assert_eq!(stdout, &results[0].0);
            // NaNs differ from themselves.
            let content = |failure: &FailureRecord| {
                let descriptors = serde_json::to_string(&failure.descriptors).unwrap();
                // Emulators refuse to copy elements of the wrong type.
                let is_emulated = cfg!(not(target_arch = "x86_64"));
                let attribute = failure
                    .attribute
                    .clone()
                    .map(|(name, ty, count, elements)| (name, ty, count, elements.filter(|_| !is_emulated)));
                (failure.call.clone(), failure.status, attribute, descriptors)
            };
            assert_eq!(content(repeated), content(&failure));
        }
    }
}

/// A driver that uses host memory as device memory.
const DRIVER: &str = r#"
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 0; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strcpy(name, "stand-in"); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = malloc(1); return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(void **address, size_t size) { *address = aligned_alloc(256, (size + 255) / 256 * 256); return 0; }
int cuMemcpyHtoD_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
"#;

/// A cuDNN that adds a host value to all bytes of the first tensor, and checks the alignment of the second one.
const CUDNN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned char *pointers[3];
int cudnnCreate(void **handle) { *handle = malloc(1); return 0; }
int cudnnBackendCreateDescriptor(int kind, void **descriptor) { *descriptor = malloc(1); return 0; }
int cudnnBackendSetAttribute(void *descriptor, int name, int type, long long count, const void *elements) {
    if (name == 1001 && count == 3) memcpy(pointers, elements, sizeof pointers);
    return 0;
}
int cudnnBackendGetAttribute(void *descriptor, int name, int type, long long room, long long *count, void *elements) {
    if (type == 3) *(long long *)elements = 0;
    *count = 1;
    return 0;
}
int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    if ((unsigned long)pointers[1] % 64 != 32) abort();
    for (int i = 0; i < 16; i++) pointers[1][i] = pointers[0][i] + pointers[2][0];
    return 0;
}
"#;

/// A graph with an input, an output and a scalar, and an execution with the values of all tensors.
const EXECUTED: [&str; 8] = [
    r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#,
    r#"{"record":"graph","graph":"x","label":"","nodes":[{"kind":"TENSOR","DATA_TYPE:1":3,"DIMENSIONS:3":[16],"STRIDES:3":[1],"UNIQUE_ID:3":1},{"kind":"TENSOR","DATA_TYPE:1":3,"DIMENSIONS:3":[16],"STRIDES:3":[1],"UNIQUE_ID:3":2},{"kind":"TENSOR","DATA_TYPE:1":3,"DIMENSIONS:3":[1],"STRIDES:3":[1],"UNIQUE_ID:3":3,"IS_BY_VALUE:2":1},{"kind":"OPERATIONGRAPH","OPS:15":[0,1,2]}]}"#,
    r#"{"record":"plan","plan":0,"graph":"x","status":"SUCCESS","engine":{"index":0},"build_us":1}"#,
    r#"{"record":"data","plan":0,"execution":1,"uid":1,"is_after":false,"file":"x","bytes":16}"#,
    r#"{"record":"data","plan":0,"execution":1,"uid":2,"is_after":false,"file":"y","bytes":16}"#,
    r#"{"record":"data","plan":0,"execution":1,"uid":1,"is_after":true,"file":"x","bytes":16}"#,
    r#"{"record":"data","plan":0,"execution":1,"uid":2,"is_after":true,"file":"after","bytes":16}"#,
    r#"{"record":"execution","plan":0,"status":"SUCCESS","tensors":[{"uid":1,"memory":{"buffer":0,"offset":0,"span":16,"alignment":16}},{"uid":2,"memory":{"buffer":0,"offset":16,"span":16,"alignment":32}},{"uid":3,"memory":{"buffer":1,"offset":0,"alignment":1,"is_host":true},"value":"05"}]}"#,
];

/// Programs execute with the captured values, on a stand-in for a GPU, and compare the results.
#[test]
fn programs_compare_results_with_captured_ones() {
    if support::is_emulated("programs_compare_results_with_captured_ones", "Python cannot load emulated libraries") {
        return;
    }
    let Some(cudnn) = lib_dir(RELEASE) else { return };
    let dir = TempDir::new();
    let stand_in = dir.path().join("lib");
    std::fs::create_dir_all(&stand_in).unwrap();
    std::os::unix::fs::symlink(cudnn.join("../include").canonicalize().unwrap(), dir.path().join("include")).unwrap();
    let file = dir.path().join("app.cudnncap");
    let data = dir.path().join("app.cudnncap.data");
    std::fs::create_dir_all(&data).unwrap();
    let programs = Programs { dir, cudnn: stand_in.clone() };
    let capture = Capture::parse((EXECUTED.join("\n") + "\n").as_bytes()).unwrap();
    for library in [Library::Shim, Library::Graph] {
        let fake = FakeLibrary::new(library, Version::new(9, 19, 0)).with_code(CUDNN).with_body("return 0;");
        fake.build(&stand_in.join(library.linux_name()));
    }
    support::compile(DRIVER, &["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"], &stand_in.join("libcuda.so.1"));
    let run = |case: &Case, language| {
        let mut command = programs.built(&emit(case, language).unwrap(), language);
        let output = command.env("CUDNN_LOADER_DIR", &stand_in).env("LD_LIBRARY_PATH", &stand_in).output().unwrap();
        let start = "cudnn: 91900\ndevice: stand-in\nstatus: CUDNN_STATUS_SUCCESS\n";
        assert!(output.stdout.starts_with(start.as_bytes()), "{language:?} {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.starts_with("tensor")).fold(String::new(), |all, line| all + line + "\n")
    };
    let input: Vec<u8> = (200..216).collect();
    let mut after: Vec<u8> = input.iter().map(|byte| byte + 5).collect();
    let write = |name: &str, bytes: &[u8]| std::fs::write(data.join(name), bytes).unwrap();
    write("x", &input);
    write("y", &[0; 16]);
    let mut case = Case::select(&capture, "").unwrap();
    let generated = LANGUAGES.map(|language| run(&case, language));
    assert!(generated[0].starts_with("tensor 2: crc32 ") && !generated[0].contains("captured"), "{generated:?}");
    assert!(generated.iter().all(|output| *output == generated[0]), "{generated:?}");
    let missing = case.read_values(&file).unwrap_err();
    assert!(missing.starts_with("the file \"after\" for tensor "), "{missing}");
    for expected in ["bits as captured", "other bits than captured"] {
        write("after", &after);
        case.read_values(&file).unwrap();
        for language in LANGUAGES {
            // Python's `zlib.crc32(bytes(range(205, 221)))`.
            assert_eq!(run(&case, language), format!("tensor 2: crc32 a89fa162, {expected}\n"), "{language:?}");
        }
        after[15] ^= 1;
    }
}

#[test]
fn texts_of_a_capture_do_not_become_code() {
    let Some(cudnn) = lib_dir(RELEASE) else { return };
    let programs = Programs { dir: TempDir::new(), cudnn };
    let mut capture = Capture::read(&root().join("tests/captures/small.cudnncap")).unwrap();
    let hostile = "\\\n!planted\r!planted\u{2028}!planted \\\"\"\"'''*/ ??/\n!planted \u{202e}\u{0}@options@ {} \\";
    let mut failures = vec![capture.records[0].clone()];
    for record in &mut capture.records {
        match record {
            Record::Graph(graph) => {
                (graph.label, graph.graph) = (hostile.to_owned(), hostile.to_owned());
            }
            Record::Plan(plan) => {
                plan.graph = hostile.to_owned();
                (plan.status, plan.reason) =
                    (cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED.into(), Some(hostile.to_owned()));
                plan.engine = None;
            }
            Record::Failure(failure) => {
                // Only the first line of this reason is shown.
                failure.reason = Some(format!("!planted {hostile}"));
                failures.push(Record::Failure(failure.clone()));
            }
            Record::Device(device) => {
                device.description =
                    serde_json::json!({ "deviceName": hostile, "text": hostile }).to_string() + hostile;
            }
            _ => {}
        }
    }
    let case = Case::select(&capture, hostile).unwrap();
    let failed = Case::select(&Capture { records: failures, ..Capture::default() }, "").unwrap();
    for (case, language) in [&case, &failed].into_iter().flat_map(|case| LANGUAGES.map(|language| (case, language))) {
        let program = emit(case, language).unwrap();
        assert!(program.is_ascii() && program.contains("!planted"), "{program}");
        assert!(!program.lines().any(|line| line.trim_start().starts_with("!planted")), "{program}");
        assert!(!program.contains("\r") && !text(&program).any(|line| line.ends_with("\\")), "{program}");
        // The program compiles, and exits before it loads cuDNN.
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
