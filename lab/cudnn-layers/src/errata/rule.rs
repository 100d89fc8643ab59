//! The rules and the file format.
//!
//! The guide describes the format in `docs/guide/errata.md`. A plan is selected if it meets all conditions of a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_graph::{Operand, Operation, names, vocabulary};
use cudnn_probe::release_facts::RELEASE_FACTS;
use cudnn_store::choices::{Capability, Document, Release};
use cudnn_store::{read_object, read_objects, read_unique};
use serde::Deserialize;

use crate::engine::ChosenEngine;

/// Rules that block plans.
#[derive(Clone, Debug, Default)]
pub struct BlockingRules(Vec<BlockingRule>);

/// A rule that selects plans.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BlockingRule {
    /// The name, which appears in the log and in the error text.
    pub name: String,
    /// The reason for blocking the plans.
    pub reason: String,
    /// A public page about the problem.
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default, deserialize_with = "read_object")]
    cudnn: Range<Release>,
    #[serde(default, deserialize_with = "read_object")]
    compute_capability: Range<Capability>,
    #[serde(default)]
    operations: Vec<String>,
    #[serde(default)]
    engines: Vec<u32>,
    #[serde(default, deserialize_with = "read_unique")]
    knobs: BTreeMap<String, i64>,
    #[serde(default)]
    numerical_notes: Vec<String>,
    #[serde(default, deserialize_with = "read_objects")]
    tensors: Vec<TensorRule>,
    /// Selects plans with a larger workspace, in bytes.
    #[serde(default)]
    workspace_above: Option<u64>,
    /// Whether the rule has blocked a plan, which copies of the rule share.
    #[serde(skip)]
    is_used: Arc<AtomicBool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TensorRule {
    types: Vec<String>,
    rank: Option<usize>,
}

/// A range that includes the start and excludes the end. Both are optional.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, bound = "T: Deserialize<'de>")]
struct Range<T> {
    #[serde(default = "Option::default")]
    from: Option<T>,
    #[serde(default = "Option::default")]
    before: Option<T>,
}

impl<T> Default for Range<T> {
    fn default() -> Self {
        Range { from: None, before: None }
    }
}

impl<T: PartialOrd> Range<T> {
    fn contains(&self, value: &T) -> bool {
        self.from.as_ref().is_none_or(|from| from <= value) && self.before.as_ref().is_none_or(|before| value < before)
    }

    fn is_empty(&self) -> bool {
        self.from.as_ref().zip(self.before.as_ref()).is_some_and(|(from, before)| from >= before)
    }

    fn is_everything(&self) -> bool {
        self.from.is_none() && self.before.is_none()
    }
}

impl<T: fmt::Display> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.before) {
            (Some(from), Some(before)) => write!(f, "{from} to before {before}"),
            (Some(from), None) => write!(f, "{from} or newer"),
            (None, Some(before)) => write!(f, "before {before}"),
            (None, None) => f.write_str("all"),
        }
    }
}

impl BlockingRules {
    /// Returns the rules for publicly known problems of cuDNN.
    pub fn known() -> BlockingRules {
        BlockingRules::parse(RELEASE_FACTS).unwrap_or_default()
    }

    /// Reads a file with rules.
    ///
    /// # Errors
    /// Returns the file and the reason if it cannot be read, is too large, or contains an invalid rule.
    pub fn read(path: &Path) -> Result<BlockingRules, String> {
        let name = cudnn_os::escape::one_line(&path.to_string_lossy());
        Self::from_document(Document::read(path)?).map_err(|reason| format!("{name}: {reason}"))
    }

    /// Parses a file with rules, or with facts as for `cudnn-doctor facts --update`.
    ///
    /// # Errors
    /// Returns the reason, with the line of a syntax error or the name of an invalid rule.
    pub fn parse(text: &str) -> Result<BlockingRules, String> {
        Self::from_document(Document::parse(text)?)
    }

    fn from_document(document: Document<BlockingRule>) -> Result<BlockingRules, String> {
        let mut rules = BlockingRules::default();
        rules.extend(BlockingRules(document.rules.unwrap_or_default()))?;
        rules.iter().try_for_each(BlockingRule::check)?;
        Ok(rules)
    }

    /// Adds other rules.
    ///
    /// # Errors
    /// Returns an error if two rules have the same name.
    pub fn extend(&mut self, other: BlockingRules) -> Result<(), String> {
        for rule in other.0 {
            if self.iter().any(|known| known.name == rule.name) {
                return Err(format!("two rules are called {:?}", rule.name));
            }
            self.0.push(rule);
        }
        Ok(())
    }

