//! The packages of Python environments: names, metadata, requirements and file records.

pub(crate) mod conda;
pub(crate) mod distribution;
mod editable;
pub(crate) mod marker;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod requirement;
pub(crate) mod undecodable;
pub(crate) mod unreadable;
