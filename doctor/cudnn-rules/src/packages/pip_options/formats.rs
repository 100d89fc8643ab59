//! Decides from `no-binary` and `only-binary` for which packages pip uses wheels, like pip's `FormatControl`.

use std::collections::BTreeSet;

use cudnn_frameworks::normalized;

const ALL: &str = ":all:";
const NONE: &str = ":none:";

/// The names of packages, or [`ALL`].
#[derive(Default)]
pub(in crate::packages) struct Formats {
    no_binary: BTreeSet<String>,
    only_binary: BTreeSet<String>,
}

impl Formats {
    /// Applies an option after the previous ones. Options with other names have no effect.
    pub(super) fn apply(&mut self, name: &str, value: &str) {
        let (target, other) = match name {
            "no-binary" => (&mut self.no_binary, &mut self.only_binary),
            "only-binary" => (&mut self.only_binary, &mut self.no_binary),
            _ => return,
        };
        let mut names: Vec<&str> = value.split(',').collect();
        while let Some(index) = names.iter().position(|name| *name == ALL) {
            other.clear();
            *target = [ALL.to_owned()].into();
            names.drain(..=index);
            if !names.contains(&NONE) {
                return;
            }
        }
        for name in names {
            if name == NONE {
                target.clear();
            } else {
                other.remove(&normalized(name));
                target.insert(normalized(name));
            }
        }
    }

    /// Returns whether pip installs wheels of this package. A name has precedence over [`ALL`].
    pub(in crate::packages) fn allow_wheels_of(&self, package: &str) -> bool {
        let package = normalized(package);
        if self.only_binary.contains(&package) || self.no_binary.contains(&package) {
            return self.only_binary.contains(&package);
        }
        self.only_binary.contains(ALL) || !self.no_binary.contains(ALL)
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
            options.iter().for_each(|(name, value)| formats.apply(name, value));
            assert_eq!(formats.allow_wheels_of("nvidia-x"), expected, "{options:?}");
        }
    }
}
