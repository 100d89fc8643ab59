//! Where the documentation is: the addresses that findings print. Must not know the findings.

/// The address of the published site, with a slash at its end. The person who publishes what `cargo xtask docs` builds
/// sets it here. Until then findings name the file in the repository.
const SITE: Option<&str> = None;

/// Where to read more about the findings with this code.
pub(crate) fn finding(code: &str) -> String {
    finding_on(SITE, code)
}

/// The anchor is the heading of the code in docs/findings.md, in lower case, as code hosts and the site have it.
fn finding_on(site: Option<&str>, code: &str) -> String {
    let anchor = code.to_ascii_lowercase();
    match site {
        Some(site) => format!("{site}findings.html#{anchor}"),
        None => format!("docs/findings.md#{anchor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_repository_until_the_site_has_one() {
        assert_eq!(finding_on(None, "C014"), "docs/findings.md#c014");
        assert_eq!(
            finding_on(Some("https://example.org/docs/"), "C014"),
            "https://example.org/docs/findings.html#c014"
        );
    }

    #[test]
    fn the_address_of_the_site_is_a_directory_on_the_web() {
        assert!(SITE.is_none_or(|site| site.starts_with("https://") && site.ends_with('/')), "{SITE:?}");
    }
}
