//! The fault matrix on whole real releases, NVIDIA's shim beside this project's loader: who aborts, and who says what.
//! The result is `docs/fault-matrix.md`; the test fails when it no longer tells the truth. Set `CUDNN_TESTS_WRITE=1` to
//! write it anew.
#![cfg(feature = "full-releases")]
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test says so by panicking")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cudnn_loader::{SubLibrary, Version};
use support::matrix::{Fault, a_function};
use support::{Child, ChildOutput, Subject, TempDir, lib_dir};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

/// A whole real release, and where to take libraries that do not belong to it.
struct Release {
    version: Version,
    whole: TempDir,
    of_another_release: PathBuf,
    of_another_cuda: Option<PathBuf>,
}

impl Release {
    fn new(id: &str, version: Version, other: &str, other_cuda: Option<&str>) -> Option<Self> {
        Some(Release {
            version,
            whole: TempDir::copy_of(&lib_dir(id)?),
            of_another_release: lib_dir(other)?,
            of_another_cuda: match other_cuda {
                Some(id) => Some(lib_dir(id)?),
                None => None,
            },
        })
    }

    /// The release with the fault in one of its libraries; `None` where the release cannot have it.
    fn with(&self, fault: Fault, library: SubLibrary) -> Option<TempDir> {
        let file = library.library();
        if !self.whole.file(file).exists() {
            return None;
        }
        let dir = TempDir::links_to(self.whole.path());
        let donor = match fault {
            Fault::OtherVersion => Some(&self.of_another_release),
            Fault::OtherCuda => self.of_another_cuda.as_ref(),
            _ => None,
        };
        match donor {
            // A child without privileges cannot follow links into a home folder.
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

/// What came of a call, in a table's cell: how it ended, and the first line of what was said about it.
fn cell(output: &ChildOutput, function: &str, dir: &Path) -> String {
    let outcome = match (output.signal, output.returned(function)) {
        (Some(6), _) => "**aborts**".into(),
        // Which signal it is (SIGBUS, SIGSEGV) depends on how the linker lays out the stand-in.
        (Some(_), _) => "**crashes**".into(),
        (None, Some(returned)) => returned.trim_start_matches("CUDNN_STATUS_").to_owned(),
        (None, None) => format!("**exits with {:?}**", output.code),
    };
    let message = output.last_error(function);
    let (where_, text) = match message.lines().next() {
        Some(line) => ("", line),
        None => ("on stderr: ", output.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()),
    };
    // The lengths of stand-ins are the compiler's affair.
    let text =
        text.split_once(" is truncated: ").map_or(text.to_owned(), |(before, _)| format!("{before} is truncated"));
    let text = text.replace(&dir.display().to_string(), "…").replace('|', "\\|");
    match text.as_str() {
        "" => outcome,
        text => format!("{outcome}<br>{where_}{text}"),
    }
}

#[test]
fn who_aborts_and_who_says_what_is_as_the_docs_have_it() {
    let (Some(older), Some(newer)) = (
        Release::new("cu12-9.10.2", Version::new(9, 10, 2), "cu12-9.0.0", None),
        Release::new("cu12-9.28.0", Version::new(9, 28, 0), "cu12-9.10.2", Some("cu13-9.28.0")),
    ) else {
        return;
    };
    let mut text = String::from(
        "# The fault matrix\n\n\
         What a first call ends in when one library of a real installation has a fault: through NVIDIA's own shim of two\n\
         releases, and through this project's loader. Each cell is a process of its own: the status or value that the\n\
         call returned, and the first line of what could be learnt about it, from `cudnnGetLastErrorString` if not\n\
         marked otherwise; `…` is the installation's folder. The loader's stories go on for some lines more, with every\n\
         path that was tried, the dynamic linker's own words, and what to do.\n\n\
         Written and held to the truth by `cargo test -p cudnn-tests --features full-releases --test faults_nvidia_shim`, on\n\
         Linux x86-64 with no GPU. All libraries are real but the faulty one, which is a stand-in with the same functions\n\
         that return 0. Those \"of another release\" and \"built for another CUDA major\" are real too: 9.0.0 in 9.10.2\n\
         and 9.10.2 in 9.28.0; that of cu13 in the cu12 release of 9.28.0, and a stand-in in 9.10.2. An ext of another\n\
         release cannot be had: 9.10.2 has none.\n",
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
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fault-matrix.md");
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    for (is, was) in text.lines().zip(committed.lines()) {
        assert_eq!(is, was, "docs/fault-matrix.md is out of date: run this test with CUDNN_TESTS_WRITE=1");
    }
    assert_eq!(text.lines().count(), committed.lines().count(), "docs/fault-matrix.md is out of date");
}

/// Whatever the fault, the loader returns a failure and tells of the function and of the library.
fn check_loader(output: &ChildOutput, fault: Fault, library: SubLibrary, function: &str) {
    let case = format!("{library}: {}: {output:#?}", fault.description());
    assert_eq!(output.code, Some(0), "{case}");
    let returned = output.returned(function).unwrap_or_default();
    let message = output.last_error(function);
    // A graph library of another release is a whole installation as long as nothing else is used.
    let is_fault = fault != Fault::None && (fault, library) != (Fault::OtherVersion, SubLibrary::Graph);
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
        // A null handle may be refused by cuDNN itself; it is not the loader that speaks.
        _ => assert!(!message.contains("cannot be called"), "{case}"),
    }
}
