//! Determines the directories that may contain cuDNN, in order, with the reason for searching each of them. It does not
//! check whether a cuDNN there can be used.
//!
//! `given` ─► `linux`, `windows` (the rules of each system) ─► `candidates` (the search), `python` ─► `under_root`

mod candidates;
mod given;
mod linux;
mod origin;
#[cfg(feature = "inspect")]
pub mod python;
#[cfg(feature = "inspect")]
mod under_root;
#[cfg(feature = "windows")]
mod windows;

pub use candidates::Search;
pub use given::{DIR_VARIABLE, VARIABLES};
pub use origin::{Candidate, Origin};
#[cfg(feature = "inspect")]
pub use under_root::UnderRoot;
