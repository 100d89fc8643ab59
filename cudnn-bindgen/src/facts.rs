//! The facts that a header's comment states about the item below it: since which release, deprecated since which.
//! Only these are kept; the comment's text is dropped here and goes no further.
//!
//! Comments do not tell everything. What they leave out comes from the headers' own marks (`CUDNN_DEPRECATED`), and,
//! for the headers of releases that state no releases, from what the newest ones state (`generated/facts.txt`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// Three numbers, as in `9.28.0`.
pub(crate) type Version = (u32, u32, u32);

/// What is known of one item beside its declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemMeta {
    pub(crate) since: Option<Version>,
    pub(crate) deprecated: bool,
    /// Not every deprecation states its release.
    pub(crate) deprecated_since: Option<Version>,
}

impl ItemMeta {
    /// Reads them out of a header's comment.
    pub(crate) fn from_comment(comment: &str) -> ItemMeta {
        let after = |marker: &str| comment.split(marker).nth(1).and_then(version);
        ItemMeta {
            since: after("@since cuDNN "),
            deprecated: comment.contains("@deprecated"),
            deprecated_since: after("@deprecated Since cuDNN "),
        }
    }

    /// Reads them back from the form that `Display` writes.
    pub(crate) fn from_marker(text: &str) -> ItemMeta {
        let after = |marker: &str| text.split(marker).nth(1).and_then(version);
        ItemMeta {
            since: after("new-in="),
            deprecated: text.contains("deprecated;"),
            deprecated_since: after("deprecated-in="),
        }
    }
}

/// What is known of items apart from their comments.
pub(crate) struct Annotations {
    /// Every name that the headers mark as deprecated.
    marked: BTreeSet<String>,
    /// What the newest headers state, by name.
    newest: BTreeMap<&'static str, ItemMeta>,
}

impl Annotations {
    /// Reads the headers in this folder.
    pub(crate) fn from_headers(include: &Path) -> std::io::Result<Self> {
        let mut marked = BTreeSet::new();
        for entry in std::fs::read_dir(include)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("cudnn") && name.ends_with(".h") {
                collect_deprecated(&String::from_utf8_lossy(&std::fs::read(&path)?), &mut marked);
            }
        }
        let newest = include_str!("generated/facts.txt").lines().filter_map(|line| line.split_once(' '));
        Ok(Annotations { marked, newest: newest.map(|(name, facts)| (name, ItemMeta::from_marker(facts))).collect() })
    }

    /// Adds what the comment of this item left out, and corrects what it got wrong.
    pub(crate) fn complete(&self, stated: ItemMeta, name: &str) -> ItemMeta {
        let measured = SINCE_OVERRIDES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, since)| *since);
        let newest = self.newest.get(name).copied().unwrap_or_default();
        let deprecated = stated.deprecated || self.marked.contains(name);
        ItemMeta {
            since: measured.or(stated.since).or(newest.since).or(Some((9, 0, 0))),
            deprecated,
            deprecated_since: stated.deprecated_since.or(newest.deprecated_since).filter(|_| deprecated),
        }
    }
}

/// Notes the names that a header marks: `} name CUDNN_DEPRECATED;`, `NAME CUDNN_DEPRECATED_ENUM = 1`, and
/// `CUDNN_DEPRECATED type CALL name(`.
fn collect_deprecated(header: &str, marked: &mut BTreeSet<String>) {
    let mut code = String::new();
    // Comments and the macro's own definition mark nothing.
    for (index, part) in header.split("/*").enumerate() {
        code.push_str(if index == 0 { part } else { part.split_once("*/").map_or("", |(_, rest)| rest) });
    }
    let lines = code.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let last_word = |text: &str| text.trim_end().rsplit(|c| !is_word(c)).next().map(str::to_owned);
    for (start, mark) in text.match_indices("CUDNN_DEPRECATED") {
        let (before, after) = (text.get(..start).unwrap_or(""), text.get(start + mark.len()..).unwrap_or(""));
        let after = after.trim_start_matches(is_word).trim_start();
        let name = match after.starts_with(is_word) {
            true => after.split('(').next().and_then(last_word),
            false => last_word(before),
        };
        marked.extend(name.filter(|name| !name.is_empty()));
    }
}

/// The form in which facts travel through bindgen, which hands comments on as text.
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

/// Names, by prefix, for which the headers of 9.28.0 state no release or another than the first that declares them.
/// Found by comparing the headers of 9.0.0, 9.10.2, 9.12.0 and each minor release from 9.19 on; whatever is undated
/// and not listed was there in 9.0.0. A test compares the outcome with every pinned release.
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
    fn facts_survive_the_way_through_bindgen() {
        let facts = ItemMeta::from_comment("@brief x\n@since cuDNN 9.2.0\n@deprecated Since cuDNN 9.5.0. Use y.");
        assert_eq!(facts, ItemMeta { since: Some((9, 2, 0)), deprecated: true, deprecated_since: Some((9, 5, 0)) });
        assert_eq!(ItemMeta::from_marker(&facts.to_string()), facts);
    }

    #[test]
    fn each_form_of_the_headers_mark_names_what_it_marks() {
        let mut marked = BTreeSet::new();
        collect_deprecated(
            "#define CUDNN_DEPRECATED\n/* not_this CUDNN_DEPRECATED */\n\
             typedef struct a *alias_t CUDNN_DEPRECATED;\n} enum_t CUDNN_DEPRECATED;\n\
             ONE CUDNN_DEPRECATED_ENUM = 1,\nCUDNN_DEPRECATED status_t CALL\nfunction(int x);\nstatus_t other(int);",
            &mut marked,
        );
        assert_eq!(marked.iter().map(String::as_str).collect::<Vec<_>>(), ["ONE", "alias_t", "enum_t", "function"]);
    }

    #[test]
    fn a_comment_without_a_release_states_none() {
        assert_eq!(ItemMeta::from_comment("@since cuDNN UNPUBLISHED"), ItemMeta::default());
    }
}
