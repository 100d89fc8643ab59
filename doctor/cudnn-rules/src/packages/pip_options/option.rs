//! Decides from a table what the options of pip change, and which values pip refuses.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;

/// The options that matter here, with the values that at least one pip since 19 accepts.
static OPTIONS: LazyLock<Vec<KnownOption>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../data/pip_options.json")).unwrap_or_default());

/// An option of pip.
#[derive(Deserialize)]
struct KnownOption {
    name: String,
    /// The only command that has the option, or `None` for all.
    only: Option<PipCommand>,
    #[serde(default)]
    value: ValueKind,
    /// What pip changes with this option, if the option redirects it. With `target`, `upgrade` makes pip replace whole
    /// directories of several packages, and pip interprets any value of `no-user` as `user`.
    changes: Option<String>,
    /// Whether the option protects a machine. Commands do not unset its variable.
    #[serde(default)]
    is_policy: bool,
    /// Whether pip ignores the option in the sections of commands, except that the value must be valid.
    #[serde(default)]
    is_only_global: bool,
}

/// The values that pip accepts for an option.
#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ValueKind {
    #[default]
    Any,
    Switch,
    /// A switch, or how often the option is repeated.
    Count,
    Integer,
    Seconds,
    /// Names of packages, or `:all:`.
    Packages,
    /// `KEY=VALUE`
    Assignment,
    OneOf(Vec<String>),
    /// Words, separated by spaces.
    SomeOf(Vec<String>),
}

/// The values that switch an option on or off.
const ON: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];
const OFF: [&str; 6] = ["0", "f", "false", "n", "no", "off"];

impl KnownOption {
    fn named(name: &str) -> Option<&'static KnownOption> {
        OPTIONS.iter().find(|option| option.name == name)
    }

    fn is_of(&self, command: PipCommand) -> bool {
        self.only.is_none_or(|only| only == command)
    }

    /// Returns whether this command accepts the value.
    fn accepts(&self, value: &str, command: PipCommand) -> bool {
        let lower = value.to_lowercase();
        let is_switch = || ON.contains(&lower.as_str()) || OFF.contains(&lower.as_str());
        match &self.value {
            ValueKind::Any => true,
            ValueKind::Switch => is_switch(),
            ValueKind::Count => is_switch() || value.parse::<u32>().is_ok(),
            ValueKind::Integer => value.parse::<i32>().is_ok(),
            // The first connection fails with a negative number.
            ValueKind::Seconds => {
                value.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0 || command == PipCommand::Uninstall)
            }
            ValueKind::Packages => !value.starts_with('-'),
            ValueKind::Assignment => value.contains('='),
            ValueKind::OneOf(words) => words.iter().any(|word| word == value),
            ValueKind::SomeOf(words) => value.split_whitespace().all(|value| words.iter().any(|word| word == value)),
        }
    }
}

/// A command of pip that changes packages.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(in crate::packages) enum PipCommand {
    Install,
    Uninstall,
}

#[derive(Clone, Debug)]
pub(in crate::packages) struct PipOption {
    pub(in crate::packages) source: PathBuf,
    /// The name as on the command line, without the dashes: `dry-run`.
    pub(in crate::packages) name: String,
    /// The value, with one line per element of a list.
    pub(in crate::packages) value: String,
    /// Whether the option is in the section of a command.
    pub(super) is_of_command: bool,
}

impl PipOption {
    /// Returns the resulting changes if the option redirects this command.
    pub(in crate::packages) fn redirection(&self, command: PipCommand) -> Option<&'static str> {
        let known = KnownOption::named(&self.name).filter(|known| known.is_of(command))?;
        known.changes.as_deref().filter(|_| !self.is_ignored() && self.is_on())
    }

    pub(super) fn is_ignored(&self) -> bool {
        self.is_of_command && KnownOption::named(&self.name).is_some_and(|known| known.is_only_global)
    }

    pub(in crate::packages) fn requires_virtual(&self) -> bool {
        ["require-virtualenv", "require-venv"].contains(&self.name.as_str()) && self.is_on()
    }

    fn is_on(&self) -> bool {
        !OFF.contains(&self.value.to_lowercase().as_str())
    }

    /// Returns whether this command fails because of the value.
    pub(in crate::packages) fn is_refused_by(&self, command: PipCommand) -> bool {
        let known = KnownOption::named(&self.name).filter(|known| known.is_of(command));
        known.is_some_and(|known| !known.accepts(&self.value, command))
    }

    /// Returns whether commands unset the variable of the option.
    pub(super) fn may_be_unset(&self) -> bool {
        KnownOption::named(&self.name).is_some_and(|known| known.changes.is_some() && !known.is_policy)
    }
}
