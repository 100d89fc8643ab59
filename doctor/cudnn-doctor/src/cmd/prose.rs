//! Shortens repeated paths in a report's prose. Commands, also in backticks, stay complete for pasting.

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_probe::facts;

/// The minimum length of a directory to shorten.
const MIN_LEN: usize = 12;

/// Short names for directories, longest directory first. Angle brackets prevent shells from using the names as paths.
#[derive(Default)]
pub(super) struct Prose(Vec<(String, &'static str)>);

impl Prose {
    /// Shortens only the home directory, to `~`.
    pub(super) fn for_home() -> Prose {
        let home = facts::variable("HOME").map(|home| Path::new(&home).printable());
        // The home directory of a service may be `/`.
        let home = home.filter(|home| home.starts_with('/') && home.len() > 1);
        Prose(home.map(|home| (home, "~")).into_iter().collect())
    }

    /// Adds this name if these texts contain the directory at least twice.
    pub(super) fn with(mut self, dir: &Path, name: &'static str, texts: &[&str]) -> Prose {
        let dir = dir.printable();
        let at = self.0.iter().position(|(known, _)| known.len() < dir.len()).unwrap_or(self.0.len());
        let before = Prose(self.0.get(..at).unwrap_or_default().to_vec());
        let named = Prose(vec![(dir.clone(), name)]);
        let count = |text: &&str| named.shorten(&before.shorten(text)).matches(name).count();
        if dir.len() >= MIN_LEN && texts.iter().map(count).sum::<usize>() >= 2 {
            self.0.insert(at, (dir, name));
        }
        self
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(_, known)| *known == name)
    }

    pub(super) fn shorten(&self, text: &str) -> String {
        let shorten = |part: &str| self.0.iter().fold(part.to_owned(), |part, (dir, name)| replace(&part, dir, name));
        let parts = text.split('`').enumerate();
        let parts: Vec<String> = parts.map(|(i, part)| if i % 2 == 0 { shorten(part) } else { part.into() }).collect();
        parts.join("`")
    }
}

/// Replaces a directory if it is a whole path or the beginning of one.
fn replace(text: &str, dir: &str, name: &str) -> String {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let (mut shortened, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(dir) {
        let previous = before.chars().next_back().or_else(|| shortened.chars().next_back());
        let is_start = !previous.is_some_and(|c| is_of_name(c) || matches!(c, '/' | '>' | '~'));
        let is_end = !after.chars().next().is_some_and(is_of_name);
        shortened.push_str(before);
        shortened.push_str(if is_start && is_end { name } else { dir });
        rest = after;
    }
    shortened.push_str(rest);
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_directories_get_a_name_and_no_command_does() {
        let prose = Prose(vec![("/home/x/venvs/a".into(), "<env>"), ("/home/x".into(), "~")]);
        for (text, expected) in [
            ("/home/x/venvs/a/lib and /home/x/venvs/a: /home/x", "<env>/lib and <env>: ~"),
            ("/home/x/venvs/ab, /mnt/home/x, /home/xy, /home/x.old", "~/venvs/ab, /mnt/home/x, /home/xy, /home/x.old"),
            ("in (/home/x/b), run `rm /home/x/b`", "in (~/b), run `rm /home/x/b`"),
        ] {
            assert_eq!(prose.shorten(text), expected);
        }
    }

    #[test]
    fn a_directory_that_stands_in_one_text_alone_keeps_its_path() {
        let dir = Path::new("/opt/cudnn/of/this/test");
        let name = |texts: &[&str]| Prose::default().with(dir, "<cudnn>", texts).has("<cudnn>");
        assert!(!name(&["/opt/cudnn/of/this/test/a", "/opt/cudnn/of/this/test2"]));
        assert!(name(&["/opt/cudnn/of/this/test/a", "in /opt/cudnn/of/this/test"]));
    }
}
