//! Where findings are explained: by this command, and on the published site. Must not know the findings.

use crate::shell::doctor;

/// The address of the published site, with a slash at its end. The person who publishes what `cargo xtask docs` builds
/// sets it here.
const SITE: Option<&str> = None;

/// Where to read more about the findings with this code: on the site, or until there is one by a command, since the
/// repository's documents are not installed with the doctor.
pub(crate) fn finding(code: &str) -> String {
    page(code).unwrap_or_else(|| format!("{} facts {code}", doctor()))
}

/// The address of the page about the findings with this code, if the site is published.
pub(crate) fn page(code: &str) -> Option<String> {
    page_on(SITE, code)
}

fn page_on(site: Option<&str>, code: &str) -> Option<String> {
    Some(format!("{}findings.html#{}", site?, anchor(code)))
}

/// The anchor of the code's heading in docs/findings.md, as code hosts and the site have it.
pub(crate) fn anchor(code: &str) -> String {
    code.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_an_address_once_the_site_has_one() {
        assert_eq!(page_on(None, "C014"), None);
        let address = page_on(Some("https://example.org/docs/"), "C014");
        assert_eq!(address.as_deref(), Some("https://example.org/docs/findings.html#c014"));
    }

    #[test]
    fn the_address_of_the_site_is_a_directory_on_the_web() {
        assert!(SITE.is_none_or(|site| site.starts_with("https://") && site.ends_with('/')), "{SITE:?}");
    }
}
