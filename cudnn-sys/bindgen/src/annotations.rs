//! Collects the annotations of an item: the first release and the deprecation.
//!
//! They come from the comment above the item, and the rest of the comment is dropped. Because comments are incomplete,
//! annotations also come from the `CUDNN_DEPRECATED` marks in the headers, from the newest headers
//! (`generated/annotations.txt`), and from a list of corrections. Old headers name few releases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A version with three components, such as `9.28.0`.
pub(crate) type Version = (u32, u32, u32);

/// The annotations of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemMeta {
    pub(crate) since: Option<Version>,
    pub(crate) deprecated: bool,
    /// `None` if the deprecation does not mention a release.
    pub(crate) deprecated_since: Option<Version>,
}

impl ItemMeta {
    /// Parses the comment of a header.
    pub(crate) fn from_comment(comment: &str) -> ItemMeta {
        let after = |marker: &str| comment.split(marker).nth(1).and_then(version);
        ItemMeta {
            since: after("@since cuDNN "),
            deprecated: comment.contains("@deprecated"),
            deprecated_since: after("@deprecated Since cuDNN "),
        }
    }

    /// Parses the output of `Display`.
    pub(crate) fn from_marker(text: &str) -> ItemMeta {
        let after = |marker: &str| text.split(marker).nth(1).and_then(version);
        ItemMeta {
            since: after("new-in="),
            deprecated: text.contains("deprecated;"),
            deprecated_since: after("deprecated-in="),
        }
    }
}

/// Annotations from sources other than the comments.
pub(crate) struct Annotations {
    /// Names that the headers mark as deprecated.
    deprecated: BTreeSet<String>,
    /// The annotations from the newest headers.
    newest: BTreeMap<&'static str, ItemMeta>,
    /// The release to use for names without any other date.
    unknown_since: Option<Version>,
}

impl Annotations {
    /// Reads the text of the headers. `unknown_since` is a release such as `9.29.0`.
    pub(crate) fn from_headers(headers: &str, unknown_since: Option<&str>) -> Result<Self, String> {
        let deprecated = deprecated(headers);
        let newest = include_str!("generated/annotations.txt").lines().filter_map(|line| line.split_once(' '));
        let newest = newest.map(|(name, meta)| (name, ItemMeta::from_marker(meta))).collect();
        let parse = |text| version(text).ok_or_else(|| format!("{text:?} is not a release such as 9.29.0"));
        Ok(Annotations { deprecated, newest, unknown_since: unknown_since.map(parse).transpose()? })
    }

    /// Completes and corrects the annotations from an item's comment. `since` stays `None` if there is no source for
    /// it.
    pub(crate) fn complete(&self, stated: ItemMeta, name: &str) -> ItemMeta {
        let corrected = SINCE_OVERRIDES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, since)| *since);
        let newest = self.newest.get(name).copied().unwrap_or_default();
        let deprecated = stated.deprecated || self.deprecated.contains(name);
        ItemMeta {
            // The headers of 9.28.0 state a later release for some names that the headers of 9.27.0 already contain.
            since: corrected.or([stated.since, newest.since].into_iter().flatten().min()).or(self.unknown_since),
            deprecated,
            deprecated_since: stated.deprecated_since.or(newest.deprecated_since).filter(|_| deprecated),
        }
    }
}

/// Returns the names that the headers mark as deprecated, in the forms `} name CUDNN_DEPRECATED;`, `NAME
/// CUDNN_DEPRECATED_ENUM = 1`, and `CUDNN_DEPRECATED type CALL name(`.
fn deprecated(headers: &str) -> BTreeSet<String> {
    let mut marked = BTreeSet::new();
    let mut code = String::new();
    // Skip comments. The definition of the macro does not match.
    for (index, part) in headers.split("/*").enumerate() {
        code.push_str(if index == 0 { part } else { part.split_once("*/").map_or("", |(_, rest)| rest) });
    }
    let lines = code.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let last_word = |text: &str| text.trim_end().rsplit(|c| !is_word(c)).next().map(str::to_owned);
    for (start, mark) in text.match_indices("CUDNN_DEPRECATED") {
        let (before, after) = (text.get(..start).unwrap_or(""), text.get(start + mark.len()..).unwrap_or(""));
        let after = after.trim_start_matches(is_word).trim_start();
        let name =
            if after.starts_with(is_word) { after.split('(').next().and_then(last_word) } else { last_word(before) };
        marked.extend(name.filter(|name| !name.is_empty()));
    }
    marked
}

/// Formats annotations as a comment, because bindgen passes comments through as text.
impl fmt::Display for ItemMeta {
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

/// Prefixes of names with a missing or wrong release in the headers of 9.28.0.
///
/// The values come from comparing the headers of 9.0.0, 9.10.2, 9.12.0 and each minor release from 9.19 on. A test
/// compares the result with every pinned release.
const SINCE_OVERRIDES: [(&str, Version); 21] = [
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
    fn annotations_survive_bindgen() {
        let meta = ItemMeta::from_comment("@brief x\n@since cuDNN 9.2.0\n@deprecated Since cuDNN 9.5.0. Use y.");
        assert_eq!(meta, ItemMeta { since: Some((9, 2, 0)), deprecated: true, deprecated_since: Some((9, 5, 0)) });
        assert_eq!(ItemMeta::from_marker(&meta.to_string()), meta);
    }

    #[test]
    fn each_form_of_the_deprecation_mark_is_recognized() {
        let marked = deprecated(
            "#define CUDNN_DEPRECATED\n/* not_this CUDNN_DEPRECATED */\n\
             typedef struct a *alias_t CUDNN_DEPRECATED;\n} enum_t CUDNN_DEPRECATED;\n\
             ONE CUDNN_DEPRECATED_ENUM = 1,\nCUDNN_DEPRECATED status_t CALL\nfunction(int x);\nstatus_t other(int);",
        );
        assert_eq!(marked.iter().map(String::as_str).collect::<Vec<_>>(), ["ONE", "alias_t", "enum_t", "function"]);
    }

    #[test]
    fn a_name_without_a_date_uses_the_given_release_or_none() {
        let annotations = |unknown_since| Annotations {
            deprecated: BTreeSet::new(),
            newest: BTreeMap::from([("cudnnOld", ItemMeta { since: Some((9, 3, 0)), ..ItemMeta::default() })]),
            unknown_since,
        };
        let since = |annotations: &Annotations, name| annotations.complete(ItemMeta::default(), name).since;
        assert_eq!(since(&annotations(None), "cudnnNew"), None);
        assert_eq!(since(&annotations(Some((9, 29, 0))), "cudnnNew"), Some((9, 29, 0)));
        assert_eq!(since(&annotations(Some((9, 29, 0))), "cudnnOld"), Some((9, 3, 0)));
    }

    #[test]
    fn newer_headers_cannot_move_the_first_release_of_a_known_name_to_a_later_one() {
        let newest = BTreeMap::from([("cudnnOld", ItemMeta { since: Some((9, 3, 0)), ..ItemMeta::default() })]);
        let annotations = Annotations { deprecated: BTreeSet::new(), newest, unknown_since: None };
        let since = |stated| annotations.complete(ItemMeta { since: stated, ..ItemMeta::default() }, "cudnnOld").since;
        assert_eq!([since(Some((9, 28, 0))), since(Some((9, 2, 0)))], [Some((9, 3, 0)), Some((9, 2, 0))]);
    }

    #[test]
    fn a_comment_without_a_release_has_no_date() {
        assert_eq!(ItemMeta::from_comment("@since cuDNN UNPUBLISHED"), ItemMeta::default());
    }
}
