//! The files of a framework's package that its record names and that are not there. Asks for names alone.

use std::path::{Path, PathBuf};

use cudnn_probe::Os;

use crate::distribution::Distribution;
use crate::kind::{Kind, fits};
use crate::record;

/// The most files that are reported.
const MAX_REPORTED: usize = 64;

/// Files of a package that are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Absent {
    /// Those that the import of the framework fails without: its module, and the libraries that its Python code opens.
    pub necessary: Vec<PathBuf>,
    /// The first of the others.
    pub others: Vec<PathBuf>,
    /// The number of all.
    pub count: usize,
}

/// Compares a package's directory with its record. One without a record, or from a source directory, has no such files.
pub(crate) fn read(kind: &Kind, distribution: &Distribution, os: Os) -> Absent {
    let mut absent = Absent::default();
    let Some(module) = kind.module_in(distribution).filter(|_| !distribution.is_editable) else { return absent };
    let init = Path::new(&module).join("__init__.py");
    let also = if os == Os::Windows { &[] } else { kind.also_opens };
    let patterns = kind.libraries_on(os).into_iter().chain(also.iter().copied());
    let patterns: Vec<PathBuf> = patterns.map(|pattern| below(Path::new(&module), pattern)).collect();
    let is_necessary = |path: &Path| path == init || patterns.iter().any(|pattern| is_match(pattern, path));
    for path in record::modules(distribution) {
        let file = distribution.import_dir.join(&path);
        // A module may be there in its compiled form alone.
        if file.symlink_metadata().is_ok() || path.extension().is_some_and(|_| file.with_extension("pyc").is_file()) {
            continue;
        }
        absent.count += 1;
        let list = if is_necessary(&path) { &mut absent.necessary } else { &mut absent.others };
        if list.len() < MAX_REPORTED {
            list.push(file);
        }
    }
    absent
}

/// A pattern below the module's directory, which may begin with `..`.
fn below(module: &Path, pattern: &str) -> PathBuf {
    match pattern.strip_prefix("../") {
        Some(beside) => below(module.parent().unwrap_or(Path::new("")), beside),
        None => module.join(pattern),
    }
}

fn is_match(pattern: &Path, path: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    pattern.parent() == path.parent() && fits(&name(pattern), &name(path))
}
