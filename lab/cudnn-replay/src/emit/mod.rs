//! Writes a captured graph as a program in C++ or Python.
//!
//! The program creates the same descriptors as the captured program, plans the graph, and prints cuDNN's version, the
//! status, the engine and the workspace. With a GPU, it executes the plan on the captured values or on small integers,
//! and prints a checksum of every changed tensor. Without a GPU, it plans for the described device of the capture.
//!
//! | module | purpose |
//! | --- | --- |
//! | `case` | selects a graph of a capture, with the plan, execution, device and captured values |
//! | `constants` | the names of numbers in cudnn.h |
//! | `elements` | the elements of an attribute as numbers, descriptors or bytes |
//! | `memory` | buffers for the tensors, and the numbers to fill them with |
//! | `header` | the comment at the top |
//! | `escape` | quotes texts from the capture |
//! | `syntax` | the template, the statements and the options, from literals of a language |
//! | `cpp`, `python` | the languages |
//!
//! Texts from the capture are escaped so that they cannot end a comment or a literal.

mod case;
mod constants;
mod cpp;
mod elements;
mod escape;
mod header;
mod memory;
mod python;
mod syntax;

use cudnn_backend::device::check_sizes;

pub use case::Case;
use syntax::Syntax;

use crate::device::check_json;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++17 with cudnn.h. The CUDA driver is loaded at run time.
    Cpp,
    /// Python 3 with its standard library.
    Python,
}

/// Returns a program that plans and executes a graph.
///
/// # Errors
/// Returns the reason if the program would be larger than 16 MiB, because a short capture can describe endless data, or
/// if cuDNN would load code from the capture or damage the memory of the program.
pub fn emit(case: &Case, language: Language) -> Result<String, String> {
    check_sizes(case.device().as_bytes())?;
    check_json(case.graph())?;
    match language {
        Language::Cpp => syntax::write::<cpp::Cpp>(case),
        Language::Python => syntax::write::<python::Python>(case),
    }
}

/// Returns whether a file that starts with these bytes is a program of [`emit`].
pub fn is_program(start: &[u8]) -> bool {
    [cpp::Cpp::COMMENT, python::Python::COMMENT]
        .iter()
        .any(|comment| start.starts_with(format!("{comment} {}\n", header::MARKER).as_bytes()))
}

#[cfg(test)]
mod tests {
    use cudnn_store::captures::Capture;

    use super::*;

    /// Returns a graph with many texts, which short captures can describe.
    fn texts(count: usize, length: usize) -> Case {
        let tensor = format!(r#"{{"kind":"TENSOR","TENSOR_UNIQUE_ID:24":["",{length}]}}"#);
        let nodes = vec![tensor; count].join(",");
        let start = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;
        let graph = format!(r#"{{"record":"graph","graph":"x","label":"","nodes":[{nodes}]}}"#);
        Case::select(&Capture::parse(format!("{start}\n{graph}\n").as_bytes()).unwrap(), "").unwrap()
    }

    #[test]
    fn a_short_capture_does_not_become_an_endless_program() {
        let case = texts(20_000, 1000);
        for written in
            [syntax::write_within::<cpp::Cpp>(&case, 1 << 16), syntax::write_within::<python::Python>(&case, 1 << 16)]
        {
            assert_eq!(written.unwrap_err(), "the program would be larger than 65536 bytes");
        }
    }

    #[test]
    fn no_program_contains_what_damages_memory() {
        let mut case = texts(1, 1);
        case.captured.device = Some(format!(r#"{{"deviceName":"{}"}}"#, "A".repeat(1000)));
        let refused = emit(&case, Language::Python).unwrap_err();
        assert!(refused.contains("a string of more than 255 bytes"), "{refused}");
    }

    #[test]
    fn no_program_contains_a_placeholder() {
        let lines = [
            r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#,
            r#"{"record":"failure","call":"cudnnBackendFinalize","status":"BAD_PARAM","descriptors":[{"kind":"TENSOR"}]}"#,
        ];
        let failure = Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        for case in [texts(1, 1), Case::select(&failure, "").unwrap()] {
            for program in [Language::Cpp, Language::Python].map(|language| emit(&case, language).unwrap()) {
                assert!(!program.contains('@'), "{program}");
            }
        }
    }

    #[test]
    fn programs_are_recognized() {
        for language in [Language::Cpp, Language::Python] {
            assert!(is_program(emit(&texts(1, 1), language).unwrap().as_bytes()));
        }
        assert!(!is_program(b"# Describe the bug\n") && !is_program(b""));
    }
}
