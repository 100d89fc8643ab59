//! Recognizes file names that Windows reserves for devices, by comparing text.

use std::ffi::OsStr;

/// Returns whether Windows treats this file name as a device, as in `NUL`, `con.dll`, `COM1 .txt`, `LPT²` or `aux:x`.
pub(crate) fn is_device_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end_matches(' ').to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" | "conin$" | "conout$" => true,
        _ => {
            let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
            number.is_some_and(|number| matches!(number, "¹" | "²" | "³") || matches!(number.as_bytes(), [b'0'..=b'9']))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_recognised_by_the_name_before_the_first_dot() {
        for (name, expected) in [
            ("NUL", true),
            ("nul.dll", true),
            ("Con .tar.gz", true),
            ("aux:stream", true),
            ("COM1", true),
            ("lpt9.txt", true),
            ("COM²", true),
            ("CONIN$", true),
            ("COM10", false),
            ("COM", false),
            ("null", false),
            ("cudnn64_9.dll", false),
            ("x.nul", false),
            ("", false),
        ] {
            assert_eq!(is_device_name(name.as_ref()), expected, "{name:?}");
        }
    }
}
