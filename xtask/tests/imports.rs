//! No files of a package import each other in a cycle: files that need each other are one thought, or lack a third.
//!
//! The test reads source as text. It finds `use` declarations and paths such as `crate::a::b()`, and follows re-exports to
//! the file that they name. It ignores what a file takes from its direct parent, since the parent of modules is often both
//! their face and their user. It does not see `#[path]`, inline modules and imports of everything (`*`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut manifests = Vec::new();
    walk(root, &|name| name != "target" && !name.starts_with('.'), &mut manifests);
    manifests.retain(|file| file.ends_with("Cargo.toml"));
    assert!(manifests.len() > 10, "{manifests:?}");
    for manifest in manifests {
        let cycles = cycles(&manifest.with_file_name("src"));
        assert!(cycles.is_empty(), "imports in a cycle in {}:\n{}", manifest.display(), cycles.join("\n"));
    }
}

/// The files below a directory, without directories whose names are not wanted.
fn walk(dir: &Path, is_wanted: &dyn Fn(&str) -> bool, files: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true if is_wanted(path.file_name().unwrap().to_str().unwrap()) => walk(&path, is_wanted, files),
            true => {}
            false => files.push(path),
        }
    }
}

/// `a.rs -> b.rs` for each import that is part of a cycle, or between two cycles.
fn cycles(src: &Path) -> Vec<String> {
    let mut files = Vec::new();
    walk(src, &|name| !["tests", "bin", "generated"].contains(&name), &mut files);
    let modules: Modules = files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs") && !file.ends_with("tests.rs"))
        .map(|file| {
            let name = file.strip_prefix(src).unwrap().with_extension("").to_str().unwrap().replace(['/', '\\'], "::");
            let name = name.strip_suffix("mod").map_or(&*name, |parent| parent.trim_end_matches(':'));
            let name = if ["lib", "main"].contains(&name) { "" } else { name };
            (name.to_owned(), Module::parse(&std::fs::read_to_string(file).unwrap()))
        })
        .collect();
    let mut edges = BTreeSet::new();
    for (name, module) in &modules {
        let imported = module.uses.iter().filter_map(|used| match find(&modules, name, &used.path, 9)? {
            // What its paths lead to counts, and a face is no user of what it hands on.
            (_, true) => None,
            (target, _) if used.is_pub && parent(&target) == name.as_str() => None,
            (target, _) => Some(target),
        });
        let named = module.paths.iter().filter_map(|path| Some(find(&modules, name, path, 9)?.0));
        let targets = imported.chain(named).filter(|target| target != name && target != parent(name));
        edges.extend(targets.map(|target| (name.clone(), target)));
    }
    loop {
        let ends = |end: fn(&(String, String)) -> &String| edges.iter().map(end).cloned().collect::<BTreeSet<_>>();
        let (users, used) = (ends(|edge| &edge.0), ends(|edge| &edge.1));
        let before = edges.len();
        edges.retain(|(from, to)| used.contains(from) && users.contains(to));
        if edges.len() == before {
            return edges.iter().map(|(from, to)| format!("  crate::{from} -> crate::{to}")).collect();
        }
    }
}

type Modules = BTreeMap<String, Module>;

/// What one file imports, and the paths in its code.
#[derive(Default)]
struct Module {
    uses: Vec<Use>,
    paths: Vec<String>,
}

struct Use {
    is_pub: bool,
    name: String,
    path: String,
}

impl Module {
    fn parse(source: &str) -> Module {
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code: String = source.lines().map(|line| line.split("//").next().unwrap().to_owned() + "\n").collect();
        // A visibility is no import.
        let code = code.replace("(in crate::", "(in pub::");
        let mut module = Module::default();
        for statement in code.split(';') {
            let is_tree = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_:{}*, \n".contains(c));
            match statement.rsplit_once("use ").filter(|(_, tree)| is_tree(tree)) {
                Some((before, tree)) => {
                    let is_pub = before.lines().last().is_some_and(|line| line.contains("pub"));
                    module.expand(is_pub, "", tree);
                }
                None => {
                    let words = statement.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
                    let paths = words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"));
                    module.paths.extend(paths.map(str::to_owned));
                }
            }
        }
        module
    }

    /// Adds each path of a tree: `a::{b, c::{self, d as e}}`.
    fn expand(&mut self, is_pub: bool, prefix: &str, tree: &str) {
        if let Some((head, inner)) = tree.split_once('{') {
            let prefix = format!("{prefix}{}", head.trim());
            let mut depth = 0;
            let branches = inner.rsplit_once('}').unwrap().0.split(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0
            });
            branches.for_each(|branch| self.expand(is_pub, &prefix, branch));
        } else if !tree.trim().is_empty() {
            let path = format!("{prefix}{}", tree.trim());
            let (path, alias) = path.split_once(" as ").map_or((&*path, None), |(path, alias)| (path, Some(alias)));
            let path = path.strip_suffix("::self").unwrap_or(path);
            let name = alias.or(path.rsplit("::").next()).unwrap_or_default().to_owned();
            self.uses.push(Use { is_pub, name, path: path.to_owned() });
        }
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// The module of the file that a path of this module leads to, and whether the path ends there. `None` for another crate.
fn find(modules: &Modules, from: &str, path: &str, steps: u32) -> Option<(String, bool)> {
    let (first, rest) = path.split_once("::").unwrap_or((path, ""));
    let child = if from.is_empty() { first.to_owned() } else { format!("{from}::{first}") };
    let below = |module: &str| match rest {
        "" => Some((module.to_owned(), true)),
        rest => find(modules, module, rest, steps).or(Some((module.to_owned(), false))),
    };
    match first {
        "crate" => below(""),
        "self" => below(from),
        "super" => below(parent(from)),
        _ if modules.contains_key(&child) => below(&child),
        _ => {
            let used = modules.get(from)?.uses.iter().find(|used| used.name == first)?;
            let path = format!("{}::{rest}", used.path);
            find(modules, from, path.trim_end_matches(':'), steps.checked_sub(1)?)
        }
    }
}
