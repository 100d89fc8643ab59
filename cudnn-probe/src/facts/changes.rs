//! Imagines a system after changes: a file tree over the real one, and other variables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf, Prefix};
use std::sync::{Arc, Mutex};

use super::files::{DirEntry, FileContents, FileKind, Metadata};
use super::portable::Portable;
use super::record::{Answer, Answers, Change, Changed, Facts, Recorded, recorded};
use super::{Subject, canonicalize, entries_named, read_dir, symlink_metadata};
use crate::error::ProbeError;
use crate::files::FileIdentity;
use crate::image::{Identity, Links};
use crate::library::Library;
use crate::platform::{Architecture, Os};
use crate::version::Version;

/// The maximum number of symbolic links to follow, as on Linux.
const MAX_LINKS: usize = 40;

/// Simulated changes to files and variables, for [`Facts::after`].
///
/// A path may contain symbolic links. Call the methods within the facts that will be changed, because the links are
/// resolved at once.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Removed paths, without links. Earlier contents are hidden. Texts are compared faster than paths.
    hidden: BTreeSet<OsString>,
    /// The new files and directories, by paths without links.
    nodes: BTreeMap<OsString, Node>,
    /// The answers about other subjects than files, by question and subject.
    answers: Answers,
    /// The known results of [`real_dir`](Changes::real_dir), which most paths share.
    real_dirs: Arc<Mutex<HashMap<PathBuf, PathBuf>>>,
}

#[derive(Clone, Debug)]
enum Node {
    Dir,
    File { contents: Vec<u8>, answers: BTreeMap<&'static str, Arc<dyn Recorded>> },
}

impl Facts {
    /// Returns the facts as they would be after these changes. Questions that the changes do not affect are answered as
    /// before. A question about a changed file is answered by the changes, or as if the file did not exist.
    #[must_use]
    pub fn after(&self, changes: Changes) -> Facts {
        self.with_changes(Arc::new(changes))
    }
}

impl Changes {
    /// Removes a file, or a directory with its contents.
    pub fn remove(&mut self, path: &Path) {
        let path = self.real_name(path);
        self.nodes.retain(|node, _| !Path::new(node).starts_with(&path));
        self.hidden.insert(path.into());
        self.real_dirs = Arc::default();
    }

    /// Creates a directory, with its parents.
    pub fn create_dir(&mut self, dir: &Path) {
        let dir = self.real(dir);
        let missing = dir.ancestors().take_while(|dir| !self.exists(dir)).map(Path::to_owned).collect::<Vec<_>>();
        for dir in missing {
            self.nodes.insert(dir.into(), Node::Dir);
        }
        self.real_dirs = Arc::default();
    }

    /// Creates or replaces a file.
    pub fn write(&mut self, file: &Path, text: &str) {
        self.add(file, Node::File { contents: text.as_bytes().to_vec(), answers: BTreeMap::new() });
    }

    /// Creates or replaces a library that needs these other libraries.
    pub fn write_library(&mut self, file: &Path, links: &Links) {
        self.add(file, Node::File { contents: Vec::new(), answers: answers_of(links) });
    }

    /// Creates or replaces a library of this release of cuDNN for this CUDA major version.
    pub fn write_cudnn(&mut self, file: &Path, library: Library, release: Version, cuda_major: u32, links: &Links) {
        let identity = Identity {
            path: file.to_owned(),
            library,
            os: Os::HOST,
            architecture: Architecture::HOST,
            version: library.version_symbol().map(|_| release),
            cuda_major: Some(cuda_major),
            cuda_at_most: None,
            cuda_minor: None,
            needed: links.needed.clone(),
            run_path: links.runpath.as_ref().map(|path| path.to_string_lossy().into_owned()),
        };
        self.write_copy(file, identity, links);
    }

    /// Creates or replaces a library that is the same as another.
    pub fn write_copy(&mut self, file: &Path, identity: Identity, links: &Links) {
        let identity: Result<Identity, ProbeError> = Ok(Identity { path: file.to_owned(), ..identity });
        let mut answers = answers_of(links);
        let identity = recorded(identity);
        answers.extend(["identity", "identity on any system"].map(|question| (question, Arc::clone(&identity))));
        self.add(file, Node::File { contents: Vec::new(), answers });
    }

