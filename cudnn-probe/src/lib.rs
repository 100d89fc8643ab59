//! Finds and identifies cuDNN installations by reading files.
//!
//! The crate never loads or runs the files that it finds, and contains no `unsafe` code. `cudnn-loader` uses it at run
//! time, and `cudnn-sys` in its build script. The command `cudnn-doctor` shows the results together with fixes.
//!
//! # Find cuDNN in an application
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
//! If your application requires cuDNN, call [`Selection::into_result`]. Its error contains a full report.
//!
//! # Use the installed release in a build script
//!
//! This script enables the condition `cudnn_9_10` if the installed cuDNN is 9.10.0 or newer:
//!
//! ```
//! use cudnn_probe::{Host, Library, Requirements, Search, VARIABLES, Version, select};
//!
//! fn main() {
//!     for variable in VARIABLES {
//!         println!("cargo::rerun-if-env-changed={variable}");
//!     }
//!     println!("cargo::rustc-check-cfg=cfg(cudnn_9_10)");
//!     let search = Search::new(Host::current().without_executable());
//!     match select(&search, &Requirements::new().minimum(Version::new(9, 0, 0))).into_result() {
//!         Ok(found) => {
//!             println!("cargo::rerun-if-changed={}", found.dir.join(Library::Graph.file_name()).display());
//!             if found.version >= Version::new(9, 10, 0) {
//!                 println!("cargo::rustc-cfg=cudnn_9_10");
//!             }
//!         }
//!         Err(missing) => {
//!             missing.report().lines().for_each(|line| println!("cargo::warning={line}"));
//!             // This file never exists, so cargo runs the script in every build until cuDNN is installed.
//!             println!("cargo::rerun-if-changed=no-cudnn-yet");
//!         }
//!     }
//! }
//! ```
//!
//! The search covers the machine that runs the script. Skip it if `TARGET` and `HOST` differ.
//!
//! # Overview
//!
//! | task | items |
//! | --- | --- |
//! | Find the cuDNN that a program should use | [`Search`], [`Requirements`], [`select`], [`Selection::into_result`], [`check_dir`] |
//! | Identify a file | [`identify`], [`identify_for`], [`identify_any`], [`gpu_code`], [`missing_symbols`], [`exports`] |
//! | Read the dependencies, symbols and GPU code of a file | [`image`] |
//! | Explain why a file or directory is unusable | [`ProbeError`] |
//! | Find out which file ld.so would choose, and why | [`ld_so`] |
//! | Find out which DLL Windows would choose, or explain errors 126, 127 and 193 | [`dll_search`] |
//! | Look up the wheel that contains a library | [`Component`] |
//! | Look up libraries, drivers, GPUs and known issues of a release | [`release_facts`] |
//! | List requested layers and their files | [`layers`] |
//! | Find the environment of a Python interpreter | [`python`] |
//! | Record what a search reads, and repeat it on another machine | [`facts`] |
//!
//! A [`Host`] describes the machine. In tests, use [`Host::sandbox`] to search a temporary directory instead.
//!
//! # Features
//! - `inspect`, enabled by default, is for tools. Without it, a program that only searches for cuDNN compiles faster,
//!   but [`gpu_code`], [`identify_any`], [`Search::under_root`], [`python`] and [`ld_so::Simulation`] are missing.
//! - `windows` is required on Windows, and enabled by `inspect`. Without it, most of [`dll_search`] is missing.
//! - `release-facts` adds [`Release`] and [`Capability`], which JSON files contain as text.
//! - `serde` implements `Serialize` and `Deserialize` for results and errors, and records [`facts`].
//!
//! Libraries for Linux (x86-64 and aarch64) and Windows (x86-64) can be identified on either system. A search always
//! follows the rules of the system that the crate is compiled for.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "inspect"), allow(dead_code, unreachable_pub, reason = "tools use the rest"))]

const _: () = assert!(!cudnn_os::IS_WINDOWS || cfg!(feature = "windows"), "enable the feature `windows`");

mod component;
pub mod dll_search;
mod error;
mod escape;
pub mod facts;
mod files;
mod host;
pub mod image;
pub mod layers;
pub mod ld_so;
mod library;
mod no_installation;
mod platform;
#[cfg(feature = "release-facts")]
mod release;
pub mod release_facts;
mod search;
mod select;
mod version;

pub use component::{Component, DEFAULT_CUDA_MAJOR, dir_of_wheel};
pub use error::ProbeError;
pub use escape::{ShownPath, one_line, shown_path};
pub use facts::{canonicalize, read_bounded};
pub use files::FileIdentity;
pub use host::Host;
#[cfg(feature = "inspect")]
pub use image::{GpuCode, gpu_code, identify_any};
pub use image::{Identity, exports, identify, identify_for, missing_symbols, parts_without_gpu_code};
pub use library::{Library, older_shim};
pub use no_installation::{NoInstallation, RUN_DOCTOR, RejectedCandidate};
pub use platform::{Architecture, Os};
#[cfg(feature = "release-facts")]
pub use release::{Capability, Release};
pub use search::{Candidate, DIR_VARIABLE, Origin, Search, VARIABLES};
#[cfg(feature = "inspect")]
pub use search::{UnderRoot, python};
pub use select::{Installation, Requirements, Selection, check_dir, installation_dir, select};
pub use version::{Version, VersionError};
