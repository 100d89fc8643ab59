//! The options of the layer, from the environment or from the program.

use std::ffi::OsString;

use crate::configured::{configured_in_code, variable};
use crate::report::Destination;

/// The environment variable that selects the reports: `failures` (the default) or `used`.
pub const VARIABLE: &str = "CUDNN_EXPLAIN";
/// The environment variable with the destination of the reports: `stderr` (the default), `stdout` or a file.
pub const OUTPUT_VARIABLE: &str = "CUDNN_EXPLAIN_OUTPUT";

/// Options of the layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Also write a line about each plan that the program executes.
    pub used: bool,
    /// Where to write the reports.
    pub output: Destination,
}

impl Default for Options {
    fn default() -> Self {
        Options { used: false, output: Destination::Stderr }
    }
}

configured_in_code!(Options);

impl Options {
    pub(super) fn chosen() -> Result<Options, String> {
        configured().map_or_else(|| Options::from_variables(variable), Ok)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Options, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let used = match set(VARIABLE) {
            None => false,
            Some(value) if value == "failures" => false,
            Some(value) if value == "used" => true,
            Some(value) => return Err(format!("{VARIABLE}={value:?} is neither `failures` nor `used`")),
        };
        let output = set(OUTPUT_VARIABLE).map_or(Destination::Stderr, |value| Destination::parse(&value));
        Ok(Options { used, output })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_select_the_reports_and_the_destination() {
        let options = |variables: &[(&str, &str)]| {
            Options::from_variables(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(options(&[]), Ok(Options::default()));
        assert_eq!(options(&[(VARIABLE, "failures"), (OUTPUT_VARIABLE, "")]), Ok(Options::default()));
        let used = Options { used: true, output: Destination::File("a.txt".into()) };
        assert_eq!(options(&[(VARIABLE, "used"), (OUTPUT_VARIABLE, "a.txt")]), Ok(used));
        let reason = options(&[(VARIABLE, "1")]).unwrap_err();
        assert_eq!(reason, "CUDNN_EXPLAIN=\"1\" is neither `failures` nor `used`");
    }
}
