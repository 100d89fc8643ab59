//! Writes the search index: the text of all sections, as a script, because a page that was opened as a file may not
//! load data.

use std::fmt::Write;

use super::markdown::Document;

/// Returns the script. A record contains an address, the page title, the section title, and the text.
pub(crate) fn index(documents: &[Document]) -> String {
    let mut script = String::from("window.searchIndex = [\n");
    for document in documents {
        for section in &document.sections {
            let address = if section.level == 1 {
                document.address.clone()
            } else {
                format!("{}#{}", document.address, section.id)
            };
            let title = if section.level == 1 { "" } else { &section.title };
            let text: Vec<&str> = section.text.split_whitespace().collect();
            let record = [&address, document.title(), title, &text.join(" ")].map(quoted).join(",");
            let _ = writeln!(script, "[{record}],");
        }
    }
    script + "];\n"
}

/// Returns a string literal of JavaScript.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(letter);
            }
            // Line terminators of JavaScript, and characters that could close the script.
            _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '<') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}
