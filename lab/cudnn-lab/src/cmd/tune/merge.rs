//! Merges files with tuned choices.

use std::path::PathBuf;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, count, outln};
use cudnn_layers::errata::BlockingRules;
use cudnn_store::choices::Choices;
use serde_json::json;

use super::file;
use crate::output_file::Output;

/// Merges files. The last ranking of a graph wins, and with `--force` also the last rule with a name.
pub(super) fn run(files: &[PathBuf], output: &Output<'_>, format: Format) -> CommandResult {
    // A file that is input and output would be merged with its older contents.
    output.check()?;
    // The layer `errata` reads the rules.
    let read = |file: &PathBuf| BlockingRules::read(file).and_then(|_| Choices::read(file));
    let read = files.iter().map(read).collect::<Result<Vec<Choices>, String>>()?;
    let mut merged = Choices::default();
    for (file, choices) in files.iter().zip(read) {
        if let Some(rule) = merged.conflict(&choices).filter(|_| !output.force) {
            let (name, rule) = (file.printable(), rule.printable());
            return Err(
                format!("{name} has another rule {rule} than a file before it; rename it, or add --force").into()
            );
        }
        merged = merged.merge(choices);
    }
    if !output.force && !merged.covers(&file::existing(output)?) {
        let name = output.file.printable();
        return Err(
            format!("{name} contains rules or graphs that would be lost; name another file, or add --force").into()
        );
    }
    file::write(output, &merged)?;
    format.report(
        || json!({ "output": output.file.to_string_lossy(), "graphs": merged.len() }),
        || outln!("{}: {}", output.file.printable(), count(merged.len(), "graph")),
    );
    Ok(Outcome::Fine)
}
