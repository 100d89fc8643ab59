//! What the import of a framework fails without, besides CUDA and cuDNN: libraries of its package and of the system that
//! its libraries are linked to.

use std::path::Path;

use cudnn_probe::ld_so::{Lookup, Resolution};

use super::process::{Process, is_of_cuda};
use super::{Damaged, Opens, Unfound};
use crate::cudnn_name::is_cudnn;
use crate::driver::is_of_driver;
use crate::kind::{Kind, matching};

/// Adds what is missing or damaged among the lookups since this one, and what the other libraries that the framework
/// opens lack.
pub(super) fn check(process: &Process, kind: &Kind, dir: &Path, first_lookup: usize, opens: &mut Opens) {
    add(process.simulation.lookups().get(first_lookup..).unwrap_or_default(), opens);
    // These must not change what is found for the others.
    let mut apart = process.simulation.fork();
    for file in kind.also_opens.iter().flat_map(|pattern| matching(dir, pattern)) {
        apart.open_file(&file, 0);
    }
    add(apart.lookups(), opens);
}

fn add(lookups: &[Lookup], opens: &mut Opens) {
    let is_other = |lookup: &&Lookup| !is_cudnn(&lookup.name) && !is_of_driver(&lookup.name);
    for lookup in lookups.iter().filter(is_other) {
        if let Some(damaged) = Damaged::of(lookup) {
            if !opens.damaged_others.iter().any(|known| known.path == damaged.path) {
                opens.damaged_others.push(damaged);
            }
            continue;
        }
        let is_missing = matches!(lookup.resolution, Resolution::Missing);
        let requester = lookup.requested_by.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_asked_by_cuda = is_of_cuda(requester) || is_cudnn(requester);
        let is_known = opens.unfound.iter().any(|known| known.name == lookup.name);
        if is_missing && !is_of_cuda(&lookup.name) && !is_asked_by_cuda && !is_known && !lookup.name.contains('/') {
            opens.unfound.push(Unfound { name: lookup.name.clone(), needed_by: lookup.requested_by.clone() });
        }
    }
}
