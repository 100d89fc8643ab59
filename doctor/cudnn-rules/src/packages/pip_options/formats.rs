//! Decides from `no-binary` and `only-binary` for which packages pip uses wheels, like pip's `FormatControl`.

use std::collections::BTreeMap;

use cudnn_frameworks::normalized;

use super::option::PipOption;

const ALL: &str = ":all:";
const NONE: &str = ":none:";
const NO_BINARY: &str = "no-binary";

/// The options that apply to the names of packages, or to [`ALL`].
#[derive(Default)]
pub(in crate::packages) struct Formats(BTreeMap<String, PipOption>);

impl Formats {
    /// Applies an option after the previous ones. Options with other names have no effect.
    pub(super) fn apply(&mut self, option: &PipOption) {
        let PipOption { name, value, .. } = option;
        if ![NO_BINARY, "only-binary"].contains(&name.as_str()) {
            return;
        }
        let mut names: Vec<&str> = value.split(',').collect();
        while let Some(index) = names.iter().position(|name| *name == ALL) {
            self.0 = [(ALL.to_owned(), option.clone())].into();
            names.drain(..=index);
            if !names.contains(&NONE) {
                return;
            }
        }
        for package in names {
            if package == NONE {
                self.0.retain(|_, other| other.name != *name);
            } else {
                self.0.insert(normalized(package), option.clone());
            }
        }
    }

    /// Returns the option that makes pip install no wheel of this package. A name has precedence over [`ALL`].
    pub(in crate::packages) fn without_wheels_of(&self, package: &str) -> Option<&PipOption> {
        let option = self.0.get(&normalized(package)).or_else(|| self.0.get(ALL));
        option.filter(|option| option.name == NO_BINARY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As pip 23.2 and 26.3 decide.
    #[test]
    fn the_last_and_the_most_specific_option_wins() {
        for (options, expected) in [
            (&[][..], true),
            (&[("no-binary", ":all:")], false),
            (&[("no-binary", "a,Nvidia_X")], false),
            (&[("no-binary", "a")], true),
            (&[("no-binary", ":all:"), ("only-binary", "nvidia-x")], true),
            (&[("only-binary", "nvidia-x"), ("no-binary", ":all:")], false),
            (&[("no-binary", ":all:"), ("only-binary", "a")], false),
            (&[("no-binary", ":all:"), ("only-binary", ":all:")], true),
            (&[("no-binary", "nvidia-x"), ("only-binary", ":all:")], true),
            (&[("only-binary", ":all:"), ("no-binary", "nvidia-x")], false),
            (&[("no-binary", "nvidia-x"), ("no-binary", ":none:")], true),
            (&[("no-binary", ":all:,:none:")], true),
            (&[("no-binary", ":none:,nvidia-x")], false),
            (&[("no-binary", ":all:,nvidia-y"), ("only-binary", "nvidia-y")], false),
            (&[("prefer-binary", ":all:")], true),
        ] {
            let mut formats = Formats::default();
            let option = |(name, value): &(&str, &str)| PipOption {
                source: "x".into(),
                name: (*name).to_owned(),
                value: (*value).to_owned(),
                is_of_command: false,
            };
            options.iter().map(option).for_each(|option| formats.apply(&option));
            assert_eq!(formats.without_wheels_of("nvidia-x").is_none(), expected, "{options:?}");
        }
    }
}
