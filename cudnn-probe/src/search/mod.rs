//! Determines the directories that may contain cuDNN, in order, with the reason for searching each of them. It does not
//! check whether a cuDNN there can be used.
//!
//! `given` ─► `linux`, `windows` (the rules of each system) ─► `candidates` (the search)

mod candidates;
mod given;
mod linux;
mod origin;
mod windows;

pub use candidates::{Search, UnderRoot, base_python, environment_of};
pub use given::{DIR_VARIABLE, VARIABLES};
pub use origin::{Candidate, Origin};
