//! The import of a framework in a simulated process: the names that its libraries ask for, and the files that they get.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{self, Lookup};

use super::process::{Process, is_missing, is_of_cuda, is_shim};
use super::sub_libraries::{self, Use};
use super::{Damaged, Opens, bytes, chain, python_code};
use crate::built_for::BuiltFor;
use crate::cudnn_name::is_cudnn;
use crate::driver::is_of_driver;
use crate::kind::{ByName, Kind, first_matching, matching};

impl Process {
    /// Imports a framework, whose module is in this directory.
    pub(crate) fn import(&mut self, kind: &Kind, version: &str, dir: &Path, built_for: &BuiltFor, uses: Use) -> Opens {
        let mut opens = Opens { is_optional: kind.is_cudnn_optional, ..Opens::default() };
        self.cuda_major = built_for.cuda.as_ref().map(|cuda| cuda.value.0);
        opens.half_searched = python_code::run(self, kind, version, dir, built_for);
        let files: Vec<PathBuf> = kind.libraries.iter().flat_map(|pattern| matching(dir, pattern)).collect();
        let first_lookup = self.simulation.lookups().len();
        let mut opens =
            self.load(&files, opens, uses, |process, opens| process.open_by_name(kind, dir, built_for, opens));
        chain::check(self, kind, dir, first_lookup, &mut opens);
        self.open_cuda(kind, dir, built_for, &mut opens);
        let is_of_cuda = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| is_of_cuda(name) && !is_cudnn(name) && !is_of_driver(name))
        };
        opens.cuda = self.simulation.objects().iter().map(|object| &object.path).filter(is_of_cuda).cloned().collect();
        opens
    }

    /// Opens the libraries of CUDA that its libraries open by name.
    fn open_cuda(&mut self, kind: &Kind, dir: &Path, built_for: &BuiltFor, opens: &mut Opens) {
        let Some((major, _)) = built_for.cuda.as_ref().map(|cuda| cuda.value) else { return };
        let Some((_, names)) = kind.opens_cuda.iter().find(|(of, _)| *of == major) else { return };
        let opener = kind.opens_by_name.as_ref().and_then(|by_name| first_matching(dir, by_name.from));
        let real = |path: &Path| self.known.files.canonical(path);
        let is_opener = |path: &Path| opener.as_ref().is_some_and(|opener| real(opener) == real(path));
        let Some(from) = self.simulation.objects().iter().position(|object| is_opener(&object.path)) else { return };
        let first_lookup = self.simulation.lookups().len();
        for name in *names {
            if !self.dlopen(name, from) && !opens.missing.iter().any(|missing| missing == name) {
                opens.missing.push((*name).to_owned());
            }
        }
        self.skip_lookups();
        self.add_damaged(first_lookup, opens);
    }

    /// Adds the files that are none of cuDNN's and that ld.so has found and cannot load, since this lookup.
    fn add_damaged(&self, first_lookup: usize, opens: &mut Opens) {
        let lookups = self.simulation.lookups().get(first_lookup..).unwrap_or_default();
        let others = lookups.iter().filter(|lookup| !is_cudnn(&lookup.name) && !is_of_driver(&lookup.name));
        for damaged in others.filter_map(Damaged::of) {
            if !opens.damaged_others.iter().any(|known| known.path == damaged.path) {
                opens.damaged_others.push(damaged);
            }
        }
    }

    /// Opens these libraries of a package that is no known framework.
    pub(crate) fn open(&mut self, files: &[PathBuf], uses: Use) -> Opens {
        self.load(files, Opens::default(), uses, |_, _| {})
    }

    /// Opens libraries, then what an unlinked package opens by name, then what the shim of cuDNN opens.
    fn load(
        &mut self,
        files: &[PathBuf],
        mut opens: Opens,
        uses: Use,
        open_by_name: impl FnOnce(&mut Self, &mut Opens),
    ) -> Opens {
        let (first_lookup, first_object) = (self.simulation.lookups().len(), self.simulation.objects().len());
        for file in files {
            self.simulation.open_file(file, 0);
        }
        self.note_lookups(None);
        let loaded = self.simulation.objects().get(first_object..).unwrap_or_default();
        let is_user = |needed: &[String]| needed.iter().any(|name| is_cudnn(name));
        opens.users = loaded
            .iter()
            .filter(|object| !is_cudnn_file(&object.path) && is_user(object.needed()))
            .map(|object| object.path.clone())
            .collect();
        if opens.users.is_empty() {
            open_by_name(self, &mut opens);
        }
        let lookups = self.simulation.lookups().get(first_lookup..).unwrap_or_default();
        // The shim before the libraries that it would open, whoever asks first.
        let (shims, others): (Vec<&Lookup>, Vec<&Lookup>) =
            lookups.iter().filter(|lookup| is_cudnn(&lookup.name)).partition(|lookup| is_shim(&lookup.name));
        opens.name = shims.first().map(|lookup| lookup.name.clone());
        opens.cudnn = shims.into_iter().chain(others).filter_map(|lookup| self.opened(lookup)).collect();
        opens.missing = lookups.iter().filter(|lookup| is_missing(lookup)).map(|lookup| lookup.name.clone()).collect();
        opens.damaged = lookups.iter().filter(|lookup| is_cudnn(&lookup.name)).filter_map(Damaged::of).collect();
        if let Some(shim) = opens.cudnn.first().cloned() {
            sub_libraries::open(self, &shim, uses, &mut opens);
        }
        self.add_damaged(first_lookup, &mut opens);
        let mut seen = HashSet::new();
        opens.cudnn.retain(|opened| seen.insert(opened.path.clone()));
        let mut seen = HashSet::new();
        opens.missing.retain(|name| seen.insert(name.clone()));
        opens
    }

    /// Opens cuDNN by name from the library that does so, or finds that no library of it does.
    fn open_by_name(&mut self, kind: &Kind, dir: &Path, built_for: &BuiltFor, opens: &mut Opens) {
        let opener = kind.opens_by_name.as_ref().and_then(|by_name| opener(by_name, dir));
        let Some(opener) = opener else {
            opens.needs_none = is_complete(kind, dir);
            return;
        };
        opens.is_optional |= kind.opens_by_name.as_ref().is_some_and(|by_name| by_name.depends_on_release);
        // Its extension library has loaded it, or does it later.
        let canonical = self.known.files.canonical(&opener);
        let is_it = |path: &Path| path == opener || self.known.files.canonical(path) == canonical;
        let loaded = self.simulation.objects().iter().position(|object| is_it(&object.path));
        let Some(from) = loaded.or_else(|| self.simulation.open_file(&opener, 0)) else { return };
        let major = built_for.cudnn.as_ref().map_or(9, |cudnn| cudnn.value.major);
        self.dlopen(&format!("libcudnn.so.{major}"), from);
        self.note_lookups(None);
        opens.users.push(opener);
    }
}

/// Whether its libraries are there and can be read: only then do they show that none needs cuDNN.
fn is_complete(kind: &Kind, dir: &Path) -> bool {
    let is_readable = |file: &PathBuf| ld_so::needed(file).is_ok();
    let files = |pattern: &&str| matching(dir, pattern);
    let has_one = kind.always_there.iter().any(|pattern| files(pattern).iter().any(is_readable));
    has_one
        && kind.libraries.iter().all(|pattern| files(pattern).iter().all(is_readable))
        && kind.kernels.is_none_or(|pattern| files(&pattern).iter().any(is_readable))
}

/// The library that opens cuDNN by name. If not every release does, its bytes must contain the name.
fn opener(by_name: &ByName, dir: &Path) -> Option<PathBuf> {
    let file = first_matching(dir, by_name.from)?;
    (!by_name.depends_on_release || bytes::contain_cudnn(&file)).then_some(file)
}

fn is_cudnn_file(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_cudnn)
}
