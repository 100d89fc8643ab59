//! The help with groups of subcommands, manual pages, and completions.

use std::ffi::OsString;

use clap::{Arg, Command, Parser, Subcommand};
use clap_complete::Shell;

use crate::output::{self, CommandResult, Format, Outcome};
use crate::programs;

/// The layout of the help, with groups in place of the list of subcommands.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Groups of subcommands, each with a title and names.
pub type Groups<'a> = &'a [(&'a str, &'a [&'a str])];

/// Parses the command line of a child process of the program `A`, if the first word is a command for children. `A` must
/// not contain these commands, because completions list even hidden ones.
pub fn parse_child<A: Parser, C: Subcommand>(words: &[OsString]) -> Option<C> {
    programs::set_own_name(A::command().get_name());
    let children = C::augment_subcommands(Command::new("child"));
    children.find_subcommand(words.get(1)?)?;
    C::from_arg_matches(&children.try_get_matches_from(words).ok()?).ok()
}

/// Parses the command line of the program `A`. `pointer` explains an unknown word.
///
/// # Errors
/// Returns the outcome after printing the help, the version, or an error.
pub fn parse<A: Parser>(
    words: &[OsString],
    groups: Groups<'_>,
    pointer: impl FnOnce(&clap::Error) -> Option<String>,
) -> Result<A, Outcome> {
    let command = A::command();
    programs::set_own_name(command.get_name());
    let parsed = grouped(command, groups).try_get_matches_from(words);
    let parsed = parsed.and_then(|matches| A::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let format = Format::new(words.iter().any(|word| word == "--json"));
        let is_text = !error.use_stderr();
        if is_text && format == Format::Text {
            output::help(&error.render());
            return Outcome::Fine;
        }
        match is_text.then(|| output::ONLY_TEXT.to_owned()).or_else(|| pointer(&error)) {
            Some(text) => output::fail(format, text),
            None => output::fail(format, error.render()),
        }
    })
}

/// Lists the subcommands in groups.
pub fn grouped(command: Command, groups: Groups<'_>) -> Command {
    let width = names(groups).map(str::len).max().unwrap_or_default();
    let line = |name: &&str| {
        let about = match command.find_subcommand(name) {
            Some(subcommand) => subcommand.get_about().map(ToString::to_string).unwrap_or_default(),
            None => "Print the help of a subcommand".to_owned(),
        };
        let about = about.lines().next().unwrap_or_default();
        format!("  {name:<width$}  {about}\n")
    };
    let group =
        |(title, names): &(&str, &[&str])| format!("{title}:\n{}\n", names.iter().map(line).collect::<String>());
    let text: String = groups.iter().map(group).collect();
    command.before_help(text.trim_end().to_owned()).help_template(TEMPLATE)
}

/// Returns whether each subcommand is in exactly one group and visible, because completions list even hidden ones.
pub fn are_complete(command: &Command, groups: Groups<'_>) -> bool {
    let mut expected: Vec<&str> = command.get_subcommands().map(Command::get_name).chain(["help"]).collect();
    let mut grouped: Vec<&str> = names(groups).collect();
    expected.sort_unstable();
    grouped.sort_unstable();
    expected == grouped && !hides(command)
}

fn hides(command: &Command) -> bool {
    command.get_arguments().any(Arg::is_hide_set)
        || command.get_subcommands().any(|subcommand| subcommand.is_hide_set() || hides(subcommand))
}

fn names<'a>(groups: Groups<'a>) -> impl Iterator<Item = &'a str> {
    groups.iter().flat_map(|(_, names)| *names).copied()
}

/// Prints the completions for a shell.
///
/// # Errors
/// Returns an error for JSON.
pub fn completions(mut command: Command, shell: Shell, format: Format) -> CommandResult {
    let (mut text, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(shell, &mut command, name, &mut text);
    output::generated(&text, format)
}

/// Prints the manual page of the program or of a subcommand such as `plans-list`.
///
/// # Errors
/// Returns an error for JSON, or if there is no such subcommand.
pub fn manual(mut program: Command, subcommand: Option<&str>, format: Format) -> CommandResult {
    // Assigns full names to the subcommands.
    program.build();
    let own_name = program.get_name().to_owned();
    let page = match subcommand {
        None => clap_mangen::Man::new(program),
        Some(name) => {
            let of_subcommand = || {
                let (of, name) = name.split_once('-')?;
                program.find_subcommand(of)?.find_subcommand(name)
            };
            let command = program.find_subcommand(name).or_else(of_subcommand);
            let command = command.ok_or_else(|| format!("there is no subcommand {name:?}; see `{own_name} help`"))?;
            clap_mangen::Man::new(command.clone()).title(format!("{own_name}-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text)?;
    output::generated(&text, format)
}
