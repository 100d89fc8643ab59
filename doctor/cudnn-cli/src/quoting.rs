//! Quotes text as one word of a POSIX shell or PowerShell.

use std::ffi::OsStr;

use cudnn_os::escape::is_unsafe;
use cudnn_os::files::bytes_of;
use cudnn_probe::Os;

/// Quotes text or a path for the default shell, on one line without control characters.
pub fn quoted(text: impl AsRef<OsStr>) -> String {
    match Os::HOST {
        Os::Windows => quoted_for_powershell(text),
        _ => quoted_for_sh(text),
    }
}

/// Quotes text or a path for a POSIX shell, with `printf` for control characters, bidirectional controls and invalid
/// UTF-8, because no other quoting fits on one line. `$(..)` strips trailing line breaks, so such a name gets a
/// trailing `/`, as a directory.
pub fn quoted_for_sh(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref();
    let Some(text) = text.to_str().filter(|text| !text.chars().any(is_unsafe)) else {
        let bytes = bytes_of(text);
        let end: &[u8] = if bytes.ends_with(b"\n") { b"/" } else { b"" };
        let escaped = |(index, byte): (usize, &u8)| match byte {
            // These are special to printf or, like `!`, to a shell's history. A leading `-` could start an option.
            b'\'' | b'\\' | b'%' | b'!' => format!("\\{byte:03o}"),
            b' '..=b'~' if (index, byte) != (0, &b'-') => char::from(*byte).to_string(),
            other => format!("\\{other:03o}"),
        };
        return format!("\"$(printf '{}')\"", bytes.iter().chain(end).enumerate().map(escaped).collect::<String>());
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    // The first word of a command with `=` would be an assignment.
    let is_word = !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain);
    if is_word { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Quotes text or a path as an argument for PowerShell. Most results also work in `cmd`. Invalid Unicode becomes a
/// replacement character.
pub fn quoted_for_powershell(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || r"\/._-+=:".contains(c);
    // PowerShell splits options at a dot or a colon.
    let is_option = text.starts_with('-') && text.contains(['.', ':']);
    if !text.is_empty() && !is_option && !text.starts_with('=') && text.chars().all(is_plain) {
        return text.into_owned();
    }
    // For the called program, a backslash would escape the closing quote.
    let backslashes = text.len() - text.trim_end_matches('\\').len();
    powershell_string(&format!("{text}{}", "\\".repeat(backslashes)), is_special)
}

/// Quotes text as a PowerShell string in ASCII, because PowerShell decodes program output in a legacy encoding.
pub fn powershell_literal(text: impl AsRef<OsStr>) -> String {
    powershell_string(&text.as_ref().to_string_lossy(), |c| is_special(c) || !c.is_ascii())
}

/// Returns whether PowerShell or a terminal interprets this character in quotes, such as typographic quotes.
fn is_special(c: char) -> bool {
    is_unsafe(c) || matches!(c, '\u{2018}'..='\u{201e}')
}

fn powershell_string(text: &str, is_special: impl Fn(char) -> bool) -> String {
    if !text.contains(&is_special) {
        // `cmd` supports only double quotes.
        let has_meaning = text.contains(['$', '`', '"', '%']);
        return if has_meaning { format!("'{}'", text.replace('\'', "''")) } else { format!("\"{text}\"") };
    }
    let mut string = String::from("\"");
    for c in text.chars() {
        match c {
            '$' | '`' | '"' => string.extend(['`', c]),
            c if is_special(c) && u32::from(c) > 0xffff => {
                string.push_str(&format!("$([char]::ConvertFromUtf32({:#x}))", u32::from(c)));
            }
            c if is_special(c) => string.push_str(&format!("$([char]{:#x})", u32::from(c))),
            c => string.push(c),
        }
    }
    string.push('"');
    string
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_word_of_a_posix_shell() {
        assert_eq!(quoted_for_sh("/opt/cudnn-9.1/lib"), "/opt/cudnn-9.1/lib");
        assert_eq!(quoted_for_sh("/a b/$(rm)/it's"), "'/a b/$(rm)/it'\\''s'");
        assert_eq!(quoted_for_sh(""), "''");
        assert_eq!(quoted_for_sh("~/x"), "'~/x'");
        assert_eq!(quoted_for_sh("/größe"), "'/größe'");
        assert_eq!(quoted_for_sh("\u{1b}[31m it's\n1"), r#""$(printf '\033[31m it\047s\0121')""#);
        assert_eq!(quoted_for_sh("\u{202e}x%"), r#""$(printf '\342\200\256x\045')""#);
        assert_eq!(quoted_for_sh("-n-\u{7f}"), r#""$(printf '\055n-\177')""#);
        assert_eq!(quoted_for_sh("/x\n"), r#""$(printf '/x\012/')""#);
    }

    #[test]
    fn any_text_is_one_argument_in_powershell() {
        for (text, expected) in [
            (r"C:\venv\Scripts\python.exe", r"C:\venv\Scripts\python.exe"),
            ("nvidia-cudnn-cu12==9.10.2.21", "nvidia-cudnn-cu12==9.10.2.21"),
            ("nvidia-cudnn-cu12>=9.10,<9.11", r#""nvidia-cudnn-cu12>=9.10,<9.11""#),
            ("-Xfrozen_modules=off", "-Xfrozen_modules=off"),
            ("-foo.bar", r#""-foo.bar""#),
            (r"C:\Program Files\x", r#""C:\Program Files\x""#),
            (r"C:\a b\", r#""C:\a b\\""#),
            (r"C:\größe", r#""C:\größe""#),
            (r"C:\it's $(calc) `x", r"'C:\it''s $(calc) `x'"),
            (r"C:\100%", r"'C:\100%'"),
            ("C:\\\u{2019}; calc; \u{2019}$x", r#""C:\$([char]0x2019); calc; $([char]0x2019)`$x""#),
            ("a\u{1b}[1m\n", r#""a$([char]0x1b)[1m$([char]0xa)""#),
            ("\u{e0041}", r#""$([char]::ConvertFromUtf32(0xe0041))""#),
            ("a;b|c&d(e){f}#@", r#""a;b|c&d(e){f}#@""#),
            ("@x", r#""@x""#),
            ("~", r#""~""#),
            ("", r#""""#),
        ] {
            assert_eq!(quoted_for_powershell(text), expected, "{text:?}");
        }
        assert_eq!(powershell_literal(r"C:\größe;"), r#""C:\gr$([char]0xf6)$([char]0xdf)e;""#);
        assert_eq!(powershell_literal("C:\\x\\"), r#""C:\x\""#);
        for unsafe_one in ('\0'..=char::MAX).filter(|c| is_unsafe(*c)) {
            assert!(quoted_for_powershell(format!("a{unsafe_one}b")).is_ascii(), "{unsafe_one:?}");
        }
    }
}
