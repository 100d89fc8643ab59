//! The libraries that cuDNN opens by name, on all simulated systems.

use std::path::Path;

use cudnn_probe::{Host, Library, Os, Requirements, Search, select};

use super::known::Known;
use super::outcome::{Damaged, OpenedFile, Opens, SearchRule};
use crate::files::file_name;
use crate::library_names::cudnn_library;

/// The part of cuDNN that a framework uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// All libraries, eventually.
    All,
    /// The graph API, for example for a convolution before another framework is imported.
    Graph,
}

impl Use {
    /// Returns the libraries that the cuDNN 9 shim opens, and the libraries that graph opens afterwards.
    pub(super) fn libraries(self) -> (&'static [Library], &'static [Library]) {
        match self {
            Use::All => {
                const ALL: &[Library] = &[Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];
                (ALL, Library::OPENED_BY_GRAPH)
            }
            Use::Graph => (&[Library::Graph, Library::Ops], &[]),
        }
    }
}

impl Opens {
    /// Adds the installation that the loader selects if the first file in `cudnn` is the drop-in.
    pub(super) fn add_selected(&mut self, host: Host, os: Os) {
        self.has_drop_in = true;
        let Some(drop_in) = self.cudnn.first_mut() else { return };
        // The drop-in may load another installation than the one next to it.
        drop_in.version = None;
        let name = Library::Graph.name_on(os).to_owned();
        let search = Search::new(host).add_adjacent(drop_in.path.parent().unwrap_or(Path::new("")));
        match select(&search, &Requirements::default()).installation {
            Some(selected) => {
                let (path, version) = (selected.path(Library::Graph), Some(selected.version));
                self.cudnn.insert(1, OpenedFile { name, path, by: SearchRule::DropIn, version });
            }
            None => self.missing.push(name),
        }
    }

    pub(super) fn add_damage(&mut self, known: &Known) {
        self.damaged.extend(self.cudnn.iter().filter_map(|opened| damage(&opened.path, known)));
    }
}

pub(super) fn damage(file: &Path, known: &Known) -> Option<Damaged> {
    let reason = known.identity(file, cudnn_library(file_name(file))?).err()?;
    Some(Damaged { path: file.to_owned(), reason, rule: None })
}
