//! The directories in which a cuDNN may be, in order, each with the reason for looking there. This module does not
//! decide whether they contain a usable cuDNN.

mod candidates;
mod origin;

pub use candidates::{DIR_VARIABLE, Search, VARIABLES, base_python, environment_of};
pub use origin::{Candidate, Origin};
