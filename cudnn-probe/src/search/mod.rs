//! The directories in which a cuDNN may be, in order, each with the reason for looking there. Whether they contain a
//! usable cuDNN is not decided here.

mod candidates;
mod origin;

pub use candidates::{DIR_VARIABLE, Search, VARIABLES};
pub use origin::{Candidate, Origin};
