//! The rankings of one or more files.

use std::collections::BTreeSet;
use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::document::Document;
use super::ranking::{Device, Ranking};
use cudnn_probe::Release;

/// Rankings with distinct keys, and the rules of the same files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    /// Sorted by key.
    rankings: Vec<Ranking>,
    /// The unchanged rules for the layer `errata`.
    rules: Vec<Value>,
}

impl Choices {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns the file and the reason if it cannot be read, is too large, or is invalid.
    pub fn read(path: &Path) -> Result<Self, String> {
        let document: Document<Value> = Document::read(path)?;
        Self::of(path, document.tuned, document.rules)
    }

    /// Reads the rankings of a file, without the rules.
    ///
    /// # Errors
    /// Like [`Choices::read`].
    pub fn read_rankings(path: &Path) -> Result<Self, String> {
        let document: Document<IgnoredAny> = Document::read(path)?;
        Self::of(path, document.tuned, None)
    }

    fn of(path: &Path, rankings: Option<Vec<Ranking>>, rules: Option<Vec<Value>>) -> Result<Self, String> {
        let named = |reason| format!("{}: {reason}", cudnn_os::escape::one_line(&path.to_string_lossy()));
        Self::new(rankings, rules).map_err(named)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns the reason, with the line of a syntax error or the graph of an invalid ranking.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Document<Value> = Document::parse(text)?;
        Self::new(document.tuned, document.rules)
    }

    fn new(rankings: Option<Vec<Ranking>>, rules: Option<Vec<Value>>) -> Result<Self, String> {
        let mut rankings = rankings.unwrap_or_default();
        rankings.sort_by(|a, b| a.key().cmp(&b.key()));
        let twice = rankings.windows(2).find_map(|pair| match pair {
            [a, b] if a.key() == b.key() => Some(&a.graph),
            _ => None,
        });
        match twice {
            Some(graph) => Err(format!("two rankings are for the graph {graph:?} on one device")),
            None => Ok(Choices { rankings, rules: rules.unwrap_or_default() }),
        }
    }

    /// Adds a ranking, or replaces the one with the same key.
    ///
    /// # Errors
    /// Returns the reason if the ranking is invalid.
    pub fn insert(&mut self, ranking: Ranking) -> Result<(), String> {
        ranking.check()?;
        match self.position(ranking.key()) {
            Ok(place) => self.rankings.splice(place..=place, [ranking]).for_each(drop),
            Err(place) => self.rankings.insert(place, ranking),
        }
        Ok(())
    }

    /// Adds the rankings and rules of a newer file, which replace entries with the same key or name.
    pub fn merge(mut self, newer: Choices) -> Self {
        self.rankings.retain(|ranking| newer.position(ranking.key()).is_err());
        self.rankings.extend(newer.rankings);
        self.rankings.sort_by(|a, b| a.key().cmp(&b.key()));
        let names: BTreeSet<&str> = newer.rules.iter().filter_map(rule_name).collect();
        // Keep rules without a name.
        self.rules.retain(|rule| rule_name(rule).is_none_or(|name| !names.contains(name)));
        self.rules.extend(newer.rules);
        self
    }

    /// Returns the name of a rule that another file defines differently.
    pub fn conflict<'a>(&self, other: &'a Choices) -> Option<&'a str> {
        let differs = |rule: &&Value| self.rules.iter().any(|own| rule_name(own) == rule_name(rule) && own != *rule);
        other.rules.iter().filter(|rule| rule_name(rule).is_some()).find(differs).and_then(rule_name)
    }

    /// Returns whether these choices include all rules and all keys of another file.
    pub fn covers(&self, other: &Choices) -> bool {
        other.rules.iter().all(|rule| self.rules.contains(rule))
            && other.iter().all(|ranking| self.position(ranking.key()).is_ok())
    }

    /// Returns the ranking of a graph on a device with a release of cuDNN.
    pub fn find(&self, cudnn: Release, device: &Device, graph: &str) -> Option<&Ranking> {
        self.rankings.get(self.position((cudnn, device, graph)).ok()?)
    }

    /// Returns the index of a key, or the index at which to insert it.
    fn position(&self, key: (Release, &Device, &str)) -> Result<usize, usize> {
        self.rankings.binary_search_by(|ranking| ranking.key().cmp(&key))
    }

    /// Returns the rankings, sorted by release, device and graph.
    pub fn iter(&self) -> std::slice::Iter<'_, Ranking> {
        self.rankings.iter()
    }

    /// Returns the number of rankings.
    pub fn len(&self) -> usize {
        self.rankings.len()
    }

    /// Returns whether there are no rankings.
    pub fn is_empty(&self) -> bool {
        self.rankings.is_empty()
    }

    /// Drops the other rankings.
    pub fn retain(&mut self, keep: impl FnMut(&Ranking) -> bool) {
        self.rankings.retain(keep);
    }

    /// Returns the text of a file with these rankings and rules. It depends only on the content.
    pub fn to_json(&self) -> String {
        let rules = (!self.rules.is_empty()).then(|| self.rules.clone());
        let document = Document::new(rules, Some(self.rankings.clone()));
        let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn rule_name(rule: &Value) -> Option<&str> {
    rule.get("name")?.as_str()
}
