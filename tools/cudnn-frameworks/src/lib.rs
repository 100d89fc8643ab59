//! Reports on the users of cuDNN: what Python frameworks were built for, which cuDNN each would load, which installations a
//! machine has, which libraries a process has loaded.
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
//! Everything is read from files within limits; nothing that is found is run or loaded. What a file does not state is in
//! [`releases`], with a source and a date. The crate finds frameworks and states facts. `cudnn-doctor` decides whether a fact
//! is a problem for this machine, and what to do about it.
//!
//! ```text
//! environment ─► package    which packages are installed, and whether their pins hold
//!                   │
//!                   ▼
//!               framework   which of them are frameworks, and what these were built for
//!                   │
//!                   ▼
//!                 opens     which cuDNN each loads: alone, and after another one
//! ```

mod drop_in;
mod environment;
mod files;
mod framework;
pub mod installation;
mod jetson;
mod library_names;
mod mapped;
mod opens;
mod package;
mod parallel;
mod survey;

pub use drop_in::{drop_in_version, drop_in_version_named, is_drop_in, is_drop_in_named};
pub use environment::Environment;
pub use framework::built_for::{BuiltFor, Source, Stated};
pub use framework::kind::{Comparison, KINDS, Kind};
pub use framework::missing_files::MissingFiles;
pub use framework::releases;
pub use jetson::Jetson;
pub use library_names::{is_cudnn, is_of_driver};
pub use mapped::{Dependents, MappedLibrary, mapped_libraries};
pub use opens::pairs::{Pair, pairs};
pub use opens::unlisted::Unlisted;
pub use opens::{Damaged, MissingLibrary, Opened, Opens, SearchRule};
pub use package::distribution::Distribution;
pub use package::requirement::{Pin, PinState, allows_from};
pub use package::unreadable::{Remedy, Unreadable};
pub use parallel::in_parallel;
pub use survey::{Depth, Framework, Survey, survey, survey_to};
