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
//! }
//! ```
//!
//! The crate loads nothing, runs nothing that it finds, and contains no `unsafe` code. `cudnn-loader` uses its search
//! at run time, `cudnn-sys` in its build script; the command `cudnn-doctor` shows the results, and what to do about them.
//!
//! | to | use |
//! | --- | --- |
//! | find the cuDNN that a program should use | [`Search`], [`Requirements`], [`select`], [`Selection::into_result`], [`check_dir`] |
//! | learn what one file is | [`identify`], [`identify_for`], [`identify_any`], [`gpu_code`], [`missing_symbols`], [`exports`] |
//! | explain a file or directory that cannot be used | [`ProbeError`] |
//! | know which file ld.so would choose, and why | [`ld_so`] |
//! | know which file Windows would choose, and what its errors 126, 127 and 193 hide | [`dll_search`] |
//! | know which wheel contains a library | [`Component`] |
//! | know which release has which library, driver, GPU and known issue | [`release_facts`] |
//! | know which layers the environment requests, and their files | [`layers`] |
//!
//! A [`Host`] stands for the machine, so that a test can search a temporary directory instead: [`Host::sandbox`].
//!
//! The feature `serde` implements `Serialize` and `Deserialize` for the types that describe results, errors included.
//!
//! The crate identifies installations for Linux (x86-64 and aarch64) and Windows (x86-64) on any system. It searches
//! for those of the system that it is compiled for, by that system's rules.
#![forbid(unsafe_code)]

mod component;
pub mod dll_search;
mod error;
mod escape;
#[doc(hidden)]
pub mod facts;
mod files;
mod host;
mod image;
#[doc(hidden)]
pub mod internal;
pub mod layers;
pub mod ld_so;
mod library;
mod no_installation;
mod platform;
#[cfg(feature = "serde")]
#[doc(hidden)]
pub mod portable;
pub mod release_facts;
mod search;
mod select;
mod version;

pub use component::{Component, DEFAULT_CUDA_MAJOR};
pub use error::ProbeError;
pub use escape::{ShownPath, one_line, shown_path};
pub use facts::{canonicalize, read_bounded};
pub use files::FileIdentity;
pub use host::Host;
pub use image::{
    GpuCode, Identity, exports, gpu_code, identify, identify_any, identify_for, missing_symbols, parts_without_gpu_code,
};
pub use library::Library;
pub use no_installation::{NoInstallation, RUN_DOCTOR, RejectedCandidate};
pub use platform::{Architecture, Os};
pub use search::{Candidate, DIR_VARIABLE, Origin, Search, VARIABLES};
pub use select::{Installation, Requirements, Selection, check_dir, installation_dir, select};
pub use version::{Version, VersionError};
