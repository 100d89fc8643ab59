//! The index of the search: the text of each section, as a script, because a page that was opened as a file may not
//! load data.

use std::fmt::Write;

use super::markdown::Document;

/// The script. Each record has an address, the page's title, the section's, and its text.
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

/// A string of JavaScript.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(letter);
            }
            // Line ends of JavaScript, and what could end the script.
            _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '<') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}
