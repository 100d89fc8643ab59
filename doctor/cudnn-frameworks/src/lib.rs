//! Reports which cuDNN the Python frameworks of an environment were built for, and which one they would load.
//!
//! The crate also reports the cuDNN installations of a machine and the libraries that a process has loaded.
//!
//! ```no_run
//! use cudnn_frameworks::{Environment, survey};
//! use cudnn_probe::{Host, Os};
//!
//! let host = Host::current();
//! let survey = survey(&Environment::at("/home/me/venv".as_ref(), &host), &host);
//! for framework in &survey.frameworks {
//!     println!("{} {}: cuDNN {:?}", framework.kind.name, framework.version, framework.opens);
//! }
//! ```
//!
//! The crate reads files with size limits, and never runs or loads the programs and libraries that it finds. If no file
//! contains a fact about a framework, the fact comes from [`releases`], with a source and a date. The crate only reports
//! facts; `cudnn-doctor` decides whether a fact is a problem for this machine and suggests a fix.
//!
//! ```text
//! environment ─► package    the installed packages, and whether their pins are met
//!                   │
//!                   ▼
//!               framework   the frameworks among the packages, and their build targets
//!                   │
//!                   ▼
//!                 opens     the cuDNN that a framework loads, by itself or after another one
//! ```
#![forbid(unsafe_code)]

mod drop_in;
mod environment;
mod files;
mod framework;
mod frontend;
pub mod installation;
mod jetson;
mod library_names;
mod mapped;
pub mod nvrtc;
mod opens;
mod package;
mod parallel;
mod shim_names;
mod survey;

pub use drop_in::{drop_in_version, drop_in_version_named, is_drop_in, is_drop_in_named};
pub use environment::Environment;
pub use files::real_path;
pub use framework::builds;
pub use framework::built_for::{BuiltFor, Stated, ValueSource};
pub use framework::kind::{Comparison, FrameworkKind, KINDS};
pub use framework::missing_files::MissingFiles;
pub use framework::releases;
pub use frontend::frontend_with_engines;
pub use jetson::Jetson;
pub use library_names::{cudnn_library, is_cudnn, is_of_driver};
pub use mapped::{Dependents, MappedLibrary, mapped_libraries};
pub use opens::pairs::{Pair, pairs};
pub use opens::unlisted::Unlisted;
pub use opens::{Damaged, MissingLibrary, OpenedFile, Opens, SearchRule};
pub use package::distribution::Distribution;
pub use package::marker::Platform;
pub use package::names::{PackageRecord, name_before_aside, normalized, pip_records};
pub use package::record::{listed_files, record_damage, recorded_files};
pub use package::requirement::{
    Pin, PinState, allows, allows_from, applies, exclude_each_other, packages_with_requirements, required_packages,
    requirement_error, requires_url,
};
pub use package::unreadable::{Repair, Unreadable};
pub use parallel::in_parallel;
pub use shim_names::shim_names_in;
pub use survey::{Depth, Framework, Survey, survey, survey_to};
