//! Provides what the simulations of all systems share about the libraries that cuDNN opens by name.

use std::path::Path;

use cudnn_probe::{Host, Library, Os, Requirements, Search, select};

use super::known::{Known, library_of};
use super::outcome::{Damaged, Opened, Opens, SearchRule};

/// How much of cuDNN a framework uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// All libraries, sooner or later.
    All,
    /// The graph API, such as for a convolution: what a framework has loaded when another one comes.
    Graph,
}

impl Use {
    /// The libraries that the shim of cuDNN 9 opens, and those that its graph library opens then.
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
    /// Adds the installation that this project's loader selects for the drop-in, which is the first of `cudnn`.
    pub(super) fn add_selected(&mut self, host: Host, os: Os) {
        self.has_drop_in = true;
        let Some(drop_in) = self.cudnn.first_mut() else { return };
        // What is beside it need not be what it loads.
        drop_in.version = None;
        let name = Library::Graph.name_on(os).to_owned();
        let search = Search::new(host).add_adjacent(drop_in.path.parent().unwrap_or(Path::new("")));
        match select(&search, &Requirements::default()).installation {
            Some(selected) => {
                let (path, version) = (selected.path(Library::Graph), Some(selected.version));
                self.cudnn.insert(1, Opened { name, path, by: SearchRule::DropIn, version });
            }
            None => self.missing.push(name),
        }
    }

    /// Adds the files of cuDNN 9 that would be loaded and are damaged.
    pub(super) fn add_damage(&mut self, known: &Known) {
        self.damaged.extend(self.cudnn.iter().filter_map(|opened| damage(&opened.path, known)));
    }
}

/// What is wrong with a file of cuDNN 9, if anything is.
pub(super) fn damage(file: &Path, known: &Known) -> Option<Damaged> {
    let reason = known.identity(file, library_of(file)?).err()?;
    Some(Damaged { path: file.to_owned(), reason, rule: None })
}
