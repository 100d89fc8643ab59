//! The subcommands, which read their options, print results, and return the exit status.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod env;
pub(crate) mod explain;
pub(crate) mod facts;
mod facts_update;
pub(crate) mod fetch;
mod findings;
pub(crate) mod fix;
pub(crate) mod frameworks;
pub(crate) mod install;
mod keep_pages;
pub(crate) mod layers;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod pid;
pub(crate) mod preload;
mod prose;
pub(crate) mod run;
