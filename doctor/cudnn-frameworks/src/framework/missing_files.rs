//! Finds missing files that a framework's package record lists.

use cudnn_probe::facts::{self, PathFacts, Subject};
use std::path::{Path, PathBuf};

use cudnn_probe::Os;

use super::kind::FrameworkKind;
use crate::files::{file_name, fits};
use crate::package::distribution::Distribution;
use crate::package::record;
use crate::parallel::in_parallel;

const MAX_REPORTED: usize = 64;

/// Missing files of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingFiles {
    /// Files that the import needs: the framework's module, and libraries that its Python code opens.
    pub necessary: Vec<PathBuf>,
    /// The first other missing files.
    pub others: Vec<PathBuf>,
    /// The total number of missing files.
    pub count: usize,
}

/// Compares a package with the record. Packages without a record and editable packages count as complete.
pub(crate) fn read(kind: &FrameworkKind, distribution: &Distribution, os: Os) -> MissingFiles {
    let mut missing_files = MissingFiles::default();
    let Some(module) = kind.module_in(distribution).filter(|_| !distribution.is_editable) else { return missing_files };
    let module = Path::new(&module);
    let mut patterns: Vec<PathBuf> = vec![module.join("__init__.py")];
    let libraries = kind.on(os).into_iter().flat_map(|binaries| binaries.libraries.iter().chain(&binaries.also_opens));
    patterns.extend(libraries.map(|pattern| below(module, pattern)));
    let is_necessary = |path: &Path| patterns.iter().any(|pattern| is_match(pattern, path));
    let module_dir = distribution.import_dir.join(module);
    let subject = Subject::from(&distribution.info_dir).and([module_dir.as_path()]);
    let missing: Vec<PathBuf> = facts::derive("files in record that are missing", subject, || missing(distribution));
    for path in missing {
        missing_files.count += 1;
        let list = if is_necessary(&path) { &mut missing_files.necessary } else { &mut missing_files.others };
        if list.len() < MAX_REPORTED {
            list.push(distribution.import_dir.join(path));
        }
    }
    missing_files
}

fn missing(distribution: &Distribution) -> Vec<PathBuf> {
    let modules = record::modules(&distribution.info_dir);
    let is_there = in_parallel(&modules, |path| {
        let file = distribution.import_dir.join(path);
        // Some packages contain only compiled modules.
        file.path_exists() || path.extension().is_some_and(|_| file.with_extension("pyc").leads_to_file())
    });
    modules.into_iter().zip(is_there).filter(|(_, is_there)| !is_there).map(|(path, _)| path).collect()
}

/// Joins a pattern, which may start with `..`, to the module's directory.
fn below(module: &Path, pattern: &str) -> PathBuf {
    match pattern.strip_prefix("../") {
        Some(beside) => below(module.parent().unwrap_or(Path::new("")), beside),
        None => module.join(pattern),
    }
}

fn is_match(pattern: &Path, path: &Path) -> bool {
    pattern.parent() == path.parent() && fits(file_name(pattern), file_name(path))
}