    /// Creates or replaces a file that the current user can execute.
    pub fn write_program(&mut self, file: &Path, text: &str) {
        let answers = BTreeMap::from([("executable", recorded(true))]);
        self.add(file, Node::File { contents: text.as_bytes().to_vec(), answers });
    }

    /// Sets or unsets a variable.
    pub fn set_variable(&mut self, name: &str, value: Option<OsString>) {
        ["variable", "variable at start"].iter().for_each(|question| self.set_answer(question, name, &value));
    }

    /// Changes the answer to a question whose subject is not a file.
    pub fn set_answer<T: Answer>(&mut self, question: &str, subject: &str, answer: &T) {
        let answers = self.answers.entry(question.to_owned()).or_default();
        answers.insert(subject.to_owned(), recorded(answer.copy()));
    }

    fn add(&mut self, path: &Path, node: Node) {
        if let Some(dir) = path.parent() {
            self.create_dir(dir);
        }
        self.nodes.insert(self.real_name(path).into(), node);
        self.real_dirs = Arc::default();
    }

    fn node(&self, path: &Path) -> Option<&Node> {
        self.nodes.get(path.as_os_str())
    }

    /// Returns the new files and directories in a real directory, with their names.
    fn added<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = (&'a OsStr, &'a Node)> {
        let nodes = self.nodes.range(below(dir)).map(|(path, node)| (Path::new(path), node));
        let nodes = nodes.take_while(move |(path, _)| path.starts_with(dir));
        nodes
            .filter(move |(path, _)| path.parent() == Some(dir))
            .filter_map(|(path, node)| Some((path.file_name()?, node)))
    }

    /// Returns whether what was at a real path, or above it, was removed.
    fn is_hidden(&self, path: &Path) -> bool {
        !self.hidden.is_empty() && path.ancestors().any(|above| self.hidden.contains(above.as_os_str()))
    }

    /// Returns whether what was at a real path was replaced or removed.
    fn is_changed(&self, path: &Path) -> bool {
        self.node(path).is_some() || self.hidden.contains(path.as_os_str())
    }

    /// Returns whether there are changes below a real path.
    fn has_changes_below(&self, dir: &Path) -> bool {
        let hidden = self.hidden.range(below(dir)).next();
        let added = self.nodes.range(below(dir)).next().map(|(path, _)| path);
        hidden.into_iter().chain(added).any(|path| Path::new(path).starts_with(dir))
    }

    fn exists(&self, path: &Path) -> bool {
        self.node(path).is_some() || !self.is_hidden(path) && symlink_metadata(path).is_ok()
    }

    /// Returns the path without links and `..`. The parts that do not exist stay the same, and so does a path with too many
    /// links.
    fn real(&self, path: &Path) -> PathBuf {
        let path = super::absolute(path).unwrap_or_else(|_| path.to_owned());
        match (path.parent(), path.file_name()) {
            (Some(dir), Some(name)) => self.follow(self.real_dir(dir), vec![name.to_owned()]),
            _ => self.follow(PathBuf::new(), parts(&path)),
        }
        .unwrap_or(path)
    }

    /// Returns the path of a directory without links and `..`.
    fn real_dir(&self, dir: &Path) -> PathBuf {
        let known = self.real_dirs.lock().ok().and_then(|known| known.get(dir).cloned());
        known.unwrap_or_else(|| {
            let real = self.real(dir);
            if let Ok(mut known) = self.real_dirs.lock() {
                known.insert(dir.to_owned(), real.clone());
            }
            real
        })
    }

    /// Follows the links of the parts that are left, with the next one at the end. Returns `None` after too many links.
    fn follow(&self, mut real: PathBuf, mut left: Vec<OsString>) -> Option<PathBuf> {
        let mut links = MAX_LINKS;
        while let Some(part) = left.pop() {
            if part == ".." {
                real.pop();
                continue;
            }
            real.push(&part);
            if self.node(&real).is_some() || self.is_hidden(&real) || real.parent().is_none() {
                continue;
            }
            let Ok(target) = super::read_link(&real) else { continue };
            links = links.checked_sub(1)?;
            real.pop();
            left.extend(parts(&target));
        }
        Some(real)
    }

