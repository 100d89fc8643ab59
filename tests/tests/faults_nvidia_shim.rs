//! The fault matrix on full real releases, for NVIDIA's shim and for this project's loader. The test generates
//! docs/fault-matrix.md and fails when the file in the repository differs; `CUDNN_TESTS_WRITE=1` rewrites it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cudnn_loader::{Library, SubLibrary, Version};
use support::matrix::{Fault, a_function};
use support::{Child, ChildOutput, Subject, TempDir, check_document, compile, driver_and_compiler, lib_dir};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

/// A full real release, and libraries that do not belong to it.
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

    /// The release with the fault in one of its libraries; `None` if it cannot have this fault.
    fn with(&self, fault: Fault, file: Library) -> Option<TempDir> {
        if !self.full.file(file).exists() {
            return None;
        }
        // Not links: the loader would take the libraries that are missing here from where the links lead.
        let dir = TempDir::copy_of(self.full.path());
        let donor = match fault {
            Fault::OtherVersion => Some(&self.other_release),
            Fault::OtherCuda => self.other_cuda.as_ref(),
            _ => None,
        };
        match donor {
            // A child without privileges cannot follow symlinks into a home directory.
            Some(donor) if donor.join(file.file_name()).exists() => {
                std::fs::copy(donor.join(file.file_name()), dir.cleared(file)).unwrap();
            }
            _ if fault.applies_to(file) => fault.inject(&dir, file, self.version, 12),
            _ => return None,
        }
        Some(dir)
    }
}

/// Calls a function in a child. The child is ended when it opens a pipe in place of a library, because it would wait
/// for ever.
fn call(subject: Subject, dir: &TempDir, function: &str, faulty: Library, libraries: &Path) -> ChildOutput {
    let child = Child::new(DRIVER, subject, dir.path()).env("LD_LIBRARY_PATH", libraries).without_privileges();
    child.run_beside_pipe(&[function], &dir.file(faulty))
}

/// What cuDNN needs to plan for a described device: the driver's library, and a cuBLASLt that states its version.
fn libraries_for_plans() -> Option<TempDir> {
    let found = driver_and_compiler("the_documented_fault_matrix_is_true")?;
    let dir = TempDir::new();
    // A child without privileges cannot read the cache.
    let file = "libcuda.so.1";
    let driver = found.split(':').map(|dir| Path::new(dir).join(file)).find(|file| file.exists())?;
    std::fs::copy(driver, dir.path().join(file)).unwrap();
    let code = "unsigned long cublasLtGetVersion(void) { return 120900; }";
    let cublas = dir.path().join("libcublasLt.so.12");
    compile(code, &["-shared", "-fPIC", "-Wl,-soname,libcublasLt.so.12"], &cublas);
    Some(dir)
}

/// The faults that the libraries which graph opens get.
const PLUGIN_FAULTS: [Fault; 7] = [
    Fault::None,
    Fault::Absent,
    Fault::NoPermission,
    Fault::Pipe,
    Fault::Truncated,
    Fault::OtherVersion,
    Fault::OtherCuda,
];

/// The name under which the driver prints the result of an argument.
fn name_of(function: &str) -> &str {
    function.split(':').next().unwrap_or_default()
}

