//! Reads and writes the files with tuned choices.

use std::io::Write;

use cudnn_cli::escape::Printable;
use cudnn_layers::errata::BlockingRules;
use cudnn_store::choices::Choices;

use crate::output_file::{Output, OutputKind};

pub(super) const TUNED: OutputKind = OutputKind { name: "a file of `tune`", is_start };

/// Rules and choices share a format, which starts with the version.
fn is_start(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    text.trim_start().strip_prefix('{').is_some_and(|text| text.trim_start().starts_with("\"errata\""))
}

/// Returns the choices in the output file, or no choices if it is missing, empty, or replaced with `--force`.
pub(super) fn existing(output: &Output<'_>) -> Result<Choices, String> {
    if output.file.metadata().map_or(true, |metadata| metadata.len() == 0) {
        return Ok(Choices::default());
    }
    match Choices::read(output.file) {
        Err(_) if output.force => Ok(Choices::default()),
        Err(reason) => Err(format!("{reason}; name another file, or add --force to replace it")),
        read => read,
    }
}

pub(super) fn write(output: &Output<'_>, choices: &Choices) -> Result<(), String> {
    if *choices == Choices::default() {
        let name = output.file.printable();
        return Err(format!("{name} would contain no rankings or rules, so that programs could not use it"));
    }
    let text = choices.to_json();
    // Make sure that the layers `tuned` and `errata` can read the file.
    let read = Choices::parse(&text).and_then(|_| BlockingRules::parse(&text));
    read.map_err(|reason| format!("{}: {reason}", output.file.printable()))?;
    output.write(|file| file.write_all(text.as_bytes()))
}