    /// Returns the path without links in the parent.
    fn real_name(&self, path: &Path) -> PathBuf {
        let path = super::absolute(path).unwrap_or_else(|_| path.to_owned());
        match (path.parent(), path.file_name()) {
            (Some(dir), Some(name)) => self.real_dir(dir).join(name),
            _ => path,
        }
    }

    fn about(&self, question: &str, subject: &Subject<'_>, path: &Path) -> Changed {
        let is_about_link = matches!(question, "own metadata" | "link");
        let real = if is_about_link { self.real_name(path) } else { self.real(path) };
        match (self.node(&real), subject.wanted()) {
            (None | Some(Node::Dir), Some((what, is_wanted))) => {
                return self.wanted_entries(path, &real, what, is_wanted);
            }
            (Some(node), _) => return self.about_node(question, &real, node),
            (None, None) if self.is_hidden(&real) => return Changed::Affected,
            (None, None) => {}
        }
        match question {
            // A link in the path may have led elsewhere.
            "real path" if canonicalize(path).is_ok_and(|before| before != real) => answer(real),
            _ if !self.has_changes_below(&real) => Changed::Unaffected,
            "entries" => self.entries(&real),
            _ => Changed::Within,
        }
    }

    fn about_node(&self, question: &str, real: &Path, node: &Node) -> Changed {
        let metadata = |kind, len: usize| answer(Metadata::new(kind, len as u64));
        match (question, node) {
            ("real path", _) => answer(real.to_owned()),
            ("opening", _) => answer(()),
            ("file identity", _) => Changed::Answer(recorded(FileIdentity::imagined(real))),
            ("metadata" | "own metadata", Node::Dir) => metadata(FileKind::Dir, 0),
            ("metadata" | "own metadata", Node::File { contents, .. }) => metadata(FileKind::File, contents.len()),
            ("entries", Node::Dir) => self.entries(real),
            // Whoever creates a directory can write to it.
            ("writable", Node::Dir) => Changed::Answer(recorded(true)),
            ("contents", Node::File { contents, .. }) => {
                answer(FileContents { bytes: contents.clone(), len: contents.len() as u64 })
            }
            (_, Node::File { answers, .. }) => match answers.get(question) {
                Some(value) => Changed::Answer(value.clone()),
                None => Changed::Affected,
            },
            _ => Changed::Affected,
        }
    }

    /// Lists a real directory.
    fn entries(&self, dir: &Path) -> Changed {
        let before = (!self.is_hidden(dir)).then(|| read_dir(dir)).into_iter().flatten().flatten();
        let mut entries: Vec<DirEntry> = before.filter(|entry| !self.is_changed(&entry.path())).collect();
        entries.extend(self.added(dir).map(|(name, node)| {
            let kind = match node {
                Node::Dir => FileKind::Dir,
                Node::File { .. } => FileKind::File,
            };
            DirEntry::new(dir, name.to_owned(), kind)
        }));
        answer(entries)
    }

    /// Lists the wanted entries of a directory with this real path.
    fn wanted_entries(&self, dir: &Path, real: &Path, what: &str, is_wanted: &dyn Fn(&str) -> bool) -> Changed {
        let mut entries = if self.is_hidden(real) { Vec::new() } else { entries_named(dir, what, is_wanted) };
        entries.retain(|entry| entry.file_name().is_some_and(|name| !self.is_changed(&real.join(name))));
        let names = self.added(real).filter_map(|(name, _)| name.to_str()).filter(|name| is_wanted(name));
        entries.extend(names.map(|name| dir.join(name)));
        entries.sort();
        Changed::Answer(recorded(entries))
    }
}

impl Change for Changes {
    fn answer(&self, question: &str, subject: &Subject<'_>) -> Changed {
        if subject.paths().next().is_none() {
            let answer = self.answers.get(question).and_then(|answers| answers.get(&*subject.key()));
            return answer.cloned().map_or(Changed::Unaffected, Changed::Answer);
        }
        if self.nodes.is_empty() && self.hidden.is_empty() {
            return Changed::Unaffected;
        }
        let changed = subject.paths().map(|path| self.about(question, subject, path));
        { changed }.find(|changed| !matches!(changed, Changed::Unaffected)).unwrap_or(Changed::Unaffected)
    }
}

/// Returns the range that starts with the paths below a directory.
fn below(dir: &Path) -> (Bound<OsString>, Bound<OsString>) {
    (Bound::Excluded(dir.join("").into()), Bound::Unbounded)
}

/// Returns the parts of a path, with the first one at the end. Windows ignores the case of a drive letter.
fn parts(path: &Path) -> Vec<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Prefix(prefix) if matches!(prefix.kind(), Prefix::Disk(_) | Prefix::VerbatimDisk(_)) => {
            prefix.as_os_str().to_ascii_uppercase()
        }
        part => part.as_os_str().to_owned(),
    };
    path.components().rev().map(part).collect()
}

