//! Groups the subcommands in the help, and points a wrong word to the right command.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::shell::doctor;

/// The subcommands of the help, by what they are for.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Diagnose", &["check", "explain", "pid", "log", "facts"]),
    ("Fix", &["fix", "env", "fetch", "install", "uninstall"]),
    ("Run a program", &["run", "demo", "preload"]),
    ("Look", &["list", "frameworks", "layers", "capture", "replay", "reduce", "emit", "errata"]),
    ("Maintain", &["plans", "completions", "man", "help"]),
];

/// The layout of the help, with the groups in place of the list of subcommands.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Lists the subcommands in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or_default();
    let line = |name: &&str| {
        let about = match command.find_subcommand(name) {
            Some(subcommand) => subcommand.get_about().map(ToString::to_string).unwrap_or_default(),
            None => "Print the help of a subcommand".to_owned(),
        };
        // The first sentence is enough for an overview.
        let about = about.lines().next().unwrap_or_default();
        format!("  {name:<width$}  {about}\n")
    };
    let group =
        |(title, names): &(&str, &[&str])| format!("{title}:\n{}\n", names.iter().map(line).collect::<String>());
    let groups: String = GROUPS.iter().map(group).collect();
    command.before_help(groups.trim_end().to_owned()).help_template(TEMPLATE)
}

/// Returns the command that somebody meant with a word that is no subcommand.
pub(crate) fn pointer(error: &clap::Error) -> Option<String> {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => word,
        _ => return None,
    };
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
        let command = crate::Arguments::command();
        let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        let mut names: Vec<&str> = visible.map(Command::get_name).chain(["help"]).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(names, grouped);
    }

    #[test]
    fn wrong_words_point_to_the_right_command() {
        for (word, expected) in [
            ("trace", "run --trace"),
            ("validate", "run --validate"),
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
