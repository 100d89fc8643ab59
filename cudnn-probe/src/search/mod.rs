//! The directories in which a cuDNN may be, in order, each with the reason for looking there. This module does not
//! decide whether they contain a usable cuDNN.
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
