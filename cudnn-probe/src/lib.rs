//! Finds and identifies installations of cuDNN by reading files.
//!
//! Nothing is loaded and nothing that is found is run; there is no `unsafe` here. One search serves everybody:
//! `cudnn-loader` at run time, `cudnn-sys`'s build script, and `cudnn-doctor`.
//!
//! - [`Library`]: the files that a cuDNN 9 consists of, and their names.
//! - [`identify`]: what one file is, or the [`Refusal`] that says why it cannot be used.
//! - [`Search`]: the folders in which a cuDNN may be, in order, each with its [`Origin`].
//! - [`find`]: the first of them that holds a usable cuDNN, and why each one before it was refused.
//! - [`Report`] and [`survey`]: everything that files tell of a folder, and of all folders; for people.
//! - [`Prediction`]: which file the dynamic linker would take for each name, and by which rule.
//! - [`support`]: what is known of releases, which no file states.
//!
//! It knows nothing of bindings, of dlopen, or of the command line.
#![forbid(unsafe_code)]

mod error;
mod image;
mod inventory;
mod library;
mod prediction;
mod process;
pub mod release_facts;
mod report;
mod search;
mod select;
mod version;

pub use error::{Architecture, ProbeError};
pub use image::{GpuCode, Identity, Os, gpu_code, identify, identify_any, identify_for, parts_without_gpu_code};
pub use inventory::{Installed, inventory};
pub use library::Library;
pub use prediction::{Lookup, Object, Resolution, Rule, Simulation};
pub use process::{MappedLibrary, mapped_libraries, needed_by};
pub use report::{Evidence, InstallationReport, Installer, LibraryReport, Package, Variant};
pub use search::{DIR_VARIABLE, Host, LdSearchPath, Origin, Search, VARIABLES};
pub use select::{Candidate, Installation, RejectedCandidate, Requirements, Selection, check_dir, select};
pub use version::{Version, VersionError};