    /// Returns the rules in order. The first rule that selects a plan is reported.
    pub fn iter(&self) -> std::slice::Iter<'_, BlockingRule> {
        self.0.iter()
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&BlockingRule) -> bool) {
        self.0.retain(keep);
    }
}

impl BlockingRule {
    /// Returns whether the rule applies to a release, as returned by `cudnnGetVersion`.
    pub fn includes_release(&self, release: u32) -> bool {
        self.cudnn.contains(&Release::from_number(release))
    }

    /// Returns whether the rule applies to GPUs of this compute capability, in tenths.
    pub fn includes_capability(&self, capability: u32) -> bool {
        self.compute_capability.contains(&Capability::from_tenths(capability))
    }

    /// Returns the affected releases, such as `9.8.0 to before 9.11.0`.
    pub fn releases(&self) -> String {
        self.cudnn.to_string()
    }

    /// Returns the affected compute capabilities, such as `9.0 or newer`.
    pub fn capabilities(&self) -> String {
        self.compute_capability.to_string()
    }

    /// Returns the conditions for plans in one line, such as `conv_fwd, bfloat16 of rank 5`.
    pub fn conditions(&self) -> String {
        let mut texts = Vec::new();
        let mut list = |what: &str, items: &[String]| match items {
            [] => {}
            items => texts.push(format!("{what}{}", items.join(" or "))),
        };
        list("", &self.operations);
        list("engine ", &self.engines.iter().map(u32::to_string).collect::<Vec<_>>());
        list("", &self.knobs.iter().map(|(knob, value)| format!("{knob}={value}")).collect::<Vec<_>>());
        list("note ", &self.numerical_notes);
        texts.extend(self.tensors.iter().map(TensorRule::conditions));
        texts.extend(self.workspace_above.map(|limit| format!("more than {limit} bytes of workspace")));
        texts.join(", ")
    }

