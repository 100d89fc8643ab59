//! Diagnoses whether a machine can run programs that use cuDNN.
//!
//! [`diagnose`] collects observations, starting with files and ending with a child process that loads cuDNN. The checks in
//! [`FINDINGS`] derive findings from them. This module prints no output.

mod advice;
mod by_name;
mod checks;
mod companions;
mod diagnosis;
mod dlls;
mod drop_in;
pub(crate) mod finding;
mod foreign_library;
mod framework_requirement;
pub(crate) mod frameworks;
pub(crate) mod installation;
pub(crate) mod kernels;
mod ld_so;
mod limits;
pub(crate) mod load_test;
mod lost_python;
pub(crate) mod machine;
mod nvml;
mod nvrtc;
mod observations;
mod other_major;
mod plain_program;
mod program;
pub(crate) mod remedies;
mod requested;
mod requirements;
mod search_path;
mod selection;
mod table;
mod variables;
pub(crate) mod wheel_choice;

#[cfg(all(test, unix))]
pub(crate) use checks::tests::questions_of_checks;
pub(crate) use diagnosis::{Diagnosis, diagnose};
pub(crate) use finding::{FINDINGS, Finding, FindingKind, Severity};
pub(crate) use requested::Requested;
