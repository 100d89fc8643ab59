//! Selects the destination of messages from the environment or the program.

use crate::configured::{Configured, variable};
use crate::report::Destination;

/// The environment variable with the destination: `stderr` (the default), `stdout`, or the name of a file.
pub const VARIABLE: &str = "CUDNN_VALIDATE";

static CONFIGURED: Configured<Destination> = Configured::new();

/// Sets the destination in code, instead of from [`VARIABLE`]. Call this before you add the layer, because later changes
/// have no effect.
pub fn configure(destination: Destination) {
    CONFIGURED.set(destination);
}

/// Returns the destination that the program or the environment selects.
pub(super) fn chosen() -> Destination {
    CONFIGURED
        .get()
        .or_else(|| variable(VARIABLE).map(|value| Destination::parse(&value)))
        .unwrap_or(Destination::Stderr)
}