    /// Checks values that the types do not restrict.
    fn check(&self) -> Result<(), String> {
        let error = |reason: String| Err(format!("rule {:?}: {reason}", self.name));
        if self.name.is_empty() || self.name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return error("the name must not be empty or contain spaces".into());
        }
        if self.reason.is_empty() || self.reason.chars().any(char::is_control) {
            return error("the reason must be one line of text".into());
        }
        let selects_all = self.operations.is_empty()
            && self.engines.is_empty()
            && self.knobs.is_empty()
            && self.numerical_notes.is_empty()
            && self.tensors.is_empty()
            && self.workspace_above.is_none();
        if selects_all {
            return error("it would block every plan, because it has no condition on plans".into());
        }
        let types = self.tensors.iter().flat_map(|tensor| &tensor.types);
        for (what, names, known) in [
            (
                "operation",
                self.operations.iter().collect::<Vec<_>>(),
                vocabulary::operations as fn() -> BTreeSet<String>,
            ),
            ("knob", self.knobs.keys().collect(), vocabulary::knobs),
            ("numerical note", self.numerical_notes.iter().collect(), vocabulary::numerical_notes),
            ("data type", types.collect(), vocabulary::data_types),
        ] {
            if names.is_empty() {
                continue;
            }
            let known = known();
            if let Some(unknown) = names.into_iter().find(|name| !known.contains(*name)) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return error(format!("unknown {what} {unknown:?}; known are {}", known.join(", ")));
            }
        }
        if self.cudnn.is_empty() || self.compute_capability.is_empty() {
            return error("a range ends before it begins".into());
        }
        if self.tensors.iter().any(|tensor| tensor.types.is_empty() && tensor.rank.is_none()) {
            return error("a tensor without conditions selects every operation".into());
        }
        Ok(())
    }

    pub(super) fn needs_configuration(&self) -> bool {
        !self.engines.is_empty() || !self.knobs.is_empty() || !self.numerical_notes.is_empty()
    }

    /// Returns whether the rule depends on the workspace, which is unknown before a plan is finalized.
    pub(super) fn limits_workspace(&self) -> bool {
        self.workspace_above.is_some()
    }

    pub(super) fn is_first_use(&self) -> bool {
        !self.is_used.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the rule selects a plan. Conditions on unknown values are not met.
    pub(super) fn matches(
        &self,
        operations: &[Operation<'_>],
        choice: Option<&ChosenEngine>,
        capability: &dyn Fn() -> Option<u32>,
        workspace: Option<i64>,
    ) -> bool {
        let has_choice = || {
            let Some(choice) = choice else { return false };
            let has_knob = |(name, value): (&String, &i64)| {
                choice.knobs.iter().any(|(knob, set)| set == value && names::knob(i64::from(*knob)) == *name)
            };
            let has_note = |name: &String| {
                choice.numerical_notes.iter().any(|note| names::numerical_note(i64::from(note.0)) == *name)
            };
            (self.engines.is_empty()
                || choice.engine.is_some_and(|engine| self.engines.iter().any(|rule| i64::from(*rule) == engine)))
                && self.numerical_notes.iter().all(has_note)
                && self.knobs.iter().all(has_knob)
        };
        let is_above = |limit| workspace.is_some_and(|size| u64::try_from(size).is_ok_and(|size| size > limit));
        self.workspace_above.is_none_or(is_above)
            && (!self.needs_configuration() || has_choice())
            && operations.iter().any(|operation| self.matches_operation(operation))
            && (self.compute_capability.is_everything() || capability().is_some_and(|it| self.includes_capability(it)))
    }

    fn matches_operation(&self, operation: &Operation<'_>) -> bool {
        let contains = |list: &[String], value: Option<&String>| {
            list.is_empty() || value.is_some_and(|value| list.contains(value))
        };
        contains(&self.operations, Some(&operation.name))
            && self.tensors.iter().all(|rule| operation.operands().any(|operand| rule.matches(operand)))
    }
}

impl TensorRule {
    fn conditions(&self) -> String {
        let types = if self.types.is_empty() { "a tensor".to_owned() } else { self.types.join(" or ") };
        self.rank.map_or(types.clone(), |rank| format!("{types} of rank {rank}"))
    }

    fn matches(&self, Operand { tensor, .. }: &Operand<'_>) -> bool {
        (self.types.is_empty() || self.types.contains(&tensor.type_name()))
            && self.rank.is_none_or(|rank| rank == tensor.extents().len())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn rule(conditions: &str) -> Result<BlockingRules, String> {
        BlockingRules::parse(&format!(r#"{{"errata":1,"rules":[{{"name":"n","reason":"r",{conditions}}}]}}"#))
    }

    const CONVOLUTION: &str = r#"[
        {"kind":"TENSOR","UNIQUE_ID:3":1,"DATA_TYPE:1":9,"DIMENSIONS:3":[8,64,14,14,14]},
        {"kind":"TENSOR","UNIQUE_ID:3":2,"DATA_TYPE:1":0,"DIMENSIONS:3":[8,30,14,14,14]},
        {"kind":"CONVOLUTION","COMP_TYPE:1":0},
        {"kind":"OPERATION_CONVOLUTION_FORWARD","X:15":0,"Y:15":1,"CONV_DESC:15":2},
        {"kind":"POINTWISE","MODE:14":100,"MATH_PREC:1":0},
        {"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":4,"XDESC:15":1},
        {"kind":"OPERATIONGRAPH","OPS:15":[3,5]}
    ]"#;

    #[test]
    fn a_plan_is_selected_if_one_operation_meets_all_conditions() {
        let graph: cudnn_graph::Graph = serde_json::from_str(CONVOLUTION).unwrap();
        let operations = Operation::all_of(&graph);
        for (conditions, expected) in [
            (r#""operations":["conv_fwd"]"#, true),
            (r#""operations":["matmul","conv_fwd"]"#, true),
            (r#""operations":["matmul"]"#, false),
            (r#""tensors":[{"types":["bfloat16"],"rank":5}]"#, true),
            (r#""tensors":[{"types":["bfloat16"],"rank":4}]"#, false),
            (r#""tensors":[{"types":["bfloat16"]},{"types":["float"]}]"#, true),
            (r#""workspace_above":1023"#, true),
            (r#""workspace_above":1024"#, false),
            // All conditions must hold for the same operation.
            (r#""operations":["relu"],"tensors":[{"types":["bfloat16"]}]"#, false),
            (r#""operations":["conv_fwd"],"engines":[3]"#, false),
            (r#""numerical_notes":["tensor_core"]"#, false),
            (r#""operations":["conv_fwd"],"compute_capability":{"from":"9.0","before":"10.0"}"#, true),
            (r#""operations":["conv_fwd"],"compute_capability":{"from":"9.1"}"#, false),
        ] {
            let rules = rule(conditions).unwrap();
            assert_eq!(rules.0[0].matches(&operations, None, &|| Some(90), Some(1024)), expected, "{conditions}");
        }
        let rules = rule(r#""workspace_above":0"#).unwrap();
        assert!(!rules.0[0].matches(&operations, None, &|| Some(90), None));
        let rules = rule(r#""operations":["conv_fwd"],"compute_capability":{"from":"5.0"}"#).unwrap();
        assert!(!rules.0[0].matches(&operations, None, &|| None, None));
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        let rules = rule(r#""operations":["matmul"],"cudnn":{"from":"9.8","before":"9.15.1"}"#).unwrap();
        let included = [90_799, 90_800, 91_002, 91_500, 91_501].map(|release| rules.0[0].includes_release(release));
        assert_eq!(included, [false, true, true, true, false]);
        assert_eq!(rules.0[0].releases(), "9.8.0 to before 9.15.1");
    }

    #[test]
    fn invalid_rules_are_refused_with_the_reason() {
        for (conditions, expected) in [
            (r#""operations":["convolution"]"#, "rule \"n\": unknown operation \"convolution\"; known are "),
            (r#""operations":[]"#, "it would block every plan"),
            (r#""cudnn":{"from":"9.8"}"#, "it would block every plan"),
            (r#""operations":["matmul"],"cudnn":{"from":"nine"}"#, "not a release of cuDNN"),
            (r#""operations":["matmul"],"cudnn":{"to":"9.8"}"#, "unknown field `to`"),
            (r#""operations":["matmul"],"compute_capability":{"from":"sm_90"}"#, "not a compute capability"),
            (r#""operation":["matmul"]"#, "unknown field `operation`"),
            (r#""knobs":{"TILE":1}"#, "unknown knob \"TILE\""),
            (r#""knobs":{"TILE_SIZE":1,"TILE_SIZE":1}"#, "the name \"TILE_SIZE\" occurs twice"),
            (r#""tensors":[{"types":["fp16"]}]"#, "unknown data type \"fp16\""),
            (r#""operations":["matmul"],"reason":"other""#, "duplicate field"),
            (r#""operations":["convolution_forward"]"#, "unknown operation"),
            (r#""operations":["matmul"],"cudnn":{"from":"9.8","before":"9.8"}"#, "ends before it begins"),
            (r#""tensors":[{}]"#, "selects every operation"),
            (r#""tensors":[[["FLOAT"],4]]"#, "invalid type: sequence, expected an object"),
            (r#""operations":["matmul"],"cudnn":["9.8"]"#, "invalid type: sequence, expected an object"),
            (r#""workspace_above":-1"#, "integer `-1`, expected u64"),
            (r#""workspace_above":0.5"#, "floating point `0.5`, expected u64"),
        ] {
            let error = rule(conditions).unwrap_err();
            assert!(error.contains(expected), "{conditions}: {error}");
        }
        let twice = r#"{"name":"n","reason":"r","operations":["matmul"]}"#;
        let error = BlockingRules::parse(&format!(r#"{{"errata":1,"rules":[{twice},{twice}]}}"#)).unwrap_err();
        assert_eq!(error, "two rules are called \"n\"");
        assert_eq!(
            BlockingRules::parse(r#"{"errata":2,"rules":[]}"#).unwrap_err(),
            "format 2 is not supported, only 1"
        );
        let array = BlockingRules::parse(r#"{"errata":1,"rules":[["n","r"]]}"#).unwrap_err();
        assert!(array.starts_with("invalid type: sequence, expected an object"), "{array}");
        assert!(BlockingRules::parse("{").unwrap_err().contains("line 1"));
    }

    #[test]
    fn a_file_with_facts_contains_rules() {
        let facts = |rule: &str| {
            format!(r#"{{"facts":1,"version":2,"known_issues":[],"errata":{{"errata":1,"rules":[{{{rule}}}]}}}}"#)
        };
        let rules = BlockingRules::parse(&facts(r#""name":"n","reason":"r","operations":["matmul"]"#)).unwrap();
        assert_eq!(rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["n"]);
        let error = BlockingRules::parse(&facts(r#""name":"n","reason":"r","operations":["other"]"#)).unwrap_err();
        assert!(error.starts_with("rule \"n\": unknown operation"), "{error}");
    }

    #[test]
    fn the_shipped_rules_are_valid_and_have_a_source() {
        let known = BlockingRules::parse(RELEASE_FACTS).unwrap();
        assert!(!known.is_empty());
        assert!(known.iter().all(|rule| rule.source.as_ref().is_some_and(|source| source.starts_with("https://"))));
    }
}
