//! Names the places that explain a finding. It must not know the findings.

use crate::shell::doctor;

/// The address of the published site, `https://.../` with a slash at its end. The person who publishes what `cargo xtask
/// docs` builds sets it here.
const SITE: Option<&str> = None;

/// Where to read more about the findings with this code: on the site, or until there is one by a command, since the
/// repository's documents are not installed with the doctor.
pub(crate) fn finding(code: &str) -> String {
    page(code).unwrap_or_else(|| format!("{} facts {code}", doctor()))
}

/// The address of the page about the findings with this code, if the site is published.
pub(crate) fn page(code: &str) -> Option<String> {
    Some(format!("{}findings.html#{}", SITE?, anchor(code)))
}

/// The anchor of the code's heading in docs/findings.md, as code hosts and the site have it.
pub(crate) fn anchor(code: &str) -> String {
    code.to_ascii_lowercase()
}
