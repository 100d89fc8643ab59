//! The facts that a header's comment states about the item below it: since which release, deprecated since which.
//! Only these are kept; the comment's text is dropped here and goes no further.

use std::fmt;

/// Three numbers, as in `9.28.0`.
pub(crate) type Version = (u32, u32, u32);

/// What is known of one item beside its declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) since: Option<Version>,
    pub(crate) deprecated: bool,
    /// Not every deprecation states its release.
    pub(crate) deprecated_since: Option<Version>,
}

impl Facts {
    /// Reads them out of a header's comment.
    pub(crate) fn from_comment(comment: &str) -> Facts {
        let after = |marker: &str| comment.split(marker).nth(1).and_then(version);
        Facts {
            since: after("@since cuDNN "),
            deprecated: comment.contains("@deprecated"),
            deprecated_since: after("@deprecated Since cuDNN "),
        }
    }

    /// Reads them back from the form that `Display` writes.
    pub(crate) fn from_marker(text: &str) -> Facts {
        let after = |marker: &str| text.split(marker).nth(1).and_then(version);
        Facts {
            since: after("new-in="),
            deprecated: text.contains("deprecated;"),
            deprecated_since: after("deprecated-in="),
        }
    }

    /// Puts what was seen in the headers of real releases in the place of what they state of themselves.
    pub(crate) fn corrected(mut self, name: &str) -> Facts {
        let measured = MEASURED.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, since)| *since);
        self.since = measured.or(self.since).or(Some((9, 0, 0)));
        self
    }
}

/// The form in which facts travel through bindgen, which hands comments on as text.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((major, minor, patch)) = self.since {
            write!(f, "new-in={major}.{minor}.{patch};")?;
        }
        if self.deprecated {
            f.write_str("deprecated;")?;
        }
        if let Some((major, minor, patch)) = self.deprecated_since {
            write!(f, "deprecated-in={major}.{minor}.{patch};")?;
        }
        Ok(())
    }
}

/// Names, by prefix, for which the headers of 9.28.0 state no release or another than the first that declares them.
/// Found by comparing the headers of 9.0.0, 9.10.2, 9.12.0 and each minor release from 9.19 on; whatever is undated
/// and not listed was there in 9.0.0. A test compares the outcome with every pinned release.
const MEASURED: [(&str, Version); 21] = [
    ("CUDNN_ATTR_ENGINEHEUR_SHARED_MEMORY_LIMIT", (9, 27, 0)),
    ("CUDNN_ATTR_ENGINE_SHARED_MEMORY_LIMIT", (9, 27, 0)),
    ("CUDNN_ATTR_OPERATION_REDUCTION_GROUP_OFFSET_DESC", (9, 24, 0)),
    ("CUDNN_ATTR_OPERATION_REDUCTION_INIT_VALUES", (9, 27, 0)),
    ("CUDNN_ATTR_OPERATION_REDUCTION_SUBGRAPH", (9, 27, 0)),
    ("CUDNN_ATTR_OPERATION_ROPE_BWD_", (9, 24, 0)),
    ("CUDNN_ATTR_OPERATION_SDPA_FWD_UNFUSE_FMA", (9, 21, 0)),
    ("CUDNN_BACKEND_OPERATION_ROPE_BWD_DESCRIPTOR", (9, 24, 0)),
    ("CUDNN_CAUSAL_CONV1D_ACTIVATION_", (9, 22, 0)),
    ("CUDNN_GNN_ACT_", (9, 28, 0)),
    ("CUDNN_GNN_AGG_", (9, 26, 0)),
    ("CUDNN_KNOB_TYPE_IDX_MODE", (9, 0, 0)),
    ("CUDNN_OPERATIONGRAPH_MODE_", (9, 23, 0)),
    ("cudnnB2BCausalConv1d", (9, 24, 0)),
    ("cudnnCausalConv1dNwh", (9, 24, 0)),
    ("cudnnGnnActivationOp_t", (9, 28, 0)),
    ("cudnnGnnAggOp_t", (9, 26, 0)),
    ("cudnnGnnAggSimple", (9, 26, 0)),
    ("cudnnGnnCscGraph_t", (9, 26, 0)),
    ("cudnnGnnMhaGat", (9, 28, 0)),
    ("cudnnGnnMhaParams_t", (9, 28, 0)),
];

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
        assert_eq!(facts, Facts { since: Some((9, 2, 0)), deprecated: true, deprecated_since: Some((9, 5, 0)) });
        assert_eq!(Facts::from_marker(&facts.to_string()), facts);
    }

    #[test]
    fn a_comment_without_a_release_states_none() {
        assert_eq!(Facts::from_comment("@since cuDNN UNPUBLISHED"), Facts::default());
    }
}
