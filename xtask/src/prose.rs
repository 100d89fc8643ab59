//! Counts constructions that make prose hard to read, and fails above a limit.
//!
//! The list is the project's own experience: phrases that readers called "translated", such as nouns replaced by clauses
//! ("what is loaded") and "alone" for "only". A low count does not make a page good, and replacing one word by another
//! does not either. The counts are per 10,000 words of Markdown, Rust comments, and string literals of four words or more.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use crate::error::Result;
use crate::workspace;

/// The name of each construction, with a regular expression for lower-case text.
const CONSTRUCTIONS: &[(&str, &str)] = &[
    (
        "what-clauses",
        r"\b(?:of|and|that|on|in|from|with|by|for|to|or|is|not|than|before|after|beside|reads|keeps|states|shows|says|like|as|does) what\b|^what (?:is|it|a|the|was|of|has|they|an|cudnn)\b",
    ),
    ("those of, that of", r"\b(?:those|that) of\b"),
    ("one that, those that", r"\b(?:one|those|each|all|any|what) (?:that|which|who|whose)\b"),
    ("of another", r"\b(?:of|for|by|from|in|on) another\b"),
    ("beside", r"\bbeside\b"),
    ("alone, for only", r"\b\w+ alone\b"),
    ("nothing, nobody", r"\b(?:nothing|nobody|none|whoever|whatever|nowhere)\b"),
    ("whose, of which", r"\bwhose\b|\b(?:of|in|by|for) which\b"),
    ("its", r"\bits\b"),
    (
        "states, keeps, asks",
        r"\b(?:states|stated|lacks|keeps|kept|asks|asked|ends|ended|tells|told|gives|gave|takes|serves|begins|began|stands|lies|came)\b",
    ),
    ("is no, has no", r"\b(?:is|are|was|were|be|has|have|had|gets|get|of|with|in|by|takes|needs) no\b"),
    ("else", r"\belse\b"),
    ("mend, former", r"\b(?:mend\w*|former\w*|thereof|hereby|wholly|anew|meanwhile|thus|therefore)\b"),
    ("so", r"(?:^|[.;,] )so\b"),
    ("does not, cannot", r"\b(?:does not|do not|did not|cannot|is not|are not|has not|was not)\b"),
    ("each", r"\beach\b"),
    ("has it, has the", r"\b(?:has|have|had) (?:it|them|one|none|the|a|been|its)\b"),
];

/// The most constructions per 10,000 words: of the whole repository, and of the pages that users read first.
const LIMITS: [(&str, &[&str], f64); 2] =
    [("the repository", &[""], 200.0), ("README.md and the guide", &["README.md", "docs/guide/"], 150.0)];

/// Constructions and words of a text.
#[derive(Clone, Copy, Default)]
struct Count {
    constructions: usize,
    words: usize,
    sentences: usize,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.constructions += other.constructions;
        self.words += other.words;
        self.sentences += other.sentences;
    }

    /// Constructions per 10,000 words.
    fn density(self) -> f64 {
        1e4 * self.constructions as f64 / self.words.max(1) as f64
    }
}

