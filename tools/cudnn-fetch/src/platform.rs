//! The system that this program is compiled for. No other file asks for it: rules take it as data, and are tested on any
//! system.

/// Is it Windows?
pub(crate) const IS_WINDOWS: bool = cfg!(windows);
