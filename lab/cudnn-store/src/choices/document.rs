//! Reads files with rules of the layer `errata`, rankings of the layer `tuned`, or both.

use std::path::Path;

use cudnn_probe::read_bounded;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ranking::Ranking;
use crate::object::{Object, read_optional_objects};

const FORMAT: u32 = 1;
/// The maximum size of a file in bytes.
pub const MAX_LEN: u64 = 16 << 20;
/// The maximum number of rules, because readers compare all pairs.
const MAX_RULES: usize = 1000;

/// The contents of a file. `R` is the type of a rule, which only the layer `errata` knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "R: Deserialize<'de>"))]
pub struct Document<R> {
    errata: u32,
    /// The rules, if the file contains this list.
    #[serde(
        default = "Option::default",
        deserialize_with = "read_optional_objects",
        skip_serializing_if = "Option::is_none"
    )]
    pub rules: Option<Vec<R>>,
    /// The rankings, if the file contains this list.
    #[serde(default, deserialize_with = "read_optional_objects", skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Vec<Ranking>>,
}

/// A file with facts about releases that contains a document.
#[derive(Deserialize)]
struct ReleaseFactsFile<'a> {
    #[serde(rename = "facts")]
    _format: u32,
    #[serde(borrow)]
    errata: &'a RawValue,
}

impl<R> Document<R> {
    /// Returns a document with these lists.
    pub fn new(rules: Option<Vec<R>>, tuned: Option<Vec<Ranking>>) -> Self {
        Document { errata: FORMAT, rules, tuned }
    }
}

impl<R: DeserializeOwned> Document<R> {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns the file and the reason if it cannot be read, is larger than [`MAX_LEN`], or is invalid.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = cudnn_os::escape::one_line(&path.to_string_lossy());
        let bytes = read_bounded(path, MAX_LEN).map_err(|error| format!("{name}: {error}"))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| format!("{name} is not valid UTF-8"))?;
        Self::parse(text).map_err(|reason| format!("{name}: {reason}"))
    }

    /// Parses the text of a file, or of a file with facts that contains a document. Checks rankings, but not rules.
    ///
    /// # Errors
    /// Returns the reason, with the line of a syntax error or the graph of an invalid ranking.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() as u64 > MAX_LEN {
            return Err(format!("it has {} bytes, more than {MAX_LEN}", text.len()));
        }
        let text =
            serde_json::from_str(text).map_or(text, |Object(file): Object<ReleaseFactsFile<'_>>| file.errata.get());
        let Object(document): Object<Self> = serde_json::from_str(text).map_err(|error| shown(&error.to_string()))?;
        if document.errata != FORMAT {
            return Err(format!("format {} is not supported, only {FORMAT}", document.errata));
        }
        if document.rules.is_none() && document.tuned.is_none() {
            return Err("it contains neither \"rules\" nor \"tuned\"".to_owned());
        }
        if let Some(count) = document.rules.as_ref().map(Vec::len).filter(|count| *count > MAX_RULES) {
            return Err(format!("it has {count} rules, more than {MAX_RULES}"));
        }
        document.tuned.iter().flatten().try_for_each(Ranking::check).map_err(|reason| shown(&reason))?;
        Ok(document)
    }
}

/// The maximum number of characters of an error, because errors quote the file.
const MAX_SHOWN: usize = 300;

fn shown(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN).collect();
    cudnn_os::escape::one_line(&short)
}