/// Returns the answers about a library.
fn answers_of(links: &Links) -> BTreeMap<&'static str, Arc<dyn Recorded>> {
    let found: Result<Links, ProbeError> = Ok(links.clone());
    let none: Result<Vec<String>, ProbeError> = Ok(Vec::new());
    BTreeMap::from([("links", recorded(found)), ("missing symbols", recorded(none))])
}

/// Returns a successful answer.
fn answer<T: Portable + Clone>(value: T) -> Changed {
    Changed::Answer(recorded::<io::Result<T>>(Ok(value)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::{PathFacts, entries_named, read_bounded, variable};
    use super::*;

    #[test]
    fn changed_files_and_variables_are_seen_under_all_names() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-changes-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("lib/old")).unwrap();
        std::fs::write(dir.join("lib/old/file"), "text").unwrap();
        std::fs::write(dir.join("lib/kept"), "text").unwrap();
        cudnn_os::files::symlink("lib".as_ref(), &dir.join("lib64")).unwrap();
        // Following every link twice would take for ever.
        cudnn_os::files::symlink(".".as_ref(), &dir.join("l0")).unwrap();
        for number in 1..40 {
            let target = format!("l{0}/l{0}", number - 1);
            cudnn_os::files::symlink(target.as_ref(), &dir.join(format!("l{number}"))).unwrap();
        }
        let facts = Facts::recorder();
        let changes = facts.within(|| {
            let mut changes = Changes::default();
            changes.remove(&dir.join("lib64/old"));
            changes.write(&dir.join("lib64/new/a.txt"), "new text");
            changes.set_variable("PATH", None);
            changes
        });
        facts.after(changes.clone()).within(|| {
            for lib in ["lib", "lib64"] {
                let lib = dir.join(lib);
                assert!(!lib.join("old").path_exists() && !lib.join("old/file").target_exists());
                assert!(lib.join("kept").leads_to_file() && lib.join("new").leads_to_dir());
                assert_eq!(read_bounded(&lib.join("new/a.txt"), 99).unwrap(), b"new text");
                assert_eq!(entries_named(&lib, "all", |_| true), [lib.join("kept"), lib.join("new")]);
            }
            let real = canonicalize(&dir).unwrap();
            assert_eq!(canonicalize(dir.join("lib64/new/../new/a.txt")).unwrap(), real.join("lib/new/a.txt"));
            assert!(!dir.join("lib/old/../kept/..").join("old").leads_to_dir());
            // A change of another directory must not make a relative path its own real path.
            let relative = Path::new("src/lib.rs");
            assert!(canonicalize(relative).unwrap().is_absolute() && relative.leads_to_file());
            assert_eq!(variable("PATH"), None);
            assert!(!dir.join("l39/lib").target_exists());
        });
        assert!(dir.join("lib64/old/file").leads_to_file() && variable("PATH").is_some());
        // A directory that was removed and created again is empty.
        let again = facts.within(|| {
            let mut again = changes.clone();
            again.remove(&dir.join("lib"));
            again.write(&dir.join("lib/x"), "");
            again
        });
        facts.after(again).within(|| {
            let lib = dir.join("lib64");
            assert_eq!(entries_named(&lib, "all", |_| true), [lib.join("x")]);
            assert!(!lib.join("kept").target_exists());
        });
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
