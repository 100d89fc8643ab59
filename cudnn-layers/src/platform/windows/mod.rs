//! Windows.

pub(crate) mod fork;
