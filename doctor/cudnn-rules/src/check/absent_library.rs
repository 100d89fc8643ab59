//! Recognizes libraries that a release opens although they are missing from the packages. ld.so may then load them from
//! another installation.

use cudnn_cli::escape::Printable;
use std::path::Path;

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::release_facts::{LIBRARY_SINCE, has_library, opens_library};
use cudnn_probe::{Library, Version};

use super::remedies::{self, Wanted};
use crate::context::Context;
use crate::cudnn_file;
use crate::remedy::Remedy;

pub(super) struct AbsentLibrary {
    release: Version,
    library: Library,
    since: Version,
}

impl AbsentLibrary {
    /// Returns the library if this release opens it and the packages lack it.
    pub(super) fn of(release: Version, name: &str) -> Option<AbsentLibrary> {
        let library = cudnn_file::library(name).filter(|library| opens_library(release, *library))?;
        let since = LIBRARY_SINCE.iter().find(|(other, _)| *other == library)?.1;
        (!has_library(release, library)).then_some(AbsentLibrary { release, library, since })
    }

    pub(super) fn reason(&self, file: &Path) -> String {
        let AbsentLibrary { release, library, .. } = self;
        format!("cuDNN {release} opens {library}, which its packages lack, so that ld.so finds {}", file.printable())
    }

    /// Suggests a fix that works for every installer.
    pub(super) fn advice(&self, file: &Path) -> Remedy {
        Remedy::new(format!("install cuDNN {} or newer, or remove {}", self.since, file.printable()))
    }

    pub(super) fn upgrade(&self, file: &Path, report: &InstallationReport, context: &Context) -> Remedy {
        let wanted = Wanted { minimum: Some(self.since), ..Wanted::default() };
        match remedies::upgrade_to_requirement(report, &wanted, &[], context) {
            Ok(remedy) => remedy,
            Err(reason) => Remedy::new(format!("{reason}, or remove {}", file.printable())),
        }
    }
}
