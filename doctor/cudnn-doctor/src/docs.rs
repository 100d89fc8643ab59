//! Provides links to the documentation of findings, without depending on the findings.

use cudnn_cli::programs::doctor;

/// The base URL of the published site with a trailing slash. Set this when publishing the output of `mdbook build`.
const SITE: Option<&str> = None;

/// Returns where to read more about this code: the published site, or a command, because documents are not installed.
pub(crate) fn finding(code: &str) -> String {
    page(code).unwrap_or_else(|| format!("{} facts {code}", doctor()))
}

/// Returns the URL of the section about this code (from docs/data/findings.json), if the site is published.
pub(crate) fn page(code: &str) -> Option<String> {
    Some(format!("{}findings.html#{}", SITE?, code.to_lowercase()))
}
