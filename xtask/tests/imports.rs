//! Checks that files do not import each other in a cycle. The test reads source code as text: it finds `use`
//! declarations and paths such as `crate::a::b()`, and follows re-exports to the defining file. Imports from the direct
//! parent are ignored, because a parent may re-export and use its children. The test does not recognize `#[path]`,
//! inline modules, and names imported by `*`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let mut modules = Modules::new();
    read(Path::new(".."), "", &mut modules);
    assert!(modules.len() > 300, "{:?}", modules.keys());
    let mut imports = BTreeSet::new();
    for (name, module) in &modules {
        let used = module.uses.iter().filter_map(|(is_pub, _, path)| match find(&modules, name, path, 9)? {
            // Paths that start with an imported module count, but re-exports of children do not.
            (_, true) => None,
            (file, _) => (!is_pub || !file.starts_with(name)).then_some(file),
        });
        let files = used.chain(module.paths.iter().filter_map(|path| Some(find(&modules, name, path, 9)?.0)));
        let files = files.filter(|file| modules.contains_key(file) && file != name && file != parent(name));
        imports.extend(files.map(|file| (name.clone(), file)));
    }
    // Files without imports, and files that are never imported, cannot be part of a cycle.
    loop {
        let before = imports.len();
        let (users, used): (BTreeSet<_>, BTreeSet<_>) = imports.iter().cloned().unzip();
        imports.retain(|(from, to)| used.contains(from) && users.contains(to));
        if imports.len() == before {
            break;
        }
    }
    let file = |module: &String| modules[module].file.clone();
    let cycles: Vec<_> = imports.iter().map(|(from, to)| format!("{} imports {}", file(from), file(to))).collect();
    assert!(cycles.is_empty(), "these imports are in a cycle, or between two cycles:\n{}", cycles.join("\n"));
}

/// Files by module path: `../cudnn-loader/src::layers::host`.
type Modules = BTreeMap<String, Module>;

struct Module {
    file: String,
    uses: Vec<Import>,
    /// The paths in the code.
    paths: Vec<String>,
}

/// Whether the import is a re-export, the resulting name, and the path.
type Import = (bool, String, String);

fn read(dir: &Path, module: &str, modules: &mut Modules) {
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let name = match path.file_stem().unwrap().to_str().unwrap() {
            "target" => continue,
            // Unit tests.
            "tests" if module.contains("src") => continue,
            hidden if hidden.starts_with('.') => continue,
            "src" => path.display().to_string(),
            "lib" | "main" | "mod" => module.to_owned(),
            stem => format!("{module}::{stem}"),
        };
        if path.is_dir() {
            read(&path, &name, modules);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let (uses, paths) = parse(&std::fs::read_to_string(&path).unwrap());
            modules.insert(name, Module { file: path.display().to_string(), uses, paths });
        }
    }
}

fn parse(source: &str) -> (Vec<Import>, Vec<String>) {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = source.lines().map(|line| line.split("//").next().unwrap().to_owned() + "\n").collect();
    let (mut uses, mut paths) = (Vec::new(), Vec::new());
    // `pub(in crate::a)` is not an import.
    for statement in code.replace("(in crate::", "(in ::").split(';') {
        let is_tree = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_:{}*, \n".contains(c));
        if let Some((before, tree)) = statement.rsplit_once("use ").filter(|(_, tree)| is_tree(tree)) {
            let is_pub = before.lines().last().is_some_and(|line| line.contains("pub"));
            expand(is_pub, "", tree, &mut uses);
        } else {
            let words = statement.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
            let words = words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"));
            paths.extend(words.map(str::to_owned));
        }
    }
    (uses, paths)
}

/// Adds every path of a tree: `a::{b, c::{self, d as e}}`.
fn expand(is_pub: bool, prefix: &str, tree: &str, uses: &mut Vec<Import>) {
    let (head, branches) = tree.split_once('{').unwrap_or((tree, ""));
    let path = format!("{prefix}{}", head.trim());
    if !branches.is_empty() {
        let mut depth = 0;
        let branches = branches.rsplit_once('}').map_or("", |(branches, _)| branches).split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        branches.for_each(|branch| expand(is_pub, &path, branch, uses));
    } else if path != prefix {
        let (path, alias) = path.split_once(" as ").unwrap_or((&path, ""));
        let path = path.trim_end_matches("::self");
        let name = if alias.is_empty() { path.rsplit("::").next().unwrap() } else { alias };
        uses.push((is_pub, name.to_owned(), path.to_owned()));
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or(module, |(parent, _)| parent)
}

/// Returns the file that a path in a module refers to, and whether the path names the whole file. Returns `None` for
/// another crate.
fn find(modules: &Modules, from: &str, path: &str, steps: u32) -> Option<(String, bool)> {
    let (first, rest) = path.split_once("::").unwrap_or((path, ""));
    let child = format!("{from}::{first}");
    let file = match first {
        "crate" => from.split("::").next()?,
        "self" => from,
        "super" => parent(from),
        _ if modules.contains_key(&child) => &child,
        _ => {
            let (.., target) = modules.get(from)?.uses.iter().find(|(_, name, _)| name == first)?;
            return find(modules, from, format!("{target}::{rest}").trim_end_matches(':'), steps.checked_sub(1)?);
        }
    };
    let whole = || Some((file.to_owned(), rest.is_empty()));
    if rest.is_empty() { whole() } else { find(modules, file, rest, steps).or_else(whole) }
}
