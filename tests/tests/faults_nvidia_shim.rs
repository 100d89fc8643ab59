//! The fault matrix on full real releases, for NVIDIA's shim and for this project's loader. The test generates
//! docs/fault-matrix.md and fails when the file in the repository differs; `CUDNN_TESTS_WRITE=1` rewrites it.
#![cfg(feature = "full-releases")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cudnn_loader::{SubLibrary, Version};
use support::matrix::{Fault, a_function};
use support::{Child, ChildOutput, Subject, TempDir, check_document, lib_dir};

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
    fn with(&self, fault: Fault, library: SubLibrary) -> Option<TempDir> {
        let file = library.library();
        if !self.full.file(file).exists() {
            return None;
        }
        let dir = TempDir::links_to(self.full.path());
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
            _ if fault.applies_to(library) => fault.inject(&dir, library, self.version, 12),
            _ => return None,
        }
        Some(dir)
    }
}

fn call(subject: Subject, dir: &TempDir, function: &str) -> ChildOutput {
    Child::new(DRIVER, subject, dir.path()).without_privileges().run(&[function])
}

/// A cell of the table: how a call ended, and the first line of the message about it.
fn cell(output: &ChildOutput, function: &str, dir: &Path) -> String {
    let outcome = match (output.signal, output.returned(function)) {
        (Some(6), _) => "**aborts**".into(),
        // The signal (SIGBUS or SIGSEGV) depends on the layout that the linker gives the fake library.
        (Some(_), _) => "**crashes**".into(),
        (None, Some(returned)) => returned.trim_start_matches("CUDNN_STATUS_").to_owned(),
        (None, None) => format!("**exits with {:?}**", output.code),
    };
    let message = output.last_error(function);
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
         ```sh\ncargo test -p cudnn-tests --features full-releases --test faults_nvidia_shim\n```\n\n\
         All libraries are real except the faulty one, which is a fake with the same functions, each returning 0. The\n\
         libraries of another release are real too: 9.0.0 in 9.10.2, and 9.10.2 in 9.28.0. So are those for another CUDA\n\
         major in 9.28.0 (cu13 in cu12); in 9.10.2 they are fakes. There is no ext of another release to test with,\n\
         because 9.10.2 has none.\n",
    );
    let mut aborts = [0; 3];
    for library in SubLibrary::ALL.iter().copied() {
        let functions = match library {
            SubLibrary::Graph => {
                &[a_function(library), "cudnnGetVersion", "cudnnGetErrorString", "cudnnGetLastErrorString"][..]
            }
            _ => &[a_function(library)],
        };
        let _ = writeln!(
            text,
            "\n## {library}\n\n| fault | call | NVIDIA's shim, 9.10.2 | NVIDIA's shim, 9.28.0 | the loader, on 9.28.0 |\n| --- | --- | --- | --- | --- |"
        );
        for fault in Fault::ALL {
            let (in_older, in_newer) = (older.with(fault, library), newer.with(fault, library));
            if in_older.is_none() && in_newer.is_none() {
                continue;
            }
            for function in functions {
                let mut cells = [String::new(), String::new(), String::new()];
                for (index, (subject, dir)) in
                    [(Subject::Shim, &in_older), (Subject::Shim, &in_newer), (Subject::Loader, &in_newer)]
                        .into_iter()
                        .enumerate()
                {
                    cells[index] = match dir {
                        Some(dir) => {
                            let output = call(subject, dir, function);
                            aborts[index] += u32::from(output.signal.is_some());
                            cell(&output, function, dir.path())
                        }
                        None => "-".into(),
                    };
                }
                for dir in [&in_older, &in_newer].into_iter().flatten() {
                    check_loader(&call(Subject::Loader, dir, function), fault, library, function);
                }
                let _ = writeln!(text, "| {} | `{function}` | {} |", fault.description(), cells.join(" | "));
            }
        }
    }
    let [in_older, in_newer, ours] = aborts;
    let _ = writeln!(
        text,
        "\n## Aborts and crashes\n\nNVIDIA's shim of 9.10.2: {in_older}. NVIDIA's shim of 9.28.0: {in_newer}. The loader: {ours}."
    );
    check_document("docs/fault-matrix.md", &text);
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
