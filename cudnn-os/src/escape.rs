//! Escapes untrusted text before it is printed, such as file names, process names and library messages.

/// Returns whether a character is invisible in a terminal or controls it: control characters, line and paragraph
/// separators, all format characters (Unicode category Cf, such as direction marks), variation selectors, and fillers.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || !c.is_ascii()
            && matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Replaces line breaks and [unsafe](is_unsafe) characters with escape sequences so that the text cannot fake a line
/// of output or control the terminal.
///
/// ```
/// assert_eq!(cudnn_os::escape::one_line("it's \u{1b}[31m\nred"), r"it's \u{1b}[31m\nred");
/// ```
pub fn one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_line_breaks_and_direction_marks_are_escaped() {
        let hostile = "a\x1b[31m\n\u{85}\u{9b}31m\u{202e}b\u{2066}\u{7f}";
        assert_eq!(one_line(hostile), r"a\u{1b}[31m\n\u{85}\u{9b}31m\u{202e}b\u{2066}\u{7f}");
        assert_eq!(one_line("/opt/größe/it's/हिन्दी/e\u{301}"), "/opt/größe/it's/हिन्दी/e\u{301}");
    }

    #[test]
    fn characters_that_do_not_show_themselves_are_escaped() {
        for c in "\u{200b}\u{feff}\u{2060}\u{ad}\u{2028}\u{2029}\u{fe0f}\u{180e}\u{e0001}\u{e0101}\u{110bd}".chars() {
            assert_eq!(one_line(&c.to_string()), c.escape_unicode().to_string());
        }
    }
}
