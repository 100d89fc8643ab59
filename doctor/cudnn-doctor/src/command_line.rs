//! Groups the subcommands in the help, and suggests the right command for an unknown one.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use cudnn_cli::help::Groups;
use cudnn_cli::programs::{doctor, lab};

pub(crate) const GROUPS: Groups<'static> = &[
    ("Diagnose", &["check", "explain", "pid", "log", "facts"]),
    ("Fix", &["fix", "env", "fetch", "install", "uninstall"]),
    ("Run a program", &["run", "demo", "preload"]),
    ("Look", &["list", "frameworks", "layers"]),
    ("Maintain", &["completions", "man", "help"]),
];

const OF_LAB: [&str; 7] = ["capture", "replay", "reduce", "emit", "tune", "plans", "errata"];

/// Returns a message that suggests a command for an unknown subcommand.
pub(crate) fn pointer(error: &clap::Error) -> Option<String> {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => word,
        _ => return None,
    };
    if OF_LAB.contains(&word.as_str()) {
        return Some(format!("error: there is no command {word:?}\nhelp: perhaps you mean `{} {word}`", lab()));
    }
    let meant = match word.as_str() {
        "trace" => "run --trace trace.%i.json -- PROGRAM".to_owned(),
        "validate" => "run --validate -- PROGRAM".to_owned(),
        "verify" => "check --verify".to_owned(),
        "doctor" | "diagnose" | "status" | "test" => "check".to_owned(),
        "repair" => "fix".to_owned(),
        "version" => "--version".to_owned(),
        "which" => "list".to_owned(),
        word => format!("facts {}", explained(word)?),
    };
    Some(format!("error: there is no command {word:?}\nhelp: perhaps you mean `{} {meant}`", doctor()))
}

/// Returns the finding or status that `facts` explains under this word.
pub(crate) fn explained(word: &str) -> Option<String> {
    let upper = word.to_ascii_uppercase();
    let is_code = upper.strip_prefix('C').is_some_and(|number| number.len() == 3 && number.parse::<u16>().is_ok());
    (is_code || upper.starts_with("CUDNN_STATUS_")).then_some(upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_subcommand_is_in_one_group() {
        assert!(cudnn_cli::help::are_complete(&crate::Arguments::command(), GROUPS));
    }

    #[test]
    fn wrong_words_point_to_the_right_command() {
        for (word, expected) in [
            ("trace", "run --trace"),
            ("validate", "run --validate"),
            ("replay", "cudnn-lab replay`"),
            ("repair", " fix`"),
            ("c010", "facts C010`"),
            ("CUDNN_STATUS_BAD_PARAM", "facts CUDNN_STATUS_BAD_PARAM`"),
        ] {
            let error = crate::Arguments::command().try_get_matches_from(["cudnn-doctor", word]).err();
            let text = error.and_then(|error| pointer(&error)).unwrap_or_default();
            assert!(text.contains(expected), "{word}: {text}");
        }
        let error = crate::Arguments::command().try_get_matches_from(["cudnn-doctor", "checkx"]).err();
        assert_eq!(error.and_then(|error| pointer(&error)), None);
    }
}
