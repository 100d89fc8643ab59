//! Diagnoses whether a machine can run programs that use cuDNN.
//!
//! The checks in [`FINDINGS`] derive findings from [`observations::Observations`]: what files and child processes show.

mod absent_library;
pub mod advice;
mod by_name;
pub mod checks;
mod companions;
mod dlls;
pub mod drop_in;
pub(crate) mod finding;
pub mod foreign_library;
mod framework_requirement;
pub mod frameworks;
pub mod installation;
pub mod kernels;
mod known_issues;
mod ld_so;
mod limits;
pub mod load_test;
mod lost_python;
pub mod machine;
mod nvrtc;
pub mod observations;
mod other_major;
mod plain_program;
mod program;
pub mod remedies;
mod requested;
mod requirements;
mod selection;
mod table;
mod variables;
pub(crate) mod wheel_choice;

pub use finding::{FINDINGS, Finding, FindingKind, Severity};
pub use requested::Requested;
