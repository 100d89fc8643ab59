//! Selects the destination of messages from the environment or the program.

use cudnn_os::environment::is_secure_execution;

use crate::configured::Configured;
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
    // The loader ignores the environment in this mode, but the program may have added the layer itself.
    let variable = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && !is_secure_execution());
    CONFIGURED.get().or_else(|| variable().map(|value| Destination::parse(&value))).unwrap_or(Destination::Stderr)
}
