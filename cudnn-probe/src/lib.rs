//! Finds and identifies installations of cuDNN by reading files.
//!
//! ```
//! use cudnn_probe::{Host, Requirements, Search, Version, select};
//!
//! let search = Search::new(Host::current());
//! let requirements = Requirements::new().minimum(Version::new(9, 8, 0));
//! let selection = select(&search, &requirements);
//! match &selection.installation {
//!     Some(found) => println!("cuDNN {} in {} ({})", found.version, found.dir.display(), found.origin),
//!     None => println!("no usable cuDNN was found"),
//! }
//! for rejected in &selection.rejected {
//!     println!("  {rejected}"); // "/opt/cudnn/lib/libcudnn_graph.so.9" (LD_LIBRARY_PATH) is truncated: ...
//!     if let Some(help) = rejected.error.help() {
//!         println!("    help: {help}");
//!     }
//! }
//! ```
//!
//! The crate loads nothing, runs nothing that it finds, and contains no `unsafe` code. `cudnn-loader` uses its search
//! at run time, `cudnn-sys` in its build script; the command `cudnn-doctor` shows the results.
//!
//! | to | use |
//! | --- | --- |
//! | find the cuDNN that a program should use | [`Search`], [`Requirements`], [`select`], [`Selection::into_result`], [`check_dir`] |
//! | learn what one file is | [`identify`], [`identify_for`], [`identify_any`], [`gpu_code`], [`main_gpu_code`], [`missing_symbols`], [`exports`], [`missing_exports`], [`elf_interpreter`] |
//! | list all installations | [`inventory`] |
//! | describe one installation: libraries, package, conflicts | [`InstallationReport`] |
//! | know whether this machine is a Jetson, and which | [`Jetson`] |
//! | explain a file or directory that cannot be used | [`ProbeError`] and [`ProbeError::help`] |
//! | know which file ld.so would choose, and why | [`ld_so`] |
//! | know which file Windows would choose, and what its errors 126, 127 and 193 hide | [`dll_search`] |
//! | know which package has a library, and the command that installs it | [`packages`] |
//! | know which release has which library, driver, GPU and known issue | [`release_facts`] |
//! | know which layers the environment requests, and their files | [`layers`] |
//! | see what a running process has loaded | [`mapped_libraries`], [`Dependents`] |
//!
//! A [`Host`] stands for the machine, so that a test can search a temporary directory instead: [`Host::sandbox`].
//!
//! The crate identifies installations for Linux (x86-64 and aarch64) and Windows (x86-64) on any system. It searches
//! for those of the system that it is compiled for, by that system's rules.
#![forbid(unsafe_code)]

pub mod dll_search;
mod error;
mod escape;
mod files;
mod host;
mod image;
mod inventory;
mod jetson;
pub mod layers;
pub mod ld_so;
mod library;
mod no_installation;
pub mod packages;
mod platform;
mod process;
pub mod release_facts;
mod report;
mod search;
mod select;
mod version;

pub use error::{ProbeError, example_of_installing};
pub use escape::{ShownPath, one_line, shown_path};
pub use files::{FileIdentity, read_bounded};
pub use host::Host;
pub use image::{
    GpuCode, Identity, damaged_symbol_table, elf_interpreter, exports, gpu_code, identify, identify_any, identify_for,
    main_gpu_code, missing_exports, missing_symbols, parts_without_gpu_code, parts_without_gpu_code_any,
};
pub use inventory::{Installed, inventory, inventory_with};
pub use jetson::Jetson;
pub use library::Library;
pub use no_installation::{NoInstallation, RejectedCandidate};
pub use packages::{Installer, Package};
pub use platform::{Architecture, Os, canonicalize};
pub use process::{Dependents, MappedLibrary, mapped_libraries};
pub use report::{
    ArmVariant, Evidence, InstallationReport, LibraryReport, RecordedFile, Variant, deleted_packages,
    deleted_system_packages, is_link_to_itself,
};
pub use search::{Candidate, DIR_VARIABLE, Origin, Search, UnderRoot, VARIABLES, base_python, environment_of};
pub use select::{Installation, Requirements, Selection, check_dir, installation_dir, select};
pub use version::{Version, VersionError};
