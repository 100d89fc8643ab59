//! Provides links to the documentation of findings. This module must not depend on the findings themselves.

use cudnn_cli::programs::doctor;

/// The base URL of the published site, `https://.../` with a trailing slash. Set this when publishing the output of
/// `mdbook build`.
const SITE: Option<&str> = None;

/// Returns where to read more about findings with this code: a page of the published site or, until the site exists, a
/// command, because the repository's documents are not installed with the doctor.
pub(crate) fn finding(code: &str) -> String {
    page(code).unwrap_or_else(|| format!("{} facts {code}", doctor()))
}

/// Returns the URL of the section about findings with this code (from docs/data/findings.json), if the site is published.
pub(crate) fn page(code: &str) -> Option<String> {
    Some(format!("{}findings.html#{}", SITE?, code.to_lowercase()))
}
