//! Writes a captured graph as a program in C++, Python or Rust.
//!
//! The program creates the same descriptors as the captured program, with the same attributes in the same order, plans
//! the graph, and prints cuDNN's version, the status, the engine and the workspace. With a GPU it also executes the
//! plan on the captured values or on small integers, and prints a checksum of every tensor that the plan has changed.
//! Without a GPU it plans for the described device of the capture.
//!
//! | module | purpose |
//! | --- | --- |
//! | `case` | selects a graph of a capture, with the plan, execution and device |
//! | `values` | the captured values of tensors |
//! | `constants` | the names of numbers in cudnn.h |
//! | `elements` | the elements of an attribute as numbers or bytes |
//! | `memory` | buffers for the tensors, and the numbers to fill them with |
//! | `header` | the comment at the top, in the form of a bug report |
//! | `escape` | quotes texts from the capture |
//! | `syntax` | what the languages share: statements, options and the template |
//! | `cpp`, `python`, `rust` | the languages |
//!
//! All texts from the capture are escaped, so that they cannot end a comment or a literal.

mod case;
mod constants;
mod cpp;
mod elements;
mod escape;
mod header;
mod memory;
mod python;
mod rust;
mod syntax;
mod values;

pub use case::Case;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++17 with cudnn.h. The CUDA driver is loaded at run time.
    Cpp,
    /// Python 3 with its standard library.
    Python,
    /// Rust with the crate cudnn-loader.
    Rust,
}

/// Returns a program that plans and executes a graph.
#[must_use]
pub fn emit(case: &Case, language: Language) -> String {
    match language {
        Language::Cpp => syntax::write(&cpp::Cpp, case),
        Language::Python => syntax::write(&python::Python::new(case), case),
        Language::Rust => syntax::write(&rust::Rust, case),
    }
}
