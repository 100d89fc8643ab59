//! Runs the planner with a real cuDNN that plans for a described H200, or with a stand-in that executes.

use std::path::PathBuf;

use support::{Child, FakeLibrary, Library, PlanningLibraries, Subject, TempDir, Version, lib_dir};

use crate::plans::PLANNER;

/// A directory with cuDNN.
pub(super) struct Planning {
    pub(super) dir: TempDir,
    pub(super) cudnn: PathBuf,
    /// `None` for the stand-in.
    pub(super) libraries: Option<PlanningLibraries>,
}

impl Planning {
    pub(super) fn real(test: &str, release: &str) -> Option<Self> {
        let (libraries, cudnn) = (PlanningLibraries::new(test)?, lib_dir(release)?);
        let dir = TempDir::new();
        std::fs::write(dir.path().join("h200.json"), cudnn_backend::device::H200).unwrap();
        Some(Planning { dir, cudnn, libraries: Some(libraries) })
    }

    pub(super) fn stand_in() -> Self {
        let dir = TempDir::new();
        let code = include_str!("../../layers/planner.c");
        let graph =
            FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).with_body("LOG; return 0;");
        graph.build(&dir.file(Library::Graph));
        Planning { cudnn: dir.path().to_owned(), dir, libraries: None }
    }

    /// Returns the file that describes the H200.
    pub(super) fn device(&self) -> String {
        self.dir.path().join("h200.json").display().to_string()
    }

    /// Returns the planner with directories for cuDNN and cached plans.
    pub(super) fn child(&self) -> Child {
        let child = Child::new(PLANNER, Subject::Loader, &self.cudnn);
        let child = child.env("CUDNN_PLANS_DIR", self.dir.path().join("plans"));
        match &self.libraries {
            Some(libraries) => child.env("LD_LIBRARY_PATH", &libraries.path),
            None => child,
        }
    }
}
