//! Recognizes releases of cudnn-frontend with engines that never call cuDNN, as in `cudnn/engines/manifest.py` in the
//! wheels of 1.27.0 to 1.32.0.

use cudnn_probe::Host;

use crate::environment::Environment;
use crate::framework::releases::is_since;
use crate::package::distribution;

const PACKAGE: &str = "nvidia-cudnn-frontend";

/// The variable that offers all engines, and the values that enable them, in any case.
const VARIABLE: &str = "CUDNN_FRONTEND_ENABLE_FROST_ENGINES";
const ON: [&str; 4] = ["1", "true", "yes", "on"];

/// The first releases with engines that compete with cuDNN's, if the variable is set and by default.
const OPTIONAL_SINCE: &str = "1.27";
const DEFAULT_SINCE: &str = "1.30";

/// Returns the version of cudnn-frontend in this environment, if engines of that release replace some of cuDNN's.
pub fn frontend_with_engines(environment: &Environment, host: &Host) -> Option<String> {
    let found = distribution::read(environment, |name| name == PACKAGE);
    let version = found.distributions.into_iter().find(|package| package.name == PACKAGE)?.version;
    let value = host.variable(VARIABLE).unwrap_or_default().to_string_lossy().trim().to_ascii_lowercase();
    let since = if ON.contains(&value.as_str()) { OPTIONAL_SINCE } else { DEFAULT_SINCE };
    is_since(&version, since).then_some(version)
}
