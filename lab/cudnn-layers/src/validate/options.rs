//! The options of the layer, from the environment or from the program.

use crate::configured::{configured_in_code, variable};
use crate::report::Destination;

/// The environment variable with the destination: `stderr` (the default), `stdout`, or the name of a file.
pub const VARIABLE: &str = "CUDNN_VALIDATE";

/// Options of the layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The destination of the messages.
    pub output: Destination,
}

impl Default for Options {
    fn default() -> Self {
        Options { output: Destination::Stderr }
    }
}

configured_in_code!(Options);

impl Options {
    pub(super) fn chosen() -> Options {
        let of_environment = || variable(VARIABLE).map(|value| Options { output: Destination::parse(&value) });
        configured().or_else(of_environment).unwrap_or_default()
    }
}
