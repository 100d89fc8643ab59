//! Provides the subcommands.

pub(crate) mod capture;
pub(crate) mod devices;
pub(crate) mod emit;
pub(crate) mod errata;
pub(crate) mod plans;
pub(crate) mod reduce;
pub(crate) mod replay;
pub(crate) mod tune;