/// A cell of the table: how a call ended, and the first line of the message about it.
fn cell(output: &ChildOutput, function: &str, dir: &Path) -> String {
    let name = name_of(function);
    let outcome = match (output.signal, output.returned(name)) {
        (Some(6), _) => "**aborts**".into(),
        (Some(9), _) => return "**hangs**".into(),
        // The signal (SIGBUS or SIGSEGV) depends on the layout that the linker gives the fake library.
        (Some(_), _) => "**crashes**".into(),
        (None, Some(returned)) => returned.trim_start_matches("CUDNN_STATUS_").to_owned(),
        (None, None) => format!("**exits with {:?}**", output.code),
    };
    let message = output.last_error(name);
    let (source, text) = match message.lines().next() {
        Some(line) => ("", line),
        None => ("on stderr: ", output.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()),
    };
    // The length of a fake library depends on the compiler.
    let text =
        text.split_once(" is truncated: ").map_or(text.to_owned(), |(before, _)| format!("{before} is truncated"));
    let text = text.replace(&dir.display().to_string(), "…").replace('|', "\\|");
    match text.as_str() {
        "" => outcome,
        text => format!("{outcome}<br>{source}{text}"),
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
    let mut text = String::from(
        "# The fault matrix\n\n\
         Each row makes a first call while one library of a real installation is faulty: through NVIDIA's shim of two\n\
         releases, and through this project's loader. Each cell is a separate process. It shows the status or value that\n\
         the call returned, and the first line of the message that a program can get: from `cudnnGetLastErrorString`,\n\
         unless marked otherwise. `…` is the directory of the installation. The loader's full report has more lines: the\n\
         help, ld.so's message, and every path that was rejected.\n\n\
         This command generates the page and compares it with what happens, on Linux x86-64 without a GPU:\n\n\
         ```sh\ncargo test -p cudnn-tests --test faults_nvidia_shim -- --ignored\n```\n\n\
         All libraries are real except the faulty one, which is a fake with the same functions, each returning 0. The\n\
         libraries of another release are real too: 9.0.0 in 9.10.2, and 9.10.2 in 9.28.0. So are those for another CUDA\n\
         major in 9.28.0 (cu13 in cu12); in 9.10.2 they are fakes. There is no ext of another release to test with,\n\
         because 9.10.2 has none.\n\n\
         Programs do not call the engines and heuristics. `plan` asks the heuristics for engines for a convolution on a\n\
         described H200, with a real driver library, which makes graph open them. A call hangs if it waits for somebody\n\
         to write to the pipe.\n",
    );
    let Some(libraries) = libraries_for_plans() else { return };
    let device = libraries.path().join("h200.json");
    std::fs::write(&device, cudnn_backend::device::H200).unwrap();
    let plan = format!("plan:{}", device.display());
    let mut aborts = [0; 3];
    let of_programs = SubLibrary::ALL.iter().map(|library| (library.library(), Some(*library)));
    let of_graph = Library::OPENED_BY_GRAPH.iter().map(|library| (*library, None));
    for (library, sub_library) in of_programs.chain(of_graph) {
        let functions = match sub_library {
            Some(SubLibrary::Graph) => {
                vec![a_function(SubLibrary::Graph), "cudnnGetVersion", "cudnnGetErrorString", "cudnnGetLastErrorString"]
            }
            Some(sub_library) => vec![a_function(sub_library)],
            None => vec![plan.as_str()],
        };
        let faults = if sub_library.is_some() { &Fault::ALL[..] } else { &PLUGIN_FAULTS };
        let _ = writeln!(
            text,
            "\n## {library}\n\n| fault | call | NVIDIA's shim, 9.10.2 | NVIDIA's shim, 9.28.0 | the loader, on 9.28.0 |\n| --- | --- | --- | --- | --- |"
        );
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
                            aborts[index] += u32::from(output.signal.is_some());
                            cell(&output, function, dir.path())
                        }
                        None => "-".into(),
                    };
                }
                for dir in [&in_older, &in_newer].into_iter().flatten() {
                    let output = call(Subject::Loader, dir, function, library, libraries.path());
                    match sub_library {
                        Some(library) => check_loader(&output, fault, library, function),
                        None => check_plan(&output, fault, library),
                    }
                }
                let _ = writeln!(text, "| {} | `{}` | {} |", fault.description(), name_of(function), cells.join(" | "));
            }
        }
    }
    let [in_older, in_newer, ours] = aborts;
    let _ = writeln!(
        text,
        "\n## Aborts, crashes and hangs\n\nNVIDIA's shim of 9.10.2: {in_older}. NVIDIA's shim of 9.28.0: {in_newer}. The loader: {ours}."
    );
    check_document("docs/fault-matrix.md", &text);
}

/// A plan through the loader never ends the process. A library that graph cannot use is named, unless cuDNN does
/// without it.
fn check_plan(output: &ChildOutput, fault: Fault, library: Library) {
    let case = format!("{library}: {}: {output:#?}", fault.description());
    assert_eq!(output.code, Some(0), "{case}");
    let (returned, message) = (output.returned("plan").unwrap_or_default(), output.last_error("plan"));
    match fault {
        Fault::None => assert!(returned.ends_with("configurations"), "{case}"),
        Fault::Absent | Fault::OtherVersion => assert!(!returned.is_empty(), "{case}"),
        // Heuristics have no GPU code, which would state it.
        Fault::OtherCuda if library == Library::Heuristic => assert!(!returned.is_empty(), "{case}"),
        _ => {
            assert!(returned.starts_with("CUDNN_STATUS_SUBLIBRARY_"), "{case}");
            assert!(message.contains(library.file_name()) && message.contains("help: "), "{case}");
        }
    }
}

/// For each fault, the loader must return a failure and name the function and the library.
fn check_loader(output: &ChildOutput, fault: Fault, library: SubLibrary, function: &str) {
    let case = format!("{library}: {}: {output:#?}", fault.description());
    assert_eq!(output.code, Some(0), "{case}");
    let returned = output.returned(function).unwrap_or_default();
    let message = output.last_error(function);
    // A graph library of another release works as long as nothing else is used.
    let is_fault = fault != Fault::None && (fault, library) != (Fault::OtherVersion, SubLibrary::Graph);
    match function {
        "cudnnGetErrorString" => assert_eq!(returned, "CUDNN_STATUS_SUCCESS", "{case}"),
        "cudnnGetLastErrorString" => assert_eq!(returned, "()", "{case}"),
        "cudnnGetVersion" => assert_eq!(returned == "0", is_fault && fault != Fault::LacksFunction, "{case}"),
        _ if is_fault => {
            assert!(returned.starts_with("CUDNN_STATUS_") && !returned.contains("SUCCESS"), "{case}");
            // Among libraries for another CUDA major, the first that differs from the rest is named.
            let is_any = (fault, library) == (Fault::OtherCuda, SubLibrary::Graph);
            let named = if is_any { "libcudnn_" } else { library.file_name() };
            for fragment in [function, "help: ", named] {
                assert!(message.contains(fragment), "{fragment:?} is missing. {case}");
            }
        }
        // cuDNN itself may reject a null handle; the loader must not.
        _ => assert!(!message.contains("cannot be called"), "{case}"),
    }
}
