//! Where a cuDNN may be installed: directories in order, each with the reason for looking there. Whether they contain a
//! usable cuDNN is not decided here.

mod candidates;
mod origin;

pub use candidates::{DIR_VARIABLE, Search, VARIABLES};
pub use origin::{Candidate, Origin};
