//! The options of the layer, from the environment or from the program.

use std::ffi::OsStr;
use std::path::Path;

use cudnn_os::environment::is_secure_execution;

use super::rule::BlockingRules;
use crate::configured::configured_in_code;

/// The environment variable with the rules: `known`, files with rules, or both, separated by commas.
pub const VARIABLE: &str = "CUDNN_ERRATA";

/// Options of the layer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The rules that block engines.
    pub rules: BlockingRules,
}

impl Default for Options {
    fn default() -> Self {
        Options { rules: BlockingRules::known() }
    }
}

configured_in_code!(Options);

impl Options {
    /// Returns the options from the program or the environment, or an error if there are no rules or a file is invalid.
    pub(super) fn chosen() -> Result<Options, String> {
        configured().map_or_else(Options::from_environment, Ok)
    }

    fn from_environment() -> Result<Options, String> {
        if is_secure_execution() {
            return Err(format!("{VARIABLE} of a less privileged user is ignored in secure-execution mode"));
        }
        let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("{VARIABLE} is not set: it selects `known` or a file with rules"))?;
        Ok(Options { rules: BlockingRules::selected_by(&value)? })
    }
}

fn items(value: &OsStr) -> impl Iterator<Item = &OsStr> {
    let items = value.as_encoded_bytes().split(|byte| *byte == b',').filter(|item| !item.is_empty());
    // SAFETY: the value was cut next to ASCII characters.
    items.map(|item| unsafe { OsStr::from_encoded_bytes_unchecked(item) })
}

impl BlockingRules {
    /// Returns the rules that a value of [`VARIABLE`] selects.
    ///
    /// # Errors
    /// Returns the file and the reason if a file is unreadable or invalid, or an error if no rule is selected.
    pub fn selected_by(value: &OsStr) -> Result<BlockingRules, String> {
        let mut rules = BlockingRules::default();
        for item in items(value) {
            rules.extend(if item == "known" {
                BlockingRules::known()
            } else {
                BlockingRules::read(Path::new(item))?
            })?;
        }
        if rules.is_empty() { Err(format!("{value:?} selects no rules")) } else { Ok(rules) }
    }
}