/// Prints the counts by directory, and fails if one is above its limit.
pub(crate) fn check() -> Result<()> {
    let root = workspace::root()?;
    let counter = Counter::new()?;
    let mut counts = BTreeMap::new();
    for file in files(&root)? {
        let text = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        let count = counter.count(&text, file.ends_with(".rs"));
        counts.insert(file, count);
    }
    let total_of = |prefixes: &[&str]| {
        let mut total = Count::default();
        for (_, count) in counts.iter().filter(|(file, _)| prefixes.iter().any(|prefix| file.starts_with(prefix))) {
            total.add(*count);
        }
        total
    };
    let mut places: BTreeMap<&str, Count> = BTreeMap::new();
    for (file, count) in &counts {
        places.entry(file.split('/').next().unwrap_or(file)).or_default().add(*count);
    }
    println!("per 10,000 words     words  words a sentence");
    for (place, count) in &places {
        let length = count.words as f64 / count.sentences.max(1) as f64;
        println!("{:16.0}  {:8}  {length:16.1}  {place}", count.density(), count.words);
    }
    let mut problems = Vec::new();
    for (name, prefixes, limit) in LIMITS {
        let density = total_of(prefixes).density();
        println!("{name}: {density:.0}, at most {limit:.0}");
        if density > limit {
            problems.push(format!(
                "the prose of {name} has {density:.0} hard constructions per 10,000 words, more than {limit:.0}"
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// The tracked Markdown and Rust files, without generated ones.
fn files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "*.md", "*.rs"]).current_dir(root).output()?;
    let list = String::from_utf8(output.stdout)?;
    Ok(list.lines().filter(|file| !file.contains("generated")).map(str::to_owned).collect())
}

struct Counter {
    constructions: Vec<Regex>,
    /// Code blocks, code, link targets and tags of Markdown.
    markup: [(Regex, &'static str); 4],
    comment: Regex,
    literal: Regex,
    placeholder: Regex,
    sentence: Regex,
}

impl Counter {
    fn new() -> Result<Counter> {
        Ok(Counter {
            constructions: CONSTRUCTIONS.iter().map(|(_, regex)| Regex::new(regex)).collect::<Result<_, _>>()?,
            markup: [
                (Regex::new("(?s)```.*?```")?, " "),
                (Regex::new("`[^`]*`")?, " code "),
                (Regex::new(r"\]\([^)]*\)")?, " "),
                (Regex::new("<[^>]+>")?, " "),
            ],
            comment: Regex::new(r"^\s*//[/!]?\s?(.*)")?,
            literal: Regex::new(r#""((?:[^"\\]|\\.)*)""#)?,
            placeholder: Regex::new(r"\{[^}]*\}")?,
            sentence: Regex::new(r"[.:;|!?]\s+|\n\n|\n[-*#|]")?,
        })
    }

    /// Counts in the text of a file, which is Markdown or Rust.
    fn count(&self, text: &str, is_rust: bool) -> Count {
        let prose = if is_rust { self.comments_and_messages(text) } else { text.to_owned() };
        let prose =
            self.markup.iter().fold(prose, |text, (markup, with)| markup.replace_all(&text, *with).into_owned());
        let mut total = Count::default();
        for sentence in self.sentence.split(&prose) {
            let words: Vec<String> = sentence.split_whitespace().map(str::to_lowercase).collect();
            if words.len() >= 3 {
                let sentence = words.join(" ");
                let constructions = self.constructions.iter().map(|regex| regex.find_iter(&sentence).count()).sum();
                total.add(Count { constructions, words: words.len(), sentences: 1 });
            }
        }
        total
    }

    fn comments_and_messages(&self, source: &str) -> String {
        let mut prose = String::new();
        let mut is_in_code = false;
        for line in source.lines() {
            if let Some(comment) = self.comment.captures(line).and_then(|found| found.get(1)) {
                let comment = comment.as_str();
                if comment.starts_with("```") {
                    is_in_code = !is_in_code;
                } else if !is_in_code {
                    prose.push_str(comment);
                    prose.push('\n');
                }
                continue;
            }
            is_in_code = false;
            for literal in self.literal.captures_iter(line).filter_map(|found| found.get(1)) {
                if literal.as_str().split_whitespace().count() >= 4 {
                    prose.push_str(&format!("\n\n{}\n\n", self.placeholder.replace_all(literal.as_str(), "X")));
                }
            }
        }
        prose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str, is_rust: bool) -> Count {
        Counter::new().unwrap().count(text, is_rust)
    }

    #[test]
    fn constructions_count_in_prose_but_not_in_code() {
        assert_eq!(count("The shim reads what is loaded beside it.\n", false).constructions, 2);
        assert_eq!(
            count("Run `what is of what beside` now.\n\n```sh\nwhat is beside of what\n```\n", false).constructions,
            0
        );
        let comment = "//! It shows which of those of a file are beside it.\nlet its = beside;\n";
        assert_eq!(count(comment, true).constructions, 2);
        let messages =
            "fn main() {\n    fail(\"{path} is no file of another user\");\n    fail(\"no such file\");\n}\n";
        assert_eq!(count(messages, true).constructions, 2);
    }

    #[test]
    fn words_and_sentences_are_counted() {
        let text = "The loader searches for an installation. Then it checks the version of every library.\n";
        let count = count(text, false);
        assert_eq!((count.constructions, count.words, count.sentences), (0, 14, 2));
    }
}
