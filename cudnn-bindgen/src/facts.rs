//! The facts that a header's comment states about the item below it: since which release, deprecated since which.
//! Only these are kept; the comment's text is dropped here and goes no further.

use std::fmt;

/// Three numbers, as in `9.28.0`.
pub(crate) type Version = (u32, u32, u32);

/// What is known of one item beside its declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) since: Option<Version>,
    pub(crate) deprecated: Option<Version>,
}

impl Facts {
    /// Reads them out of a header's comment.
    pub(crate) fn from_comment(comment: &str) -> Facts {
        let after = |marker: &str| comment.split(marker).nth(1).and_then(version);
        Facts { since: after("@since cuDNN "), deprecated: after("@deprecated Since cuDNN ") }
    }

    /// Reads them back from the form that `Display` writes.
    pub(crate) fn from_marker(text: &str) -> Facts {
        let after = |marker: &str| text.split(marker).nth(1).and_then(version);
        Facts { since: after("since="), deprecated: after("deprecated=") }
    }

    /// Fills in what the headers leave out, from `UNDATED`.
    pub(crate) fn or_undated(mut self, name: &str) -> Facts {
        if self.since.is_none() {
            self.since = UNDATED.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, since)| *since);
        }
        self
    }
}

/// The form in which facts travel through bindgen, which hands comments on as text.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((major, minor, patch)) = self.since {
            write!(f, "since={major}.{minor}.{patch};")?;
        }
        if let Some((major, minor, patch)) = self.deprecated {
            write!(f, "deprecated={major}.{minor}.{patch};")?;
        }
        Ok(())
    }
}

/// Names whose header states no release, by prefix, with the first release whose headers declare them. Found by
/// reading the headers of every release between 9.22 and 9.28.
const UNDATED: [(&str, Version); 0] = [];

fn version(text: &str) -> Option<Version> {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()?
        .trim_end_matches('.')
        .split('.')
        .map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_the_way_through_bindgen() {
        let facts = Facts::from_comment("@brief x\n@since cuDNN 9.2.0\n@deprecated Since cuDNN 9.5.0. Use y.");
        assert_eq!(facts, Facts { since: Some((9, 2, 0)), deprecated: Some((9, 5, 0)) });
        assert_eq!(Facts::from_marker(&facts.to_string()), facts);
    }

    #[test]
    fn a_comment_without_a_release_states_none() {
        assert_eq!(Facts::from_comment("@since cuDNN UNPUBLISHED"), Facts::default());
    }
}
