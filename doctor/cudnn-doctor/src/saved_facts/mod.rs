//! Saves the facts behind a report, so that `check --facts` can reproduce it on machines with the same system and
//! processor.

mod names;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_os::trusted_files::create_new;
use cudnn_probe::facts::Facts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format version. It changes when older files become unreadable.
const FORMAT: u32 = 1;

/// The maximum file size in bytes.
const MAX_LEN: u64 = 256 << 20;

const SYSTEM: &str = std::env::consts::OS;
const PROCESSOR: &str = std::env::consts::ARCH;
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize, Deserialize)]
struct Document {
    saved_facts: u32,
    doctor: String,
    system: String,
    processor: String,
    #[serde(with = "cudnn_probe::facts::Portable")]
    options: Vec<OsString>,
    facts: Value,
}

pub(crate) struct SavedFacts {
    pub(crate) facts: Facts,
    /// The options of the `check` command.
    pub(crate) options: Vec<OsString>,
    /// The version of the doctor that saved the facts, if it differs from this one.
    pub(crate) other_version: Option<String>,
}

/// Creates a file for facts, which only the current user can read on Linux. An error is a sentence about the file.
pub(crate) fn create(file: &Path) -> Result<File, String> {
    create_new(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => format!("{} exists already: name a new file", file.printable()),
        _ => format!("cannot write {}: {error}", file.printable()),
    })
}

/// Writes facts without passwords in URLs. User names and the host name are replaced unless `with_names` is set.
pub(crate) fn save(mut output: File, facts: &Facts, options: &[OsString], with_names: bool) -> std::io::Result<()> {
    let document = Document {
        saved_facts: FORMAT,
        doctor: VERSION.to_owned(),
        system: SYSTEM.to_owned(),
        processor: PROCESSOR.to_owned(),
        options: options.to_vec(),
        facts: facts.to_value(),
    };
    let mut value = serde_json::to_value(document)?;
    names::remove_passwords(&mut value);
    if !with_names {
        names::replace(&mut value);
    }
    output.write_all(with_line_for_each_answer(&value).as_bytes())
}

/// Formats the document as JSON with one answer per line, so that people can read and compare files.
fn with_line_for_each_answer(document: &Value) -> String {
    let object = |value: &Value, indent: &str, line: &dyn Fn(&str, &Value) -> String| {
        let lines = value.as_object().into_iter().flatten().map(|(key, value)| line(key, value));
        format!("{{\n{}\n{indent}}}", lines.collect::<Vec<_>>().join(",\n"))
    };
    let answer = |subject: &str, answer: &Value| format!("      {}: {answer}", Value::from(subject));
    let question =
        |name: &str, answers: &Value| format!("    {}: {}", Value::from(name), object(answers, "    ", &answer));
    let part = |name: &str, value: &Value| match name {
        "facts" => format!("  \"facts\": {}", object(value, "  ", &question)),
        _ => format!("  {}: {value}", Value::from(name)),
    };
    object(document, "", &part) + "\n"
}

/// Reads a file of saved facts. An error is a sentence about the file.
pub(crate) fn read(file: &Path) -> Result<SavedFacts, String> {
    let name = file.printable();
    let bytes = cudnn_probe::read_bounded(file, MAX_LEN).map_err(|error| format!("cannot read {name}: {error}"))?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("{name} does not contain saved facts: {error}"))?;
    let Some(format) = value.get("saved_facts") else {
        return Err(format!("{name} does not contain saved facts: `check --save-facts` writes such files"));
    };
    if *format != FORMAT {
        return Err(format!("{name} has format {format} of saved facts, but this cudnn-doctor reads format {FORMAT}"));
    }
    let invalid = |error: serde_json::Error| format!("{name} does not contain saved facts: {error}");
    let document: Document = serde_json::from_value(value).map_err(invalid)?;
    let Document { system, processor, .. } = &document;
    if (system.as_str(), processor.as_str()) != (SYSTEM, PROCESSOR) {
        let (system, processor) = (system.printable(), processor.printable());
        return Err(format!(
            "{name} has facts about {system} on {processor}: only a cudnn-doctor built for that system can use them"
        ));
    }
    let facts = Facts::from_value(document.facts).map_err(invalid)?;
    let other_version = Some(document.doctor.printable()).filter(|version| version != VERSION);
    Ok(SavedFacts { facts, options: document.options, other_version })
}
