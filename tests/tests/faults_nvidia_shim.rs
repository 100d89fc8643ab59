//! Runs the fault matrix on full real releases, for NVIDIA's shim and for this project's loader. The test compares the
//! results with docs/data/fault-matrix.csv, which the documentation site shows as a page, and which
//! `CUDNN_TESTS_WRITE=1` rewrites.

use std::path::{Path, PathBuf};

use cudnn_loader::{Library, Version};
use support::matrix::{Fault, a_function};
use support::{
    Child, ChildOutput, Subject, TempDir, check_document, compile, csv_line, driver_and_compiler, lib_dir, link_or_copy,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

struct Release {
    version: Version,
    full: TempDir,
    other_release: PathBuf,
    other_cuda: Option<PathBuf>,
}

impl Release {
    fn new(id: &str, version: Version, other: &str, other_cuda: Option<&str>) -> Option<Self> {
        Some(Release {
            version,
            full: TempDir::copy_of(&lib_dir(id)?),
            other_release: lib_dir(other)?,
            other_cuda: match other_cuda {
                Some(id) => Some(lib_dir(id)?),
                None => None,
            },
        })
    }

    /// Returns the release with the fault in one of the libraries, or `None` if this library cannot have the fault.
    fn with(&self, fault: Fault, file: Library) -> Option<TempDir> {
        if !self.full.file(file).exists() {
            return None;
        }
        // Use copies, because the loader would replace missing libraries by files from the link targets' directory.
        let dir = TempDir::copy_of(self.full.path());
        let donor = match fault {
            Fault::OtherVersion => Some(&self.other_release),
            Fault::OtherCuda => self.other_cuda.as_ref(),
            _ => None,
        };
        match donor {
            // An unprivileged child cannot follow symlinks into a home directory.
            Some(donor) if donor.join(file.file_name()).exists() => {
                link_or_copy(&donor.join(file.file_name()), &dir.cleared(file)).unwrap();
            }
            _ if fault.applies_to(file) => fault.inject(&dir, file, self.version, 12),
            _ => return None,
        }
        Some(dir)
    }
}

/// Calls a function in a child, which is killed if it opens a pipe as a library, because it would wait forever.
fn call(subject: Subject, dir: &TempDir, function: &str, faulty: Library, libraries: &Path) -> ChildOutput {
    let child = Child::new(DRIVER, subject, dir.path()).env("LD_LIBRARY_PATH", libraries).without_privileges();
    child.run_until_pipe_opens(&[function], &dir.file(faulty))
}

/// Returns the libraries for planning: the driver, and a cuBLASLt that only reports a version.
fn libraries_for_plans() -> Option<TempDir> {
    let found = driver_and_compiler("the_documented_fault_matrix_is_true")?;
    let dir = TempDir::new();
    // An unprivileged child cannot read the cache.
    let file = "libcuda.so.1";
    let driver = found.split(':').map(|dir| Path::new(dir).join(file)).find(|file| file.exists())?;
    std::fs::copy(driver, dir.path().join(file)).unwrap();
    let code = "unsigned long cublasLtGetVersion(void) { return 120900; }";
    let cublas = dir.path().join("libcublasLt.so.12");
    compile(code, &["-shared", "-fPIC", "-Wl,-soname,libcublasLt.so.12"], &cublas);
    Some(dir)
}

/// The faults for libraries that graph opens.
const PLUGIN_FAULTS: [Fault; 7] = [
    Fault::None,
    Fault::Absent,
    Fault::NoPermission,
    Fault::Pipe,
    Fault::Truncated,
    Fault::OtherVersion,
    Fault::OtherCuda,
];

/// Returns the name under which the driver prints the result of an argument.
fn name_of(function: &str) -> &str {
    function.split(':').next().unwrap_or_default()
}

/// Returns a field of the table: how a call ended, and the first line of the message about it.
fn cell(output: &ChildOutput, function: &str, dir: &Path) -> String {
    let name = name_of(function);
    let outcome = match (output.signal, output.returned(name)) {
        (Some(6), _) => "aborts".into(),
        (Some(9), _) => return "hangs".into(),
        // The signal (SIGBUS or SIGSEGV) depends on the linker's layout of the fake library.
        (Some(_), _) => "crashes".into(),
        (None, Some(returned)) => returned.trim_start_matches("CUDNN_STATUS_").to_owned(),
        (None, None) => format!("exits with {:?}", output.code),
    };
    let message = output.last_error(name);
    let (source, text) = match message.lines().next() {
        Some(line) => ("", line),
        None => ("on stderr: ", output.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()),
    };
    // The length of a fake library depends on the compiler.
    let text =
        text.split_once(" is truncated: ").map_or(text.to_owned(), |(before, _)| format!("{before} is truncated"));
    let text = text.replace(&dir.display().to_string(), "…");
    match text.as_str() {
        "" => outcome,
        text => format!("{outcome}: {source}{text}"),
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_documented_fault_matrix_is_true() {
    let (Some(older), Some(newer)) = (
        Release::new("cu12-9.10.2", Version::new(9, 10, 2), "cu12-9.0.0", None),
        Release::new("cu12-9.28.0", Version::new(9, 28, 0), "cu12-9.10.2", Some("cu13-9.28.0")),
    ) else {
        return;
    };
    let columns = ["library", "fault", "call", "NVIDIA's shim 9.10.2", "NVIDIA's shim 9.28.0", "the loader on 9.28.0"];
    let mut csv = csv_line(columns);
    let Some(libraries) = libraries_for_plans() else { return };
    let device = libraries.path().join("h200.json");
    std::fs::write(&device, cudnn_backend::device::H200).unwrap();
    let plan = format!("plan:{}", device.display());
    for library in Library::WITH_API.iter().chain(Library::OPENED_BY_GRAPH).copied() {
        let has_api = Library::WITH_API.contains(&library);
        let functions = match library {
            Library::Graph => {
                vec![a_function(Library::Graph), "cudnnGetVersion", "cudnnGetErrorString", "cudnnGetLastErrorString"]
            }
            _ if has_api => vec![a_function(library)],
            _ => vec![plan.as_str()],
        };
        let faults = if has_api { &Fault::ALL[..] } else { &PLUGIN_FAULTS };
        for fault in faults.iter().copied() {
            let (in_older, in_newer) = (older.with(fault, library), newer.with(fault, library));
            if in_older.is_none() && in_newer.is_none() {
                continue;
            }
            for function in functions.iter().copied() {
                let mut cells = [String::new(), String::new(), String::new()];
                for (index, (subject, dir)) in
                    [(Subject::Shim, &in_older), (Subject::Shim, &in_newer), (Subject::Loader, &in_newer)]
                        .into_iter()
                        .enumerate()
                {
                    cells[index] = match dir {
                        Some(dir) => {
                            let output = call(subject, dir, function, library, libraries.path());
                            cell(&output, function, dir.path())
                        }
                        None => "-".into(),
                    };
                }
                for dir in [&in_older, &in_newer].into_iter().flatten() {
                    let output = call(Subject::Loader, dir, function, library, libraries.path());
                    if has_api {
                        check_loader(&output, fault, library, function);
                    } else {
                        check_plan(&output, fault, library);
                    }
                }
                let case = [library.file_name(), fault.description(), name_of(function)];
                csv += &csv_line(case.into_iter().chain(cells.iter().map(String::as_str)));
            }
        }
    }
    check_document("docs/data/fault-matrix.csv", &csv);
}

/// Checks that a plan through the loader never crashes the process, and that the report names an unusable library
/// unless cuDNN works without it.
fn check_plan(output: &ChildOutput, fault: Fault, library: Library) {
    let case = format!("{library}: {}: {output:#?}", fault.description());
    assert_eq!(output.code, Some(0), "{case}");
    let (returned, message) = (output.returned("plan").unwrap_or_default(), output.last_error("plan"));
    match fault {
        Fault::None => assert!(returned.ends_with("configurations"), "{case}"),
        Fault::Absent | Fault::OtherVersion => assert!(!returned.is_empty(), "{case}"),
        // Heuristics contain no GPU code, so the CUDA version is unknown.
        Fault::OtherCuda if library == Library::Heuristic => assert!(!returned.is_empty(), "{case}"),
        _ => {
            assert!(returned.starts_with("CUDNN_STATUS_SUBLIBRARY_"), "{case}");
            assert!(message.contains(library.file_name()) && message.contains("help: "), "{case}");
        }
    }
}

/// Checks that the loader returns a failure for every fault and names the function and the library.
fn check_loader(output: &ChildOutput, fault: Fault, library: Library, function: &str) {
    let case = format!("{library}: {}: {output:#?}", fault.description());
    assert_eq!(output.code, Some(0), "{case}");
    let returned = output.returned(function).unwrap_or_default();
    let message = output.last_error(function);
    // A graph library from another release or for another CUDA works until another library is used.
    let is_alone = library == Library::Graph && matches!(fault, Fault::OtherVersion | Fault::OtherCuda);
    let is_fault = fault != Fault::None && !is_alone;
    match function {
        "cudnnGetErrorString" => assert_eq!(returned, "CUDNN_STATUS_SUCCESS", "{case}"),
        "cudnnGetLastErrorString" => assert_eq!(returned, "()", "{case}"),
        "cudnnGetVersion" => assert_eq!(returned == "0", is_fault && fault != Fault::LacksFunction, "{case}"),
        _ if is_fault => {
            assert!(returned.starts_with("CUDNN_STATUS_") && !returned.contains("SUCCESS"), "{case}");
            for fragment in [function, "help: ", library.file_name()] {
                assert!(message.contains(fragment), "{fragment:?} is missing. {case}");
            }
        }
        // cuDNN itself may reject a null handle, but the loader must not.
        _ => assert!(!message.contains("cannot be called"), "{case}"),
    }
}
